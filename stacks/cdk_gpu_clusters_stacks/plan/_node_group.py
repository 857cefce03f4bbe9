"""A fleet that is a managed node group of Amazon EKS."""

from __future__ import annotations

from cdk_gpu_clusters.kubernetes.gpu_pod import EFA_RESOURCE
from cdk_gpu_clusters.rules.capacity import CapacityDecision, decide_capacity
from cdk_gpu_clusters.rules.interfaces import InterfacePlan
from cdk_gpu_clusters.rules.node_group import (
    CAPACITY_TYPES,
    UpdateStrategy,
    choose_ami_type,
    desired_size,
    max_pods,
    update_strategy,
)
from cdk_gpu_clusters_stacks.manifests.pools import pool_of
from cdk_gpu_clusters_stacks.spec.capacity import capacity_terms
from cdk_gpu_clusters_stacks.spec.views import FleetView

from .kubernetes_model import NodeGroupPlan

_FOLLOWS_BLOCK = (
    "0 nodes until the block is delivered, then a state machine sets the size by eks:UpdateNodegroupConfig; EKS itself "
    "sets it to zero 40 minutes before the end"
)


def plan_node_group(view: FleetView, interfaces: InterfacePlan) -> NodeGroupPlan:
    """Describe the node group of a fleet."""
    spec, pool = view.spec, pool_of(view.name, view.spec, {})
    terms = capacity_terms(spec.capacity)
    decision = decide_capacity(terms, efa=view.uses_efa)
    row, _ = choose_ami_type(view.type)
    desired = desired_size(decision, minimum=spec.minimum_nodes, maximum=spec.maximum_nodes)
    strategy = update_strategy(decision)
    efa = {EFA_RESOURCE: pool.efa_count} if pool.efa_count else {}
    return NodeGroupPlan(
        capacity_type=CAPACITY_TYPES[terms.kind].value,
        ami_type="" if row is None else row.ami_type,
        desired_nodes=desired,
        grown_by=_grown_by(decision, desired),
        update_strategy=strategy.value,
        update=_update(strategy, rolls=spec.update == "rolling"),
        max_pods=max_pods(view.type, interfaces),
        mig_strategy=pool.mig_strategy.value,
        resources={**pool.resources, **efa},
        labels=dict(pool.labels),
        taints=tuple(f"{one.key}={one.value}:{one.effect}" for one in pool.taints),
    )


def _grown_by(decision: CapacityDecision, desired: int | None) -> str:
    if decision.size_changes_after_deploy:
        return _FOLLOWS_BLOCK
    if desired is not None:
        return "a fixed size, which the deployment sets"
    return (
        "an autoscaler of the cluster's, such as Cluster Autoscaler, which is not part of it; no deployment writes a "
        "size back"
    )


def _update(strategy: UpdateStrategy, *, rolls: bool) -> str:
    order = "the old node goes first" if strategy is UpdateStrategy.MINIMAL else "the new node comes first"
    if rolls:
        return f"a new template or version of the cluster replaces nodes one at a time; {order} (update: rolling)"
    return f"no deployment replaces running nodes (update: never); where EKS replaces one, {order}"
