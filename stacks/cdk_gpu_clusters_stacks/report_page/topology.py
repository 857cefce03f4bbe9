"""The topology of a cluster: its VPC with zones, subnets and fleets, its stores, and its EKS cluster."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from cdk_gpu_clusters_stacks.counting import count
from cdk_gpu_clusters_stacks.plan import ClusterPlan
from cdk_gpu_clusters_stacks.plan.model import FleetReport, KubernetesPlan, StorePlan, SubnetUse
from cdk_gpu_clusters_stacks.plan.text import api_server_words, software_words, support_words

from .boxes import Box, Direction, Text, filled_up, gbps, group, nodes_text, number, zones_text

#: Nodes that are drawn one by one; more are drawn as racks.
MOST_SINGLE_NODES = 32
#: Nodes of a rack: the first of these that makes no more than `_MOST_RACKS` of them.
_RACK_SIZES = (16, 32, 64, 128, 256, 512, 1024)
_MOST_RACKS = 32
_GPU_MARKS = 8
_LEAST_PLACES = 4


def topology(plan: ClusterPlan) -> Box:
    """The topology of a cluster."""
    network = plan.network
    vpc = f"VPC {network.cidr}" if network.is_new else f"VPC {network.vpc_id} (existing)"
    ways = {"nat": "internet through a NAT gateway", "closed": "no internet", "existing": "its own routes"}
    endpoints = len(network.gateway_endpoints) + len(network.interface_endpoints)
    words = [ways[network.egress], *([count(endpoints, "endpoint")] if endpoints else [])]
    zones = [_zone(plan, key) for key in _zone_keys(plan)]
    inside = Box(
        style="vpc",
        texts=[_head(vpc), _note(", ".join(words))],
        children=[
            *([] if plan.kubernetes is None else [cluster_box(plan.kubernetes)]),
            group(*zones, direction=Direction.ROW, minimum_child_width=330),
        ],
        padding=12,
    )
    outside = list(_outside(plan))
    children = [inside]
    if outside:
        children.append(group(*outside, direction=Direction.ROW, minimum_child_width=250))
    return Box(style="none", padding=1, children=children, gap=12)


def _zone_keys(plan: ClusterPlan) -> list[tuple[str, ...]]:
    """The sets of subnets that fleets stand in, each with what belongs to it; then those that hold no fleet."""
    used = dict.fromkeys(fleet.subnets for fleet in plan.fleets)
    for store in plan.stores:
        if store.lustre and not any(store.lustre.subnet in keys for keys in used):
            used[store.lustre.subnet,] = None
    return list(used)


def _zone(plan: ClusterPlan, keys: tuple[str, ...]) -> Box:
    subnets = [one for one in plan.network.subnets if one.key in keys]
    fleets = [_fleet(one) for one in plan.fleets if one.subnets == keys]
    stores = [_lustre(one) for one in plan.stores if one.lustre and one.lustre.subnet in keys]
    zones = list(dict.fromkeys(one.availability_zone for one in subnets if one.availability_zone))
    return Box(
        style="zone",
        texts=[_head(zones_text(zones))],
        children=[
            group(*map(_subnet, subnets), direction=Direction.ROW, minimum_child_width=150),
            *fleets,
            *stores,
        ],
        padding=10,
    )


def _subnet(one: SubnetUse) -> Box:
    where = one.cidr or ", ".join(one.subnet_ids) or "existing"
    return Box(style="subnet", texts=[Text(text=one.key, bold=True, size=11), _note(where)], padding=6)


def _fleet(fleet: FleetReport) -> Box:
    node = fleet.node
    style = "train" if fleet.purpose == "training" else "infer"
    nodes = nodes_text(fleet.minimum_nodes, fleet.maximum_nodes)
    lines = [fleet.capacity.words]
    if fleet.node_group:
        lines.append(f"managed node group, {fleet.node_group.capacity_type}")
    if fleet.placement.strategy:
        lines.append(f"{fleet.placement.strategy} placement group")
    if node.network.efa_interface_count:
        lines.append(
            f"EFA {gbps(node.network.efa_gbps)} a node, {count(node.network.efa_interface_count, 'interface')}"
        )
    if node.mig:
        lines.append(f"MIG: {count(node.mig.slices, 'slice')} a node")
    if fleet.servers:
        lines.append(f"{count(fleet.servers.servers_per_node, 'model server')} a node")
    lines += [f"{one.mount_point}: {one.store}, over {'EFA' if one.over_efa else 'TCP'}" for one in fleet.mounts]
    children = [_balancer(fleet)] if fleet.load_balancer else []
    return Box(
        style=style,
        texts=[
            _head(f"{fleet.name}: {nodes}"),
            Text(text=node.instance_type, bold=True, size=11),
            *map(_note, lines),
        ],
        children=[*children, _machines(fleet)],
        padding=10,
    )


def _balancer(fleet: FleetReport) -> Box:
    balancer = fleet.load_balancer
    if balancer is None:
        raise ValueError(f"{fleet.name} has no load balancer")
    where = "internet-facing" if balancer.internet_facing else "internal"
    words = f"{where}, {balancer.protocol.upper()} on port {balancer.port}"
    return Box(style="balancer", texts=[Text(text="load balancer", bold=True, size=11), _note(words)], padding=6)


def _machines(fleet: FleetReport) -> Box:
    """The nodes one by one, or as racks."""
    nodes = fleet.maximum_nodes
    if nodes <= MOST_SINGLE_NODES:
        cells = filled_up([_node(fleet, index) for index in range(nodes)], _LEAST_PLACES)
        return group(*cells, gap=5, direction=Direction.GRID, minimum_child_width=54)
    size = next((one for one in _RACK_SIZES if nodes <= one * _MOST_RACKS), ceil(nodes / _MOST_RACKS))
    racks = [min(size, nodes - begin) for begin in range(0, nodes, size)]
    grid = group(*map(_rack, racks), gap=5, direction=Direction.GRID, minimum_child_width=54)
    legend = _note(f"one rack is {size} nodes; {count(fleet.accelerators, 'accelerator')} in all")
    return group(grid, texts=[legend])


def _node(fleet: FleetReport, index: int) -> Box:
    accelerator = fleet.node.accelerator
    marks = min(accelerator.count, _GPU_MARKS) if accelerator else 0
    waits = index >= fleet.minimum_nodes
    cells = [Box(style="gpu-mark", padding=0, height=7) for _ in range(marks)]
    rows = group(*cells, gap=3, direction=Direction.ROW, minimum_child_width=7)
    fabric = Box(style="efa-mark", padding=0, height=4)
    return Box(
        style="spare" if waits else "node",
        children=[*([rows] if cells else []), *([fabric] if fleet.node.network.efa_interface_count else [])],
        texts=[] if cells else [Text(text="CPU", size=10, style="note", centred=True)],
        padding=6,
        gap=4,
        height=26,
        title=f"{fleet.name} node {index + 1}: {fleet.node.instance_type}",
    )


def _rack(nodes: int) -> Box:
    shelves = [Box(style="gpu-mark", padding=0, height=4) for _ in range(6)]
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
    return Box(style="store", texts=[_head(store.name), *map(_note, lines)], padding=10)


def _outside(plan: ClusterPlan) -> Iterator[Box]:
    for store in plan.stores:
        if store.lustre:
            for one in store.lustre.repositories:
                changes = [
                    *(["imports"] if one.auto_import else []),
                    *(["exports"] if one.auto_export else []),
                ]
                way = " and ".join(changes) or "read on request"
                yield Box(
                    style="store",
                    texts=[_head(one.s3_uri), _note(f"linked to {store.name}:{one.path}, {way}")],
                    padding=10,
                )
        elif store.checkpoints:
            buckets = [store.checkpoints.bucket_name or "new bucket"]
            if store.checkpoints.express_zone_id:
                buckets.append(f"S3 Express One Zone in {store.checkpoints.express_zone_id}")
            users = f"checkpoints of {', '.join(store.users)}" if store.users else "checkpoints"
            yield Box(style="store", texts=[_head(store.name), _note(users), *map(_note, buckets)], padding=10)
        else:
            words = f"existing file system {store.resource_id or ''}".strip()
            yield Box(style="store", texts=[_head(store.name), _note(words)], padding=10)


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
        texts=[_head(f"{name}: Kubernetes {cluster.version}"), *map(_note, notes)],
        padding=10,
    )
