"""Whether a zone is written rightly, belongs to the Region, and sells the instance type.

Zone letters differ between accounts and offers change, so a zone is judged by its form; that a type is not
known to be offered there is a warning only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.catalogue import instance_type as look_up
from cdk_gpu_clusters.catalogue.regions import UNKNOWN_REGION, partition_of, region_of_zone, regions
from cdk_gpu_clusters.errors import ConfigError, Finding, Severity, check, define_rule

_ZONES_PAGE = 'AWS EC2 user guide, "Regions and Zones"'
_OFFERS = "EC2 DescribeInstanceTypeOfferings, as one recorded account saw it"

PLAIN_ZONE = define_rule("GPU-NET-101", "a zone is a plain string, known when the app runs", source="AWS CDK, tokens")
ZONE_FORM = define_rule("GPU-NET-103", "a zone is written as a zone name or a zone id", source=_ZONES_PAGE)
ZONE_IN_REGION = define_rule("GPU-NET-104", "the zone belongs to the Region", source=_ZONES_PAGE)
TYPE_OFFERED = define_rule("GPU-NET-105", "the instance type is known to be offered there", source=_OFFERS)
TYPE_SOLD_HERE = define_rule(
    "GPU-NET-106",
    "UltraServer types are used in zones that offer them",
    source='AWS EC2 user guide, "Capacity Blocks for ML" (stored copy, mid-2026)',
)
LOCAL_ZONE_OPT_IN = define_rule(
    "GPU-NET-102", "a Local Zone is enabled in the account before it is used", source=_ZONES_PAGE
)

_ZONE_ID = re.compile(r"[a-z]{2,5}\d+(-[a-z]{3}\d+)?-az\d+")
_ZONE_FORMS = "a name such as us-east-1a or us-east-1-dfw-2a, or an id such as use1-az1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """A zone, read from its name or id.

    Attributes:
        text: The name or id as it was given.
        region: The Region that it belongs to; the parent Region of a Local Zone.
        is_id: Whether it is an id, the same in every account, rather than a name.
        is_local: Whether it is a Local Zone.
    """

    text: str
    region: str
    is_id: bool
    is_local: bool


def is_zone_id(zone: str) -> bool:
    """Whether a zone is written as an id, which is the same in every account, and not as a name.

    Example:
        >>> is_zone_id("use1-az1"), is_zone_id("us-east-1a")
        (True, False)
    """
    return _ZONE_ID.fullmatch(zone) is not None


def read_zone(zone: str) -> Zone | None:
    """Read a zone name or id, or None if it has the form of neither in any known Region.

    Example:
        >>> read_zone("us-east-1-dfw-2a")
        Zone(text='us-east-1-dfw-2a', region='us-east-1', is_id=False, is_local=True)
    """
    owner = region_of_zone(zone)
    if owner is None:
        return None
    return Zone(
        text=zone,
        region=owner.name,
        is_id=is_zone_id(zone),
        is_local=owner.is_local_zone(zone),
    )


def is_local_zone(zone: str) -> bool:
    """Whether a zone is known as a Local Zone.

    Args:
        zone: Its name or id.

    Example:
        >>> is_local_zone("us-east-1-dfw-2a"), is_local_zone("us-east-1a")
        (True, False)
    """
    found = read_zone(zone)
    return found is not None and found.is_local


@check
def check_zone(region: str | None, zone: str, instance_type: InstanceType | str | None = None) -> Iterator[Finding]:
    """Find what is wrong with a zone, with its Region, or with using the instance type there.

    Args:
        region: The Region, or None where the app does not know it.
        zone: Availability Zone or Local Zone, by name or by id.
        instance_type: The type that is to run there, or its name.

    Raises:
        ConfigError: If the instance type is not known.

    Example:
        >>> [finding.id for finding in check_zone("us-west-2", "us-east-1a")]
        ['GPU-NET-104']
    """
    if _is_token(zone):
        yield PLAIN_ZONE.finding(
            cause="the zone is not known when the app runs, so nothing can be checked or decided from it",
            got=zone,
            allowed=_ZONE_FORMS,
            fix="give the zone as a plain string",
        )
        return
    known_region = None if region is None or _is_token(region) else region
    if known_region is not None:
        yield from _check_region(known_region)
    found = read_zone(zone)
    if found is None:
        if not _fits_unlisted(known_region, zone):
            yield ZONE_FORM.finding(
                cause="this is neither a zone name nor a zone id",
                got=repr(zone),
                allowed=_ZONE_FORMS,
                fix="give the zone by its name or by its id",
            )
    elif known_region not in (None, found.region):
        yield _foreign(str(known_region), found)
    else:
        yield from _check_letter(found)
        yield from _check_place(found, instance_type)


#: No Region has more zones (AWS EC2 user guide, "Regions and Zones": us-east-1 has six).
_MOST_ZONES = 6
UNSEEN_LETTER = define_rule("GPU-NET-107", "the zone's letter is one that the Region has", source=_ZONES_PAGE)


def _check_letter(zone: Zone) -> Iterator[Finding]:
    """A letter beyond those of any Region is a mistake, or newer than this library."""
    letters = [chr(ord("a") + number) for number in range(_MOST_ZONES)]
    if zone.is_id or zone.is_local or zone.text[-1] in letters:
        return
    seen = regions()[zone.region].zone_letters or ("a",)
    yield UNSEEN_LETTER.finding(
        cause=f"no Region has so many zones; one account saw {', '.join(seen)} in {zone.region}",
        got=zone.text,
        allowed=", ".join(f"{zone.region}{letter}" for letter in seen),
        fix=f"write {zone.region}{seen[0]}, or the zone that aws ec2 describe-availability-zones shows",
        severity=Severity.WARNING,
    )


def _check_place(zone: Zone, instance_type: InstanceType | str | None) -> Iterator[Finding]:
    if zone.is_local:
        yield LOCAL_ZONE_OPT_IN.finding(
            cause=f"{zone.text} is a Local Zone of {zone.region}, and the account has to enable it first",
            got=zone.text,
            fix="enable the zone group in the EC2 settings of the account before the first deploy",
            severity=Severity.INFO,
        )
    if instance_type is not None:
        yield from _check_type(look_up(instance_type) if isinstance(instance_type, str) else instance_type, zone)


def _check_region(region: str) -> Iterator[Finding]:
    """A Region that fits the form of a partition may be newer than this library; anything else is a mistake."""
    if region in regions():
        return
    try:
        partition_of(region)
    except ConfigError as unknown:
        yield from unknown.findings
        return
    yield UNKNOWN_REGION.finding(
        cause="the Region is not in the catalogue, so its zones are judged by their form alone",
        got=region,
        allowed=f"nearest: {', '.join(get_close_matches(region, regions(), n=3))}",
        fix="correct the Region, unless it is newer than this library",
        severity=Severity.WARNING,
    )


def _check_type(kind: InstanceType, zone: Zone) -> Iterator[Finding]:
    if kind.ultraserver_only and kind.capacity_block_local_zones:
        if zone.text not in kind.capacity_block_local_zones:
            yield _not_sold(kind, zone)
        return
    ids = kind.availability_zone_ids.get(zone.region, ())
    documented = zone.region in kind.capacity_block_regions or zone.text in kind.capacity_block_local_zones
    if not kind.regions or (zone.is_local and documented):
        return
    if zone.region not in kind.regions and not documented:
        yield _not_offered(kind, zone.region, ", ".join(kind.regions))
    elif zone.is_id and ids and zone.text not in ids:
        yield _not_offered(kind, zone.text, ", ".join(ids))


def _is_token(text: str) -> bool:
    """Whether CDK put a placeholder there; the library's rules do not know CDK, so by its form."""
    return "${" in text


