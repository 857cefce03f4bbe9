"""One of the two clusters that `plan --against` compares, as a stack sees it: its keys, and what they come to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from cdk_gpu_clusters.catalogue import AcceleratorKind
from cdk_gpu_clusters.catalogue.pcs import DEFAULT_SLURM_VERSION
from cdk_gpu_clusters.fleet.compute_node_group import PURCHASE_OPTIONS
from cdk_gpu_clusters.fleet.profile import GroupKind
from cdk_gpu_clusters.kubernetes.software.inference import POOL_CHART
from cdk_gpu_clusters.kubernetes.software.node_scaling import scale_from_zero_tags
from cdk_gpu_clusters.node.settings import gpu_facts
from cdk_gpu_clusters.observability.panels import DashboardFleet, plan_dashboard
from cdk_gpu_clusters.rules.capacity import CapacityKind
from cdk_gpu_clusters_stacks.manifests.cluster import kubernetes_version, node_pools, releases, volumes
from cdk_gpu_clusters_stacks.manifests.files import applied
from cdk_gpu_clusters_stacks.spec._users import users_of
from cdk_gpu_clusters_stacks.spec.capacity import NewReservation, training_plan_of
from cdk_gpu_clusters_stacks.spec.changes import ChangingKey, Resource, changing_keys
from cdk_gpu_clusters_stacks.spec.data import LUSTRE, CheckpointsSpec, LustreSpec, home_options, homes_service
from cdk_gpu_clusters_stacks.spec.fleet import FleetSpec, read_script
from cdk_gpu_clusters_stacks.spec.model import ORCHESTRATORS, ClusterSpec, InferenceSpec, TrainingSpec
from cdk_gpu_clusters_stacks.spec.network import ExistingNetwork
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet, planned_fleets

from ._dashboard import dashboard_fleet, scraped_pods, scraped_ports
from ._network import FLEET_SUBNET
from .model import ComputeEnvironmentReport, FleetReport

#: Key, or key and resource -> the value that takes effect.
Values = dict[str | tuple[str, Resource], object]


@dataclass(frozen=True)
class FleetSide:
    """A fleet in one of the two files: its key, its rules, and its plan."""

    view: PlannedFleet
    plan: FleetReport

    @property
    def key(self) -> str:
        """Key of the fleet in its file."""
        return ".".join(map(str, self.view.key))

    @property
    def stores(self) -> frozenset[str]:
        """Stores that the nodes use."""
        names = {mount.store for mount in self.plan.mounts}
        return frozenset(names if self.plan.checkpoints is None else {*names, self.plan.checkpoints})

    @property
    def has_scaling_group(self) -> bool:
        """Whether its nodes are an Auto Scaling group of its stack."""
        return self.view.profile.group is GroupKind.AUTO_SCALING_GROUP

    @property
    def has_node_group(self) -> bool:
        """Whether its nodes are a managed node group of EKS."""
        return self.view.profile.has_node_group and not self.view.is_pool

    @property
    def is_pool(self) -> bool:
        """Whether Karpenter launches its nodes."""
        return self.view.is_pool

    @property
    def has_compute_node_group(self) -> bool:
        """Whether its nodes are a compute node group of AWS PCS."""
        return self.view.profile.joins_slurm

    @property
    def has_compute_environment(self) -> bool:
        """Whether its nodes are a compute environment of AWS Batch."""
        return self.view.profile.joins_batch

    @property
    def puts_reservation_into_group(self) -> bool:
        """Whether its reservation gets a resource group, by which AWS PCS takes it."""
        terms = self.view.plan.terms
        reserved = terms.kind is CapacityKind.RESERVATION and terms.reservation_group_arn is None
        return self.has_compute_node_group and reserved

    @property
    def stops_launches(self) -> bool:
        """Whether a launch loop is stopped."""
        alarms = self.view.spec.alarms
        return self.has_scaling_group and alarms.enabled and alarms.suspends_launching

    @property
    def has_own_placement(self) -> bool:
        """Whether its stack has a placement group; that of a new reservation is in the reservation's stack."""
        return self.plan.placement.is_made_here and not self.plan.capacity.is_made_here


