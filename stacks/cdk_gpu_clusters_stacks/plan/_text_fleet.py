"""A fleet as text."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters_stacks.counting import count

from ._layout import Footnotes, Row, Section, number, usd
from ._text_node import boot_rows, node_rows
from .fleet_model import CapacityPlan, FleetPlan, ImagePlan, LoadBalancerPlan, ServersPlan
from .text_kubernetes import node_group_row


def fleet_section(fleet: FleetPlan, notes: Footnotes) -> Section:
    """One fleet."""
    return Section(
        f"Fleet {fleet.name} ({fleet.purpose}, stack {fleet.stack_name})", list(_rows(fleet, notes))
    )


def _rows(fleet: FleetPlan, notes: Footnotes) -> Iterator[Row]:
    yield Row("nodes", [_size(fleet)])
    yield from node_rows(fleet.node)
    yield Row("capacity", list(_capacity(fleet.capacity)))
    yield Row("placement", [_placement(fleet)])
    yield Row("place", [_place(fleet)])
    if fleet.mounts or fleet.checkpoints:
        yield Row("mounts", list(_mounts(fleet)))
    if fleet.image is not None:
        yield Row("image", [_image(fleet.image)])
    if fleet.node_group is not None:
        yield node_group_row(fleet.node_group)
    if fleet.servers is not None:
        yield Row("servers", list(_servers(fleet.servers)))
    if fleet.load_balancer is not None:
        yield Row("balancer", [_balancer(fleet.load_balancer)])
    yield from boot_rows(fleet.node)
    yield Row("cost", list(_cost(fleet, notes)))
    if fleet.notes:
        yield Row("notes", fleet.notes)


def _size(fleet: FleetPlan) -> str:
    nodes = number(fleet.maximum_nodes)
    if fleet.minimum_nodes != fleet.maximum_nodes:
        nodes = f"{number(fleet.minimum_nodes)} to {nodes}"
    text = f"{nodes} x {fleet.node.instance_type}"
    if fleet.capacity.size_changes_after_deploy:
        text += ", 0 until the block is delivered"
    accelerator = fleet.node.accelerator
    if accelerator is not None:
        most = "up to " if fleet.minimum_nodes != fleet.maximum_nodes else ""
        text += (
            f"; {most}{number(fleet.accelerators)} x {accelerator.name} with "
            f"{number(fleet.accelerator_memory_gib)} GiB of memory in all"
        )
    return text


def _capacity(capacity: CapacityPlan) -> Iterator[str]:
    text = capacity.words
    if capacity.starts_at is not None and capacity.ends_at is not None and capacity.hours is not None:
        text += f", {capacity.starts_at} to {capacity.ends_at} ({number(capacity.hours)} hours)"
    elif capacity.ends_at is not None:
        since = ", runs already" if "starts_at" in capacity.unknown else ""
        text += f"{since}, until {capacity.ends_at}"
    if capacity.drains_at is not None:
        text += f"; drained from {capacity.drains_at} on"
    yield text
    yield capacity.reason


def _placement(fleet: FleetPlan) -> str:
    placement = fleet.placement
    name = f"{placement.group_name}: " if placement.group_name else ""
    made = " (made here)" if placement.is_made_here else ""
    if placement.strategy is None and fleet.capacity.kind.endswith("-block"):
        return f"{placement.reason} ({fleet.capacity.words})"
    return f"{name}{placement.reason}{made}"


def _place(fleet: FleetPlan) -> str:
    zones = ", ".join(fleet.availability_zones) or "the first zones of the account"
    text = f"{zones}; {count(len(fleet.subnets), 'subnet')}: {', '.join(fleet.subnets)}"
    return text if fleet.fabric is None else f"{text}; EFA fabric {fleet.fabric}"


def _mounts(fleet: FleetPlan) -> Iterator[str]:
    for mount in fleet.mounts:
        way = f"EFA ({count(mount.efa_interfaces, 'interface')})" if mount.over_efa else "TCP"
        yield f"{mount.mount_point}: {mount.store}, over {way}"
    if fleet.checkpoints:
        yield f"checkpoints: {fleet.checkpoints}, in CHECKPOINT_S3_URI"


def _image(image: ImagePlan) -> str:
    system = image.operating_system or "unknown operating system"
    name = image.image_id or image.parameter or "unknown (no image of the catalogue fits)"
    moves = "moves at a deployment, and running nodes stay as they are" if image.moves else "pinned"
    driver = image.versions.get("nvidia_driver") or image.versions.get("neuron_driver")
    return f"{system}, {name}; {moves}{f'; driver {driver} by its release note' if driver else ''}"


def _servers(servers: ServersPlan) -> Iterator[str]:
    devices = len(servers.servers[0]) if servers.servers else 0
    what = {"mig": "MIG slice", "neuron": "Neuron device"}.get(servers.device_kind, "GPU")
    head = (
        f"{count(servers.servers_per_node, 'server')} a node of {servers.image}, {count(devices, what)} each"
    )
    if servers.first_server_port is None:
        yield f"{head}: pods behind a Service, as `gpu-clusters manifests` writes them"
    else:
        first, last = servers.first_server_port, servers.first_server_port + servers.servers_per_node - 1
        ports = f"port {first}" if first == last else f"ports {first} to {last}"
        yield f"{head}, on {ports} behind {servers.node_port}; healthy with {servers.minimum_servers} up"
    if servers.weights_path is not None:
        source = f", copied from {servers.weights_s3_uri}" if servers.weights_s3_uri else ""
        yield f"weights at {servers.weights_path}{source}"


def _balancer(balancer: LoadBalancerPlan) -> str:
    facing = "internet-facing" if balancer.internet_facing else "internal"
    clients = ", ".join(balancer.clients) or "nobody"
    text = f"{facing}, {balancer.protocol} on port {balancer.port}; clients: {clients}"
    rate = balancer.requests_per_minute_per_node
    return text if rate is None else f"{text}; scales at {number(rate)} requests a minute for each node"


def _cost(fleet: FleetPlan, notes: Footnotes) -> Iterator[str]:
    cost = fleet.cost
    mark = notes.mark(cost.prices)
    if cost.usd_per_hour is None or cost.usd_per_day is None or cost.usd_per_node_hour is None:
        yield f"unknown: {cost.unknown['usd_per_hour']}{mark}"
    else:
        each, hour, day = (
            usd(amount, ceiling=cost.is_ceiling)
            for amount in (cost.usd_per_node_hour, cost.usd_per_hour, cost.usd_per_day)
        )
        yield f"{each} an hour for each node ({cost.basis}{_seen(fleet)}){mark}"
        yield f"{hour} an hour, {day} a day for the fleet"
    if cost.usd_per_run is not None and cost.run_hours is not None:
        yield f"{usd(cost.usd_per_run, ceiling=cost.is_ceiling)} for the run of {number(cost.run_hours)} hours"
    else:
        yield f"for a run: unknown ({cost.unknown['usd_per_run']})"
    yield f"paid {cost.billing}"


def _seen(fleet: FleetPlan) -> str:
    """What a spot price was when somebody looked."""
    shots = [price for price in fleet.cost.prices if price.market == "spot"]
    if not shots:
        return ""
    devices = 1 if fleet.node.accelerator is None else fleet.node.accelerator.count
    each = shots[0].usd * (devices if shots[0].unit == "accelerator-hour" else 1)
    return f"; {usd(each)} was seen, in a Region not named"