def _fits_unlisted(region: str | None, zone: str) -> bool:
    """Whether a zone fits a Region that the catalogue does not know, or whose zone ids it does not know."""
    if region is None:
        return False
    listed = regions().get(region)
    if listed is not None and listed.zone_id_prefix is not None:
        return False
    by_name = re.fullmatch(rf"{re.escape(region)}(-[a-z]{{3}}-\d)?[a-z]", zone)
    return by_name is not None or _ZONE_ID.fullmatch(zone) is not None


def _foreign(region: str, zone: Zone) -> Finding:
    owner = regions().get(region)
    example = f", or an id such as {owner.zone_id_prefix}-az1" if owner and owner.zone_id_prefix else ""
    return ZONE_IN_REGION.finding(
        cause=f"the zone belongs to {zone.region}, not to {region}",
        got=zone.text,
        allowed=f"a name such as {region}a{example}",
        fix=f"choose a zone of {region}, or deploy to {zone.region}",
    )


def _not_sold(kind: InstanceType, zone: Zone) -> Finding:
    where = ", ".join(kind.capacity_block_local_zones)
    return TYPE_SOLD_HERE.finding(
        cause=f"{kind.name} comes only in UltraServers, and AWS sells these only in {where}",
        got=zone.text,
        allowed=where,
        fix=f"use zone {where}, or another instance type",
    )


def _not_offered(kind: InstanceType, place: str, known: str) -> Finding:
    return TYPE_OFFERED.finding(
        cause=f"{kind.name} was not seen in {place}; offers differ between accounts and over time",
        got=place,
        allowed=known,
        fix="ask EC2 (DescribeInstanceTypeOfferings) with the account that deploys",
        severity=Severity.WARNING,
    )
