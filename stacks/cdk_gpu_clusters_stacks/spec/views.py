"""The fleets of a cluster with what the catalogue and the rules decide about them."""

from __future__ import annotations

from cdk_gpu_clusters.errors import ConfigError, Finding
from cdk_gpu_clusters.fleet.plan import Topic
from cdk_gpu_clusters.rules.model_servers import ServerPlan, ServerSlots, check_mig_slots, plan_servers

from ._parts import parts_of
from .inference import InferenceFleetSpec
from .model import ClusterSpec
from .planned_fleet import PlannedFleet

__all__ = ["PlannedFleet", "plan_slots", "planned_fleets"]


def planned_fleets(spec: ClusterSpec) -> list[PlannedFleet]:
    """The fleets of a cluster: training fleets, then inference fleets, in the order of the file.

    Args:
        spec: A cluster without errors.

    Raises:
        ConfigError: If an instance type is unknown, or there is no layout of network interfaces for it.
    """
    parts = parts_of(spec)
    fleets = [PlannedFleet.of(part, parts) for part in parts.fleets]
    for fleet in fleets:
        if fleet.plan.interfaces_or_none is None:
            raise ConfigError(fleet.plan.about(Topic.TYPE, Topic.INTERFACES))
    return fleets


def plan_slots(view: PlannedFleet, spec: InferenceFleetSpec) -> tuple[ServerPlan | None, list[Finding]]:
    """Plan the model servers of a node.

    Returns:
        The plan, None where there is none or the MIG layout has a fault, and what is wrong with the slots.
    """
    slots, findings = spec.slots, list[Finding]()
    if view.broken & {"mig", "devices_per_server"} or (spec.mig is not None and view.mig is None):
        return None, []
    if view.mig is not None:
        count = view.mig.slices_per_node
        findings = check_mig_slots(slots, count, whole_gpus=view.mig.whole_gpus_per_node)
        slots = ServerSlots.per_mig_slice(count)
    try:
        plan = plan_servers(view.type, slots)
    except ConfigError as fault:
        return None, [*findings, *fault.findings]
    return plan, [*findings, *plan.findings]
