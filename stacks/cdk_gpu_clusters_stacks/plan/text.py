"""A plan as text for people."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from cdk_gpu_clusters.rules.capacity import CapacityKind
from cdk_gpu_clusters_stacks.counting import count

from .layout import Footnotes, Row, Section, known, lay_out, number, ranges, usd
from .model import (
    AcceleratorPlan,
    BatchJobPlan,
    CapacityPlan,
    CardPlan,
    CheckpointsPlan,
    ClusterPlan,
    ComputeEnvironmentReport,
    ComputeNodeGroupReport,
    FleetReport,
    HomesPlan,
    HyperPodGroupPlan,
    HyperPodPlan,
    ImagePlan,
    InstanceGroupReport,
    KubernetesPlan,
    LoadBalancerPlan,
    LoginNodesPlan,
    LustrePlan,
    MigGpuSlices,
    NetworkPlan,
    NodeGroupReport,
    NodeMig,
    NodeNetwork,
    NodeReport,
    ParallelClusterPlan,
    ReaderPlan,
    ServersPlan,
    SlinkyPlan,
    SlurmPlan,
    SlurmQueueReport,
    StackPlan,
    StorePlan,
    SubnetUse,
    SystemNodesPlan,
    UsdRange,
)

#: Default width of the text in characters.
WIDTH = 110


def plan_text(plan: ClusterPlan, *, width: int = WIDTH) -> str:
    """A plan as text.

    Args:
        width: Characters of a line; longer words are not broken.
    """
    notes = Footnotes()
    sections = [
        _head(plan),
        *([] if plan.kubernetes is None else [kubernetes_section(plan.kubernetes, notes)]),
        *([] if plan.slurm is None else [slurm_section(plan.slurm, notes)]),
        *([] if plan.parallelcluster is None else [parallelcluster_section(plan.parallelcluster, notes)]),
        *([] if plan.hyperpod is None else [hyperpod_section(plan.hyperpod)]),
        *(fleet_section(fleet, notes) for fleet in plan.fleets),
        *(store_section(store, notes) for store in plan.stores),
        _network(plan.network),
        Section(count(len(plan.stacks), "stack") + ", in the order of deployment", list(_stacks(plan.stacks))),
        Section("Cost of all that has a price", list(_cost(plan))),
    ]
    return lay_out([*sections, *notes.section()], width=width)


def _head(plan: ClusterPlan) -> Section:
    account = plan.account or "of the credentials at deployment"
    rows = [Row("where", [f"{plan.region}, account {account}"])]
    totals = plan.totals
    words = [_several(totals.minimum_nodes, totals.maximum_nodes, "node")]
    if totals.accelerators:
        memory = _range(totals.minimum_accelerator_memory_gib, totals.accelerator_memory_gib)
        devices = _several(totals.minimum_accelerators, totals.accelerators, "accelerator")
        words.append(f"{devices} with {memory} GiB of memory")
    if totals.mig_slices:
        words.append(_several(totals.minimum_mig_slices, totals.mig_slices, "MIG slice"))
    if totals.model_servers:
        words.append(_several(totals.minimum_model_servers, totals.model_servers, "model server"))
    rows.append(Row("in all", [", ".join(words)]))
    if plan.tags:
        rows.append(Row("tags", [", ".join(f"{key}={value}" for key, value in plan.tags.items())]))
    return Section(f"Cluster {plan.name}", rows)


def _several(least: int, most: int, thing: str) -> str:
    """`4 nodes`, or `2 to 4 nodes`."""
    return count(most, thing) if least == most else f"{number(least)} to {number(most)} {thing}s"


def _range(least: float, most: float) -> str:
    return number(most) if least == most else f"{number(least)} to {number(most)}"


def _network(network: NetworkPlan) -> Section:
    rows = [Row("VPC", [_vpc(network)])]
    if network.interface_endpoints:
        rows.append(Row("endpoints", [", ".join([*network.gateway_endpoints, *network.interface_endpoints])]))
    rows += [_subnet(subnet) for subnet in network.subnets if subnet.uses]
    return Section("Network and addresses", rows)


def _vpc(network: NetworkPlan) -> str:
    if not network.is_new:
        return f"{network.vpc_id}, existing; fleets in {network.availability_zone}"
    egress = "no internet access" if network.egress == "closed" else "internet through a NAT gateway"
    logs = "flow logs" if network.flow_logs else "no flow logs"
    return f"new, {network.cidr}; fleets in {network.availability_zone}; {egress}; {logs}"


def _subnet(subnet: SubnetUse) -> Row:
    where = subnet.availability_zone or f"zone unknown ({subnet.unknown['availability_zone']})"
    ids = f"{', '.join(subnet.subnet_ids)}, " if subnet.subnet_ids else ""
    head = f"{subnet.key}: {ids}{subnet.cidr or 'range unknown'}, {where}"
    if subnet.usable_addresses is None:
        room = f"{number(subnet.used_addresses)} used of unknown ({subnet.unknown['usable_addresses']})"
    else:
        room = (
            f"{number(subnet.used_addresses)} used of {number(subnet.usable_addresses)} addresses, "
            f"{number(subnet.free_addresses or 0)} free"
        )
    details = [(use.of or use.kind, f"{number(use.addresses)} ({use.words})") for use in subnet.uses]
    return Row("subnet", [head, room], details)


def _stacks(stacks: tuple[StackPlan, ...]) -> Iterator[Row]:
    for stack in stacks:
        stays = "; its data stay when it is deleted" if stack.outlives else ""
        yield Row(stack.kind, [f"{stack.name}{stays}"])


def _cost(plan: ClusterPlan) -> Iterator[Row]:
    cost = plan.cost
    if cost.usd_per_hour is None or cost.usd_per_day is None:
        yield Row("together", ["unknown: nothing here has a sourced price"])
    else:
        runs = "" if cost.usd_per_run is None else f"; {usd(cost.usd_per_run)} for runs with a start and an end"
        yield Row("together", [f"{usd(cost.usd_per_hour)} an hour, {usd(cost.usd_per_day)} a day{runs}"])
        yield Row("counted", ["; ".join(cost.includes)])
    yield Row("not counted", [f"{what}: {why}" for what, why in cost.missing.items()])


# A fleet.


def fleet_section(fleet: FleetReport, notes: Footnotes) -> Section:
    """One fleet."""
    return Section(f"Fleet {fleet.name} ({fleet.purpose}, stack {fleet.stack_name})", list(_fleet_rows(fleet, notes)))


def _fleet_rows(fleet: FleetReport, notes: Footnotes) -> Iterator[Row]:
    yield Row("nodes", [_size(fleet)])
    yield from node_rows(fleet.node)
    yield Row("capacity", list(_capacity(fleet.capacity)))
    yield Row("placement", [_placement(fleet)])
    yield Row("place", [_place(fleet)])
    if fleet.mounts or fleet.checkpoints:
        yield Row("mounts", list(_mounts(fleet)))
    if fleet.image is not None:
        yield Row("image", [_image(fleet.image, fleet.update)])
    yield from _group_rows(fleet)
    if fleet.servers is not None:
        yield Row("servers", list(_servers(fleet.servers)))
    if fleet.load_balancer is not None:
        yield Row("balancer", [_balancer(fleet.load_balancer)])
    yield from boot_rows(fleet.node)
    yield Row("cost", list(_fleet_cost(fleet, notes)))
    if fleet.notes:
        yield Row("notes", fleet.notes)


def _group_rows(fleet: FleetReport) -> Iterator[Row]:
    """What the orchestrator makes of the fleet."""
    if fleet.node_group is not None:
        yield node_group_row(fleet.node_group)
    if fleet.compute_node_group is not None:
        yield compute_node_group_row(fleet.compute_node_group)
    if fleet.compute_environment is not None:
        yield compute_environment_row(fleet.compute_environment)
    if fleet.slurm_queue is not None:
        yield slurm_queue_row(fleet.name, fleet.slurm_queue)
    if fleet.instance_group is not None:
        yield instance_group_row(fleet.instance_group)


def _size(fleet: FleetReport) -> str:
    nodes = number(fleet.maximum_nodes)
    if fleet.minimum_nodes != fleet.maximum_nodes:
        nodes = f"{number(fleet.minimum_nodes)} to {nodes}"
    text = f"{nodes} x {fleet.node.instance_type}"
    if CapacityKind(fleet.capacity.kind).is_block:
        is_pool = fleet.node_group is not None and fleet.node_group.managed_by == "karpenter"
        text += ", for pods that wait" if is_pool else ", 0 until the block is delivered"
        text += " and jobs wait" if fleet.compute_environment is not None else ""
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
    for block in capacity.blocks:
        since = f"from {block.starts_at}" if block.starts_at else "runs already"
        yield f"{block.reservation_id}: {count(block.nodes, 'node')}, {since}, drained from {block.drains_at} on"
    yield capacity.reason


def _placement(fleet: FleetReport) -> str:
    placement = fleet.placement
    name = f"{placement.group_name}: " if placement.group_name else ""
    made = " (made here)" if placement.is_made_here else ""
    if placement.strategy is None and fleet.capacity.kind.endswith("-block"):
        return f"{placement.reason} ({fleet.capacity.words})"
    return f"{name}{placement.reason}{made}"


def _place(fleet: FleetReport) -> str:
    zones = ", ".join(fleet.availability_zones) or "the first zones of the account"
    text = f"{zones}; {count(len(fleet.subnets), 'subnet')}: {', '.join(fleet.subnets)}"
    return text if fleet.fabric is None else f"{text}; EFA fabric {fleet.fabric}"


def _mounts(fleet: FleetReport) -> Iterator[str]:
    group = fleet.instance_group
    by_pods = ", as a volume of pods" if group is not None and group.partition is None else ""
    for mount in fleet.mounts:
        way = f"EFA ({count(mount.efa_interfaces, 'interface')})" if mount.over_efa else "TCP"
        yield f"{mount.mount_point}: {mount.store}, over {way}{by_pods}"
    if fleet.checkpoints:
        yield f"checkpoints: {fleet.checkpoints}, in CHECKPOINT_S3_URI"


def _image(image: ImagePlan, update: str) -> str:
    system = image.operating_system or "unknown operating system"
    pytorch = f" with PyTorch {image.versions['pytorch']}" if "pytorch" in image.versions else ""
    name = image.image_id or image.parameter or "unknown (no image of the catalogue fits)"
    running = "which then replaces the running nodes" if update == "rolling" else "and running nodes stay as they are"
    until = " unless `gpu-clusters pin-image` has pinned it" if image.can_be_pinned else ""
    moves = f"moves at a deployment{until}, {running}" if image.moves else "pinned"
    driver = image.versions.get("nvidia_driver") or image.versions.get("neuron_driver")
    return f"{system}{pytorch}, {name}; {moves}{f'; driver {driver} by its release note' if driver else ''}"


def _servers(servers: ServersPlan) -> Iterator[str]:
    devices = len(servers.servers[0]) if servers.servers else 0
    what = {"mig": "MIG slice", "neuron": "Neuron device"}.get(servers.device_kind, "GPU")
    head = f"{count(servers.servers_per_node, 'server')} a node of {servers.image}, {count(devices, what)} each"
    if servers.nodes_per_server is not None:
        nodes = f"{servers.nodes_per_server} nodes, {count(devices, what)} of each"
        head = f"1 server of {servers.image} over {nodes}, in a ComputeDomain"
    if servers.first_server_port is None:
        yield f"{head}: pods behind a Service, as `gpu-clusters manifests` writes them"
    else:
        first, last = servers.first_server_port, servers.first_server_port + servers.servers_per_node - 1
        ports = f"port {first}" if first == last else f"ports {first} to {last}"
        yield f"{head}, on {ports} behind {servers.node_port}; healthy with {servers.minimum_servers} up"
    if servers.canary_weights:
        steps = ", then ".join(map(str, servers.canary_weights))
        free = f"; {count(servers.spare_servers, 'place')} of the fleet kept free" if servers.spare_servers else ""
        yield f"new versions first on {steps} percent of the servers, and taken back on errors{free}"
    if servers.weights_path is not None:
        source = f", copied from {servers.weights_s3_uri}" if servers.weights_s3_uri else ""
        yield f"weights at {servers.weights_path}{source}"
    if servers.cache_path is not None:
        yield f"cache at {servers.cache_path}, on the local disks"


def _balancer(balancer: LoadBalancerPlan) -> str:
    facing = "internet-facing" if balancer.internet_facing else "internal"
    clients = ", ".join(balancer.clients) or "nobody"
    text = f"{facing}, {balancer.protocol} on port {balancer.port}; clients: {clients}"
    rate = balancer.requests_per_minute_per_node
    return text if rate is None else f"{text}; scales at {number(rate)} requests a minute for each node"


def _fleet_cost(fleet: FleetReport, notes: Footnotes) -> Iterator[str]:
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
        surge = 0 if fleet.node_group is None else fleet.node_group.surge_nodes
        if surge:
            more = UsdRange(surge * cost.usd_per_node_hour.low, surge * cost.usd_per_node_hour.high)
            yield f"{usd(more, ceiling=cost.is_ceiling)} an hour more during an update, for up to {surge} more nodes"
    if cost.usd_per_run is not None and cost.run_hours is not None:
        yield f"{usd(cost.usd_per_run, ceiling=cost.is_ceiling)} for the run of {number(cost.run_hours)} hours"
    else:
        yield f"for a run: unknown ({cost.unknown['usd_per_run']})"
    yield f"paid {cost.billing}"


def _seen(fleet: FleetReport) -> str:
    """A spot price at the time of its look-up."""
    shots = [price for price in fleet.cost.prices if price.market == "spot"]
    if not shots:
        return ""
    devices = 1 if fleet.node.accelerator is None else fleet.node.accelerator.count
    each = shots[0].usd * (devices if shots[0].unit == "accelerator-hour" else 1)
    return f"; {usd(each)} was seen, in a Region not named"


# A node. Equal cards, and equal GPUs, share a line.


def node_rows(node: NodeReport) -> Iterator[Row]:
    """Rows about one node."""
    machine = f"{node.vcpus} vCPUs and {number(node.memory_gib)} GiB of memory, {node.architecture}"
    yield Row("each node", [machine if node.accelerator is None else f"{machine}; {_accelerator(node.accelerator)}"])
    if node.mig is not None:
        yield _mig(node.mig)
    yield _interfaces(node.network)
    yield Row("bandwidth", [_bandwidth(node.network)])
    yield Row("disks", [_disks(node)])


def boot_rows(node: NodeReport) -> Iterator[Row]:
    """Rows about its boot."""
    lines = [" -> ".join(node.boot_stages)]
    if node.boot_checks:
        lines.append(f"verification asks: {', '.join(node.boot_checks)}")
    yield Row("boot stages", lines)


def _accelerator(one: AcceleratorPlan) -> str:
    if one.share_of_gpu < 1:
        return f"{number(one.share_of_gpu)} of one {one.name}, {number(one.memory_gib_each)} GiB of it"
    words = [f"{one.count} x {one.name} with {number(one.memory_gib_each)} GiB"]
    if one.neuron_cores_each is not None:
        return f"{words[0]} and {count(one.neuron_cores_each, 'NeuronCore')} each"
    if one.nvlink_gbytes_per_s == 0:
        words.append("no NVLink" if one.count > 1 else "")
    else:
        words.append(f"NVLink {known(one.nvlink_gbytes_per_s, 'GB/s', one.unknown.get('nvlink_gbytes_per_s', ''))}")
    words.append("NVSwitch" if one.nvswitch else "")
    words.append(f"part of UltraServer {one.ultraserver}" if one.ultraserver else "")
    return ", ".join(word for word in words if word)


def _interfaces(network: NodeNetwork) -> Row:
    groups: dict[str, list[int]] = defaultdict(list)
    for card in network.cards:
        groups[_card(card)].append(card.index)
    details = [(f"card{'s' if len(cards) > 1 else ''} {ranges(cards)}", text) for text, cards in groups.items()]
    head = (
        f"{count(network.interface_count, 'interface')}, "
        f"{count(network.ip_addresses, 'IP address', 'IP addresses')} (policy {network.policy}; {network.basis})"
    )
    return Row("interfaces", [head], details)


def _card(card: CardPlan) -> str:
    if not card.interfaces:
        return "no interface"
    return ", ".join(f"{one.interface_type} (device {one.device_index})" for one in card.interfaces)


def _bandwidth(network: NodeNetwork) -> str:
    ena = _of(network, "ena_gbps", network.ena_gbps, "hardware_ena_gbps", network.hardware_ena_gbps)
    if not network.hardware_efa_interfaces:
        return f"no EFA on this type; IP {ena}"
    if not network.efa_interface_count:
        return f"no EFA, though the type has it; IP {ena}"
    efa = _of(network, "efa_gbps", network.efa_gbps, "hardware_efa_gbps", network.hardware_efa_gbps)
    return f"EFA {efa}, {count(network.efa_interface_count, 'interface')}; IP {ena}"


def _of(network: NodeNetwork, name: str, planned: float | None, most_name: str, most: float | None) -> str:
    if planned is None:
        return known(None, "", network.unknown[name])
    return f"{number(planned)} of {known(most, 'Gbps', network.unknown.get(most_name, ''))}"


def _disks(node: NodeReport) -> str:
    root, local = node.root_volume, node.local_disks
    text = "root volume as SageMaker has it"
    if root is not None:
        speed = f"{number(root.iops)} IOPS, {number(root.throughput_mib_per_s)} MiB/s"
        text = f"root gp3 of {number(root.size_gib)} GiB, {speed}"
        if root.encryption_key_arn is not None:
            text += f", encrypted by {root.encryption_key_arn}"
    if local is None:
        return f"{text}; no local disks"
    where = f"at {local.mount_point}" if local.mount_point else "left alone" if root else "set up by HyperPod"
    return f"{text}; {local.count} x {number(local.size_gb_each)} GB local, {where}"


def _mig(mig: NodeMig) -> Row:
    doubt = "" if mig.placements_verified else "; no listing of this GPU's placements was found: those of relatives"
    head = f"{count(mig.slices, 'slice')} a node, driver {mig.minimum_driver} or newer{doubt}"
    groups: dict[str, list[int]] = defaultdict(list)
    for gpu in mig.gpus:
        groups[_slices(gpu, mig.memory_slices)].append(gpu.index)
    details = [(f"GPU{'s' if len(gpus) > 1 else ''} {ranges(gpus)}", text) for text, gpus in groups.items()]
    resources = ", ".join(f"{name}: {number(many)}" for name, many in mig.resources.items())
    details += [("MIG_PARTITION", mig.partition.replace(";", "; ")), ("Kubernetes", resources)]
    return Row("MIG", [head], details)


def _slices(gpu: MigGpuSlices, memory_slices: int) -> str:
    if not gpu.slices:
        return "whole"
    many = Counter(one.profile for one in gpu.slices)
    parts = []
    for profile, number_of in many.items():
        starts = [one.start for one in gpu.slices if one.profile == profile]
        where = f"at {', '.join(map(str, starts))}"
        parts.append(f"{profile} {where}" if number_of == 1 else f"{number_of} x {profile} {where}")
    return f"{'; '.join(parts)} of {memory_slices} memory slices"


# A store.

_KINDS = {
    "lustre": "FSx for Lustre",
    "existing_lustre": "existing FSx for Lustre",
    "openzfs": "FSx for OpenZFS",
    "existing_openzfs": "existing FSx for OpenZFS",
    "efs": "Amazon EFS",
    "existing_efs": "existing Amazon EFS",
    "checkpoints": "buckets for checkpoints",
    "existing_checkpoints": "existing buckets for checkpoints",
}


def store_section(store: StorePlan, notes: Footnotes) -> Section:
    """One store."""
    where = f", stack {store.stack_name}, which outlives the fleets" if store.stack_name else ""
    return Section(f"Store {store.name} ({_KINDS[store.kind]}{where})", list(_store_rows(store, notes)))


def _store_rows(store: StorePlan, notes: Footnotes) -> Iterator[Row]:
    if store.resource_id is not None:
        efa = f", {'with' if store.efa else 'without'} EFA" if store.kind == "existing_lustre" else ""
        yield Row("id", [f"{store.resource_id}{efa}"])
    if store.lustre is not None:
        yield from _lustre(store.lustre)
    if store.homes is not None:
        yield Row("file system", [", ".join(_homes(store.homes))])
    for reader in store.readers:
        yield Row("read by", list(_reader(reader)))
    if store.checkpoints is not None:
        yield from _checkpoints(store.checkpoints)
    if store.users:
        yield Row("written by", [", ".join(store.users)])
    if store.cost is not None:
        yield Row("cost", [_store_cost(store, notes)])


def _lustre(lustre: LustrePlan) -> Iterator[Row]:
    size = "elastic" if lustre.storage_capacity_gib is None else f"{number(lustre.storage_capacity_gib)} GiB"
    tier = lustre.throughput_mb_per_s_per_tib
    words = [
        f"{size}, {lustre.deployment_type} {lustre.storage_type}, Lustre {lustre.lustre_version}",
        "with EFA" if lustre.efa else "without EFA",
        "LZ4" if lustre.compression else "not compressed",
        f"backups for {count(lustre.backup_retention_days, 'day')}" if lustre.backup_retention_days else "no backups",
    ]
    yield Row("file system", [", ".join(words)])
    rate = f"{number(lustre.throughput_mb_per_s)} MB/s in all"
    metadata = known(lustre.metadata_iops, "metadata operations a second", "the class has no metadata configuration")
    servers = f"{count(lustre.object_servers, 'object server')} and {count(lustre.metadata_servers, 'metadata server')}"
    yield Row(
        "throughput",
        [f"{rate}{f' ({number(tier)} MB/s for each TiB)' if tier else ''}, {metadata}; {servers}"],
    )
    for link in lustre.repositories:
        ways = [
            f"{word} {', '.join(changes)}"
            for word, changes in (("imports", link.auto_import), ("exports", link.auto_export))
            if changes
        ]
        yield Row("linked", [f"{link.path} = {link.s3_uri}; {'; '.join(ways) or 'nothing by itself'}"])


def _homes(homes: HomesPlan) -> Iterator[str]:
    if homes.storage_capacity_gib is not None and homes.throughput_mb_per_s is not None:
        yield f"{number(homes.storage_capacity_gib)} GiB, {homes.deployment_type}"
        yield f"{number(homes.throughput_mb_per_s)} MB/s in all"
        yield f"{homes.compression} compression" if homes.compression != "NONE" else "not compressed"
        yield count(homes.quotas, "quota") if homes.quotas else "no quotas"
        days = homes.backup_retention_days
        yield f"backups for {count(days, 'day')}" if days else "no backups"
        return
    rate = homes.provisioned_mib_per_s
    yield "elastic size" + (f", {number(rate)} MiB/s provisioned" if rate else f", {homes.throughput_mode} throughput")
    yield "no quotas"
    yield "backups by AWS Backup" if homes.aws_backup else "no backups"


def _reader(reader: ReaderPlan) -> Iterator[str]:
    way = "EFA" if reader.over_efa else "TCP"
    yield f"{reader.fleet} at {reader.mount_point} over {way}, {count(reader.nodes, 'node')}"
    if reader.store_mb_per_s_per_node is not None:
        each = f"{number(reader.store_mb_per_s_per_node)} MB/s for each node"
        if reader.store_mb_per_s_per_accelerator is not None:
            each += f", {number(reader.store_mb_per_s_per_accelerator)} MB/s for each accelerator"
        yield f"gives {each}, when all read at once"
    else:
        yield f"gives: unknown ({reader.unknown['store_mb_per_s_per_node']})"
    if reader.node_mb_per_s is None or reader.fleet_mb_per_s is None:
        yield f"nodes could read: unknown ({reader.unknown['node_mb_per_s']})"
        return
    slower = {"file system": "the file system is the limit", "nodes": "the nodes are the limit"}
    end = f": {slower[reader.limited_by]}" if reader.limited_by else ""
    yield (
        f"nodes could read {number(reader.fleet_mb_per_s)} MB/s, {number(reader.node_mb_per_s)} each "
        f"({reader.basis}){end}"
    )


def _checkpoints(buckets: CheckpointsPlan) -> Iterator[Row]:
    words = [buckets.bucket_name or "named by CloudFormation"]
    if buckets.versioned is not None:
        words.append("versioned" if buckets.versioned else "not versioned")
    if buckets.archive_after_days is not None:
        words.append(f"archived after {count(buckets.archive_after_days, 'day')}")
    if buckets.expire_after_days is not None:
        words.append(f"deleted after {count(buckets.expire_after_days, 'day')}")
    yield Row("bucket", [", ".join(words)])
    if buckets.express_zone_id is not None or buckets.express_bucket_name is not None:
        words = [buckets.express_bucket_name or f"in {buckets.express_zone_id}"]
        if buckets.express_expire_after_days is not None:
            words.append(f"deleted after {count(buckets.express_expire_after_days, 'day')}")
        yield Row("S3 Express", [", ".join(words)])


def _store_cost(store: StorePlan, notes: Footnotes) -> str:
    cost = store.cost
    if cost is None or cost.usd_per_month is None or cost.usd_per_hour is None or cost.usd_per_day is None:
        return "unknown" if cost is None else f"unknown: {cost.unknown['usd_per_month']}"
    mark = notes.mark(cost.prices)
    return (
        f"{usd(cost.usd_per_month)} a month for its storage{mark}; {usd(cost.usd_per_hour)} an hour, "
        f"{usd(cost.usd_per_day)} a day"
    )


# A cluster of Amazon EKS, and a node group in it.


def kubernetes_section(cluster: KubernetesPlan, notes: Footnotes) -> Section:
    """The cluster that the fleets join."""
    where = f"{cluster.cluster_name}, existing" if cluster.stack_name is None else f"stack {cluster.stack_name}"
    return Section(f"Kubernetes on Amazon EKS ({where})", list(_kubernetes_rows(cluster, notes)))


def _kubernetes_rows(cluster: KubernetesPlan, notes: Footnotes) -> Iterator[Row]:
    yield Row("version", [f"{cluster.version}; {support_words(cluster)}"])
    if cluster.stack_name is not None:
        yield Row("API server", [api_server_words(cluster)])
        yield Row("admins", [", ".join(cluster.admins) or "none, not even the deploying principal"])
        yield Row("add-ons", [", ".join(cluster.add_ons)])
    yield Row("services", [cluster.service_cidr])
    if cluster.system_nodes is not None:
        yield Row("system nodes", list(_system_nodes(cluster.system_nodes, notes)))
    yield Row("software", list(software_words(cluster)))
    if cluster.slurm is not None:
        yield Row("Slurm", list(slinky_words(cluster.slurm)))
    if cluster.teams:
        yield Row("teams", list(team_words(cluster)))
    if cluster.usd_per_hour is not None and cluster.usd_per_hour_extended is not None:
        extended = usd(cluster.usd_per_hour_extended)
        mark = notes.mark(cluster.prices)
        yield Row(
            "cost",
            [f"control plane: {usd(cluster.usd_per_hour)} an hour, {extended} in extended support{mark}"],
        )


def support_words(cluster: KubernetesPlan) -> str:
    """When EKS stops to support the version."""
    if cluster.standard_support_ends is None:
        return f"end of support unknown ({cluster.unknown['standard_support_ends']})"
    return f"standard support ends {cluster.standard_support_ends}, extended support {cluster.extended_support_ends}"


def api_server_words(cluster: KubernetesPlan) -> str:
    """Who reaches the API server."""
    inside = "reached from inside the network"
    cidrs = ", ".join(cluster.public_access_cidrs)
    return f"{inside}, and from {cidrs}" if cidrs else f"{inside} only"


def _system_nodes(nodes: SystemNodesPlan, notes: Footnotes) -> Iterator[str]:
    where = f"{count(len(nodes.subnets), 'subnet')}: {', '.join(nodes.subnets)}"
    yield f"{nodes.node_count} x {nodes.instance_type}; {where}"
    if nodes.usd_per_hour is None:
        yield f"price unknown: {nodes.unknown['usd_per_hour']}"
    else:
        yield f"{usd(nodes.usd_per_hour)} an hour{notes.mark(nodes.prices)}"


def software_words(cluster: KubernetesPlan) -> Iterator[str]:
    """Which charts, and who installs them."""
    if not cluster.charts:
        yield "HyperPod's Helm chart, for you to install before the HyperPod cluster"
        return
    yield ", ".join(f"{chart.name} {chart.version}" for chart in cluster.charts)
    source = f", from {cluster.mirror}" if cluster.mirror else ""
    if cluster.software_stack is None:
        yield f"`gpu-clusters manifests` writes it for you to install{source}"
    else:
        by = f"stack {cluster.software_stack}"
        if cluster.karpenter_stack is not None:
            by += f", karpenter by {cluster.karpenter_stack}"
        yield f"installed by {by}{source}"


def slinky_words(slurm: SlinkyPlan) -> Iterator[str]:
    """The partitions of Slurm on the nodes, who reaches it, and what it records."""
    for index, one in enumerate(slurm.partitions):
        nodes = count(one.node_count, "node") + (f" with {one.gres}" if one.gres else "")
        place = "" if one.topology is None else f"; topology {one.topology}"
        yield f"partition {one.name}{', the default one' if index == 0 else ''}: {nodes}{place}"
    login = "a login node, reached inside the cluster only" if slurm.login else "no login node"
    database = slurm.accounting
    yield f"cluster {slurm.name}; {login}; " + (f"accounting in {database}" if database else "no accounting")


def team_words(cluster: KubernetesPlan) -> Iterator[str]:
    """A line for each team: its quotas, its weight and its members."""
    for team in cluster.teams:
        quotas = [
            f"{number(one.nominal)} of {number(one.of)} {one.resource} of {one.fleet}, {number(one.most)} at most, "
            f"lends {number(one.lent)}"
            for one in team.quotas
        ]
        members = f"{count(len(team.members), 'member')} in {team.group}" if team.members else f"group {team.group}"
        yield f"{team.name}: {'; '.join(quotas)}; weight {number(team.weight)}; {members}"


def node_group_row(group: NodeGroupReport) -> Row:
    """The node group of a fleet, or its node pool."""
    pods = f"{number(group.max_pods)} pods a node at most"
    is_pool = group.managed_by == "karpenter"
    image = "image" if is_pool else "image type"
    head = f"capacity type {group.capacity_type}, {image} {group.ami_type}; {pods}"
    resources = ", ".join(f"{name}: {number(many)}" for name, many in group.resources.items())
    details = [
        ("size", group.grown_by),
        ("updates", f"{group.update} ({group.update_strategy})" if group.update_strategy else group.update),
        ("resources", resources or "no devices"),
        ("labels", ", ".join(f"{name}={value}" for name, value in group.labels.items())),
        ("taints", ", ".join(group.taints) or "none"),
    ]
    return Row("node pool" if is_pool else "node group", [head], details)


# A Slurm cluster of AWS PCS, and a compute node group in it.


def slurm_section(cluster: SlurmPlan, notes: Footnotes) -> Section:
    """The Slurm cluster that the fleets join."""
    where = f"{cluster.cluster_id}, existing" if cluster.stack_name is None else f"stack {cluster.stack_name}"
    return Section(f"Slurm on AWS PCS ({where})", list(_slurm_rows(cluster, notes)))


def _slurm_rows(cluster: SlurmPlan, notes: Footnotes) -> Iterator[Row]:
    yield Row("version", [slurm_version_words(cluster)])
    if cluster.most_nodes is not None and cluster.most_jobs is not None:
        yield Row(
            "size", [f"{cluster.size}: {number(cluster.most_nodes)} nodes, {number(cluster.most_jobs)} jobs at most"]
        )
        yield Row("controller", [slurm_services_words(cluster)])
        yield Row("settings", [", ".join(f"{name}={value}" for name, value in cluster.slurm_settings.items())])
    for queue in cluster.queues:
        settings = "".join(f"; {name}={value}" for name, value in queue.slurm_settings.items())
        yield Row("queue", [f"{queue.name}: {', '.join(queue.fleets)}{settings}"])
    if cluster.login is not None:
        yield Row("login nodes", list(login_words(cluster.login, notes.mark(cluster.login.prices))))


def slurm_version_words(cluster: SlurmPlan) -> str:
    """The version of Slurm, and when AWS PCS makes no cluster of it any more."""
    if cluster.version_ends is None:
        return f"{cluster.slurm_version}; end unknown ({cluster.unknown['version_ends']})"
    return f"{cluster.slurm_version}; AWS PCS makes no new cluster of it after {cluster.version_ends}"


def slurm_services_words(cluster: SlurmPlan) -> str:
    """What AWS PCS runs beside the controller."""
    services = {"accounting": cluster.accounting, "REST API": cluster.rest_api, "metrics": cluster.metrics}
    return ", ".join(name if runs else f"no {name}" for name, runs in services.items())


def login_words(login: LoginNodesPlan, mark: str = "") -> Iterator[str]:
    """The login nodes, how people reach them, and what they cost."""
    ways = f"SSH from {', '.join(login.ssh_cidrs)}, or " if login.ssh_cidrs else ""
    yield f"{login.node_count} x {login.instance_type}; {ways}sessions of Systems Manager"
    for point, store in login.mounts.items():
        yield f"{point}: {store}"
    if login.usd_per_hour is None:
        yield f"price unknown: {login.unknown['usd_per_hour']}"
    else:
        yield f"{usd(login.usd_per_hour)} an hour{mark}"


def compute_node_group_row(group: ComputeNodeGroupReport) -> Row:
    """The compute node group of a fleet."""
    settings = "; ".join(f"{name}={value}" for name, value in group.slurm_settings.items())
    records = [" ".join(f"{name}={value}" for name, value in one.items()) for one in group.gres_records]
    return Row(
        "Slurm nodes",
        [
            f"{group.name}-1 and so on; {group.purchase_option}; {group.grown_by}",
            settings,
            *([f"gres.conf: {'; '.join(records)}"] if records else []),
            group.update,
        ],
    )


def compute_environment_row(environment: ComputeEnvironmentReport) -> Row:
    """The compute environment of a fleet, with its queue and its job."""
    made, job = compute_environment_words(environment)
    return Row("AWS Batch", [*made[:2], *job, made[2]])


def compute_environment_words(environment: ComputeEnvironmentReport) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The compute environment with its queue, and its job."""
    wait = "without end" if environment.blocked_minutes is None else f"up to {environment.blocked_minutes:,} minutes"
    bounds = f"{environment.minimum_vcpus:,} to {environment.maximum_vcpus:,} vCPUs"
    made = (
        f"{bounds}, {environment.strategy}; {environment.grown_by}",
        f"a job waits for capacity {wait}",
        environment.update,
    )
    return made, _job_words(environment.job)


