"""Whether nodes can mount an FSx for Lustre file system, and how fast they can read from it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from ipaddress import ip_network

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.catalogue.lustre import lustre_client, lustre_fact
from cdk_gpu_clusters.errors import Finding, Severity, check, define_rule
from cdk_gpu_clusters.rules.images import version_of
from cdk_gpu_clusters.rules.interfaces import efa_gbps_of

_CLIENTS = 'FSx for Lustre user guide, "Installing the Lustre client" (stored copy of 2026)'
_EFA = 'FSx for Lustre user guide, "Working with EFA-enabled file systems" (stored copy of 2026)'

CLIENT_VERSION = define_rule(
    "GPU-LUS-020",
    "the nodes' operating system has a Lustre client for the file system's version",
    source=_CLIENTS,
)
CLIENT_ZONE = define_rule(
    "GPU-LUS-021",
    "EFA clients are in the file system's Availability Zone; other clients should be, for speed and price",
    source=_EFA,
)
CLIENT_TYPE = define_rule(
    "GPU-LUS-022",
    "EFA clients are Nitro v4 or later types with EFA, but not Trn2",
    source=f"{_EFA}; Nitro v4 is taken from RDMA write in the EC2 user guide's EFA page",
)
CLIENT_NETWORK = define_rule(
    "GPU-LUS-024", "EFA clients and the file system have addresses in one /16 block", source=_EFA
)
CLIENT_KERNEL = define_rule(
    "GPU-LUS-025",
    "the image's kernel has a Lustre client, over EFA a kernel that EFA needs",
    source=f"{_CLIENTS}; AWS Deep Learning AMI release notes",
)
CLIENT_COUNT = define_rule(
    "GPU-LUS-023",
    "a file system takes at most 1024 EFA connections, one for each EFA interface of its clients",
    source='FSx for Lustre user guide, "Configuring EFA clients" (stored copy of 2026)',
)


@check
def check_lustre_client(
    *,
    operating_system: str | None = None,
    kernel: str | None = None,
    version: str | None = None,
    instance_type: InstanceType | None = None,
    node_count: int | None = None,
    zones: Collection[str] = (),
    file_system_zone: str | None = None,
    cidrs: Collection[str] = (),
    file_system_cidr: str | None = None,
    efa: bool = False,
) -> Iterator[Finding]:
    """Find what keeps nodes from mounting a file system, or makes it slow.

    Anything left out is unknown, and not checked. A type without EFA mounts an EFA file system over TCP.

    Args:
        operating_system: Such as `al2023` or `ubuntu-24.04`.
        kernel: Kernel of the image, such as `6.8`.
        version: Lustre version of the file system.
        instance_type: Type of the nodes.
        node_count: The most nodes that mount it at a time.
        zones: Zones of the nodes' subnets, by name or id as `file_system_zone`.
        file_system_zone: Zone of the file system's subnet.
        cidrs: IPv4 blocks of the nodes' subnets.
        file_system_cidr: IPv4 block of the file system's subnet.
        efa: Whether the nodes mount it over EFA.

    Example:
        >>> [f.id for f in check_lustre_client(zones=["us-east-1b"], file_system_zone="us-east-1a", efa=True)]
        ['GPU-LUS-021']
    """
    yield from _check_system(operating_system, version, efa=efa)
    yield from _check_kernel(operating_system, kernel, efa=efa)
    if file_system_zone is not None and any(zone != file_system_zone for zone in zones):
        yield _other_zone(zones, file_system_zone, efa=efa)
    if not efa:
        return
    if instance_type is not None:
        yield from _check_type(instance_type)
    yield from _check_network(cidrs, file_system_cidr)
    most = int(lustre_fact("efa", "largest_connection_count"))
    if node_count is not None and node_count > most:
        yield CLIENT_COUNT.finding(
            cause="too many nodes mount the file system over EFA",
            got=str(node_count),
            allowed=f"at most {most}",
            fix="spread them over several file systems, or let some mount over TCP",
        )


def lustre_efa_interfaces(instance_type: InstanceType, node_count: int | None = None) -> int:
    """How many EFA interfaces of a node Lustre uses: AWS's number, or fewer where the file system takes no more.

    Args:
        instance_type: Type of the nodes.
        node_count: The most nodes that mount it at a time, if that is known.

    Example:
        >>> from cdk_gpu_clusters.catalogue import instance_type
        >>> p5 = instance_type("p5.48xlarge")
        >>> lustre_efa_interfaces(p5), lustre_efa_interfaces(p5, node_count=256)
        (8, 4)
    """
    there = sum(card.supports_efa for card in instance_type.network.cards)
    several = int(lustre_fact("efa", "client_interfaces_multi_card"))
    wanted = int(lustre_fact("efa", "client_interfaces").get(instance_type.family, several))
    room = int(lustre_fact("efa", "largest_connection_count")) // (node_count or 1)
    return max(1, min(wanted, there, room))


def _check_system(operating_system: str | None, version: str | None, *, efa: bool) -> Iterator[Finding]:
    if operating_system is None:
        return
    client = lustre_client(operating_system)
    if client is None:
        return
    if (version is None or version in client.file_system_versions) and (client.efa or not efa):
        return
    has_none = not client.file_system_versions
    yield CLIENT_VERSION.finding(
        cause=f"{operating_system} has no Lustre client{'' if has_none else ' for this file system'}",
        got=f"Lustre {version}" if version else operating_system,
        allowed=", ".join(client.file_system_versions) or "al2023, ubuntu-24.04, ubuntu-22.04",
        fix="use another operating system on the nodes" if has_none else "use a 2.15 file system",
    )


def _check_kernel(operating_system: str | None, kernel: str | None, *, efa: bool) -> Iterator[Finding]:
    client = None if operating_system is None else lustre_client(operating_system)
    if client is None or kernel is None or not client.kernels:
        return
    oldest = client.efa_kernel if efa and client.efa_kernel else "0"
    served = [one for one in client.kernels if version_of(one) >= version_of(oldest)]
    if not any(f"{kernel}.".startswith(f"{one}.") for one in served):
        yield CLIENT_KERNEL.finding(
            cause=f"the release note of the {operating_system} image names a kernel without a Lustre client"
            + (" for EFA" if efa else ""),
            got=kernel,
            allowed=", ".join(served),
            fix="use another operating system, or bake a kernel and its client into an image of your own",
            severity=Severity.WARNING,
        )


def _other_zone(zones: Collection[str], file_system_zone: str, *, efa: bool) -> Finding:
    return CLIENT_ZONE.finding(
        cause="nodes that mount over EFA are in another Availability Zone than the file system"
        if efa
        else "nodes mount a file system of another Availability Zone: slower, and charged by the gigabyte",
        got=", ".join(sorted(zones)),
        allowed=file_system_zone,
        fix="put the nodes and the file system into one subnet or zone",
        severity=Severity.ERROR if efa else Severity.WARNING,
    )


def _check_network(cidrs: Collection[str], file_system_cidr: str | None) -> Iterator[Finding]:
    if file_system_cidr is None:
        return
    prefix = int(lustre_fact("efa", "client_prefix"))
    block = ip_network(file_system_cidr).supernet(new_prefix=prefix)
    outside = sorted(cidr for cidr in cidrs if ip_network(cidr).supernet(new_prefix=prefix) != block)
    if outside:
        yield CLIENT_NETWORK.finding(
            cause="nodes that mount over EFA have addresses of another block than the file system",
            got=", ".join(outside),
            allowed=str(block),
            fix="put the nodes and the file system into subnets of one block",
        )


def _check_type(instance_type: InstanceType) -> Iterator[Finding]:
    efa = instance_type.network.efa
    without = instance_type.family.startswith(tuple(lustre_fact("efa", "families_without")))
    if efa is not None and efa.rdma_write and not without:
        return
    unknown = efa is not None and efa.rdma_write is None and not without
    yield CLIENT_TYPE.finding(
        cause="it is not known whether this type mounts Lustre over EFA"
        if unknown
        else "this type cannot mount Lustre over EFA",
        got=instance_type.name,
        allowed="types of Nitro v4 or later with EFA, such as p5, p5en, p6-b200, g6e; not trn2",
        fix="mount a file system made without efa, or take another type; nodes with efa=False mount this one over "
        "TCP, and have no EFA among themselves",
        severity=Severity.WARNING if unknown else Severity.ERROR,
    )


# How fast nodes can read from an FSx for Lustre file system, as far as their network goes.
#
# What the service gives one client comes from third-party notes of its guide (catalogue, group `efa`): unverified.

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
    """What one node can read: the lower of its network bandwidth and the service's limit for one client.

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