@dataclass(frozen=True)
class Side:
    """One of the two files, for one stack.

    Attributes:
        cluster: The file.
        of: Name of the store, fabric or fleet that the stack is made for.
        entries: Names of fleets and stores whose keys the stack depends on.
        fleet: The fleet of the stack; None for other stacks.
        installs: Whether the stack is that of the software.
        monitors: Whether the stack is that of the dashboard.
    """

    cluster: ClusterSpec
    of: str
    entries: frozenset[str]
    fleet: FleetSide | None = None
    installs: bool = False
    monitors: bool = False

    @cached_property
    def keys(self) -> tuple[ChangingKey, ...]:
        """Keys of the file that can change the stack."""
        return tuple(changing_keys(self.cluster, self.entries))

    @cached_property
    def effective(self) -> Values:
        """Values of keys whose effect is decided by rules, by other keys, or by files."""
        values = _of_cluster(self.cluster)
        if self.fleet is not None:
            values |= _of_fleet(self.cluster, self.fleet)
        elif self.of in self.cluster.data:
            values |= _of_store(self.cluster, self.of)
        if self.installs:
            values |= _of_software(self.cluster)
        if self.monitors:
            values |= _of_dashboard(self.cluster) | _of_scraper(self.cluster)
        return values

    def value(self, key: ChangingKey, resource: Resource) -> object:
        """The value of a key, as it takes effect in a resource."""
        return self.effective.get((key.key, resource), self.effective.get(key.key, key.value))


def _of_cluster(cluster: ClusterSpec) -> Values:
    network, existing = cluster.network, cluster.eks.existing
    return {
        **_of_hyperpod(cluster),
        ("eks.teams", Resource.ADMINS): {name: team.principal_arns for name, team in cluster.eks.teams.items()},
        "eks.kubernetes_version": None if existing else kubernetes_version(cluster),
        "network": tuple(network.service_subnets.items()) if isinstance(network, ExistingNetwork) else (),
        ("network", Resource.SLURM_CLUSTER): network.subnet_ids if isinstance(network, ExistingNetwork) else (),
        ("network", Resource.LOGIN_TEMPLATE): _named_subnet(network),
        ("network", Resource.LOGIN_NODES): network.subnet_ids if isinstance(network, ExistingNetwork) else (),
        ("monitoring.budget.emails", Resource.BUDGET): cluster.monitoring.notifies_own_topic,
        ("training", Resource.MORE_ENDPOINTS): cluster.has_karpenter and cluster.training.has_pools,
        ("inference", Resource.MORE_ENDPOINTS): cluster.has_karpenter and cluster.inference.has_pools,
        ("network", Resource.KARPENTER): _place_of_karpenter(cluster),
        ("eks.software", Resource.KARPENTER): cluster.eks.software.mirror,
        "pcs.slurm_version": None if cluster.pcs.existing else cluster.pcs.slurm_version or DEFAULT_SLURM_VERSION,
        "pcs.queues": bool(cluster.pcs.queues),
        "pcs.users": _users(cluster),
        ("pcs.login.mounts", Resource.LOGIN_NODES): _mounts_of_login(cluster),
        ("pcs.login.mounts", Resource.LOGIN_MOUNT_RULES): sorted({*cluster.pcs.login.mounts.values()}),
        ("pcs.login.ssh_cidrs", Resource.LOGIN_TEMPLATE): bool(cluster.pcs.login.ssh_cidrs),
    }


def _of_software(cluster: ClusterSpec) -> Values:
    network = cluster.network
    place = None
    if isinstance(network, ExistingNetwork):
        place = network.vpc_id, network.subnet_ids, *network.service_subnets.items()
    # Without teams, which have a key of their own.
    alone = cluster.model_copy(update={"eks": cluster.eks.model_copy(update={"teams": {}})})
    pools = node_pools(alone, volumes(alone))
    # Which fleets have no queue because they belong to Slurm is in the values of its chart.
    software = cluster.eks.software.model_copy(update={"slurm": None})
    queued = alone.model_copy(update={"eks": alone.eks.model_copy(update={"software": software})})
    charts = releases(alone, pools.values())
    # The chart of a pool follows its model.
    models = [one for one in charts if one.chart == POOL_CHART]
    return {
        "eks.software": [one for one in charts if one.chart != POOL_CHART],
        "eks.teams": cluster.eks.all_teams,
        "network": place,
        "training": _applied(queued.model_copy(update={"inference": InferenceSpec()})),
        "inference": (_applied(queued.model_copy(update={"training": TrainingSpec()})), models),
    }


