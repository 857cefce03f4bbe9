"""What EC2 refuses in EBS volumes.

Source: the descriptions of Iops, Throughput and VolumeSize in the schema of AWS::EC2::LaunchTemplate (Ebs) of
2026-10-20: gp3 3,000 to 80,000 IOPS, 125 to 2,000 MiB/s, 1 to 65,536 GiB; io1 100 to 64,000 IOPS, 4 to 16,384 GiB;
io2 100 to 256,000 IOPS, 4 to 65,536 GiB. Ratios: EBS user guide, "General Purpose SSD volumes" (gp3: 500 IOPS per
GiB, 0.25 MiB/s per IOPS).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..faults import Fault

_IOPS = {"gp3": (3_000, 80_000), "io1": (100, 64_000), "io2": (100, 256_000)}
_SIZE_GIB = {"gp2": (1, 16_384), "gp3": (1, 65_536), "io1": (4, 16_384), "io2": (4, 65_536)}
_THROUGHPUT_MIB_S = (125, 2_000)
_GP3_IOPS_PER_GIB = 500
_GP3_BASELINE_IOPS = 3_000
_GP3_MIB_S_PER_IOPS = 0.25


def volume_faults(data: dict[str, Any]) -> Iterator[Fault]:
    """Faults of `BlockDeviceMappings`."""
    for position, mapping in enumerate(data.get("BlockDeviceMappings", [])):
        path = f"LaunchTemplateData/BlockDeviceMappings/{position}/Ebs"
        for message in _ebs_messages(mapping.get("Ebs", {})):
            yield Fault(check="volume", message=message, path=path)


def _ebs_messages(ebs: dict[str, Any]) -> Iterator[str]:
    kind = ebs.get("VolumeType", "gp2")
    iops, throughput, size = ebs.get("Iops"), ebs.get("Throughput"), ebs.get("VolumeSize")
    if iops is not None and kind not in _IOPS:
        yield f"{kind} volumes take no IOPS, got {iops}"
    elif iops is not None and not _within(iops, _IOPS[kind]):
        yield f"{kind} volumes have {_IOPS[kind][0]:,} to {_IOPS[kind][1]:,} IOPS, got {iops:,}"
    elif iops is None and kind in ("io1", "io2"):
        yield f"{kind} volumes need Iops"
    if throughput is not None and kind != "gp3":
        yield f"only gp3 volumes take a throughput; this one is {kind}"
    elif throughput is not None and not _within(throughput, _THROUGHPUT_MIB_S):
        yield f"gp3 volumes have 125 to 2,000 MiB/s, got {throughput:,}"
    if size is not None and kind in _SIZE_GIB and not _within(size, _SIZE_GIB[kind]):
        yield f"{kind} volumes have {_SIZE_GIB[kind][0]} to {_SIZE_GIB[kind][1]:,} GiB, got {size:,}"
    if kind == "gp3":
        yield from _gp3_ratio_messages(size, iops or _GP3_BASELINE_IOPS, throughput)


def _gp3_ratio_messages(size: int | None, iops: int, throughput: int | None) -> Iterator[str]:
    if size is not None and iops > _GP3_BASELINE_IOPS and iops > size * _GP3_IOPS_PER_GIB:
        yield f"gp3 volumes have at most {_GP3_IOPS_PER_GIB} IOPS per GiB, got {iops:,} for {size} GiB"
    if throughput is not None and throughput > iops * _GP3_MIB_S_PER_IOPS:
        yield f"gp3 volumes have at most 0.25 MiB/s per IOPS, got {throughput} MiB/s for {iops:,} IOPS"


def _within(value: int, bounds: tuple[int, int]) -> bool:
    return bounds[0] <= value <= bounds[1]
