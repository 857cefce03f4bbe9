"""Deployed stacks: their templates with every value that CloudFormation put in place of an intrinsic function."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Json = Mapping[str, Any]


class Unknown(Exception):
    """A value that only CloudFormation knows."""


class AnyVersion:
    """The version of a launch template that CloudFormation made last: its content is compared instead."""

    def __repr__(self) -> str:
        return "the version of the last deployment"


ANY_VERSION = AnyVersion()
#: In place of a planned value that is unknown: nothing is compared with it.
UNKNOWN = object()


@dataclass(slots=True, kw_only=True)
class Stack:
    """One deployed stack.

    Attributes:
        name: Its name.
        about: The key of the cluster file that it is made for.
        template: Its template, as it was deployed.
        parameters: Their values.
        outputs: Values by name.
        physical_ids: Physical ids by logical id.
        attributes: What `Fn::GetAtt` gives beside `_ATTRIBUTES`, by logical id and name, as AWS described it.
    """

    name: str
    about: str
    template: Json
    parameters: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    physical_ids: Mapping[str, str] = field(default_factory=dict)
    attributes: dict[tuple[str, str], str] = field(default_factory=dict)

    def resources(self, *types: str) -> Iterator[tuple[str, Json]]:
        """Logical ids and resources of some types, all without any; those that a condition leaves out have no id."""
        for logical_id, resource in self.template.get("Resources", {}).items():
            if logical_id in self.physical_ids and (not types or resource.get("Type") in types):
                yield logical_id, resource


# What `Fn::GetAtt` gives, as far as it follows from the physical id. Source: "Return values" of each type in the
# CloudFormation template reference, and the formats of ARNs in the service authorization reference.
_ATTRIBUTES = {
    ("AWS::EC2::SecurityGroup", "GroupId"): "{id}",
    ("AWS::EC2::VPC", "VpcId"): "{id}",
    ("AWS::EC2::Subnet", "SubnetId"): "{id}",
    ("AWS::EC2::PlacementGroup", "GroupName"): "{id}",
    ("AWS::EC2::CapacityReservation", "Id"): "{id}",
    ("AWS::IAM::InstanceProfile", "Arn"): "arn:{partition}:iam::{account}:instance-profile{path}{id}",
    ("AWS::IAM::Role", "Arn"): "arn:{partition}:iam::{account}:role{path}{id}",
    ("AWS::KMS::Key", "Arn"): "arn:{partition}:kms:{region}:{account}:key/{id}",
    ("AWS::S3::Bucket", "Arn"): "arn:{partition}:s3:::{id}",
    ("AWS::Logs::LogGroup", "Arn"): "arn:{partition}:logs:{region}:{account}:log-group:{id}:*",
    ("AWS::SQS::Queue", "Arn"): "arn:{partition}:sqs:{region}:{account}:{last}",
    ("AWS::EC2::PlacementGroup", "GroupArn"): "arn:{partition}:ec2:{region}:{account}:placement-group/{id}",
    ("AWS::PCS::Cluster", "Id"): "{last}",
    ("AWS::PCS::ComputeNodeGroup", "Id"): "{last}",
    ("AWS::PCS::Queue", "Id"): "{last}",
}
_NAME = re.compile(r"\$\{([^!}][^}]*)\}")


class Resolver:
    """Puts values in place of intrinsic functions."""

    def __init__(self, stack: Stack, stacks: Mapping[str, Stack], *, region: str, account: str) -> None:
        """Know a stack, and the stacks whose outputs it reads."""
        from cdk_gpu_clusters.catalogue.regions import partition_of

        self._stack, self._stacks = stack, stacks
        partition = partition_of(region)
        self._pseudo = {
            "AWS::Region": region,
            "AWS::AccountId": account,
            "AWS::Partition": partition,
            "AWS::StackName": stack.name,
            "AWS::URLSuffix": "amazonaws.com.cn" if partition == "aws-cn" else "amazonaws.com",
        }
        self._arn = {"region": region, "account": account, "partition": partition}

    def value(self, raw: Any) -> Any:
        """The value of anything in a template.

        Raises:
            Unknown: If it depends on what only CloudFormation knows.
        """
        if isinstance(raw, list):
            return [one for one in map(self.value, raw) if one is not _NO_VALUE]
        if not isinstance(raw, Mapping):
            return raw
        if len(raw) == 1:
            name, argument = next(iter(raw.items()))
            if name in _FUNCTIONS:
                return _FUNCTIONS[name](self, argument)
            if name.startswith("Fn::"):
                raise Unknown(name)
        found = {name: self.value(one) for name, one in raw.items()}
        return {name: one for name, one in found.items() if one is not _NO_VALUE}

    def ref(self, name: Any) -> Any:
        if name == "AWS::NoValue":
            return _NO_VALUE
        known: tuple[Mapping[str, Any], ...] = (self._pseudo, self._stack.parameters, self._stack.physical_ids)
        for names in known:
            if name in names:
                return names[name]
        raise Unknown(f"Ref {name}")

    def attribute(self, argument: Any) -> Any:
        logical_id, _, name = (argument if isinstance(argument, str) else ".".join(map(str, argument))).partition(".")
        if (logical_id, name) in self._stack.attributes:
            return self._stack.attributes[logical_id, name]
        resource = self._stack.template.get("Resources", {}).get(logical_id, {})
        kind = str(resource.get("Type"))
        if kind == "AWS::EC2::LaunchTemplate" and name in ("LatestVersionNumber", "DefaultVersionNumber"):
            return ANY_VERSION
        shape, physical_id = _ATTRIBUTES.get((kind, name)), self._stack.physical_ids.get(logical_id)
        if shape is None or physical_id is None:
            raise Unknown(f"Fn::GetAtt {logical_id}.{name}")
        if physical_id.startswith("arn:") and shape.startswith("arn:"):
            return physical_id
        path = self.value(resource.get("Properties", {}).get("Path", "/"))
        last = physical_id.rsplit("/", 1)[-1]
        return shape.format(id=physical_id, last=last, path=path, **self._arn)

    def join(self, argument: Any) -> str:
        delimiter, parts = argument
        return str(delimiter).join(str(one) for one in self.value(parts))

    def sub(self, argument: Any) -> str:
        text, own = argument if isinstance(argument, list) else (argument, {})
        values = {name: self.value(one) for name, one in own.items()}

        def one(match: re.Match[str]) -> str:
            name = match[1]
            if name in values:
                return str(values[name])
            return str(self.attribute(name) if "." in name else self.ref(name))

        return _NAME.sub(one, text).replace("${!", "${")

    def select(self, argument: Any) -> Any:
        index, items = argument
        return self.value(items)[int(self.value(index))]

    def split(self, argument: Any) -> list[str]:
        delimiter, text = argument
        return str(self.value(text)).split(str(delimiter))

    def output(self, argument: Any) -> Any:
        """`Fn::GetStackOutput`: an output of another stack of the same Region."""
        stack = self._stacks.get(str(self.value(argument.get("StackName", ""))))
        name = str(argument.get("OutputName", ""))
        if stack is None or name not in stack.outputs:
            raise Unknown(f"Fn::GetStackOutput {name}")
        return stack.outputs[name]

    def branch(self, argument: Any) -> Any:
        condition, yes, no = argument
        return self.value(yes if self.holds(condition) else no)

    def holds(self, condition: Any) -> bool:
        """Whether a condition is true, by name or as a function."""
        if isinstance(condition, str):
            conditions = self._stack.template.get("Conditions", {})
            if condition not in conditions:
                raise Unknown(f"condition {condition}")
            return self.holds(conditions[condition])
        ((name, argument),) = condition.items()
        if name == "Condition":
            return self.holds(argument)
        if name == "Fn::Equals":
            first, second = self.value(argument)
            return bool(first == second)
        if name in ("Fn::And", "Fn::Or"):
            return (all if name == "Fn::And" else any)(self.holds(one) for one in argument)
        if name == "Fn::Not":
            return not self.holds(argument[0])
        raise Unknown(str(name))

    def base64(self, argument: Any) -> str:
        return base64.b64encode(str(self.value(argument)).encode()).decode()

    def json_text(self, argument: Any) -> str:
        return json.dumps(self.value(argument))

    def in_map(self, argument: Any) -> Any:
        found: Any = self._stack.template.get("Mappings", {})
        for key in self.value(argument[:3]):
            if key not in found:
                raise Unknown(f"Fn::FindInMap {key}")
            found = found[key]
        return found


_NO_VALUE = object()
_FUNCTIONS: Mapping[str, Callable[[Resolver, Any], Any]] = {
    "Ref": Resolver.ref,
    "Fn::GetAtt": Resolver.attribute,
    "Fn::Join": Resolver.join,
    "Fn::Sub": Resolver.sub,
    "Fn::Select": Resolver.select,
    "Fn::Split": Resolver.split,
    "Fn::If": Resolver.branch,
    "Fn::Base64": Resolver.base64,
    "Fn::FindInMap": Resolver.in_map,
    "Fn::GetStackOutput": Resolver.output,
    "Fn::ToJsonString": Resolver.json_text,
}
