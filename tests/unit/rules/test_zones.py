"""Zones by name and by id, their Region, and where types are sold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk_gpu_clusters.catalogue import instance_type, instance_types
from cdk_gpu_clusters.catalogue.regions import regions
from cdk_gpu_clusters.errors import Severity, errors_in
from cdk_gpu_clusters.rules.zones import Zone, check_zone, is_zone_id, read_zone

GB200 = "p6e-gb200.36xlarge"


@pytest.mark.parametrize(
    ("zone", "region", "is_id", "is_local"),
    [
        ("us-east-1a", "us-east-1", False, False),
        ("use1-az1", "us-east-1", True, False),
        ("us-east-1-dfw-2a", "us-east-1", False, True),
        ("use1-dfw2-az1", "us-east-1", True, True),
        ("us-gov-west-1a", "us-gov-west-1", False, False),
        ("cn-north-1a", "cn-north-1", False, False),
        ("ap-southeast-2b", "ap-southeast-2", False, False),
        ("apse2-az3", "ap-southeast-2", True, False),
    ],
)
def test_a_zone_is_read_from_its_name_or_id(zone: str, region: str, is_id: bool, is_local: bool) -> None:
    assert read_zone(zone) == Zone(text=zone, region=region, is_id=is_id, is_local=is_local)
    assert is_zone_id(zone) is is_id


@pytest.mark.parametrize("zone", ["", "a", "us-east-1", "use1", "us-east-1A", "us-east-1a ", "us-east-1aa"])
def test_what_is_no_zone_is_not_read(zone: str) -> None:
    assert read_zone(zone) is None
    assert [finding.id for finding in check_zone("us-east-1", zone)] == ["GPU-NET-103"]


@pytest.mark.parametrize(
    ("region", "zone", "expected"),
    [
        ("us-east-1", "us-east-1a", []),
        ("us-east-1", "use1-az6", []),
        (None, "us-east-1a", []),
        ("us-west-2", "us-east-1a", ["GPU-NET-104"]),
        ("us-west-2", "use1-az1", ["GPU-NET-104"]),
        ("us-west-2", "us-east-1-dfw-2a", ["GPU-NET-104"]),
        ("us-east-1", "us-east-1-dfw-2a", ["GPU-NET-102"]),
        ("us-east-1", "${Token[TOKEN.12]}", ["GPU-NET-101"]),
        ("${Token[AWS.Region.4]}", "us-east-1a", []),
        ("eu-north-9", "eu-north-9a", ["GPU-RGN-001"]),
        ("eu-north-9", "eun9-az1", ["GPU-RGN-001"]),
        ("eu-north-9", "us-east-1a", ["GPU-RGN-001", "GPU-NET-104"]),
        ("nowhere", "nowhere-a", ["GPU-RGN-001", "GPU-NET-103"]),
    ],
)
def test_a_zone_belongs_to_its_region(region: str | None, zone: str, expected: list[str]) -> None:
    assert [finding.id for finding in check_zone(region, zone)] == expected


@pytest.mark.parametrize(("region", "severity"), [("eu-north-9", Severity.WARNING), ("nowhere", Severity.ERROR)])
def test_a_region_may_be_newer_than_the_library(region: str, severity: Severity) -> None:
    assert check_zone(region, f"{region}a")[0].severity is severity


@given(owner=st.sampled_from(list(regions())), other=st.sampled_from(list(regions())))
def test_every_zone_name_belongs_to_one_region_only(owner: str, other: str) -> None:
    findings = check_zone(other, f"{owner}a")
    assert [finding.id for finding in findings] == ([] if owner == other else ["GPU-NET-104"])


@pytest.mark.parametrize("zone", ["us-east-1a", "use1-az1", "us-east-1-atl-2a"])
def test_gb200_is_sold_in_one_local_zone_only(zone: str) -> None:
    (finding,) = errors_in(check_zone("us-east-1", zone, GB200))
    assert finding.id == "GPU-NET-106"
    assert finding.allowed == "us-east-1-dfw-2a"
    assert "UltraServer" in finding.cause


def test_gb200_in_its_zone_needs_no_more_than_the_opt_in() -> None:
    (finding,) = check_zone("us-east-1", "us-east-1-dfw-2a", GB200)
    assert (finding.id, finding.severity) == ("GPU-NET-102", Severity.INFO)


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("us-east-1a", []),  # a letter says nothing about the zone behind it
        ("use1-az1", []),
        ("cac1-az4", []),
        ("cac1-az1", ["GPU-NET-105"]),  # offered in the Region, not seen in this zone
        ("euw1-az1", ["GPU-NET-105"]),
        ("eu-west-1a", ["GPU-NET-105"]),
        ("us-east-1-atl-2a", ["GPU-NET-102"]),  # Capacity Blocks are documented there
        ("us-east-1-dfw-2a", ["GPU-NET-102"]),
    ],
)
def test_a_type_that_was_not_seen_somewhere_is_a_warning(zone: str, expected: list[str]) -> None:
    owner = read_zone(zone)
    assert owner is not None
    findings = check_zone(owner.region, zone, "p5.48xlarge")
    assert [finding.id for finding in findings] == expected
    assert errors_in(findings) == []


@given(name=st.sampled_from(list(instance_types())), data=st.data())
def test_a_type_is_accepted_in_every_zone_where_it_was_seen(name: str, data: st.DataObject) -> None:
    seen = [zone for zones in instance_type(name).availability_zone_ids.values() for zone in zones]
    if seen:
        assert check_zone(None, data.draw(st.sampled_from(seen)), name) == []


@pytest.mark.parametrize(
    ("zone", "ids"),
    [("us-east-1f", []), ("us-east-1g", ["GPU-NET-107"]), ("us-east-1z", ["GPU-NET-107"]), ("use1-az9", [])],
)
def test_a_letter_that_no_region_has_is_reported(zone: str, ids: list[str]) -> None:
    findings = check_zone("us-east-1", zone)
    assert [finding.id for finding in findings] == ids
    assert errors_in(findings) == []
