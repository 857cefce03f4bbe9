"""Region, zone and network of a cluster file that is made of a file of another tool."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cdk_gpu_clusters.catalogue.regions import region as region_of
from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters_stacks.starter import Starter

from .draft import Change, Draft, Note
from .foreign import Part
from .group import Group, was

_VPC = re.compile(r"vpc-([0-9a-f]{8}|[0-9a-f]{17})")
_SUBNET = re.compile(r"subnet-([0-9a-f]{8}|[0-9a-f]{17})")
_ANY_REGION = "us-east-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a file does not say about its cluster.

    Attributes:
        name: Name of the cluster.
        region: Region, where the file has none.
        zone: Zone of the nodes, where the file has none.
        vpc_id: VPC of the subnets, where the file has none.
    """

    name: str
    region: str | None = None
    zone: str | None = None
    vpc_id: str | None = None

    def put_region(self, draft: Draft, part: Part) -> str:
        """Write the Region, which an option gives, or the file, or a person later."""
        given = self.region or (None if part.is_placeholder else part.text())
        if given is not None:
            part.skip()
            draft.put("region", value=given, of=part)
            return given
        part.skip()
        draft.fill("region", value=_ANY_REGION, why=was(part, "your Region, or give --region"), of=part)
        return _ANY_REGION

    def put_zone(self, draft: Draft, region: str, groups: Sequence[Group], part: Part | None = None) -> None:
        """Write the zone of the nodes."""
        text = part.text() if part is not None and part.exists and not part.is_placeholder else None
        given = self.zone or text
        if given is not None:
            draft.put("network", "availability_zone", value=given, of=part)
            return
        if part is not None:
            part.skip()
        draft.fill(
            "network",
            "availability_zone",
            value=zones_of(region, groups)[0],
            why=was(part, "the zone of these subnets and reservations, or give --zone"),
            of=part,
        )


def zones_of(region: str, groups: Sequence[Group]) -> tuple[str, ...]:
    """Two zones of the Region, the first one with the type of the first group where one is known."""
    try:
        region_of(region)
        kind = groups[0].instance_type.name if groups else "g6.xlarge"
        return Starter(name="any", region=region, instance_type=kind).zones[:2]
    except ConfigError:
        return (f"{region}a", f"{region}b")


def put_existing_network(
    draft: Draft, place: Place, region: str, subnets: Sequence[Part], groups: Sequence[Group], vpc: Part | None = None
) -> None:
    """Write the network that exists: VPC, subnets and zone.

    Args:
        draft: The cluster file.
        place: What the file does not say.
        region: The Region.
        subnets: The subnets of the groups, with repetitions.
        groups: The groups of nodes.
        vpc: Where the file names the VPC.
    """
    text = vpc.text() if vpc is not None and not isinstance(vpc.value, dict) else None
    given = place.vpc_id or text or ""
    if _VPC.fullmatch(given):
        draft.put("network", "vpc_id", value=given, of=vpc)
    else:
        why = was(vpc, "the VPC of these subnets, or give --vpc")
        draft.fill("network", "vpc_id", value="vpc-0123456789abcdef0", why=why, of=vpc)
    found: dict[str, Part] = {}
    for part in subnets:
        name = next(iter(part.value)) if isinstance(part.value, dict) and part.value else str(part.value)
        part.skip()
        found.setdefault(str(name), part)
    known = [name for name in found if _SUBNET.fullmatch(name)]
    if known and len(known) == len(found):
        draft.put("network", "subnet_ids", value=known, of=found[known[0]])
        if len(known) > 1:
            draft.notes.append(_several(found[known[1]]))
    else:
        ids = [name if name in known else f"subnet-0123456789abcde{index:02x}" for index, name in enumerate(found)]
        named = ", ".join(name for name in found if name not in known) or "none"
        draft.fill(
            "network",
            "subnet_ids",
            value=ids or ["subnet-0123456789abcdef0"],
            why=f"your subnets (the file has {named})",
            of=next(iter(found.values()), None),
        )
    place.put_zone(draft, region, groups)


def _several(part: Part) -> Note:
    return Note(
        Change.REPLACED,
        part.name,
        "all subnets must be in one zone, since EFA traffic does not leave it: remove those in other zones",
        part.place,
    )
