"""What the nodes of a fleet are told at boot."""

from __future__ import annotations

from aws_cdk import aws_logs as logs
from constructs import Construct

from cdk_gpu_clusters._cdk import path_of
from cdk_gpu_clusters.compute.auto_scaling_group import DRAIN_HOOK, READY_HOOK
from cdk_gpu_clusters.compute.fleet_plan import FleetPlan
from cdk_gpu_clusters.compute.node_plan import SPOT_DRAIN_SECONDS, NodePlan, NodeWish, boot_deadline_seconds
from cdk_gpu_clusters.compute.node_settings import WrittenNode, write_node
from cdk_gpu_clusters.rules.capacity import CapacityKind
from cdk_gpu_clusters.rules.interfaces import Orchestrator

# Time that a drained node needs to complete its terminating hook.
_HOOK_MARGIN_SECONDS = 60


def fleet_node(
    scope: Construct, plan: FleetPlan, wish: NodeWish, *, log_group: logs.ILogGroup
) -> WrittenNode:
    """The user data of a fleet's nodes, and the asset that holds the files that can wait for the network.

    Args:
        scope: The fleet; its path names the fleet for people.
        plan: What was decided about it.
        wish: What the user says about its nodes.
        log_group: Where the nodes log their boot.

    Raises:
        ConfigError: GPU-UD-003 and -005 to -008, GPU-MNT-001 to -003.
    """
    is_spot = plan.capacity.terms.kind is CapacityKind.SPOT
    stopped = plan.drain_timeout_seconds
    drain = max(stopped - _HOOK_MARGIN_SECONDS, stopped // 2)
    node = NodePlan(
        name=path_of(scope),
        instance_type=plan.instance_type,
        orchestrator=Orchestrator.EC2,
        efa_count=plan.interfaces.efa_count,
        fleet_size=plan.maximum,
        mig=plan.mig,
        boot_deadline_seconds=boot_deadline_seconds(plan.ready_timeout_seconds),
        drain_deadline_seconds=min(drain, SPOT_DRAIN_SECONDS) if is_spot else drain,
        launch_hook_name=READY_HOOK,
        terminate_hook_name=DRAIN_HOOK,
    )
    return write_node(scope, node, wish, log_group=log_group)
