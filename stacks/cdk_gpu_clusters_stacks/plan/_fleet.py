"""A fleet of the plan: nodes, capacity, placement, image, mounts and servers."""

from __future__ import annotations

from cdk_gpu_clusters.catalogue.images import ImageParameter
from cdk_gpu_clusters.fleet.profile import ImageChoice
from cdk_gpu_clusters.node.model_server import DEFAULT_WEIGHTS_PATH
from cdk_gpu_clusters.rules.capacity import DRAIN_BEFORE_END, CapacityDecision, CapacityKind, CapacityTerms, drain_lead
from cdk_gpu_clusters.rules.images import check_moving_image
from cdk_gpu_clusters.rules.inference import servers_required
from cdk_gpu_clusters.rules.lustre_clients import node_reading_rate
from cdk_gpu_clusters.rules.placement import GroupOrigin
from cdk_gpu_clusters_stacks.counting import count
from cdk_gpu_clusters_stacks.spec.capacity import NewReservation, placement_group_of, training_plan_of, utc_text
from cdk_gpu_clusters_stacks.spec.fleet import FleetSpec, ImageById, ImageByOs, ImageByParameter
from cdk_gpu_clusters_stacks.spec.inference import InferenceFleetSpec
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet
from cdk_gpu_clusters_stacks.stack_names import hyperpod_stack, inference_stack, training_stack

from ._batch import report_compute_environment
from ._cost import fleet_cost
from ._hyperpod import report_instance_group
from ._kubernetes import report_node_group
from ._network import balancer_subnet_keys, node_subnet_keys
from ._node import device_count, report_node
from ._parallelcluster import report_slurm_queue
from ._slurm import report_compute_node_group
from .model import (
    BlockPlan,
    CapacityPlan,
    FleetReport,
    ImagePlan,
    LoadBalancerPlan,
    MountPlan,
    PlacementPlan,
    ServersPlan,
)
from .rates import NO_START, hours_of_terms

_HTTPS, _HTTP = 443, 80
#: Facts of a type that a plan shows; the catalogue reports doubts about others.
_SHOWN = (
    "accelerator.memory",
    "accelerator.nv",
    "network.cards",
    "network.efa.ceiling",
    "network.efa.max",
    "local_disks",
)


def report_fleet(view: PlannedFleet, cluster: ClusterSpec) -> FleetReport:
    """Describe one fleet.

    Raises:
        ConfigError: If there is no layout of network interfaces for it, which a checked cluster never has.
    """
    spec = view.spec
    node = report_node(view, view.plan.interfaces)
    devices = device_count(view.plan.instance_type) * spec.maximum_nodes
    is_training = isinstance(spec, FleetSpec)
    return FleetReport(
        name=view.name,
        purpose="training" if is_training else "inference",
        stack_name=stack_of(view, cluster.name),
        minimum_nodes=spec.minimum_nodes,
        maximum_nodes=spec.maximum_nodes,
        nodes_at_deploy=view.plan.minimum,
        node=node,
        accelerators=devices,
        accelerator_memory_gib=0 if node.accelerator is None else devices * node.accelerator.memory_gib_each,
        capacity=report_capacity(view),
        placement=report_placement(view),
        subnets=node_subnet_keys(view),
        availability_zones=view.zones,
        fabric=spec.fabric if isinstance(spec, FleetSpec) and view.has_fabric else None,
        mounts=_mounts(view, cluster),
        checkpoints=spec.checkpoints if isinstance(spec, FleetSpec) else None,
        image=_image(view) if view.profile.image is ImageChoice.LIBRARY else None,
        servers=_servers(view, spec) if isinstance(spec, InferenceFleetSpec) else None,
        load_balancer=_balancer(view, spec),
        update=view.update,
        watch=spec.watch.mode,
        tags=dict(spec.tags),
        cost=fleet_cost(view, cluster.region),
        node_group=report_node_group(view) if view.profile.has_node_group else None,
        compute_node_group=report_compute_node_group(view) if view.profile.joins_slurm else None,
        compute_environment=report_compute_environment(view) if view.profile.joins_batch else None,
        slurm_queue=report_slurm_queue(view) if view.profile.joins_parallelcluster else None,
        instance_group=report_instance_group(view) if view.profile.joins_hyperpod else None,
        notes=tuple(_notes(view)),
    )


