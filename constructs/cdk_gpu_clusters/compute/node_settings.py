"""The user data of a node, from what was decided about it and what its user wishes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aws_cdk import aws_logs as logs
from constructs import Construct

from cdk_gpu_clusters._cdk import report, stack_of
from cdk_gpu_clusters.compute.fleet_mounts import lustre_efa, lustre_mounts
from cdk_gpu_clusters.compute.node_asset import NodeAsset, node_software
from cdk_gpu_clusters.compute.node_plan import NodePlan, NodeWish
from cdk_gpu_clusters.node.kubernetes_node import node_config_text, over_eks
from cdk_gpu_clusters.node.mig import mig_settings
from cdk_gpu_clusters.node.settings import COMMUNICATION_VARIABLES, NodeSettings, check_settings, gpu_facts
from cdk_gpu_clusters.node.software import NodeFile, SoftwareObject, software_archive
from cdk_gpu_clusters.node.storage import ScratchSettings
from cdk_gpu_clusters.node.user_data import render_user_data
from cdk_gpu_clusters.rules.interfaces import Orchestrator

_CHECKPOINT_VARIABLES = ("CHECKPOINT_",)
#: Who a node tells that it is not well, as `NodeSettings` has it.
_ORCHESTRATORS = {
    Orchestrator.EC2: "ec2",
    Orchestrator.EKS_MANAGED: "eks",
    Orchestrator.EKS_SELF_MANAGED: "eks",
    Orchestrator.PCS: "pcs",
}
# awslabs/awsome-distributed-ai @ 95b939c, architectures/aws-pcs/assets/pcs-ready-dlami-with-enroot-pyxis.yaml.
_PCS_SLURM = "/opt/aws/pcs/scheduler/slurm-{version}/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenNode:
    """What a node is launched with.

    Attributes:
        user_data: The user data.
        asset: The files that come from S3.
    """

    user_data: str
    asset: NodeAsset


def write_node(scope: Construct, plan: NodePlan, wish: NodeWish, *, log_group: logs.ILogGroup) -> WrittenNode:
    """Write the user data of nodes, and make the asset that holds the files that can wait for the network.

    Args:
        scope: Their construct.
        plan: What was decided about them.
        wish: What the user says.
        log_group: Where they log.

    Raises:
        ConfigError: GPU-UD-003 and -005 to -008, GPU-MNT-001 to -003.
    """
    settings = _settings(plan, wish, log_group_name=log_group.log_group_name)
    report(scope, check_settings(settings))
    asset = _asset(scope, wish.files)
    place = SoftwareObject(bucket_name=asset.bucket_name, object_key=asset.object_key, sha256=asset.sha256)
    return WrittenNode(user_data=render_user_data(settings, place), asset=asset)


def _asset(scope: Construct, files: Sequence[NodeFile]) -> NodeAsset:
    if all(file.early for file in files):
        return node_software(stack_of(scope))
    return NodeAsset(scope, "Software", content=software_archive(files), file_extension=".tar")


def _settings(plan: NodePlan, wish: NodeWish, *, log_group_name: str) -> NodeSettings:
    record, mounts = plan.instance_type, lustre_mounts(wish.mounts, efa=plan.efa_count > 0)
    disks = sum(disk.count for disk in record.local_disks)
    accelerator, on_eks = record.accelerator, wish.node_config is not None
    has_scratch = wish.scratch and disks > 0
    return NodeSettings(
        fleet_name=plan.name,
        launch_hook_name=plan.launch_hook_name,
        terminate_hook_name=plan.terminate_hook_name,
        boot_deadline_seconds=plan.boot_deadline_seconds,
        drain_deadline_seconds=plan.drain_deadline_seconds,
        drain_at=plan.drain_at,
        log_group_name=log_group_name,
        evidence_uri=wish.evidence_uri,
        orchestrator=_ORCHESTRATORS[plan.orchestrator],
        slurm_bin=None if wish.slurm_version is None else _PCS_SLURM.format(version=wish.slurm_version),
        inspection_seconds=wish.inspection_seconds,
        watch=wish.watch,
        accelerator_kind=None if accelerator is None else accelerator.kind,
        accelerator_count=0 if accelerator is None else accelerator.count or accelerator.logical_count,
        gpu_facts=gpu_facts(record),
        efa_interface_count=plan.efa_count,
        instance_family=record.family,
        **_environments(wish.environment),
        mounts=mounts,
        lustre_efa=lustre_efa(mounts, record, plan.fleet_size),
        # On EKS nodeadm makes one file system of the disks, and kubelet and containerd use it.
        scratch=ScratchSettings(disk_count=disks) if has_scratch and not on_eks else None,
        node_config=node_config_text(wish.node_config, local_storage="RAID0" if has_scratch else None)
        if wish.node_config is not None
        else "",
        user_parts=wish.user_parts,
        files=(*wish.files, *_over_eks(plan, wish)),
        mig=None if plan.mig is None else mig_settings(plan.mig, fabric_manager=wish.fabric_manager_order),
    )


def _over_eks(plan: NodePlan, wish: NodeWish) -> tuple[NodeFile, ...]:
    if plan.orchestrator is not Orchestrator.EKS_MANAGED or wish.node_config is None:
        return ()
    return over_eks(wish.node_config)


def _environments(environment: Mapping[str, str]) -> dict[str, Any]:
    """The user's variables, by who reads them."""
    communication, checkpoints, others = {}, {}, {}
    for name, value in environment.items():
        if name.startswith(COMMUNICATION_VARIABLES):
            communication[name] = value
        elif name.startswith(_CHECKPOINT_VARIABLES):
            checkpoints[name] = value
        else:
            others[name] = value
    return {
        "nccl_environment": communication,
        "checkpoint_environment": checkpoints,
        "extra_environment": others,
    }
