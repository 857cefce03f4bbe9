"""The settings of a node, from the plan of its fleet and what is requested of the node itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.catalogue.lustre import lustre_fact
from cdk_gpu_clusters.fleet.plan import FleetPlan
from cdk_gpu_clusters.fleet.profile import OrchestratorProfile
from cdk_gpu_clusters.node.exporters import NodeExporters
from cdk_gpu_clusters.node.kubernetes_node import NodeConfig, node_config_text, over_eks
from cdk_gpu_clusters.node.mig import FabricManagerOrder, mig_settings
from cdk_gpu_clusters.node.settings import (
    COMMUNICATION_VARIABLES,
    EFA_HUGE_PAGES,
    NodeSettings,
    NodeWatch,
    UserDataPart,
    gpu_facts,
)
from cdk_gpu_clusters.node.software import NodeFile
from cdk_gpu_clusters.node.storage import LustreEfa, LustreMount, Mount, ScratchSettings
from cdk_gpu_clusters.node.users import UserDirectory
from cdk_gpu_clusters.rules.lustre_clients import lustre_efa_interfaces

_CHECKPOINT_VARIABLES = ("CHECKPOINT_",)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRequest:
    """What is requested of a node itself. Texts may be tokens, which are carried verbatim.

    Attributes:
        environment: Variables for logins and jobs.
        user_parts: Parts of the user data.
        files: Further static files.
        fabric_manager_order: Whether GPUs are split before or after the fabric manager starts.
        mounts: File systems, with EFA where they have it.
        scratch: Whether local disks, if the type has some, become one file system.
        watch: How the node is watched.
        exporters: Exporters that it installs and starts; None for none.
        log_group_name: Log group of the node's events.
        evidence_uri: Where the node leaves evidence; None for nowhere.
        node_config: How an EKS node is set up; None on others.
        slurm_version: Slurm's version under AWS PCS; None if unknown.
        inspection_seconds: How long a node is kept if it failed its boot and launches are suspended.
        metadata_users: Users who reach the instance metadata service beside root; `*` for all.
        directory: LDAP directory of the node's users; None for none.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    user_parts: tuple[UserDataPart, ...] = ()
    files: tuple[NodeFile, ...] = ()
    fabric_manager_order: FabricManagerOrder = FabricManagerOrder.AFTER
    mounts: tuple[Mount, ...] = ()
    scratch: bool = True
    watch: NodeWatch = field(default_factory=NodeWatch)
    exporters: NodeExporters | None = None
    log_group_name: str | None = None
    evidence_uri: str | None = None
    node_config: NodeConfig | None = None
    slurm_version: str | None = None
    inspection_seconds: int = 0
    metadata_users: tuple[str, ...] = ("*",)
    directory: UserDirectory | None = None


#: Nodes of a managed group that may be replaced in an hour after a failed first boot. This library's choice: enough for
#: a few broken nodes, and few enough that a fault of every launch costs little until somebody looks.
_REPLACEMENTS_PER_HOUR = 3


def node_settings(plan: FleetPlan, node: NodeRequest) -> NodeSettings:
    """The settings of a node.

    Args:
        plan: What was decided about its fleet.
        node: What is requested of it.
    """
    record, profile = plan.instance_type, plan.request.profile
    accelerator, config = record.accelerator, node.node_config
    mounts = tuple(
        replace(mount, efa=mount.efa and plan.efa) if isinstance(mount, LustreMount) else mount for mount in node.mounts
    )
    has_scratch = node.scratch and plan.local_disks > 0
    # On EKS nodeadm makes one file system of the disks, which kubelet and containerd use.
    local_storage = "RAID0" if has_scratch else None
    scratch = ScratchSettings(disk_count=plan.local_disks) if has_scratch and config is None else None
    return NodeSettings(
        fleet_name=plan.request.name,
        launch_hook_name=profile.launch_hook,
        terminate_hook_name=profile.terminate_hook,
        boot_deadline_seconds=plan.boot_deadline_seconds,
        drain_deadline_seconds=plan.drain_deadline_seconds,
        drain_at=plan.drain_at,
        log_group_name=node.log_group_name,
        evidence_uri=node.evidence_uri,
        orchestrator=profile.agent,
        slurm_bin=_slurm_bin(profile, node.slurm_version),
        scales=profile.runs_slurm and plan.request.minimum == 0 and not plan.keeps_size,
        inspection_seconds=node.inspection_seconds,
        replacements_per_hour=_REPLACEMENTS_PER_HOUR if profile.has_node_group else 0,
        watch=node.watch,
        exporters=node.exporters,
        runs_jobs=plan.runs_jobs,
        metadata_users=() if "*" in node.metadata_users else ("root", *node.metadata_users),
        directory=node.directory,
        accelerator_kind=None if accelerator is None else accelerator.kind,
        accelerator_count=0 if accelerator is None else accelerator.count or accelerator.logical_count,
        gpu_facts=gpu_facts(record),
        efa_interface_count=plan.interfaces.efa_count,
        instance_family=record.family,
        huge_pages=EFA_HUGE_PAGES if plan.efa and profile.reserves_huge_pages else None,
        **_environments(node.environment),
        mounts=mounts,
        lustre_efa=lustre_efa(mounts, record, plan.maximum),
        scratch=scratch,
        node_config="" if config is None else node_config_text(config, local_storage=local_storage),
        user_parts=node.user_parts,
        files=(*node.files, *(over_eks(config) if config and profile.has_node_group else ())),
        mig=None if plan.mig is None else mig_settings(plan.mig, fabric_manager=node.fabric_manager_order),
    )


def _slurm_bin(profile: OrchestratorProfile, version: str | None) -> str | None:
    """Folder of Slurm's commands; None if it is not known."""
    folder = profile.slurm_bin or ""
    if not folder or ("{version}" in folder and version is None):
        return None
    return folder.format(version=version)


def lustre_efa(mounts: Sequence[Mount], instance_type: InstanceType, node_count: int) -> LustreEfa | None:
    """How nodes mount over EFA; None if none of the mounts is of that kind.

    Args:
        mounts: What they mount.
        instance_type: Their type.
        node_count: How many there are at most.
    """
    if not any(isinstance(mount, LustreMount) and mount.efa for mount in mounts):
        return None
    return LustreEfa(
        interface_count=lustre_efa_interfaces(instance_type, node_count),
        driver_version=lustre_fact("efa", "driver_version"),
        lnd_version=lustre_fact("efa", "lnd_version").get(instance_type.family, ""),
    )


def _environments(environment: Mapping[str, str]) -> dict[str, Any]:
    """The variables, by what reads them."""
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
