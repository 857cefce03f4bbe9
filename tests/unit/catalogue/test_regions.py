"""Regions: partitions, suffixes, and whose a zone is."""

import json

import pytest

from cdk_gpu_clusters.catalogue import instance_types
from cdk_gpu_clusters.catalogue._files import DATA
from cdk_gpu_clusters.catalogue.regions import partition_of, region, region_of_zone, regions
from cdk_gpu_clusters.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "partition", "suffix", "prefix"),
    [
        ("us-east-1", "aws", "amazonaws.com", "use1"),
        ("us-west-2", "aws", "amazonaws.com", "usw2"),
        ("ap-northeast-1", "aws", "amazonaws.com", "apne1"),
        ("ap-southeast-2", "aws", "amazonaws.com", "apse2"),
        ("us-gov-west-1", "aws-us-gov", "amazonaws.com", "usgw1"),
        ("us-gov-east-1", "aws-us-gov", "amazonaws.com", "usge1"),
        ("cn-north-1", "aws-cn", "amazonaws.com.cn", "cnn1"),
        ("cn-northwest-1", "aws-cn", "amazonaws.com.cn", "cnnw1"),
    ],
)
def test_partition_suffix_and_prefix(name: str, partition: str, suffix: str, prefix: str) -> None:
    found = region(name)
    assert (found.partition, found.dns_suffix, found.zone_id_prefix) == (partition, suffix, prefix)
    assert partition_of(name) == partition
    assert found.sources


def test_a_region_newer_than_the_catalogue_still_has_a_partition() -> None:
    assert partition_of("ap-southeast-19") == "aws"
    assert partition_of("us-gov-central-1") == "aws-us-gov"


@pytest.mark.parametrize("wrong", ["us-esat-1", "nowhere", ""])
def test_an_unknown_region_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match="GPU-RGN-001"):
        region(wrong)


def test_a_misspelt_region_is_told_the_nearest() -> None:
    with pytest.raises(ConfigError, match="us-east-1"):
        region("us-esat-1")
    with pytest.raises(ConfigError, match="GPU-RGN-001"):
        partition_of("nowhere")


@pytest.mark.parametrize(
    ("zone", "owner"),
    [
        ("us-east-1a", "us-east-1"),
        ("us-east-1z", "us-east-1"),  # letters differ between accounts
        ("use1-az4", "us-east-1"),
        ("us-east-1-dfw-2a", "us-east-1"),
        ("us-west-2-phx-2a", "us-west-2"),
        ("usw2-phx2-az1", "us-west-2"),
        ("us-gov-west-1b", "us-gov-west-1"),
        ("usgw1-az2", "us-gov-west-1"),
        ("cnn1-az1", "cn-north-1"),
        ("us-isob-east-1a", "us-isob-east-1"),
        ("us-east-1", None),
        ("use1az4", None),
        ("us-east-1A", None),
        ("", None),
    ],
)
def test_whose_a_zone_is(zone: str, owner: str | None) -> None:
    found = region_of_zone(zone)
    assert (found.name if found else None) == owner


def test_no_zone_belongs_to_two_regions() -> None:
    for owner in regions().values():
        letters = [f"{owner.name}{letter}" for letter in owner.zone_letters or ("a",)]
        for zone in (*letters, *owner.zone_ids, *owner.local_zones):
            assert [name for name, other in regions().items() if other.has_zone(zone)] == [owner.name], zone


def test_zone_kinds_are_told_apart() -> None:
    east = region("us-east-1")
    assert (east.is_zone_name("us-east-1a"), east.is_zone_id("us-east-1a")) == (True, False)
    assert (east.is_zone_name("use1-az1"), east.is_zone_id("use1-az1")) == (False, True)
    assert not east.is_zone_name("us-east-1-dfw-2a")
    assert east.is_local_zone("us-east-1-dfw-2a")
    assert not region("us-isob-east-1").is_zone_id("None-az1")


def test_instance_types_are_offered_in_known_places_only() -> None:
    for record in instance_types().values():
        for name, zone_ids in record.availability_zone_ids.items():
            assert set(zone_ids) <= set(region(name).zone_ids), (record.name, name)
        assert set(record.capacity_block_regions) <= regions().keys()
        for zone in record.capacity_block_local_zones:
            owner = region_of_zone(zone)
            assert owner is not None
            assert zone in owner.local_zones


def test_both_files_agree_on_zone_id_prefixes() -> None:
    prefixes = json.loads((DATA / "ec2_offerings.json").read_text(encoding="utf-8"))["zone_id_prefixes"]
    assert {name: region(name).zone_id_prefix for name in prefixes} == prefixes
