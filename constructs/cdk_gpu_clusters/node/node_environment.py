"""What `/etc/gpu-cluster/node.env` says: the settings of a node as its programs read them."""

from __future__ import annotations

from cdk_gpu_clusters.node.block_end import DRAIN_AT, instant
from cdk_gpu_clusters.node.settings import NodeSettings


def node_environment(settings: NodeSettings) -> dict[str, str]:
    """The settings that the node's programs read, by their names; an empty text for what is not given.

    Args:
        settings: What the node is and what it has to do.
    """
    values = {
        "GPU_FLEET": settings.fleet_name,
        "GPU_REGION": settings.region,
        "GPU_LAUNCH_HOOK": settings.launch_hook_name,
        "GPU_TERMINATE_HOOK": settings.terminate_hook_name,
        "GPU_BOOT_DEADLINE": settings.boot_deadline_seconds,
        "GPU_DRAIN_DEADLINE": settings.drain_deadline_seconds,
        "GPU_LOG_GROUP": settings.log_group_name,
        "GPU_INSPECTION": settings.inspection_seconds or None,
        "GPU_EVIDENCE_URI": settings.evidence_uri,
        "GPU_ORCHESTRATOR": settings.orchestrator,
        **({} if settings.drain_at is None else {DRAIN_AT: instant(settings.drain_at)}),
        **({} if settings.slurm_bin is None else {"GPU_SLURM_BIN": settings.slurm_bin}),
        "GPU_ACCELERATOR": settings.accelerator_kind,
        "GPU_ACCELERATOR_COUNT": settings.accelerator_count,
        "GPU_EFA_COUNT": settings.efa_interface_count,
        "GPU_SLOTS": settings.processes_per_node or max(1, _device_count(settings)),
        "GPU_HUGE_PAGES": settings.huge_pages,
    }
    values |= settings.watch.environment()
    if settings.gpu_facts is not None:
        values |= settings.gpu_facts.environment()
    if settings.mig is not None:
        values["GPU_MIG_COUNT"] = settings.mig.device_count
    if settings.mounts:
        values["GPU_MOUNTS"] = len(settings.mounts)
    if settings.lustre_efa is not None:
        values |= settings.lustre_efa.environment()
    if settings.scratch is not None:
        values["GPU_SCRATCH"] = settings.scratch.mount_point
        values["GPU_SCRATCH_DISKS"] = settings.scratch.disk_count
    return {name: "" if value is None else str(value) for name, value in values.items()}


def _device_count(settings: NodeSettings) -> int:
    mig = settings.mig
    return settings.accelerator_count if mig is None else mig.device_count + mig.whole_gpu_count