def _of_dashboard(cluster: ClusterSpec) -> Values:
    """What the dashboard shows of fleets and file systems."""
    fleets: dict[object, list[DashboardFleet]] = {"training": [], "inference": []}
    for view in sorted(planned_fleets(cluster), key=lambda one: one.name):
        fleets[view.key[0]].append(dashboard_fleet(view, cluster))
    return {
        "training": plan_dashboard(fleets["training"]),
        "inference": plan_dashboard(fleets["inference"]),
        "data": sorted(name for name, store in cluster.data.items() if isinstance(store, LUSTRE)),
    }


def _of_scraper(cluster: ClusterSpec) -> Values:
    """What the collector of metrics reads."""
    on_eks = cluster.orchestrator == "eks"
    scraped: dict[object, dict[str, object]] = {"training": {}, "inference": {}}
    for view in sorted(planned_fleets(cluster), key=lambda one: one.name):
        if view.serves_metrics:
            scraped[view.key[0]][view.name] = scraped_ports(view, cluster)
    return {
        ("training", Resource.SCRAPER): scraped["training"],
        ("inference", Resource.SCRAPER): (scraped["inference"], scraped_pods(cluster) if on_eks else []),
        ("orchestrator", Resource.SCRAPER): on_eks,
    }


def _place_of_karpenter(cluster: ClusterSpec) -> object:
    """Where the function that applies node pools runs, and whether Karpenter asks for prices."""
    network = cluster.network
    if isinstance(network, ExistingNetwork):
        return network.vpc_id, network.subnet_ids, *network.service_subnets.items()
    return network.egress == "closed"


def _named_subnet(network: object) -> str | None:
    """The subnet that the interfaces of nodes of AWS PCS name: the only one of an existing network."""
    if not isinstance(network, ExistingNetwork) or len(network.subnet_ids) > 1:
        return None
    return network.subnet_ids[0]


def _mounts_of_login(cluster: ClusterSpec) -> object:
    """What the lifecycle scripts of login nodes start: mounts of NFS, of Lustre, or both."""
    return {homes_service(cluster.data[name]) is None for name in cluster.pcs.login.mounts.values()}


def _users(cluster: ClusterSpec) -> object:
    """The users of all nodes, not the name of their file."""
    return None if cluster.pcs.users is None else users_of(cluster.pcs.users)


def _applied(cluster: ClusterSpec) -> object:
    """What is installed for the fleets of a cluster."""
    pools = node_pools(cluster, volumes(cluster))
    manifests = applied(cluster, pools) if pools else {}
    return {path: manifest.objects for path, manifest in manifests.items()}


def _of_store(cluster: ClusterSpec, name: str) -> Values:
    """The subnet of a file system: in a network made here it moves with the fleets' subnet only."""
    store, network = cluster.data[name], cluster.network
    options = store.lustre if isinstance(store, LustreSpec) else home_options(store)
    if options is None or not isinstance(network, ExistingNetwork):
        return {"network": None}
    return {"network": options.subnet_id or network.subnet_ids[0]}


