"""The EC2 part against moto's recorded DescribeInstanceTypes output, read here without the tool's mapping."""

import gzip
import json
from pathlib import Path

import moto
import pytest

from cdk_gpu_clusters.catalogue import instance_type, instance_types

RESOURCES = Path(moto.__file__).parent / "ec2" / "resources"
RECORDED = json.loads(gzip.decompress((RESOURCES / "instance_types.json.gz").read_bytes()))
API_TYPES = sorted(name for name, record in instance_types().items() if record.record_status == "api")
SCOPE = json.loads(
    (Path(instance_type.__code__.co_filename).parent / "data" / "scope.json").read_text(encoding="utf-8")
)


def offered(kind: str, region: str) -> dict[str, set[str]]:
    """Locations by type, from the recorded offerings of one Region."""
    found: dict[str, set[str]] = {}
    file = RESOURCES / "instance_type_offerings" / kind / f"{region}.json.gz"
    for offering in json.loads(gzip.decompress(file.read_bytes())):
        found.setdefault(offering["InstanceType"], set()).add(offering["Location"])
    return found


@pytest.mark.parametrize("name", API_TYPES)
def test_limits_are_the_recorded_ones(name: str) -> None:
    api, record = RECORDED[name], instance_type(name)
    network, ebs = api["NetworkInfo"], api["EbsInfo"]
    assert record.vcpus == api["VCpuInfo"]["DefaultVCpus"]
    assert record.cores == api["VCpuInfo"]["DefaultCores"]
    assert record.memory_mib == api["MemoryInfo"]["SizeInMiB"]
    assert record.architecture.value in api["ProcessorInfo"]["SupportedArchitectures"]
    assert record.bare_metal is api["BareMetal"]
    assert record.usage_classes == set(api["SupportedUsageClasses"])
    assert record.placement_strategies == frozenset(api["PlacementGroupInfo"]["SupportedStrategies"])
    assert record.ebs_maximum_mbps == ebs["EbsOptimizedInfo"]["MaximumBandwidthInMbps"]
    assert record.ebs_max_attachments == ebs["MaximumEbsAttachments"]
    assert record.network.max_interfaces == network["MaximumNetworkInterfaces"]
    assert record.network.ipv4_per_interface == network["Ipv4AddressesPerInterface"]
    assert record.network.ena_express is network["EnaSrdSupported"]
    assert sum(disk.count * disk.size_gb for disk in record.local_disks) == api.get("InstanceStorageInfo", {}).get(
        "TotalSizeInGB", 0
    )


@pytest.mark.parametrize("name", API_TYPES)
def test_every_card_is_the_recorded_one(name: str) -> None:
    recorded = {card["NetworkCardIndex"]: card for card in RECORDED[name]["NetworkInfo"]["NetworkCards"]}
    cards = instance_type(name).network.cards
    assert [card.index for card in cards] == sorted(recorded)
    for card in cards:
        api = recorded[card.index]
        assert card.max_interfaces == api["MaximumNetworkInterfaces"]
        assert card.interface_types == set(api["InterfaceTypes"])
        assert (card.baseline_gbps, card.peak_gbps) == (
            api["BaselineBandwidthInGbps"],
            api["PeakBandwidthInGbps"],
        )


@pytest.mark.parametrize("name", API_TYPES)
def test_efa_is_the_recorded_one(name: str) -> None:
    api, efa = RECORDED[name]["NetworkInfo"], instance_type(name).network.efa
    if not api["EfaSupported"]:
        assert efa is None
        return
    assert efa is not None
    assert efa.max_interfaces == api["EfaInfo"]["MaximumEfaInterfaces"]
    assert len(efa.recommended_cards) == efa.max_interfaces, "one EFA per card uses every EFA"


@pytest.mark.parametrize("name", [name for name in API_TYPES if "GpuInfo" in RECORDED[name]])
def test_gpus_are_the_recorded_ones(name: str) -> None:
    (gpu,) = RECORDED[name]["GpuInfo"]["Gpus"]
    accelerator = instance_type(name).accelerator
    assert accelerator is not None
    assert accelerator.kind.value == "gpu"
    assert accelerator.name == gpu["Name"]
    assert accelerator.count == gpu["Count"]
    assert accelerator.logical_count == gpu["LogicalGpuCount"]
    assert accelerator.partition_fraction == gpu["GpuPartitionSize"]
    assert accelerator.memory_mib_each == gpu["MemoryInfo"]["SizeInMiB"]


@pytest.mark.parametrize("name", [name for name in API_TYPES if "NeuronInfo" in RECORDED[name]])
def test_neuron_devices_are_the_recorded_ones(name: str) -> None:
    (device,) = RECORDED[name]["NeuronInfo"]["NeuronDevices"]
    accelerator = instance_type(name).accelerator
    assert accelerator is not None
    assert accelerator.kind.value == "neuron"
    assert (accelerator.name, accelerator.count) == (device["Name"], device["Count"])
    assert accelerator.memory_mib_each == device["MemoryInfo"]["SizeInMiB"]
    assert accelerator.neuron_cores_each == device["CoreInfo"]["Count"]


def test_no_accelerated_type_is_forgotten() -> None:
    accelerated = {
        name
        for name, api in RECORDED.items()
        if {"GpuInfo", "NeuronInfo", "InferenceAcceleratorInfo"} & api.keys()
        or name.startswith(("p3dn", "p4", "p5", "p6", "trn", "inf"))
    }
    left_out = {name.partition(".")[0] for name in accelerated - instance_types().keys()}
    assert left_out == {"dl2q"}
    assert all(SCOPE["excluded"][family] for family in left_out)


def test_no_plain_type_has_an_accelerator_and_every_accelerated_one_has() -> None:
    for record in instance_types().values():
        assert (record.accelerator is not None) is (record.family in SCOPE["accelerated"]), record.name


def test_cpu_families_come_in_every_size_but_bare_metal() -> None:
    for family in SCOPE["cpu"]:
        recorded = {n for n in RECORDED if n.partition(".")[0] == family and not RECORDED[n]["BareMetal"]}
        assert recorded, family
        assert {name for name, record in instance_types().items() if record.family == family} == recorded


@pytest.mark.parametrize("region", ["us-east-1", "ap-northeast-1", "ap-south-2"])
def test_offerings_are_the_recorded_ones(region: str) -> None:
    by_region, by_zone = offered("region", region), offered("availability-zone-id", region)
    for name, record in instance_types().items():
        assert (region in record.regions) is (name in by_region), name
        assert set(record.availability_zone_ids.get(region, ())) == by_zone.get(name, set()), name
