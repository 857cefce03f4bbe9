"""How many pods a node takes: addresses of network card 0, less what EFA-only interfaces occupy."""

from __future__ import annotations

import pytest

from cdk_gpu_clusters.catalogue import instance_type, instance_types
from cdk_gpu_clusters.rules.interfaces import InterfacePolicy, Orchestrator, plan_interfaces
from cdk_gpu_clusters.rules.node_group import max_pods, recommended_limit

EKS = Orchestrator.EKS_MANAGED


def pods(name: str, *, efa: bool = True, prefixes: bool = False) -> int:
    record = instance_type(name)
    plan = plan_interfaces(record, orchestrator=EKS, efa=efa)
    return max_pods(record, plan, prefix_delegation=prefixes)


# Without EFA: awslabs/amazon-eks-ami @ 81fec2e, nodeadm/internal/kubelet/instance-info.jsonl, as its formula counts it
# (defaultMaxENIs x (ipv4AddressesPerInterface - 1) + 2), and at most the limits of max-pods-calculator.sh.
NODEADM = {
    "p4d.24xlarge": min(15 * 49 + 2, 250),
    "p5.48xlarge": 2 * 49 + 2,
    "p6-b200.48xlarge": 4 * 49 + 2,
    "p6-b300.48xlarge": 4 * 49 + 2,
    "g5.48xlarge": min(7 * 49 + 2, 250),
    "g6.xlarge": 4 * 14 + 2,
}


@pytest.mark.parametrize("name", NODEADM)
def test_without_efa_it_is_what_nodeadm_counts(name: str) -> None:
    assert pods(name, efa=False) == NODEADM[name]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("p5.48xlarge", 1 * 49 + 2),
        ("p6-b200.48xlarge", 3 * 49 + 2),
        # Card 0 of p6-b300 carries no EFA: nothing is lost.
        ("p6-b300.48xlarge", 4 * 49 + 2),
        ("trn2.48xlarge", 1 * 49 + 2),
    ],
)
def test_an_efa_only_interface_on_card_0_takes_the_place_of_one_with_addresses(name: str, expected: int) -> None:
    assert pods(name) == expected


def test_an_efa_interface_with_an_address_takes_no_place() -> None:
    record = instance_type("p5.48xlarge")
    plan = plan_interfaces(record, policy=InterfacePolicy.EFA_PER_CARD, orchestrator=EKS)
    assert max_pods(record, plan) == 100


def test_more_ip_interfaces_on_other_cards_give_pods_nothing() -> None:
    record = instance_type("p5.48xlarge")
    plan = plan_interfaces(record, policy=InterfacePolicy.MAXIMUM_ENA_BANDWIDTH, orchestrator=EKS)
    assert max_pods(record, plan) == 51


@pytest.mark.parametrize(("name", "limit"), [("g6.xlarge", 110), ("g6.8xlarge", 250), ("p5.48xlarge", 250)])
def test_prefixes_give_more_up_to_what_eks_recommends(name: str, limit: int) -> None:
    assert recommended_limit(instance_type(name)) == limit
    assert pods(name, prefixes=True) == limit


def test_every_type_has_room_for_its_own_daemons() -> None:
    """Device plugins, agents and exporters: some ten pods on each node."""
    for record in instance_types().values():
        if record.hypervisor == "nitro" and record.accelerator is not None:
            found = max_pods(record, plan_interfaces(record, orchestrator=EKS))
            assert 10 < found <= recommended_limit(record), record.name
