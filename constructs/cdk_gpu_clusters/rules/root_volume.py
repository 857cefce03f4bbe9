"""The root volume of a node: what EBS accepts together."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Finding, check, define_rule

DEFAULT_SIZE_GIB = 200
DEFAULT_IOPS = 3000
DEFAULT_THROUGHPUT_MIB_PER_S = 250

_EBS = 'botocore 1.44.5, EC2 EbsBlockDevice; Amazon EBS user guide, "General Purpose SSD volumes"'

ROOT_SIZE = define_rule("GPU-LT-001", "a gp3 volume has 1 to 65,536 GiB", source=_EBS)
ROOT_IOPS = define_rule("GPU-LT-002", "a gp3 volume has 3,000 to 80,000 IOPS, at most 500 per GiB", source=_EBS)
ROOT_THROUGHPUT = define_rule(
    "GPU-LT-003", "a gp3 volume has 125 to 2,000 MiB/s, at most 0.25 per provisioned IOPS", source=_EBS
)


@check
def check_root_volume(*, size_gib: int, iops: int, throughput_mib_per_s: int) -> Iterator[Finding]:
    """Find what EBS would refuse about a gp3 volume; each finding's path names the value to change.

    Args:
        size_gib: Size in GiB.
        iops: Operations per second.
        throughput_mib_per_s: MiB per second.
    """
    if not 1 <= size_gib <= 65_536:
        yield ROOT_SIZE.finding(
            cause="the root volume cannot have that size",
            got=f"{size_gib} GiB",
            allowed="1 to 65,536 GiB",
            fix="change size_gib",
            path="size_gib",
        )
    most_iops = min(80_000, max(3000, 500 * size_gib))
    if not 3000 <= iops <= most_iops:
        yield ROOT_IOPS.finding(
            cause=f"a {size_gib} GiB gp3 volume cannot have that many IOPS",
            got=str(iops),
            allowed=f"3000 to {most_iops}",
            fix="change iops, or make the volume larger",
            path="iops",
        )
    most_throughput = min(2000, iops // 4)
    if not 125 <= throughput_mib_per_s <= most_throughput:
        yield ROOT_THROUGHPUT.finding(
            cause=f"a gp3 volume with {iops} IOPS cannot have that throughput",
            got=f"{throughput_mib_per_s} MiB/s",
            allowed=f"125 to {most_throughput} MiB/s",
            fix="change throughput_mib_per_s, or raise iops to four times the throughput",
            path="throughput_mib_per_s",
        )
