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

import re
from collections.abc import Iterator

from cdk_gpu_clusters.catalogue import instance_types

from ..faults import Fault
from ..node_groups import (
    group_behind,
    launch_data,
    obstacles,
    own_data,
    own_specification,
    size_messages,
    version_of,
)
from ..world import Json, Type, World
from .auto_scaling import zone_faults
from .eks_clusters import minor_of, missing_cluster_faults, role_faults
from .evictions import eviction_faults
from .launch_templates import is_mime_multipart
from .networks import subnet_faults

_REPAIR_PAIRS = ("MaxUnhealthyNodeThreshold", "MaxParallelNodesRepaired")
_MOST_UNAVAILABLE = 100
_LAST_MINOR_OF_AL2 = 32


def node_group_faults(properties: Json, world: World) -> Iterator[Fault]:
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


def node_group_change_faults(physical_id: str, old: Json, new: Json, world: World) -> Iterator[Fault]:
    """Faults of a change that EKS makes in place."""
    node_group = world.find(Type.NODE_GROUP, physical_id)
    if node_group is None:
        return
    names = [{key: one.get("LaunchTemplate", {}).get(key) for key in ("Id", "Name")} for one in (old, new)]
    if names[0] != names[1]:
        message = "a node group keeps the launch template that it was made with; its version may change"
        yield Fault("node-group-template-change", message, "LaunchTemplate")
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
        yield Fault("node-group-block-upgrade", message, "LaunchTemplate")
    elif new.get("UpdateConfig", {}).get("UpdateStrategy") != "MINIMAL" and group.staying:
        yield from _room_faults(physical_id, datas[1], world)
    else:
        yield from eviction_faults(world, new, datas[0]["InstanceType"], len(group.staying))


def _room_faults(physical_id: str, data: Json, world: World) -> Iterator[Fault]:
    """The default strategy launches new nodes before it ends old ones: a full reservation has no room for them."""
    target = data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    reservation = world.reservations().get(target.get("CapacityReservationId", ""))
    if reservation is None:
        return
    used = [one.reservation_id for one in world.instances()]
    if used.count(reservation.id) >= reservation.count:
        message = (
            f"{physical_id} is updated by launching nodes first, and {reservation.id} has no room for one; the update "
            "strategy MINIMAL ends nodes first"
        )
        yield Fault("node-group-update-room", message, "UpdateConfig/UpdateStrategy")


def _size_faults(given: Json | None) -> Iterator[Fault]:
    if given is None or not {"MinSize", "MaxSize"} <= given.keys():
        message = "the sizes that EKS chooses are not emulated: give MinSize and MaxSize"
        yield Fault("node-group-sizes", message, "ScalingConfig")
        return
    least, most = given["MinSize"], given["MaxSize"]
    for message in size_messages(least, given.get("DesiredSize", min(least, most)), most):
        yield Fault("node-group-sizes", message, "ScalingConfig")
    if least > most:
        message = f"minSize can't be greater than maxSize: {least} and {most}"
        yield Fault("node-group-sizes", message, "ScalingConfig")


def _setting_faults(properties: Json) -> Iterator[Fault]:
    update = properties.get("UpdateConfig", {})
    given = [name for name in ("MaxUnavailable", "MaxUnavailablePercentage") if name in update]
    if "UpdateConfig" in properties and len(given) != 1:
        message = f"exactly one of MaxUnavailable and MaxUnavailablePercentage is required, got {given or 'none'}"
        yield Fault("node-group-update-config", message, "UpdateConfig")
    if update.get("MaxUnavailable", 1) > _MOST_UNAVAILABLE:
        message = f"the maximum number is {_MOST_UNAVAILABLE}, got {update['MaxUnavailable']}"
        yield Fault("node-group-update-config", message, "UpdateConfig/MaxUnavailable")
    repair = properties.get("NodeRepairConfig", {})
    for stem in _REPAIR_PAIRS:
        if f"{stem}Count" in repair and f"{stem}Percentage" in repair:
            message = f"{stem}Count and {stem}Percentage may not be given together"
            yield Fault("node-group-repair", message, "NodeRepairConfig")


def _image_faults(properties: Json, world: World) -> Iterator[Fault]:
    """The image's architecture; types that the catalogue does not know are taken as they are."""
    image = properties.get("AmiType", "")
    known = instance_types()
    wanted = "arm64" if "ARM_64" in image else "x86_64" if "x86_64" in image else None
    types = properties.get("InstanceTypes") or [own_data(properties, world).get("InstanceType", "")]
    wrong = [one for one in types if wanted and one in known and known[one].architecture != wanted]
    if wrong:
        message = f"{wrong} is not a valid instance type for requested amiType {image}"
        yield Fault("node-group-image", message, "AmiType")


