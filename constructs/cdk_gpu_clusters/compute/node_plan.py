"""What one node is, and what its user wishes of it, whoever launches it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.compute.fleet_mounts import MountableFileSystem
from cdk_gpu_clusters.node.kubernetes_node import NodeConfig
from cdk_gpu_clusters.node.mig import FabricManagerOrder
from cdk_gpu_clusters.node.settings import NodeWatch, UserDataPart
from cdk_gpu_clusters.node.software import NodeFile
from cdk_gpu_clusters.rules.fleet import BLOCK_DRAIN
from cdk_gpu_clusters.rules.interfaces import Orchestrator
from cdk_gpu_clusters.rules.mig import MigPlan

#: What is left of the two minutes of a spot notice, after it is seen and before the instance stops.
SPOT_DRAIN_SECONDS = 90
#: What is left of the time from a block's drain to its forced stop, after the node has believed its clock (60 s) and
#: beside what its jobs get (15 s).
BLOCK_DRAIN_SECONDS = int(BLOCK_DRAIN.total_seconds()) - 120
# Time that a failed boot needs to say why before those who wait for it give up.
_LAST_WORDS_SECONDS = 300


def boot_deadline_seconds(ready_timeout_seconds: int) -> int:
    """When a node has to be ready, of which somebody waits so long."""
    return max(ready_timeout_seconds - _LAST_WORDS_SECONDS, ready_timeout_seconds // 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """What was decided about a node.

    Attributes:
        name: Name of its fleet, for people.
        instance_type: Its type.
        orchestrator: Who launches it.
        efa_count: EFA interfaces that it has.
        fleet_size: Most nodes of its fleet.
        mig: How its GPUs are split, None if they stay whole.
        boot_deadline_seconds: When it has to be ready, from the kernel's start.
        drain_deadline_seconds: How long it may take to stop its work.
        drain_at: When it drains itself, None if others tell it when it ends.
        launch_hook_name: Lifecycle hook that it completes when it is ready, None for none.
        terminate_hook_name: Lifecycle hook that it completes before it ends, None for none.
    """

    name: str
    instance_type: InstanceType
    orchestrator: Orchestrator
    efa_count: int
    fleet_size: int
    mig: MigPlan | None
    boot_deadline_seconds: int
    drain_deadline_seconds: int
    drain_at: datetime | None = None
    launch_hook_name: str | None = None
    terminate_hook_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWish:
    """What the user says about the node itself.

    Attributes:
        environment: Variables for logins and jobs.
        user_parts: Parts of the user data.
        files: Further static files.
        fabric_manager_order: Whether GPUs are split before or after the fabric manager starts.
        mounts: File systems by mount point.
        scratch: Whether local disks, where the type has some, become one file system.
        watch: How the node is watched.
        evidence_uri: Where it leaves evidence, None for nowhere.
        node_config: How an EKS node is set up; None on others.
        slurm_version: Slurm's version under AWS PCS, None if unknown.
        inspection_seconds: How long it is kept when it failed its boot and launches are suspended.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    user_parts: tuple[UserDataPart, ...] = ()
    files: tuple[NodeFile, ...] = ()
    fabric_manager_order: FabricManagerOrder = FabricManagerOrder.AFTER
    mounts: Mapping[str, MountableFileSystem] = field(default_factory=dict)
    scratch: bool = True
    watch: NodeWatch = field(default_factory=NodeWatch)
    evidence_uri: str | None = None
    node_config: NodeConfig | None = None
    slurm_version: str | None = None
    inspection_seconds: int = 0