def stack_of(view: PlannedFleet, cluster: str) -> str:
    """Name of the stack that a fleet is in: its own, that of all groups of HyperPod, or the one that pcluster makes."""
    if view.profile.joins_hyperpod:
        return hyperpod_stack(cluster)
    if view.profile.joins_parallelcluster:  # pcluster names its own stack after the cluster
        return cluster
    return (training_stack if isinstance(view.spec, FleetSpec) else inference_stack)(cluster, view.name)


def _mounts(view: PlannedFleet, cluster: ClusterSpec) -> tuple[MountPlan, ...]:
    found = []
    for point, name in view.spec.mounts.items():
        store = cluster.data[name]
        over_efa = view.mounts_over_efa(store)
        rate = node_reading_rate(view.plan.instance_type, over_efa=over_efa, node_count=view.spec.maximum_nodes)
        found.append(MountPlan(mount_point=point, store=name, over_efa=over_efa, efa_interfaces=rate.efa_interfaces))
    return tuple(found)


def _image(view: PlannedFleet) -> ImagePlan:
    match view.spec.image:
        case ImageById() as image:
            return ImagePlan(operating_system=image.os, image_id=image.id, moves=False)
        case ImageByParameter() as image:
            return ImagePlan(operating_system=image.os, parameter=image.parameter, moves=True)
        case image:
            pinned = isinstance(image, ImageByOs) and image.pinned
            return _recommended(view.plan.image, pinned=pinned, asked=image is not None)


def _recommended(row: ImageParameter | None, *, pinned: bool, asked: bool) -> ImagePlan:
    if row is None:
        return ImagePlan(moves=not pinned)
    return ImagePlan(
        can_be_pinned=pinned or not asked,
        operating_system=row.operating_system.value,
        parameter=row.parameter,
        moves=not pinned,
        versions=dict(row.versions),
    )


def _servers(view: PlannedFleet, spec: InferenceFleetSpec) -> ServersPlan | None:
    plan, _ = view.server_plan
    if plan is None:
        return None
    on_node = view.profile.runs_model_servers
    weights = spec.server.weights
    copied = None if weights is None else weights.s3_uri
    path = None if weights is None else weights.path or (DEFAULT_WEIGHTS_PATH if copied else None)
    least = servers_required(plan.server_count, spec.min_servers_per_node)
    canary = spec.canary if view.profile.joins_eks else None
    return ServersPlan(
        image=spec.server.image,
        device_kind=plan.kind.value,
        servers=plan.devices,
        servers_per_node=plan.server_count,
        minimum_servers=least if on_node else None,
        node_port=plan.port if on_node else None,
        first_server_port=plan.first_server_port if on_node else None,
        weights_path=path,
        weights_s3_uri=copied,
        cache_path=spec.server.cache_path,
        nodes_per_server=spec.nodes_per_server,
        canary_weights=() if canary is None else canary.weights,
        spare_servers=0 if canary is None else canary.spare_servers,
    )


def _balancer(view: PlannedFleet, spec: FleetSpec | InferenceFleetSpec) -> LoadBalancerPlan | None:
    if not isinstance(spec, InferenceFleetSpec) or not view.profile.runs_model_servers:
        return None
    balancer = spec.load_balancer
    secure = balancer.certificate_arn is not None
    return LoadBalancerPlan(
        internet_facing=balancer.internet_facing,
        protocol="https" if secure else "http",
        port=_HTTPS if secure else _HTTP,
        clients=balancer.clients,
        subnets=balancer_subnet_keys(view),
        requests_per_minute_per_node=spec.requests_per_minute_per_node,
    )


