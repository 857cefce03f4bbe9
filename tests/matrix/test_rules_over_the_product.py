"""Every type x orchestrator x purchase x interface layout x image, by the rules alone: a plan, or findings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import pytest

from cdk_gpu_clusters.catalogue.images import ImageParameter
from cdk_gpu_clusters.errors import ConfigError, Finding, Severity, defined_rules, errors_in
from cdk_gpu_clusters.rules.capacity import CapacityDecision
from cdk_gpu_clusters.rules.images import check_image, choose_image
from cdk_gpu_clusters.rules.interfaces import InterfacePlan
from matrix.axes import PURCHASES
from matrix.cloud import Cloud, Place
from matrix.combinations import frames
from matrix.hardware import hardware_types
from matrix.invariant import invariants
from matrix.nodes import Nodes
from matrix.outcome import outcome_of
from matrix.published import images_that_list, reasons_to_refuse
from matrix.scenario import Asked

#: The invariants that speak of interfaces alone, which the rules decide.
OF_INTERFACES = (
    "one-primary-interface",
    "card-exists",
    "devices-fit-card",
    "one-efa-per-card",
    "card-takes-type",
    "efa-as-asked",
    "addresses-as-asked",
)
#: Purchase -> market type, reservation targeted, placement with and without EFA: AWS EC2 user guide, "Capacity Blocks
#: for ML", "On-Demand Capacity Reservations" and "Placement groups".
CAPACITY = {
    "on-demand": (None, False, "own", "none"),
    "spot": ("spot", False, "own", "none"),
    "odcr": (None, True, "of the reservation", "of the reservation"),
    "capacity-block": ("capacity-block", True, "none", "none"),
    "ultraserver-block": ("capacity-block", True, "none", "none"),
}
ABOUT_IMAGES = ("GPU-AMI-001", "GPU-AMI-002", "GPU-AMI-003")
#: 268 types, 13 purchases, 12 layouts, and 6 images with EC2, 3 with EKS and PCS, one with node groups of either: an
#: axis never shrinks.
FLOOR = 268 * 13 * 12 * (6 + 3 + 3 + 1 + 1)


def test_every_combination_is_planned_or_refused_with_its_reason(tally: Callable[[str], None]) -> None:
    seen: Counter[bool] = Counter()
    wrong: list[str] = []
    findings: dict[int, Finding] = {}
    had: set[str] = set()
    for frame in frames():
        asked = frame.asked
        reasons = reasons_to_refuse(asked)
        for image in frame.profile.images:
            outcome = outcome_of(frame.with_image(image))
            findings.update((id(finding), finding) for finding in outcome.findings)
            refused = [each for each in errors_in(outcome.findings) if each.id not in ABOUT_IMAGES]
            seen[outcome.is_accepted] += 1
            if outcome.is_accepted:
                had.update((frame.instance_type, frame.purchase))
            if bool(refused) is not bool(reasons):
                wrong.append(f"{frame}, {image.name}: {reasons or 'nothing'} against it, but {refused or 'accepted'}")
        if not reasons and outcome.interfaces is not None and outcome.decision is not None:
            fault = fault_of_plan(asked, outcome.interfaces) or fault_of_decision(asked, outcome.decision)
            wrong += [f"{frame}: {fault}"] if fault else []
    assert wrong[:20] == []
    assert [finding for finding in findings.values() if not is_sound(finding)] == []
    assert had == {*hardware_types(), *PURCHASES}, "a type or a purchase that is always refused"
    tally(f"rules: {seen.total():,} combinations, {seen[True]:,} planned and {seen[False]:,} refused")
    assert seen.total() >= FLOOR
    assert min(seen[True], seen[False]) > FLOOR // 10


def is_sound(finding: Finding) -> bool:
    """Whether a finding has a rule, a cause, and, where it stops the user, a change to make."""
    known = finding.id in defined_rules() and re.fullmatch(r"GPU-[A-Z0-9]+-\d{3}", finding.id) is not None
    return known and bool(finding.cause) and (finding.severity is Severity.INFO or bool(finding.fix))


_planned: dict[tuple[str, str, str, bool, int], str | None] = {}


def fault_of_plan(asked: Asked, plan: InterfacePlan) -> str | None:
    """What the interface invariants say of the plan, as a launch template would have it."""
    key = (asked.instance_type, asked.orchestrator, asked.layout, asked.wants_efa, id(plan))
    if key not in _planned:
        entries = [
            {
                "NetworkCardIndex": each.network_card_index,
                "DeviceIndex": each.device_index,
                "InterfaceType": each.interface_type,
            }
            for each in plan.interfaces
        ]
        properties = {"LaunchTemplateData": {"NetworkInterfaces": entries}}
        template = {"Type": "AWS::EC2::LaunchTemplate", "Properties": properties}
        nodes = Nodes(Cloud({"Rules": {"Resources": {"Plan": template}}}), Place("Rules", "Plan"), asked)
        found = [f"{name}: {what}" for name in OF_INTERFACES for what in invariants()[name].check(nodes)]
        _planned[key] = found[0] if found else None
    return _planned[key]


def fault_of_decision(asked: Asked, decision: CapacityDecision) -> str | None:
    """What differs from the published table of purchases."""
    market, targeted, with_efa, without_efa = CAPACITY[asked.purchase.kind]
    wanted = (market, targeted, with_efa if asked.wants_efa else without_efa)
    got = (decision.market_type, decision.targets_reservation, decision.placement.value)
    return None if got == wanted else f"decides {got}, not {wanted}"


@pytest.mark.parametrize("system", [None, "al2023", "ubuntu-24.04", "ubuntu-22.04"])
def test_a_type_gets_an_image_that_lists_it_or_none_does(system: str | None) -> None:
    """Where no list of the right kind was read, the usual image is taken, and said to be unread."""
    unread = 0
    for hardware in hardware_types().values():
        listing = images_that_list(hardware, system)
        row = image_of(hardware.name, system)
        if row is None or row.parameter not in listing:
            assert not listing, f"{hardware.name} gets {row}, and these list it: {listing}"
            unread += row is not None
    assert bool(unread) is (system in ("ubuntu-24.04", "ubuntu-22.04"))


def image_of(name: str, system: str | None) -> ImageParameter | None:
    """The image that the rules choose, None where they refuse to; one that does not list the type is said to be so."""
    try:
        row = choose_image(name, operating_system=system)
    except ConfigError as refusal:
        about = {finding.id for finding in refusal.findings}
    else:
        ids = {finding.id for finding in check_image(name, row)} - {"GPU-AMI-007"}
        assert ids == ({"GPU-AMI-004"} if row.families is None and row.accelerator else set())
        return row
    assert about <= set(ABOUT_IMAGES)
    return None
