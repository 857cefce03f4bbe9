"""Compare what an account has with the deployed stacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cdk_gpu_clusters_stacks.preflight.account import Account
from cdk_gpu_clusters_stacks.spec import ClusterSpec

from .compare import Difference, Path, differences, text_of
from .consequences import consequence_of
from .diagnosis import Diagnosis, Drift
from .judge import judge_drifts
from .live import Live, read_live
from .mapping import BY_TYPE, DIRECTIONS, RULE_TYPES, SECURITY_GROUP, Json, rule_properties, traffic_of
from .planned import UNKNOWN, Resolver, Stack, Unknown

if TYPE_CHECKING:
    from cdk_gpu_clusters.template_rules.rule import TemplateRule


def examine(spec: ClusterSpec, account: Account, *, rules: Sequence[TemplateRule] | None = None) -> Diagnosis:
    """Compare an account with the stacks that a cluster file made there; nothing is changed.

    Args:
        spec: The cluster file.
        account: The account.
        rules: The template rules; all of them by default.

    Raises:
        Unusable: If the credentials cannot be used.
    """
    live = read_live(spec, account)
    found = Diagnosis(
        cluster=spec.name, region=spec.region, account=live.account, unread=live.unread, absent=live.absent
    )
    examiner = _Examiner(live, found, region=spec.region)
    examiner.compare_resources()
    examiner.compare_sizes()
    examiner.compare_versions()
    examiner.compare_rules()
    judge_drifts(live, found, rules, region=spec.region)
    return found


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
            planned = self._planned(stack, logical_id, resource.get("Properties") or {}, properties)
            strict = resource["Type"] == "AWS::EC2::LaunchTemplate"
            for difference in differences(planned, properties, strict=strict):
                self._add(stack, logical_id, difference)
            for difference in _set_by_hand(resource["Type"], resource.get("Properties") or {}, properties):
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

    def compare_sizes(self) -> None:
        """Fleets on reservations that a state machine sizes: it sets 0 or the largest size, and nothing between."""
        for (name, logical_id), properties in self._live.resources.items():
            stack = self._live.stacks[name]
            resource = stack.template["Resources"][logical_id]
            given = resource.get("Properties") or {}
            if resource["Type"] != "AWS::AutoScaling::AutoScalingGroup" or not properties:
                continue
            if "DesiredCapacity" in given or str(given.get("MinSize")) != "0" or not self._on_block(stack):
                continue
            if str(properties.get("DesiredCapacity")) not in ("0", str(given.get("MaxSize"))):
                planned = f"0 or {given.get('MaxSize')}"
                difference = Difference(
                    path=("DesiredCapacity",), planned=planned, live=properties.get("DesiredCapacity")
                )
                self._add(stack, logical_id, difference)

    def _on_block(self, stack: Stack) -> bool:
        """Whether a launch template of the stack buys from a Capacity Block."""
        return any(
            (resource["Properties"]["LaunchTemplateData"].get("InstanceMarketOptions") or {}).get("MarketType")
            == "capacity-block"
            for _, resource in stack.resources("AWS::EC2::LaunchTemplate")
        )

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

    # Security groups: a rule of the plan is inside its group, or a resource of its own in any stack.

    def compare_rules(self) -> None:
        planned = list(self._planned_rules())
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
                    if extra or missing[egress]:
                        difference = Difference(path=(name,), planned=missing[egress] or None, live=extra or None)
                        self._add(*owner, difference)

    def _planned_rules(self) -> Iterator[_PlannedRule]:
        for stack in self._live.stacks.values():
            for logical_id, resource in stack.resources(SECURITY_GROUP, *(f"AWS::EC2::{n}" for n in RULE_TYPES)):
                try:
                    given = self._resolvers[stack.name].value(resource.get("Properties") or {})
                except Unknown:
                    self._found.unknown.append(f"{stack.name} {logical_id}")
                    continue
                self._found.compared += 1
                if resource["Type"] == SECURITY_GROUP:
                    for egress, name in DIRECTIONS.items():
                        for one in given.get(name, ()):
                            yield _PlannedRule(stack, logical_id, stack.physical_ids[logical_id], one, egress, False)
                else:
                    egress = resource["Type"].endswith("Egress")
                    yield _PlannedRule(stack, logical_id, given.get("GroupId", ""), given, egress, True)

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

    def _add(self, stack: Stack, logical_id: str, difference: Difference | None = None) -> None:
        kind = stack.template["Resources"][logical_id]["Type"]
        path = difference.path if difference else ()
        breaks, fix = consequence_of(kind, path, gone=difference is None)
        drift = Drift(
            about=stack.about,
            stack=stack.name,
            logical_id=logical_id,
            type=kind,
            physical_id=stack.physical_ids[logical_id],
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
