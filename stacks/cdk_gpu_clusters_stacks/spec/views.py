"""The fleets of a cluster with what the catalogue and the rules decide about them."""

from __future__ import annotations

from cdk_gpu_clusters.errors import ConfigError, Finding
from cdk_gpu_clusters.rules.model_servers import ServerPlan, ServerSlots, check_mig_slots, plan_servers

from ._fleet_view import FleetView
from ._parts import parts_of
from .inference import InferenceFleetSpec
from .model import ClusterSpec

__all__ = ["FleetView", "fleet_views", "plan_slots"]


def fleet_views(spec: ClusterSpec) -> list[FleetView]:
    """The fleets of a cluster: training fleets, then inference fleets, in the order of the file.

    Args:
        spec: A cluster without errors.

    Raises:
        ConfigError: If an instance type is unknown.
    """
    parts = parts_of(spec)
    return [FleetView.of(part, parts) for part in parts.fleets]


def plan_slots(view: FleetView, spec: InferenceFleetSpec) -> tuple[ServerPlan | None, list[Finding]]:
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
