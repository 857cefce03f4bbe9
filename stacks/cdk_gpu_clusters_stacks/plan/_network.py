"""The network of the plan: its subnets, and the addresses that fleets, stores and load balancers take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import IPv4Network
from math import ceil

from cdk_gpu_clusters.network.subnets import SubnetBlock, plan_subnets
from cdk_gpu_clusters.rules.eks_cluster import MINIMUM_IP_TARGET
from cdk_gpu_clusters.rules.endpoints import endpoints_for, gateways_for
from cdk_gpu_clusters.rules.homes import EfsHomes
from cdk_gpu_clusters.rules.inference import LOAD_BALANCER_ADDRESSES
from cdk_gpu_clusters.rules.ip_budget import usable_addresses
from cdk_gpu_clusters.rules.zones import is_local_zone
from cdk_gpu_clusters_stacks.counting import count
from cdk_gpu_clusters_stacks.spec._parts import parts_of
from cdk_gpu_clusters_stacks.spec.data import LustreSpec, home_storage
from cdk_gpu_clusters_stacks.spec.inference import InferenceFleetSpec
from cdk_gpu_clusters_stacks.spec.model import ORCHESTRATORS, ClusterSpec
from cdk_gpu_clusters_stacks.spec.network import ExistingNetwork, NewNetwork
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet

from .model import AddressUse, NetworkPlan, SubnetUse

#: Key of the subnet of the fleets, and of the file systems.
FLEET_SUBNET = "fleet"

#: Amazon EKS user guide, "View Amazon EKS networking requirements for VPC and subnets" (read 2026-11-22): at least six
#: in each subnet; it recommends 16.
_CONTROL_PLANE_ADDRESSES = 6

_NO_RANGE = "the file does not give the range of this subnet"
_ANY_ZONE = "one of the first zones that CloudFormation lists for the account"


def plan_network(spec: ClusterSpec, views: Sequence[PlannedFleet]) -> NetworkPlan:
    """Describe the network and the use of its addresses."""
    network = spec.network
    if isinstance(network, NewNetwork):
        return _new(network, spec, views)
    return NetworkPlan(
        is_new=False,
        vpc_id=network.vpc_id,
        availability_zone=network.availability_zone,
        control_availability_zones=tuple(network.service_subnets),
        egress="existing",
        subnets=tuple(_existing_subnets(network, spec, views)),
    )


def node_subnet_keys(view: PlannedFleet) -> tuple[str, ...]:
    """Keys of the subnets that a fleet's nodes are in."""
    network = view.parts.network
    return service_subnet_keys(network) if view.is_in_service_subnets and network else (FLEET_SUBNET,)


def balancer_subnet_keys(view: PlannedFleet) -> tuple[str, ...]:
    """Keys of the subnets of the load balancer of a fleet; empty for a training fleet."""
    network = view.parts.network
    if network is None or not _has_balancer(view):
        return ()
    if _is_public(view) and isinstance(network, ExistingNetwork):
        return tuple(_public_key(zone) for zone in network.public_subnets)
    return service_subnet_keys(network)


def service_subnet_keys(network: NewNetwork | ExistingNetwork) -> tuple[str, ...]:
    """Keys of the private subnets in several zones: for load balancers, nodes that serve, and a control plane."""
    return tuple(_balancer_key(zone) for zone in _balancer_zones(network))


def _balancer_zones(network: NewNetwork | ExistingNetwork) -> tuple[str, ...]:
    return network.control_zones if isinstance(network, NewNetwork) else tuple(network.service_subnets)


def _balancer_key(zone: str) -> str:
    return f"load-balancer {zone}"


def _public_key(zone: str) -> str:
    return f"public {zone}"


def _has_balancer(view: PlannedFleet) -> bool:
    return isinstance(view.spec, InferenceFleetSpec) and view.profile.runs_model_servers


def _is_public(view: PlannedFleet) -> bool:
    spec = view.spec
    return isinstance(spec, InferenceFleetSpec) and spec.load_balancer.internet_facing and _has_balancer(view)