def _notes(view: PlannedFleet) -> list[str]:
    notes = [*view.plan.instance_type.disagreements]
    doubtful = [field for field in view.plan.instance_type.unverified_fields if field.startswith(_SHOWN)]
    if doubtful:
        notes.append(f"unverified of {view.plan.instance_type.name}: {', '.join(doubtful)}")
    if view.plan.image is not None and view.spec.image is None:
        advice = check_moving_image(
            view.plan.image.parameter,
            efa=view.plan.efa,
            node_count=view.spec.maximum_nodes,
            serves_models=view.plan.request.serves_models,
        )
        notes += [f"{one.id}: {one.fix}, unless it is pinned: {one.cause}" for one in advice]
    if view.plan.mig is not None:
        notes.append("the driver may place MIG slices otherwise; the places shown prove that they fit")
    if view.ray is not None:
        head = "the nodes choose the head" if view.ray.head is None else f"{view.ray.head} is the head"
        notes.append(f"every node runs Ray by {view.ray.program} after the checks of its boot; {head}")
    return notes


# How a fleet is bought and placed.


def report_capacity(view: PlannedFleet) -> CapacityPlan:
    """Describe how the nodes of a fleet are bought."""
    capacity = view.spec.capacity
    terms, decision = view.plan.terms, view.plan.decision
    drains_at = max((one.drain_at for one in view.plan.windows if one.drain_at is not None), default=None)
    ends_at = terms.ends_at
    unknown = {}
    if terms.kind.is_block and terms.starts_at is None:
        unknown = dict.fromkeys(("starts_at", "hours"), NO_START)
    if isinstance(capacity, NewReservation):
        unknown["reservation_id"] = "the reservation is made at the deployment"
    hours, plan_arn = hours_of_terms(terms, view.spec.maximum_nodes), training_plan_of(capacity)
    return CapacityPlan(
        kind=terms.kind.value,
        words=_words(terms, view.spec.maximum_nodes) if plan_arn is None else _words_of_plan(plan_arn),
        reason=_reason_of(view),
        reservation_id=terms.reservation_id,
        reservation_group_arn=terms.reservation_group_arn,
        is_made_here=isinstance(capacity, NewReservation),
        # The market of a block is in the template also if the service asks for spot instances itself.
        market_type=decision.market_type if terms.kind.is_block or view.profile.takes_spot else None,
        starts_at=None if terms.starts_at is None else utc_text(terms.starts_at),
        drains_at=None if drains_at is None else utc_text(drains_at),
        ends_at=None if ends_at is None else utc_text(ends_at),
        blocks=_blocks(view) if terms.blocks else (),
        hours=None if hours is None else float(hours),
        terminates_before_launch=decision.terminates_before_launch,
        max_price_usd_per_hour=terms.max_price_usd_per_hour,
        unknown=unknown,
    )


def _blocks(view: PlannedFleet) -> tuple[BlockPlan, ...]:
    terms = view.plan.terms
    return tuple(
        BlockPlan(
            reservation_id=block.reservation_id,
            nodes=window.node_count,
            starts_at=None if block.starts_at is None else utc_text(block.starts_at),
            drains_at=utc_text(block.ends_at - DRAIN_BEFORE_END[terms.kind]),
            ends_at=utc_text(block.ends_at),
        )
        for block, window in zip(terms.blocks, view.plan.windows, strict=True)
    )


def _words(terms: CapacityTerms, nodes: int) -> str:
    group = (terms.reservation_group_arn or "").rpartition("/")[2]
    match terms.kind:
        case CapacityKind.ON_DEMAND:
            return "on demand"
        case CapacityKind.SPOT:
            limit = terms.max_price_usd_per_hour
            return "spot" if limit is None else f"spot, at most {limit:g} USD an hour for each node"
        case CapacityKind.CAPACITY_BLOCK:
            ids = terms.reservation_ids
            return f"{'Capacity Block' if len(ids) == 1 else f'{len(ids)} Capacity Blocks'} {', '.join(ids)}"
        case CapacityKind.ULTRASERVER_BLOCK:
            return f"UltraServer block of the group {group}"
    if terms.reservation_id is not None:
        return f"reservation {terms.reservation_id}"
    if group:
        return f"reservations of the group {group}"
    return f"new On-Demand Capacity Reservation of {count(nodes, 'instance')}"


