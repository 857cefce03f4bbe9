"""Which interfaces a node gets, type by type."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk_gpu_clusters.catalogue import InstanceType, instance_type, instance_types
from cdk_gpu_clusters.errors import ConfigError, Severity
from cdk_gpu_clusters.rules.interfaces import (
    InterfacePlan,
    InterfacePolicy,
    NetworkInterface,
    Orchestrator,
    check_interfaces,
    default_policy,
    plan_interfaces,
)

EVERY_TYPE = sorted(instance_types())
EFA_TYPES = [name for name in EVERY_TYPE if instance_type(name).network.efa]
MULTI_CARD_TYPES = [name for name in EFA_TYPES if len(instance_type(name).network.cards) > 1]


def compact(plan: InterfacePlan) -> str:
    """`interface 0/0, efa-only 0/1` ..., the way the layouts are written in AWS's guide."""
    return ", ".join(f"{i.interface_type} {i.network_card_index}/{i.device_index}" for i in plan.interfaces)


def efa_only(cards: list[int], device: int = 0) -> str:
    return ", ".join(f"efa-only {card}/{device}" for card in cards)


@pytest.mark.parametrize(
    ("name", "expected", "efa_gbps", "ena_gbps"),
    [
        ("p5.48xlarge", "interface 0/0, efa-only 0/1, " + efa_only([*range(1, 32)]), 3200, 100),
        ("p5e.48xlarge", "interface 0/0, efa-only 0/1, " + efa_only([*range(1, 32)]), 3200, 100),
        ("p5en.48xlarge", "interface 0/0, efa-only 0/1, " + efa_only([*range(1, 16)]), 3200, 200),
        ("p6-b200.48xlarge", "interface 0/0, efa-only 0/1, " + efa_only([*range(1, 8)]), 3200, 200),
        ("p6-b300.48xlarge", "interface 0/0, " + efa_only([*range(1, 17)]), 6400, 350),
        ("p6e-gb200.36xlarge", "interface 0/0, " + efa_only([1, 5, 9, 13]), 1600, 100),
        ("p4d.24xlarge", "interface 0/0, efa-only 0/1, " + efa_only([1, 2, 3]), 400, 100),
        ("trn1n.32xlarge", "interface 0/0, efa-only 0/1, " + efa_only([*range(1, 16)]), 1600, 100),
        ("trn2.48xlarge", "interface 0/0, efa-only 0/1, " + efa_only([*range(1, 16)]), 3200, 200),
        ("g6e.48xlarge", "interface 0/0, efa-only 0/1, " + efa_only([1, 2, 3]), 400, None),
        ("g7e.48xlarge", "interface 0/0, efa-only 0/1, " + efa_only([1, 2, 3]), 1600, 400),
        ("g5.48xlarge", "interface 0/0, efa-only 0/1", 100, 100),
        ("trn2.3xlarge", "interface 0/0, efa-only 0/1", None, None),
        ("g5.xlarge", "interface 0/0", 0, 10),
        ("g5g.metal", "interface 0/0", 0, 25),
    ],
)
def test_the_default_is_awss_present_recommendation(
    name: str, expected: str, efa_gbps: float | None, ena_gbps: float | None
) -> None:
    plan = plan_interfaces(name)
    assert compact(plan) == expected
    assert (plan.efa_gbps, plan.ena_gbps) == (efa_gbps, ena_gbps)
    assert plan.ip_addresses_per_node == 1


@pytest.mark.parametrize(
    ("name", "ena_cards", "ena_gbps"),
    [
        ("p5.48xlarge", [4, 8, 12, 16, 20, 24, 28], 800),
        ("p6-b200.48xlarge", [*range(1, 8)], 1600),
        ("p6-b300.48xlarge", [*range(1, 17)], 3870),
        ("g5.48xlarge", [], 100),
    ],
)
def test_maximum_ena_bandwidth_adds_plain_interfaces_on_the_documented_cards(
    name: str, ena_cards: list[int], ena_gbps: float
) -> None:
    least = plan_interfaces(name)
    most = plan_interfaces(name, policy=InterfacePolicy.MAXIMUM_ENA_BANDWIDTH)
    added = set(most.interfaces) - set(least.interfaces)
    assert added == {NetworkInterface(card, 1) for card in ena_cards}
    assert most.ip_addresses_per_node == 1 + len(ena_cards)
    assert (most.efa_gbps, most.ena_gbps) == (least.efa_gbps, ena_gbps)


