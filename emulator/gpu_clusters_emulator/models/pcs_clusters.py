"""What AWS PCS refuses in clusters and queues beyond their schemas.

Sources, stored copies of 2026: PCS API model (botocore 1.44.5), CreateCluster, UpdateCluster, DeleteCluster,
CreateQueue, ConflictException and ServiceQuotaExceededException; AWS PCS user guide, "Updating the scheduler version of
a cluster in AWS PCS" and its troubleshooting (newer, not beyond three major versions, ValidationException), "Updating
a cluster in AWS PCS" (states), "Enabling Slurm REST API in AWS PCS" (25.05), "Creating a queue". Versions and sizes are
read from the documentation in the API model. The words in front of each message are the exceptions of the model; the
rest of a message is ours. When the support of a version ends is not known here: no cluster is SUSPENDED by itself.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from functools import cache

from .. import pcs
from ..faults import Fault
from ..service_shapes import service_model, shape_faults
from ..world import Json, Resource, Type, World
from .networks import group_faults, subnet_faults
from .pcs_settings import setting_faults, version_of

_SUBNETS, _GROUPS = "Networking/SubnetIds", "Networking/SecurityGroupIds"
_VERSION, _SLURM = "Scheduler/Version", "SlurmConfiguration"
_REST_SINCE = (25, 5)
_MOST_STEPS = 3
_VALID_VALUES = re.compile(r"Valid Values: <code>([^<]+)</code>")
_SIZE = re.compile(r"<code>(SMALL|MEDIUM|LARGE)</code>\s*:\s*([\d,]+) compute nodes")
#: Local Zones and Wavelength Zones have a place behind the Region in their names (EC2 user guide, "Zones").
_OTHER_ZONE = re.compile(r"[a-z]{2}(?:-[a-z]+)+-\d+-")


@cache
def _valid_values(shape: str, member: str) -> tuple[str, ...]:
    """The values that the documentation of a member lists."""
    text = html.unescape(service_model("pcs").shape_for(shape).members[member].documentation)
    found = _VALID_VALUES.search(text)
    return tuple(one.strip() for one in found[1].split("|")) if found else ()


@cache
def node_limits() -> Mapping[str, int]:
    """Compute nodes of each size of a cluster."""
    text = html.unescape(service_model("pcs").shape_for("CreateClusterRequest").members["size"].documentation)
    return {size: int(count.replace(",", "")) for size, count in _SIZE.findall(text)}


def name_faults(operation: str, member: str, properties: Json) -> Iterator[Fault]:
    """Faults of the form of a name that the template gives."""
    if "Name" in properties:
        for fault in shape_faults("pcs", operation, {member: properties["Name"]}):
            yield Fault("pcs-name", fault.message, "Name")


def cluster_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::PCS::Cluster`."""
    yield from name_faults("CreateCluster", "clusterName", properties)
    name = properties.get("Name")
    if name and any(one.settings["Name"] == name for one in _here(world)):
        yield Fault("pcs-name-taken", f"ConflictException: a cluster with the same name already exists: {name}", "Name")
    yield from _network_faults(properties["Networking"], world)
    version = properties["Scheduler"]["Version"]
    known = _valid_values("Scheduler", "version")
    if version not in known:
        yield Fault("pcs-version", f"the version of Slurm is one of {', '.join(known)}, got {version!r}", _VERSION)
    slurm = properties.get("SlurmConfiguration", {})
    yield from setting_faults(slurm, "cluster", version)
    if slurm.get("Accounting", {}).get("DefaultPurgeTimeInDays") == 0:
        message = "0 isn't a valid value: -1 keeps records, 1 to 10000 are days"
        yield Fault("pcs-accounting", message, f"{_SLURM}/Accounting/DefaultPurgeTimeInDays")
    if slurm.get("SlurmRest", {}).get("Mode") == "STANDARD" and version_of(version) < _REST_SINCE:
        message = f"the Slurm REST API needs Slurm 25.05 or later, got {version}"
        yield Fault("pcs-rest-version", message, f"{_SLURM}/SlurmRest/Mode")


def new_cluster_faults(properties: Json) -> Iterator[Fault]:
    """Faults of what only an existing cluster may have: a version that CreateCluster takes no more."""
    version, offered = properties["Scheduler"]["Version"], _valid_values("SchedulerRequest", "version")
    if version not in offered:
        message = f"a new cluster takes Slurm {', '.join(offered)}, got {version!r}"
        yield Fault("pcs-version", message, _VERSION)


def _network_faults(given: Json, world: World) -> Iterator[Fault]:
    subnets, groups = given.get("SubnetIds", []), given.get("SecurityGroupIds", [])
    if len(subnets) != 1:
        message = f"PCS currently supports only 1 subnet in this list, got {len(subnets)}"
        yield Fault("pcs-subnets", message, _SUBNETS)
    yield from subnet_faults(subnets, world, _SUBNETS)
    yield from group_faults(groups, subnets, world, _GROUPS)
    for subnet in subnets:
        zone = world.zone_of_subnet(subnet)
        if zone and _OTHER_ZONE.match(zone):
            message = f"the subnet {subnet} is in {zone}: subnets can't be in Outposts, Wavelength or a Local Zone"
            yield Fault("pcs-local-zone", message, _SUBNETS)


