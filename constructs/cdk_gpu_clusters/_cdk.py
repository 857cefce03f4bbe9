"""Small helpers where CDK meets the rules: rules never see a token, and errors name the construct.

CDK runs in a Node process, and every question to it costs a message: a fifth of a millisecond, hundreds of times a
cluster. So what Python can tell by itself is not asked, and what never changes is asked once.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

import aws_cdk as cdk
from constructs import Construct, IConstruct, Node

from cdk_gpu_clusters._template import Resource, logical_ids, with_ids
from cdk_gpu_clusters.errors import ConfigError, Finding, Severity, raise_for

if TYPE_CHECKING:  # take long to load
    from aws_cdk import aws_ec2 as ec2
    from aws_cdk import cloudformation_include

T = TypeVar("T")
K = TypeVar("K")

# How CDK writes a token into a text, and near which numbers it puts those that stand for tokens
# (aws-cdk-lib 2.275, core/lib/private/encoding).
_TOKEN_IN_TEXT = re.compile(r"\$\{Token\[[a-zA-Z0-9:._-]+]}")
_LARGEST_PLAIN_NUMBER = 1e200
# What CDK puts where a context lookup is still to be made; the CLI then looks it up and synthesizes again.
_LOOKED_UP_LATER = re.compile(r"dummy1[a-z]|dummy-value-for-.*|1\.2\.3\.4/5")


def resolved_or_none(value: T | None) -> T | None:
    """The value if it is known at synthesis, None if it is absent, a token, or still to be looked up."""
    if value is None or _is_token(value):
        return None
    if isinstance(value, str) and _LOOKED_UP_LATER.fullmatch(value):
        return None
    return value


def _is_token(value: object) -> bool:
    """Whether CDK resolves the value later; CDK is asked only about what may be a token."""
    if isinstance(value, str):
        return _TOKEN_IN_TEXT.search(value) is not None
    if isinstance(value, int | float) and abs(value) < _LARGEST_PLAIN_NUMBER:
        return False
    return cdk.Token.is_unresolved(value)


def cached_per_construct(question: Callable[[K], T]) -> Callable[[K], T]:
    """Make a function of a CDK object remember its answer as long as the object lives.

    Args:
        question: Its answer never changes, and does not hold the object itself.
    """
    answers: WeakKeyDictionary[K, T] = WeakKeyDictionary()

    @wraps(question)
    def ask(subject: K) -> T:
        if subject not in answers:
            answers[subject] = question(subject)
        return answers[subject]

    return ask


class ClusterConstruct(Construct):
    """A construct that takes its stack and its path from its scope instead of asking for them."""

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        self._stack = stack_of(scope)
        # As constructs 10 joins and cleans them.
        self._path = "/".join(filter(None, (path_of(scope), construct_id.replace("/", "--"))))

    # No plain property: jsii would take that for an override, and Node would call back for every access.
    @cached_property
    def node(self) -> Node:
        """Its place in the tree, with `default_child` for resources that were defined together."""
        node: Node = super().node
        if (main := self._main_resource()) is not None:
            node.default_child = main
        return node

    def _read_node_anew(self) -> None:
        """Forget a `node` that was read before the main resource was defined."""
        vars(self).pop("node", None)

    def _main_resource(self) -> IConstruct | None:
        """The resource that is its default child if CDK does not find it by its id; None before it is defined."""
        return None


def path_of(construct: IConstruct) -> str:
    """The construct's path in the app."""
    return construct._path if isinstance(construct, ClusterConstruct) else _asked_path(construct)


def path_in_stack(construct: IConstruct) -> str:
    """The construct's path below its stack."""
    return path_of(construct).removeprefix(path_of(stack_of(construct))).lstrip("/")


def stack_of(construct: IConstruct) -> cdk.Stack:
    """The stack that a construct is in."""
    if isinstance(construct, cdk.Stack):
        return construct
    return construct._stack if isinstance(construct, ClusterConstruct) else _asked_stack(construct)


@cached_per_construct
def region_of(stack: cdk.Stack) -> str:
    """The Region of a stack, or a token for it."""
    return stack.region


def partition_of(stack: cdk.Stack) -> str:
    """The partition of a stack, or a token for it."""
    return place_of(stack)[0]


def arn_of(scope: IConstruct, service: str, resource: str) -> str:
    """The ARN of a resource in the scope's partition, Region and account.

    Args:
        scope: Any construct of the stack that refers to it.
        service: Such as `ec2`.
        resource: Everything after the account, such as `placement-group/name`; may hold tokens.
    """
    partition, region, account = place_of(stack_of(scope))
    return f"arn:{partition}:{service}:{region}:{account}:{resource}"


@cached_per_construct
def place_of(stack: cdk.Stack) -> tuple[str, str, str]:
    """Partition, Region and account of a stack, or tokens for them."""
    return stack.partition, region_of(stack), stack.account


@cached_per_construct
def id_of_group(group: ec2.ISecurityGroup) -> str:
    """The id of a security group, or a token for it."""
    return group.security_group_id


@cached_per_construct
def zone_of(subnet: ec2.ISubnet) -> str | None:
    """The zone of a subnet, None if it is not known."""
    return resolved_or_none(subnet.availability_zone)