def _cluster_faults(properties: Json, world: World) -> Iterator[Fault]:
    cluster = world.cluster(properties["ClusterName"])
    if cluster is None:
        return
    version = cluster.properties.get("Version")
    if version and properties.get("Version", version) != version:
        message = f"the version of the cluster, {version}, is the only accepted value, got {properties['Version']}"
        yield Fault("node-group-version", message, "Version")
    if properties.get("AmiType", "").startswith("AL2_") and minor_of(version or "") > _LAST_MINOR_OF_AL2:
        message = f"AMI Type {properties['AmiType']} is only supported for kubernetes versions 1.32 or earlier"
        yield Fault("node-group-image", message, "AmiType")
    vpcs = [
        {world.vpc_of_subnet(one) for one in subnets} - {None}
        for subnets in (properties["Subnets"], cluster.properties["ResourcesVpcConfig"]["SubnetIds"])
    ]
    if all(vpcs) and vpcs[0] != vpcs[1]:
        message = "the subnets are in another VPC than the cluster's"
        yield Fault("node-group-vpc", message, "Subnets")
    sizes = properties.get("ScalingConfig", {})
    if properties.get("CapacityType") == "CAPACITY_BLOCK" or not sizes.get("DesiredSize"):
        return
    for reason in obstacles(launch_data(properties, cluster, world), cluster, world):
        message = f"NodeCreationFailure: Instances failed to join the kubernetes cluster: {reason}"
        yield Fault("node-group-join", message)


# What EKS refuses of a launch template under a managed node group. EC2 takes such templates; EKS refuses them when
# it makes the node group. Sources, read 2026-11-22: Amazon EKS user guide (awsdocs/amazon-eks-user-guide @ 4d52b4d),
# "Customize managed nodes with launch templates" and "Create a managed node group with Capacity Blocks for ML"; EKS
# API model (botocore 1.44.5), CreateNodegroup. Wordings of the service: terraform-aws-modules/terraform-aws-eks
# issues 1386, 2219 and 1875, crossplane-contrib/provider-upjet-aws issue 866, pulumi/pulumi-eks issue 1283.

_FORBIDDEN = ("IamInstanceProfile", "InstanceInitiatedShutdownBehavior", "HibernationOptions")
_ONLY_IN_TEMPLATE = {
    "DiskSize": "Disk size must be specified within the launch template.",
    "RemoteAccess": "Remote access configuration cannot be specified with a launch template.",
}
_BLOCK = "CAPACITY_BLOCK"