def _new(network: NewNetwork, spec: ClusterSpec, views: Sequence[PlannedFleet]) -> NetworkPlan:
    closed = network.egress == "closed"
    services = endpoints_for(spec.features) if closed else ()
    return NetworkPlan(
        is_new=True,
        cidr=network.cidr,
        availability_zone=network.availability_zone,
        control_availability_zones=network.control_availability_zones or (),
        egress=network.egress,
        flow_logs=network.flow_logs,
        gateway_endpoints=gateways_for(spec.features),
        interface_endpoints=services,
        subnets=tuple(_new_subnets(network, spec, views, endpoints=len(services))),
    )


def _new_subnets(
    network: NewNetwork, spec: ClusterSpec, views: Sequence[PlannedFleet], *, endpoints: int
) -> Iterator[SubnetUse]:
    zones = network.control_zones
    plan = plan_subnets(network.cidr, fleet_subnet_prefix=network.fleet_subnet_prefix, control_zones=zones)

    def made(key: str, role: str, zone: str | None, block: SubnetBlock, uses: Iterable[AddressUse]) -> SubnetUse:
        return _subnet(key, role, zone, uses, cidr=block.cidr(IPv4Network(network.cidr)))

    named = network.control_availability_zones is not None
    own_zone = network.availability_zone
    yield made(FLEET_SUBNET, "fleet", own_zone, plan.fleet, _fleet_uses(spec, views))
    for zone in zones:
        uses = [AddressUse(kind="endpoints", of="", addresses=endpoints, words=f"{endpoints} interface endpoints")]
        where = zone if named else None
        yield made(f"control {zone}", "control", where, plan.control[zone], uses if endpoints else [])
    for zone in zones:
        where, services = zone if named else None, _service_uses(spec, views, len(zones), is_first=zone == min(zones))
        yield made(_balancer_key(zone), "load-balancer", where, plan.load_balancer[zone], services)
    if network.egress == "nat":
        where = None if is_local_zone(own_zone) else own_zone
        use = AddressUse(kind="nat-gateway", of="", addresses=1, words="the NAT gateway")
        yield made("nat-gateway", "nat-gateway", where, plan.egress, [use])


def _existing_subnets(
    network: ExistingNetwork, spec: ClusterSpec, views: Sequence[PlannedFleet]
) -> Iterator[SubnetUse]:
    yield _subnet(
        FLEET_SUBNET,
        "fleet",
        network.availability_zone,
        _fleet_uses(spec, views),
        cidr=network.cidr,
        subnet_ids=network.subnet_ids,
    )
    for zone, subnet in network.service_subnets.items():
        uses = _service_uses(
            spec, views, len(network.service_subnets), is_first=zone == min(network.service_subnets), public=False
        )
        yield _subnet(_balancer_key(zone), "load-balancer", zone, uses, subnet_ids=(subnet,))
    for zone, subnet in network.public_subnets.items():
        uses = _balancer_uses([view for view in views if _is_public(view)])
        yield _subnet(_public_key(zone), "public", zone, uses, subnet_ids=(subnet,))


def _fleet_uses(spec: ClusterSpec, views: Sequence[PlannedFleet]) -> Iterator[AddressUse]:
    for view in views:
        if not view.is_in_service_subnets:
            yield _nodes(view, view.spec.maximum_nodes)
    if not _is_login_elsewhere(spec):
        yield from _login_uses(spec)
    if ORCHESTRATORS[spec.orchestrator].is_hyperpod_slurm:
        yield from _hyperpod_uses(spec.hyperpod.login.nodes)
    for name, store in spec.data.items():
        if isinstance(store, LustreSpec):
            sizing = store.lustre.sizing
            words = f"{sizing.object_servers} object and {sizing.metadata_servers} metadata servers"
            yield AddressUse(kind="file-system", of=name, addresses=sizing.ip_addresses, words=words)
        elif (homes := home_storage(store)) is not None:
            each = "a mount target" if isinstance(homes, EfsHomes) else count(homes.ip_addresses, "file server")
            yield AddressUse(kind="file-system", of=name, addresses=homes.ip_addresses, words=each)


