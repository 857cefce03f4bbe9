"""Turn DescribeInstanceTypes output into the catalogue's rows, and write them with one row per line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

Row = dict[str, Any]


def instance_row(api: Mapping[str, Any]) -> Row:
    """One row of the catalogue from one element of `InstanceTypes`; absent things have no key."""
    cpu, ebs = api["VCpuInfo"], api["EbsInfo"].get("EbsOptimizedInfo", {})
    row = {
        "architecture": _architecture(api["ProcessorInfo"]["SupportedArchitectures"]),
        "cpu_manufacturer": api["ProcessorInfo"].get("Manufacturer"),
        "vcpus": cpu["DefaultVCpus"],
        "cores": cpu["DefaultCores"],
        "threads_per_core": cpu["DefaultThreadsPerCore"],
        "memory_mib": api["MemoryInfo"]["SizeInMiB"],
        "accelerator": _accelerator(api),
        "disks": [
            [disk["Count"], disk["SizeInGB"], disk["Type"]]
            for disk in api.get("InstanceStorageInfo", {}).get("Disks", ())
        ],
        "network": _network(api["NetworkInfo"]),
        "ebs": _present(
            baseline_mbps=ebs.get("BaselineBandwidthInMbps"),
            maximum_mbps=ebs.get("MaximumBandwidthInMbps"),
            maximum_iops=ebs.get("MaximumIops"),
            max_attachments=api["EbsInfo"].get("MaximumEbsAttachments"),
        ),
        "usage_classes": sorted(api["SupportedUsageClasses"]),
        "placement_strategies": sorted(api["PlacementGroupInfo"]["SupportedStrategies"]),
        "boot_modes": sorted(api["SupportedBootModes"]),
        "bare_metal": api["BareMetal"],
        "hypervisor": api.get("Hypervisor"),
        "current_generation": api["CurrentGeneration"],
        "dedicated_hosts": api["DedicatedHostsSupported"],
    }
    return _present(**row)


def _present(**values: Any) -> Row:
    """Drop what the API leaves out or leaves empty."""
    return {key: value for key, value in values.items() if value is not None and value != []}


def _architecture(supported: Iterable[str]) -> str:
    return "arm64" if "arm64" in supported else "x86_64"


def _accelerator(api: Mapping[str, Any]) -> Row | None:
    gpus = api.get("GpuInfo", {}).get("Gpus", ())
    for gpu in gpus:
        return _present(
            kind="gpu",
            manufacturer=gpu["Manufacturer"],
            name=gpu["Name"],
            count=gpu["Count"],
            logical_count=gpu.get("LogicalGpuCount"),
            partition_fraction=gpu.get("GpuPartitionSize"),
            memory_mib_each=gpu["MemoryInfo"]["SizeInMiB"],
        )
    for device in api.get("NeuronInfo", {}).get("NeuronDevices", ()):
        return _present(
            kind="neuron",
            manufacturer="AWS",
            name=device["Name"],
            count=device["Count"],
            memory_mib_each=device["MemoryInfo"]["SizeInMiB"],
            neuron_cores_each=device.get("CoreInfo", {}).get("Count"),
        )
    return None


def _network(api: Mapping[str, Any]) -> Row:
    return _present(
        performance=api["NetworkPerformance"],
        max_interfaces=api["MaximumNetworkInterfaces"],
        ipv4_per_interface=api["Ipv4AddressesPerInterface"],
        ipv6_per_interface=api["Ipv6AddressesPerInterface"],
        efa_interfaces=api.get("EfaInfo", {}).get("MaximumEfaInterfaces"),
        ena_express=api["EnaSrdSupported"],
        cards=_card_ranges(api["NetworkCards"]),
    )


def _card_ranges(cards: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Runs of equal neighbouring cards, so that 32 equal cards are one entry."""

    def properties(card: Mapping[str, Any]) -> Row:
        return _present(
            max_interfaces=card["MaximumNetworkInterfaces"],
            interface_types=sorted(card.get("InterfaceTypes", ["interface"])),
            baseline_gbps=card.get("BaselineBandwidthInGbps"),
            peak_gbps=card.get("PeakBandwidthInGbps"),
        )

    ranges: list[Row] = []
    ordered = sorted(cards, key=lambda card: card["NetworkCardIndex"])
    for same, run in groupby(ordered, key=properties):
        indexes = [card["NetworkCardIndex"] for card in run]
        ranges.append({"from": indexes[0], "to": indexes[-1], **same})
    return ranges


def render(header: Mapping[str, Any], rows: Mapping[str, Any]) -> str:
    """A JSON file with one line per row, so that a diff names the row that changed."""
    lines = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in header.items()]
    ordered = sorted(rows, key=_natural)
    body = ",\n".join(f"    {json.dumps(name)}: {json.dumps(rows[name])}" for name in ordered)
    lines.append(f'  "types": {{\n{body}\n  }}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _natural(name: str) -> tuple[str, int, str]:
    """Sort sizes by number: 2xlarge before 12xlarge, and `xlarge` before both."""
    family, _, size = name.partition(".")
    digits = size[: len(size) - len(size.lstrip("0123456789"))]
    return family, int(digits or 0), size
