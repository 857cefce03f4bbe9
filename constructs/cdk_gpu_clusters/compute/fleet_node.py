"""What the nodes of a fleet are told at boot."""

from __future__ import annotations

from collections.abc import Mapping

from cdk_gpu_clusters.catalogue.instances import InstanceType
from cdk_gpu_clusters.compute.auto_scaling_group import DRAIN_HOOK, READY_HOOK
from cdk_gpu_clusters.node.mig import MigSettings
from cdk_gpu_clusters.node.settings import NodeSettings, UserPart
from cdk_gpu_clusters.rules.interfaces import InterfacePlan

# Time that a failed boot needs to say why before its hook runs out.
_LAST_WORDS_SECONDS = 300
# What is left of the two minutes of a spot notice, after it is seen and before the instance stops.
_SPOT_DRAIN_SECONDS = 90
# Time that a drained node needs to complete its terminating hook.
_HOOK_MARGIN_SECONDS = 60
_COMMUNICATION_VARIABLES = ("NCCL_", "FI_")


def fleet_node_settings(
    instance_type: InstanceType,
    plan: InterfacePlan,
    *,
    fleet_name: str,
    log_group_name: str,
    is_spot: bool,
    ready_timeout_seconds: int,
    drain_timeout_seconds: int,
    environment: Mapping[str, str],
    user_parts: tuple[UserPart, ...],
    mig: MigSettings | None = None,
) -> NodeSettings:
    """The boot settings of a fleet's nodes.

    Args:
        instance_type: Type of the nodes.
        plan: Their network interfaces.
        fleet_name: Name of the fleet, for people.
        log_group_name: Where the nodes log their boot.
        is_spot: Whether EC2 may take them back with two minutes' notice.
        ready_timeout_seconds: Time-out of the launching hook.
        drain_timeout_seconds: Time-out of the terminating hook.
        environment: The user's variables.
        user_parts: The user's parts of the user data.
        mig: How the GPUs are split, None if they stay whole.
    """
    accelerator = instance_type.accelerator
    boot = max(ready_timeout_seconds - _LAST_WORDS_SECONDS, ready_timeout_seconds // 2)
    drain = max(drain_timeout_seconds - _HOOK_MARGIN_SECONDS, drain_timeout_seconds // 2)
    return NodeSettings(
        fleet_name=fleet_name,
        launch_hook_name=READY_HOOK,
        terminate_hook_name=DRAIN_HOOK,
        boot_deadline_seconds=boot,
        drain_deadline_seconds=min(drain, _SPOT_DRAIN_SECONDS) if is_spot else drain,
        log_group_name=log_group_name,
        accelerator_kind=None if accelerator is None else accelerator.kind,
        accelerator_count=0 if accelerator is None else accelerator.count or accelerator.logical_count,
        efa_interface_count=plan.efa_count,
        nccl_environment={
            key: value for key, value in environment.items() if key.startswith(_COMMUNICATION_VARIABLES)
        },
        extra_environment={
            key: value for key, value in environment.items() if not key.startswith(_COMMUNICATION_VARIABLES)
        },
        user_parts=user_parts,
        mig=mig,
    )
