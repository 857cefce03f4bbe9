"""A fleet of the cluster file with the plan that every construct, rule and report of it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from cdk_gpu_clusters.catalogue import AcceleratorKind
from cdk_gpu_clusters.catalogue.homes import HomeService, nfs_export, nfs_options
from cdk_gpu_clusters.catalogue.images import Framework, OperatingSystem
from cdk_gpu_clusters.catalogue.pcs import DEFAULT_SLURM_VERSION
from cdk_gpu_clusters.errors import ConfigError, Finding
from cdk_gpu_clusters.fleet.compute_environment import (
    ComputeEnvironmentPlan,
    ComputeEnvironmentRequest,
    MultiNodeJobPlan,
    MultiNodeJobRequest,
    plan_compute_environment,
    plan_multi_node_job,
)
from cdk_gpu_clusters.fleet.compute_node_group import (
    ComputeNodeGroupPlan,
    ComputeNodeGroupRequest,
    plan_compute_node_group,
)
from cdk_gpu_clusters.fleet.instance_group import InstanceGroupPlan, InstanceGroupRequest, plan_instance_group
from cdk_gpu_clusters.fleet.karpenter import is_static
from cdk_gpu_clusters.fleet.node import NodeRequest
from cdk_gpu_clusters.fleet.node_group import NodeGroupPlan, NodeGroupRequest, plan_node_group
from cdk_gpu_clusters.fleet.plan import FleetPlan, Topic, plan_fleet
from cdk_gpu_clusters.fleet.profile import ImageChoice, OrchestratorProfile
from cdk_gpu_clusters.fleet.request import (
    DEFAULT_READY_TIMEOUT_SECONDS,
    Field,
    FleetRequest,
    ImageRequest,
    ReservationFacts,
    SubnetFacts,
)
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.node.exporters import NodeExporters
from cdk_gpu_clusters.node.mig import FabricManagerOrder
from cdk_gpu_clusters.node.model_server import ServerSettings
from cdk_gpu_clusters.node.ray import RayNodes, watch_with_ray
from cdk_gpu_clusters.node.settings import NodeWatch
from cdk_gpu_clusters.node.storage import (
    SCRATCH_MOUNT_POINT,
    LustreMount,
    Mount,
    NfsMount,
    ScratchSettings,
    checkpoint_environment,
)
from cdk_gpu_clusters.rules.batch import LONGEST_WAIT_SECONDS
from cdk_gpu_clusters.rules.cost import Estimate, node_hour
from cdk_gpu_clusters.rules.eks_cluster import MINIMUM_IP_TARGET
from cdk_gpu_clusters.rules.hyperpod import GroupOptions, MountKind
from cdk_gpu_clusters.rules.kubernetes_labels import FLEET_LABEL
from cdk_gpu_clusters.rules.mig import MigLayout
from cdk_gpu_clusters.rules.model_servers import (
    ServerPlan,
    ServerSlots,
    check_mig_slots,
    plan_scratch,
    plan_servers,
)
from cdk_gpu_clusters.rules.scrape import METRICS_PORT

from ._parts import FleetPart, SpecParts, parts_of
from .batch import BatchJobSpec
from .capacity import NewReservation, Reservation, ReservationGroup, capacity_terms, training_plan_of
from .data import StoreSpec, homes_export, homes_service, named_checkpoints, serves_efa
from .fleet import FleetSpec, ImageByOs
from .hyperpod import HyperPodSpec, InstanceGroupSpec
from .inference import InferenceFleetSpec
from .model import ClusterSpec
from .network import ExistingNetwork

#: Fields of the number of nodes.
COUNTS = frozenset({"nodes", "min_nodes", "max_nodes"})
#: Fields of a fleet -> the part of the request that they make.
_PARTS = {
    **dict.fromkeys(COUNTS, Field.NODES),
    "capacity": Field.CAPACITY,
    "efa": Field.EFA,
    "interface_policy": Field.INTERFACES,
    "placement": Field.PLACEMENT,
    "image": Field.IMAGE,
    "mig": Field.MIG,
}
#: What the file's own checks read: the subnets together with all fleets, the time-outs beside the load balancer.
_CHECKED_ELSEWHERE = frozenset({Field.NETWORK, Field.TIMEOUTS})

#: Decides a fleet of a cluster file once: the check, the plan, the manifests and the app request the same.
decide_fleet = lru_cache(maxsize=4096)(plan_fleet)


@dataclass(frozen=True)
class PlannedFleet(FleetPart):
    """A fleet of the file with its plan.

    Attributes:
        parts: The valid parts of the file that it is in.
        plan: What was decided about it.
    """

    parts: SpecParts = field(kw_only=True)
    plan: FleetPlan = field(kw_only=True)

    @classmethod
    def of(cls, part: FleetPart, parts: SpecParts) -> PlannedFleet:
        """Plan a fleet of the file."""
        plan = decide_fleet(fleet_request(part, parts))
        return cls(part.key, part.spec, part.broken, parts=parts, plan=plan)

    @property
    def profile(self) -> OrchestratorProfile:
        """What its orchestrator takes, forbids and does by itself."""
        return self.plan.request.profile

    @property
    def node_count(self) -> int | None:
        """Most nodes that it can have, if that is valid."""
        return None if Field.NODES in self.plan.request.unknown else self.plan.request.maximum

    @property
    def has_fabric(self) -> bool:
        """Whether a fabric of the file is its group; HyperPod and ParallelCluster have one group for all nodes."""
        return self.plan.efa and not self.profile.joins_hyperpod and not self.profile.joins_parallelcluster

    def mounts_over_efa(self, store: StoreSpec | None) -> bool:
        """Whether the data of a store take EFA on its nodes.

        HyperPod mounts by itself, and its API has no word of EFA (botocore, sagemaker: ClusterFsxLustreConfig).
        """
        return bool(serves_efa(store)) and self.plan.efa and not self.profile.joins_hyperpod

    @property
    def zones(self) -> tuple[str, ...]:
        """Zones that its nodes may be in, as far as their names are known."""
        return tuple(subnet.zone for subnet in self.plan.request.subnets if subnet.zone is not None)

    @cached_property
    def node_group(self) -> NodeGroupPlan:
        """What EKS adds to it.

        Raises:
            ConfigError: If there is no layout of network interfaces for it.
        """
        rolls = self.spec.update == "rolling"
        return plan_node_group(
            self.plan, NodeGroupRequest(name=self.name, labels={FLEET_LABEL: self.name}, rolls=rolls)
        )

    @property
    def is_pool(self) -> bool:
        """Whether Karpenter launches its nodes, by the plan of a managed node group."""
        return self.profile.has_node_group and self.spec.managed_by == "karpenter"

    @property
    def is_autoscaled(self) -> bool:
        """Whether the Cluster Autoscaler sizes it: a managed node group with bounds."""
        eks = self.parts.eks
        asked = eks is not None and eks.software.cluster_autoscaler
        return asked and self.profile.has_node_group and not self.is_pool and not self.plan.keeps_size

    @property
    def node_pool(self) -> NodePool:
        """It as manifests know it: whether pods that wait bring nodes, too.

        Raises:
            ConfigError: As `node_group`.
        """
        scales = self.is_autoscaled or (self.is_pool and not is_static(self.plan))
        return replace(self.node_group.pool, scales=scales)

    @cached_property
    def compute_node_group(self) -> ComputeNodeGroupPlan:
        """What AWS PCS adds to it.

        Raises:
            ConfigError: If its type is unknown.
        """
        return plan_compute_node_group(
            self.plan,
            ComputeNodeGroupRequest(
                key=self.name,
                slurm_version=self.slurm_version,
                slurm_settings=self.slurm_node_settings,
                keeps_nodes=self._asks_to_keep_nodes,
            ),
        )

    @cached_property
    def compute_environment(self) -> ComputeEnvironmentPlan:
        """What AWS Batch adds to it.

        Raises:
            ConfigError: If its type is unknown.
        """
        return plan_compute_environment(self.plan, ComputeEnvironmentRequest(keeps_nodes=self._asks_to_keep_nodes))

    @property
    def batch_job(self) -> BatchJobSpec:
        """Its job on AWS Batch, as the file has it."""
        batch = self.parts.batch
        return BatchJobSpec() if batch is None else batch.jobs.get(self.name, BatchJobSpec())

    @cached_property
    def multi_node_job(self) -> MultiNodeJobPlan:
        """What a container of its job on AWS Batch requests.

        Raises:
            ConfigError: If its type is unknown.
        """
        job, layout = self.batch_job, self.plan.interfaces_or_none
        return plan_multi_node_job(
            self.plan.instance_type,
            MultiNodeJobRequest(
                node_count=job.nodes or self.spec.maximum_nodes,
                most_nodes=self.node_count,
                efa_count=0 if layout is None else layout.efa_count,
                memory_mib=job.memory_mib,
                shared_memory_mib=job.shared_memory_mib,
                attempts=job.attempts,
                timeout_seconds=None if job.timeout_minutes is None else job.timeout_minutes * 60,
            ),
        )

    @property
    def blocked_minutes(self) -> int | None:
        """When a job on AWS Batch that waits for capacity is cancelled; None for never: a block may begin in weeks."""
        given = None if self.parts.batch is None else self.parts.batch.blocked_minutes
        return given or (None if self.plan.terms.kind.is_block else LONGEST_WAIT_SECONDS // 60)

    @property
    def _asks_to_keep_nodes(self) -> bool:
        """Whether the file has `update: never`, which is the default only of other orchestrators."""
        return "update" in self.spec.model_fields_set and self.spec.update == "never"

    @property
    def group_options(self) -> InstanceGroupSpec:
        """What the file has of its instance group beyond other orchestrators."""
        hyperpod = self.parts.hyperpod
        return InstanceGroupSpec() if hyperpod is None else hyperpod.groups.get(self.name, InstanceGroupSpec())

    @property
    def partition(self) -> str | None:
        """Its partition in Slurm on HyperPod; None on Amazon EKS."""
        return self.group_options.partition or (self.name if self.profile.is_hyperpod_slurm else None)

    @property
    def group_labels(self) -> Mapping[str, str]:
        """Labels of its Kubernetes nodes on HyperPod; none on Slurm."""
        return {} if self.profile.is_hyperpod_slurm else {FLEET_LABEL: self.name}

    @cached_property
    def instance_group(self) -> InstanceGroupPlan:
        """What SageMaker HyperPod adds to it.

        Raises:
            ConfigError: If its type is unknown.
        """
        options, stores = self.group_options, self.parts.stores or {}
        plan_arn = training_plan_of(self.spec.capacity)
        return plan_instance_group(
            self.plan,
            InstanceGroupRequest(
                known_name=self.name,
                options=GroupOptions(
                    partition=self.partition, labels=tuple(self.group_labels), image_release=options.image_release
                ),
                has_plan=plan_arn is not None,
                plan_arn=plan_arn,
                least_node_count=options.least_nodes,
                deep_checks=options.deep_health_checks,
                # On Amazon EKS pods mount them, as volumes.
                mounts={point: mount_kind(stores.get(name)) for point, name in self.spec.mounts.items()}
                if self.profile.is_hyperpod_slurm
                else {},
                volume_gib=options.volume_gib,
                labels=self.group_labels,
                group_count=1 if self.profile.is_hyperpod_slurm else 2,  # with that of the cluster of Amazon EKS
                is_continuous=(self.parts.hyperpod or HyperPodSpec()).continuous_provisioning,
            ),
        )

    @property
    def static_checkpoints(self) -> Mapping[str, str] | None:
        """The variables of its checkpoints as far as the file has the names of the buckets; None if it has not."""
        spec = self.spec
        if not isinstance(spec, FleetSpec) or spec.checkpoints is None:
            return {}
        names = named_checkpoints((self.parts.stores or {}).get(spec.checkpoints))
        if names is None:
            return None
        folder = spec.checkpoint_folder(self.name)
        uris = [None if one is None else f"s3://{one}/{folder}".rstrip("/") for one in names]
        return checkpoint_environment(s3_uri=str(uris[0]), express_s3_uri=uris[1])

    @property
    def slurm_node_settings(self) -> Mapping[str, str]:
        """What the file sets of its nodes in slurm.conf."""
        section = self.parts.slurm_section
        return {} if section is None else section.node_settings.get(self.name, {})

    @property
    def slurm_version(self) -> str:
        """Version of Slurm of the cluster that it joins."""
        pcs = self.parts.pcs
        if pcs is None:
            return DEFAULT_SLURM_VERSION
        return pcs.existing.slurm_version if pcs.existing else pcs.slurm_version or DEFAULT_SLURM_VERSION

    @property
    def update(self) -> str:
        """What a changed launch template does to running nodes: `never` or `rolling`. Slurm and Batch replace them."""
        return "rolling" if self.profile.runs_slurm or self.profile.joins_batch else self.spec.update

    @property
    def root_volume_gib(self) -> int:
        """Size of the root volume of a node."""
        return self.spec.root_volume.size_gib or self.profile.root_volume_gib

    @property
    def paid_nodes(self) -> tuple[int, int]:
        """Least and most nodes that are paid for: all that is reserved is paid, whether the fleet scales or not."""
        most = self.spec.maximum_nodes
        return (most if self.plan.terms.kind.is_reserved else self.spec.minimum_nodes), most

    def node_hour(self, region: str) -> Estimate:
        """What one node costs for an hour."""
        terms = self.plan.terms
        if self.profile.joins_hyperpod:
            return Estimate(low=None, high=None, reason="the catalogue has no prices of SageMaker HyperPod")
        return node_hour(
            self.plan.instance_type,
            terms.kind,
            region=region,
            availability_zone=self.zones[0] if self.zones else None,
            node_count=self.spec.maximum_nodes,
            max_price_usd_per_hour=terms.max_price_usd_per_hour,
        )

    @property
    def surge_nodes(self) -> int:
        """How many nodes a deployment may add for the time of an update."""
        if not self.profile.has_node_group or not self.node_group.request.rolls:
            return 0
        if self.is_pool:  # one that scales has no room above its maximum
            return self.node_group.request.max_unavailable if is_static(self.plan) else 0
        return self.node_group.surge_nodes

    @property
    def scratch(self) -> ScratchSettings | None:
        """The file system on the local disks of a node; None if it has none."""
        disks = self.plan.local_disks
        return ScratchSettings(disk_count=disks) if disks and self.scratch_plan[0] else None

    @cached_property
    def scratch_plan(self) -> tuple[bool, list[Finding]]:
        """Whether local disks become one file system, and what is wrong with what lies on it."""
        if isinstance(self.spec, FleetSpec):
            return self.spec.scratch and not self.profile.joins_hyperpod, []
        weights = self.spec.server.weights
        return plan_scratch(
            None if weights is None else weights.path,
            self.plan.instance_type,
            scratch=SCRATCH_MOUNT_POINT,
            requested=self.spec.scratch,
            mount_points=self.spec.mounts,
            copied=weights is not None and weights.s3_uri is not None,
            cache_path=self.spec.server.cache_path,
        )

    @cached_property
    def server_plan(self) -> tuple[ServerPlan | None, list[Finding]]:
        """The model servers of a node, and what is wrong with their slots.

        There is no plan for a training fleet, and none if the MIG layout has a fault.
        """
        spec, mig, findings = self.spec, self.plan.mig, list[Finding]()
        if isinstance(spec, FleetSpec):
            return None, []
        if self.broken & {"mig", "devices_per_server"} or (spec.mig is not None and mig is None):
            return None, []
        slots, accelerator = spec.slots, self.plan.instance_type.accelerator
        if spec.nodes_per_server is not None and accelerator is not None:
            slots = ServerSlots.tensor_parallel(accelerator.count)
        if mig is not None:
            findings = check_mig_slots(slots, mig.slices_per_node, whole_gpus=mig.whole_gpus_per_node)
            slots = ServerSlots.per_mig_slice(mig.slices_per_node)
        try:
            plan = plan_servers(self.plan.instance_type, slots)
        except ConfigError as fault:
            return None, [*findings, *fault.findings]
        return plan, [*findings, *plan.findings]

    @property
    def server_settings(self) -> ServerSettings | None:
        """The settings of model servers that are part of the node; None if there are none."""
        spec, plan = self.spec, self.server_plan[0]
        if isinstance(spec, FleetSpec) or plan is None or not self.profile.runs_model_servers:
            return None
        server, weights = spec.server, spec.server.weights
        return ServerSettings(
            image=server.image,
            plan=plan,
            container_port=server.port,
            health_path=server.health_path,
            command=server.command,
            environment=server.environment,
            secrets={name: (secret.arn, secret.json_field or "") for name, secret in server.secrets.items()},
            registry_login="" if server.registry_login is None else server.registry_login.arn,
            weights_path="" if weights is None else weights.path or "",
            weights_uri="" if weights is None else weights.s3_uri or "",
            cache_path=server.cache_path or "",
        )

    @property
    def serves_metrics(self) -> bool:
        """Whether a collector reads the metrics of its nodes: the file asks for it, and their watchdog serves them.

        The collector finds no nodes of HyperPod: they are instances of another account.
        """
        monitoring = self.parts.monitoring
        asked = monitoring is not None and monitoring.metrics is not None
        is_found = not self.profile.joins_hyperpod and not self.profile.joins_parallelcluster
        return asked and is_found and self.spec.watch.mode != "off"

    @property
    def has_dns_record(self) -> bool:
        """Whether the collector finds its nodes by a DNS record; those of Amazon EKS it finds by the Kubernetes API."""
        return self.serves_metrics and not self.profile.joins_eks

    @property
    def watch(self) -> NodeWatch:
        """How its nodes are watched."""
        settings = self.spec.watch.settings
        return replace(settings, metrics_port=METRICS_PORT) if self.serves_metrics else settings

    @property
    def ray(self) -> RayNodes | None:
        """Ray on its nodes; None for none."""
        spec = self.spec
        return None if not isinstance(spec, FleetSpec) or spec.ray is None else spec.ray.settings

    @property
    def exporters(self) -> NodeExporters | None:
        """The exporters that its nodes install; None for none. NVIDIA's is for GPUs only."""
        monitoring, record = self.parts.monitoring, self.plan.type_or_none
        if monitoring is None or monitoring.metrics is None or not self.has_dns_record:
            return None
        wanted = monitoring.metrics.installed_exporters
        accelerator = None if record is None else record.accelerator
        has_gpus = accelerator is not None and accelerator.kind is AcceleratorKind.GPU
        found = NodeExporters(dcgm="dcgm" in wanted and has_gpus, node="node" in wanted)
        return found if found.dcgm or found.node else None

    def _mount(self, point: str, store: StoreSpec | None, dns_name: str, mount_name: str) -> Mount:
        is_read_only, service = point in self.spec.read_only_mounts, homes_service(store)
        if service is None:
            return LustreMount(
                mount_point=point,
                dns_name=dns_name,
                mount_name=mount_name,
                efa=bool(serves_efa(store)),
                read_only=is_read_only,
            )
        return NfsMount(
            mount_point=point,
            dns_name=dns_name,
            export_path=homes_export(store, service),
            options=nfs_options(service),
            read_only=is_read_only,
        )

    def node_mounts(self, *, dns_name: str = "", mount_name: str = "") -> tuple[Mount, ...]:
        """The file systems of a node; names in place of those that only the deployment knows, as in `node_request`."""
        stores = self.parts.stores or {}
        return tuple(
            self._mount(point, stores.get(name), dns_name, mount_name) for point, name in self.spec.mounts.items()
        )

    def node_request(self, *, dns_name: str = "", mount_name: str = "") -> NodeRequest:
        """What the file requests of a node.

        Args:
            dns_name: In place of the names of file systems, which only the deployment knows.
            mount_name: In place of their mount names.
        """
        spec, own = self.spec, not self.profile.joins_parallelcluster
        users = spec.metadata_users if isinstance(spec, FleetSpec) else ()
        return NodeRequest(
            watch=self.watch if self.ray is None else watch_with_ray(self.watch),
            exporters=self.exporters,
            fabric_manager_order=FabricManagerOrder(spec.fabric_manager_order),
            # ParallelCluster mounts file systems and local disks itself, and its daemons read the metadata service.
            mounts=self.node_mounts(dns_name=dns_name, mount_name=mount_name) if own else (),
            scratch=own and self.scratch_plan[0],
            node_config=self.node_group.node_config if self.profile.has_node_group else None,
            metadata_users=("*",) if self.profile.has_node_group or self.profile.joins_hyperpod or not own else users,
            slurm_version=self.slurm_version if self.profile.joins_slurm else None,
        )


