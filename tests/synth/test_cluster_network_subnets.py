"""The division of a VPC: nothing overlaps, and nothing moves when zones are added."""

from __future__ import annotations

from ipaddress import IPv4Network
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk_gpu_clusters.errors import ConfigError, Severity
from cdk_gpu_clusters.network.subnets import SubnetPlan, check_subnets, check_vpc_cidr, plan_subnets

TWO_ZONES = ("us-east-1a", "us-east-1b")
ALL_ZONES = tuple(f"us-east-1{letter}" for letter in "abcdefg")


def blocks(plan: SubnetPlan, vpc: str) -> list[IPv4Network]:
    everything = [plan.fleet, plan.egress, *plan.control.values(), *plan.load_balancer.values()]
    return [IPv4Network(block.cidr(IPv4Network(vpc))) for block in everything]


@given(
    vpc_prefix=st.integers(16, 20),
    network=st.integers(0, 255),
    fleet=st.none() | st.integers(1, 8),
    zones=st.lists(st.sampled_from(ALL_ZONES), min_size=2, max_size=7, unique=True),
)
def test_subnets_stay_in_the_vpc_and_apart(vpc_prefix: int, network: int, fleet: int | None, zones: list[str]) -> None:
    vpc = IPv4Network(f"10.{network}.0.0/{vpc_prefix}")
    prefix = None if fleet is None else vpc_prefix + fleet
    subnets = blocks(plan_subnets(str(vpc), fleet_subnet_prefix=prefix, control_zones=zones), str(vpc))
    assert len(subnets) == 2 + 2 * len(zones)
    assert all(subnet.subnet_of(vpc) for subnet in subnets)
    assert not any(one.overlaps(other) for one, other in combinations(subnets, 2))
    assert all(subnet.prefixlen <= 27 for subnet in subnets[1:]), "a load balancer needs a /27"


@given(order=st.permutations(ALL_ZONES), first=st.integers(2, 6))
def test_adding_or_reordering_zones_moves_no_subnet(order: list[str], first: int) -> None:
    few = plan_subnets("10.0.0.0/16", control_zones=order[:first])
    all_zones = plan_subnets("10.0.0.0/16", control_zones=list(reversed(order)))
    assert (few.fleet, few.egress) == (all_zones.fleet, all_zones.egress)
    for zone in order[:first]:
        assert few.control[zone] == all_zones.control[zone]
        assert few.load_balancer[zone] == all_zones.load_balancer[zone]


def test_the_fleet_subnet_is_a_quarter_of_the_vpc_unless_sized() -> None:
    vpc = IPv4Network("10.0.0.0/16")
    assert plan_subnets(str(vpc), control_zones=TWO_ZONES).fleet.cidr(vpc) == "10.0.0.0/18"
    half = plan_subnets(str(vpc), fleet_subnet_prefix=17, control_zones=TWO_ZONES)
    assert half.fleet.cidr(vpc) == "10.0.0.0/17"


def test_zone_ids_and_deploy_time_zones_take_the_slot_of_their_number() -> None:
    by_name = plan_subnets("10.0.0.0/16", control_zones=["us-east-1b", "us-east-1d"])
    by_id = plan_subnets("10.0.0.0/16", control_zones=["use1-az2", "use1-az4"])
    by_place = plan_subnets("10.0.0.0/16", control_zones=["Zone2", "Zone4"])
    assert list(by_name.control.values()) == list(by_id.control.values()) == list(by_place.control.values())


@pytest.mark.parametrize(
    ("cidr", "cause"),
    [
        ("10.0.0.0", "cannot be divided"),  # a /32
        ("10.0.0.0/15", "cannot be divided"),
        ("10.0.0.0/21", "cannot be divided"),
        ("10.0.0.0/29", "cannot be divided"),
        ("10.0.0.1/16", "not the first one"),
        ("10.0.0.0/33", "not an IPv4 CIDR block"),
        ("ten/16", "not an IPv4 CIDR block"),
        ("fd00::/16", "not an IPv4 CIDR block"),
        ("", "not an IPv4 CIDR block"),
        ("8.8.0.0/16", "public addresses"),
        ("172.32.0.0/16", "public addresses"),
    ],
)
def test_vpc_blocks_that_cannot_work_are_refused(cidr: str, cause: str) -> None:
    (finding,) = check_vpc_cidr(cidr)
    assert finding.id == "GPU-NET-141"
    assert cause in finding.cause
    assert finding.got == cidr
    assert finding.fix


@pytest.mark.parametrize("cidr", ["10.4.0.0/16", "172.16.0.0/16", "192.168.16.0/20", "100.64.0.0/16"])
def test_private_blocks_are_taken(cidr: str) -> None:
    assert check_vpc_cidr(cidr) == []


def test_dockers_default_bridge_is_a_warning() -> None:
    (finding,) = check_vpc_cidr("172.17.0.0/16")
    assert (finding.id, finding.severity) == ("GPU-NET-144", Severity.WARNING)


@pytest.mark.parametrize(
    ("vpc", "prefix", "cause"),
    [
        ("10.0.0.0/16", 16, "overlap"),
        ("10.0.0.0/16", 15, "overlap"),
        ("10.0.0.0/20", 18, "overlap"),
        ("10.0.0.0/16", 29, "smaller than EC2 allows"),
    ],
)
def test_fleet_subnets_that_cannot_work_are_refused(vpc: str, prefix: int, cause: str) -> None:
    (finding,) = check_subnets(vpc, fleet_subnet_prefix=prefix, control_zones=TWO_ZONES)
    assert finding.id == "GPU-NET-142"
    assert cause in finding.cause


@pytest.mark.parametrize(
    ("zones", "cause"),
    [
        ([], "too few"),
        (["us-east-1a"], "too few"),
        (["us-east-1a", "us-east-1a"], "two zones take one slot"),
        (["us-east-1a", "use1-az1"], "two zones take one slot"),
        (["us-east-1a", "Zone1"], "two zones take one slot"),
        (["us-east-1a", "us-east-1-dfw-2a"], "not an Availability Zone"),
        (["us-east-1a", "use1-dfw2-az1"], "not an Availability Zone"),
        (["us-east-1a", "us-east-1"], "not an Availability Zone"),
    ],
)
def test_control_zones_that_cannot_work_are_refused(zones: list[str], cause: str) -> None:
    (finding,) = check_subnets("10.0.0.0/16", control_zones=zones)
    assert finding.id == "GPU-NET-143"
    assert cause in finding.cause


def test_every_fault_is_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        plan_subnets("10.0.0.0/16", fleet_subnet_prefix=29, control_zones=["us-east-1a"])
    assert {finding.id for finding in caught.value.findings} == {"GPU-NET-142", "GPU-NET-143"}