def _of_fleet(cluster: ClusterSpec, side: FleetSide) -> Values:
    """What the keys of a fleet come to, and keys of the cluster in its stack."""
    plan, spec, view = side.plan, side.view.spec, side.view
    node, placement = plan.node, plan.placement
    own: Values = {
        "image": plan.image,
        "managed_by": side.is_pool,
        ("instance_type", Resource.PCS_TEMPLATE): _of_type(side),
        "efa": node.network.efa_interface_count > 0,
        ("mig", Resource.COMPUTE_NODE_GROUP): view.plan.mig and view.plan.mig.resources,
        ("efa", Resource.NODE_GROUP_IDENTITY): node.network.efa_interface_count,
        "interface_policy": node.network.policy,
        "fabric": plan.fabric,
        "mig": None if view.plan.mig is None else view.plan.mig.partition,
        "fabric_manager_order": None if view.plan.mig is None else spec.fabric_manager_order,
        "mounts": plan.mounts,
        ("mounts", Resource.COMPUTE_NODE_GROUP): sorted({type(mount).__name__ for mount in view.node_request().mounts}),
        ("mounts", Resource.MOUNT_RULES): sorted({mount.store for mount in plan.mounts}),
        "scratch": node.local_disks,
        "placement": (placement.strategy, placement.group_name, placement.is_made_here),
        ("placement", Resource.PLACEMENT_GROUP): placement.strategy if side.has_own_placement else None,
        ("placement", Resource.RESERVATION): placement.is_made_here,
        ("placement", Resource.RESERVED_PLACEMENT): placement.is_made_here,
        **_of_size(side),
        **_of_alarms(side),
    }
    if node.root_volume is not None:
        own |= {
            "root_volume.size_gib": node.root_volume.size_gib,
            "root_volume.iops": node.root_volume.iops,
            "root_volume.throughput_mib_per_s": node.root_volume.throughput_mib_per_s,
        }
    if plan.instance_group is not None:
        own |= _of_instance_group(side)
    if isinstance(spec, FleetSpec):
        own["metadata_users", Resource.COMPUTE_NODE_GROUP] = "*" in spec.metadata_users
        own["user_data"] = None if spec.user_data is None else read_script(spec.user_data)
    else:
        own |= _of_servers(side)
    if plan.node_group is not None:
        own |= _of_node_group(side)
    if plan.compute_environment is not None:
        own |= _of_compute_environment(side, plan.compute_environment)
    return {_below(side.key, key): value for key, value in own.items()} | _of_surroundings(cluster, side)


def _of_type(side: FleetSide) -> object:
    """What the nodes of AWS PCS are given of their type, which itself is in no launch template."""
    record = side.view.plan.instance_type
    accelerator = record.accelerator
    count = accelerator and (accelerator.count, accelerator.logical_count)
    interfaces = tuple(card.interfaces for card in side.plan.node.network.cards)
    return record.family, count, gpu_facts(record), side.view.plan.local_disks, interfaces


def _of_batch_type(side: FleetSide) -> object:
    """The same of AWS Batch, with the type itself on a Capacity Block."""
    kind = side.view.plan.terms.kind
    return _of_type(side), side.view.plan.instance_type.name if kind.is_block else None


def _below(fleet: str, key: str | tuple[str, Resource]) -> str | tuple[str, Resource]:
    return f"{fleet}.{key}" if isinstance(key, str) else (f"{fleet}.{key[0]}", key[1])


def _of_surroundings(cluster: ClusterSpec, side: FleetSide) -> Values:
    """Keys of network, stores and cluster of EKS in the stack of a fleet."""
    values = _subnets(cluster, side)
    values["pcs.node_settings"] = side.view.slurm_node_settings
    values["batch.jobs"] = side.view.batch_job.model_copy(update={"nodes": None})
    values["batch.blocked_minutes"] = side.view.blocked_minutes
    values["pcs.users"] = _users(cluster)
    values["hyperpod.groups"] = side.view.group_options.model_copy(update={"partition": side.view.partition})
    values["monitoring.metrics"] = side.view.serves_metrics
    values["monitoring.metrics.exporters"] = values["monitoring.metrics.install_exporters"] = side.view.exporters
    values["network", Resource.PCS_TEMPLATE] = _named_subnet(cluster.network)
    values["eks.kubectl"] = cluster.eks.kubectl.of(side.view.plan.instance_type.architecture)
    autoscaled = scale_from_zero_tags(side.view.node_pool) if side.view.is_autoscaled else {}
    values["eks.software", Resource.NODE_GROUP] = autoscaled
    if side.view.spec.update == "never" or side.is_pool:  # the group stays on its version
        values["eks.kubernetes_version", Resource.NODE_GROUP] = None
        values["eks.existing.kubernetes_version", Resource.NODE_GROUP] = None
    for name in side.stores:
        store = cluster.data[name]
        if isinstance(store, CheckpointsSpec):
            values[f"data.{name}.checkpoints.express_zone_id"] = store.checkpoints.express_zone_id is not None
    return values