def _words_of_plan(arn: str) -> str:
    return f"training plan {arn.rpartition('/')[2]}"


def _reason_of(view: PlannedFleet) -> str:
    """What becomes of the nodes with their capacity, under their orchestrator."""
    terms = view.plan.terms
    if view.profile.joins_hyperpod:
        return _of_sagemaker(view)
    if view.profile.joins_parallelcluster:
        return _reason_of_queue(view)
    return _FOR_JOBS if view.profile.joins_batch and terms.kind.is_block else _reason(view, terms, view.plan.decision)


_FOR_JOBS = "AWS Batch launches the nodes for jobs that wait while the block runs; they drain 40 minutes before its end"


def _of_sagemaker(view: PlannedFleet) -> str:
    """Why nodes of HyperPod are there, and when they go."""
    if training_plan_of(view.spec.capacity) is not None:
        return "SageMaker launches the nodes with each block of the plan, and ends them an hour before its end"
    if view.plan.terms.kind is CapacityKind.SPOT:
        return "SageMaker launches Spot Instances, which EC2 takes back on two minutes' notice"
    return "SageMaker launches ordinary instances in an account of its own; no reservation of EC2 is used"


def _reason_of_queue(view: PlannedFleet) -> str:
    """What ParallelCluster does about the capacity: it only launches, and the nodes drain themselves."""
    terms = view.plan.terms
    if terms.ends_at is not None:
        minutes = int(drain_lead(terms, drain_timeout_seconds=view.plan.drain_timeout_seconds).total_seconds() // 60)
        launched = "the nodes are launched when it runs" if terms.kind.is_block else "ordinary instances"
        return f"{launched}, and drain {minutes} minutes before the end"
    if view.plan.decision.market_type == "spot":
        return "EC2 takes nodes back on two minutes' notice; Slurm runs their jobs again on others"
    return "only reserved instances are launched" if terms.kind.is_reserved else "ordinary instances"


def _reason(view: PlannedFleet, terms: CapacityTerms, decision: CapacityDecision) -> str:
    if view.is_pool and terms.kind.is_reserved:
        drains = "; Karpenter drains those of a block 40 minutes before its end" if terms.kind.is_block else ""
        return f"only reserved instances are launched, for pods that wait while the capacity is there{drains}"
    if terms.ends_at is not None:
        minutes = int(drain_lead(terms, drain_timeout_seconds=view.plan.drain_timeout_seconds).total_seconds() // 60)
        if terms.kind is CapacityKind.RESERVATION:
            return f"the nodes drain {minutes} minutes before the end: after it EC2 bills them on demand"
        if not terms.kind.is_block:
            return f"the nodes drain {minutes} minutes before the end of the fleet"
        if terms.blocks:
            return f"each block is filled when it is delivered, and its nodes drain {minutes} minutes before its end"
        return (
            f"the fleet grows when the block is delivered, drains {minutes} minutes before its end, and a deployment "
            "in between never changes its size"
        )
    if decision.terminates_before_launch:
        return "only reserved instances are launched; a broken node goes before its replacement comes"
    if decision.market_type == "spot":
        return "EC2 takes nodes back on two minutes' notice; the node drains then"
    if terms.uses_open_reservations:
        return "ordinary instances; a matching open reservation is used"
    return "ordinary instances; no open reservation of the account is used up by them"


def report_placement(view: PlannedFleet) -> PlacementPlan:
    """Describe the placement group of a fleet."""
    choice = view.plan.placement
    of_reservation = choice.origin is GroupOrigin.RESERVATION
    existing = placement_group_of(view.spec.capacity) if of_reservation else None
    return PlacementPlan(
        strategy=None if choice.strategy is None else choice.strategy.value,
        group_name=existing,
        is_made_here=choice.origin is GroupOrigin.NEW or (of_reservation and existing is None),
        reason=choice.reason,
    )
