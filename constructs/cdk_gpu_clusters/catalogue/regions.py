"""AWS Regions: partition, DNS suffix, and which zone belongs to which Region.

Partitions and Regions come from botocore, zones from recorded offerings of one account. Zone letters differ
between accounts and Regions gain zones, so a zone is judged by its form, not by whether it is listed here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from cdk_gpu_clusters.catalogue._files import read_json
from cdk_gpu_clusters.errors import ConfigError, Finding, define_rule

UNKNOWN_REGION = define_rule(
    "GPU-RGN-001",
    "the Region is known",
    source="botocore 1.44.5, data/partitions.json (2026-10)",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """One AWS Region.

    Attributes:
        name: Such as `us-east-1`.
        partition: Such as `aws`, `aws-us-gov`, `aws-cn`.
        dns_suffix: Such as `amazonaws.com`.
        dual_stack_dns_suffix: Such as `api.aws`.
        zone_id_prefix: Such as `use1`; None where no zone data was read.
        zone_letters: Letters of the zone names that one account saw; other accounts may see others.
        zone_ids: Zone ids that one account saw, such as `use1-az1`.
        local_zones: Local Zones named by sources on Capacity Blocks; not a list of all Local Zones.
        sources: Where the row comes from, with date.
    """

    name: str
    partition: str
    dns_suffix: str
    dual_stack_dns_suffix: str
    zone_id_prefix: str | None
    zone_letters: tuple[str, ...]
    zone_ids: tuple[str, ...]
    local_zones: tuple[str, ...]
    sources: tuple[str, ...]

    def is_zone_name(self, zone: str) -> bool:
        """Whether `zone` has the form of an Availability Zone name of this Region, such as `us-east-1a`."""
        return re.fullmatch(rf"{self.name}[a-z]", zone) is not None

    def is_zone_id(self, zone: str) -> bool:
        """Whether `zone` has the form of an Availability Zone id of this Region, such as `use1-az1`.

        A Region without zone data accepts none.
        """
        prefix = self.zone_id_prefix
        return prefix is not None and re.fullmatch(rf"{prefix}-az\d+", zone) is not None

    def is_local_zone(self, zone: str) -> bool:
        """Whether `zone` has the form of a Local Zone name or id of it, such as `us-east-1-dfw-2a`."""
        forms = [rf"{self.name}-[a-z]{{3}}-\d[a-z]"]
        if self.zone_id_prefix:
            forms.append(rf"{self.zone_id_prefix}-[a-z]{{3}}\d-az\d+")
        return any(re.fullmatch(form, zone) for form in forms)

    def has_zone(self, zone: str) -> bool:
        """Whether `zone` has the form of any zone name or id of this Region, Local Zones included."""
        return self.is_zone_name(zone) or self.is_zone_id(zone) or self.is_local_zone(zone)


@cache
def regions() -> Mapping[str, Region]:
    """Every Region by name, in name order."""
    data = read_json("regions.json")
    return MappingProxyType({name: _region(name, data) for name in data["regions"]})


def region(name: str) -> Region:
    """The Region of that name.

    Raises:
        ConfigError: GPU-RGN-001 if it is unknown: misspelt, or newer than this release. Use
            `regions().get(name)` where a newer Region must pass.

    Example:
        >>> region("us-gov-west-1").partition
        'aws-us-gov'
    """
    found = regions().get(name)
    if found is None:
        raise ConfigError([_unknown(name)])
    return found


def partition_of(name: str) -> str:
    """The partition of a Region; a Region newer than this release is judged by the form of its name.

    Raises:
        ConfigError: GPU-RGN-001 if the name fits no partition.
    """
    for partition, row in read_json("regions.json")["partitions"].items():
        if re.fullmatch(row["region_pattern"], name):
            return str(partition)
    raise ConfigError([_unknown(name)])


@cache
def s3_express_zone_ids() -> tuple[str, ...]:
    """Ids of the Availability Zones that have S3 Express One Zone, as the S3 user guide lists them; the list grows."""
    return tuple(read_json("regions.json")["s3_express"]["zone_ids"])


@cache
def region_of_zone(zone: str) -> Region | None:
    """The Region that a zone name or id belongs to by its form, or None if it has the form of none.

    Args:
        zone: Availability Zone name (`us-east-1a`) or id (`use1-az1`), or Local Zone (`us-east-1-dfw-2a`).
    """
    return next(
        (
            candidate
            for candidate in regions().values()
            # Patterns are compiled for the few that can match.
            if zone.startswith((candidate.name, candidate.zone_id_prefix or candidate.name))
            and candidate.has_zone(zone)
        ),
        None,
    )


def _unknown(name: str) -> Finding:
    from difflib import get_close_matches  # only a wrong name pays for it

    word = name.strip().lower().replace("_", "-")
    nearest = get_close_matches(word, list(regions()), n=3)
    # A zone in place of its Region.
    within = [region for region in regions() if word.startswith(region)]
    nearest = [*within, *(one for one in nearest if one not in within)]
    return UNKNOWN_REGION.finding(
        cause="the Region is not in the catalogue",
        got=repr(name),
        allowed=f"nearest: {', '.join(nearest)}" if nearest else ", ".join(regions()),
        fix=f"write {nearest[0]}, or another Region; for one newer than this release, update the library"
        if nearest
        else "write the code of a Region, such as us-east-1; for a Region newer than this release, update the library",
    )


def _region(name: str, data: Mapping[str, Mapping[str, Mapping[str, str]]]) -> Region:
    row, sources = data["regions"][name], data["sources"]
    partition = data["partitions"][row["partition"]]
    prefix = row.get("zone_id_prefix")
    keys = ["botocore", row.get("zones_source"), "capacity-blocks" if "local_zones" in row else None]
    return Region(
        name=name,
        partition=row["partition"],
        dns_suffix=partition["dns_suffix"],
        dual_stack_dns_suffix=partition["dual_stack_dns_suffix"],
        zone_id_prefix=prefix,
        zone_letters=tuple(row.get("zone_letters", "")),
        zone_ids=tuple(f"{prefix}-az{number}" for number in row.get("zone_numbers", "").split()),
        local_zones=tuple(row.get("local_zones", ())),
        sources=tuple(str(sources[key]) for key in keys if key),
    )
