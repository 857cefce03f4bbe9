"""Judge a live cluster by the template rules: each drift is put into a copy of its template."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .compare import ITEM_KEYS, key_of, text_of
from .diagnosis import Diagnosis, Drift
from .live import Live
from .mapping import DIRECTIONS, RULE_TYPES, SECURITY_GROUP, SUSPENDED, Json, traffic_of
from .nodes import INSTANCE

if TYPE_CHECKING:
    from cdk_gpu_clusters.template_rules.rule import TemplateRule


def judge_drifts(live: Live, found: Diagnosis, rules: Sequence[TemplateRule] | None, *, region: str) -> None:
    """Find the rules that the plan breaks, and those that each drift breaks in addition.

    Args:
        live: The stacks.
        found: Its drifts get the rules, and it gets those of the plan.
        rules: The rules; all of them for None.
        region: The cluster's Region.
    """
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
    if drift.type == INSTANCE or (drift.path and drift.path[0] in (SUSPENDED, "Instances", "LatestVersionNumber")):
        return None
    changed = copy.deepcopy(dict(template))
    if drift.is_gone:
        if drift.type.removeprefix("AWS::EC2::") not in RULE_TYPES:
            return None  # what refers to it would have no meaning
        del changed["Resources"][drift.logical_id]
        return changed
    if drift.type == SECURITY_GROUP and drift.path[0] in DIRECTIONS.values():
        return _with_rules(changed, drift)
    place = changed["Resources"][drift.logical_id].setdefault("Properties", {})
    return changed if _put(place, drift.path, drift.live) else None


def _with_rules(changed: dict[str, Any], drift: Drift) -> Json:
    properties = changed["Resources"][drift.logical_id].setdefault("Properties", {})
    gone = [text_of(traffic_of(one)) for one in drift.planned or ()]
    kept = [one for one in properties.get(drift.path[0], ()) if text_of(traffic_of(one)) not in gone]
    properties[drift.path[0]] = [*kept, *(drift.live or ())]
    return changed


def _put(place: Any, path: Sequence[str], value: Any) -> bool:
    """Put a value into a template; False where an intrinsic function is in the way."""
    name, rest = path[0], path[1:]
    if not isinstance(place, dict) or any(key == "Ref" or key.startswith("Fn::") for key in place):
        return False
    if rest and name in ITEM_KEYS:
        items = place.setdefault(name, [])
        if not isinstance(items, list) or not all(isinstance(one, dict) for one in items):
            return False
        keys = ITEM_KEYS[name]
        index = next((at for at, one in enumerate(items) if key_of(one, keys) == rest[0]), None)
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
