"""Every fault in a list of interfaces has its own id, and is found whatever the list."""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk_gpu_clusters.catalogue import InstanceType, instance_type, instance_types
from cdk_gpu_clusters.rules.interfaces import (
    NetworkInterface,
    check_addresses,
    check_interfaces,
    check_public_ip,
    plan_interfaces,
)

Interfaces = list[NetworkInterface]
N = NetworkInterface


def ids(name: str, interfaces: Interfaces) -> list[str]:
    return sorted({finding.id for finding in check_interfaces(name, interfaces)})


@pytest.mark.parametrize(
    ("name", "interfaces", "expected"),
    [
        ("p5.48xlarge", [N(0, 0)], []),
        ("p5.48xlarge", [N(0, 0, "efa"), N(1, 1, "efa"), N(2, 0, "efa")], []),  # both older forms
        ("p5.48xlarge", [], ["GPU-EFA-001"]),
        ("p5.48xlarge", [N(0, 1)], ["GPU-EFA-001"]),
        ("p5.48xlarge", [N(0, 0), N(0, 0)], ["GPU-EFA-001", "GPU-EFA-009"]),
        ("p5.48xlarge", [N(0, 0, "efa-only")], ["GPU-EFA-002"]),
        ("p5.48xlarge", [N(0, 0), N(1, 0, "efa-only"), N(1, 1, "efa")], ["GPU-EFA-003"]),
        ("g5.48xlarge", [N(0, 0, "efa"), N(0, 1, "efa-only")], ["GPU-EFA-003", "GPU-EFA-004"]),
        ("p6-b300.48xlarge", [N(0, 0, "efa")], ["GPU-EFA-005"]),
        ("p6-b300.48xlarge", [N(0, 0), N(0, 1, "efa-only")], ["GPU-EFA-005"]),
        ("p6e-gb200.36xlarge", [N(0, 0), N(1, 0, "efa")], ["GPU-EFA-005"]),
        ("g5.xlarge", [N(0, 0), N(0, 1, "efa-only")], ["GPU-EFA-004", "GPU-EFA-005"]),
        ("p5.48xlarge", [N(0, 0), N(32, 0, "efa-only")], ["GPU-EFA-006"]),
        ("p5.48xlarge", [N(0, 0), N(-1, 0, "efa-only")], ["GPU-EFA-006"]),
        ("p5.48xlarge", [N(0, 0), N(1, 0), N(1, 1), N(1, 2)], ["GPU-EFA-007", "GPU-EFA-010"]),
        ("g5.xlarge", [N(0, 0), *(N(0, 1) for _ in range(5))], ["GPU-EFA-007", "GPU-EFA-008", "GPU-EFA-009"]),
        ("p5.48xlarge", [N(0, 0), N(1, 1), N(1, 1)], ["GPU-EFA-009"]),
        ("p5.48xlarge", [N(0, 0), N(1, 2, "efa-only")], ["GPU-EFA-010"]),  # the card has two slots
        ("p6e-gb200.36xlarge", [N(0, 0), N(1, 1, "efa-only")], ["GPU-EFA-010"]),  # and this one has one
        ("p5.48xlarge", [N(0, 0), N(1, -1)], ["GPU-EFA-010"]),
    ],
)
def test_each_fault_has_its_id(name: str, interfaces: Interfaces, expected: list[str]) -> None:
    assert ids(name, interfaces) == expected


def test_the_instance_total_counts_by_itself() -> None:
    # g6e.24xlarge holds 10 per card and 20 in all, so a total above it needs full cards and one more.
    full = [N(card, device) for card in (0, 1) for device in range(10)]
    assert ids("g6e.24xlarge", full) == []
    assert "GPU-EFA-008" in ids("g6e.24xlarge", [*full, N(1, 9)])


def test_all_faults_are_reported_at_once() -> None:
    broken = [N(0, 0, "efa-only"), N(1, 5, "efa-only"), N(40, 0, "efa-only")]
    assert ids("p5.48xlarge", broken) == ["GPU-EFA-002", "GPU-EFA-006", "GPU-EFA-010"]


def test_a_finding_says_what_was_got_and_what_would_do() -> None:
    (finding,) = check_interfaces("p6-b300.48xlarge", [N(0, 0, "efa")])
    assert finding.got == "efa at card 0 device 0"
    assert finding.allowed == "interface"
    assert finding.fix


@pytest.mark.parametrize(
    ("interfaces", "public_ip", "expected"),
    [
        ([N(0, 0)], True, []),
        ([N(0, 0), N(0, 1, "efa-only")], False, []),
        ([N(0, 0), N(0, 1, "efa-only")], True, ["GPU-EFA-011"]),
    ],
)
def test_public_addresses_need_a_single_interface(interfaces: Interfaces, public_ip: bool, expected: list[str]) -> None:
    assert [f.id for f in check_public_ip(interfaces, public_ip=public_ip)] == expected


