"""From a cluster file to its plan."""

from __future__ import annotations

from collections.abc import Sequence

from cdk_gpu_clusters.errors import Finding, raise_for
from cdk_gpu_clusters_stacks.spec.check import check_cluster
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec
from cdk_gpu_clusters_stacks.spec.network import NewNetwork
from cdk_gpu_clusters_stacks.spec.views import fleet_views

from ._cost import cluster_cost
from ._fleet import plan_fleet
from ._kubernetes import plan_kubernetes
from ._network import plan_network
from ._stacks import plan_stacks
from ._store import plan_store
from .fleet_model import FleetPlan
from .model import ClusterPlan, Totals


def plan_cluster(spec: ClusterSpec, findings: Sequence[Finding] | None = None) -> ClusterPlan:
    """Say what a cluster file makes.

    Every decision is asked of the rules that the constructs ask; nothing is looked up in an account, and no clock is
    read.

    Args:
        spec: The cluster.
        findings: What reading its file found; the rules are asked again if left out.

    Raises:
        ConfigError: If the cluster has errors, with all of them.

    Example:
        >>> from cdk_gpu_clusters_stacks.spec import load_cluster
        >>> plan = plan_cluster(load_cluster("examples/p5-capacity-block.yaml"))
        >>> plan.totals.accelerators, plan.fleets[0].placement.reason
        (128, 'no placement group: a Capacity Block is already placed, and EC2 refuses one')
    """
    found = check_cluster(spec) if findings is None else list(findings)
    raise_for(found)
    views = fleet_views(spec)
    fleets = tuple(plan_fleet(view, spec) for view in views)
    stores = tuple(plan_store(name, store, spec, views) for name, store in spec.data.items())
    kubernetes = plan_kubernetes(spec, views)
    return ClusterPlan(
        name=spec.name,
        region=spec.region,
        account=spec.account,
        orchestrator=spec.orchestrator,
        tags=dict(spec.tags),
        network=plan_network(spec, views),
        fleets=fleets,
        stores=stores,
        stacks=plan_stacks(spec, views),
        totals=_totals(fleets),
        cost=cluster_cost(fleets, stores, kubernetes, is_new_network=isinstance(spec.network, NewNetwork)),
        kubernetes=kubernetes,
        findings=tuple(found),
    )


def _totals(fleets: Sequence[FleetPlan]) -> Totals:
    return Totals(
        minimum_nodes=sum(fleet.minimum_nodes for fleet in fleets),
        maximum_nodes=sum(fleet.maximum_nodes for fleet in fleets),
        accelerators=sum(fleet.accelerators for fleet in fleets),
        accelerator_memory_gib=sum(fleet.accelerator_memory_gib for fleet in fleets),
        mig_slices=sum(
            fleet.maximum_nodes * fleet.node.mig.slices for fleet in fleets if fleet.node.mig is not None
        ),
        model_servers=sum(
            fleet.maximum_nodes * fleet.servers.servers_per_node
            for fleet in fleets
            if fleet.servers is not None
        ),
    )
