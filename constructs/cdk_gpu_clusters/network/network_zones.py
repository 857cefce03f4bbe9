"""The zone of each part of a cluster network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import Fn

from cdk_gpu_clusters._cdk import resolved_or_none
from cdk_gpu_clusters.errors import Finding, define_rule
from cdk_gpu_clusters.rules.zones import Zone, check_zone, is_local_zone, read_zone

from .egress import NetworkEgress

_DEFAULT_CONTROL_ZONES = 2

NAT_ZONE = define_rule(
    "GPU-NET-145",
    "a NAT gateway is in a zone of the Region, in a network that has one",
    source="this library; whether a given Local Zone offers NAT gateways is unverified",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkZones:
    """The zones of a cluster network, by name or id, or tokens.

    Attributes:
        fleet: Zone of the accelerated nodes.
        control: Zones of the control and load-balancer subnets, each after a stable key: the zone itself, or
            `Zone1`, `Zone2`, ... for those known at deploy time only.
        nat: Zone of the NAT gateway.
    """

    fleet: str
    control: tuple[tuple[str, str], ...]
    nat: str

    @classmethod
    def of(cls, fleet: str, control: Sequence[str] | None, nat: str | None) -> NetworkZones:
        """Fill in the defaults: the zones that CloudFormation lists first, and the fleet's zone for NAT."""
        listed = [_listed_zone(place) for place in range(_DEFAULT_CONTROL_ZONES)]
        zones = listed if control is None else control
        return cls(
            fleet=fleet,
            control=tuple(
                (resolved_or_none(zone) or f"Zone{place}", zone) for place, zone in enumerate(zones, start=1)
            ),
            nat=nat or (_listed_zone(0) if is_local_zone(fleet) else fleet),
        )


def check_network_zones(
    region: str | None, *, fleet: str, control: Sequence[str] | None, nat: str | None, egress: NetworkEgress
) -> list[Finding]:
    """Faults of the zones that the user named; tokens are not looked at.

    Args:
        region: The stack's Region; None if known at deploy time only, so that the fleet's zone gives it.
        fleet: Zone of the fleet.
        control: Zones of the control subnets, None for the default.
        nat: Zone of the NAT gateway, None for the default.
        egress: How nodes reach what is outside.
    """
    named = [("availability_zone", fleet), ("nat_availability_zone", nat)]
    named += [("control_availability_zones", zone) for zone in control or ()]
    if region is None and (found := _read(fleet)) is not None:
        region = found.region
    findings = [
        finding.at(argument)
        for argument, zone in named
        if (literal := resolved_or_none(zone)) is not None
        for finding in check_zone(region, literal)
    ]
    if nat is not None and (egress is NetworkEgress.CLOSED or is_local_zone(nat)):
        closed = egress is NetworkEgress.CLOSED
        cause = "a closed network has no NAT gateway" if closed else "a Local Zone cannot contain the NAT gateway"
        findings.append(
            NAT_ZONE.finding(
                cause=cause,
                got=resolved_or_none(nat) or "a zone",
                allowed="nothing" if closed else "an Availability Zone of the Region",
                fix="leave nat_availability_zone out",
                path="nat_availability_zone",
            )
        )
    return findings


def _listed_zone(place: int) -> str:
    return Fn.select(place, Fn.get_azs())


def _read(zone: str) -> Zone | None:
    return None if (literal := resolved_or_none(zone)) is None else read_zone(literal)
