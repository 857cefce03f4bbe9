"""Findings of policy packs that are right where they arise: defined once, accepted at their cause."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aws_cdk as cdk
from constructs import IConstruct

from cdk_gpu_clusters._cdk import cached_per_construct, generated_names_of, place_of, resolved_or_none, stack_of
from cdk_gpu_clusters._template import with_names

# Rules whose findings are accepted one by one: cdk-nag ignores an acknowledgement of the rule as a whole.
_DETAILED = ("IAM4", "IAM5")


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedFinding:
    """What policy packs find at one kind of construct, and why it is right there.

    Define it as a constant of the module whose construct causes it: `docs/security.md` lists these constants, and the
    tests refuse one that suppresses nothing.

    Attributes:
        cause: Construct and part of it, in a reader's words.
        reason: Why it is right there.
        aws_solutions: Rules of cdk-nag's AwsSolutions pack, such as `EC23`.
        nist_hipaa_pci: Rules that its packs NIST 800-53 r5, HIPAA and PCI DSS share, such as `IAMNoInlinePolicy`.
        nist_hipaa: Rules that NIST 800-53 r5 and HIPAA share.
        nist_pci: Rules that NIST 800-53 r5 and PCI DSS share.
        serverless: Rules of cdk-nag's Serverless pack, such as `LambdaTracing`.
        cloudformation: Rules of CloudFormation Validate, which CDK runs by itself.
    """

    cause: str
    reason: str
    aws_solutions: tuple[str, ...] = ()
    nist_hipaa_pci: tuple[str, ...] = ()
    nist_hipaa: tuple[str, ...] = ()
    nist_pci: tuple[str, ...] = ()
    serverless: tuple[str, ...] = ()
    cloudformation: tuple[str, ...] = ()

    def at(self, scope: IConstruct, *details: str) -> None:
        """Accept the findings at a construct and below it.

        Args:
            scope: The construct that causes them.
            details: What IAM4 and IAM5 name one by one, such as `Resource::*`; they are not accepted without.
        """
        self.with_details(*details).at(scope)

    def with_details(self, *details: str) -> Acceptance:
        """The finding with what IAM4 and IAM5 name one by one, to accept it together with others.

        Args:
            details: As for `at`.
        """
        return Acceptance([cdk.Acknowledgment(id=rule, reason=self.reason) for rule in self._ids(details)])

    def _ids(self, details: tuple[str, ...]) -> Iterator[str]:
        for rule in self.aws_solutions:
            names = [f"[{detail}]" for detail in details] if rule in _DETAILED else [""]
            yield from (f"AwsSolutions::AwsSolutions-{rule}{name}" for name in names)
        for pack, rules in (
            ("NIST.800.53.R5", self.nist_hipaa_pci + self.nist_hipaa + self.nist_pci),
            ("HIPAA.Security", self.nist_hipaa_pci + self.nist_hipaa),
            ("PCI.DSS.321", self.nist_hipaa_pci + self.nist_pci),
            ("Serverless", self.serverless),
        ):
            yield from (f"{pack}::{pack}-{rule}" for rule in rules)
        yield from (f"CloudFormation-Validate::{rule}" for rule in self.cloudformation)


class Acceptance:
    """Findings that are accepted together: each acceptance costs messages."""

    def __init__(self, acknowledgments: Sequence[cdk.Acknowledgment]) -> None:
        self._acknowledgments = tuple(acknowledgments)

    def __add__(self, other: Acceptance) -> Acceptance:
        return Acceptance((*self._acknowledgments, *other._acknowledgments))

    def at(self, scope: IConstruct) -> None:
        """Accept them at a construct and below it."""
        cdk.Validations.of(scope).acknowledge(*self._acknowledgments)


SILENT_ALARM = AcceptedFinding(
    cause="`CapacityReservation`, `GpuFleet`, `EksGpuNodeGroup`, `LustreStore`: alarms",
    reason="You choose the recipients of an alarm: add_alarm_action(...) of the alarm, alarms.add_topic(...) of the "
    "fleet.",
    nist_hipaa=("CloudWatchAlarmAction",),
)

UNDELIVERED = AcceptedFinding(
    cause="`GpuFleet`, `EksGpuNodeGroup`: queue of events that were not delivered",
    reason="It is a dead-letter queue itself: EventBridge sends what it could not deliver, which people read.",
    aws_solutions=("SQS3",),
    serverless=("SQSRedrivePolicy",),
)


def named_defined(scope: IConstruct, arn: str, ids: Mapping[str, str]) -> str:
    """A resource of a policy as `named_resource` names it, found without CDK.

    Args:
        scope: Any construct of the stack.
        arn: Made by `arn_of` and `_template.ref`, with no other token.
        ids: Logical ids of the resources that it names, by path.
    """
    tokens = (*place_of(stack_of(scope)), generated_names_of(stack_of(scope)))
    for token, name in zip(tokens, ("Partition", "Region", "AccountId", "StackName"), strict=True):
        if resolved_or_none(token) is None:
            arn = arn.replace(token, f"<AWS::{name}>")
    return f"Resource::{with_names(arn, ids)}"


def named_resource(scope: IConstruct, arn: str) -> str:
    """A resource of a policy as cdk-nag names it in its findings, such as `Resource::<Bucket.Arn>/*`."""
    flat = _flat_arns(stack_of(scope))
    if arn not in flat:
        flat[arn] = _flat(stack_of(scope).resolve(arn))
    return f"Resource::{flat[arn]}"


@cached_per_construct
def _flat_arns(_: cdk.Stack) -> dict[str, str]:
    """ARNs that were asked for before: a policy is not the only one that names its group."""
    return {}


def _flat(value: Any) -> str:
    """Source: cdk-nag 3.0.2, src/utils/flatten-cfn-reference.ts."""
    match value:
        case str():
            return value.replace("${", "<").replace("}", ">")
        case {"Fn::Join": [delimiter, parts]}:
            return str(delimiter).join(_flat(part) for part in parts)
        case {"Fn::GetAtt": [resource, attribute]}:
            return f"<{resource}.{attribute}>"
        case {"Ref": name}:
            return f"<{name}>"
        case {"Fn::Sub": str(text)}:
            return _flat(text)
    return json.dumps(value, separators=(",", ":"))
