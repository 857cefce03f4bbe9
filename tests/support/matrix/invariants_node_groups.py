"""Invariants of managed node groups, from the guide of Amazon EKS. Its pages were read on 2026-11-22."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from matrix.cloud import Json, Place
from matrix.hardware import Hardware
from matrix.invariant import invariant
from matrix.nodes import Interface, Nodes

EKS_GUIDE = "Amazon EKS user guide"
_TEMPLATES = f'{EKS_GUIDE}, "Customize managed nodes with launch templates"'
_BLOCKS = f'{EKS_GUIDE}, "Create a managed node group with Capacity Blocks for ML"'

#: The capacity type of each purchase, and the market type that the launch template has beside it (the pages above).
_CAPACITY = {
    "on-demand": ("ON_DEMAND", None),
    "odcr": ("ON_DEMAND", None),
    "spot": ("SPOT", None),
    "capacity-block": ("CAPACITY_BLOCK", "capacity-block"),
    # "Use P6e-GB200 UltraServers with Amazon EKS": by Capacity Blocks, in managed node groups, too.
    "ultraserver-block": ("CAPACITY_BLOCK", "capacity-block"),
}
#: botocore 1.44.5, eks service model, AMITypes: Amazon Linux 2023 by accelerator and processor. No other one is there.
_IMAGES = {
    (None, "x86_64"): "AL2023_x86_64_STANDARD",
    (None, "arm64"): "AL2023_ARM_64_STANDARD",
    ("gpu", "x86_64"): "AL2023_x86_64_NVIDIA",
    ("gpu", "arm64"): "AL2023_ARM_64_NVIDIA",
    ("neuron", "x86_64"): "AL2023_x86_64_NEURON",
}
#: What the device plugins of NVIDIA and AWS Neuron call the devices, and who keeps other pods away from them.
_DEVICES = {"gpu": "nvidia.com/gpu", "neuron": "aws.amazon.com/neuron"}


@invariant("types-in-one-place", f"{_TEMPLATES}; {_BLOCKS}: the type of a block stands in the template")
def types_in_one_place(nodes: Nodes) -> Iterator[str]:
    """The launch template names the type, and so the node group names none."""
    group = nodes.node_group
    if group is not None and "InstanceTypes" in group:
        yield f"{group['InstanceTypes']} beside {nodes.data.get('InstanceType')}"


@invariant("template-says-it", f"{_TEMPLATES}: disk and remote access stand in the template")
def template_says_it(nodes: Nodes) -> Iterator[str]:
    """A node group with a launch template has no disk size and no remote access."""
    group = nodes.node_group or {}
    yield from (f"{name} beside a launch template" for name in ("DiskSize", "RemoteAccess") if name in group)


@invariant("capacity-type", f"{_TEMPLATES}; {_BLOCKS}")
def capacity_type(nodes: Nodes) -> Iterator[str]:
    """The capacity type of the group and the market type and target of the template are those of one purchase."""
    if nodes.node_group is None:
        return
    market = nodes.data.get("InstanceMarketOptions", {}).get("MarketType")
    got = (nodes.node_group.get("CapacityType", "ON_DEMAND"), market)
    if got != _CAPACITY[nodes.asked.purchase.kind]:
        yield f"{got[0]} with market type {market} for {nodes.asked.purchase.kind}"
    target = nodes.data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    if got[0] == "CAPACITY_BLOCK" and set(target) != {"CapacityReservationId"}:
        yield f"a block by {sorted(target) or 'nothing'}"


@invariant("image-of-eks", "botocore 1.44.5, eks service model, AMITypes")
def image_of_eks(nodes: Nodes) -> Iterator[str]:
    """EKS chooses an image for the processor and the accelerator of the type."""
    if nodes.node_group is None:
        return
    wanted = _IMAGES[nodes.hardware.accelerator, nodes.hardware.architecture]
    if nodes.node_group.get("AmiType") != wanted:
        yield f"{nodes.node_group.get('AmiType')}, not {wanted}"


@invariant("cluster-group", f"{_TEMPLATES}: EKS adds none to a template that names security groups")
def cluster_group(nodes: Nodes) -> Iterator[str]:
    """Every interface with an address is in the security group of the cluster."""
    if nodes.node_group is None:
        return
    for each in nodes.interfaces:
        if each.kind != "efa-only" and not any(_is_of_cluster(nodes, group) for group in _groups(each)):
            yield f"{each} is not in the security group of the cluster"


def _groups(interface: Interface) -> list[Json]:
    return list(interface.entry.get("Groups", ()))


def _is_of_cluster(nodes: Nodes, group: Json) -> bool:
    found = nodes.cloud.identity(nodes.stack, group)
    if isinstance(found, Place):
        return found in nodes.cloud.of_type("AWS::EKS::Cluster")
    return found is not None and found == nodes.asked.cluster_group


@invariant("labels-of-hardware", "EC2 DescribeInstanceTypes: GpuInfo, NeuronInfo, EfaInfo")
def labels_of_hardware(nodes: Nodes) -> Iterator[str]:
    """The labels by which pods choose nodes say what the type has, and what the template gives it."""
    if nodes.node_group is None:
        return
    labels: Mapping[str, str] = nodes.node_group.get("Labels", {})
    efa = sum(each.is_efa for each in nodes.interfaces)
    wanted = {"gpu-cluster/efa-count": str(efa) if efa else None, **_labels(nodes.hardware)}
    for name, value in wanted.items():
        if labels.get(name) != value:
            yield f"{name} is {labels.get(name)}, not {value}"


def _labels(hardware: Hardware) -> dict[str, str | None]:
    kind = hardware.accelerator
    if kind is None:
        return {"gpu-cluster/accelerator": None}
    labels: dict[str, str | None] = {
        "gpu-cluster/accelerator": kind,
        f"gpu-cluster/{kind}": str(hardware.accelerator_name).replace(" ", "-"),
        f"gpu-cluster/{kind}-count": str(hardware.accelerator_count),
    }
    if hardware.accelerator_memory_mib is not None:
        labels[f"gpu-cluster/{kind}-memory-mib"] = str(hardware.accelerator_memory_mib)
    return labels


@invariant("taint-of-devices", "NVIDIA and AWS Neuron device plugins: names of what pods ask for")
def taint_of_devices(nodes: Nodes) -> Iterator[str]:
    """Only pods that ask for the accelerators run beside them; nodes without keep nobody away."""
    if nodes.node_group is None:
        return
    kind = nodes.hardware.accelerator
    wanted = [] if kind is None else [(_DEVICES[kind], "NO_SCHEDULE")]
    got = [(taint["Key"], taint["Effect"]) for taint in nodes.node_group.get("Taints", ())]
    if got != wanted:
        yield f"taints {got}, not {wanted}"


@invariant(
    "pods-have-addresses",
    "awslabs/amazon-eks-ami @ 81fec2e, nodeadm/internal/kubelet/eni_max_pods.go and max-pods-calculator.sh; "
    "aws/karpenter-provider-aws, designs/efa-for-static-capacity.md",
)
def pods_have_addresses(nodes: Nodes) -> Iterator[str]:
    """Kubelet takes as many pods as card 0 has addresses for, up to the limit of EKS."""
    if nodes.node_group is None:
        return
    wanted = str(most_pods(nodes.hardware, nodes.interfaces))
    told = set(re.findall(r'"?maxPods"?: *(\d+)', nodes.user_data))
    if told != {wanted}:
        yield f"maxPods {sorted(told) or 'not said'}, not {wanted}"


def most_pods(hardware: Hardware, interfaces: Sequence[Interface]) -> int:
    """The pods of a node, counted interface by interface.

    The VPC CNI gives pods every address of an interface but the first, and fills the places of card 0 that are free;
    an interface without addresses keeps its place. CNI and kube-proxy take none.
    """
    without = {each.device for each in interfaces if each.card == 0 and each.kind == "efa-only"}
    with_addresses = [place for place in range(hardware.cards[0].holds) if place not in without]
    addresses = sum(hardware.addresses_per_interface - 1 for _ in with_addresses)
    return min(addresses + 2, 110 if hardware.vcpus < 30 else 250)


@invariant("desired-size", "Amazon EKS API reference, NodegroupScalingConfig: all or none of the sizes")
def desired_size(nodes: Nodes) -> Iterator[str]:
    """A group of a fixed size, or on a block, says the whole of it; one that a scaler moves says its least."""
    if nodes.node_group is None:
        return
    least, most = nodes.bounds
    got = nodes.node_group["ScalingConfig"].get("DesiredSize")
    is_kept = nodes.asked.minimum == nodes.asked.maximum or nodes.asked.purchase.is_block
    wanted = most if is_kept else least
    if got != wanted:
        yield f"DesiredSize {got}, not {wanted}"


@invariant(
    "replaced-by-eks",
    f'{EKS_GUIDE}, "Understand each phase of node updates"; CloudFormation, AWS::EC2::LaunchTemplate: the default '
    "version stays",
)
def replaced_by_eks(nodes: Nodes) -> Iterator[str]:
    """EKS replaces running nodes only where the user says so, and reserved or scarce ones before it launches others."""
    if nodes.node_group is None:
        return
    attribute = "LatestVersionNumber" if nodes.asked.rolling else "DefaultVersionNumber"
    version = nodes.node_group["LaunchTemplate"].get("Version")
    if version != {"Fn::GetAtt": [nodes.template.logical_id, attribute]}:
        yield f"version {version}"
    if "Version" in nodes.node_group and not nodes.asked.rolling:
        yield f"follows Kubernetes {nodes.node_group['Version']}"
    strategy = nodes.node_group.get("UpdateConfig", {}).get("UpdateStrategy", "DEFAULT")
    is_scarce = "capacity-block" in nodes.hardware.usage_classes
    if strategy != ("MINIMAL" if nodes.asked.purchase.is_reserved or is_scarce else "DEFAULT"):
        yield f"update strategy {strategy} for {nodes.hardware.name}, {nodes.asked.purchase.kind}"