def test_efa_only_takes_no_address() -> None:
    findings = check_addresses([N(0, 0), N(1, 0, "efa-only"), N(2, 0, "efa")])
    assert [(f.id, f.got) for f in findings] == [("GPU-EFA-012", "efa-only at card 1 device 0")]


def _drop_primary(_: InstanceType, valid: Interfaces, __: int) -> Interfaces:
    return valid[1:]


def _primary_without_ip(_: InstanceType, valid: Interfaces, __: int) -> Interfaces:
    return [N(0, 0, "efa-only"), *valid[1:]]


def _duplicate(_: InstanceType, valid: Interfaces, pick: int) -> Interfaces:
    return [*valid, valid[pick % len(valid)]]


def _beyond_the_cards(kind: InstanceType, valid: Interfaces, pick: int) -> Interfaces:
    moved = pick % len(valid)
    beyond = N(len(kind.network.cards) + pick % 3, 0, valid[moved].interface_type)
    return [*valid[:moved], *valid[moved + 1 :], beyond]


def _beyond_the_slots(kind: InstanceType, valid: Interfaces, pick: int) -> Interfaces:
    moved = pick % len(valid)
    old = valid[moved]
    slots = kind.network.cards[old.network_card_index].max_interfaces
    return [
        *valid[:moved],
        *valid[moved + 1 :],
        N(old.network_card_index, slots + pick % 3, old.interface_type),
    ]


def _unaccepted_type(kind: InstanceType, valid: Interfaces, pick: int) -> Interfaces:
    moved = pick % len(valid)
    accepted = kind.network.cards[valid[moved].network_card_index].interface_types
    refused = next((t for t in ("efa", "interface", "efa-only") if t not in accepted), "branch")
    old = valid[moved]
    wrong = N(old.network_card_index, old.device_index, refused)  # type: ignore[arg-type]
    return [*valid[:moved], wrong, *valid[moved + 1 :]]


def _second_efa_on_a_card(_: InstanceType, valid: Interfaces, pick: int) -> Interfaces:
    efa = [interface for interface in valid if interface.is_efa]
    chosen = efa[pick % len(efa)]
    return [*valid, N(chosen.network_card_index, chosen.device_index + 1, "efa-only")]


def _overfull_card(kind: InstanceType, valid: Interfaces, pick: int) -> Interfaces:
    card = kind.network.cards[pick % len(kind.network.cards)]
    return [*valid, *(N(card.index, device) for device in range(card.max_interfaces + 1))]


MUTATIONS: dict[Callable[[InstanceType, Interfaces, int], Interfaces], str] = {
    _drop_primary: "GPU-EFA-001",
    _primary_without_ip: "GPU-EFA-002",
    _duplicate: "GPU-EFA-009",
    _beyond_the_cards: "GPU-EFA-006",
    _beyond_the_slots: "GPU-EFA-010",
    _unaccepted_type: "GPU-EFA-005",
    _second_efa_on_a_card: "GPU-EFA-003",
    _overfull_card: "GPU-EFA-007",
}


@given(
    name=st.sampled_from([name for name, kind in instance_types().items() if kind.network.efa]),
    mutate=st.sampled_from(list(MUTATIONS)),
    pick=st.integers(0, 200),
    seed=st.randoms(use_true_random=False),
)
def test_a_broken_plan_is_refused_with_the_right_id(
    name: str, mutate: Callable[[InstanceType, Interfaces, int], Interfaces], pick: int, seed: Random
) -> None:
    broken = mutate(instance_type(name), list(plan_interfaces(name).interfaces), pick)
    seed.shuffle(broken)
    assert MUTATIONS[mutate] in ids(name, broken)


@given(
    name=st.sampled_from(list(instance_types())),
    interfaces=st.lists(
        st.builds(N, st.integers(0, 3), st.integers(0, 3), st.sampled_from(["interface", "efa", "efa-only"])),
        max_size=8,
    ),
)
def test_the_check_agrees_with_a_plain_reading_of_the_rules(name: str, interfaces: Interfaces) -> None:
    kind = instance_type(name)
    assert (check_interfaces(name, interfaces) == []) is _would_launch(kind, interfaces)


def _would_launch(kind: InstanceType, interfaces: Interfaces) -> bool:
    slots = [(i.network_card_index, i.device_index) for i in interfaces]
    efa_cards = [card for (card, _), i in zip(slots, interfaces, strict=True) if "efa" in i.interface_type]
    cards = {card.index: card for card in kind.network.cards}
    return (
        len(set(slots)) == len(slots)
        and any(i == N(0, 0) or i == N(0, 0, "efa") for i in interfaces)
        and len(set(efa_cards)) == len(efa_cards)
        and len(efa_cards) <= (kind.network.efa.max_interfaces if kind.network.efa else 0)
        and all(card in cards and device < cards[card].max_interfaces for card, device in slots)
        and all(i.interface_type in cards[i.network_card_index].interface_types for i in interfaces)
        and len(slots) <= kind.network.max_interfaces
    )
