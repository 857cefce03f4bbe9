"""What AWS Batch refuses of compute environments, job queues and multi-node jobs beyond their schemas.

Sources, stored copies of 2026: AWS Batch API model (botocore 1.44.5), CreateComputeEnvironment,
UpdateComputeEnvironment, CreateJobQueue and RegisterJobDefinition; AWS Batch user guide, "Use Amazon EC2 launch
templates with AWS Batch" (MIME), "Update a compute environment in AWS Batch" (BEST_FIT, service role), "Compute
environment considerations for MNP" (five security groups), "Automatic remediation with jobStateTimeLimitActions"
(reasons); CloudFormation template reference, AWS::Batch::ComputeEnvironment. The words of the messages are ours, but
that about security groups and network interfaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cdk_gpu_clusters.catalogue import instance_types

from ..faults import Fault
from ..schemas import instance_type_exists, resource_schema
from ..world import Json, Type, World
from .launch_templates import interface_faults, is_mime_multipart
from .networks import group_faults, subnet_faults

_RESOURCES, _ORDER = "ComputeResources", "ComputeEnvironmentOrder"
_BEST_FIT = "BEST_FIT"
_MOST_ENVIRONMENTS = 3
_MOST_GROUPS = 5
_REASONS = frozenset(
    {
        "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY",
        "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE",
        "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT",
    }
)
# `3`, `0:3`, `4:` and `:7` (API reference, NodeRangeProperty).
_RANGE = re.compile(r"(\d+)|(\d*):(\d*)")
# What a scaling update changes: no instance is replaced for it.
_SCALING = frozenset({"MinvCpus", "MaxvCpus", "DesiredvCpus"})


def compute_environment_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::Batch::ComputeEnvironment`."""
    given = properties.get(_RESOURCES)
    if properties["Type"] != "MANAGED" or not isinstance(given, dict):
        return
    if given.get("MaxvCpus", 0) < max(given.get("MinvCpus", 0), 1):
        yield Fault("batch-vcpus", "maxvCpus is 1 or more, and not below minvCpus", f"{_RESOURCES}/MaxvCpus")
    for name in given.get("InstanceTypes", []):
        if "." in name and not instance_type_exists(name):
            yield Fault("instance-type", f"there is no instance type {name!r}", f"{_RESOURCES}/InstanceTypes")
    groups = given.get("SecurityGroupIds", [])
    if len(groups) > _MOST_GROUPS:
        message = f"at most {_MOST_GROUPS} security groups, got {len(groups)}"
        yield Fault("batch-groups", message, f"{_RESOURCES}/SecurityGroupIds")
    yield from subnet_faults(given["Subnets"], world, f"{_RESOURCES}/Subnets")
    yield from group_faults(groups, given["Subnets"], world, f"{_RESOURCES}/SecurityGroupIds")
    if "LaunchTemplate" in given:
        yield from _template_faults(given, world)


def _template_faults(given: Json, world: World) -> Iterator[Fault]:
    path, named = f"{_RESOURCES}/LaunchTemplate", given["LaunchTemplate"]
    data = world.launch_template_data(named)
    if data is None:
        message = f"there is no launch template {named.get('LaunchTemplateId')} with version {named.get('Version')}"
        yield Fault("batch-template", message, path)
        return
    if "UserData" in data and not is_mime_multipart(data["UserData"]):
        yield Fault("batch-user-data", "user data must be a MIME multi-part archive", path)
    if given.get("SecurityGroupIds") and data.get("NetworkInterfaces"):
        # The message of the service, as aws/aws-cdk issue 21577 has it.
        message = (
            "Error executing request, Exception : Either compute environment Security Groups or Network Interfaces in "
            "Launch template are exclusively allowed"
        )
        yield Fault("batch-groups", message, f"{_RESOURCES}/SecurityGroupIds")
    if not given.get("SecurityGroupIds") and not any(one.get("Groups") for one in data.get("NetworkInterfaces", [])):
        message = "security groups are needed, in the environment or in its launch template"
        yield Fault("batch-groups", message, f"{_RESOURCES}/SecurityGroupIds")
    for name in given.get("InstanceTypes", []):
        if name in instance_types():
            for fault in interface_faults({**data, "InstanceType": name}):
                yield Fault(fault.check, fault.message, path)


