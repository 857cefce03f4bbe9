"""AWS PCS at run time: states over the clock, and the instances of compute node groups.

PCS launches instances by a launch template of its own, which it derives from the user's, and keeps as many as the
minimum of the group. Slurm would launch up to the maximum for jobs; no jobs run here. What it launched is replaced
when its configuration changes, and launched again when it is gone.

Sources, stored copies of 2026: AWS PCS user guide, "Using Amazon EC2 launch templates with AWS PCS" (the derived
template and its name, what is ignored), "Updating an AWS PCS compute node group" (what replaces instances), "Updating
a cluster in AWS PCS" (an update takes minutes, a new cluster an hour or less), "Finding compute node group instances"
and aws-samples/aws-hpc-recipes (tags of instances), "Use AWS PCS to find the cluster secret" and "Enabling Slurm REST
API" (ids, ARNs, ports, secrets); PCS API model (botocore 1.44.5): one cluster in state Creating, states, DeleteQueue.
The durations are made up within that. Unverified: that an instance which is gone is launched again, and that a group
whose reserved capacity has not begun stays ACTIVE without instances. That a change of `SlurmConfiguration` replaces
instances is the cautious reading.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from . import fleets
from .faults import ApiError, Fault, Refused
from .permissions import private_address
from .world import Group, Instance, Json, Resource, Type, World, add_version, first_version

TYPES = frozenset({Type.PCS_CLUSTER, Type.PCS_NODE_GROUP, Type.PCS_QUEUE})
CREATING, UPDATING, ACTIVE = "CREATING", "UPDATING", "ACTIVE"
_CREATION = {Type.PCS_CLUSTER: timedelta(minutes=15)}
_UPDATE = {Type.PCS_CLUSTER: timedelta(minutes=10)}
_OTHERWISE = timedelta(minutes=5)
_IDLE_TIME = timedelta(seconds=600)  # API model, scaleDownIdleTimeInSeconds
_NAME_LIMITS = {Type.PCS_CLUSTER: 40, Type.PCS_NODE_GROUP: 25, Type.PCS_QUEUE: 25}  # API model, names
_SUFFIX_LENGTH = 8
#: Ports: user guide, "Security groups in AWS PCS" and "Authenticating with Slurm REST API"; slurmdbd: slurmdbd.conf(5).
SLURMCTLD_PORT, SLURMD_PORT = 6817, 6818
_SLURMDBD_PORT, _SLURMRESTD_PORT = 6819, 6820
#: What launches other instances than before; the rest of a group's properties does not touch running ones.
_REPLACING = ("AmiId", "CustomLaunchTemplate", "IamInstanceProfileArn", "NodeLifecycleActions", "PurchaseOption")
#: User guide, "Overview of launch templates in AWS PCS": PCS ignores these parameters.
IGNORED = (
    "InstanceRequirements",
    "InstanceType",
    "IamInstanceProfile",
    "DisableApiTermination",
    "DisableApiStop",
    "HibernationOptions",
    "ElasticGpuSpecifications",
    "ElasticInferenceAccelerators",
)


# States over the clock.


def status(world: World, resource: Resource) -> str:
    """The state that PCS reports now; a state machine that has waited sees what comes after its waits."""
    settings = resource.settings
    if "Status" in settings:
        return str(settings["Status"])
    is_ready = world.clock.now() + world.ahead >= settings["ReadyAt"]
    return ACTIVE if is_ready else str(settings["Phase"])


def ready_at(resource: Resource) -> datetime:
    """When the change that is under way ends; CloudFormation waits for it."""
    moment: datetime = resource.settings["ReadyAt"]
    return moment


def deletion_time() -> timedelta:
    """How long a deletion takes."""
    return _OTHERWISE


def begin(world: World, resource: Resource) -> None:
    """Name a new resource of PCS, and start its creation; Refused if the quota has no room for it."""
    now = world.clock.now()
    if resource.type == Type.PCS_CLUSTER:
        _check_quota(world, resource)
    resource.settings |= {
        "Name": resource.properties.get("Name") or _made_up_name(world, resource),
        "CreatedAt": now,
        "ModifiedAt": now,
        "Phase": CREATING,
        "ReadyAt": now + _CREATION.get(Type(resource.type), _OTHERWISE),
    }


def touch(world: World, resource: Resource) -> None:
    """Start an update."""
    now = world.clock.now() + world.ahead
    ready = now + _UPDATE.get(Type(resource.type), _OTHERWISE)
    resource.settings |= {"ModifiedAt": now, "Phase": UPDATING, "ReadyAt": ready}


def _check_quota(world: World, resource: Resource) -> None:
    for other in world.of_type(Type.PCS_CLUSTER):
        if other.region == resource.region and status(world, other) == CREATING:
            raise quota_refusal(resource.logical_id, other)


def quota_refusal(logical_id: str, other: Resource) -> Refused:
    """The refusal of a cluster beside another that is being created (API model, CreateCluster)."""
    message = (
        f"ServiceQuotaExceededException: there is already a cluster in a Creating state: {other.settings['Name']}; "
        "there can only be 1 per AWS Region per AWS account"
    )
    return Refused(f"{Type.PCS_CLUSTER} {logical_id}", [Fault("pcs-one-creating", message)])


def _made_up_name(world: World, resource: Resource) -> str:
    """A name as CloudFormation makes one, as long as PCS takes it."""
    stem = "".join(one for one in resource.logical_id if one.isalnum()).lstrip("0123456789") or "pcs"
    suffix = world.new_id("", f"{resource.physical_id}/name", _SUFFIX_LENGTH)
    return f"{stem[: _NAME_LIMITS[Type(resource.type)] - _SUFFIX_LENGTH - 1]}-{suffix}"


def endpoints(cluster_id: str, properties: Json) -> list[Json]:
    """Where the scheduler of a cluster listens, as CloudFormation spells it."""
    slurm = properties.get("SlurmConfiguration", {})
    ports = {"SLURMCTLD": SLURMCTLD_PORT}
    if slurm.get("Accounting", {}).get("Mode") == "STANDARD":
        ports["SLURMDBD"] = _SLURMDBD_PORT
    if slurm.get("SlurmRest", {}).get("Mode") == "STANDARD":
        ports["SLURMRESTD"] = _SLURMRESTD_PORT
    address = "" if properties["Networking"].get("NetworkType") == "IPV6" else private_address(cluster_id)
    return [{"Type": kind, "PrivateIpAddress": address, "Port": str(port)} for kind, port in ports.items()]


def change_cluster(world: World, cluster: Resource) -> None:
    """Update a cluster in place: settings, accounting, the version of Slurm."""
    cluster.attributes["Endpoints"] = endpoints(cluster.attributes["Id"], cluster.properties)
    touch(world, cluster)


# The instances of a compute node group.


def group_behind(world: World, node_group: Resource) -> Group:
    """The instances of a compute node group, with their sizes."""
    return world.groups[str(node_group.attributes["Id"])]


def start(world: World, node_group: Resource) -> None:
    """Derive the launch template of a new compute node group, and launch its minimum."""
    identifier = node_group.attributes["Id"]
    template = Resource(
        type=Type.LAUNCH_TEMPLATE,
        logical_id=node_group.logical_id,
        physical_id=world.new_id("lt-", node_group.physical_id),
        region=node_group.region,
        properties={
            "LaunchTemplateName": f"pcs-{identifier}-do-not-delete",
            "LaunchTemplateData": launch_data(node_group.properties, world),
        },
    )
    first_version(world, template)
    world.add(template)
    node_group.parts[Type.LAUNCH_TEMPLATE] = template.physical_id
    node_group.settings["Launched"] = node_group.properties
    least, most = sizes(node_group.properties)
    world.groups[identifier] = Group(
        name=identifier,
        minimum=least,
        maximum=most,
        desired=least,
        created_at=world.clock.now(),
        given=_launched_by(world, node_group, template),
    )
    fleets.settle(world)


def change(world: World, node_group: Resource) -> None:
    """Bring the instances of a compute node group to its properties."""
    before, given = node_group.settings["Launched"], node_group.properties
    node_group.settings["Launched"] = given
    touch(world, node_group)
    template = world.find(Type.LAUNCH_TEMPLATE, node_group.parts[Type.LAUNCH_TEMPLATE])
    if template is None:
        raise ValueError(f"the launch template behind {node_group.physical_id} is gone")
    group = group_behind(world, node_group)
    is_replaced = replaces_instances(before, given)
    group.minimum, group.maximum = sizes(given)
    kept = 0 if is_replaced else min(len(group.instances), group.maximum)
    group.desired = max(group.minimum, kept)
    node_group.settings["IdleAt"] = world.clock.now() + _idle_time(world, node_group)
    template.properties["LaunchTemplateData"] = launch_data(given, world)
    add_version(world, template)
    group.given = _launched_by(world, node_group, template)
    gone = group.instances if is_replaced else _outside(group, given)
    end_instances(world, group, list(gone), "the compute node group was updated")


def _idle_time(world: World, node_group: Resource) -> timedelta:
    """How long an idle node above the minimum is kept: the group's time, the cluster's, or the default of both."""
    cluster = world.pcs_cluster(node_group.properties["ClusterId"])
    for given in (node_group.properties, cluster.properties if cluster else {}):
        seconds = given.get("SlurmConfiguration", {}).get("ScaleDownIdleTimeInSeconds", -1)
        if seconds > 0:
            return timedelta(seconds=seconds)
    return _IDLE_TIME


def scale_down(world: World, node_group: Resource) -> None:
    """End the nodes above the minimum, which no job has kept."""
    group = group_behind(world, node_group)
    group.desired = group.minimum
    fleets.settle(world)


def replaces_instances(before: Json, after: Json) -> bool:
    """Whether an update replaces the instances of a compute node group; they are idle here, so at once."""
    return any(before.get(name) != after.get(name) for name in _REPLACING) or _node_settings(before) != _node_settings(
        after
    )


def _node_settings(given: Json) -> Json:
    slurm: Json = given.get("SlurmConfiguration", {})
    return {name: value for name, value in slurm.items() if name != "ScaleDownIdleTimeInSeconds"}


def _outside(group: Group, given: Json) -> list[Instance]:
    return [one for one in group.instances if one.subnet_id not in given["SubnetIds"]]


def end_instances(world: World, group: Group, instances: list[Instance], reason: str) -> None:
    """End instances, and launch others up to the size of the group."""
    for one in instances:
        group.instances.remove(one)
        group.note(world, "Successful", f"Terminating EC2 instance: {one.id}", reason)
    fleets.settle(world)


def end(world: World, node_group: Resource) -> None:
    """Remove the launch template and the instances of a compute node group."""
    world.groups.pop(str(node_group.attributes["Id"]), None)
    world.remove(Type.LAUNCH_TEMPLATE, node_group.parts.get(Type.LAUNCH_TEMPLATE, ""))


def open_queue(_world: World, queue: Resource) -> None:
    """Put down which groups a new queue has."""
    queue.settings["Groups"] = groups_of(queue.properties)


def change_queue(world: World, queue: Resource) -> None:
    """Update a queue in place."""
    touch(world, queue)
    before, queue.settings["Groups"] = queue.settings["Groups"], groups_of(queue.properties)
    _leave(world, queue, before - queue.settings["Groups"])


def close_queue(world: World, queue: Resource) -> None:
    """What the deletion of a queue does to its groups."""
    _leave(world, queue, queue.settings["Groups"])


def _leave(world: World, queue: Resource, left: frozenset[str]) -> None:
    """End the instances of groups that no queue has any more (API model, DeleteQueue)."""
    cluster = world.pcs_cluster(queue.properties["ClusterId"])
    others = world.pcs_parts(Type.PCS_QUEUE, cluster) if cluster else []
    served: set[str] = set().union(*(one.settings["Groups"] for one in others if one is not queue))
    for identifier in left - served:
        if identifier in world.groups:
            group = world.groups[identifier]
            end_instances(world, group, list(group.instances), "no queue has the compute node group any more")


def groups_of(queue: Json) -> frozenset[str]:
    """Ids of the compute node groups of a queue's properties."""
    given = queue.get("ComputeNodeGroupConfigurations", [])
    return frozenset(str(one.get("ComputeNodeGroupId", "")) for one in given)


