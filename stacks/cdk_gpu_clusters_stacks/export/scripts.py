"""The scripts of the custom actions of AWS ParallelCluster for the fleets of a cluster file."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cdk_gpu_clusters.fleet.node import lustre_efa, node_settings
from cdk_gpu_clusters.node.custom_actions import compute_node_script, head_node_script
from cdk_gpu_clusters_stacks.spec.fleet import FleetSpec, read_script
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet
from cdk_gpu_clusters_stacks.stack_names import output_of


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeScript:
    """A script of nodes.

    Attributes:
        name: Its name as a file, without digest and ending.
        output: What the output with its URL is named after.
        description: What it is for.
        text: The script.
    """

    name: str
    output: str
    description: str
    text: str


HEAD_NODE = NodeScript(
    name="head-node", output="HeadNodeScript", description="Custom action of the head node", text=head_node_script()
)


def scripts_of(fleet: PlannedFleet) -> list[NodeScript]:
    """The scripts of the nodes of a fleet: the user's own, if there is one, and that of the node software.

    Args:
        fleet: The fleet, as nodes of ParallelCluster.
    """
    own = fleet.spec.user_data if isinstance(fleet.spec, FleetSpec) else None
    scripts = [_script("nodes", "NodeScript", fleet.name, _node_script(fleet), "Custom action of nodes of")]
    if own is not None:
        scripts.insert(0, _script("user-data", "UserScript", fleet.name, read_script(own), "The script of"))
    return scripts


def _script(kind: str, output: str, fleet: str, text: str, words: str) -> NodeScript:
    return NodeScript(
        name=f"{kind}-{fleet}", output=output_of(output, fleet), description=f"{words} {fleet}", text=text
    )


def _node_script(fleet: PlannedFleet) -> str:
    plan, request = fleet.plan, fleet.node_request()
    environment = dict(fleet.spec.environment) if isinstance(fleet.spec, FleetSpec) else {}
    if fleet.scratch is not None:
        environment["SCRATCH_DIR"] = fleet.scratch.mount_point
    own = replace(request, environment=environment)
    by_efa = lustre_efa(fleet.node_mounts(), plan.instance_type, plan.maximum) if plan.efa else None
    return compute_node_script(replace(node_settings(plan, own), lustre_efa=by_efa))