def _service_uses(
    spec: ClusterSpec,
    views: Sequence[PlannedFleet],
    zone_count: int,
    *,
    is_first: bool,
    public: bool | None = None,
) -> Iterator[AddressUse]:
    """Nodes are spread evenly, each load balancer is in every subnet of its kind, login nodes are in the first."""
    if parts_of(spec).makes_eks:
        yield from _kubernetes_uses(spec.eks.system_nodes.nodes, zone_count)
    if is_first and _is_login_elsewhere(spec):
        yield from _login_uses(spec)
    for view in views:
        if view.is_in_service_subnets:
            yield _nodes(view, ceil(view.spec.maximum_nodes / zone_count))
    serving = [view for view in views if _has_balancer(view)]
    yield from _balancer_uses([view for view in serving if public is None or _is_public(view) == public])


def _is_login_elsewhere(spec: ClusterSpec) -> bool:
    """Whether login nodes are in a subnet for services: AWS PCS puts no controller into a Local Zone."""
    is_pcs = ORCHESTRATORS[spec.orchestrator].joins_slurm
    return is_pcs and is_local_zone(spec.network.availability_zone)


def _kubernetes_uses(system_nodes: int, zone_count: int) -> Iterator[AddressUse]:
    words = "addresses that EKS needs free in each of its subnets"
    yield AddressUse(kind="control-plane", of="", addresses=_CONTROL_PLANE_ADDRESSES, words=words)
    nodes, each = ceil(system_nodes / zone_count), 1 + MINIMUM_IP_TARGET
    words = f"{count(nodes, 'node')} x {each}, {MINIMUM_IP_TARGET} of them for pods"
    yield AddressUse(kind="system-nodes", of="", addresses=nodes * each, words=words)


def _login_uses(spec: ClusterSpec) -> Iterator[AddressUse]:
    section = spec.slurm_section
    nodes = 0 if section is None else section.login.nodes
    if spec.slurm_section is spec.parallelcluster:
        yield AddressUse(kind="head-node", of="", addresses=1, words="the head node")
    if nodes:
        yield AddressUse(kind="login-nodes", of="", addresses=nodes, words=count(nodes, "login node"))


def _hyperpod_uses(login_nodes: int) -> Iterator[AddressUse]:
    """Groups of Slurm that HyperPod has beside the fleets."""
    yield AddressUse(kind="controller", of="", addresses=1, words="the controller")
    if login_nodes:
        yield AddressUse(kind="login-nodes", of="", addresses=login_nodes, words=count(login_nodes, "login node"))


def _balancer_uses(views: Sequence[PlannedFleet]) -> Iterator[AddressUse]:
    for view in views:
        yield AddressUse(
            kind="load-balancer",
            of=view.name,
            addresses=LOAD_BALANCER_ADDRESSES,
            words="addresses that its load balancer needs free",
        )


def _nodes(view: PlannedFleet, nodes: int) -> AddressUse:
    each = view.plan.addresses_per_node
    pods = f", {view.plan.request.pod_addresses} of them for pods" if view.plan.request.pod_addresses else ""
    words = f"{count(nodes, 'node')} x {each}{pods}"
    return AddressUse(kind="nodes", of=view.name, addresses=nodes * each, words=words)


def _subnet(
    key: str,
    role: str,
    zone: str | None,
    uses: Iterable[AddressUse],
    *,
    cidr: str | None = None,
    subnet_ids: tuple[str, ...] = (),
) -> SubnetUse:
    taken = tuple(uses)
    used = sum(use.addresses for use in taken)
    usable = None if cidr is None else usable_addresses(cidr)
    unknown = {} if zone is not None else {"availability_zone": _ANY_ZONE}
    if cidr is None:
        unknown |= dict.fromkeys(("cidr", "usable_addresses", "free_addresses"), _NO_RANGE)
    return SubnetUse(
        key=key,
        role=role,
        availability_zone=zone,
        subnet_ids=subnet_ids,
        cidr=cidr,
        usable_addresses=usable,
        uses=taken,
        used_addresses=used,
        free_addresses=None if usable is None else usable - used,
        unknown=unknown,
    )