def node_template_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of the launch template of an `AWS::EKS::Nodegroup`, and of what is beside it."""
    if "LaunchTemplate" not in properties:
        yield from _without_template(properties)
        return
    given, specification = properties["LaunchTemplate"], own_specification(properties)
    if ("Id" in given) == ("Name" in given):
        message = "either the launch template name or the launch template ID must be given, but not both"
        yield Fault("node-template-name", message, "LaunchTemplate")
        return
    data = world.launch_template_data(specification or {})
    if data is None:
        message = f"there is no launch template {specification}"
        yield Fault("node-template-missing", message, "LaunchTemplate")
        return
    yield from _forbidden(data)
    yield from _said_twice(properties, data)
    yield from _template_image_faults(properties, data)
    yield from _purchase_faults(properties, data)


def _without_template(properties: Json) -> Iterator[Fault]:
    if properties.get("CapacityType") == _BLOCK:
        message = "Managed node groups with Capacity Blocks can only be created with custom launch templates"
        yield Fault("node-template-block", message, "LaunchTemplate")
    if properties.get("AmiType") == "CUSTOM":
        message = "AmiType CUSTOM needs a launch template with an image id"
        yield Fault("node-template-image", message, "AmiType")


def _forbidden(data: Json) -> Iterator[Fault]:
    for name in _FORBIDDEN:
        if name in data:
            message = f"{name} is prohibited in the launch template of a managed node group"
            yield Fault("node-template-forbidden", message, "LaunchTemplate")
    if any("SubnetId" in one for one in data.get("NetworkInterfaces", [])):
        message = "SubnetId is prohibited in the network interfaces: the node group has the subnets"
        yield Fault("node-template-forbidden", message, "LaunchTemplate")


def _said_twice(properties: Json, data: Json) -> Iterator[Fault]:
    if "InstanceType" in data and properties.get("InstanceTypes"):
        message = "Cannot specify instance types in launch template and API request"
        yield Fault("node-template-type", message, "InstanceTypes")
    for name, message in _ONLY_IN_TEMPLATE.items():
        if name in properties:
            yield Fault("node-template-beside", message, name)


def _template_image_faults(properties: Json, data: Json) -> Iterator[Fault]:
    image, kind = data.get("ImageId"), properties.get("AmiType")
    if image is None and kind == "CUSTOM":
        message = "AmiType CUSTOM needs an image id in the launch template"
        yield Fault("node-template-image", message, "AmiType")
    for name in ("Version", "ReleaseVersion"):
        if image is not None and name in properties:
            message = f"You cannot specify {name} when specifying an image id to use within the launch template."
            yield Fault("node-template-image", message, name)
    if image is not None and kind not in (None, "CUSTOM"):
        message = f"You cannot specify an AMI type other than CUSTOM when specifying an image id, got {kind}"
        yield Fault("node-template-image", message, "AmiType")
    is_merged = image is None and "BOTTLEROCKET" not in str(kind) and "WINDOWS" not in str(kind)
    if is_merged and "UserData" in data and not is_mime_multipart(data["UserData"]):
        message = "Ec2LaunchTemplateInvalidConfiguration: User data was not in the MIME multipart format."
        yield Fault("node-template-user-data", message, "LaunchTemplate")


def _purchase_faults(properties: Json, data: Json) -> Iterator[Fault]:
    kind = properties.get("CapacityType", "ON_DEMAND")
    market = data.get("InstanceMarketOptions", {}).get("MarketType")
    target = data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    if market == "spot":
        message = "Spot market options are prohibited in the launch template: set CapacityType to SPOT"
        yield Fault("node-template-spot", message, "LaunchTemplate")
    if market == "capacity-block" and kind != _BLOCK:
        message = f"MarketType capacity-block needs CapacityType {_BLOCK}, got {kind}"
        yield Fault("node-template-block", message, "CapacityType")
    if kind != _BLOCK:
        return
    missing = [
        name
        for name, is_there in (
            ("InstanceMarketOptions with MarketType capacity-block", market == "capacity-block"),
            ("CapacityReservationTarget with CapacityReservationId", "CapacityReservationId" in target),
            ("InstanceType", "InstanceType" in data),
        )
        if not is_there
    ]
    if missing:
        message = f"the launch template of a node group with a Capacity Block has no {', no '.join(missing)}"
        yield Fault("node-template-block", message, "LaunchTemplate")


# Labels and taints of node groups. Sources, read 2026-11-22: Amazon EKS user guide (awsdocs/amazon-eks-user-guide @
# 4d52b4d), "Prevent Pods from being scheduled on specific nodes" (forms; 50 taints); Kubernetes documentation,
# "Labels and Selectors" (forms); what EKS reserves: eksctl-io/eksctl issue 4007, for `eks.amazonaws.com/`; what the
# kubelet refuses of kubernetes.io and k8s.io, so that nodes do not join: terraform-aws-modules/terraform-aws-eks
# issues 3346 and 831.

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_PREFIX_LIMIT = 253
_MOST_TAINTS = 50
_RESERVED = "eks.amazonaws.com"
_KUBERNETES = ("kubernetes.io", "k8s.io")
_OPEN_TO_NODES = ("kubelet.kubernetes.io", "node.kubernetes.io")
_KNOWN_TO_NODES = frozenset(
    {
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)


def label_faults(labels: dict[str, str]) -> Iterator[Fault]:
    """Faults of the labels of a node group."""
    for key, value in labels.items():
        yield from _form_faults("node-label", key, value, "Labels")
        prefix = key.partition("/")[0] if "/" in key else ""
        if _is_of(prefix, (_RESERVED,)):
            message = f"Label cannot contain reserved prefixes [{_RESERVED}/]: {key}"
            yield Fault("node-label", message, "Labels")
        elif _is_of(prefix, _KUBERNETES) and not _is_of(prefix, _OPEN_TO_NODES) and key not in _KNOWN_TO_NODES:
            message = f"NodeCreationFailure: the kubelet gives its node no label {key}; the prefix is Kubernetes' own"
            yield Fault("node-label", message, "Labels")


def taint_faults(taints: list[Json]) -> Iterator[Fault]:
    """Faults of the taints of a node group."""
    if len(taints) > _MOST_TAINTS:
        message = f"a maximum of {_MOST_TAINTS} taints are allowed per node group, got {len(taints)}"
        yield Fault("node-taint", message, "Taints")
    for one in taints:
        missing = [name for name in ("Key", "Effect") if name not in one]
        if missing:
            yield Fault("node-taint", f"{', '.join(missing)} is required", "Taints")
        else:
            yield from _form_faults("node-taint", one["Key"], one.get("Value", ""), "Taints")
    pairs = [(one.get("Key"), one.get("Effect")) for one in taints]
    for key, effect in sorted({pair for pair in pairs if pairs.count(pair) > 1}):
        yield Fault("node-taint", f"{key} with {effect} is given twice", "Taints")


def _form_faults(check: str, key: str, value: str, path: str) -> Iterator[Fault]:
    prefix, slash, name = key.rpartition("/")
    well_formed = _NAME.fullmatch(name) and (not slash or (len(prefix) <= _PREFIX_LIMIT and _PREFIX.fullmatch(prefix)))
    if not well_formed:
        yield Fault(check, f"the key {key!r} does not have the form [prefix/]name", path)
    if value and not _NAME.fullmatch(value):
        message = (
            f"Invalid value: {value!r}: it must consist of at most 63 alphanumeric characters, '-', '_' or '.', and "
            "must start and end with an alphanumeric character"
        )
        yield Fault(check, message, path)


def _is_of(prefix: str, domains: tuple[str, ...]) -> bool:
    return any(prefix == one or prefix.endswith(f".{one}") for one in domains)
