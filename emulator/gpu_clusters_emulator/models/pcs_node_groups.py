"""What AWS PCS refuses in a compute node group beyond its schema, and what its nodes could not do.

PCS takes some groups whose nodes then end at once, again and again; the emulator refuses those when the group is made,
where a test sees it. Sources, stored copies of 2026: PCS API model (botocore 1.44.5), CreateComputeNodeGroup,
UpdateComputeNodeGroup and ServiceQuotaExceededException; AWS PCS user guide, "Creating a compute node group" (static or
dynamic sizes, types of one architecture and size, a version of the template), "Updating an AWS PCS compute node group",
"IAM instance profiles for AWS PCS", "Security groups in AWS PCS" (ports). The words in front of a message are the
exceptions of the model; the rest of a message is ours.
"""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.catalogue import instance_types

from .. import pcs
from ..faults import Fault
from ..permissions import allows, lets_service
from ..schemas import instance_type_exists
from ..service_shapes import shape_faults
from ..world import Json, Resource, Type, World
from .networks import group_faults, subnet_faults
from .pcs_clusters import name_faults, node_limits, part_faults
from .pcs_launch import script_faults, template_faults
from .pcs_settings import gres_faults, setting_faults, version_of

_OPERATION = "CreateComputeNodeGroup"
_SIZES, _TYPES, _PROFILE = "ScalingConfiguration", "InstanceConfigs", "IamInstanceProfileArn"
_REGISTER = "pcs:RegisterComputeNodeGroupInstance"
_EC2 = ("ec2.amazonaws.com", "ec2.amazonaws.com.cn")
_NAME_PREFIX, _PATH = "AWSPCS", "/aws-pcs/"
_IDLE_TIME_SINCE = (25, 11)
_OWN_TEMPLATE = ("pcs-", "-do-not-delete")