def _of_size(side: FleetSide) -> Values:
    """Number of nodes and capacity."""
    plan, spec, capacity = side.plan, side.view.spec, side.plan.capacity
    terms = side.view.plan.terms
    bought = (
        terms.kind, terms.reservation_id, terms.reservation_group_arn, terms.max_price_usd_per_hour,
        isinstance(spec.capacity, NewReservation), bool(terms.blocks),
    )  # fmt: skip
    identity = terms.kind, terms.reservation_id, terms.reservation_group_arn, terms.uses_open_reservations
    return {
        ("nodes", Resource.AUTO_SCALING_GROUP): (plan.nodes_at_deploy, plan.maximum_nodes),
        ("nodes", Resource.NODE_GROUP): (plan.minimum_nodes, plan.maximum_nodes),
        ("nodes", Resource.COMPUTE_NODE_GROUP): (plan.minimum_nodes, plan.maximum_nodes),
        ("nodes", Resource.BLOCK_FOLLOWER): plan.maximum_nodes,
        ("nodes", Resource.RESERVATION): plan.maximum_nodes,
        ("capacity", Resource.EC2_TEMPLATE): bought,
        ("capacity", Resource.EKS_TEMPLATE): (bought, capacity.drains_at),
        ("capacity", Resource.PCS_TEMPLATE): (bought, capacity.drains_at),
        ("capacity", Resource.BATCH_TEMPLATE): (bought, capacity.drains_at),
        ("capacity", Resource.NODE_GROUP_IDENTITY): identity,
        ("capacity", Resource.COMPUTE_NODE_GROUP): PURCHASE_OPTIONS[terms.kind],
        ("capacity", Resource.AUTO_SCALING_GROUP): capacity.terminates_before_launch,
        ("capacity", Resource.BLOCK_FOLLOWER): (
            capacity.kind,
            capacity.starts_at,
            capacity.drains_at,
            capacity.blocks,
        ),
        ("capacity", Resource.BLOCK_GROUP): bool(terms.blocks),
        ("capacity", Resource.RESERVATION_GROUP): _reservation_of_group(side),
    }


def _reservation_of_group(side: FleetSide) -> str | None:
    """The reservation that is put into a resource group for AWS PCS: its id, or a word for one that is made here."""
    terms = side.view.plan.terms
    if not side.puts_reservation_into_group:
        return None
    return terms.reservation_id or "made here"


def _of_alarms(side: FleetSide) -> Values:
    """Alarms that the fleet can raise: only GPUs report that they are idle, and only EC2 fleets abandon launches."""
    alarms, accelerator = side.view.spec.alarms, side.view.plan.instance_type.accelerator
    unused = [] if accelerator and accelerator.kind is AcceleratorKind.GPU else ["idle", "idle_minutes"]
    if not side.has_scaling_group:
        unused += ["abandoned_launches_per_node", "abandoned_within_minutes", "suspends_launching"]
    if not side.stops_launches:  # the words of the alarm name how long nodes are kept
        unused += ["inspection_minutes"]
    return {
        "alarms": alarms.inspection_minutes if side.stops_launches else 0,
        **{(f"alarms.{name}", Resource.ALARMS): None for name in unused},
    }


def _of_servers(side: FleetSide) -> Values:
    plan, balancer = side.plan, side.plan.load_balancer
    return {
        "devices_per_server": plan.servers and plan.servers.servers,
        "min_servers_per_node": plan.servers and plan.servers.minimum_servers,
        ("load_balancer.certificate_arn", Resource.BALANCER_SECURITY_GROUP): balancer and balancer.port,
    }


def _of_node_group(side: FleetSide) -> Values:
    plan, group = side.plan, side.plan.node_group
    placement, own = plan.placement, side.has_own_placement
    return {
        ("mig", Resource.NODE_GROUP): group and group.mig_strategy,
        ("efa", Resource.NODE_GROUP): group and group.labels,
        ("placement", Resource.NODE_GROUP_IDENTITY): (
            placement.strategy if own else None, not own and placement.strategy is not None,
        ),
    }  # fmt: skip


