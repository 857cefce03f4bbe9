"""What the nodes of a fleet are told at boot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import aws_logs as logs
from constructs import Construct

from cdk_gpu_clusters._cdk import path_of, report, stack_of
from cdk_gpu_clusters.compute.auto_scaling_group import DRAIN_HOOK, READY_HOOK
from cdk_gpu_clusters.compute.fleet_mounts import LustreStoreLike, lustre_efa, lustre_mounts
from cdk_gpu_clusters.compute.fleet_plan import FleetPlan
from cdk_gpu_clusters.compute.node_asset import NodeAsset, node_software
from cdk_gpu_clusters.node.gpu_facts import gpu_facts
from cdk_gpu_clusters.node.mig import FabricManagerOrder, mig_settings
from cdk_gpu_clusters.node.node_file import NodeFile
from cdk_gpu_clusters.node.node_watch import NodeWatch
from cdk_gpu_clusters.node.settings import COMMUNICATION_VARIABLES, NodeSettings, UserPart, check_settings
from cdk_gpu_clusters.node.software import SoftwareObject, software_archive
from cdk_gpu_clusters.node.storage import LustreMount, ScratchSettings
from cdk_gpu_clusters.node.user_data import render_user_data
from cdk_gpu_clusters.rules.capacity import CapacityKind

# Time that a failed boot needs to say why before its hook runs out.
_LAST_WORDS_SECONDS = 300
# What is left of the two minutes of a spot notice, after it is seen and before the instance stops.
_SPOT_DRAIN_SECONDS = 90
# Time that a drained node needs to complete its terminating hook.
_HOOK_MARGIN_SECONDS = 60
_CHECKPOINT_VARIABLES = ("CHECKPOINT_",)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetNode:
    """What a fleet launches its nodes with.

    Attributes:
        user_data: The user data.
        asset: The files that come from S3.
    """

    user_data: str
    asset: NodeAsset


def fleet_node(
    scope: Construct,
    plan: FleetPlan,
    *,
    log_group: logs.ILogGroup,
    environment: Mapping[str, str] | None,
    user_parts: Sequence[UserPart],
    files: Sequence[NodeFile],
    fabric_manager_order: FabricManagerOrder,
    mounts: Mapping[str, LustreStoreLike],
    scratch: bool,
    watch: NodeWatch,
    evidence_uri: str | None,
) -> FleetNode:
    """The user data of a fleet's nodes, and the asset that holds the files that can wait for the network.

    Args:
        scope: The fleet; its path names the fleet for people.
        plan: What was decided about it.
        log_group: Where the nodes log their boot.
        environment: The user's variables.
        user_parts: The user's parts of the user data.
        files: Further static files.
        fabric_manager_order: Whether GPUs are split before or after the fabric manager starts.
        mounts: File systems by mount point.
        scratch: Whether local disks, where the type has some, become one file system.
        watch: How the nodes are watched.
        evidence_uri: Where they leave evidence, if anywhere.

    Raises:
        ConfigError: GPU-UD-003 and -005 to -008, GPU-MNT-001 to -003.
    """
    settings = _node_settings(
        plan,
        fleet_name=path_of(scope),
        log_group_name=log_group.log_group_name,
        environment=environment or {},
        user_parts=tuple(user_parts),
        files=tuple(files),
        fabric_manager_order=fabric_manager_order,
        mounts=lustre_mounts(plan, mounts),
        scratch=scratch,
        watch=watch,
        evidence_uri=evidence_uri,
    )
    report(scope, check_settings(settings))
    asset = _asset(scope, files)
    place = SoftwareObject(bucket_name=asset.bucket_name, object_key=asset.object_key, sha256=asset.sha256)
    return FleetNode(user_data=render_user_data(settings, place), asset=asset)


def _asset(scope: Construct, files: Sequence[NodeFile]) -> NodeAsset:
    if all(file.early for file in files):
        return node_software(stack_of(scope))
    return NodeAsset(scope, "Software", content=software_archive(files), file_extension=".tar")


def _node_settings(
    plan: FleetPlan,
    *,
    fleet_name: str,
    log_group_name: str,
    environment: Mapping[str, str],
    user_parts: tuple[UserPart, ...],
    files: tuple[NodeFile, ...],
    fabric_manager_order: FabricManagerOrder,
    mounts: tuple[LustreMount, ...],
    scratch: bool,
    watch: NodeWatch,
    evidence_uri: str | None,
) -> NodeSettings:
    disks = sum(disk.count for disk in plan.instance_type.local_disks)
    accelerator, is_spot = plan.instance_type.accelerator, plan.capacity.terms.kind is CapacityKind.SPOT
    ready, stopped = plan.ready_timeout_seconds, plan.drain_timeout_seconds
    boot = max(ready - _LAST_WORDS_SECONDS, ready // 2)
    drain = max(stopped - _HOOK_MARGIN_SECONDS, stopped // 2)
    return NodeSettings(
        fleet_name=fleet_name,
        launch_hook_name=READY_HOOK,
        terminate_hook_name=DRAIN_HOOK,
        boot_deadline_seconds=boot,
        drain_deadline_seconds=min(drain, _SPOT_DRAIN_SECONDS) if is_spot else drain,
        log_group_name=log_group_name,
        evidence_uri=evidence_uri,
        orchestrator="ec2",
        watch=watch,
        accelerator_kind=None if accelerator is None else accelerator.kind,
        accelerator_count=0 if accelerator is None else accelerator.count or accelerator.logical_count,
        gpu_facts=gpu_facts(plan.instance_type),
        efa_interface_count=plan.interfaces.efa_count,
        instance_family=plan.instance_type.family,
        nccl_environment={
            key: value for key, value in environment.items() if key.startswith(COMMUNICATION_VARIABLES)
        },
        extra_environment={
            key: value
            for key, value in environment.items()
            if not key.startswith(COMMUNICATION_VARIABLES + _CHECKPOINT_VARIABLES)
        },
        checkpoint_environment={
            key: value for key, value in environment.items() if key.startswith(_CHECKPOINT_VARIABLES)
        },
        mounts=mounts,
        lustre_efa=lustre_efa(plan, mounts),
        scratch=ScratchSettings(disk_count=disks) if scratch and disks else None,
        user_parts=user_parts,
        files=files,
        mig=None if plan.mig is None else mig_settings(plan.mig, fabric_manager=fabric_manager_order),
    )
