"""The topology of a cluster: VPC with zones, subnets and nodes, stores, the cluster of EKS or Slurm, and the flows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from cdk_gpu_clusters_stacks.counting import count
from cdk_gpu_clusters_stacks.plan import ClusterPlan
from cdk_gpu_clusters_stacks.plan.model import FleetReport, HomesPlan, KubernetesPlan, StorePlan, SubnetUse
from cdk_gpu_clusters_stacks.plan.text import (
    api_server_words,
    slinky_words,
    software_words,
    support_words,
    team_words,
)

from .boxes import Box, Direction, Margins, Text, filled_up, gbps, group, nodes_text, number
from .flows import CLEAR, Flow, margin
from .hyperpod import hyperpod_box
from .marks import accelerator_marks
from .slurm import controller_box, head_node_box

#: Nodes that are drawn one by one; more are drawn as racks.
MOST_SINGLE_NODES = 32
#: Nodes of a rack: the first of these that makes no more than `_MOST_RACKS` of them.
_RACK_SIZES = (16, 32, 64, 128, 256, 512, 1024)
_MOST_RACKS = 32
_LEAST_PLACES = 4
_UNNAMED_ZONE = "zones chosen at deployment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """A drawing of boxes, and the flows between them."""

    box: Box
    flows: tuple[Flow, ...]


def topology(plan: ClusterPlan) -> Topology:
    """The topology of a cluster."""
    flows = tuple(_flows(plan))
    from_above, data = margin(flows, from_above=True), margin(flows, from_above=False)
    above = [
        *_clients(plan),
        *([] if plan.kubernetes is None else [cluster_box(plan.kubernetes)]),
        *([] if plan.slurm is None else [controller_box(plan.slurm)]),
        *([] if plan.parallelcluster is None else [head_node_box(plan.parallelcluster)]),
        # On Amazon EKS its box is that of the cluster, from which lines to the nodes start.
        *([hyperpod_box(plan.hyperpod)] if plan.hyperpod and plan.hyperpod.runs == "slurm" else []),
    ]
    names = _zone_names(plan)
    zones = group(
        *(_zone(plan, name, Margins(from_above, 0, data, 0)) for name in names),
        direction=Direction.ROW,
        minimum_child_width=330,
        margins=Margins(0, from_above, 0, data if len(names) > 1 else 0),
        key="zones",
    )
    vpc = Box(
        style="vpc",
        key="vpc",
        texts=[_head(_vpc_words(plan)), _note(_way_out(plan))],
        children=[*(_balancer(one) for one in plan.fleets if one.load_balancer), zones],
        padding=12,
        margins=Margins(left=from_above),
    )
    outside = [*_stores_outside(plan), *_internet(plan)]
    below = Box(
        style="none",
        key="outside",
        children=outside,
        direction=Direction.ROW,
        minimum_child_width=170,
        padding=0,
        gap=max(12, data + CLEAR),
        row_gap=12,
        margins=Margins(from_above + 22, data + CLEAR if data else 12, data + 22, 0),
    )
    children = [*above, vpc, *([below] if outside else [])]
    return Topology(box=Box(style="none", padding=1, children=children, gap=14), flows=flows)


def _vpc_words(plan: ClusterPlan) -> str:
    network = plan.network
    return f"VPC {network.cidr}" if network.is_new else f"VPC {network.vpc_id} (existing)"


def _way_out(plan: ClusterPlan) -> str:
    network = plan.network
    ways = {"nat": "internet through a NAT gateway", "closed": "no internet", "existing": "its own routes"}
    endpoints = len(network.gateway_endpoints) + len(network.interface_endpoints)
    return ", ".join([ways[network.egress], *([count(endpoints, "endpoint")] if endpoints else [])])


# Zones with their subnets, and what is in them.


def _zone_names(plan: ClusterPlan) -> list[str]:
    """The zones with something in them, those of the fleets first."""
    named = [one for one in plan.network.subnets if list(_inside(plan, one))]
    by_fleet = sorted(named, key=lambda one: not any(one.key in fleet.subnets for fleet in plan.fleets))
    return list(dict.fromkeys(_zone_name(one) for one in by_fleet))


def _zone_name(one: SubnetUse) -> str:
    return one.availability_zone or _UNNAMED_ZONE


def _zone(plan: ClusterPlan, name: str, margins: Margins) -> Box:
    boxes = []
    for one in plan.network.subnets:
        inside = list(_inside(plan, one)) if _zone_name(one) == name else []
        if inside:
            where = one.cidr or ", ".join(one.subnet_ids) or "existing"
            words = Text(text=f"subnet {one.key}, {where}", style="note", size=11, wraps=True)
            boxes.append(Box(style="subnet", texts=[words], children=inside, padding=8))
    return Box(style="zone", texts=[_head(name)], children=boxes, padding=10, margins=margins)


def _inside(plan: ClusterPlan, subnet: SubnetUse) -> Iterator[Box]:
    """What is in a subnet. Interfaces of a load balancer and of the control plane are not drawn again."""
    for fleet in plan.fleets:
        if subnet.key in fleet.subnets:
            yield _fleet(fleet, fleet.subnets.index(subnet.key))
    system = plan.kubernetes.system_nodes if plan.kubernetes else None
    if system is not None and subnet.key in system.subnets:
        nodes = range(system.subnets.index(subnet.key), system.node_count, len(system.subnets))
        words = f"{len(nodes)} of {count(system.node_count, 'node')}, {system.instance_type}"
        yield _small(f"system/{subnet.key}", "node", "system nodes", words)
    for store in plan.stores:
        if store.lustre and store.lustre.subnet == subnet.key:
            yield _lustre(store)
        elif store.homes and store.homes.subnet == subnet.key:
            yield _homes(store.name, store.homes)
    yield from _services(plan, subnet)


def _services(plan: ClusterPlan, subnet: SubnetUse) -> Iterator[Box]:
    for use in subnet.uses:
        if use.kind == "nat-gateway":
            yield _small("nat-gateway", "balancer", "NAT gateway", "for all private subnets, outbound only")
        elif use.kind == "login-nodes" and "login nodes" in plan.machines:
            yield _small("login", "node", "login nodes", f"{use.words}, {plan.machines['login nodes'].instance_type}")
        elif use.kind == "endpoints":
            yield _small("", "balancer", "endpoints", use.words)


def _small(key: str, style: str, title: str, words: str) -> Box:
    return Box(style=style, key=key, texts=[Text(text=title, bold=True, size=11), _note(words)], padding=6)


def _part_key(fleet: FleetReport, subnet: str) -> str:
    return f"fleet/{fleet.name}/{subnet}"


def _fleet(fleet: FleetReport, place: int) -> Box:
    """The nodes of a fleet in one of its subnets; the first of them also describes the fleet."""
    parts = len(fleet.subnets)
    here = range(place, fleet.maximum_nodes, parts)
    nodes = nodes_text(fleet.minimum_nodes, fleet.maximum_nodes)
    lines = list(_fleet_words(fleet)) if not place else []
    title = f"{fleet.name}: {nodes}"
    if parts > 1:
        most = "" if fleet.minimum_nodes == fleet.maximum_nodes else "up to "
        title = f"{fleet.name}: {most}{count(len(here), 'node')} here"
        lines += [] if place else [f"{nodes}, spread over {count(parts, 'subnet')}"]
    words = group(
        texts=[
            Text(text=fleet.purpose, size=11, bold=True, style=_style(fleet)),
            Text(text=title, bold=True, size=13, wraps=True),
            Text(text=fleet.node.instance_type, bold=True, size=11),
            *map(_note, lines),
        ]
    )
    return Box(
        style=_style(fleet),
        key=_part_key(fleet, fleet.subnets[place]),
        children=[words, _machines(fleet, here)],
        direction=Direction.ROW,
        minimum_child_width=180,
        padding=10,
        gap=12,
    )


def _style(fleet: FleetReport) -> str:
    return "train" if fleet.purpose == "training" else "infer"


def _fleet_words(fleet: FleetReport) -> Iterator[str]:
    node, servers = fleet.node, fleet.servers
    yield fleet.capacity.words
    if fleet.node_group:
        kind = "node pool of Karpenter" if fleet.node_group.managed_by == "karpenter" else "node group"
        yield f"{kind}, {fleet.node_group.capacity_type}"
    if fleet.placement.strategy:
        yield f"{fleet.placement.strategy} placement group"
    if node.network.efa_interface_count:
        yield f"EFA {gbps(node.network.efa_gbps)} per node, {count(node.network.efa_interface_count, 'interface')}"
    if node.mig:
        yield f"MIG: {count(node.mig.slices, 'slice')} per node"
    if servers:
        size = len(servers.servers[0]) if servers.servers else 1
        each = f", each on {size} accelerators" if size > 1 else ""
        if servers.nodes_per_server is None:
            yield f"{count(servers.servers_per_node, 'model server')} per node{each}"
        else:
            yield f"1 model server over {servers.nodes_per_server} nodes"
    for one in fleet.mounts:
        yield f"{one.mount_point}: {one.store}, over {'EFA' if one.over_efa else 'TCP'}"


def _machines(fleet: FleetReport, indices: Sequence[int]) -> Box:
    """Nodes one by one, or as racks."""
    nodes = len(indices)
    if nodes <= MOST_SINGLE_NODES:
        cells = filled_up([_node(fleet, index) for index in indices], 2 if fleet.node.mig else _LEAST_PLACES)
        return group(*cells, gap=5, direction=Direction.GRID, minimum_child_width=120 if fleet.node.mig else 54)
    size = next((one for one in _RACK_SIZES if nodes <= one * _MOST_RACKS), ceil(nodes / _MOST_RACKS))
    racks = [min(size, nodes - begin) for begin in range(0, nodes, size)]
    boxes = [_rack(fleet, one) for one in racks]
    grid = group(*boxes, gap=5, direction=Direction.GRID, minimum_child_width=54)
    legend = _note(f"one rack is {size} nodes; {count(fleet.accelerators, 'accelerator')} in all")
    return group(grid, texts=[legend])


def _node(fleet: FleetReport, index: int) -> Box:
    waits = index >= fleet.minimum_nodes
    marks = accelerator_marks(fleet)
    fabric = Box(style="efa-mark", padding=0, height=4)
    return Box(
        style="spare" if waits else "node",
        children=[*marks, *([fabric] if fleet.node.network.efa_interface_count else [])],
        texts=[] if marks else [Text(text="CPU", size=10, style="note", centred=True)],
        padding=6,
        gap=4,
        height=26,
        title=f"{fleet.name} node {index + 1}: {fleet.node.instance_type}",
    )


def _rack(fleet: FleetReport, nodes: int) -> Box:
    shelves = [Box(style=f"{_style(fleet)}-mark", padding=0, height=4) for _ in range(6)]
    number_of = Text(text=str(nodes), size=11, bold=True, centred=True)
    return Box(style="node", texts=[number_of], children=shelves, padding=6, gap=3, title=count(nodes, "node"))


def _lustre(store: StorePlan) -> Box:
    lustre = store.lustre
    if lustre is None:
        raise ValueError(f"{store.name} is no file system")
    size = "elastic" if lustre.storage_capacity_gib is None else f"{number(lustre.storage_capacity_gib)} GiB"
    lines = [
        f"FSx for Lustre {lustre.lustre_version}, {size}",
        f"{number(lustre.throughput_mb_per_s)} MB/s, {'EFA and TCP' if lustre.efa else 'TCP'}",
    ]
    return _store_box(_store_key(store.name), store.name, lines)


def _homes(name: str, homes: HomesPlan) -> Box:
    if homes.storage_capacity_gib is None or homes.throughput_mb_per_s is None:
        lines = ["Amazon EFS, elastic", "NFS over TCP"]
    else:
        lines = [
            f"FSx for OpenZFS, {number(homes.storage_capacity_gib)} GiB",
            f"{number(homes.throughput_mb_per_s)} MB/s, NFS over TCP",
        ]
    return _store_box(_store_key(name), name, lines)


# What is outside of the zones: clients and load balancers above, stores and the internet below.


def _clients(plan: ClusterPlan) -> list[Box]:
    """All that may send requests, as one box."""
    balancers = [fleet.load_balancer for fleet in plan.fleets if fleet.load_balancer]
    clients = dict.fromkeys(client for one in balancers for client in one.clients)
    return [_small("clients", "outside", "clients", ", ".join(clients))] if balancers else []


def _balancer(fleet: FleetReport) -> Box:
    balancer = fleet.load_balancer
    if balancer is None:
        raise ValueError(f"{fleet.name} has no load balancer")
    where = "internet-facing" if balancer.internet_facing else "internal"
    words = f"{where}, {balancer.protocol.upper()} on port {balancer.port}, in {', '.join(balancer.subnets)}"
    return _small(f"balancer/{fleet.name}", "balancer", f"load balancer of {fleet.name}", words)


def _store_key(name: str) -> str:
    return f"store/{name}"


def _store_box(key: str, title: str, lines: Sequence[str]) -> Box:
    size = 11 if title.startswith("s3://") else 13
    return Box(style="store", key=key, texts=[Text(text=title, bold=True, size=size), *map(_note, lines)], padding=10)


def _stores_outside(plan: ClusterPlan) -> Iterator[Box]:
    for store in plan.stores:
        if store.lustre:
            for one in store.lustre.repositories:
                changes = [
                    *(["imports"] if one.auto_import else []),
                    *(["exports"] if one.auto_export else []),
                ]
                way = " and ".join(changes) or "read on request"
                yield _store_box(one.s3_uri, one.s3_uri, [f"linked to {store.name}:{one.path}, {way}"])
        elif store.checkpoints:
            buckets = [store.checkpoints.bucket_name or "new bucket"]
            if store.checkpoints.express_zone_id:
                buckets.append(f"S3 Express One Zone in {store.checkpoints.express_zone_id}")
            users = f"checkpoints of {', '.join(store.users)}" if store.users else "checkpoints"
            yield _store_box(_store_key(store.name), store.name, [users, *buckets])
        elif store.homes is None:
            words = f"existing file system {store.resource_id or ''}".strip()
            yield _store_box(_store_key(store.name), store.name, [words])
    for uri, names in _weights(plan).items():
        yield _store_box(uri, uri, [f"model weights of {', '.join(names)}"])


def _weights(plan: ClusterPlan) -> dict[str, list[str]]:
    """Folders of S3 that model weights are copied from, each with its fleets; not those of the stores."""
    linked = {one.s3_uri for store in plan.stores if store.lustre for one in store.lustre.repositories}
    found: dict[str, list[str]] = {}
    for fleet in plan.fleets:
        uri = fleet.servers.weights_s3_uri if fleet.servers else None
        if uri and uri not in linked:
            found.setdefault(uri, []).append(fleet.name)
    return found


def _internet(plan: ClusterPlan) -> list[Box]:
    return [_small("internet", "outside", "internet", "outbound only")] if _has_nat(plan) else []


def _has_nat(plan: ClusterPlan) -> bool:
    return any(use.kind == "nat-gateway" for one in plan.network.subnets for use in one.uses)


# Flows.


def _flows(plan: ClusterPlan) -> Iterator[Flow]:
    for fleet in plan.fleets:
        if fleet.load_balancer:
            yield Flow(kind="request", source="clients", target=f"balancer/{fleet.name}")
    for fleet in plan.fleets:
        for subnet in fleet.subnets:
            yield from _flows_of_part(plan, fleet, _part_key(fleet, subnet))
    system = plan.kubernetes.system_nodes if plan.kubernetes else None
    for subnet in system.subnets if system else ():
        yield Flow(kind="api", source="eks", target=f"system/{subnet}", heads="both")
    if "login nodes" in plan.machines:
        yield Flow(kind="slurm", source="slurm", target="login", heads="both")
    for store in plan.stores:
        for one in store.lustre.repositories if store.lustre else ():
            heads = {(True, False): "from", (False, True): "to", (True, True): "both"}
            ways = heads.get((bool(one.auto_import), bool(one.auto_export)), "from")
            yield Flow(kind="s3", source=_store_key(store.name), target=one.s3_uri, heads=ways)
    if _has_nat(plan):
        yield Flow(kind="internet", source="nat-gateway", target="internet")


def _flows_of_part(plan: ClusterPlan, fleet: FleetReport, part: str) -> Iterator[Flow]:
    if fleet.load_balancer:
        yield Flow(kind="request", source=f"balancer/{fleet.name}", target=part)
    if plan.kubernetes:
        yield Flow(kind="api", source="eks", target=part, heads="both")
    if plan.slurm or plan.parallelcluster:
        yield Flow(kind="slurm", source="slurm", target=part, heads="both")
    if plan.hyperpod and plan.hyperpod.runs == "slurm":
        yield Flow(kind="slurm", source="hyperpod", target=part, heads="both")
    for mount in fleet.mounts:
        kind = "efa" if mount.over_efa else "tcp"
        yield Flow(kind=kind, source=part, target=_store_key(mount.store), heads="both")
    if fleet.checkpoints:
        yield Flow(kind="s3", source=part, target=_store_key(fleet.checkpoints), heads="both")
    if fleet.servers and fleet.servers.weights_s3_uri:
        yield Flow(kind="s3", source=part, target=fleet.servers.weights_s3_uri, heads="from")


def _head(text: str) -> Text:
    return Text(text=text, bold=True, size=13)


def _note(text: str) -> Text:
    return Text(text=text, style="note", size=11, wraps=True)


# The cluster of Amazon EKS on the page: a table of it, and one of its node groups.


def cluster_rows(cluster: KubernetesPlan) -> Iterator[tuple[str, str]]:
    """The rows of the table of the cluster: name and text."""
    yield "version", f"Kubernetes {cluster.version}; {support_words(cluster)}"
    if cluster.stack_name is None:
        yield "cluster", f"{cluster.cluster_name}, which exists already"
    else:
        yield "API server", api_server_words(cluster)
        yield "administered by", ", ".join(cluster.admins) or "none, not even the deploying principal"
        yield "add-ons", ", ".join(cluster.add_ons)
    if cluster.system_nodes is not None:
        yield "system nodes", f"{cluster.system_nodes.node_count} x {cluster.system_nodes.instance_type}"
    yield "services", cluster.service_cidr
    yield "software", "; ".join(software_words(cluster))
    if cluster.slurm is not None:
        yield "Slurm", "; ".join(slinky_words(cluster.slurm))
    if cluster.teams:
        yield "teams", ". ".join(team_words(cluster))


def node_group_rows(plan: ClusterPlan) -> Iterator[tuple[str, ...]]:
    """The rows of the table of node groups: fleet, purchase, pods, resources and taints, size and updates."""
    for fleet in plan.fleets:
        group = fleet.node_group
        if group is not None:
            devices = [f"{name}: {number(many)}" for name, many in group.resources.items()]
            shown = ", ".join(devices) or "no devices"
            taints = f"; taints: {', '.join(group.taints)}" if group.taints else ""
            bought = f"{group.capacity_type}, {group.ami_type}"
            yield (
                fleet.name,
                bought,
                number(group.max_pods),
                shown + taints,
                f"{group.grown_by}; {group.update}",
            )


def cluster_box(cluster: KubernetesPlan) -> Box:
    """The cluster in the topology."""
    name = cluster.cluster_name or "Amazon EKS"
    notes = [api_server_words(cluster)] if cluster.stack_name is not None else ["existing cluster"]
    if cluster.system_nodes is not None:
        nodes = cluster.system_nodes
        notes.append(f"{nodes.node_count} x {nodes.instance_type} for its own pods")
    return Box(
        style="balancer",
        key="eks",
        texts=[_head(f"{name}: Kubernetes {cluster.version}"), *map(_note, notes)],
        padding=10,
    )
