"""What EKS refuses in a managed node group beyond its schema.

Sources, read 2026-11-22: EKS API model (botocore 1.44.5), CreateNodegroup, UpdateNodegroupVersion, Taint and
NodegroupUpdateConfig; Amazon EKS user guide (awsdocs/amazon-eks-user-guide @ 4d52b4d), "Create a managed node group
with Capacity Blocks for ML" (no check that nodes join; size 0 for upgrades), "Understand each phase of node updates",
"Troubleshoot problems with Amazon EKS clusters and nodes" (15 minutes to join, then NodeCreationFailure). Wordings of
the service: terraform-aws-modules/terraform-aws-eks issues 3346 and 3521, HHS/simpler-grants-gov pull request 12404,
scylladb/scylla-cluster-tests issue 12524 (Amazon Linux 2).
That an upgrade of a group on a Capacity Block is refused while it has nodes is the cautious reading of "make sure that
the desired size of the node group is set to 0".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cdk_gpu_clusters.catalogue import instance_types

from ..faults import Fault
from ..node_groups import group_behind, size_messages, version_of
from ..node_templates import launch_data, obstacles, own_data
from ..world import NODE_GROUP
from .auto_scaling_groups import zone_faults
from .eks_clusters import missing_cluster_faults
from .eks_node_marks import label_faults, taint_faults
from .eks_node_templates import node_template_faults
from .eks_roles import role_faults
from .eks_versions import minor_of
from .network_interfaces import subnet_faults

if TYPE_CHECKING:
    from ..world import World

_REPAIR_PAIRS = ("MaxUnhealthyNodeThreshold", "MaxParallelNodesRepaired")
_MOST_UNAVAILABLE = 100
_LAST_MINOR_OF_AL2 = 32


def node_group_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    """Faults of an `AWS::EKS::Nodegroup`."""
    yield from _size_faults(properties.get("ScalingConfig"))
    yield from label_faults(properties.get("Labels", {}))
    yield from taint_faults(properties.get("Taints", []))
    yield from _setting_faults(properties)
    yield from role_faults(properties["NodeRole"], "ec2", "nodeRole", world, "NodeRole")
    yield from subnet_faults(properties["Subnets"], world, "Subnets")
    template = list(node_template_faults(properties, world))
    yield from template
    missing = list(missing_cluster_faults(properties, world))
    yield from missing
    if not template:
        yield from _image_faults(properties, world)
        yield from zone_faults(properties["Subnets"], own_data(properties, world), world, "Subnets")
    if not template and not missing:
        yield from _cluster_faults(properties, world)


def node_group_change_faults(
    physical_id: str, old: dict[str, Any], new: dict[str, Any], world: World
) -> Iterator[Fault]:
    """Faults of a change that EKS makes in place."""
    node_group = world.find(NODE_GROUP, physical_id)
    if node_group is None:
        return
    names = [{key: one.get("LaunchTemplate", {}).get(key) for key in ("Id", "Name")} for one in (old, new)]
    if names[0] != names[1]:
        message = "a node group keeps the launch template that it was made with; its version may change"
        yield Fault(check="node-group-template-change", message=message, path="LaunchTemplate")
        return
    group = group_behind(world, node_group)
    cluster = world.cluster(new["ClusterName"])
    version = version_of(world, node_group)
    datas = [launch_data(one, cluster, world, version) for one in (old, new) if cluster is not None]
    if not datas or datas[0] == datas[1]:
        return
    if new.get("CapacityType") == "CAPACITY_BLOCK" and group.staying:
        message = (
            f"a node group on a Capacity Block is upgraded at the desired size 0, and {physical_id} has "
            f"{len(group.staying)} nodes: its launch template or image may not change now"
        )
        yield Fault(check="node-group-block-upgrade", message=message, path="LaunchTemplate")
    elif new.get("UpdateConfig", {}).get("UpdateStrategy") != "MINIMAL" and group.staying:
        yield from _room_faults(physical_id, datas[1], world)


def _room_faults(physical_id: str, data: dict[str, Any], world: World) -> Iterator[Fault]:
    """The default strategy launches new nodes before it ends old ones: a full reservation has no room for them."""
    target = data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    reservation = world.reservations().get(target.get("CapacityReservationId", ""))
    if reservation is None:
        return
    used = [one.reservation_id for group in world.groups.values() for one in group.instances]
    if used.count(reservation.id) >= reservation.count:
        message = (
            f"{physical_id} is updated by launching nodes first, and {reservation.id} has no room for one; the update "
            "strategy MINIMAL ends nodes first"
        )
        yield Fault(check="node-group-update-room", message=message, path="UpdateConfig/UpdateStrategy")


def _size_faults(given: dict[str, Any] | None) -> Iterator[Fault]:
    if given is None or not {"MinSize", "MaxSize"} <= given.keys():
        message = "the sizes that EKS chooses are not emulated: give MinSize and MaxSize"
        yield Fault(check="node-group-sizes", message=message, path="ScalingConfig")
        return
    least, most = given["MinSize"], given["MaxSize"]
    for message in size_messages(least, given.get("DesiredSize", min(least, most)), most):
        yield Fault(check="node-group-sizes", message=message, path="ScalingConfig")
    if least > most:
        message = f"minSize can't be greater than maxSize: {least} and {most}"
        yield Fault(check="node-group-sizes", message=message, path="ScalingConfig")


def _setting_faults(properties: dict[str, Any]) -> Iterator[Fault]:
    update = properties.get("UpdateConfig", {})
    given = [name for name in ("MaxUnavailable", "MaxUnavailablePercentage") if name in update]
    if "UpdateConfig" in properties and len(given) != 1:
        message = (
            f"exactly one of MaxUnavailable and MaxUnavailablePercentage is required, got {given or 'none'}"
        )
        yield Fault(check="node-group-update-config", message=message, path="UpdateConfig")
    if update.get("MaxUnavailable", 1) > _MOST_UNAVAILABLE:
        message = f"the maximum number is {_MOST_UNAVAILABLE}, got {update['MaxUnavailable']}"
        yield Fault(check="node-group-update-config", message=message, path="UpdateConfig/MaxUnavailable")
    repair = properties.get("NodeRepairConfig", {})
    for stem in _REPAIR_PAIRS:
        if f"{stem}Count" in repair and f"{stem}Percentage" in repair:
            message = f"{stem}Count and {stem}Percentage may not be given together"
            yield Fault(check="node-group-repair", message=message, path="NodeRepairConfig")


def _image_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    """The image's architecture; types that the catalogue does not know are taken as they are."""
    image = properties.get("AmiType", "")
    known = instance_types()
    wanted = "arm64" if "ARM_64" in image else "x86_64" if "x86_64" in image else None
    types = properties.get("InstanceTypes") or [own_data(properties, world).get("InstanceType", "")]
    wrong = [one for one in types if wanted and one in known and known[one].architecture != wanted]
    if wrong:
        message = f"{wrong} is not a valid instance type for requested amiType {image}"
        yield Fault(check="node-group-image", message=message, path="AmiType")