@pytest.mark.parametrize("name", ["p5en.48xlarge", "trn2.48xlarge", "p6e-gb200.36xlarge", "p4d.24xlarge"])
def test_maximum_ena_bandwidth_is_refused_where_no_source_names_the_cards(name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        plan_interfaces(name, policy=InterfacePolicy.MAXIMUM_ENA_BANDWIDTH)
    (finding,) = refused.value.findings
    assert finding.id == "GPU-EFA-020"
    assert "minimum-ip" in finding.fix


def test_maximum_ena_bandwidth_without_efa_is_refused_on_several_cards() -> None:
    with pytest.raises(ConfigError) as refused:
        plan_interfaces("p5.48xlarge", policy=InterfacePolicy.MAXIMUM_ENA_BANDWIDTH, efa=False)
    assert [finding.id for finding in refused.value.findings] == ["GPU-EFA-021"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("p4d.24xlarge", "efa 0/0, efa 1/1, efa 2/1, efa 3/1"),
        ("p6-b200.48xlarge", "efa 0/0, " + ", ".join(f"efa {card}/1" for card in range(1, 8))),
        ("p6-b300.48xlarge", "interface 0/0, " + ", ".join(f"efa {card}/1" for card in range(1, 17))),
        ("p6e-gb200.36xlarge", "interface 0/0, " + efa_only([1, 5, 9, 13])),
        ("g5.48xlarge", "efa 0/0"),
    ],
)
def test_pcs_gets_the_form_its_guide_documents(name: str, expected: str) -> None:
    plan = plan_interfaces(name, orchestrator=Orchestrator.PCS)
    assert plan.policy is InterfacePolicy.EFA_PER_CARD
    assert compact(plan) == expected


def test_p5_on_pcs_takes_an_address_per_card_and_reaches_the_ip_ceiling() -> None:
    plan = plan_interfaces("p5.48xlarge", orchestrator=Orchestrator.PCS)
    assert plan.ip_addresses_per_node == 32
    assert (plan.efa_gbps, plan.ena_gbps) == (3200, 800)
    assert plan.findings == ()


@pytest.mark.parametrize(
    ("name", "policy", "expected"),
    [
        ("p5.48xlarge", InterfacePolicy.MINIMUM_IP, {"GPU-EFA-022", "GPU-EFA-023", "GPU-EFA-024"}),
        (
            "p5.48xlarge",
            InterfacePolicy.MAXIMUM_ENA_BANDWIDTH,
            {"GPU-EFA-022", "GPU-EFA-023", "GPU-EFA-024"},
        ),
        ("p6-b300.48xlarge", InterfacePolicy.MINIMUM_IP, {"GPU-EFA-022", "GPU-EFA-024"}),
        ("g5.48xlarge", InterfacePolicy.MINIMUM_IP, {"GPU-EFA-022", "GPU-EFA-023"}),
        ("p6e-gb200.36xlarge", None, {"GPU-EFA-022", "GPU-EFA-024"}),
        ("p6-b300.48xlarge", None, set()),
        ("g5.xlarge", None, set()),
    ],
)
def test_what_pcs_does_not_document_is_a_warning(name: str, policy: InterfacePolicy | None, expected: set[str]) -> None:
    findings = plan_interfaces(name, policy=policy, orchestrator=Orchestrator.PCS).findings
    assert {finding.id for finding in findings} == expected
    assert {finding.severity for finding in findings} <= {Severity.WARNING}


@pytest.mark.parametrize(
    ("orchestrator", "may_set_subnet", "may_set_instance_profile"),
    [
        (Orchestrator.EC2, True, True),
        (Orchestrator.EKS_MANAGED, False, False),  # CreateNodegroup refuses both
        (Orchestrator.PCS, True, False),  # PCS ignores the template's profile
    ],
)
def test_the_orchestrator_decides_which_template_fields_may_be_set(
    orchestrator: Orchestrator, may_set_subnet: bool, may_set_instance_profile: bool
) -> None:
    plan = plan_interfaces("p5.48xlarge", orchestrator=orchestrator)
    assert plan.may_set_subnet is may_set_subnet
    assert plan.may_set_instance_profile is may_set_instance_profile


