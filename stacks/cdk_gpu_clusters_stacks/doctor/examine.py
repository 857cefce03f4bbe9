"""Compare what an account has with the deployed stacks, and judge it by the template rules."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cdk_gpu_clusters_stacks.failures.reading import Unread
from cdk_gpu_clusters_stacks.preflight.account import Account
from cdk_gpu_clusters_stacks.spec import ClusterSpec

from .compare import Difference, Path, _key, _text, differences
from .consequences import consequence_of
from .live import Live, read_live
from .mapping import BY_TYPE, SUSPENDED, Json, rule_properties
from .planned import UNKNOWN, Resolver, Stack, Unknown

if TYPE_CHECKING:
    from cdk_gpu_clusters.template_rules.rule import TemplateRule

_SECURITY_GROUP = "AWS::EC2::SecurityGroup"
_DIRECTIONS = {False: "SecurityGroupIngress", True: "SecurityGroupEgress"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One difference between the account and the plan.

    Attributes:
        about: The key of the cluster file that it is about.
        stack: Name of the stack.
        logical_id: Logical id of the resource.
        type: Its CloudFormation type.
        physical_id: Its physical id.
        path: The property; empty for the resource itself.
        planned: Value of the plan; None if it has none.
        live: Live value; None if there is none.
        breaks: What it costs or breaks.
        fix: How to mend it.
        rules: The template rules that the account breaks because of it: id and message.
    """

    about: str
    stack: str
    logical_id: str
    type: str
    physical_id: str
    path: Path = ()
    planned: Any = None
    live: Any = None
    breaks: str = ""
    fix: str = ""
    rules: tuple[tuple[str, str], ...] = ()

    @property
    def is_gone(self) -> bool:
        """Whether the resource no longer exists."""
        return not self.path


@dataclass(slots=True, kw_only=True)
class Diagnosis:
    """What was found.

    Attributes:
        cluster: Name of the cluster.
        region: Its Region.
        account: The account.
        drifts: Differences from the plan.
        faults: Template rules that the deployed plan itself breaks: stack, logical id, rule and message.
        unread: What could not be read.
        absent: Stacks that are not deployed.
        compared: How many resources were compared.
        unknown: Properties that could not be compared, since only CloudFormation knows their planned value.
    """

    cluster: str
    region: str
    account: str
    drifts: list[Drift] = field(default_factory=list)
    faults: list[tuple[str, str, str, str]] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    compared: int = 0
    unknown: list[str] = field(default_factory=list)

    @property
    def is_healthy(self) -> bool:
        """Whether nothing differs and no rule is broken."""
        return not self.drifts and not self.faults


def examine(
    spec: ClusterSpec, account: Account, *, rules: Sequence[TemplateRule] | None = None
) -> Diagnosis:
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
    _judge(live, found, rules, region=spec.region)
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
        """Versions of launch templates that nobody planned, and nodes on a version that differs from the plan."""
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
                for egress, name in _DIRECTIONS.items():
                    extra = [rule_properties(one) for one in rest.values() if bool(one.get("IsEgress")) is egress]
                    if extra or missing[egress]:
                        difference = Difference(path=(name,), planned=missing[egress] or None, live=extra or None)
                        self._add(*owner, difference)

    def _planned_rules(self) -> Iterator[_PlannedRule]:
        for stack in self._live.stacks.values():
            for logical_id, resource in stack.resources(_SECURITY_GROUP, *(f"AWS::EC2::{n}" for n in _RULE_TYPES)):
                try:
                    given = self._resolvers[stack.name].value(resource.get("Properties") or {})
                except Unknown:
                    self._found.unknown.append(f"{stack.name} {logical_id}")
                    continue
                self._found.compared += 1
                if resource["Type"] == _SECURITY_GROUP:
                    for egress, name in _DIRECTIONS.items():
                        for one in given.get(name, ()):
                            yield _PlannedRule(stack, logical_id, stack.physical_ids[logical_id], one, egress, False)
                else:
                    egress = resource["Type"].endswith("Egress")
                    yield _PlannedRule(stack, logical_id, given.get("GroupId", ""), given, egress, True)

    def _match(self, planned: _PlannedRule, rest: Mapping[str, Json]) -> str | None:
        """The described rule that is a planned one: by its id, otherwise by what it allows."""
        if planned.is_resource and planned.stack.physical_ids[planned.logical_id] in rest:
            return planned.stack.physical_ids[planned.logical_id]
        wanted = _text(_rule(planned.properties))
        return next(
            (
                key
                for key, one in rest.items()
                if bool(one.get("IsEgress")) is planned.is_egress and _text(_rule(rule_properties(one))) == wanted
            ),
            None,
        )

    def _compare_rule(self, planned: _PlannedRule, document: Json) -> None:
        live = rule_properties(document)
        for difference in differences(_rule(planned.properties), live, strict=True):
            self._add(planned.stack, planned.logical_id, difference)

    def _group_of(self, group: str) -> tuple[Stack, str] | None:
        """The resource that is a security group; None for one that no stack makes."""
        for stack in self._live.stacks.values():
            for logical_id, _ in stack.resources(_SECURITY_GROUP):
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


