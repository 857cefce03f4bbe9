"""Roles that accelerated nodes have, and roles that jobs on them take."""

from __future__ import annotations

from collections.abc import Mapping

from cdk_gpu_clusters.template_rules.case import Case, Resource
from cdk_gpu_clusters.template_rules.choices import Undecidable, any_surely, assume_either
from cdk_gpu_clusters.template_rules.lookups.cluster import has_accelerated_nodes
from cdk_gpu_clusters.template_rules.lookups.groups import (
    COMPUTE_ENVIRONMENT,
    EKS_NODE_GROUP,
    HYPERPOD,
    PCS_NODE_GROUP,
    hyperpod_record_of,
    instance_groups,
    launch_of_node_group,
)
from cdk_gpu_clusters.template_rules.lookups.launches import (
    INSTANCE,
    LAUNCH_TEMPLATE,
    LAUNCHES,
    launch_of,
    looks_accelerated,
    own_types_of,
    specification_of,
    values_at,
)
from cdk_gpu_clusters.template_rules.lookups.policies import ROLE
from cdk_gpu_clusters.template_rules.rule import NotApplicable

_Places = Mapping[str, tuple[str, ...]]

_PROFILE = "AWS::IAM::InstanceProfile"
# Where resources name the instance profile of their nodes, and where the role itself.
_PROFILES: _Places = {
    LAUNCH_TEMPLATE: ("LaunchTemplateData/IamInstanceProfile/Arn", "LaunchTemplateData/IamInstanceProfile/Name"),
    INSTANCE: ("IamInstanceProfile",),
    COMPUTE_ENVIRONMENT: ("ComputeResources/InstanceRole",),
    PCS_NODE_GROUP: ("IamInstanceProfileArn",),
}
_ROLES: _Places = {EKS_NODE_GROUP: ("NodeRole",), HYPERPOD: ("InstanceGroups/*/ExecutionRole",)}
# Where jobs get roles of their own: pods by EKS Pod Identity, containers by AWS Batch.
_JOBS: _Places = {
    "AWS::EKS::PodIdentityAssociation": ("RoleArn",),
    "AWS::Batch::JobDefinition": (
        "ContainerProperties/JobRoleArn",
        "NodeProperties/NodeRangeProperties/*/Container/JobRoleArn",
    ),
}


def node_role(resource: Resource) -> Resource:
    """The same role, if accelerated nodes have it.

    Raises:
        NotApplicable: If no nodes of the template have it, or plain ones do.
        Fork: If the types of its nodes are not known.
    """
    users = _nodes_with(resource)
    if not users or not _any_accelerated(resource, users):
        raise NotApplicable
    return resource


def node_or_job_role(resource: Resource) -> Resource:
    """The same role, if accelerated nodes have it, or if jobs beside such nodes take it.

    Raises:
        NotApplicable: If neither is so.
        Fork: If the types of its nodes are not known.
    """
    if _naming(resource, _JOBS) and has_accelerated_nodes(resource.case):
        return resource
    return node_role(resource)


def roles_of_cluster(case: Case) -> list[Resource]:
    """The roles of nodes and jobs; ask for them with `case.once`."""
    found = []
    for role in case.resources(ROLE):
        try:
            found.append(node_or_job_role(role))
        except NotApplicable:
            continue
    return found


def _nodes_with(role: Resource) -> list[Resource]:
    """What launches nodes with a role."""
    profiles = _naming(role, {_PROFILE: ("Roles/*",)})
    return [*_naming(role, _ROLES), *(user for profile in profiles for user in _naming(profile, _PROFILES))]


def _naming(target: Resource, places: _Places) -> list[Resource]:
    return [
        one
        for one in target.case.resources_naming(target, *places)
        if any(target.is_target_of(value) for path in places[one.type] for value in values_at(one.properties, path))
    ]


def _any_accelerated(role: Resource, users: list[Resource]) -> bool:
    try:
        return any_surely(users, _is_accelerated)
    except Undecidable as unclear:
        question = role.case.key(f"{role.logical_id} is a role of accelerated nodes")
        return assume_either(role.case.choices, question, unclear)


def _is_accelerated(user: Resource) -> bool:
    if user.type == HYPERPOD:
        records = [hyperpod_record_of(group.get("InstanceType")) for group in instance_groups(user)]
        return any(record is not None and record.accelerator is not None for record in records)
    if user.type in LAUNCHES:
        types = launch_of(user).instance_types()
        if not types and user.type == LAUNCH_TEMPLATE:
            raise user.properties.undecidable("no instance type is named in this template")
    else:
        types = own_types_of(user)
        if not types and specification_of(user).exists:
            types = launch_of_node_group(user).instance_types()
    return any_surely(types, looks_accelerated)