def _of_compute_environment(side: FleetSide, environment: ComputeEnvironmentReport) -> Values:
    plan = side.plan
    placement = plan.placement.strategy, plan.placement.group_name, plan.placement.is_made_here
    bounds = environment.minimum_vcpus, environment.maximum_vcpus
    devices = environment.job.efa_devices
    return {
        ("instance_type", Resource.BATCH_TEMPLATE): _of_batch_type(side),
        ("nodes", Resource.COMPUTE_ENVIRONMENT): bounds,
        ("nodes", Resource.JOB_DEFINITION): environment.job.nodes,
        ("capacity", Resource.COMPUTE_ENVIRONMENT): (environment.strategy, placement, environment.minimum_vcpus > 0),
        ("capacity", Resource.JOB_QUEUE): environment.blocked_minutes,
        ("placement", Resource.BATCH_TEMPLATE): None,  # it is named in the environment
        ("efa", Resource.JOB_DEFINITION): devices,
        ("interface_policy", Resource.JOB_DEFINITION): devices,
        ("mounts", Resource.JOB_DEFINITION): [mount.mount_point for mount in plan.mounts],
        ("scratch", Resource.JOB_DEFINITION): side.view.scratch is not None,
    }


def _of_instance_group(side: FleetSide) -> Values:
    view = side.view
    return {
        ("nodes", Resource.INSTANCE_GROUP): side.plan.maximum_nodes,
        ("capacity", Resource.INSTANCE_GROUP): (view.plan.terms.kind, training_plan_of(view.spec.capacity)),
        ("image", Resource.INSTANCE_GROUP): view.spec.image,
        ("mig", Resource.INSTANCE_GROUP): view.instance_group.labels,
        ("checkpoints", Resource.INSTANCE_GROUP): view.static_checkpoints,
        ("checkpoint_prefix", Resource.INSTANCE_GROUP): None,  # in the variables of the checkpoints
    }


def _of_hyperpod(cluster: ClusterSpec) -> Values:
    """What the section of HyperPod comes to: some of it is for Slurm alone."""
    spec, on_slurm = cluster.hyperpod, ORCHESTRATORS[cluster.orchestrator].is_hyperpod_slurm
    network = cluster.network
    return {
        "hyperpod.controller": on_slurm and spec.controller,
        "hyperpod.login": on_slurm and spec.login.nodes > 0 and spec.login,
        "hyperpod.accounting_database": on_slurm and spec.accounting_database,
        **{
            (f"eks.existing{key}", Resource.HYPERPOD_CLUSTER): None
            for key in ("", ".cluster_name", ".cluster_security_group_id")
            if not ORCHESTRATORS[cluster.orchestrator].uses_eks
        },
        ("network", Resource.HYPERPOD_CLUSTER): network.subnet_ids if isinstance(network, ExistingNetwork) else (),
    }


def _subnets(cluster: ClusterSpec, side: FleetSide) -> Values:
    """Subnets of the nodes and of their load balancer, as a template names them."""
    nodes = _named(cluster, side.plan.subnets)
    balancer = side.plan.load_balancer
    return {
        ("network", Resource.AUTO_SCALING_GROUP): nodes,
        ("network", Resource.NODE_GROUP): nodes,
        ("network", Resource.NODE_POOL): nodes,
        ("network", Resource.COMPUTE_NODE_GROUP): nodes,
        ("network", Resource.COMPUTE_ENVIRONMENT): nodes,
        ("network", Resource.LOAD_BALANCER): balancer and _named(cluster, balancer.subnets),
    }


def _named(cluster: ClusterSpec, keys: tuple[str, ...]) -> object:
    """Subnets by their ids where they exist, else by their keys in the plan."""
    network = cluster.network
    if not isinstance(network, ExistingNetwork):
        return keys
    if FLEET_SUBNET in keys:
        return network.subnet_ids
    is_public = any(key.startswith("public") for key in keys)
    return tuple((network.public_subnets if is_public else network.service_subnets).items())
