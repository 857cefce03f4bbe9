"""What a cluster file makes, as plain values: the model that `plan` prints and `report` draws.

Units are in the names. An unknown value is None; `unknown` of the same object then gives the reason, by
the name of the field. Times are ISO 8601 texts in UTC. Everything here becomes JSON by `cli.output.as_json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cdk_gpu_clusters.errors import Finding

# Money: ranges in US dollars, each with the prices that it rests on.


@dataclass(frozen=True, slots=True)
class UsdRange:
    """US dollars from least to most: over the nodes of a fleet that scales, or between the bounds of a price."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceUsed:
    """One list price, as the catalogue has it.

    Attributes:
        subject: Instance type, UltraServer type, storage class, or `eks` with the kind of support.
        region: Region or Local Zone; `*` is every Region with that market, empty where the source names none.
        market: `on-demand`, `spot`, `capacity-block`, `storage` or `control-plane`.
        unit: `instance-hour`, `accelerator-hour`, `ultraserver-hour`, `GB-month` or `cluster-hour`.
        as_of: Date, interval or `undated`.
        verification: How well it is known, such as `verified` or `single source`.
        note: A restriction in the source's words, else empty.
    """

    subject: str
    region: str
    market: str
    unit: str
    usd: float
    as_of: str
    source: str
    verification: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCost:
    """What the instances of a fleet cost; root volumes, traffic and load balancers are not counted.

    Attributes:
        usd_per_node_hour: Of one node.
        usd_per_hour: Of the fleet, from its least to its most nodes that are paid for.
        usd_per_day: The same for 24 hours.
        run_hours: Length of the run: from the start to the end of a block; None where none is settled.
        usd_per_run: Of the run.
        is_ceiling: Whether the amounts are the most that spot instances can cost, and not an estimate.
        basis: What the rate is, in words, such as "list price" or "limit in the file".
        billing: When it is paid, in words, such as "paid up front, when the block is bought".
        prices: What the amounts rest on.
        unknown: Fields above that are None -> why.
    """

    usd_per_node_hour: UsdRange | None = None
    usd_per_hour: UsdRange | None = None
    usd_per_day: UsdRange | None = None
    run_hours: float | None = None
    usd_per_run: UsdRange | None = None
    is_ceiling: bool = False
    basis: str = ""
    billing: str = ""
    prices: tuple[PriceUsed, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCost:
    """What the storage of a file system costs; backups, traffic and metadata operations are not counted.

    Attributes:
        usd_per_month: Of its capacity.
        usd_per_hour: The same for an hour; a month has 730.
        usd_per_day: The same for 24 hours.
        prices: What the amounts rest on.
        unknown: Fields above that are None -> why.
    """

    usd_per_month: float | None = None
    usd_per_hour: float | None = None
    usd_per_day: float | None = None
    prices: tuple[PriceUsed, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCost:
    """All that has a price, together.

    Attributes:
        usd_per_hour: Fleets and stores while all of them are there; None where nothing has a price.
        usd_per_day: The same for 24 hours.
        usd_per_run: Runs of the blocks together; None where no fleet has a settled run.
        includes: What is in the sums, such as `fleet trainers`.
        missing: What costs money and is in no sum -> why.
    """

    usd_per_hour: UsdRange | None
    usd_per_day: UsdRange | None
    usd_per_run: UsdRange | None
    includes: tuple[str, ...]
    missing: Mapping[str, str]


# One node: accelerators, MIG slices, network cards, disks, and how it boots.


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfacePlanned:
    """One network interface.

    Attributes:
        interface_type: `interface` (ENA), `efa` (ENA and EFA) or `efa-only` (EFA, no IP address).
        device_index: Device on its card, from 0.
        has_ip: Whether it takes an IPv4 address.
        is_efa: Whether it carries EFA traffic.
    """

    interface_type: str
    device_index: int
    has_ip: bool
    is_efa: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CardPlan:
    """One network card of the hardware.

    Attributes:
        index: Network card index, from 0.
        interfaces: Interfaces on it, in order of device; empty for a card that is left alone.
        efa_gbps, ena_gbps: Bandwidth of the card; None where no source gives it, or it has no such side.
    """

    index: int
    interfaces: tuple[InterfacePlanned, ...]
    interface_types: tuple[str, ...]
    max_interfaces: int
    efa_gbps: float | None
    ena_gbps: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNetwork:
    """The network side of a node.

    Attributes:
        policy: How the interfaces are laid out: `minimum-ip`, `maximum-ena-bandwidth` or `efa-per-card`.
        basis: Where the layout comes from.
        cards: Every card of the hardware, also those without an interface.
        ip_addresses: IPv4 addresses that the node takes from its subnet.
        hardware_efa_interfaces: EFA interfaces that the type takes; 0 without EFA.
        efa_gbps: EFA bandwidth of the plan; 0 without EFA.
        hardware_efa_gbps: EFA bandwidth of the type; 0 where it has none.
        ena_gbps: IP bandwidth of the plan. EFA and IP traffic share the cards.
        hardware_ena_gbps: IP bandwidth of the type with all interfaces documented for it.
        unknown: Fields above that are None -> why.
    """

    policy: str
    basis: str
    cards: tuple[CardPlan, ...]
    interface_count: int
    ip_addresses: int
    efa_interface_count: int
    hardware_efa_interfaces: int
    efa_gbps: float | None
    hardware_efa_gbps: float | None
    ena_gbps: float | None
    hardware_ena_gbps: float | None
    unknown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorPlan:
    """The accelerators of a node, all of one model.

    Attributes:
        kind: `gpu` (NVIDIA) or `neuron` (Trainium, Inferentia).
        name: Model, such as `H100`.
        count: Devices that the operating system sees.
        share_of_gpu: Share of one GPU per device; 1.0 is a full one.
        neuron_cores_each: NeuronCores of each; None for GPUs.
        nvlink_gbytes_per_s: NVLink of each GPU in GB/s, both directions summed; 0 without; None for Neuron.
        nvswitch: Whether NVSwitches join all GPUs of the node.
        ultraserver: UltraServer that the nodes of the fleet make up, such as `u-p6e-gb200x36`; None for others.
        unknown: Fields above that are None -> why.
    """

    kind: str
    name: str
    count: int
    share_of_gpu: float
    memory_gib_each: float
    neuron_cores_each: int | None
    nvlink_gbytes_per_s: float | None
    nvswitch: bool | None
    ultraserver: str | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MigSlice:
    """One MIG instance at a place that it can have; the driver may choose another one.

    Attributes:
        profile: Name, such as `3g.40gb`.
        start, size: First memory slice, and how many.
        memory_gb: Nominal memory in GB, as in the name.
        resource_name: What NVIDIA's Kubernetes device plugin calls it with the strategy "mixed".
    """

    profile: str
    profile_id: int
    start: int
    size: int
    compute_slices: int
    memory_gb: int
    resource_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MigGpuSlices:
    """One GPU: its index in `nvidia-smi -L`, its part of `MIG_PARTITION`, and its slices; none for an unsplit GPU."""

    index: int
    partition: str
    slices: tuple[MigSlice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMig:
    """How the GPUs of a node are split.

    Attributes:
        gpu: Key of the GPU model, such as `A100-40GB`.
        memory_slices: Length of the placement axis of each GPU.
        slices: MIG instances of the node.
        resources: What Kubernetes sees on a node: resource name -> number.
        minimum_driver: First driver release that makes this layout.
        placements_verified: Whether a listing of its placements was found; else those of its relatives are taken.
    """

    gpu: str
    memory_slices: int
    gpus: tuple[MigGpuSlices, ...]
    partition: str
    slices: int
    resources: Mapping[str, int]
    minimum_driver: str
    placements_verified: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalDisks:
    """Local disks: how many, GB (decimal) each, and where they are mounted as one file system; None if they are not."""

    count: int
    size_gb_each: int
    mount_point: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RootVolumePlan:
    """The encrypted gp3 root volume; the account's key for EBS encrypts it if `encryption_key_arn` is None."""

    size_gib: int
    iops: int
    throughput_mib_per_s: int
    encryption_key_arn: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """One node of a fleet.

    Attributes:
        architecture: `x86_64` or `arm64`.
        accelerator: Its accelerators, None without.
        mig: How its GPUs are split, None if they are not.
        local_disks: Its local disks, None without.
        root_volume: Its root volume, None where the service decides it.
        boot_stages: What must hold before it takes work, in this order.
        boot_checks: What the stage `verification` asks of the hardware.
        sources: Where the record of the type comes from.
    """

    instance_type: str
    architecture: str
    vcpus: int
    memory_gib: float
    accelerator: AcceleratorPlan | None
    mig: NodeMig | None
    network: NodeNetwork
    local_disks: LocalDisks | None
    root_volume: RootVolumePlan | None
    boot_stages: tuple[str, ...]
    boot_checks: tuple[str, ...]
    sources: tuple[str, ...]


# A cluster of Amazon EKS, and a fleet that is a node group in it.


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemNodesPlan:
    """The nodes without accelerators that hold the cluster's own pods.

    Attributes:
        subnets: Keys of the subnets in the network plan that they are in.
        usd_per_hour: List price of all of them.
        prices: What it rests on.
        unknown: Fields above that are None -> why.
    """

    instance_type: str
    node_count: int
    subnets: tuple[str, ...]
    usd_per_hour: float | None
    prices: tuple[PriceUsed, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartPlan:
    """A chart of the cluster's software: name, version, and the namespace of its release."""

    name: str
    version: str
    namespace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlinkyPartition:
    """A partition of Slurm on Kubernetes: the fleet that it is named after, its nodes, and what each has.

    Attributes:
        gres: GPUs or slices of a node, as Slurm counts them; empty for none.
        topology: Topology of the partition, from the layers of EC2's network; None if these are unknown.
    """

    name: str
    node_count: int
    gres: str
    topology: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlinkyPlan:
    """Slurm on nodes of Kubernetes.

    Attributes:
        partitions: The default one first.
        accounting: Host of the database that records jobs; None if Slurm records none.
        login: Whether there is a login node.
    """

    name: str
    partitions: tuple[SlinkyPartition, ...]
    accounting: str | None
    login: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamQuotaPlan:
    """Devices of a fleet that a team may use.

    Attributes:
        fleet: The fleet.
        resource: Name of the device in Kubernetes.
        nominal: Devices that are the team's.
        most: Devices that it has while all others are idle.
        lent: Most of its own that others borrow.
        of: Devices of the fleet.
    """

    fleet: str
    resource: str
    nominal: int
    most: int
    lent: int
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamPlan:
    """A team that shares the fleets.

    Attributes:
        name: Its name, which is that of its namespace.
        group: The Kubernetes group of its members.
        weight: Its share of idle devices, as a ratio to others.
        quotas: What it may use.
        members: IAM principals that get into the group.
    """

    name: str
    group: str
    weight: int
    quotas: tuple[TeamQuotaPlan, ...]
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesPlan:
    """A cluster of Amazon EKS.

    Attributes:
        stack_name: Its stack; None of an existing cluster.
        cluster_name: Name of an existing cluster; None where the deployment names it.
        standard_support_ends, extended_support_ends: ISO dates; None where the catalogue has none.
        public_access_cidrs: Who reaches the API server from the internet; no one if empty.
        service_cidr: IPv4 range of its services.
        admins: IAM principals that administer it.
        add_ons: EKS add-ons made with it, in the order of their installation; none of an existing cluster.
        system_nodes: Nodes for its own pods; None of an existing cluster.
        charts: Software for GPU nodes, in the order of its installation.
        slurm: Slurm on its nodes, by Slinky; None if there is none.
        teams: Teams that share the fleets.
        software_stack: Stack that installs them; None where `gpu-clusters manifests` writes them for you to apply.
        karpenter_stack: Stack that installs Karpenter; None without it.
        mirror: Registry with copies of charts and images; None for the public ones.
        usd_per_hour: List price of the control plane while its version is in standard support.
        usd_per_hour_extended: The same in extended support.
        prices: What these rest on.
        unknown: Fields above that are None -> why.
    """

    stack_name: str | None
    cluster_name: str | None
    version: str
    standard_support_ends: str | None
    extended_support_ends: str | None
    public_access_cidrs: tuple[str, ...]
    service_cidr: str
    admins: tuple[str, ...]
    add_ons: tuple[str, ...]
    system_nodes: SystemNodesPlan | None
    charts: tuple[ChartPlan, ...]
    slurm: SlinkyPlan | None
    teams: tuple[TeamPlan, ...]
    software_stack: str | None
    karpenter_stack: str | None
    mirror: str | None
    usd_per_hour: float | None
    usd_per_hour_extended: float | None
    prices: tuple[PriceUsed, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginNodesPlan:
    """Nodes on which people submit jobs.

    Attributes:
        stack_name: Their stack.
        mounts: Mount point -> store.
        ssh_cidrs: Who may reach SSH; sessions of Systems Manager only if empty.
        usd_per_hour: List price of all of them.
        prices: What it rests on.
        unknown: Fields above that are None -> why.
    """

    stack_name: str
    instance_type: str
    node_count: int
    mounts: Mapping[str, str]
    ssh_cidrs: tuple[str, ...]
    usd_per_hour: float | None
    prices: tuple[PriceUsed, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlan:
    """A queue of a Slurm cluster.

    Attributes:
        stack_name: The stack that makes it.
        fleets: Fleets whose nodes run its jobs.
        slurm_settings: Settings of the partition.
    """

    name: str
    stack_name: str
    fleets: tuple[str, ...]
    slurm_settings: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmPlan:
    """A Slurm cluster of AWS PCS.

    Attributes:
        stack_name: Its stack; None of an existing cluster.
        cluster_id: Id of an existing cluster; None if the deployment makes it.
        slurm_version: Version of Slurm.
        version_ends: ISO date after which AWS PCS makes no cluster of it; None if no source names one.
        size: `small`, `medium` or `large`; None of an existing cluster.
        most_nodes, most_jobs: What that size holds.
        accounting: Whether AWS PCS keeps an accounting database; None of an existing cluster.
        rest_api, metrics: Whether it has them.
        slurm_settings: Settings of the cluster, those of the library included.
        queues: Queues.
        login: Login nodes; None without any.
        unknown: Fields above that are None -> why.
    """

    stack_name: str | None
    cluster_id: str | None
    slurm_version: str
    version_ends: str | None
    size: str | None
    most_nodes: int | None
    most_jobs: int | None
    accounting: bool | None
    rest_api: bool
    metrics: bool
    slurm_settings: Mapping[str, str]
    queues: tuple[QueuePlan, ...]
    login: LoginNodesPlan | None
    unknown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelClusterPlan:
    """A cluster of AWS ParallelCluster, which `pcluster` makes after the stacks of the file, or its stack makes.

    Attributes:
        stack_name: The stack with what its nodes get from the file.
        is_deployed: Whether its stack makes it, by AWS's custom resource.
        deleted_with_stack: Whether it goes with its resource.
        version: Version of ParallelCluster for which the configuration is written.
        slurm_settings: Settings of the cluster, those of the library included.
        queues: Queues of fleets, and partitions over several.
        head_node: The node with Slurm's controller, on which people work, too.
        login: Login nodes; None without any.
    """

    stack_name: str
    is_deployed: bool
    deleted_with_stack: bool
    version: str
    slurm_settings: Mapping[str, str]
    queues: tuple[QueuePlan, ...]
    head_node: LoginNodesPlan
    login: LoginNodesPlan | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmQueueReport:
    """A fleet as a queue of AWS ParallelCluster, with one compute resource, or one for each of several blocks.

    Attributes:
        capacity_type: `ONDEMAND`, `SPOT` or `CAPACITY_BLOCK`.
        static_nodes: Nodes that always run.
        dynamic_nodes: Nodes that Slurm starts for jobs.
        slurm_settings: Settings of its nodes.
        grown_by: Who sets the number of nodes, in a sentence.
        update: What a changed configuration does to running nodes, in a sentence.
    """

    capacity_type: str
    static_nodes: int
    dynamic_nodes: int
    slurm_settings: Mapping[str, str]
    grown_by: str
    update: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeNodeGroupReport:
    """A compute node group of AWS PCS.

    Attributes:
        name: Its name in Slurm; nodes are called after it.
        purchase_option: `ONDEMAND`, `SPOT` or `CAPACITY_BLOCK`.
        minimum_nodes, maximum_nodes: Bounds in the template.
        grown_by: Who sets the number of nodes, in a sentence.
        slurm_settings: Settings of its nodes, with `Gres` if its GPUs are split.
        gres_records: Records of `gres.conf`.
        update: What a changed launch template or image does to running nodes, in a sentence.
    """

    name: str
    purchase_option: str
    minimum_nodes: int
    maximum_nodes: int
    grown_by: str
    slurm_settings: Mapping[str, str]
    gres_records: tuple[Mapping[str, str], ...]
    update: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJobPlan:
    """The multi-node job of a fleet on AWS Batch.

    Attributes:
        image: Image of its containers, one on each node.
        nodes: Nodes, unless a submission names others.
        gpus, efa_devices: Devices of a container.
        memory_mib: Memory of a container.
        shared_memory_mib: Size of /dev/shm, a part of it.
        attempts: How often it may start.
        timeout_minutes: When AWS Batch ends an attempt; None for no end.
    """

    image: str
    nodes: int
    gpus: int
    efa_devices: int
    memory_mib: int
    shared_memory_mib: int
    attempts: int
    timeout_minutes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeEnvironmentReport:
    """A compute environment of AWS Batch, with its queue and its job.

    Attributes:
        strategy: Allocation strategy.
        minimum_vcpus, maximum_vcpus: Bounds in the template.
        grown_by: Who sets the number of nodes, in a sentence.
        blocked_minutes: When a job that waits for capacity is cancelled; None for no end.
        job: Its multi-node job.
        update: What a changed template does to running nodes, in a sentence.
    """

    strategy: str
    minimum_vcpus: int
    maximum_vcpus: int
    grown_by: str
    blocked_minutes: int | None
    job: BatchJobPlan
    update: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperPodGroupPlan:
    """Nodes of a HyperPod cluster beside the fleets: the controller, or the login nodes.

    Attributes:
        instance_type: Type with SageMaker's prefix.
        mounts: Mount point -> store.
    """

    instance_type: str
    node_count: int
    mounts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperPodPlan:
    """The cluster of SageMaker HyperPod whose instance groups the fleets are.

    Attributes:
        runs: `slurm` or `eks`.
        node_recovery: Whether SageMaker reboots and replaces failed nodes.
        continuous_provisioning: Whether a group takes work before all its nodes are there.
        controller, login: Nodes of Slurm; None on Amazon EKS, and without login nodes.
        accounting: Where Slurm keeps its records; None on Amazon EKS.
        tiered_checkpoint_percent: Share of each node's memory for tiered checkpoints; None for none.
    """

    stack_name: str
    runs: str
    node_recovery: bool
    continuous_provisioning: bool
    controller: HyperPodGroupPlan | None
    login: HyperPodGroupPlan | None
    accounting: str | None
    tiered_checkpoint_percent: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceGroupReport:
    """An instance group of SageMaker HyperPod.

    Attributes:
        instance_type: Type with SageMaker's prefix.
        interface_type: `efa` or `efa-only`; None without EFA.
        partition: Partition of Slurm; None on Amazon EKS.
        labels: Labels of Kubernetes nodes.
        training_plan_arn: Plan that the nodes come from; None for others.
        least_nodes: Nodes from which on the group counts as made; None for 0.
        deep_health_checks: What HyperPod runs on each node before it takes work.
        volume_gib: Size of the second volume; None for none.
        update: What a changed group does to running nodes, in a sentence.
    """

    name: str
    instance_type: str
    interface_type: str | None
    partition: str | None
    labels: Mapping[str, str]
    training_plan_arn: str | None
    least_nodes: int | None
    deep_health_checks: tuple[str, ...]
    volume_gib: int | None
    update: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroupReport:
    """A managed node group of Amazon EKS, or a node pool of Karpenter in its place.

    Attributes:
        capacity_type: `ON_DEMAND`, `SPOT` or `CAPACITY_BLOCK`; with Karpenter `on-demand`, `spot` or `reserved`.
        ami_type: Which image EKS chooses, such as `AL2023_x86_64_NVIDIA`; with Karpenter its alias.
        desired_nodes: Size in the template; None if others set it.
        grown_by: Who sets the size, in a sentence.
        update_strategy: `MINIMAL` (old nodes go first) or `DEFAULT`.
        surge_nodes: How many nodes an update adds for the time that it takes.
        update: What a new launch template, or version of the cluster, does to running nodes, in a sentence.
        max_pods: Pods for which a node has addresses, its own among them.
        mig_strategy: How the device plugin shows split GPUs: `none`, `single` or `mixed`.
        resources: What Kubernetes sees on a node: resource name -> number.
        taints: Taints of the nodes, such as `nvidia.com/gpu=true:NoSchedule`.
        managed_by: `eks` or `karpenter`.
    """

    capacity_type: str
    ami_type: str
    desired_nodes: int | None
    grown_by: str
    update_strategy: str
    surge_nodes: int
    update: str
    max_pods: int
    mig_strategy: str
    resources: Mapping[str, int]
    labels: Mapping[str, str]
    taints: tuple[str, ...]
    managed_by: str = "eks"


# A fleet: its nodes, how they are bought and placed, what they mount and serve.


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockPlan:
    """One of several Capacity Blocks of a fleet.

    Attributes:
        reservation_id: Its id.
        nodes: Instances bought.
        starts_at: When it starts; None if it runs already.
        drains_at: When its nodes begin to drain.
        ends_at: When it ends.
    """

    reservation_id: str
    nodes: int
    starts_at: str | None
    drains_at: str
    ends_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityPlan:
    """How the nodes are bought, and what follows.

    Attributes:
        kind: `on-demand`, `spot`, `reservation`, `capacity-block` or `ultraserver-block`.
        words: The same in a phrase, such as "Capacity Block cr-0123456789abcdef0".
        reason: What follows from it for the launches, in a sentence.
        is_made_here: Whether the reservation is made by this cluster; it bills from then on.
        market_type: `spot` or `capacity-block` in the launch template, None for neither.
        starts_at, ends_at: When a block starts and ends, or a reservation made here ends; None for no such time.
        drains_at: When the fleet goes to zero before that end.
        blocks: The blocks of a fleet that has several, in the order of the file; their first start and last end are
            those above.
        hours: From start to end of a block; for several blocks, node-hours by the nodes of the fleet.
        terminates_before_launch: Whether a replacement must free its slot first.
        max_price_usd_per_hour: Limit of spot instances.
        unknown: Fields above that are None though they have a value -> why.
    """

    kind: str
    words: str
    reason: str
    reservation_id: str | None = None
    reservation_group_arn: str | None = None
    is_made_here: bool = False
    market_type: str | None = None
    starts_at: str | None = None
    drains_at: str | None = None
    ends_at: str | None = None
    blocks: tuple[BlockPlan, ...] = ()
    hours: float | None = None
    terminates_before_launch: bool = False
    max_price_usd_per_hour: float | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementPlan:
    """Where the nodes are relative to each other.

    Attributes:
        strategy: `cluster`, `spread`, `partition`, or None for no placement group.
        group_name: Name of an existing group; None for a new one or none.
        is_made_here: Whether a group is made for the fleet or its reservation.
        reason: Why, in a sentence.
    """

    strategy: str | None
    group_name: str | None
    is_made_here: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MountPlan:
    """A file system that every node mounts.

    Attributes:
        mount_point: Directory of the node.
        over_efa: Whether data take EFA.
        efa_interfaces: EFA interfaces that Lustre uses; 0 over TCP.
    """

    mount_point: str
    store: str
    over_efa: bool
    efa_interfaces: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePlan:
    """The machine image.

    Attributes:
        operating_system: Such as `al2023`; None if unknown.
        parameter: SSM parameter that names it, None for an id.
        image_id: Its id, None for a parameter.
        moves: Whether a later deployment may take a newer one; running nodes stay as they are.
        can_be_pinned: Whether it is the one that `gpu-clusters pin-image` has written down, if it has.
        versions: Of what the release note names, such as `nvidia_driver` -> `580.95.05`.
    """

    operating_system: str | None = None
    parameter: str | None = None
    image_id: str | None = None
    moves: bool
    can_be_pinned: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServersPlan:
    """The model servers of a node.

    Attributes:
        device_kind: What each server is given: `gpu`, `mig` (a slice) or `neuron`.
        servers: Per server the indices of its devices.
        minimum_servers: Servers that must be up for a node to be healthy; None on EKS, where each is a pod.
        node_port: Port of the node's balancer; None on EKS, where a Service finds the pods.
        first_server_port: Port of the first server on loopback, the others follow; None on EKS.
        weights_path, weights_s3_uri: Where the servers find the model, and where it is copied from; None for neither.
        cache_path: Folder of the local disks that they may write; None for none.
        nodes_per_server: Nodes of the one server of the fleet, in a ComputeDomain; None for servers within a node.
        canary_weights: Percent of the servers that run a new version in each step; empty without a canary.
        spare_servers: Places of the fleet that a canary keeps free.
    """

    image: str
    device_kind: str
    servers: tuple[tuple[int, ...], ...]
    servers_per_node: int
    minimum_servers: int | None
    node_port: int | None
    first_server_port: int | None
    weights_path: str | None
    weights_s3_uri: str | None
    cache_path: str | None = None
    nodes_per_server: int | None = None
    canary_weights: tuple[int, ...] = ()
    spare_servers: int = 0

    def count_on(self, nodes: int) -> int:
        """Servers on so many nodes, without the places that a canary keeps free."""
        if self.nodes_per_server is not None:
            return nodes // self.nodes_per_server
        return max(0, nodes * self.servers_per_node - self.spare_servers)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBalancerPlan:
    """The Application Load Balancer of an inference fleet.

    Attributes:
        internet_facing: Whether it has public addresses.
        protocol: `https` or `http`.
        clients: Who may connect.
        subnets: Keys of its subnets in the network plan.
        requests_per_minute_per_node: What the fleet scales on; None for no scaling.
    """

    internet_facing: bool
    protocol: str
    port: int
    clients: tuple[str, ...]
    subnets: tuple[str, ...]
    requests_per_minute_per_node: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetReport:
    """A fleet of equal nodes.

    Attributes:
        name: Key of the fleet.
        purpose: `training` or `inference`.
        nodes_at_deploy: Nodes when the stack is new: 0 on a block that is still to be delivered.
        accelerators: Devices of all nodes, at the most.
        accelerator_memory_gib: Their memory together, in GiB.
        capacity: How the nodes are bought.
        placement: Where they are relative to each other.
        subnets: Keys of the subnets in the network plan that the nodes are in.
        availability_zones: Zones of the nodes, as far as they are known.
        fabric: EFA fabric that it shares with the fleets that name it, None without EFA.
        checkpoints: Key of the store for checkpoints, None for none.
        image: Machine image; None on EKS, which chooses it by the node group's image type.
        servers, load_balancer: Of an inference fleet, None of others. On EKS a Service takes the place of the load
            balancer.
        update: What a changed launch template does to running nodes: `never` or `rolling`.
        watch: Mode of the watchdog: `on`, `dry-run` or `off`.
        tags: Tags of the fleet, over and above the cluster's.
        node_group: The managed node group of EKS; None elsewhere.
        compute_node_group: The compute node group of AWS PCS; None elsewhere.
        compute_environment: The compute environment of AWS Batch; None elsewhere.
        slurm_queue: The queue of AWS ParallelCluster; None elsewhere.
        instance_group: The instance group of SageMaker HyperPod; None elsewhere.
        notes: What is worth knowing, in sentences.
    """

    name: str
    purpose: str
    stack_name: str
    minimum_nodes: int
    maximum_nodes: int
    nodes_at_deploy: int
    node: NodeReport
    accelerators: int
    accelerator_memory_gib: float
    capacity: CapacityPlan
    placement: PlacementPlan
    subnets: tuple[str, ...]
    availability_zones: tuple[str, ...]
    fabric: str | None
    mounts: tuple[MountPlan, ...]
    checkpoints: str | None
    image: ImagePlan | None
    servers: ServersPlan | None
    load_balancer: LoadBalancerPlan | None
    update: str
    watch: str
    tags: Mapping[str, str]
    cost: FleetCost
    node_group: NodeGroupReport | None = None
    compute_node_group: ComputeNodeGroupReport | None = None
    compute_environment: ComputeEnvironmentReport | None = None
    slurm_queue: SlurmQueueReport | None = None
    instance_group: InstanceGroupReport | None = None
    notes: tuple[str, ...] = ()


# The network: its subnets, and what takes their addresses.


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressUse:
    """Who takes addresses of a subnet.

    Attributes:
        kind: `nodes`, `file-system`, `load-balancer`, `endpoints`, `nat-gateway`, `control-plane`, `system-nodes`,
            `head-node` or `login-nodes`.
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
        usable_addresses: Addresses that can be given to interfaces, without the five that AWS keeps.
        uses: Who takes how many.
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
        vpc_id: Id of an existing VPC, None for a new one.
        cidr: IPv4 range of a new VPC; None of an existing one.
        availability_zone: Zone of the fleets, by name or id.
        control_availability_zones: Zones of the load-balancer subnets, as far as they are named.
        egress: `nat`, `closed`, or `existing` for what an existing network has.
        flow_logs: Whether the traffic is recorded; None of an existing network.
        gateway_endpoints, interface_endpoints: Services with an endpoint made here, such as `s3` and `ssm`.
    """

    is_new: bool
    vpc_id: str | None = None
    cidr: str | None = None
    availability_zone: str
    control_availability_zones: tuple[str, ...]
    egress: str
    flow_logs: bool | None = None
    gateway_endpoints: tuple[str, ...] = ()
    interface_endpoints: tuple[str, ...] = ()
    subnets: tuple[SubnetUse, ...]


# A store: a file system with its readers, or buckets for checkpoints.


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderPlan:
    """A fleet that mounts a file system, and what its nodes can read at most.

    Attributes:
        fleet: Key of the fleet.
        mount_point: Directory of its nodes.
        nodes: Most nodes.
        over_efa: Whether data take EFA.
        node_mb_per_s: What one node can read: its network, and the service's limit for one client.
        fleet_mb_per_s: All nodes together.
        store_mb_per_s_per_node: What the file system gives each node when all of the fleet read at once.
        store_mb_per_s_per_accelerator: The same for each device; None without.
        limited_by: `file system` or `nodes`: which of the two is slower; None if unknown.
        basis: Where `node_mb_per_s` comes from.
        unknown: Fields above that are None -> why.
    """

    fleet: str
    mount_point: str
    nodes: int
    accelerators: int
    over_efa: bool
    node_mb_per_s: float | None
    fleet_mb_per_s: float | None
    store_mb_per_s_per_node: float | None
    store_mb_per_s_per_accelerator: float | None
    limited_by: str | None
    basis: str
    unknown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryPlan:
    """A link between a directory of a file system and S3; `auto_import` and `auto_export` name the changes."""

    path: str
    s3_uri: str
    auto_import: tuple[str, ...]
    auto_export: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LustrePlan:
    """An FSx for Lustre file system that is made here.

    Attributes:
        deployment_type: `PERSISTENT_2` or `SCRATCH_2`.
        storage_type: `SSD` or `INTELLIGENT_TIERING`.
        storage_capacity_gib: SSD storage; None of Intelligent-Tiering, which is elastic.
        throughput_mb_per_s_per_tib: Tier; None where the class has none.
        throughput_mb_per_s: What the file system delivers in all.
        metadata_iops: Metadata operations; None without a metadata configuration.
        efa: Whether nodes with EFA mount it over EFA.
        compression: Whether data are compressed with LZ4.
        backup_retention_days: Days for which daily backups are kept; 0 for none.
        ip_addresses: Addresses that it takes from its subnet, one for each server.
        subnet: Key of its subnet in the network plan.
    """

    deployment_type: str
    storage_type: str
    storage_capacity_gib: int | None
    throughput_mb_per_s_per_tib: int | None
    throughput_mb_per_s: int
    metadata_iops: int | None
    efa: bool
    lustre_version: str
    compression: bool
    backup_retention_days: int
    object_servers: int
    metadata_servers: int
    ip_addresses: int
    subnet: str
    repositories: tuple[RepositoryPlan, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HomesPlan:
    """A file system for home directories that is made here.

    Attributes:
        service: `openzfs` or `efs`.
        subnet: Key of its subnet in the network plan.
        deployment_type, storage_capacity_gib, throughput_mb_per_s, compression, quotas, backup_retention_days: Of
            FSx for OpenZFS; `quotas` is their number. None of EFS.
        throughput_mode, provisioned_mib_per_s, aws_backup: Of EFS. None of FSx for OpenZFS.
    """

    service: str
    subnet: str
    deployment_type: str | None = None
    storage_capacity_gib: int | None = None
    throughput_mb_per_s: int | None = None
    compression: str | None = None
    quotas: int | None = None
    backup_retention_days: int | None = None
    throughput_mode: str | None = None
    provisioned_mib_per_s: float | None = None
    aws_backup: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointsPlan:
    """Buckets for checkpoints.

    Attributes:
        bucket_name: Name of the bucket; None where CloudFormation makes it.
        express_zone_id: Zone of the directory bucket (S3 Express One Zone), None for none.
        express_bucket_name: Name of an existing directory bucket, None for none.
        versioned: Whether overwritten and deleted objects can be brought back; None of existing buckets.
        expire_after_days, archive_after_days, express_expire_after_days: Lifecycle; None for never.
    """

    bucket_name: str | None
    express_zone_id: str | None = None
    express_bucket_name: str | None = None
    versioned: bool | None = None
    expire_after_days: int | None = None
    archive_after_days: int | None = None
    express_expire_after_days: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePlan:
    """A store of the cluster.

    Attributes:
        name: Key of the store.
        kind: `lustre`, `openzfs`, `efs`, `checkpoints`, or one of them with `existing_` before it, as in the file.
        stack_name: Its stack; None of an existing store.
        resource_id: Id of an existing file system; None of others.
        lustre: A Lustre file system that is made here, None for other stores.
        homes: A file system for home directories that is made here, None for other stores.
        efa: Whether it serves clients over EFA; None of buckets.
        checkpoints: Buckets, None of file systems.
        readers: Fleets that mount a file system.
        users: Fleets that write checkpoints to it.
        cost: What its storage costs; None of existing stores, which cost what they cost anyway.
        unknown: Fields above that are None though they have a value -> why.
    """

    name: str
    kind: str
    stack_name: str | None
    resource_id: str | None
    lustre: LustrePlan | None
    homes: HomesPlan | None
    efa: bool | None
    checkpoints: CheckpointsPlan | None
    readers: tuple[ReaderPlan, ...]
    users: tuple[str, ...]
    cost: StoreCost | None
    unknown: Mapping[str, str] = field(default_factory=dict)


# The cluster.


@dataclass(frozen=True, slots=True, kw_only=True)
class StackPlan:
    """One CloudFormation stack of the cluster.

    Attributes:
        kind: `network`, `data`, `fabric`, `link`, `kubernetes`, `software`, `slurm`, `queue`, `login`, `hyperpod`,
            `capacity`, `fleet`, `inference` or `monitoring`.
        of: What it is made for: the key of a store, a fabric or a fleet; empty for the network and the cluster of EKS.
            For a link the store.
        outlives: Whether its data stay when the stack is deleted.
        depends_on: Stacks that are deployed before it.
    """

    name: str
    kind: str
    of: str
    outlives: bool
    depends_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """All fleets together. A name that begins with `minimum_` is for their least nodes, the others for their most.

    Attributes:
        accelerators: Number of accelerators; a share of one counts as the devices that the system sees.
    """

    minimum_nodes: int
    maximum_nodes: int
    minimum_accelerators: int
    minimum_accelerator_memory_gib: float
    minimum_mig_slices: int
    minimum_model_servers: int
    accelerators: int
    accelerator_memory_gib: float
    mig_slices: int
    model_servers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """What a cluster file makes.

    Attributes:
        account: AWS account id; None is that of the credentials at deployment.
        orchestrator: What runs jobs on the nodes.
        network: The network with the use of its addresses.
        kubernetes: The cluster of Amazon EKS that the fleets join; None under another orchestrator.
        slurm: The Slurm cluster of AWS PCS that the fleets join; None under another orchestrator.
        parallelcluster: The cluster of AWS ParallelCluster of the fleets; None under another orchestrator.
        hyperpod: The cluster of SageMaker HyperPod that the fleets belong to; None under another orchestrator.
        fleets: Training fleets, then inference fleets, in the order of the file.
        stores: File systems and buckets, in the order of the file.
        stacks: The stacks, in an order in which they can be deployed.
        findings: Warnings and advice of the rules; their paths are keys of the file.
    """

    name: str
    region: str
    account: str | None
    orchestrator: str
    tags: Mapping[str, str] = field(default_factory=dict)
    network: NetworkPlan
    fleets: tuple[FleetReport, ...]
    stores: tuple[StorePlan, ...]
    stacks: tuple[StackPlan, ...]
    totals: Totals
    cost: ClusterCost
    kubernetes: KubernetesPlan | None = None
    slurm: SlurmPlan | None = None
    parallelcluster: ParallelClusterPlan | None = None
    hyperpod: HyperPodPlan | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def machines(self) -> Mapping[str, LoginNodesPlan]:
        """The nodes of a Slurm cluster that are in no fleet, by what they are."""
        if self.parallelcluster is not None:
            found = {"head node": self.parallelcluster.head_node, "login nodes": self.parallelcluster.login}
        else:
            found = {"login nodes": None if self.slurm is None else self.slurm.login}
        return {name: one for name, one in found.items() if one is not None}
