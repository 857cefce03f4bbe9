"""Invariants of compute node groups of AWS PCS, from its guide and Slurm's pages. They were read on 2026-11-27."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from matrix.cloud import Json, Place
from matrix.invariant import invariant
from matrix.nodes import Interface, Nodes

PCS_GUIDE = "AWS PCS user guide"
_BLOCKS = f'{PCS_GUIDE}, "Configure a compute node group to use a Capacity Block"'

#: The purchase option of each purchase (the page above; botocore 1.44.5, pcs service model: PurchaseOption).
_OPTIONS = {
    "on-demand": "ONDEMAND",
    "odcr": "ONDEMAND",
    "spot": "SPOT",
    "capacity-block": "CAPACITY_BLOCK",
    "ultraserver-block": "CAPACITY_BLOCK",
}


@invariant("pcs-type", f"{PCS_GUIDE}, launch templates: types stand in the group; {_BLOCKS}: and in the template")
def pcs_type(nodes: Nodes) -> Iterator[str]:
    """The group has the one type that was asked for, and its template names it for a block alone."""
    group = nodes.compute_node_group
    if group is None:
        return
    types = [one["InstanceType"] for one in group["InstanceConfigs"]]
    if types != [nodes.asked.instance_type]:
        yield f"{types}, not {nodes.asked.instance_type}"
    if ("InstanceType" in nodes.data) is not nodes.asked.purchase.is_block:
        yield f"{nodes.data.get('InstanceType')} in the launch template for {nodes.asked.purchase.kind}"


@invariant("pcs-purchase", f"{_BLOCKS}; botocore 1.44.5, pcs service model: PurchaseOption")
def pcs_purchase(nodes: Nodes) -> Iterator[str]:
    """The group is bought as asked, and only Spot has options of Spot."""
    group = nodes.compute_node_group
    if group is None:
        return
    wanted = _OPTIONS[nodes.asked.purchase.kind]
    if group.get("PurchaseOption", "ONDEMAND") != wanted:
        yield f"{group.get('PurchaseOption')}, not {wanted}"
    if ("SpotOptions" in group) is not (wanted == "SPOT"):
        yield f"Spot options {group.get('SpotOptions')} for {wanted}"


@invariant("pcs-size", f'{PCS_GUIDE}, "Creating a compute node group in AWS PCS": static, or from 0')
def pcs_size(nodes: Nodes) -> Iterator[str]:
    """The group has the bounds that were asked for; capacity that is paid for is used as a whole."""
    if nodes.compute_node_group is None:
        return
    least, most = nodes.bounds
    asked = nodes.asked
    wanted = (asked.maximum if asked.purchase.is_block else asked.minimum, asked.maximum)
    if (least, most) != wanted:
        yield f"{least} to {most} nodes, not {wanted[0]} to {wanted[1]}"
    if 0 < least < most:
        yield f"{least} to {most} nodes: some stay, and others come and go"


@invariant("pcs-role", f'{PCS_GUIDE}, "IAM instance profiles for AWS PCS"; service authorization reference, AWS PCS')
def pcs_role(nodes: Nodes) -> Iterator[str]:
    """AWS PCS accepts the role, and its nodes may join clusters that are named."""
    if nodes.compute_node_group is None or nodes.role is None:
        return
    role = nodes.cloud.properties(nodes.role)
    if "/aws-pcs/" not in role.get("Path", "") and not str(role.get("RoleName", "")).startswith("AWSPCS"):
        yield f"path {role.get('Path')} and name {role.get('RoleName')}"
    joins = [
        statement["Resource"]
        for _, statement in nodes.statements(nodes.role)
        if "pcs:RegisterComputeNodeGroupInstance" in statement["Action"]
    ]
    if not joins or "*" in joins:
        yield f"the nodes may join {joins or 'no cluster'}"


@invariant("pcs-subnet", f'{PCS_GUIDE}, "Multiple network interfaces": the subnet of the group, or none is named')
def pcs_subnet(nodes: Nodes) -> Iterator[str]:
    """Interfaces name the subnet of the group, and none where it has several."""
    if nodes.compute_node_group is None:
        return
    named = [each.entry["SubnetId"] for each in nodes.interfaces if "SubnetId" in each.entry]
    wrong = [subnet for subnet in named if [subnet] != list(nodes.subnets)]
    if wrong:
        yield f"{wrong[0]} in the template, {list(nodes.subnets)} in the group"
    if len(nodes.interfaces) > 1 and len(named) != len(nodes.interfaces):
        yield f"{len(named)} of {len(nodes.interfaces)} interfaces name their subnet"


@invariant("pcs-controller", f'{PCS_GUIDE}, "Security groups in AWS PCS": nodes reach the controller, and it them')
def pcs_controller(nodes: Nodes) -> Iterator[str]:
    """Every interface with an address is in a security group of the cluster."""
    if nodes.compute_node_group_place is None or nodes.compute_node_group is None:
        return
    cluster = nodes.cloud.find(nodes.compute_node_group_place.stack, nodes.compute_node_group["ClusterId"])
    known: set[Place | str | None] = {nodes.asked.cluster_group}
    if cluster is not None:
        groups = nodes.cloud.properties(cluster)["Networking"]["SecurityGroupIds"]
        known = {nodes.cloud.identity(cluster.stack, group) for group in groups}
    for each in nodes.interfaces:
        if each.kind != "efa-only" and not known & {nodes.cloud.identity(nodes.stack, one) for one in _groups(each)}:
            yield f"{each} is in no security group of the cluster"


def _groups(interface: Interface) -> list[Json]:
    return list(interface.entry.get("Groups", ()))


@invariant(
    "pcs-slices",
    f'{PCS_GUIDE}, "Configuring Multi-Instance GPU (MIG) in AWS PCS": Gres of the slices, and AutoDetect=nvml; '
    "gres.conf(5)",
)
def pcs_slices(nodes: Nodes) -> Iterator[str]:
    """Slurm hands out the slices that the GPUs have, and GPUs that are not split are left to AWS PCS."""
    group = nodes.compute_node_group
    if group is None:
        return
    configuration: Mapping[str, Json] = group.get("SlurmConfiguration", {})
    settings = {one["ParameterName"]: one["ParameterValue"] for one in configuration.get("SlurmCustomSettings", ())}
    wanted = _slices(nodes.asked.partition, nodes.hardware.accelerator_count)
    got: Counter[str] = Counter()
    for entry in filter(None, settings.get("Gres", "").split(",")):
        name, kind, count = entry.split(":")
        got[kind if name == "gpu" else entry] += int(count)
    if "off" not in str(nodes.asked.partition) and got != wanted:
        yield f"Gres {settings.get('Gres')}, the GPUs have {dict(wanted)}"
    records = configuration.get("GresCustomSettings")
    if records != ([{"AutoDetect": "nvml"}] if wanted else None):
        yield f"records {records} for {nodes.asked.partition or 'unsplit GPUs'}"


def _slices(partition: str | None, gpus: int) -> Counter[str]:
    """The slices of a node by their profile."""
    if partition is None:
        return Counter()
    layouts = partition.split(";")
    every = layouts * gpus if len(layouts) == 1 else layouts
    return Counter(name for layout in every for name in layout.split(",") if name != "off")


@invariant(
    "pcs-scripts",
    f'{PCS_GUIDE}, "Configure node lifecycle actions": a checksum for production; botocore 1.44.5, pcs: OnError',
)
def pcs_scripts(nodes: Nodes) -> Iterator[str]:
    """A script runs if its bytes are those that were meant, and a node whose first ones fail takes no jobs."""
    group = nodes.compute_node_group
    if group is None:
        return
    stages = group.get("NodeLifecycleActions", {}).get("Stages", {})
    if not stages.get("NodeBootstrapped"):
        yield "nothing checks a node before slurmd"
    for stage, scripts in stages.items():
        for one in scripts:
            if not re.fullmatch("[0-9a-f]{64}", one["ScriptSource"].get("Checksum", "")):
                yield f"{stage}, {one['Name']}: no checksum"
            if stage == "NodeBootstrapped" and one.get("OnError", "TERMINATE") != "TERMINATE":
                yield f"{stage}, {one['Name']}: {one['OnError']} on error"