_RULE_TYPES = ("SecurityGroupIngress", "SecurityGroupEgress")
#: What does not decide which traffic a rule allows.
_NO_TRAFFIC = ("Description", "GroupId", "SourceSecurityGroupOwnerId")


@dataclass(frozen=True, slots=True)
class _PlannedRule:
    """A rule of the plan: of a group's own lists, or a resource."""

    stack: Stack
    logical_id: str
    group: str
    properties: Json
    is_egress: bool
    is_resource: bool


def _rule(properties: Json) -> dict[str, Any]:
    return {
        name: value
        for name, value in properties.items()
        if name not in _NO_TRAFFIC and not (name in ("FromPort", "ToPort") and value == -1)
    }


def _set_by_hand(kind: str, given: Json, live: Json) -> Iterator[Difference]:
    """What the plan does not set, and AWS would answer with another value if nobody had."""
    for member in BY_TYPE[kind].members:
        if member.may_be_unset and member.property not in given and member.property in live:
            yield from differences(member.unset or None, live[member.property] or None, (member.property,))


# The template rules.


def _judge(live: Live, found: Diagnosis, rules: Sequence[TemplateRule] | None, *, region: str) -> None:
    """The rules that the plan breaks, and those that each drift breaks in addition."""
    from cdk_gpu_clusters.template_rules.registry import every_rule

    chosen = every_rule() if rules is None else rules
    if not chosen:
        return
    plain = {name: stack.template for name, stack in live.stacks.items()}
    before = _broken(plain, chosen, region)
    found.faults = sorted((stack, resource, rule, text) for (rule, stack, resource), text in before.items())
    for index, drift in enumerate(found.drifts):
        changed = _with_drift(plain[drift.stack], drift)
        if changed is None:
            continue
        after = _broken({**plain, drift.stack: changed}, chosen, region)
        broken = {(key[0], text) for key, text in after.items() if key not in before}
        found.drifts[index] = replace(drift, rules=tuple(sorted(broken)))


def _broken(
    templates: Mapping[str, Json], rules: Sequence[TemplateRule], region: str
) -> dict[tuple[str, str, str], str]:
    """Every rule that templates break and do not acknowledge, by id, stack and resource."""
    from cdk_gpu_clusters.template_rules.acknowledgements import acknowledge, acknowledged_in
    from cdk_gpu_clusters.template_rules.document import UnusableTemplate
    from cdk_gpu_clusters.template_rules.engine import judge_estate, not_compliant
    from cdk_gpu_clusters.template_rules.links import estates_of
    from cdk_gpu_clusters.template_rules.template import Template

    read = []
    for name, data in templates.items():
        try:
            read.append(Template.of(data, name=name, region=region, stack_name=name))
        except UnusableTemplate:
            continue
    accepted = {template: acknowledged_in(template) for template in read}
    return {
        (one.rule.id, template.name, one.resource): one.message
        for estate in estates_of(read)
        for template, verdicts in judge_estate(estate, rules).items()
        for one in not_compliant(acknowledge(template, verdicts, accepted))
    }


def _with_drift(template: Json, drift: Drift) -> Json | None:
    """A template in which a property has its live value; None if there is no place for it."""
    if drift.path and drift.path[0] in (SUSPENDED, "Instances", "LatestVersionNumber"):
        return None
    changed = copy.deepcopy(dict(template))
    if drift.is_gone:
        if drift.type.removeprefix("AWS::EC2::") not in _RULE_TYPES:
            return None  # what refers to it would have no meaning
        del changed["Resources"][drift.logical_id]
        return changed
    if drift.type == _SECURITY_GROUP and drift.path[0] in _DIRECTIONS.values():
        return _with_rules(changed, drift)
    place = changed["Resources"][drift.logical_id].setdefault("Properties", {})
    return changed if _put(place, drift.path, drift.live) else None


def _with_rules(changed: dict[str, Any], drift: Drift) -> Json:
    properties = changed["Resources"][drift.logical_id].setdefault("Properties", {})
    gone = [_text(_rule(one)) for one in drift.planned or ()]
    kept = [one for one in properties.get(drift.path[0], ()) if _text(_rule(one)) not in gone]
    properties[drift.path[0]] = [*kept, *(drift.live or ())]
    return changed


def _put(place: Any, path: Sequence[str], value: Any) -> bool:
    """Put a value into a template; False where an intrinsic function is in the way."""
    from .compare import _ITEM_KEYS

    name, rest = path[0], path[1:]
    if not isinstance(place, dict) or any(key == "Ref" or key.startswith("Fn::") for key in place):
        return False
    if rest and name in _ITEM_KEYS:
        items = place.setdefault(name, [])
        if not isinstance(items, list) or not all(isinstance(one, dict) for one in items):
            return False
        keys = _ITEM_KEYS[name]
        index = next((at for at, one in enumerate(items) if _key(one, keys) == rest[0]), None)
        if len(rest) > 1:
            return index is not None and _put(items[index], rest[1:], value)
        if index is not None:
            items[index : index + 1] = [] if value is None else [value]
        else:
            items.append(value)
        return True
    if rest:
        return _put(place.setdefault(name, {}), rest, value)
    if value is None:
        place.pop(name, None)
    else:
        place[name] = value
    return True
