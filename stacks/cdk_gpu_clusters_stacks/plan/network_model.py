"""What a plan says about the network: its subnets, and who takes their addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressUse:
    """Who takes addresses of a subnet.

    Attributes:
        kind: `nodes`, `file-system`, `load-balancer`, `endpoints`, `nat-gateway`, `control-plane` or `system-nodes`.
        of: Key of the fleet or the store; empty for what belongs to the network, or to the cluster of EKS.
        addresses: How many at most.
        words: How they come about, such as "16 nodes x 1".
    """

    kind: str
    of: str
    addresses: int
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SubnetUse:
    """One subnet, or the subnets among which nodes are shared out, and the use of its addresses.

    Attributes:
        key: Stable name in this plan, such as `fleet`, `load-balancer use1-az4` or `nat-gateway`.
        role: `fleet`, `control`, `load-balancer`, `public` or `nat-gateway`.
        availability_zone: Zone by name or id; None where only the deployment knows it.
        subnet_ids: Ids of existing subnets; empty for one that is made here.
        cidr: IPv4 range.
        usable_addresses: Addresses that can be given to interfaces, without the five that AWS keeps.
        uses: Who takes how many.
        used_addresses: All uses together.
        free_addresses: What is left.
        unknown: Fields above that are None -> why.
    """

    key: str
    role: str
    availability_zone: str | None
    subnet_ids: tuple[str, ...]
    cidr: str | None
    usable_addresses: int | None
    uses: tuple[AddressUse, ...]
    used_addresses: int
    free_addresses: int | None
    unknown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPlan:
    """The network.

    Attributes:
        is_new: Whether it is made here.
        vpc_id: Id of an existing VPC, None for a new one.
        cidr: IPv4 range of a new VPC; None of an existing one.
        availability_zone: Zone of the fleets, by name or id.
        control_availability_zones: Zones of the load-balancer subnets, as far as they are named.
        egress: `nat`, `closed`, or `existing` for what an existing network has.
        flow_logs: Whether the traffic is recorded; None of an existing network.
        gateway_endpoints, interface_endpoints: Services with an endpoint made here, such as `s3` and `ssm`.
        subnets: The subnets that something of this cluster stands in.
    """

    is_new: bool
    vpc_id: str | None
    cidr: str | None
    availability_zone: str
    control_availability_zones: tuple[str, ...]
    egress: str
    flow_logs: bool | None
    gateway_endpoints: tuple[str, ...]
    interface_endpoints: tuple[str, ...]
    subnets: tuple[SubnetUse, ...]