def _job_words(job: BatchJobPlan) -> tuple[str, str]:
    """The job of a fleet, and what each of its containers gets."""
    devices = f"{count(job.gpus, 'GPU')}, {count(job.efa_devices, 'EFA device')}"
    end = "" if job.timeout_minutes is None else f", each at most {job.timeout_minutes:,} minutes"
    return (
        f"job: {count(job.nodes, 'node')}, {job.image}; {count(job.attempts, 'attempt')}{end}",
        f"each container: {devices}, {job.memory_mib:,} MiB of memory, of it {job.shared_memory_mib:,} in /dev/shm",
    )


# A cluster of AWS ParallelCluster, and a queue of it.


def parallelcluster_section(cluster: ParallelClusterPlan, notes: Footnotes) -> Section:
    """The cluster that `pcluster` or the deployment makes."""
    machines = {"head node": cluster.head_node, "login nodes": cluster.login}
    marks = {name: notes.mark(one.prices) for name, one in machines.items() if one is not None}
    rows = [
        Row("queue" if name.startswith("queue ") else name, [words.strip()]) for name, words in _named(cluster, marks)
    ]
    return Section(f"Slurm on AWS ParallelCluster (stack {cluster.stack_name})", rows)


def _named(cluster: ParallelClusterPlan, marks: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, words in parallelcluster_words(cluster, marks):
        yield name, f"{name.removeprefix('queue ')}: {words}" if name.startswith("queue ") else words


def parallelcluster_words(
    cluster: ParallelClusterPlan, marks: Mapping[str, str] = MappingProxyType({})
) -> Iterator[tuple[str, str]]:
    """What there is to know about the cluster, by name."""
    yield "version", f"AWS ParallelCluster {cluster.version}"
    yield "made by", _maker(cluster)
    yield "settings", ", ".join(f"{name}={value}" for name, value in cluster.slurm_settings.items())
    for queue in cluster.queues:
        settings = "".join(f"; {name}={value}" for name, value in queue.slurm_settings.items())
        yield f"queue {queue.name}", f"{', '.join(queue.fleets)}{settings}"
    yield "head node", "; ".join(login_words(cluster.head_node, marks.get("head node", "")))
    if cluster.login is not None:
        yield "login nodes", "; ".join(login_words(cluster.login, marks.get("login nodes", "")))


def _maker(cluster: ParallelClusterPlan) -> str:
    if not cluster.is_deployed:
        return "gpu-clusters export --to pcluster, then pcluster create-cluster, after the stacks of the file"
    end = "goes with this resource" if cluster.deleted_with_stack else "stays when this resource goes"
    return f"the deployment, by AWS's custom resource in the stack {cluster.stack_name}; the cluster {end}"


def slurm_queue_row(fleet: str, queue: SlurmQueueReport) -> Row:
    """The queue of a fleet."""
    settings = "; ".join(f"{name}={value}" for name, value in queue.slurm_settings.items())
    names = [
        f"{fleet}-{kind}-{fleet}-1" for kind, many in (("st", queue.static_nodes), ("dy", queue.dynamic_nodes)) if many
    ]
    return Row(
        "Slurm nodes",
        [
            f"{' and '.join(names)} and so on; {queue.capacity_type}; {queue.grown_by}",
            *([settings] if settings else []),
            queue.update,
        ],
    )


# A cluster of SageMaker HyperPod, and an instance group of it.


def hyperpod_section(cluster: HyperPodPlan) -> Section:
    """The cluster of HyperPod that the fleets belong to."""
    return Section(f"SageMaker HyperPod (stack {cluster.stack_name})", [Row(*row) for row in hyperpod_rows(cluster)])


def hyperpod_rows(cluster: HyperPodPlan) -> Iterator[tuple[str, list[str]]]:
    """The rows of the cluster: name and lines."""
    runs = {"slurm": "Slurm, whose slurm.conf SageMaker writes", "eks": "Amazon EKS"}[cluster.runs]
    recovery = "SageMaker reboots and replaces failed nodes" if cluster.node_recovery else "failed nodes stay"
    ways = "nodes are added one by one" if cluster.continuous_provisioning else "SageMaker decides how nodes are added"
    yield "runs on", [f"{runs}; {recovery}; {ways}"]
    if cluster.controller is not None:
        yield "controller", list(_hyperpod_group(cluster.controller))
    if cluster.login is not None:
        yield "login nodes", list(_hyperpod_group(cluster.login))
    if cluster.accounting is not None:
        yield "accounting", [cluster.accounting]
    if cluster.tiered_checkpoint_percent is not None:
        yield "checkpoints", [f"{cluster.tiered_checkpoint_percent} percent of each node's memory, tiered"]


def _hyperpod_group(group: HyperPodGroupPlan) -> Iterator[str]:
    yield f"{group.node_count} x {group.instance_type}; sessions of Systems Manager"
    for point, store in group.mounts.items():
        yield f"{point}: {store}"


def instance_group_row(group: InstanceGroupReport) -> Row:
    """The instance group of a fleet."""
    return Row("HyperPod", instance_group_words(group))


def instance_group_words(group: InstanceGroupReport) -> list[str]:
    """What an instance group is, and what an update does to it."""
    interfaces = "no EFA" if group.interface_type is None else f"{group.interface_type} interfaces"
    place = [] if group.partition is None else [f"partition {group.partition}"]
    labels = [f"label {name}={value}" for name, value in group.labels.items()]
    checks = [f"deep health checks: {', '.join(group.deep_health_checks)}"] if group.deep_health_checks else []
    volume = [] if group.volume_gib is None else [f"{number(group.volume_gib)} GiB at /opt/sagemaker"]
    least = [] if group.least_nodes is None else [f"made from {count(group.least_nodes, 'node')} on"]
    head = [f"group {group.name} of {group.instance_type}", *place, interfaces]
    more = [*labels, *checks, *volume, *least]
    return ["; ".join(head), *(["; ".join(more)] if more else []), group.update]
