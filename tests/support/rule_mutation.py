"""Faults planted in our own templates, one for each rule: exactly that rule has to find it.

A fault comes from the third document of the rule's fixture; from a module of `rule_mutations`, if it takes code to plant
it; or, for resources that none of our constructs makes, from the fixture's bad template.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from cdk_gpu_clusters.template_rules.template import read_text
from mutations import Mutation as Change
from recorded_templates import Json, copy_of
from rule_fixtures import RuleFixture, changed, rule_fixture, rule_fixtures

MODULES = Path(__file__).with_name("rule_mutations")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleMutation:
    """What a rule forbids, done to a recorded template.

    Attributes:
        rule: Id of the rule that is to fire, alone.
        template: Name of the recorded template.
        at: Type of the resource that is changed: the first of its type for which `where` holds.
        change: Changes its properties, as the functions of `mutations` do.
        where: Holds for the properties of the resource that is meant.
        change_template: Changes the template as a whole, instead of or besides.
        example: Whether the rule's bad example is added, for resources that none of our constructs makes. What its good
            example fires, too, does not count.
        also: Rules that cannot but fire with it, since what it forbids is forbidden by them, too.
    """

    rule: str
    template: str
    at: str = ""
    change: Change | None = None
    where: Callable[[Json], bool] = lambda _: True
    change_template: Callable[[Json], None] | None = None
    example: bool = False
    also: tuple[str, ...] = ()

    def mutated(self) -> Json:
        """The template with the fault."""
        template = self._with_example(good=False)
        if self.change:
            self.change(first(template, self.at, self.where)["Properties"])
        if self.change_template:
            self.change_template(template)
        assert template != of_cloudformation(copy_of(self.template))
        return template

    def unmutated(self) -> Json:
        """The template without the fault."""
        return self._with_example(good=True)

    def _with_example(self, *, good: bool) -> Json:
        template = of_cloudformation(copy_of(self.template))
        if self.example:
            fixture = rule_fixture(self.rule)
            text = fixture.good if good else fixture.bad
            template["Resources"].update(read_text(text).data["Resources"])
        return template


def of_cloudformation(template: Json) -> Json:
    """The template with CloudFormation's own reservations, which rules know; ours in groups are made by a function."""
    for name, resource in template["Resources"].items():
        if resource["Type"] == "Custom::EC2CapacityReservation":
            resource["Type"] = "AWS::EC2::CapacityReservation"
            properties = resource["Properties"]
            tags = [{"Key": key, "Value": value} for key, value in properties.pop("Tags").items()]
            properties["TagSpecifications"] = [{"ResourceType": "capacity-reservation", "Tags": tags}]
            del properties["ServiceToken"], properties["ServiceTimeout"]
            text = json.dumps(template).replace(json.dumps({"Ref": name}), json.dumps({"Fn::GetAtt": [name, "Id"]}))
            changed_back: Json = json.loads(text)
            return of_cloudformation(changed_back)
    return template


def first(template: Json, resource_type: str, where: Callable[[Json], bool] = lambda _: True) -> Json:
    """The first resource of a type for whose properties a condition holds."""
    return next(
        resource
        for resource in template["Resources"].values()
        if resource["Type"] == resource_type and where(resource["Properties"])
    )


def without(resource_type: str, where: Callable[[Any], bool]) -> Callable[[Json], None]:
    """Leave out the resources of a type for whose properties a condition holds."""

    def change(template: Json) -> None:
        resources = template["Resources"]
        gone = [key for key, one in resources.items() if one["Type"] == resource_type and where(one["Properties"])]
        for key in gone:
            del resources[key]

    return change


def every_mutation() -> list[RuleMutation]:
    """One for each rule that has a fixture, by its id."""
    modules = [import_module(f"rule_mutations.{file.stem}") for file in sorted(MODULES.glob("*.py"))]
    planted = {mutation.rule: mutation for module in modules for mutation in module.MUTATIONS}
    for rule_id, fixture in rule_fixtures().items():
        if fixture.planted:
            assert rule_id not in planted, f"{rule_id} is planted twice"
            planted[rule_id] = _of_fixture(rule_id, fixture)
        elif rule_id not in planted:
            planted[rule_id] = RuleMutation(rule=rule_id, template="everywhere/everything_on", example=True)
    return [planted[rule_id] for rule_id in sorted(planted)]


def _of_fixture(rule_id: str, fixture: RuleFixture) -> RuleMutation:
    planted = fixture.planted

    def change(properties: Json) -> None:
        after = changed(properties, planted["changes"])
        properties.clear()
        properties.update(after)

    return RuleMutation(
        rule=rule_id,
        template=planted["template"],
        at=planted["at"],
        change=change,
        also=tuple(planted.get("also", ())),
    )