def test_a_card_that_holds_one_interface_carries_efa_in_the_primary() -> None:
    one_slot = _with_slots(instance_type("g5.48xlarge"), 1)
    assert compact(plan_interfaces(one_slot)) == "efa 0/0"


@pytest.mark.parametrize("policy", [None, InterfacePolicy.MINIMUM_IP, InterfacePolicy.EFA_PER_CARD])
@pytest.mark.parametrize("name", ["p5.48xlarge", "p6-b300.48xlarge", "g5.48xlarge"])
def test_without_efa_a_node_has_one_plain_interface(name: str, policy: InterfacePolicy | None) -> None:
    plan = plan_interfaces(name, policy=policy, efa=False)
    assert plan.interfaces == (NetworkInterface(0, 0),)
    assert plan.efa_gbps == 0
    assert plan.may_have_public_ip


def test_an_unknown_type_is_named() -> None:
    with pytest.raises(ConfigError, match="GPU-INST-001"):
        plan_interfaces("p5.49xlarge")


@given(
    name=st.sampled_from(EVERY_TYPE),
    policy=st.sampled_from([None, *InterfacePolicy]),
    orchestrator=st.sampled_from(Orchestrator),
    efa=st.booleans(),
)
def test_every_plan_is_one_that_ec2_accepts(
    name: str, policy: InterfacePolicy | None, orchestrator: Orchestrator, efa: bool
) -> None:
    if policy is InterfacePolicy.MAXIMUM_ENA_BANDWIDTH and not _ena_layout_is_known(name, efa=efa):
        with pytest.raises(ConfigError, match=r"GPU-EFA-02[01]"):
            plan_interfaces(name, policy=policy, orchestrator=orchestrator, efa=efa)
        return
    plan = plan_interfaces(name, policy=policy, orchestrator=orchestrator, efa=efa)
    assert check_interfaces(name, plan.interfaces) == []
    assert plan.policy is (policy or default_policy(orchestrator))
    assert plan.interfaces == tuple(sorted(plan.interfaces))
    pods = 0
    if orchestrator is Orchestrator.HYPERPOD_EKS:  # its first interface holds as many as it can
        pods = instance_type(name).network.ipv4_per_interface - 1
    assert plan.ip_addresses_per_node == sum(i.interface_type != "efa-only" for i in plan.interfaces) + pods
    assert plan.may_have_public_ip is (len(plan.interfaces) == 1)
    assert plan.basis


@pytest.mark.parametrize("policy", [InterfacePolicy.MINIMUM_IP, InterfacePolicy.EFA_PER_CARD])
@pytest.mark.parametrize("name", EFA_TYPES)
def test_both_forms_give_the_full_efa_bandwidth(name: str, policy: InterfacePolicy) -> None:
    efa = instance_type(name).network.efa
    assert efa is not None
    plan = plan_interfaces(name, policy=policy)
    assert plan.efa_gbps == efa.ceiling_gbps
    assert {i.network_card_index for i in plan.interfaces if i.is_efa} == set(efa.recommended_cards)


@pytest.mark.parametrize("name", EFA_TYPES)
def test_the_default_takes_one_address_per_node(name: str) -> None:
    assert plan_interfaces(name).ip_addresses_per_node == 1


@pytest.mark.parametrize("policy", [InterfacePolicy.MINIMUM_IP, InterfacePolicy.EFA_PER_CARD])
@pytest.mark.parametrize("name", ["p6-b300.48xlarge", "p6e-gb200.36xlarge"])
def test_no_efa_on_a_card_0_that_carries_none(name: str, policy: InterfacePolicy) -> None:
    on_card_0 = [i for i in plan_interfaces(name, policy=policy).interfaces if i.network_card_index == 0]
    assert on_card_0 == [NetworkInterface(0, 0, "interface")]


@pytest.mark.parametrize("name", MULTI_CARD_TYPES)
def test_multi_card_nodes_take_no_public_address(name: str) -> None:
    assert not plan_interfaces(name).may_have_public_ip


def _ena_layout_is_known(name: str, *, efa: bool) -> bool:
    one_card = len(instance_type(name).network.cards) == 1
    return one_card or (efa and name.split(".", maxsplit=1)[0] in {"p5", "p5e", "p6-b200", "p6-b300"})


def _with_slots(kind: InstanceType, slots: int) -> InstanceType:
    (card,) = kind.network.cards
    return replace(kind, network=replace(kind.network, cards=(replace(card, max_interfaces=slots),)))
