"""How fast nodes can read from an FSx for Lustre file system, as far as their network goes.

What the service gives one client comes from third-party notes of its guide (catalogue, group `efa`): unverified.
"""

from __future__ import annotations

from dataclasses import dataclass

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.catalogue.lustre import lustre_fact
from cdk_gpu_clusters.rules.interface_bandwidth import efa_gbps_of
from cdk_gpu_clusters.rules.lustre_clients import lustre_efa_interfaces

_MB_PER_GBIT = 1000 / 8
_DOUBT = ", unverified"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingRate:
    """What one node can read at most.

    Attributes:
        mb_per_s: MB/s; None where no source gives the bandwidth of its network.
        efa_interfaces: EFA interfaces that Lustre uses; 0 over TCP.
        basis: What sets it, in words.
    """

    mb_per_s: float | None
    efa_interfaces: int
    basis: str


def node_reading_rate(
    instance_type: InstanceType,
    *,
    over_efa: bool,
    node_count: int | None = None,
    object_servers: int | None = None,
) -> ReadingRate:
    """What one node can read: the least of its network, and of what the service says of one client.

    Args:
        instance_type: Type of the node.
        over_efa: Whether it mounts over EFA.
        node_count: Nodes that mount the file system at a time, which share its EFA connections.
        object_servers: Servers of the file system, each of which gives a client so much over TCP; None is unknown.

    Example:
        >>> from cdk_gpu_clusters.catalogue import instance_type
        >>> p5 = instance_type("p5.48xlarge")
        >>> node_reading_rate(p5, over_efa=True).mb_per_s
        87500.0
        >>> node_reading_rate(p5, over_efa=False, object_servers=2).basis
        '5 Gbps from each of 2 object servers over TCP, unverified'
    """
    if over_efa:
        interfaces = lustre_efa_interfaces(instance_type, node_count)
        own = (
            _efa_gbps(instance_type, interfaces),
            f"{interfaces} EFA interface{_plural(interfaces)} of the node",
        )
        limits = [(_fact("client_gbps"), f"one client over EFA{_DOUBT}")]
    else:
        interfaces, own = 0, (instance_type.network.primary_ena_gbps, "the node's primary interface")
        limits = [(_fact("client_gbps_without"), f"one client over TCP{_DOUBT}")]
        if object_servers is not None:
            each = _fact("client_gbps_per_object_server_without")
            which = "the object server" if object_servers == 1 else f"each of {object_servers} object servers"
            words = f"{each:g} Gbps from {which} over TCP{_DOUBT}"
            limits.append((each * object_servers, words))
    gbps, what = own
    if gbps is None:
        reason = f"no source gives the bandwidth of {what}"
        return ReadingRate(mb_per_s=None, efa_interfaces=interfaces, basis=reason)
    least, basis = min([(gbps, what), *limits], key=lambda limit: limit[0])
    basis = basis if " Gbps " in basis else f"{least:g} Gbps: {basis}"
    return ReadingRate(mb_per_s=least * _MB_PER_GBIT, efa_interfaces=interfaces, basis=basis)


def _efa_gbps(instance_type: InstanceType, interfaces: int) -> float | None:
    efa = instance_type.network.efa
    return None if efa is None else efa_gbps_of(instance_type, efa.recommended_cards[:interfaces])


def _fact(name: str) -> float:
    return float(lustre_fact("efa", name))


def _plural(number: int) -> str:
    return "" if number == 1 else "s"
