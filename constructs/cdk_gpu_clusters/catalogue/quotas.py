"""Service quotas that a GPU cluster meets, by the codes under which Service Quotas knows them.

Only codes and names are facts here: the value of a quota is the account's own, and is asked for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from cdk_gpu_clusters.catalogue._files import read_json, record

Purchase = Literal["on-demand", "spot"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """One quota of an account in a Region.

    Attributes:
        key: Its name in this catalogue, such as `elastic-ips`.
        service: Service code of Service Quotas, such as `ec2`.
        code: Quota code, such as `L-0263D0A3`.
        name: Name in the AWS console.
        unit: What it counts, such as `vCPU`.
        source: Where code and name come from.
    """

    key: str
    service: str
    code: str
    name: str
    unit: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VcpuQuota:
    """The quota that counts the vCPUs of an instance family.

    Attributes:
        quota: The quota; None where no source names one.
        verified: Whether a source names the family; otherwise it is read from the quota's name.
    """

    quota: Quota | None
    verified: bool


def quota(key: str) -> Quota:
    """A quota by its name in this catalogue.

    Example:
        >>> quota("elastic-ips").code
        'L-0263D0A3'
    """
    return _quotas()[key]


def quotas() -> tuple[Quota, ...]:
    """Every quota of the catalogue."""
    return tuple(_quotas().values())


@cache
def vcpu_quota(family: str, purchase: Purchase) -> VcpuQuota:
    """The quota that counts the vCPUs of running instances of a family.

    Args:
        family: Instance family, such as `p5en`.
        purchase: `on-demand` or `spot`. Capacity Blocks count against neither.

    Example:
        >>> vcpu_quota("p5en", "spot").quota.name
        'All P5 Spot Instance Requests'
        >>> vcpu_quota("p6-b200", "spot").quota is None
        True
    """
    stems = {found[0] for pattern in (r"[a-z]+", r"[a-z]+\d") if (found := re.match(pattern, family))}
    row: dict[str, Any] = next(
        (one for one in read_json("quotas.json")["vcpu_quotas"] if not stems.isdisjoint(one["families"])), {}
    )
    key = row.get(purchase)
    return VcpuQuota(quota=None if key is None else quota(key), verified=row.get("verified", False))


@cache
def _quotas() -> dict[str, Quota]:
    data: dict[str, Any] = read_json("quotas.json")
    return {
        key: record(Quota, row, key=key, source=data["sources"][row["source"]]) for key, row in data["quotas"].items()
    }
