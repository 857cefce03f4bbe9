"""A fleet of the plan."""

from __future__ import annotations

from cdk_gpu_clusters.catalogue.images import ImageParameter
from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.node.model_server import DEFAULT_WEIGHTS_PATH
from cdk_gpu_clusters.rules.capacity import decide_capacity
from cdk_gpu_clusters.rules.inference import servers_required
from cdk_gpu_clusters.rules.lustre_clients import node_reading_rate
from cdk_gpu_clusters_stacks.spec.capacity import capacity_terms
from cdk_gpu_clusters_stacks.spec.data import ExistingLustreSpec, LustreSpec
from cdk_gpu_clusters_stacks.spec.fleet import FleetSpec, ImageById, ImageByOs, ImageByParameter
from cdk_gpu_clusters_stacks.spec.inference import InferenceFleetSpec
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec
from cdk_gpu_clusters_stacks.spec.views import FleetView, plan_slots
from cdk_gpu_clusters_stacks.stack_names import inference_stack, training_stack

from ._capacity import plan_capacity, plan_placement
from ._cost import fleet_cost
from ._network import balancer_subnet_keys, node_subnet_keys
from ._node import device_count, plan_node
from ._node_group import plan_node_group
from .fleet_model import FleetPlan, ImagePlan, LoadBalancerPlan, MountPlan, ServersPlan

_HTTPS, _HTTP = 443, 80
#: Facts of a type that a plan shows; a doubt about others is for the catalogue to tell.
_SHOWN = (
    "accelerator.memory",
    "accelerator.nv",
    "network.cards",
    "network.efa.ceiling",
    "network.efa.max",
    "local_disks",
)


def plan_fleet(view: FleetView, cluster: ClusterSpec) -> FleetPlan:
    """Describe one fleet.

    Raises:
        ConfigError: If there is no layout of network interfaces for it, which a checked cluster never has.
    """
    spec = view.spec
    if view.plan is None:
        raise ConfigError(view.plan_findings)
    node = plan_node(view, view.plan)
    decision = decide_capacity(capacity_terms(spec.capacity), efa=view.uses_efa)
    devices = device_count(view.type) * spec.maximum_nodes
    is_training = isinstance(spec, FleetSpec)
    stack_name = training_stack if is_training else inference_stack
    return FleetPlan(
        name=view.name,
        purpose="training" if is_training else "inference",
        stack_name=stack_name(cluster.name, view.name),
        minimum_nodes=spec.minimum_nodes,
        maximum_nodes=spec.maximum_nodes,
        nodes_at_deploy=0 if decision.size_changes_after_deploy else spec.minimum_nodes,
        node=node,
        accelerators=devices,
        accelerator_memory_gib=0 if node.accelerator is None else devices * node.accelerator.memory_gib_each,
        capacity=plan_capacity(view),
        placement=plan_placement(view),
        subnets=node_subnet_keys(view),
        availability_zones=view.zones,
        fabric=spec.fabric if isinstance(spec, FleetSpec) and view.uses_efa else None,
        mounts=_mounts(view, cluster),
        checkpoints=spec.checkpoints if isinstance(spec, FleetSpec) else None,
        image=None if view.on_eks else _image(view),
        servers=_servers(view, spec) if isinstance(spec, InferenceFleetSpec) else None,
        load_balancer=_balancer(view, spec),
        update=spec.update,
        watch=spec.watch.mode,
        tags=dict(spec.tags),
        cost=fleet_cost(view, cluster.region),
        node_group=plan_node_group(view, view.plan) if view.on_eks else None,
        notes=tuple(_notes(view)),
    )


def _mounts(view: FleetView, cluster: ClusterSpec) -> tuple[MountPlan, ...]:
    found = []
    for point, name in view.spec.mounts.items():
        store = cluster.data[name]
        has_efa = (isinstance(store, LustreSpec) and store.lustre.efa) or (
            isinstance(store, ExistingLustreSpec) and store.existing_lustre.efa
        )
        over_efa = has_efa and view.uses_efa
        rate = node_reading_rate(view.type, over_efa=over_efa, node_count=view.spec.maximum_nodes)
        found.append(
            MountPlan(mount_point=point, store=name, over_efa=over_efa, efa_interfaces=rate.efa_interfaces)
        )
    return tuple(found)


def _image(view: FleetView) -> ImagePlan:
    match view.spec.image:
        case ImageById() as image:
            return ImagePlan(operating_system=image.os, parameter=None, image_id=image.id, moves=False)
        case ImageByParameter() as image:
            return ImagePlan(operating_system=image.os, parameter=image.parameter, image_id=None, moves=True)
        case image:
            pinned = isinstance(image, ImageByOs) and image.pinned
            return _recommended(view.image_row, pinned=pinned)


def _recommended(row: ImageParameter | None, *, pinned: bool) -> ImagePlan:
    if row is None:
        return ImagePlan(operating_system=None, parameter=None, image_id=None, moves=not pinned)
    return ImagePlan(
        operating_system=row.operating_system.value,
        parameter=row.parameter,
        image_id=None,
        moves=not pinned,
        versions=dict(row.versions),
    )


def _servers(view: FleetView, spec: InferenceFleetSpec) -> ServersPlan | None:
    plan, _ = plan_slots(view, spec)
    if plan is None:
        return None
    weights = spec.server.weights
    copied = None if weights is None else weights.s3_uri
    path = None if weights is None else weights.path or (DEFAULT_WEIGHTS_PATH if copied else None)
    least = servers_required(plan.server_count, spec.min_servers_per_node)
    return ServersPlan(
        image=spec.server.image,
        device_kind=plan.kind.value,
        servers=plan.devices,
        servers_per_node=plan.server_count,
        minimum_servers=None if view.on_eks else least,
        node_port=None if view.on_eks else plan.port,
        first_server_port=None if view.on_eks else plan.first_server_port,
        weights_path=path,
        weights_s3_uri=copied,
    )


def _balancer(view: FleetView, spec: FleetSpec | InferenceFleetSpec) -> LoadBalancerPlan | None:
    if view.on_eks or not isinstance(spec, InferenceFleetSpec):
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


def _notes(view: FleetView) -> list[str]:
    notes = [*view.type.disagreements]
    doubtful = [field for field in view.type.unverified_fields if field.startswith(_SHOWN)]
    if doubtful:
        notes.append(f"unverified of {view.type.name}: {', '.join(doubtful)}")
    if view.mig is not None:
        notes.append("the driver may place MIG slices otherwise; the places shown prove that they fit")
    return notes
