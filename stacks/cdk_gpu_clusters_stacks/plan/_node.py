"""One node of a fleet: its hardware, what the rules decide about it, and how it boots."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from cdk_gpu_clusters.catalogue import Accelerator, InstanceType, NetworkCard
from cdk_gpu_clusters.fleet.instance_group import instance_group_settings
from cdk_gpu_clusters.fleet.node import node_settings
from cdk_gpu_clusters.node.gpunode.boot.stages import extra_stages, stages_of
from cdk_gpu_clusters.node.gpunode.checks.verify import checks_of
from cdk_gpu_clusters.node.gpunode.node import Aws, Metadata, Node, Settings
from cdk_gpu_clusters.node.model_server import model_server_files
from cdk_gpu_clusters.node.storage import SCRATCH_MOUNT_POINT
from cdk_gpu_clusters.node.user_data import node_environment
from cdk_gpu_clusters.rules.cost import ultraserver_of
from cdk_gpu_clusters.rules.fleet import DEFAULT_IOPS, DEFAULT_THROUGHPUT_MIB_PER_S
from cdk_gpu_clusters.rules.interfaces import InterfacePlan, NetworkInterface
from cdk_gpu_clusters.rules.mig import MigGpuPlan, MigPlan
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet

from .model import (
    AcceleratorPlan,
    CardPlan,
    InterfacePlanned,
    LocalDisks,
    MigGpuSlices,
    MigSlice,
    NodeMig,
    NodeNetwork,
    NodeReport,
    RootVolumePlan,
)

_MIB_PER_GIB = 1024
#: On EKS nodeadm makes the file system, for containerd and the volumes of pods (awslabs/amazon-eks-ami @ 81fec2e,
#: nodeadm/crds/node.eks.aws_nodeconfigs.yaml: localStorage.mountPath; the number is that of setup-local-disks).
_PODS_DISKS = "/mnt/k8s-disks/0"


def report_node(view: PlannedFleet, interfaces: InterfacePlan) -> NodeReport:
    """Describe one node of a fleet."""
    record, spec = view.plan.instance_type, view.spec
    stages, checks = boot_of(view)
    return NodeReport(
        instance_type=record.name,
        architecture=record.architecture.value,
        vcpus=record.vcpus,
        memory_gib=record.memory_mib / _MIB_PER_GIB,
        accelerator=None
        if record.accelerator is None
        else _accelerator(record, record.accelerator, spec.maximum_nodes),
        mig=None if view.plan.mig is None else _mig(view.plan.mig),
        network=_network(record, interfaces),
        local_disks=_disks(record, _disks_at(view)),
        root_volume=None if view.profile.joins_hyperpod else _root_volume(view),
        boot_stages=stages,
        boot_checks=checks,
        sources=record.sources,
    )


def _accelerator(record: InstanceType, accelerator: Accelerator, nodes: int) -> AcceleratorPlan:
    server = ultraserver_of(record, nodes)
    unknown = {}
    if accelerator.nvlink_gbytes_per_s_per_gpu is None:
        unknown["nvlink_gbytes_per_s"] = (
            f"no source gives the NVLink bandwidth of {record.name}"
            if accelerator.neuron_cores_each is None
            else "Neuron devices have no NVLink"
        )
    if accelerator.nvswitch is None:
        unknown["nvswitch"] = f"it is unknown what joins the devices of {record.name}"
    return AcceleratorPlan(
        kind=accelerator.kind.value,
        name=accelerator.marketing_name or accelerator.name,
        count=device_count(record),
        share_of_gpu=accelerator.partition_fraction,
        memory_gib_each=accelerator.memory_mib_for_sizing / _MIB_PER_GIB,
        neuron_cores_each=accelerator.neuron_cores_each,
        nvlink_gbytes_per_s=accelerator.nvlink_gbytes_per_s_per_gpu,
        nvswitch=accelerator.nvswitch,
        ultraserver=None if server is None else server.name,
        unknown=unknown,
    )


def device_count(record: InstanceType) -> int:
    """Accelerators of a node; a share of one GPU is one device."""
    accelerator = record.accelerator
    return 0 if accelerator is None else accelerator.count or accelerator.logical_count


def _network(record: InstanceType, plan: InterfacePlan) -> NodeNetwork:
    hardware, unknown = record.network, {}
    by_card: dict[int, list[NetworkInterface]] = defaultdict(list)
    for interface in plan.interfaces:
        by_card[interface.network_card_index].append(interface)
    efa = hardware.efa
    hardware_efa = 0.0 if efa is None else efa.ceiling_gbps
    bandwidths = {
        "efa_gbps": (plan.efa_gbps, "EFA bandwidth of these cards"),
        "hardware_efa_gbps": (hardware_efa, "EFA bandwidth"),
        "ena_gbps": (plan.ena_gbps, "IP bandwidth of these interfaces"),
        "hardware_ena_gbps": (hardware.maximum_ena_gbps, "greatest IP bandwidth"),
    }
    unknown = {
        name: f"no source gives the {what} of {record.name}"
        for name, (gbps, what) in bandwidths.items()
        if gbps is None
    }
    return NodeNetwork(
        policy=plan.policy.value,
        basis=plan.basis,
        cards=tuple(_card(card, by_card[card.index]) for card in hardware.cards),
        interface_count=len(plan.interfaces),
        ip_addresses=plan.ip_addresses_per_node,
        efa_interface_count=plan.efa_count,
        hardware_efa_interfaces=0 if efa is None else efa.max_interfaces,
        efa_gbps=plan.efa_gbps,
        hardware_efa_gbps=hardware_efa,
        ena_gbps=plan.ena_gbps,
        hardware_ena_gbps=hardware.maximum_ena_gbps,
        unknown=unknown,
    )


def _card(card: NetworkCard, interfaces: list[NetworkInterface]) -> CardPlan:
    return CardPlan(
        index=card.index,
        interfaces=tuple(
            InterfacePlanned(
                interface_type=one.interface_type,
                device_index=one.device_index,
                has_ip=one.has_ip,
                is_efa=one.is_efa,
            )
            for one in sorted(interfaces)
        ),
        interface_types=tuple(sorted(card.interface_types)),
        max_interfaces=card.max_interfaces,
        efa_gbps=card.efa_gbps,
        ena_gbps=card.ena_gbps,
    )


def _mig(plan: MigPlan) -> NodeMig:
    return NodeMig(
        gpu=plan.gpu.key,
        memory_slices=plan.gpu.memory_slices,
        gpus=tuple(_mig_gpu(gpu) for gpu in plan.gpus),
        partition=plan.partition,
        slices=plan.slices_per_node,
        resources=dict(plan.resources),
        minimum_driver=plan.minimum_driver,
        placements_verified=not plan.placements_inferred,
    )


def _mig_gpu(gpu: MigGpuPlan) -> MigGpuSlices:
    slices = tuple(
        MigSlice(
            profile=placement.profile.name,
            profile_id=placement.profile.id,
            start=placement.start,
            size=placement.size,
            compute_slices=placement.profile.compute_slices,
            memory_gb=placement.profile.memory_gb,
            resource_name=placement.profile.resource_name,
        )
        for placement in gpu.placements
    )
    return MigGpuSlices(index=gpu.index, partition=gpu.partition, slices=slices)


def _disks_at(view: PlannedFleet) -> str | None:
    """Where the local disks are mounted as one file system."""
    if view.profile.has_node_config:
        return None if view.spec.scratch is False else _PODS_DISKS
    return None if view.scratch is None else SCRATCH_MOUNT_POINT


def _disks(record: InstanceType, mount_point: str | None) -> LocalDisks | None:
    if not record.local_disks:
        return None
    first = record.local_disks[0]
    return LocalDisks(
        count=sum(disk.count for disk in record.local_disks),
        size_gb_each=first.size_gb,
        mount_point=mount_point,
    )


def _root_volume(view: PlannedFleet) -> RootVolumePlan:
    volume = view.spec.root_volume
    return RootVolumePlan(
        size_gib=view.root_volume_gib,
        iops=volume.iops or DEFAULT_IOPS,
        throughput_mib_per_s=volume.throughput_mib_per_s or DEFAULT_THROUGHPUT_MIB_PER_S,
        encryption_key_arn=volume.encryption_key_arn,
    )


# How a node boots. The node's own software answers, with the settings that the node gets.

#: Programs that add a stage of their own, after all others.
_READY_PROGRAMS = "/etc/gpu-cluster/ready.d/"


def boot_of(view: PlannedFleet) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The stages of a node's boot in their order, and the checks of its stage `verification`."""
    request = view.node_request()
    if view.profile.joins_hyperpod:  # HyperPod mounts the file systems itself
        settings_of_node = instance_group_settings(view.plan, replace(request, mounts=()))
    else:
        settings_of_node = node_settings(view.plan, request)
    values = node_environment(settings_of_node)
    settings = Settings({name.removeprefix("GPU_").lower(): value for name, value in values.items()})
    node = Node(settings=settings, metadata=Metadata(), instance_id="", aws=Aws(""))
    here = {stage.name for stage in extra_stages()}  # programs of this machine, if it is a node itself
    stages = [stage.name for stage in stages_of(node) if stage.name not in here]
    return (*stages, *_own_stages(view)), tuple(checks_of(node))


def _own_stages(view: PlannedFleet) -> list[str]:
    """Stages that the fleet's own files add."""
    settings = view.server_settings
    paths = [] if settings is None else [file.path for file in model_server_files(settings)]
    return sorted(path.removeprefix(_READY_PROGRAMS) for path in paths if path.startswith(_READY_PROGRAMS))