@cached_per_construct
def ipv4_block_of(subnet: ec2.ISubnet) -> str | None:
    """The IPv4 block of a subnet, None if CDK does not know it."""
    try:
        return resolved_or_none(subnet.ipv4_cidr_block)
    except RuntimeError:  # CDK's way to say that an imported subnet came without its block
        return None


def selected_subnets(vpc: ec2.IVpc, selection: ec2.SubnetSelection) -> ec2.SelectedSubnets:
    """The subnets that a selection means; jsii takes its fields as keywords.

    Args:
        vpc: The network.
        selection: The selection.
    """
    return vpc.select_subnets(
        availability_zones=selection.availability_zones,
        one_per_az=selection.one_per_az,
        subnet_filters=selection.subnet_filters,
        subnet_group_name=selection.subnet_group_name,
        subnets=selection.subnets,
        subnet_type=selection.subnet_type,
    )


@cached_per_construct
def _asked_path(construct: IConstruct) -> str:
    return construct.node.path


@cached_per_construct
def _asked_stack(construct: IConstruct) -> cdk.Stack:
    return cdk.Stack.of(construct)


class DefinedResources:
    """Resources of a construct that were defined in one message.

    They are the same typed constructs (`cloudwatch.CfnAlarm` ...) as if each were defined by itself, so that aspects,
    tags and policy packs see them.

    Attributes:
        scope: Construct that holds them.
        ids: Their logical ids, by path.
    """

    def __init__(self, include: cloudformation_include.CfnInclude, ids: Mapping[str, str]) -> None:
        self.scope = include
        self.ids = ids

    def resource(self, path: str) -> Any:
        """One of them.

        Args:
            path: Its path below the construct.
        """
        return self.scope.get_resource(self.ids[path])


def define(
    scope: Construct, resources: Mapping[str, Resource], *, values: Mapping[str, Any] | None = None
) -> DefinedResources:
    """Define resources of a construct in one message, with the logical ids that CDK gives resources at their paths.

    Args:
        scope: Construct that they belong to.
        resources: By path below it, as a template has them, with the references that `_template.ref` and `att` write.
        values: Values that JSON cannot express, such as tags that are still to come; `{"Ref": name}` names one.
    """
    from aws_cdk import cloudformation_include

    ids = logical_ids(resources, path_in_stack(scope))
    template = {
        "Parameters": {name: {"Type": "String"} for name in values or {}},
        "Resources": with_ids(resources, ids),
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "resources.json")
        file.write_text(json.dumps(template), encoding="utf-8")
        include = cloudformation_include.CfnInclude(scope, "Resources", template_file=str(file), parameters=values)
    _name_as_the_stack_does(stack_of(scope), include, ids)
    return DefinedResources(include, ids)


def _name_as_the_stack_does(
    stack: cdk.Stack, include: cloudformation_include.CfnInclude, ids: Mapping[str, str]
) -> None:
    """Let a stack that makes logical ids in its own way name the resources; references follow."""
    if type(stack)._allocate_logical_id is not cdk.Stack._allocate_logical_id:
        for logical_id in ids.values():
            resource = include.get_resource(logical_id)
            resource.override_logical_id(stack.get_logical_id(resource))


@contextmanager
def errors_at(scope: Construct) -> Iterator[None]:
    """Put the construct's path before the findings of any `ConfigError` raised inside."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(finding.at(path_of(scope)) for finding in error.findings) from None


def report(scope: Construct, findings: list[Finding]) -> None:
    """Raise the errors among the findings, and annotate the construct with the rest.

    Warnings and infos can be acknowledged in the ordinary CDK way under `cdk_gpu_clusters:<rule id>`.

    Raises:
        ConfigError: If any finding is an error.
    """
    if not findings:
        return
    raise_for(findings, path=path_of(scope))
    annotations = cdk.Annotations.of(scope)
    for finding in findings:
        if finding.severity is Severity.WARNING:
            annotations.add_warning_v2(f"cdk_gpu_clusters:{finding.id}", str(finding))
        else:
            annotations.add_info_v2(f"cdk_gpu_clusters:{finding.id}", str(finding))


@cached_per_construct
def generated_names_of(stack: cdk.Stack) -> str:
    """How the names begin that CloudFormation makes for the resources of a stack: with the stack's own, as a pattern.

    Source: aws-cloudformation/cloudformation-cli-java-plugin, `IdentifierUtils.java`, shortens repeated hyphens.
    """
    name = resolved_or_none(stack.stack_name)
    return cdk.Aws.STACK_NAME if name is None or "--" not in name else re.sub("--+", "-*", name)


def tag_specifications(tags: cdk.TagManager, resource_types: Sequence[str]) -> cdk.IResolvable:
    """Tags as EC2 takes them for what it makes, as they are at synthesis: the same ones for each kind of resource.

    Args:
        tags: Filled by `Tags.of(scope).add(...)` until synthesis; there is one at least, such as `Name`.
        resource_types: Such as `instance` and `volume`.
    """
    rendered = tags.rendered_tags
    return cdk.Token.as_any([{"resourceType": kind, "tags": rendered} for kind in resource_types])