def mount_kind(store: StoreSpec | None) -> MountKind:
    """What HyperPod takes a store for; one with a fault may be of any kind."""
    service = homes_service(store)
    if service is None:
        return MountKind.LUSTRE
    is_whole = service is HomeService.OPENZFS and homes_export(store, service) == nfs_export(service)
    return MountKind.OPENZFS if is_whole else MountKind.OTHER


def planned_fleets(spec: ClusterSpec) -> list[PlannedFleet]:
    """The fleets of a cluster: training fleets, then inference fleets, in the order of the file.

    Args:
        spec: A cluster without errors.

    Raises:
        ConfigError: If an instance type is unknown, or there is no layout of network interfaces for it.
    """
    parts = parts_of(spec)
    fleets = [PlannedFleet.of(part, parts) for part in parts.fleets]
    for fleet in fleets:
        if fleet.plan.interfaces_or_none is None:
            raise ConfigError(fleet.plan.about(Topic.TYPE, Topic.INTERFACES))
    return fleets


def fleet_request(part: FleetPart, parts: SpecParts) -> FleetRequest:
    """What the cluster file requests of a fleet, as constructs request it. A field with a fault is unknown."""
    spec, serves = part.spec, isinstance(part.spec, InferenceFleetSpec)
    ready = spec.ready_timeout_seconds if isinstance(spec, InferenceFleetSpec) else None
    mig = spec.mig_layouts
    return FleetRequest(
        name=part.name,
        instance_type=spec.instance_type,
        profile=parts.profile,
        minimum=spec.minimum_nodes,
        maximum=spec.maximum_nodes or None,
        terms=capacity_terms(spec.capacity),
        reservation=_reservation(spec),
        region=parts.region,
        efa=spec.requested_efa,
        interface_policy=spec.requested_interfaces,
        placement=spec.placement_strategy,
        image=_image(spec) if parts.profile.image is ImageChoice.LIBRARY else None,
        mig=mig if mig is None or isinstance(mig, MigLayout) else tuple(mig),
        subnets=_subnets(part, parts),
        pod_addresses=MINIMUM_IP_TARGET if parts.makes_eks and parts.profile.joins_eks else 0,
        serves_models=serves,
        ready_timeout_seconds=ready or DEFAULT_READY_TIMEOUT_SECONDS,
        unknown=_CHECKED_ELSEWHERE | {_PARTS[name] for name in part.broken if name in _PARTS},
    )