def compute_environment_change_faults(physical_id: str, old: Json, new: Json, world: World) -> Iterator[Fault]:
    """Faults of a change in place: instances are replaced only with another strategy and the service-linked role."""
    del physical_id, world
    before, after = old.get(_RESOURCES, {}), new.get(_RESOURCES, {})
    changed = sorted(
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name) and name not in _SCALING
    )
    if not changed:
        return
    if before.get("AllocationStrategy", _BEST_FIT) == _BEST_FIT:
        message = f"ClientException: an environment with BEST_FIT takes no change of {', '.join(changed)}"
        yield Fault("batch-best-fit", message, f"{_RESOURCES}/{changed[0]}")
    if "ServiceRole" in new and "AWSServiceRoleForBatch" not in str(new["ServiceRole"]):
        message = f"ClientException: a change of {', '.join(changed)} needs the service-linked role"
        yield Fault("batch-service-role", message, "ServiceRole")


def replaced_environment(old: Json, new: Json) -> list[str]:
    """Properties whose change replaces a compute environment, unless the template keeps it.

    Source: registry schema, conditionalCreateOnlyProperties; template reference, ReplaceComputeEnvironment, true if
    left out.
    """
    schema = resource_schema(Type.COMPUTE_ENVIRONMENT)
    if schema is None or str(new.get("ReplaceComputeEnvironment", True)).lower() == "false":
        return []
    before, after = old.get(_RESOURCES, {}), new.get(_RESOURCES, {})
    names = [path.partition(".")[2] for path in schema.conditional_create_only if path.startswith(f"{_RESOURCES}.")]
    return [f"{_RESOURCES}.{name}" for name in names if before.get(name) != after.get(name)]


def compute_environment_deletion_faults(physical_id: str, world: World) -> Iterator[Fault]:
    """Faults of deleting an `AWS::Batch::ComputeEnvironment`: a queue must not have it."""
    for queue in world.of_type(Type.JOB_QUEUE):
        if physical_id in _environments(queue.properties):
            message = f"ClientException: the job queue {queue.physical_id} still has the compute environment"
            yield Fault("batch-environment-in-queue", message)


def job_queue_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::Batch::JobQueue`."""
    named = _environments(properties)
    if not 1 <= len(named) <= _MOST_ENVIRONMENTS:
        message = f"a queue has 1 to {_MOST_ENVIRONMENTS} compute environments, got {len(named)}"
        yield Fault("batch-order", message, _ORDER)
    orders = [one["Order"] for one in properties.get(_ORDER, [])]
    if len(set(orders)) < len(orders):
        yield Fault("batch-order", "two compute environments have the same order", _ORDER)
    for arn in named:
        known = world.find(Type.COMPUTE_ENVIRONMENT, arn)
        if known is None and arn.startswith(world.arn("batch", "compute-environment/")):
            yield Fault("batch-environment-missing", f"there is no compute environment {arn}", _ORDER)
    for one in properties.get("JobStateTimeLimitActions", []):
        if one["Reason"] not in _REASONS:
            message = f"no action takes the reason {one['Reason']!r}; allowed: {', '.join(sorted(_REASONS))}"
            yield Fault("batch-reason", message, "JobStateTimeLimitActions")


def _environments(queue: Json) -> list[str]:
    return [str(one["ComputeEnvironment"]) for one in queue.get(_ORDER, [])]


def job_definition_faults(properties: Json, _world: World) -> Iterator[Fault]:
    """Faults of a multi-node `AWS::Batch::JobDefinition`."""
    nodes = properties.get("NodeProperties")
    if properties["Type"] != "multinode":
        return
    if not isinstance(nodes, dict):
        yield Fault("batch-nodes", "a multinode job has NodeProperties", "NodeProperties")
        return
    count, ranges = nodes["NumNodes"], nodes["NodeRangeProperties"]
    named = {node for one in ranges for node in _nodes(str(one["TargetNodes"]), count)}
    if named != set(range(count)):
        message = f"the ranges name {len(named)} nodes, and the job has those from 0 to {count - 1}"
        yield Fault("batch-ranges", message, "NodeProperties/NodeRangeProperties")
    if not 0 <= nodes["MainNode"] < count:
        message = f"the main node is one of {count} nodes, got {nodes['MainNode']}"
        yield Fault("batch-main-node", message, "NodeProperties/MainNode")
    types = {
        name
        for one in ranges
        for name in (*one.get("InstanceTypes", []), one.get("Container", {}).get("InstanceType"))
        if name
    }
    if len(types) > 1:
        message = f"all nodes have one instance type, got {', '.join(sorted(types))}"
        yield Fault("batch-types", message, "NodeProperties/NodeRangeProperties")


def _nodes(text: str, count: int) -> range:
    """The nodes of a range; an open end is the first or the last node."""
    found = _RANGE.fullmatch(text)
    if found is None:
        return range(0)
    if found[1]:
        return range(int(found[1]), int(found[1]) + 1)
    return range(int(found[2] or 0), int(found[3] or count - 1) + 1)