def errors(world: World, node_group: Resource) -> list[Json]:
    """What keeps a compute node group from its minimum, as GetComputeNodeGroup has it; the code is ours."""
    group = group_behind(world, node_group)
    if len(group.instances) >= group.desired:
        return []
    failed = next((one for one in group.activities if one["StatusCode"] == "Failed"), None)
    return [{"code": "InsufficientInstanceCapacity", "message": failed["StatusMessage"]}] if failed else []


def sizes(properties: Json) -> tuple[int, int]:
    """Minimum and maximum of a compute node group."""
    given = properties["ScalingConfiguration"]
    return int(given["MinInstanceCount"]), int(given["MaxInstanceCount"])


def own_data(properties: Json, world: World) -> Json | None:
    """The data of the user's launch template; None where the version does not exist."""
    given = properties.get("CustomLaunchTemplate", {})
    specification = {"LaunchTemplateId": given.get("TemplateId"), "Version": given.get("Version")}
    return world.launch_template_data(specification)


def launch_data(properties: Json, world: World, instance_type: str = "") -> Json:
    """What an instance of the group is launched with: PCS manages some parameters itself."""
    data = {key: value for key, value in (own_data(properties, world) or {}).items() if key not in IGNORED}
    types = [one["InstanceType"] for one in properties["InstanceConfigs"] if "InstanceType" in one]
    data |= {"InstanceType": instance_type or types[0]} if types else {}
    data |= {"ImageId": properties["AmiId"]} if "AmiId" in properties else {}
    data["CpuOptions"] = {**data.get("CpuOptions", {}), "ThreadsPerCore": 1}
    return {**data, "IamInstanceProfile": {"Arn": properties["IamInstanceProfileArn"]}}


def _launched_by(world: World, node_group: Resource, template: Resource) -> Json:
    cluster = world.pcs_cluster(node_group.properties["ClusterId"])
    tags = {
        "aws:pcs:cluster-id": cluster.attributes["Id"] if cluster else "",
        "aws:pcs:compute-node-group-id": node_group.attributes["Id"],
    }
    return {
        "VPCZoneIdentifier": node_group.properties["SubnetIds"],
        "LaunchTemplate": {"LaunchTemplateId": template.physical_id, "Version": str(len(template.versions))},
        "Tags": [{"Key": key, "Value": value, "PropagateAtLaunch": True} for key, value in tags.items()],
    }


def update_sizes(world: World, node_group: Resource, given: Json) -> None:
    """Change the sizes of a group by the API; ApiError while another change is under way."""
    state = status(world, node_group)
    if state not in (ACTIVE, "UPDATE_FAILED"):
        raise ApiError("ConflictException", f"compute node group {node_group.settings['Name']} is in state {state}")
    node_group.properties = {**node_group.properties, "ScalingConfiguration": given}
    change(world, node_group)
