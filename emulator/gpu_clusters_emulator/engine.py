"""The engine below the models: ministack, with handlers of this package in its CloudFormation.

This module alone knows ministack, and it is written against ministack 1.5.33. Requests, resets, buckets and security
groups go through ministack's public ASGI application and its services' request handlers. Its CloudFormation has no
public place for what follows, so private names are replaced here, and nowhere else. The proposal to make them public is
in docs/decisions/0005-emulator.md.

* `_RESOURCE_HANDLERS`: a resource type is served by a table. Without it only another CloudFormation could help.
* `_delete_predecessor`: a handler that replaces a resource deletes the old one in the stack's cleanup.
* `_property_recreation`: a change set shows what a change replaces; the registry schemas know it for more types.
* `_topological_sort`, `_extract_deps`: of the orders that the dependencies of a stack allow, the one that is hardest on
  nodes is taken.
* `_s3_batch_delete_targets`: IAM judges each key and each version of a request that deletes several objects.
* `_evaluate_conditions`, `_resolve_refs`: functions inside `Fn::Equals`, as in the CDK's bootstrap template.
"""

from __future__ import annotations

import hashlib
import html
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

from . import provisioning
from .api import Request, call_from_states
from .handlers import Handlers
from .schemas import resource_schema
from .world import Json, Question, Resource, Type, World

# The engine starts no listener, scheduler or container of its own; the front serves it and the world's clock drives it.
_SETTINGS = {
    "BIND_HOST": "127.0.0.1",
    "IOT_MTLS_ENABLED": "0",
    "LOG_LEVEL": "ERROR",
    "MINISTACK_TEST_NO_AUTOSTART": "1",
    "PERSIST_STATE": "0",
    "SFTP_ENABLED": "0",
}
_OK = 200
_PUBLIC_PARAMETERS = "/aws/service/"
_CONDITION_FUNCTIONS = ("Fn::Join", "Fn::Sub", "Fn::FindInMap", "Fn::Split")
_WITH_NODES = (Type.AUTO_SCALING_GROUP, Type.NODE_GROUP, Type.PCS_NODE_GROUP)
_RULES = {f"AWS::EC2::{name}": name for name in ("SecurityGroupIngress", "SecurityGroupEgress")}
#: Properties of a security group rule, each with its member of `IpPermissions` in the query protocol.
_PEERS = {
    "CidrIp": "IpRanges.1.CidrIp",
    "CidrIpv6": "Ipv6Ranges.1.CidrIpv6",
    "SourcePrefixListId": "PrefixListIds.1.PrefixListId",
    "DestinationPrefixListId": "PrefixListIds.1.PrefixListId",
    "SourceSecurityGroupId": "Groups.1.GroupId",
    "DestinationSecurityGroupId": "Groups.1.GroupId",
}