def _here(world: World) -> list[Resource]:
    return [one for one in world.of_type(Type.PCS_CLUSTER) if one.region == world.region]


def cluster_change_faults(physical_id: str, old: Json, new: Json, world: World) -> Iterator[Fault]:
    """Faults of a change that PCS makes in place."""
    cluster = world.find(Type.PCS_CLUSTER, physical_id)
    if cluster is None:
        return
    state = pcs.status(world, cluster)
    if state not in (pcs.ACTIVE, "UPDATE_FAILED", "SUSPENDED"):
        message = f"ConflictException: a cluster is updated in ACTIVE, UPDATE_FAILED or SUSPENDED state, not in {state}"
        yield Fault("pcs-state", message)
    busy = [
        one.settings["Name"]
        for kind in (Type.PCS_NODE_GROUP, Type.PCS_QUEUE)
        for one in world.pcs_parts(kind, cluster)
        if pcs.status(world, one) != pcs.ACTIVE
    ]
    if busy:
        message = f"ConflictException: queues and compute node groups must be in ACTIVE state: {', '.join(busy)}"
        yield Fault("pcs-state", message)
    yield from _step_faults(old["Scheduler"]["Version"], new["Scheduler"]["Version"])


def _step_faults(before: str, after: str) -> Iterator[Fault]:
    """The target is newer, offered, and at most three major versions ahead."""
    if before == after:
        return
    order = _valid_values("Scheduler", "version")
    offered = _valid_values("UpdateSchedulerRequest", "version") or order
    if after not in offered or after not in order or before not in order:
        message = f"ValidationException: {after} is not a version to update to: {', '.join(offered)}"
        yield Fault("pcs-version-step", message, _VERSION)
        return
    steps = order.index(after) - order.index(before)
    if not 0 < steps <= _MOST_STEPS:
        message = (
            f"ValidationException: Slurm is updated to a newer version, at most {_MOST_STEPS} major versions ahead: "
            f"got {before} to {after}"
        )
        yield Fault("pcs-version-step", message, _VERSION)


def cluster_deletion_faults(physical_id: str, world: World) -> Iterator[Fault]:
    """Faults of deleting an `AWS::PCS::Cluster`."""
    cluster = world.find(Type.PCS_CLUSTER, physical_id)
    if cluster is None:
        return
    parts = [
        one.settings["Name"] for kind in (Type.PCS_QUEUE, Type.PCS_NODE_GROUP) for one in world.pcs_parts(kind, cluster)
    ]
    if parts:
        message = f"ConflictException: the cluster still has queues or compute node groups: {', '.join(parts)}"
        yield Fault("pcs-cluster-parts", message)


def part_faults(properties: Json, world: World, operation: str) -> Iterator[Fault]:
    """Faults of the cluster that a compute node group or a queue is for."""
    given = properties["ClusterId"]
    wrong = list(shape_faults("pcs", operation, {"clusterIdentifier": given}))
    if wrong:
        yield Fault("pcs-cluster-id", f"give the Id or the name of the cluster: {wrong[0].message}", "ClusterId")
        return
    cluster = world.pcs_cluster(given)
    if cluster is None:
        message = f"ResourceNotFoundException: there is no cluster {given} in {world.region}"
        yield Fault("pcs-cluster-missing", message, "ClusterId")
    elif (state := pcs.status(world, cluster)) != pcs.ACTIVE:
        message = f"ConflictException: the cluster {cluster.settings['Name']} is not ACTIVE, but {state}"
        yield Fault("pcs-state", message, "ClusterId")


def queue_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::PCS::Queue`."""
    yield from name_faults("CreateQueue", "queueName", properties)
    missing = list(part_faults(properties, world, "CreateQueue"))
    yield from missing
    cluster = world.pcs_cluster(properties["ClusterId"])
    if missing or cluster is None:
        return
    name = properties.get("Name")
    if name and any(one.settings["Name"] == name for one in world.pcs_parts(Type.PCS_QUEUE, cluster)):
        message = f"ConflictException: a queue {name} already exists in the cluster"
        yield Fault("pcs-name-taken", message, "Name")
    version = cluster.properties["Scheduler"]["Version"]
    yield from setting_faults(properties.get("SlurmConfiguration", {}), "queue", version)
    wanted = pcs.groups_of(properties)
    if not wanted:
        message = "you must associate 1 or more compute node groups with the queue"
        yield Fault("pcs-queue-groups", message, "ComputeNodeGroupConfigurations")
    groups = {one.attributes["Id"]: one for one in world.pcs_parts(Type.PCS_NODE_GROUP, cluster)}
    for identifier in sorted(wanted):
        if identifier not in groups:
            message = f"ResourceNotFoundException: the cluster has no compute node group with the Id {identifier!r}"
            yield Fault("pcs-queue-groups", message, "ComputeNodeGroupConfigurations")
        elif (state := pcs.status(world, groups[identifier])) != pcs.ACTIVE:
            message = f"ConflictException: the compute node group {identifier} is not ACTIVE, but {state}"
            yield Fault("pcs-state", message, "ComputeNodeGroupConfigurations")
