"""Whether nodes fit into a subnet, against the addresses counted one by one."""

from ipaddress import IPv4Address, IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.rules.interfaces import Orchestrator, plan_interfaces
from cdk_gpu_clusters.rules.ip_budget import (
    IpDemand,
    check_ip_budget,
    nodes_that_fit,
    smallest_prefix_for,
    usable_addresses,
)

SMALL_PREFIXES = st.integers(22, 28)  # counted address by address below, so kept small
DEMANDS = st.builds(
    IpDemand,
    nodes=st.integers(0, 40),
    addresses_per_node=st.integers(0, 33),
    interface_endpoints=st.integers(0, 8),
    other=st.integers(0, 20),
    rolling_nodes=st.integers(0, 4),
)


def addresses_left(cidr: str) -> list[IPv4Address]:
    """What AWS leaves of a subnet: not the first four addresses, and not the last."""
    return list(IPv4Network(cidr))[4:-1]


def all_get_an_address(cidr: str, demands: list[IpDemand]) -> bool:
    """Hand out the addresses one by one."""
    free = addresses_left(cidr)
    for demand in demands:
        wanted = [demand.addresses_per_node] * (demand.nodes + demand.rolling_nodes)
        for count in [*wanted, demand.interface_endpoints, demand.other]:
            if count > len(free):
                return False
            del free[:count]
    return True


@given(prefix=SMALL_PREFIXES)
def test_usable_addresses_are_those_that_aws_leaves(prefix: int) -> None:
    cidr = f"10.0.0.0/{prefix}"
    assert usable_addresses(cidr) == len(addresses_left(cidr))


@given(prefix=SMALL_PREFIXES, demands=st.lists(DEMANDS, max_size=3))
def test_the_budget_agrees_with_handing_addresses_out(prefix: int, demands: list[IpDemand]) -> None:
    cidr = f"10.0.0.0/{prefix}"
    findings = check_ip_budget(cidr, demands)
    assert (findings == []) is all_get_an_address(cidr, demands)
    assert {finding.id for finding in findings} <= {"GPU-IP-003"}


@given(prefix=SMALL_PREFIXES, demand=DEMANDS.filter(lambda demand: demand.addresses_per_node > 0))
def test_as_many_nodes_as_promised_fit_and_not_one_more(prefix: int, demand: IpDemand) -> None:
    cidr = f"10.0.0.0/{prefix}"

    def fits(nodes: int) -> bool:
        return all_get_an_address(
            cidr,
            [
                IpDemand(
                    nodes=nodes,
                    addresses_per_node=demand.addresses_per_node,
                    interface_endpoints=demand.interface_endpoints,
                    other=demand.other,
                    rolling_nodes=demand.rolling_nodes,
                )
            ],
        )

    fit = nodes_that_fit(cidr, demand)
    assert fit is not None
    assert not fits(fit + 1)
    assert fit == 0 or fits(fit)


@given(addresses=st.integers(0, 70_000))
def test_the_smallest_prefix_is_large_enough_and_the_next_one_is_not(addresses: int) -> None:
    prefix = smallest_prefix_for(addresses)
    if prefix is None:
        assert addresses > 2**16 - 5
        return
    assert IPv4Network(f"10.0.0.0/{prefix}").num_addresses - 5 >= addresses
    assert prefix == 28 or IPv4Network(f"10.0.0.0/{prefix + 1}").num_addresses - 5 < addresses


def test_a_24_holds_seven_p5_nodes_in_the_older_form_and_251_in_the_default() -> None:
    older = plan_interfaces("p5.48xlarge", orchestrator=Orchestrator.PCS).ip_addresses_per_node
    default = plan_interfaces("p5.48xlarge").ip_addresses_per_node
    assert nodes_that_fit("10.0.0.0/24", IpDemand(nodes=0, addresses_per_node=older)) == 7
    assert nodes_that_fit("10.0.0.0/24", IpDemand(nodes=0, addresses_per_node=default)) == 251


def test_a_node_without_addresses_fits_any_number_of_times() -> None:
    assert nodes_that_fit("10.0.0.0/28", IpDemand(nodes=0, addresses_per_node=0)) is None


def test_the_message_says_what_fits_and_which_prefix_would_do() -> None:
    demands = [
        IpDemand(name="trainers", nodes=16, addresses_per_node=32, interface_endpoints=3),
        IpDemand(name="login", nodes=1, other=2, rolling_nodes=1),
    ]
    (finding,) = check_ip_budget("10.0.0.0/24", demands)
    assert "519 addresses" in finding.cause
    assert "trainers: 16 nodes x 32, login: 1 nodes + 1 while replacing x 1" in finding.cause
    assert "3 endpoints, 2 other" in finding.cause
    assert "7 nodes of trainers fit" in finding.allowed
    assert "use a /22 or larger" in finding.fix


def test_more_than_any_subnet_holds_is_said_so() -> None:
    (finding,) = check_ip_budget("10.0.0.0/16", [IpDemand(nodes=2100, addresses_per_node=32)])
    assert "no subnet is large enough" in finding.fix


@pytest.mark.parametrize(
    ("cidr", "expected"),
    [
        ("10.0.0.0/16", []),
        ("10.0.0.0/28", []),
        ("10.0.0.0/15", ["GPU-IP-002"]),
        ("10.0.0.0/29", ["GPU-IP-002"]),
        ("10.0.0.0", ["GPU-IP-002"]),  # read as a /32
        ("10.0.0.1/24", ["GPU-IP-001"]),
        ("10.0.0.0/33", ["GPU-IP-001"]),
        ("fd00::/64", ["GPU-IP-001"]),
        ("a subnet", ["GPU-IP-001"]),
    ],
)
def test_a_range_that_no_subnet_can_have_is_refused(cidr: str, expected: list[str]) -> None:
    assert [finding.id for finding in check_ip_budget(cidr, [])] == expected
    if expected:
        with pytest.raises(ConfigError, match=expected[0]):
            usable_addresses(cidr)


@pytest.mark.parametrize(
    "demand",
    [
        IpDemand(nodes=-1),
        IpDemand(nodes=1, addresses_per_node=-1),
        IpDemand(nodes=1, interface_endpoints=-1),
        IpDemand(nodes=1, other=-1),
        IpDemand(nodes=1, rolling_nodes=-1),
    ],
)
def test_a_negative_demand_is_refused(demand: IpDemand) -> None:
    assert [finding.id for finding in check_ip_budget("10.0.0.0/24", [demand])] == ["GPU-IP-004"]