class Engine:
    """ministack, as the host of the handlers."""

    def __init__(self) -> None:
        os.environ.update(_SETTINGS)
        self.world = World(call_from_states, _decide, _read_object)
        self._responses = import_module("ministack.core.responses")
        self.asgi: Callable[..., Any] = import_module("ministack.app").app
        self._install()

    async def reset(self) -> None:
        """Forget everything."""
        scope: Json = {"type": "http", "method": "POST", "path": "/_ministack/reset"}
        scope |= {"query_string": b"", "headers": []}

        async def receive() -> Json:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(_message: Mapping[str, Any]) -> None:
            return None

        with _without_docker():
            await self.asgi(scope, receive, send)
        self.world = World(call_from_states, _decide, _read_object)

    def asked(self, request: Request, service: str) -> Iterator[tuple[str, str, dict[str, str]]]:
        """What IAM judges a request to one of the engine's services by: actions, resources, and condition keys."""
        actions: Any = import_module("ministack.core.iam_actions")
        headers = {"x-amz-target": request.target, "content-type": "application/x-www-form-urlencoded"}
        query = parse_qs(request.query, keep_blank_values=True)
        if not request.target and b"Action=" in request.body:
            query = {**parse_qs(request.body.decode()), **query}
        parts = (service, request.method, request.path, headers, request.body, query)
        action = str(actions.extract_iam_action(*parts))
        if service == "s3" and request.method == "POST" and "delete" in query:
            # Amazon S3 API reference, DeleteObjects: each key needs s3:DeleteObject, each version the other action.
            bucket = request.path.strip("/")
            for arn, version in actions._s3_batch_delete_targets(bucket, request.body):
                yield "s3:DeleteObjectVersion" if version else "s3:DeleteObject", arn, {}
            return
        # Service authorization reference of Amazon S3: the listings of a bucket have the condition key s3:prefix.
        listed = action in ("s3:ListBucket", "s3:ListBucketVersions")
        context = {"s3:prefix": query.get("prefix", [""])[0]} if listed else {}
        yield action, str(actions.extract_resource_arn(*parts, self.world.region, self.world.account)), context

    def here(self) -> World:
        self.world.account, self.world.region = self._responses.get_account_id(), self._responses.get_region()
        return self.world

    def definition(self, stack_name: str, logical_id: str) -> Json:
        found: Json = self._template(stack_name)["Resources"].get(logical_id, {})
        return found

    def _template(self, stack_name: str) -> Json:
        text = _member("TemplateBody", _call_query("cloudformation", "GetTemplate", StackName=stack_name))
        read = json.loads if text.startswith("{") else import_module("cfnlint.decode.cfn_yaml").loads
        template: Json = read(text)
        return template

    def stack_id(self, stack_name: str) -> str:
        return _member("StackId", _call_query("cloudformation", "DescribeStacks", StackName=stack_name))

    def follows(self, stack_name: str, logical_id: str, other: str) -> bool:
        template = self._template(stack_name)["Resources"]
        pending, seen = [logical_id], {logical_id}
        while pending:
            found = self._cloudformation._extract_deps(template.get(pending.pop(), {}), set(template)) - seen
            seen |= found
            pending += found
        return other in seen

    def operation(self, stack_name: str) -> str:
        described = _call_query("cloudformation", "DescribeStacks", StackName=stack_name)
        if not _optional("StackStatus", described).endswith("IN_PROGRESS"):
            return ""
        times = (_optional("LastUpdatedTime", described), _optional("CreationTime", described))
        return " ".join((_member("StackId", described), *times))

    def delete_replaced(self, delete: Callable[..., None], physical_id: str, properties: Json) -> None:
        self._provisioners._delete_predecessor(delete, physical_id, properties)

    def holds_objects(self, bucket: str) -> bool:
        listed = _call("s3", "GET", f"/{bucket}", query={"versions": [""]})
        return b"<Version>" in listed or b"<DeleteMarker>" in listed

    def show(self, resource: Resource) -> None:
        if resource.type == Type.CLUSTER:
            self._add_cluster_group(resource)
        elif resource.type == Type.PCS_CLUSTER:
            _add_pcs_secrets(resource)
        elif resource.type in _RULES:
            answered = _call_query("ec2", f"Authorize{_RULES[resource.type]}", **_permission(resource.properties))
            self._rename(resource, _member("securityGroupRuleId", answered))

    def _rename(self, rule: Resource, identifier: str) -> None:
        """Give a rule of a security group the id by which the engine describes it."""
        world = self.world
        world.remove(rule.type, rule.physical_id)
        rule.physical_id, rule.attributes = identifier, {**rule.attributes, "Id": identifier}
        world.add(rule)

    def hide(self, resource: Resource) -> None:
        if resource.type == Type.CLUSTER:
            _call_query("ec2", "DeleteSecurityGroup", GroupId=resource.attributes["ClusterSecurityGroupId"])
        elif resource.type == Type.PCS_CLUSTER:
            for name in _pcs_secrets(resource).values():
                _call_secrets("DeleteSecret", SecretId=name, ForceDeleteWithoutRecovery=True)
        elif resource.type in _RULES:
            _call_query("ec2", f"Revoke{_RULES[resource.type]}", **_permission(resource.properties))

    def _add_cluster_group(self, cluster: Resource) -> None:
        """The security group that EKS makes for a cluster.

        Source: Amazon EKS user guide (awsdocs/amazon-eks-user-guide @ 4d52b4d), "View Amazon EKS security group
        requirements for clusters" (name, rules), read 2026-11-22.
        """
        world, name = self.world, cluster.physical_id
        made = _call_query(
            "ec2",
            "CreateSecurityGroup",
            GroupName=f"eks-cluster-sg-{name}-{int(world.new_id('', f'{name} group', 8), 16)}",
            GroupDescription="EKS created security group",
            VpcId=world.vpc_of_subnet(cluster.properties["ResourcesVpcConfig"]["SubnetIds"][0]) or "",
        )
        cluster.attributes["ClusterSecurityGroupId"] = identifier = _member("groupId", made)
        itself = {"GroupId": identifier, "IpProtocol": "-1", "SourceSecurityGroupId": identifier}
        _call_query("ec2", "AuthorizeSecurityGroupIngress", **_permission(itself))

    def _install(self) -> None:
        package = "ministack.services.cloudformation"
        names = ("engine", "changesets", "handlers", "stacks", "provisioners")
        parts: list[Any] = [import_module(f"{package}.{name}") for name in names]
        cloudformation, changesets, _, stacks, provisioners = parts
        self._provisioners: Any = provisioners
        self._cloudformation: Any = cloudformation
        handlers = Handlers(dict(provisioners._RESOURCE_HANDLERS), self)
        provisioners._RESOURCE_HANDLERS = changesets._RESOURCE_HANDLERS = handlers
        stacks._topological_sort = _groups_soonest(stacks._topological_sort, cloudformation._extract_deps)
        stacks._property_recreation = _by_schema(stacks._property_recreation)
        evaluate = _with_functions(cloudformation._evaluate_conditions, cloudformation._resolve_refs)
        for part in parts[:-1]:
            part._evaluate_conditions = evaluate
        ssm: Any = import_module("ministack.services.ssm")
        ssm.resolve_parameter_value = _with_public_parameters(ssm.resolve_parameter_value)


