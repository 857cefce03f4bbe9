"""Compare what an account has with the deployed stacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cdk_gpu_clusters_stacks.preflight.account import Account
from cdk_gpu_clusters_stacks.spec import ClusterSpec

from .compare import Difference, Path, differences, text_of
from .consequences import consequence_of
from .diagnosis import Diagnosis, Drift
from .judge import judge_drifts
from .live import Live, read_live
from .mapping import BY_TYPE, DIRECTIONS, RULE_TYPES, SECURITY_GROUP, Json, rule_properties, traffic_of
from .nodes import INSTANCE, node_differences
from .planned import UNKNOWN, Resolver, Stack, Unknown
from .sizes import size_differences

if TYPE_CHECKING:
    from cdk_gpu_clusters.template_rules.rule import TemplateRule


def examine(
    spec: ClusterSpec, account: Account, *, rules: Sequence[TemplateRule] | None = None, now: datetime | None = None
) -> Diagnosis:
    """Compare an account with the stacks that a cluster file made there; nothing is changed.

    Args:
        spec: The cluster file.
        account: The account.
        rules: The template rules; all of them by default.
        now: The time; the present one by default.

    Raises:
        Unusable: If the credentials cannot be used.
    """
    live = read_live(spec, account, now=now or datetime.now(UTC))
    found = Diagnosis(
        cluster=spec.name, region=spec.region, account=live.account, unread=live.unread, absent=live.absent
    )
    examiner = _Examiner(live, found, region=spec.region)
    examiner.compare_resources()
    examiner.compare_versions()
    examiner.compare_rules()
    examiner.compare_nodes()
    judge_drifts(live, found, rules, region=spec.region)
    return found


# What EC2 gives a group whose template has no egress rules (CloudFormation template reference, AWS::EC2::SecurityGroup,
# "Remove Default Rule"). Whether rules of a type of their own remove it is not stated there.
_DEFAULT_EGRESS = ({"IpProtocol": "-1", "CidrIp": "0.0.0.0/0"}, {"IpProtocol": "-1", "CidrIpv6": "::/0"})


class _Examiner:
    """Puts the drifts into a diagnosis."""

    def __init__(self, live: Live, found: Diagnosis, *, region: str) -> None:
        self._live, self._found = live, found
        self._resolvers = {
            name: Resolver(stack, live.stacks, region=region, account=live.account)
            for name, stack in live.stacks.items()
        }

    def compare_resources(self) -> None:
        for (name, logical_id), properties in self._live.resources.items():
            stack = self._live.stacks[name]
            resource = stack.template["Resources"][logical_id]
            self._found.compared += 1
            if properties is None:
                self._add(stack, logical_id)
                continue
            given, kind = resource.get("Properties") or {}, resource["Type"]
            planned = self._planned(stack, logical_id, given, properties)
            found = [
                *size_differences(stack, kind, planned, properties),
                *differences(planned, properties, strict=kind == "AWS::EC2::LaunchTemplate"),
                *_set_by_hand(kind, given, properties),
            ]
            for difference in found:
                self._add(stack, logical_id, difference)

    def _planned(self, stack: Stack, logical_id: str, given: Json, live: Json) -> dict[str, Any]:
        """The planned values of the properties that AWS describes; what is unknown is left out."""
        kind = BY_TYPE[stack.template["Resources"][logical_id]["Type"]]
        names = {member.property.partition(".")[0] for member in kind.members} | set(live)
        found = {name: self._known(stack, raw, (logical_id, name)) for name, raw in given.items() if name in names}
        for outer, _, inner in (path.partition(".") for path in kind.unanswered):
            if isinstance(found.get(outer), dict):
                found[outer].pop(inner, None)
        return found

    def _known(self, stack: Stack, raw: Any, path: Path) -> Any:
        """A value; in place of those in it that only CloudFormation knows, one that is compared with nothing."""
        try:
            return self._resolvers[stack.name].value(raw)
        except Unknown:
            if isinstance(raw, list):
                return [self._known(stack, one, path) for one in raw]
            if isinstance(raw, Mapping) and not any(name == "Ref" or name.startswith("Fn::") for name in raw):
                return {name: self._known(stack, one, (*path, str(name))) for name, one in raw.items()}
            place = f"{stack.name} {'.'.join(path)}"
            if place not in self._found.unknown:
                self._found.unknown.append(place)
            return UNKNOWN

    def compare_versions(self) -> None:
        """Versions of launch templates that no stack made, and nodes on a version that differs from the plan."""
        for (name, logical_id), (number, content) in self._live.latest.items():
            stack = self._live.stacks[name]
            if self._differs(stack, logical_id, content):
                used = str(self._live.documents[name, logical_id].get("VersionNumber"))
                self._add(stack, logical_id, Difference(path=("LatestVersionNumber",), planned=used, live=number))
        for (name, group), template, number, content, nodes in self._live.old_nodes:
            stack = self._live.stacks[name]
            if self._differs(stack, template, content):
                live = f"{nodes} {'node' if nodes == 1 else 'nodes'} on version {number}"
                self._add(stack, group, Difference(path=("Instances",), planned="the planned version", live=live))

    def _differs(self, stack: Stack, logical_id: str, content: Json) -> bool:
        given = stack.template["Resources"].get(logical_id, {}).get("Properties") or {}
        return any(differences(self._planned(stack, logical_id, given, content), content, strict=True))

    def compare_nodes(self) -> None:
        """Facts of the nodes in service."""
        for nodes in self._live.nodes:
            self._found.nodes += len(nodes.facts)
            for instances, difference in node_differences(nodes):
                self._add(nodes.stack, nodes.logical_id, difference, nodes=instances)

    # Security groups: a rule of the plan is inside its group, or a resource of its own in any stack.

    def compare_rules(self) -> None:
        planned, all_are_known = self._planned_rules()
        for group, documents in self._live.rules.items():
            rest = {one.get("SecurityGroupRuleId", str(number)): one for number, one in enumerate(documents)}
            owner = self._group_of(group)
            missing: dict[bool, list[Json]] = {False: [], True: []}
            mine = [one for one in planned if one.group == group]
            for one in sorted(mine, key=lambda one: not one.is_resource):
                found = self._match(one, rest)
                if found is not None:
                    self._compare_rule(one, rest.pop(found))
                elif one.is_resource:
                    self._add(one.stack, one.logical_id)
                else:
                    missing[one.is_egress].append(one.properties)
            if owner is not None:
                for egress, name in DIRECTIONS.items():
                    extra = [rule_properties(one) for one in rest.values() if bool(one.get("IsEgress")) is egress]
                    if not all_are_known:
                        extra = []  # each may be one that could not be read
                    elif egress and not any(one.is_egress and not one.is_resource for one in mine):
                        extra = [one for one in extra if one not in _DEFAULT_EGRESS]
                    if extra or missing[egress]:
                        difference = Difference(path=(name,), planned=missing[egress] or None, live=extra or None)
                        self._add(*owner, difference)

    def _planned_rules(self) -> tuple[list[_PlannedRule], bool]:
        """The rules of all stacks, and whether none is missing for lack of an answer or of a value."""
        found: list[_PlannedRule] = []
        all_are_known = not any(one.call.startswith("cloudformation") for one in self._found.unread)
        for stack in self._live.stacks.values():
            for logical_id, resource in stack.resources(SECURITY_GROUP, *(f"AWS::EC2::{n}" for n in RULE_TYPES)):
                try:
                    found += self._rules_of(stack, logical_id, resource)
                    self._found.compared += 1
                except Unknown:
                    self._found.unknown.append(f"{stack.name} {logical_id}")
                    all_are_known = False
        return found, all_are_known

    def _rules_of(self, stack: Stack, logical_id: str, resource: Json) -> Iterator[_PlannedRule]:
        """The rules inside a security group, or the one that a resource is."""
        given, value = resource.get("Properties") or {}, self._resolvers[stack.name].value
        if resource["Type"] == SECURITY_GROUP:
            for egress, name in DIRECTIONS.items():
                for one in value(given.get(name, [])):
                    yield _PlannedRule(stack, logical_id, stack.physical_ids[logical_id], one, egress, False)
        else:
            rule, egress = value(given), resource["Type"].endswith("Egress")
            yield _PlannedRule(stack, logical_id, rule.get("GroupId", ""), rule, egress, True)

    def _match(self, planned: _PlannedRule, rest: Mapping[str, Json]) -> str | None:
        """The described rule that is a planned one: by its id, otherwise by what it allows."""
        if planned.is_resource and planned.stack.physical_ids[planned.logical_id] in rest:
            return planned.stack.physical_ids[planned.logical_id]
        wanted = text_of(traffic_of(planned.properties))
        return next(
            (
                key
                for key, one in rest.items()
                if bool(one.get("IsEgress")) is planned.is_egress
                and text_of(traffic_of(rule_properties(one))) == wanted
            ),
            None,
        )

    def _compare_rule(self, planned: _PlannedRule, document: Json) -> None:
        live = rule_properties(document)
        for difference in differences(traffic_of(planned.properties), live, strict=True):
            self._add(planned.stack, planned.logical_id, difference)

    def _group_of(self, group: str) -> tuple[Stack, str] | None:
        """The resource that is a security group; None for one that no stack makes."""
        for stack in self._live.stacks.values():
            for logical_id, _ in stack.resources(SECURITY_GROUP):
                if stack.physical_ids[logical_id] == group:
                    return stack, logical_id
        return None

    def _add(self, stack: Stack, logical_id: str, difference: Difference | None = None, *, nodes: str = "") -> None:
        kind = INSTANCE if nodes else stack.template["Resources"][logical_id]["Type"]
        path = difference.path if difference else ()
        breaks, fix = consequence_of(kind, path, gone=difference is None)
        drift = Drift(
            about=stack.about,
            stack=stack.name,
            logical_id=logical_id,
            type=kind,
            physical_id=nodes or stack.physical_ids[logical_id],
            path=path,
            planned=difference and difference.planned,
            live=difference and difference.live,
            breaks=breaks,
            fix=fix,
        )
        self._found.drifts.append(drift)


@dataclass(frozen=True, slots=True)
class _PlannedRule:
    """A rule of the plan: of a group's own lists, or a resource."""

    stack: Stack
    logical_id: str
    group: str
    properties: Json
    is_egress: bool
    is_resource: bool


def _set_by_hand(kind: str, given: Json, live: Json) -> Iterator[Difference]:
    """What the plan does not set, and AWS answers with another value where it is unset."""
    for member in BY_TYPE[kind].members:
        if member.may_be_unset and member.property not in given and member.property in live:
            yield from differences(member.unset or None, live[member.property] or None, (member.property,))
