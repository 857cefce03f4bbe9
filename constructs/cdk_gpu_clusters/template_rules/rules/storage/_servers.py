"""What the servers of a Lustre file system cannot reach of each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cdk_gpu_clusters.catalogue.lustre import lustre_ports
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.file_systems import lustre_only
from cdk_gpu_clusters.template_rules.lookups.network import groups_at, missing_ports
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable


def closed_among_servers(resource: Resource, ranges: Sequence[tuple[int, int]]) -> Iterator[Fault]:
    """A fault for each range of TCP ports, and way, that the groups of a file system do not open for each other.

    Raises:
        NotApplicable: If it is no Lustre file system, or names no groups.
        Undecidable: If that depends on groups or addresses that stand elsewhere.
    """
    value = lustre_only(resource).get("SecurityGroupIds")
    if not value.exists:
        raise NotApplicable
    groups = groups_at(value)
    allowed = ", ".join(
        f"TCP {first}" if first == last else f"TCP {first}-{last}" for first, last in lustre_ports()
    )
    for missing in missing_ports(groups, groups, at=value, ranges=ranges):
        yield Fault(at=value, got=f"nothing that lets {missing} among the servers", allowed=allowed)