def _decide(question: Question, documents: Iterable[Json]) -> bool:
    """IAM's evaluation of policies, as the engine has it."""
    evaluator: Any = import_module("ministack.core.iam_evaluator")
    asked = evaluator.EvalContext(
        principal_arn=question.principal,
        principal_type="AssumedRole",
        principal_account=question.principal.split(":")[4],
        action=question.action,
        resource_arn=question.resource,
        region=question.resource.split(":")[3] if question.resource.count(":") > 3 else "",
        service_context=dict(question.context),
        secure_transport=True,
    )
    result = evaluator.evaluate(asked, [evaluator.parse_policy_document(document) for document in documents])
    return bool(result.decision == "Allow")


# AWS PCS puts the key of Slurm, and that of its REST API, into Secrets Manager, and makes its service-linked role with
# the first cluster. Sources: AWS PCS user guide, "Use AWS Secrets Manager to find the cluster secret" (name, tag),
# "Enabling Slurm REST API in AWS PCS", "Service-linked roles for AWS PCS"; the handlers of the registry schema. The
# name of the second secret is made up.

_PCS_ROLE, _PCS_SERVICE = "AWSServiceRoleForPCS", "pcs.amazonaws.com"


def _pcs_secrets(cluster: Resource) -> dict[str, str]:
    """Names of a cluster's secrets, by the member of its description."""
    identifier = cluster.attributes["Id"]
    names = {"authKey": f"pcs!slurm-secret-{identifier}"}
    rest = cluster.properties.get("SlurmConfiguration", {}).get("SlurmRest", {}).get("Mode")
    return names | ({"jwtAuth": f"pcs!jwt-secret-{identifier}"} if rest == "STANDARD" else {})


