"""The root volume of a node."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_kms as kms

from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.rules.root_volume import (
    DEFAULT_IOPS,
    DEFAULT_SIZE_GIB,
    DEFAULT_THROUGHPUT_MIB_PER_S,
    check_root_volume,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RootVolume:
    """An encrypted gp3 root volume, deleted with its instance.

    The defaults hold a deep-learning image (about 60 GiB and growing) with room for containers.

    Attributes:
        size_gib: Size in GiB, 1 to 65,536.
        iops: Operations per second, 3,000 to 80,000 and at most 500 per GiB.
        throughput_mib_per_s: MiB per second, 125 to 2,000 and at most a quarter of `iops`.
        encryption_key: Customer key; the account's EBS key if left out.

    Raises:
        ConfigError: GPU-LT-001 to -003, all at once.

    Example:
        >>> RootVolume(size_gib=500, iops=6000, throughput_mib_per_s=500).size_gib
        500
    """

    size_gib: int = DEFAULT_SIZE_GIB
    iops: int = DEFAULT_IOPS
    throughput_mib_per_s: int = DEFAULT_THROUGHPUT_MIB_PER_S
    encryption_key: kms.IKey | None = None

    def __post_init__(self) -> None:
        findings = check_root_volume(
            size_gib=self.size_gib, iops=self.iops, throughput_mib_per_s=self.throughput_mib_per_s
        )
        if findings:
            raise ConfigError(findings)