def _reservation(spec: FleetSpec | InferenceFleetSpec) -> ReservationFacts:
    capacity = spec.capacity
    if isinstance(capacity, NewReservation):
        return ReservationFacts(is_for_fleet=True)
    if isinstance(capacity, Reservation | ReservationGroup):
        return ReservationFacts(has_placement_group=capacity.placement_group is not None)
    return ReservationFacts()


def _image(spec: FleetSpec | InferenceFleetSpec) -> ImageRequest | None:
    if spec.image is None:
        return None
    system = OperatingSystem(spec.image.os)
    if not isinstance(spec.image, ImageByOs):
        return ImageRequest(operating_system=system, is_own=True)
    framework = None if spec.image.framework is None else Framework(spec.image.framework)
    return ImageRequest(operating_system=system, framework=framework)


def _subnets(part: FleetPart, parts: SpecParts) -> tuple[SubnetFacts, ...]:
    """The subnets of the nodes; of a new network their number may be known without their zones."""
    network = parts.network
    if network is None or part.is_place_unknown:
        return ()
    if not part.is_in_service_subnets:
        return (SubnetFacts(zone=network.availability_zone),)
    if isinstance(network, ExistingNetwork):
        return tuple(SubnetFacts(zone=zone) for zone in network.service_subnets)
    zones = network.control_availability_zones or (None,) * len(network.control_zones)
    return tuple(SubnetFacts(zone=zone) for zone in zones)
