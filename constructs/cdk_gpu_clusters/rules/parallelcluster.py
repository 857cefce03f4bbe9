"""AWS ParallelCluster: what its configuration refuses, or has no word for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from cdk_gpu_clusters.catalogue import InstanceType, NetworkCard
from cdk_gpu_clusters.catalogue.parallelcluster import (
    LONGEST_CLUSTER_NAME,
    LONGEST_NAME,
    LONGEST_RECORDED_NAME,
    LONGEST_STORAGE_NAME,
    MOST_COMPUTE_RESOURCES,
    MOST_QUEUES,
    PARALLELCLUSTER_VERSION,
    accelerators_with_driver,
    families_without_driver,
    refused_settings,
    reserved_folders,
    system_names,
)
from cdk_gpu_clusters.errors import Finding, Severity, check, define_rule
from cdk_gpu_clusters.rules.capacity import CapacityTerms
from cdk_gpu_clusters.rules.interfaces import (
    InterfacePlan,
    InterfacePolicy,
    NetworkInterface,
    efa_gbps_of,
    ena_gbps_of,
    plan_interfaces,
)
from cdk_gpu_clusters.rules.placement import PlacementStrategy

_PACKAGE = "aws-parallelcluster 3.16.1 on PyPI"

NAME = define_rule(
    "GPU-PCL-001",
    "a queue or compute resource of ParallelCluster has a name of lower-case letters, digits and hyphens",
    source=f"{_PACKAGE}, NameValidator, by the catalogue",
)
LAYOUT = define_rule(
    "GPU-PCL-002",
    "ParallelCluster lays out the network interfaces itself, by the cards of the type",
    source=f"{_PACKAGE}, templates/queues_stack.py, add_network_interfaces; LaunchTemplateOverrides and DevSettings "
    "of the configuration",
)
MIG = define_rule(
    "GPU-PCL-003",
    "nodes of ParallelCluster have GPUs that are not split",
    source=f"{_PACKAGE}, SLURM_SETTINGS_DENY_LIST: Gres of a compute resource; aws/aws-parallelcluster-cookbook @ "
    "f75d84c, slurm_parallelcluster_gres.conf: one GRES for each GPU of the type",
)
PLACEMENT = define_rule(
    "GPU-PCL-004",
    "a placement group that ParallelCluster makes is a cluster placement group",
    source=f"{_PACKAGE}, templates/cluster_stack.py, managed placement groups: strategy cluster",
)
SETTING = define_rule(
    "GPU-PCL-005",
    "a custom setting of Slurm is none that ParallelCluster sets itself",
    source=f"{_PACKAGE}, SLURM_SETTINGS_DENY_LIST, by the catalogue",
)
MOUNT = define_rule(
    "GPU-PCL-006",
    "shared storage of ParallelCluster is mounted on all nodes, at directories that it does not use itself",
    source=f"{_PACKAGE}, SharedStorage of the configuration: SharedStorageMountDirValidator, "
    "DuplicateMountDirValidator, SharedStorageNameValidator",
)
SYSTEM = define_rule(
    "GPU-PCL-007",
    "all nodes of a cluster of ParallelCluster have one operating system",
    source=f"{_PACKAGE}, Image.Os of the configuration",
)
COUNTS = define_rule(
    "GPU-PCL-008",
    "a cluster of ParallelCluster has at most 50 queues and 50 compute resources",
    source=f"{_PACKAGE}, MaxCountValidator, by the catalogue",
)
BLOCK_BY_ID = define_rule(
    "GPU-PCL-009",
    "ParallelCluster launches into a Capacity Block by its id",
    source=f"{_PACKAGE}, CapacityTypeValidator",
)

ARCHITECTURE = define_rule(
    "GPU-PCL-011",
    "the processors of all nodes of a cluster of ParallelCluster have one architecture",
    source=f"{_PACKAGE}, InstanceArchitectureCompatibilityValidator",
)

CLOSED_NETWORK = define_rule(
    "GPU-PCL-017",
    "nodes of ParallelCluster reach Amazon DynamoDB",
    source=f"{_PACKAGE}, templates/cluster_stack.py: a table of DynamoDB keeps the state of nodes",
)

DRIVER = define_rule(
    "GPU-PCL-018",
    "the image of nodes of ParallelCluster has the driver of their accelerators",
    source="aws/aws-parallelcluster-cookbook @ f75d84c, nvidia_driver, and 02bde4c, which took Neuron's driver out; "
    f"{_PACKAGE}, InstanceTypeBaseAMICompatibleValidator",
)
SUBNETS = define_rule(
    "GPU-PCL-019",
    "nodes of ParallelCluster have one subnet in a zone",
    source=f"{_PACKAGE}, QueueSubnetsValidator",
)

_PROVIDER = "aws/aws-parallelcluster @ 451cc53, cloudformation/custom_resource/cluster.yaml"
CLUSTER_NAME = define_rule(
    "GPU-PCL-013",
    "the name of a cluster of ParallelCluster has letters, digits and hyphens",
    source=f"{_PACKAGE}, ClusterNameValidator, by the catalogue",
)
PROVIDER_RIGHTS = define_rule(
    "GPU-PCL-014",
    "the function that makes clusters of ParallelCluster has the rights that you gave it",
    source=f"{_PROVIDER}: EnableIamAdminAccess, CustomLambdaRole, S3Policy, EventsPolicy",
)
PROVIDER_VERSION = define_rule(
    "GPU-PCL-015",
    "the provider of clusters has the version for which the configuration is written, and keeps it",
    source=f"{_PROVIDER}: a layer with one version of ParallelCluster; awslabs/sbt-aws 182: another version is another "
    "cluster",
)
DELETED_WITH_STACK = define_rule(
    "GPU-PCL-016",
    "a cluster of ParallelCluster outlives its stack",
    source=f"{_PROVIDER}: DeletionPolicy, delete and poll; AWS ParallelCluster user guide, AWS CloudFormation custom "
    "resource: pcluster must not delete a cluster. One that is kept is the exception: CloudFormation never deletes it",
)


@check
def check_cluster_name(name: str, *, records_jobs: bool) -> Iterator[Finding]:
    """Find a name of a cluster that ParallelCluster refuses.

    Args:
        name: The name.
        records_jobs: Whether Slurm records jobs in a database.
    """
    longest = LONGEST_RECORDED_NAME if records_jobs else LONGEST_CLUSTER_NAME
    if len(name) > longest or not re.fullmatch(r"[a-zA-Z][a-zA-Z0-9-]*", name):
        yield CLUSTER_NAME.finding(
            cause="ParallelCluster refuses this name of a cluster",
            got=name,
            allowed=f"a letter, then letters, digits and hyphens; at most {longest} characters",
            fix="choose another name",
            path="cluster_name",
        )


@check
def check_provider(*, version: str, has_role: bool) -> Iterator[Finding]:
    """Find what is surprising about a provider of clusters.

    Args:
        version: Its version of ParallelCluster.
        has_role: Whether its function has a role of yours.
    """
    if version != PARALLELCLUSTER_VERSION:
        yield PROVIDER_VERSION.finding(
            cause="a provider makes and updates clusters of its own version only, and this library writes another",
            got=version,
            allowed=PARALLELCLUSTER_VERSION,
            fix="make a second provider of the new version, and a new cluster with it; or acknowledge this",
            path="version",
            severity=Severity.WARNING,
        )
    if not has_role:
        yield PROVIDER_RIGHTS.finding(
            cause="AWS's template lets the function make and change roles of IAM, as clusters of ParallelCluster need",
            got="the role of the template",
            fix="pass a role that lambda.amazonaws.com assumes, with ParallelCluster's user policies, "
            "AWSLambdaBasicExecutionRole, and rights to the bucket and function of the provider and to rules of "
            "EventBridge; or acknowledge this",
            path="role",
            severity=Severity.WARNING,
        )


@check
def check_removal(*, is_deleted: bool) -> Iterator[Finding]:
    """Find a cluster that goes with its stack.

    Args:
        is_deleted: Whether the deletion of the stack deletes the cluster.
    """
    if is_deleted:
        yield DELETED_WITH_STACK.finding(
            cause="the deletion of the stack ends all nodes and jobs of the cluster",
            got="RemovalPolicy.DESTROY",
            allowed="RemovalPolicy.RETAIN",
            fix="leave removal_policy out once the cluster has been made; from then on, run pcluster delete-cluster "
            "before you delete the stack",
            path="removal_policy",
            severity=Severity.WARNING,
        )


@check
def check_name(name: str) -> Iterator[Finding]:
    """Find a name that ParallelCluster refuses.

    Args:
        name: Name of a queue or of a compute resource.
    """
    if len(name) > LONGEST_NAME or not re.fullmatch(r"[a-z][a-z0-9-]*", name) or name == "default":
        yield NAME.finding(
            cause="ParallelCluster refuses this name of a queue",
            got=name,
            allowed=f"a lower-case letter, then lower-case letters, digits and hyphens; at most {LONGEST_NAME} "
            "characters, and not default",
            fix="rename it",
        )


@check
def check_layout(policy: InterfacePolicy | None) -> Iterator[Finding]:
    """Find a layout of network interfaces that ParallelCluster does not make.

    Args:
        policy: The requested layout; None if it is left open.
    """
    if policy not in (None, InterfacePolicy.MINIMUM_IP):
        yield LAYOUT.finding(
            cause="ParallelCluster lays out the interfaces by the instance type",
            got=policy.value,
            allowed=InterfacePolicy.MINIMUM_IP.value,
            fix="remove interface_policy",
            path="interface_policy",
        )


def plan_node_interfaces(kind: InstanceType, *, efa: bool) -> InterfacePlan:
    """The interfaces of a node: with EFA on every card that has it, and one address; else an address on every card.

    Source: aws-parallelcluster 3.16.1 on PyPI, templates/queues_stack.py: add_network_interfaces.

    Args:
        kind: Its type.
        efa: Whether it has EFA.

    Example:
        >>> from cdk_gpu_clusters.catalogue import instance_type
        >>> plan = plan_node_interfaces(instance_type("p5.48xlarge"), efa=False)
        >>> plan.efa_count, plan.ip_addresses_per_node
        (0, 32)
    """
    plan, has_efa = plan_interfaces(kind, efa=efa), efa and kind.network.efa is not None
    interfaces = tuple(_with_efa(kind) if has_efa else _without_efa(kind))
    return replace(
        plan,
        interfaces=interfaces,
        efa_gbps=efa_gbps_of(kind, [one.network_card_index for one in interfaces if one.is_efa]),
        ena_gbps=ena_gbps_of(kind, [one.network_card_index for one in interfaces if one.has_ip]),
        ip_addresses_per_node=sum(one.has_ip for one in interfaces),
        may_have_public_ip=len(interfaces) == 1,
        basis=f"as AWS ParallelCluster {PARALLELCLUSTER_VERSION} lays them out",
    )


def _with_efa(kind: InstanceType) -> Iterator[NetworkInterface]:
    first, *others = kind.network.cards
    # ParallelCluster infers it of the first card: it has EFA if there are as many EFA interfaces as cards.
    is_on_first = kind.network.efa is not None and kind.network.efa.max_interfaces == len(kind.network.cards)
    if is_on_first and first.max_interfaces < _WITH_IP_AND_EFA:
        yield NetworkInterface(0, 0, "efa")
    else:
        yield NetworkInterface(0, 0)
        if is_on_first:
            yield NetworkInterface(0, 1, "efa-only")
    for card in others:
        yield NetworkInterface(card.index, _device(card), "efa-only")


def _without_efa(kind: InstanceType) -> Iterator[NetworkInterface]:
    for card in kind.network.cards:
        if "interface" in card.interface_types:
            yield NetworkInterface(card.index, _device(card) if card.index else 0)


def _device(card: NetworkCard) -> int:
    return 0 if card.max_interfaces == 1 else 1


_WITH_IP_AND_EFA = 2


@check
def check_addresses(kind: InstanceType, *, efa: bool) -> Iterator[Finding]:
    """Find nodes that take more addresses than elsewhere: without EFA, every network card gets one.

    Args:
        kind: Type of the nodes.
        efa: Whether they have EFA.
    """
    addresses = plan_node_interfaces(kind, efa=efa).ip_addresses_per_node
    if addresses > 1:
        yield LAYOUT.finding(
            cause="without EFA, ParallelCluster gives every network card an interface with an IP address",
            got=f"{addresses} addresses for each node of {kind.name}",
            allowed="one address, with EFA",
            fix="leave efa out, or make the subnet large enough",
            path="efa",
            severity=Severity.WARNING,
        )


@check
def check_whole_gpus(*, is_split: bool) -> Iterator[Finding]:
    """Find MIG: Slurm would offer each split GPU as one that is not.

    Args:
        is_split: Whether GPUs are split.
    """
    if is_split:
        yield MIG.finding(
            cause="ParallelCluster writes the GRES of a node by its instance type, and refuses others: jobs could not "
            "ask for a slice",
            got="mig",
            allowed="GPUs that are not split",
            fix="remove mig, or write orchestrator: pcs, whose nodes have slices as GRES",
            path="mig",
        )


@check
def check_placement_of_queue(strategy: PlacementStrategy | None) -> Iterator[Finding]:
    """Find a placement that ParallelCluster does not make.

    Args:
        strategy: The requested strategy; None if it is left open.
    """
    if strategy not in (None, PlacementStrategy.CLUSTER, PlacementStrategy.NONE):
        yield PLACEMENT.finding(
            cause="ParallelCluster makes cluster placement groups only",
            got=strategy.value,
            allowed="cluster, none",
            fix="write placement: none, or use another orchestrator",
            path="placement",
        )


@check
def check_capacity_of_queue(terms: CapacityTerms) -> Iterator[Finding]:
    """Find capacity that ParallelCluster cannot launch into.

    Args:
        terms: How the nodes are bought.
    """
    if terms.kind.is_block and not terms.reservation_ids:
        yield BLOCK_BY_ID.finding(
            cause="ParallelCluster takes the id of a Capacity Block, not a resource group",
            got=terms.reservation_group_arn or "no id",
            allowed="cr-...",
            fix="name the reservation of the block, also",
            path="capacity",
        )


@check
def check_settings(settings: Iterable[str], *, level: str) -> Iterator[Finding]:
    """Find custom settings of Slurm that ParallelCluster sets itself.

    Args:
        settings: Names of the settings.
        level: `cluster`, `queue` or `compute resource`.
    """
    for name in settings:
        if name.lower() in refused_settings()[level]:
            yield SETTING.finding(
                cause=f"ParallelCluster sets this itself at the level of the {level}",
                got=name,
                fix="remove it",
                path=name,
            )


@check
def check_egress(*, is_closed: bool) -> Iterator[Finding]:
    """Find a network without a way to DynamoDB.

    Args:
        is_closed: Whether it is one that this library makes without internet access: it has no endpoint of DynamoDB.
    """
    if is_closed:
        yield CLOSED_NETWORK.finding(
            cause="nodes of ParallelCluster keep their state in DynamoDB, to which a closed network that is made here "
            "has no way",
            got="egress: closed",
            allowed="egress: nat, or an existing network with endpoints of DynamoDB, CloudFormation and EC2",
            fix="write egress: nat, or name an existing network",
        )


@check
def check_driver(kind: InstanceType, *, has_own_image: bool, has_script: bool) -> Iterator[Finding]:
    """Find accelerators without a driver, whose nodes would fail their checks until ParallelCluster stops the queue.

    Args:
        kind: Type of the nodes.
        has_own_image: Whether they have an image of yours.
        has_script: Whether they run a script of yours before the checks, which can install a driver.
    """
    accelerator = kind.accelerator
    if accelerator is None or has_own_image:
        return
    is_unknown = accelerator.kind.value not in accelerators_with_driver()
    if (is_unknown and not has_script) or kind.family in families_without_driver():
        yield DRIVER.finding(
            cause=f"ParallelCluster's own images have no driver for {accelerator.name}",
            got=kind.name,
            allowed="an image with the driver",
            fix="build one with pcluster build-image, and write image: { id: ami-..., os: ... }"
            + ("; or install the driver by user_data" if is_unknown else ""),
            path="instance_type",
        )


@check
def check_subnets(count: int) -> Iterator[Finding]:
    """Find several subnets, all of which are in the zone of the fleets.

    Args:
        count: How many there are.
    """
    if count > 1:
        yield SUBNETS.finding(
            cause="ParallelCluster refuses a queue with two subnets in one zone",
            got=f"{count} subnet_ids",
            allowed="one subnet",
            fix="keep one subnet, large enough for every node",
        )


@check
def check_mount_point(path: str) -> Iterator[Finding]:
    """Find a directory at which ParallelCluster mounts nothing.

    Args:
        path: Directory of the nodes.
    """
    if str(PurePosixPath(path)) in reserved_folders():
        yield MOUNT.finding(
            cause="ParallelCluster keeps this directory for the system",
            got=path,
            allowed="another one, such as /fsx or /home",
            fix="mount the store elsewhere",
        )


@check
def check_storage_name(name: str) -> Iterator[Finding]:
    """Find a name of shared storage that ParallelCluster refuses.

    Args:
        name: The name.
    """
    if len(name) > LONGEST_STORAGE_NAME or name == "default":
        yield MOUNT.finding(
            cause="ParallelCluster refuses this name of shared storage",
            got=name,
            allowed=f"at most {LONGEST_STORAGE_NAME} characters, and not default",
            fix="rename the store",
        )


@check
def check_one_system(systems: Mapping[str, str | None]) -> Iterator[Finding]:
    """Find nodes of several operating systems.

    Args:
        systems: Operating system by fleet; None where the fleet leaves it open.
    """
    asked = {fleet: system for fleet, system in systems.items() if system is not None}
    if len(set(asked.values())) > 1:
        first = next(iter(asked.values()))
        yield SYSTEM.finding(
            cause="the nodes of one cluster of ParallelCluster have one operating system",
            got=", ".join(f"{system} of {fleet}" for fleet, system in asked.items()),
            allowed=", ".join(system_names()),
            fix=f"write the same os for all fleets, such as {first}",
        )


@check
def check_one_architecture(architectures: Mapping[str, str]) -> Iterator[Finding]:
    """Find nodes of several architectures: the head node shares its programs with all of them.

    Args:
        architectures: Architecture of the processors by group of nodes, such as `arm64`.
    """
    if len(set(architectures.values())) > 1:
        yield ARCHITECTURE.finding(
            cause="the nodes of one cluster of ParallelCluster have processors of one architecture",
            got=", ".join(f"{architecture} of {group}" for group, architecture in architectures.items()),
            allowed="x86_64 or arm64 for all",
            fix="choose types of one architecture, or make two clusters",
        )


@check
def check_counts(queues: Sequence[int]) -> Iterator[Finding]:
    """Find more queues or compute resources than a cluster can have.

    Args:
        queues: Number of compute resources of each queue.
    """
    if len(queues) > MOST_QUEUES or sum(queues) > MOST_COMPUTE_RESOURCES:
        yield COUNTS.finding(
            cause="the cluster is too large for ParallelCluster",
            got=f"{len(queues)} queues with {sum(queues)} compute resources",
            allowed=f"{MOST_QUEUES} and {MOST_COMPUTE_RESOURCES}",
            fix="make two clusters",
        )


#: What a cluster file has and ParallelCluster's configuration has not: a warning, since the cluster works without it.
NOT_EXPORTED = define_rule(
    "GPU-PCL-010",
    "the configuration of ParallelCluster has everything that the cluster file asks for",
    source=f"{_PACKAGE}, ClusterSchema",
)


def not_exported(cause: str, *, got: str, fix: str = "", path: str = "") -> Finding:
    """What is left out of a configuration.

    Args:
        cause: Why ParallelCluster has it not.
        got: What is left out.
        fix: What does the same there.
        path: Place of it.
    """
    return NOT_EXPORTED.finding(cause=cause, got=got, fix=fix, path=path, severity=Severity.WARNING)