def _cluster_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    cluster = world.cluster(properties["ClusterName"])
    if cluster is None:
        return
    version = cluster.properties.get("Version")
    if version and properties.get("Version", version) != version:
        message = (
            f"the version of the cluster, {version}, is the only accepted value, got {properties['Version']}"
        )
        yield Fault(check="node-group-version", message=message, path="Version")
    if properties.get("AmiType", "").startswith("AL2_") and minor_of(version or "") > _LAST_MINOR_OF_AL2:
        message = (
            f"AMI Type {properties['AmiType']} is only supported for kubernetes versions 1.32 or earlier"
        )
        yield Fault(check="node-group-image", message=message, path="AmiType")
    vpcs = [
        {world.vpc_of_subnet(one) for one in subnets} - {None}
        for subnets in (properties["Subnets"], cluster.properties["ResourcesVpcConfig"]["SubnetIds"])
    ]
    if all(vpcs) and vpcs[0] != vpcs[1]:
        message = "the subnets are in another VPC than the cluster's"
        yield Fault(check="node-group-vpc", message=message, path="Subnets")
    sizes = properties.get("ScalingConfig", {})
    if properties.get("CapacityType") == "CAPACITY_BLOCK" or not sizes.get("DesiredSize"):
        return
    for reason in obstacles(launch_data(properties, cluster, world), cluster, world):
        message = f"NodeCreationFailure: Instances failed to join the kubernetes cluster: {reason}"
        yield Fault(check="node-group-join", message=message)