def compute_node_group_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::PCS::ComputeNodeGroup`."""
    yield from name_faults(_OPERATION, "computeNodeGroupName", properties)
    yield from shape_faults("pcs", _OPERATION, _as_sent(properties))
    yield from _size_faults(properties)
    types = list(_type_faults(properties))
    yield from types
    yield from subnet_faults(properties["SubnetIds"], world, "SubnetIds")
    role, profile = _role(properties, world)
    yield from profile
    template = list(_template_faults(properties, world))
    yield from template
    missing = list(part_faults(properties, world, _OPERATION))
    yield from missing
    yield from script_faults(properties.get("NodeLifecycleActions"), role.physical_id if role else "", world)
    cluster = world.pcs_cluster(properties["ClusterId"])
    if missing or cluster is None:
        return
    yield from _cluster_faults(properties, cluster, world)
    if not template and not types:
        yield from template_faults(properties, world)
        yield from _reach_faults(properties, cluster, world)


def _as_sent(properties: Json) -> Json:
    """The properties whose members the call has by the same names; the launch template has others."""
    own = ("ClusterId", "CustomLaunchTemplate", "Name")
    return {name: value for name, value in properties.items() if name not in own}


def compute_node_group_change_faults(physical_id: str, old: Json, new: Json, world: World) -> Iterator[Fault]:
    """Faults of a change that PCS makes in place."""
    del old, new
    node_group = world.find(Type.PCS_NODE_GROUP, physical_id)
    state = pcs.status(world, node_group) if node_group else pcs.ACTIVE
    if state not in (pcs.ACTIVE, "UPDATE_FAILED"):
        yield Fault("pcs-state", f"ConflictException: the compute node group is in state {state}")


def compute_node_group_deletion_faults(physical_id: str, world: World) -> Iterator[Fault]:
    """Faults of deleting an `AWS::PCS::ComputeNodeGroup`."""
    node_group = world.find(Type.PCS_NODE_GROUP, physical_id)
    if node_group is None:
        return
    identifier = node_group.attributes["Id"]
    queues = [
        one.settings["Name"] for one in world.of_type(Type.PCS_QUEUE) if identifier in pcs.groups_of(one.properties)
    ]
    if queues:
        message = f"ConflictException: queues still have the compute node group {identifier}: {', '.join(queues)}"
        yield Fault("pcs-group-in-queue", message)


def _size_faults(properties: Json) -> Iterator[Fault]:
    least, most = pcs.sizes(properties)
    if most < 1:
        yield Fault("pcs-sizes", f"MaxInstanceCount is greater than 0, got {most}", _SIZES)
    elif least not in (0, most):
        message = (
            f"a group is static (the same minimum and maximum) or dynamic (minimum 0): a mix is not supported, got "
            f"{least} and {most}"
        )
        yield Fault("pcs-sizes", message, _SIZES)


def _type_faults(properties: Json) -> Iterator[Fault]:
    names = [one.get("InstanceType", "") for one in properties["InstanceConfigs"]]
    if not names:
        yield Fault("pcs-types", "at least one instance type is needed", _TYPES)
    unknown = [name for name in names if not instance_type_exists(name)]
    for name in unknown:
        yield Fault("instance-type", f"there is no instance type {name!r}", _TYPES)
    known = [instance_types()[name] for name in names if name in instance_types()]
    forms = {(one.architecture, one.vcpus, one.accelerator.count if one.accelerator else 0): one.name for one in known}
    if len(forms) > 1:
        shown = "; ".join(f"{name} has {form[0]}, {form[1]} vCPUs, {form[2]} GPUs" for form, name in forms.items())
        message = f"all instance types have the same architecture, vCPUs and GPUs: {shown}"
        yield Fault("pcs-types", message, _TYPES)


def _role(properties: Json, world: World) -> tuple[Resource | None, list[Fault]]:
    """The role in the instance profile, where a stack made it, and what is wrong with it."""
    arn = properties[_PROFILE]
    profile = next(
        (one for one in world.of_type("AWS::IAM::InstanceProfile") if one.attributes.get("Arn") == arn), None
    )
    names = profile.properties.get("Roles", []) if profile else []
    role = world.find("AWS::IAM::Role", str(names[0])) if names else None
    cluster = world.pcs_cluster(properties["ClusterId"])
    arn = str(cluster.attributes["Arn"]) if cluster else "*"
    return role, list(_role_faults(role, arn, world)) if role is not None else []


def _role_faults(role: Resource, cluster_arn: str, world: World) -> Iterator[Fault]:
    name, path = role.physical_id, str(role.properties.get("Path", "/"))
    if not name.startswith(_NAME_PREFIX) and _PATH not in path:
        message = f"the role name must start with {_NAME_PREFIX} or must have the path {_PATH}, got {path}{name}"
        yield Fault("pcs-role-name", message, _PROFILE)
    trust = role.properties["AssumeRolePolicyDocument"]
    if not any(lets_service(trust, one, "sts:AssumeRole", {}) for one in _EC2):
        yield Fault("pcs-role-trust", f"ec2.amazonaws.com may not assume the role {name}", _PROFILE)
    if not allows(world, name, _REGISTER, cluster_arn):
        message = f"AccessDeniedException: nodes cannot register: no policy of {name} allows {_REGISTER} now"
        yield Fault("pcs-role-register", message, _PROFILE)


def _template_faults(properties: Json, world: World) -> Iterator[Fault]:
    path, given = "CustomLaunchTemplate", properties.get("CustomLaunchTemplate", {})
    missing = [name for name in ("TemplateId", "Version") if not given.get(name)]
    if missing:
        yield Fault("pcs-template", f"{', '.join(missing)} is required", path)
        return
    if not str(given["Version"]).isdigit():
        message = f"a specific version of the launch template is required, got {given['Version']}"
        yield Fault("pcs-template", message, f"{path}/Version")
        return
    template = world.launch_template({"LaunchTemplateId": given["TemplateId"]})
    name = template.attributes["LaunchTemplateName"] if template else ""
    if template is None or pcs.own_data(properties, world) is None:
        message = f"there is no launch template {given['TemplateId']} with version {given['Version']}"
        yield Fault("pcs-template", message, path)
    elif name.startswith(_OWN_TEMPLATE[0]) and name.endswith(_OWN_TEMPLATE[1]):
        yield Fault("pcs-template", f"{name} is a launch template of PCS's own", path)


def _cluster_faults(properties: Json, cluster: Resource, world: World) -> Iterator[Fault]:
    others = world.pcs_parts(Type.PCS_NODE_GROUP, cluster)
    name = properties.get("Name")
    if name and any(one.settings["Name"] == name for one in others):
        message = f"ConflictException: a compute node group {name} already exists in the cluster"
        yield Fault("pcs-name-taken", message, "Name")
    limit = node_limits()[cluster.properties["Size"]]
    total = sum(pcs.sizes(one.properties)[1] for one in others) + pcs.sizes(properties)[1]
    if total > limit:
        message = (
            f"ServiceQuotaExceededException: the maximums of all compute node groups make {total} nodes, and a cluster "
            f"of size {cluster.properties['Size']} has at most {limit}"
        )
        yield Fault("pcs-cluster-size", message, _SIZES)
    vpcs = [
        {world.vpc_of_subnet(one) for one in subnets} - {None}
        for subnets in (properties["SubnetIds"], cluster.properties["Networking"]["SubnetIds"])
    ]
    if all(vpcs) and vpcs[0] != vpcs[1]:
        yield Fault("pcs-vpc", "subnets must be in the same VPC as the cluster", "SubnetIds")
    version, slurm = cluster.properties["Scheduler"]["Version"], properties.get("SlurmConfiguration", {})
    yield from setting_faults(slurm, "compute node group", version)
    yield from gres_faults(slurm, version)
    idle = slurm.get("ScaleDownIdleTimeInSeconds")
    if idle is not None and version_of(version) < _IDLE_TIME_SINCE:
        message = f"the idle time of a group needs Slurm 25.11 or later, and the cluster has {version}"
        yield Fault("pcs-setting-version", message, "SlurmConfiguration/ScaleDownIdleTimeInSeconds")


# Whether nodes and the controller reach each other, as far as the account shows the groups. A range of addresses is
# taken as theirs. Egress is not looked at: groups of CDK and of the guide's examples allow all of it.


def _reach_faults(properties: Json, cluster: Resource, world: World) -> Iterator[Fault]:
    data = pcs.launch_data(properties, world)
    nodes = set(_groups(data))
    yield from group_faults(nodes, properties["SubnetIds"], world, "CustomLaunchTemplate")
    controller = set(cluster.properties["Networking"].get("SecurityGroupIds", []))
    if not (nodes and controller and all(_is_known(world, one) for one in nodes | controller)):
        return
    if not _admits(world, controller, nodes, pcs.SLURMCTLD_PORT):
        message = (
            f"nodes cannot register: the groups of the cluster ({', '.join(sorted(controller))}) admit none of "
            f"{', '.join(sorted(nodes))} on port {pcs.SLURMCTLD_PORT} now"
        )
        yield Fault("pcs-reach", message, "CustomLaunchTemplate")
    if not _admits(world, nodes, controller, pcs.SLURMD_PORT):
        message = (
            f"the controller does not reach slurmd: {', '.join(sorted(nodes))} admit none of "
            f"{', '.join(sorted(controller))} on port {pcs.SLURMD_PORT} now"
        )
        yield Fault("pcs-reach", message, "CustomLaunchTemplate")


def _groups(data: Json) -> list[str]:
    """The groups of the primary interface."""
    for one in data.get("NetworkInterfaces", []):
        if not one.get("DeviceIndex") and not one.get("NetworkCardIndex"):
            return list(one.get("Groups", []))
    return list(data.get("SecurityGroupIds", []))


def _is_known(world: World, group: str) -> bool:
    return world.find(Type.SECURITY_GROUP, group) is not None


def _admits(world: World, doors: set[str], callers: set[str], port: int) -> bool:
    rules = [
        one.properties
        for one in world.of_type("AWS::EC2::SecurityGroupIngress")
        if one.properties.get("GroupId") in doors
    ]
    for name in doors:
        rules += world.properties_of(Type.SECURITY_GROUP, name).get("SecurityGroupIngress", [])
    return any(_has_port(rule, port) and _is_from(rule, callers) for rule in rules)


def _is_from(rule: Json, callers: set[str]) -> bool:
    return "CidrIp" in rule or "CidrIpv6" in rule or rule.get("SourceSecurityGroupId") in callers


def _has_port(rule: Json, port: int) -> bool:
    if str(rule.get("IpProtocol")) == "-1":
        return True
    return int(rule.get("FromPort", 0)) <= port <= int(rule.get("ToPort", 0))