def _add_pcs_secrets(cluster: Resource) -> None:
    trust = {"Effect": "Allow", "Principal": {"Service": _PCS_SERVICE}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    path = f"/aws-service-role/{_PCS_SERVICE}/"
    _call_query("iam", "CreateRole", RoleName=_PCS_ROLE, Path=path, AssumeRolePolicyDocument=document)
    for member, name in _pcs_secrets(cluster).items():
        key = hashlib.sha256(name.encode()).hexdigest()
        tags = [{"Key": "aws:pcs:cluster-id", "Value": cluster.attributes["Id"]}]
        made = _call_secrets("CreateSecret", Name=name, SecretString=key, Tags=tags)
        found = {"secretArn": made["ARN"], "secretVersion": made["VersionId"]}
        cluster.settings[member] = {"jwtKey": found} if member == "jwtAuth" else found


def _call_secrets(action: str, **params: object) -> Json:
    headers = {"x-amz-target": f"secretsmanager.{action}"}
    status, answered = _answer("secretsmanager", "POST", "/", headers=headers, body=json.dumps(params))
    document: Json = json.loads(answered)
    if status != _OK:
        raise ValueError(f"the engine answered {document}")
    return document


def _read_object(bucket: str, key: str, version: str) -> bytes | None:
    """An object of the engine's S3."""
    query = {"versionId": [version]} if version else {}
    status, content = _answer("s3", "GET", f"/{bucket}/{quote(key)}", query=query)
    return content if status == _OK else None


def _call(service: str, method: str, path: str, *, query: Mapping[str, list[str]], body: str = "") -> bytes:
    """The answer of one of the engine's services."""
    return _answer(service, method, path, query=query, body=body)[1]


def _answer(
    service: str,
    method: str,
    path: str,
    *,
    headers: Mapping[str, str] = MappingProxyType({}),
    query: Mapping[str, list[str]] = MappingProxyType({}),
    body: str = "",
) -> tuple[int, bytes]:
    """A call of one of the engine's services, in the account and Region of the request that it serves.

    Resource handlers run inside the engine's event loop, and these services answer without waiting.
    """
    handler = import_module(f"ministack.services.{service}").handle_request
    call = handler(method, path, dict(headers), body.encode(), dict(query))
    try:
        call.send(None)
    except StopIteration as done:
        return int(done.value[0]), bytes(done.value[2])
    call.close()
    raise RuntimeError(f"the engine's {service} waits")


def _call_query(service: str, action: str, **params: object) -> bytes:
    return _call(service, "POST", "/", query={}, body=urlencode({"Action": action, **params}))


def _member(name: str, answered: bytes) -> str:
    """The text of the first member of that name; raises ValueError if the engine answered something else."""
    found = re.search(f"<{name}>(.*?)</{name}>", answered.decode(), re.DOTALL)
    if found is None:
        raise ValueError(f"the engine answered no {name}: {answered.decode()}")
    return html.unescape(found[1])


def _optional(name: str, answered: bytes) -> str:
    """The text of the first member of that name; empty if there is none."""
    return _member(name, answered) if f"<{name}>".encode() in answered else ""


def _permission(rule: Json) -> Json:
    """A rule of a security group in EC2's query protocol."""
    members = {"IpProtocol": rule["IpProtocol"]}
    members |= {name: rule[name] for name in ("FromPort", "ToPort") if name in rule}
    members |= {member: rule[name] for name, member in _PEERS.items() if name in rule}
    return {"GroupId": rule["GroupId"]} | {f"IpPermissions.1.{name}": value for name, value in members.items()}


def _with_public_parameters(resolve: Callable[..., str | None]) -> Callable[..., str | None]:
    """Give every public AMI parameter an image id that is made up from its name."""

    def resolved(name: str, *rest: Any, **more: Any) -> str | None:
        value = resolve(name, *rest, **more)
        if value is None and name.startswith(_PUBLIC_PARAMETERS):
            return "ami-" + hashlib.sha256(name.encode()).hexdigest()[:17]
        return value

    return resolved


@contextmanager
def _without_docker() -> Iterator[None]:
    """Keep the engine from a Docker daemon: its reset would remove the containers of an earlier engine."""
    if find_spec("docker") is None:
        yield
        return
    docker: Any = import_module("docker")

    def refuse(*_: object, **__: object) -> None:
        raise docker.errors.DockerException("the emulator uses no Docker")

    found = docker.from_env
    docker.from_env = refuse
    try:
        yield
    finally:
        docker.from_env = found


def _by_schema(recreation: Callable[[str, str], str]) -> Callable[[str, str], str]:
    """What a changed property does in a change set, from the schema if that leaves no doubt."""

    def recreates(type_name: str, name: str) -> str:
        schema = resource_schema(type_name)
        if schema is None or name in schema.conditional_create_only_names:
            return recreation(type_name, name)
        inside = any(path.startswith(f"{name}.") for path in schema.create_only)
        if inside or provisioning.may_replace(type_name, name):
            return "Conditionally"
        return "Always" if name in schema.create_only_names else "Never"

    return recreates


def _groups_soonest(
    order: Callable[[Json, Json], list[str]], dependencies: Callable[[Json, set[str]], set[str]]
) -> Callable[[Json, Json], list[str]]:
    """Groups of instances come as soon as what they depend on is there, and so go after everything else.

    CloudFormation makes and deletes resources that do not depend on each other in any order, and side by side. A node
    lives for minutes meanwhile: whatever its group does not depend on may come after it, and go before it.
    """

    def ordered(resources: Json, conditions: Json) -> list[str]:
        names = order(resources, conditions)
        needed: set[str] = set()
        pending = [name for name in names if resources[name].get("Type") in _WITH_NODES]
        while pending:
            name = pending.pop()
            if name not in needed:
                needed.add(name)
                pending += dependencies(resources[name], set(names))
        return [name for name in names if name in needed] + [name for name in names if name not in needed]

    return ordered


def _with_functions(evaluate: Callable[..., Json], resolve: Callable[..., Any]) -> Callable[..., Json]:
    """Conditions with `Fn::Join` and its like inside `Fn::Equals`.

    The engine compares such an operand as it is written, which makes `HasCloudFormationExecutionPolicies` true.
    """

    def evaluated(template: Json, parameters: Json) -> Json:
        mappings = template.get("Mappings", {})

        def operand(value: Any) -> Any:
            if isinstance(value, list):
                return [operand(item) for item in value]
            if not isinstance(value, dict):
                return value
            if any(name in value for name in _CONDITION_FUNCTIONS):
                return resolve(value, {}, parameters, {}, mappings, "", "")
            return {key: operand(item) for key, item in value.items()}

        conditions = operand(template.get("Conditions", {}))
        found: Json = evaluate({**template, "Conditions": conditions}, parameters)
        return found

    return evaluated


@cache
def engine() -> Engine:
    """The one engine of this process."""
    return Engine()
