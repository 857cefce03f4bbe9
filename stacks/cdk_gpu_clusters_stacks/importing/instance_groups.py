"""Instance groups of Amazon SageMaker HyperPod, in the words of CreateCluster: both kinds of its files have them.

What a key means is stated by botocore 1.44.5, sagemaker service model: ClusterInstanceGroupSpecification.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cdk_gpu_clusters.catalogue.instances import InstanceType
from cdk_gpu_clusters.catalogue.regions import region_of_zone
from cdk_gpu_clusters.rules.interfaces import InterfacePolicy, Orchestrator

from .draft import Change, Draft, Note
from .foreign import Part
from .group import Group, Market, Volume, accelerated, fleet_name, laid_out, write_fleet
from .judge import Deployed
from .stores import write_lustre_by_name, write_openzfs_by_name

_CLUSTER = "Cluster"
#: What SageMaker writes before the names of types of EC2.
ML = "ml."
_SCRIPTS = "call the scripts in one shell script beside the cluster file, and name it in `user_data` of the fleet"
_IMAGE = "an image of HyperPod starts its own agent: fleets take AWS's image for their accelerator"
_UPDATES = "`update` of the fleet decides whether a change, such as a newer image, replaces running nodes"
_KUBELET = "the library sets labels and taints of its nodes itself, see its page about Amazon EKS"
#: Keys of an instance group -> what becomes of them.
LOST_OF_GROUPS: Mapping[str, str] = {
    "AutoPatchConfig": _UPDATES,
    "ExecutionRole": "nodes have the smallest role that works; grant more in an app, with `role` of the fleet",
    "ImageId": _IMAGE,
    "ImageReleaseVersion": _IMAGE,
    "InstanceStorageConfigs": "nodes have one volume, and their local disks at /scratch",
    "KubernetesConfig": _KUBELET,
    "LifeCycleConfig": f"{_SCRIPTS}; nodes have no /opt/ml/config",
    "MinInstanceCount": "a fleet deploys with the nodes that launch, and launches the others when there is capacity",
    "OverrideVpcConfig": "the fleet has a security group of its own, with EFA's rules",
    "ScheduledUpdateConfig": _UPDATES,
    "SlurmConfig": "AWS PCS keeps the controller",
    "ThreadsPerCore": "nodes run with the threads that EC2 gives them; jobs ask for cores",
}
_ARN = re.compile(r"arn:aws[a-z-]*:(?:eks|sagemaker|secretsmanager):([a-z0-9-]+):[0-9]{12}:.+")
_DNS_REGION = re.compile(r"fs-[0-9a-f]+\.fsx\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?")


def orchestrators_of(*, is_eks: bool) -> tuple[str, ...]:
    """The orchestrators of the cluster file that a cluster of HyperPod can become, the first one by default."""
    return ("hyperpod-eks", "eks") if is_eks else ("hyperpod-slurm", "pcs")


@dataclass(frozen=True, slots=True)
class InstanceGroups:
    """The instance groups of a file.

    Attributes:
        is_eks: Whether the cluster is on Amazon EKS.
        fleets: Those with accelerators.
        controllers: Those of Slurm's controller.
        logins: Those of login nodes.
        others: The others.
    """

    is_eks: bool
    fleets: list[Group] = field(default_factory=list)
    controllers: list[Part] = field(default_factory=list)
    logins: list[Part] = field(default_factory=list)
    others: list[Part] = field(default_factory=list)


def read_instance_groups(groups: Part, *, is_eks: bool) -> InstanceGroups:
    """Read the instance groups.

    Args:
        groups: The list of them.
        is_eks: Whether the cluster is on Amazon EKS.
    """
    found = InstanceGroups(is_eks)
    for part in groups.items():
        task = _task(part)
        if not is_eks and task in ("Controller", "Login"):
            (found.controllers if task == "Controller" else found.logins).append(part)
            continue
        several = part["InstanceRequirements"]["InstanceTypes"].items()
        type_part = several[0] if several and not part["InstanceType"].exists else part["InstanceType"]
        kind = accelerated(type_part, prefix=ML) if type_part.exists else None
        if kind is None:
            found.others.append(part)
        else:
            found.fleets.append(_group(part, kind, type_part, is_eks=is_eks))
    return found


def _task(part: Part) -> str:
    """The task of the nodes in Slurm. Without `SlurmConfig`, a file of the lifecycle scripts maps names to tasks."""
    given = part["SlurmConfig"]["NodeType"]
    if given.exists:
        return given.text() or ""
    name = str(part["InstanceGroupName"].value).lower()
    return "Controller" if re.search("controller|head", name) else "Login" if "login" in name else "Compute"


def _group(part: Part, kind: InstanceType, type_part: Part, *, is_eks: bool) -> Group:
    count = part["InstanceCount"].number() or 0
    plan, spot = part["TrainingPlanArn"], part["CapacityRequirements"]["Spot"]
    for one in (spot, part["CapacityRequirements"]["OnDemand"]):
        if one.value == {}:  # as SageMaker takes it
            one.skip()
    given = part["NetworkInterface"]["InterfaceType"]
    return Group(
        name=fleet_name(part["InstanceGroupName"].text() or "nodes"),
        part=part,
        instance_type=kind,
        type_part=type_part,
        minimum=count,
        maximum=count,
        counts=part["InstanceCount"] if part["InstanceCount"].exists else part,
        market=Market.BLOCK if plan.exists else Market.SPOT if spot.exists else Market.ON_DEMAND,
        market_part=plan if plan.exists else spot,
        placed=kind.supports_efa and not plan.exists,
        efa=kind.supports_efa,
        efa_part=given if given.exists else type_part,
        interfaces=laid_out(
            kind,
            policy=policy_of(part),
            efa=kind.supports_efa,
            orchestrator=Orchestrator.HYPERPOD_EKS if is_eks else Orchestrator.HYPERPOD_SLURM,
        ),
        volume=_volume(part),
    )


def policy_of(part: Part) -> InterfacePolicy:
    """How SageMaker lays out the interfaces of a group."""
    is_only = part["NetworkInterface"]["InterfaceType"].text() == "efa-only"
    return InterfacePolicy.MINIMUM_IP if is_only else InterfacePolicy.EFA_PER_CARD


def _volume(part: Part) -> Volume:
    """The root volume: that of HyperPod is as its image has it, and is always encrypted."""
    second = next((one for one in volumes_of(part) if not one["RootVolume"].flag()), None)
    size = None if second is None else second["VolumeSizeInGB"]
    return Volume(size_gib=None if size is None else size.number(), encrypted=True, part=part if size is None else size)


def volumes_of(part: Part) -> Iterator[Part]:
    """The EBS volumes of a group."""
    return (one["EbsVolumeConfig"] for one in part["InstanceStorageConfigs"].items() if one["EbsVolumeConfig"].exists)


# What the fleets have beside their groups.


def write_instance_groups(draft: Draft, found: InstanceGroups, mounts: Mapping[str, Mapping[str, str]]) -> None:
    """Write the fleets.

    Args:
        draft: The cluster file.
        found: The instance groups.
        mounts: Directories and stores of each fleet, by its name.
    """
    for group in found.fleets:
        no_price = "HyperPod has no price limit of Spot"
        write_fleet(draft, group, no_spot_price=no_price, orchestrator=_interfaces_of(is_eks=found.is_eks))
        if mounts.get(group.name):
            draft.put(
                "training", "fleets", group.name, "mounts", value=dict(mounts[group.name]),
                of=group.part["InstanceStorageConfigs"],
            )  # fmt: skip
        _note_group(draft, group)


def _interfaces_of(*, is_eks: bool) -> Orchestrator:
    return Orchestrator.EKS_MANAGED if is_eks else Orchestrator.PCS


def _note_group(draft: Draft, group: Group) -> None:
    part = group.part
    if group.market is Market.BLOCK:
        text = "a training plan serves SageMaker only: buy a Capacity Block, or move the group when the plan has ended"
        draft.note(Change.REPLACED, text, part["TrainingPlanArn"])
    if group.maximum == 0:
        draft.note(Change.REPLACED, "0 nodes become 1: write `min_nodes` and `max_nodes`", part["InstanceCount"])
    for extra in part["InstanceRequirements"]["InstanceTypes"].items()[1:]:
        draft.note(Change.LOST, "a fleet has one instance type: the first one", extra)
    if group.volume.size_gib is not None:
        text = "nodes have one volume: the second one, at /opt/sagemaker, gives the root volume its size"
        draft.notes.append(Note(Change.REPLACED, group.volume.part.name, text, group.volume.part.place))
    for one in volumes_of(part):
        if (key := one["VolumeKmsKeyId"]).exists:
            draft.note(Change.LOST, "write the ARN of the key as `encryption_key_arn` of `root_volume`", key)
    if (checks := part["OnStartDeepHealthChecks"]).exists:
        draft.note(Change.REPLACED, "the boot checks of each node take their place", checks)


def note_nodes_of_others(draft: Draft, others: Sequence[Part]) -> None:
    """Say that groups without accelerators do not become fleets."""
    for part in others:
        name = part["InstanceGroupName"].value or part.name
        draft.note(Change.LOST, f"{name} has no accelerators of the catalogue: make it as a group of your own", part)


def note_recovery(draft: Draft, recovery: Part, *, is_eks: bool) -> None:
    """Say what checks and replaces nodes."""
    who = "pods get it" if is_eks else "Slurm gets it"
    text = f"every node checks its GPUs, NVLink, EFA and mounts before {who}"
    draft.notes.append(Note(Change.BETTER, "", text))
    if recovery.exists:
        draft.note(Change.REPLACED, "the watchdog of each node drains it, and repairs or replaces it", recovery)


def write_mounts(draft: Draft, part: Part) -> dict[str, str]:
    """Write the file systems that an instance group mounts, and give their directories and stores."""
    found: dict[str, str] = {}
    for one in part["InstanceStorageConfigs"].items():
        lustre, openzfs = one["FsxLustreConfig"], one["FsxOpenZfsConfig"]
        # Amazon SageMaker API reference, ClusterFsxLustreConfig and ClusterFsxOpenZfsConfig: the default directories.
        if lustre.exists:
            found[lustre["MountPath"].text() or "/fsx"] = write_lustre_by_name(
                draft, lustre["DnsName"], lustre["MountName"]
            )
        elif openzfs.exists:
            found[openzfs["MountPath"].text() or "/home"] = write_openzfs_by_name(draft, openzfs["DnsName"])
    return found


# The Region.


def region_in(parts: Sequence[Part]) -> Part | None:
    """The first of the values that names a Region by an ARN, a DNS name or a zone."""
    return next((part for part in parts if region_named_by(part) is not None), None)


def region_named_by(part: Part) -> str | None:
    """The Region in an ARN, in a DNS name of a file system, or of a zone."""
    text = part.value if isinstance(part.value, str) else ""
    if match := _ARN.fullmatch(text) or _DNS_REGION.fullmatch(text):
        return match[1]
    zone = region_of_zone(text) if text else None
    return None if zone is None else zone.name


# What HyperPod deploys.


def deployed_cluster(properties: Mapping[str, Part], *, name: str, network: Mapping[str, object] | None) -> Deployed:
    """The cluster as CloudFormation has it, whose properties are those of CreateCluster.

    Args:
        properties: Values of the file, by property.
        name: Name of the cluster.
        network: Its VpcConfig, where the file does not give it in these words.
    """
    made = Deployed()
    values = {key: part.value for key, part in properties.items() if part.exists}
    own = {} if network is None else {"VpcConfig": dict(network)}
    made.resources[_CLUSTER] = {"Type": "AWS::SageMaker::Cluster", "Properties": {"ClusterName": name, **own, **values}}
    for key, part in properties.items():
        made.origins |= dict(_places((_CLUSTER, "Properties", key), part))
        made.origins.setdefault((_CLUSTER,), part)
    return made


def _places(path: tuple[str, ...], part: Part) -> Iterator[tuple[tuple[str, ...], Part]]:
    yield path, part
    for child in part.children():
        yield from _places((*path, str(child.key[-1])), child)
