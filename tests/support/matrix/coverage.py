"""Which combinations are synthesized, so that each value and each pair of values of the axes is in a template.

What a launch template says is decided by the profile, the interfaces, the purchase and the image; the type's name is
written into it as it is. Combinations that agree in all of these are one class: their templates differ in `InstanceType`
alone. Launch templates are synthesized for every pair of values of these four, and for every type with each profile.
Whole fleets, whose user data counts the type's hardware, are synthesized for every type with every layout, and for every
layout of accelerators with every purchase. Of node groups of Amazon EKS every class is synthesized, and every type with
every layout. Of those of AWS PCS every layout is, and every purchase; GPUs are split and unsplit.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from itertools import combinations

from cdk_gpu_clusters.errors import errors_in
from matrix.axes import Makes
from matrix.batches import Batch, batches
from matrix.combinations import Combination, product_of_axes
from matrix.outcome import Outcome, outcome_of

#: A fleet has about ten resources, a node group five and a template one: so many take a process a few seconds.
PER_APP = {Makes.FLEET: 60, Makes.NODE_GROUP: 120, Makes.COMPUTE_NODE_GROUP: 60, Makes.TEMPLATE: 240}


@dataclass(slots=True)
class Coverage:
    """What is synthesized.

    Attributes:
        accepted: Number of combinations that the rules accept.
        named: Of these, combinations of which the very template is synthesized.
        fleets: Combinations to synthesize as whole fleets.
        node_groups: Combinations to synthesize as managed node groups.
        compute_node_groups: Combinations to synthesize as compute node groups of AWS PCS.
        templates: Combinations to synthesize as launch templates alone.
        refused: Combinations that a construct has to refuse, by profile, type and the one rule that says so.
    """

    accepted: int = 0
    named: int = 0
    fleets: list[Combination] = field(default_factory=list)
    node_groups: list[Combination] = field(default_factory=list)
    compute_node_groups: list[Combination] = field(default_factory=list)
    templates: list[Combination] = field(default_factory=list)
    refused: dict[tuple[str, str, str], Combination] = field(default_factory=dict)

    @property
    def work(self) -> list[Batch]:
        """All of it, in apps of a size."""
        return [
            *batches(self.fleets, Makes.FLEET, size=PER_APP[Makes.FLEET]),
            *batches(self.node_groups, Makes.NODE_GROUP, size=PER_APP[Makes.NODE_GROUP]),
            *batches(self.compute_node_groups, Makes.COMPUTE_NODE_GROUP, size=PER_APP[Makes.COMPUTE_NODE_GROUP]),
            *batches(self.templates, Makes.TEMPLATE, size=PER_APP[Makes.TEMPLATE]),
        ]


def class_of(combination: Combination, outcome: Outcome) -> tuple[Hashable, ...]:
    """What decides the launch template but for the type's name."""
    interfaces = outcome.interfaces.interfaces if outcome.interfaces else ()
    image = outcome.image.parameter if outcome.image else combination.image.name
    return (combination.profile.name, interfaces, combination.purchase, image)


def cover() -> Coverage:
    """Choose what to synthesize, so that every pair of values and every type is among it."""
    coverage = Coverage()
    accepted = list(_accepted(coverage))
    coverage.accepted = len(accepted)
    seen: set[Hashable] = set()
    chosen: set[Hashable] = set()
    chosen_of = {
        Makes.FLEET: coverage.fleets,
        Makes.NODE_GROUP: coverage.node_groups,
        Makes.COMPUTE_NODE_GROUP: coverage.compute_node_groups,
    }
    for combination, key in accepted:
        makes = combination.profile.makes
        if makes is Makes.TEMPLATE:
            continue
        sights = _SIGHTS[makes](combination, key)
        if not sights <= seen:
            chosen_of[makes].append(combination)
            chosen.add((key, combination.instance_type))
            seen |= {*sights, *_sights_of_template(combination, key)}
    for combination, key in accepted:
        sights = _sights_of_template(combination, key)
        if combination.profile.makes in (Makes.FLEET, Makes.TEMPLATE) and not sights <= seen:
            coverage.templates.append(combination)
            chosen.add((key, combination.instance_type))
            seen |= sights
    coverage.named = sum((key, combination.instance_type) in chosen for combination, key in accepted)
    return coverage


def _accepted(coverage: Coverage) -> Iterator[tuple[Combination, tuple[Hashable, ...]]]:
    """The accepted combinations with their classes; of the refused ones, one for a type and a rule is kept."""
    for combination in product_of_axes():
        outcome = outcome_of(combination)
        errors = {finding.id for finding in errors_in(outcome.findings)}
        if not errors:
            yield combination, class_of(combination, outcome)
        elif len(errors) == 1 and combination.profile.makes is not Makes.TEMPLATE:
            (rule,) = errors
            # Of AWS PCS, one for a rule: fleets show every type already.
            every = combination.profile.makes is not Makes.COMPUTE_NODE_GROUP
            key = (combination.profile.name, combination.instance_type if every else "", rule)
            coverage.refused.setdefault(key, combination)


def _sights_of_fleet(combination: Combination, key: tuple[Hashable, ...]) -> set[Hashable]:
    """What a fleet shows: its type with its interfaces and, where it has accelerators, these with its purchase."""
    _, interfaces, purchase, _ = key
    sights: set[Hashable] = {("fleet", combination.instance_type, interfaces)}
    return sights | ({("fleet", interfaces, purchase)} if combination.asked.hardware.accelerator else set())


def _sights_of_node_group(combination: Combination, key: tuple[Hashable, ...]) -> set[Hashable]:
    """What a node group shows: its class, and its type with its interfaces, which decide how many pods it takes."""
    return {key, ("node group", combination.instance_type, key[1])}


def _sights_of_compute_node_group(combination: Combination, key: tuple[Hashable, ...]) -> set[Hashable]:
    """What a compute node group shows: a layout of interfaces, a purchase, and GPUs that are split or not."""
    _, interfaces, purchase, _ = key
    return {
        ("compute node group", interfaces),
        ("compute node group", purchase),
        ("compute node group", combination.slices is not None),
    }


_SIGHTS = {
    Makes.FLEET: _sights_of_fleet,
    Makes.NODE_GROUP: _sights_of_node_group,
    Makes.COMPUTE_NODE_GROUP: _sights_of_compute_node_group,
}


def _sights_of_template(combination: Combination, key: tuple[Hashable, ...]) -> set[Hashable]:
    """What a launch template shows: each pair of what decides it, and its type with its profile."""
    return {*combinations(enumerate(key), 2), (combination.profile.name, combination.instance_type)}
