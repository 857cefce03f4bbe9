"""The root volume of a node."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_kms as kms

from cdk_gpu_clusters.errors import ConfigError, Finding, define_rule

_EBS = 'botocore 1.44.5, EC2 EbsBlockDevice; Amazon EBS user guide, "General Purpose SSD volumes"'

ROOT_SIZE = define_rule("GPU-LT-001", "a gp3 volume has 1 to 65,536 GiB", source=_EBS)
ROOT_IOPS = define_rule(
    "GPU-LT-002", "a gp3 volume has 3,000 to 80,000 IOPS, at most 500 per GiB", source=_EBS
)
ROOT_THROUGHPUT = define_rule(
    "GPU-LT-003", "a gp3 volume has 125 to 2,000 MiB/s, at most 0.25 per provisioned IOPS", source=_EBS
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

    size_gib: int = 200
    iops: int = 3000
    throughput_mib_per_s: int = 250
    encryption_key: kms.IKey | None = None

    def __post_init__(self) -> None:
        findings = self._check()
        if findings:
            raise ConfigError(findings)

    def _check(self) -> list[Finding]:
        findings = []
        if not 1 <= self.size_gib <= 65_536:
            findings.append(
                ROOT_SIZE.finding(
                    cause="the root volume cannot have that size",
                    got=f"{self.size_gib} GiB",
                    allowed="1 to 65,536 GiB",
                    fix="change size_gib",
                    path="size_gib",
                )
            )
        most_iops = min(80_000, max(3000, 500 * self.size_gib))
        if not 3000 <= self.iops <= most_iops:
            findings.append(
                ROOT_IOPS.finding(
                    cause=f"a {self.size_gib} GiB gp3 volume cannot have that many IOPS",
                    got=str(self.iops),
                    allowed=f"3000 to {most_iops}",
                    fix="change iops, or make the volume larger",
                    path="iops",
                )
            )
        most_throughput = min(2000, self.iops // 4)
        if not 125 <= self.throughput_mib_per_s <= most_throughput:
            findings.append(
                ROOT_THROUGHPUT.finding(
                    cause=f"a gp3 volume with {self.iops} IOPS cannot have that throughput",
                    got=f"{self.throughput_mib_per_s} MiB/s",
                    allowed=f"125 to {most_throughput} MiB/s",
                    fix="change throughput_mib_per_s, or raise iops to four times the throughput",
                    path="throughput_mib_per_s",
                )
            )
        return findings
