"""The cluster of Amazon EKS of the plan, and fleets that are node groups of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from cdk_gpu_clusters.catalogue.kubernetes import KubernetesVersion, kubernetes_versions
from cdk_gpu_clusters.fleet.karpenter import EMPTY_MINUTES, capacity_types, image_alias, is_static
from cdk_gpu_clusters.fleet.node_group import NodeGroupPlan
from cdk_gpu_clusters.fleet.plan import FleetPlan
from cdk_gpu_clusters.kubernetes.gpu_pod import EFA_CLASS, EFA_RESOURCE
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.software.charts import EfaSoftware
from cdk_gpu_clusters.kubernetes.software.node_scaling import scale_from_zero_labels
from cdk_gpu_clusters.kubernetes.software.slurm import gres_plan
from cdk_gpu_clusters.kubernetes.software.slurm_topology import topology_name
from cdk_gpu_clusters.kubernetes.team_quotas import device_count, most_devices
from cdk_gpu_clusters.rules.cost import Estimate, control_plane_hour
from cdk_gpu_clusters.rules.eks_cluster import AFTER_NODES, BEFORE_NODES, SERVICE_IPV4_CIDR
from cdk_gpu_clusters.rules.node_group import (
    CAPACITY_TYPES,
    UpdateStrategy,
)
from cdk_gpu_clusters_stacks.counting import count
from cdk_gpu_clusters_stacks.manifests.cluster import kubernetes_version, releases, scaling_releases
from cdk_gpu_clusters_stacks.spec.model import ORCHESTRATORS, ClusterSpec
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet
from cdk_gpu_clusters_stacks.stack_names import eks_stack, karpenter_stack, software_stack

from ._cost import prices_used, usd_amount
from ._network import service_subnet_keys
from .model import (
    ChartPlan,
    KubernetesPlan,
    NodeGroupReport,
    SlinkyPartition,
    SlinkyPlan,
    SystemNodesPlan,
    TeamPlan,
    TeamQuotaPlan,
)
from .rates import system_node_hour

_NO_DATES = "the catalogue has no dates of this version"
_EXISTS = "the cluster is there already, and bills without this file"


def plan_kubernetes(spec: ClusterSpec, views: Sequence[PlannedFleet]) -> KubernetesPlan | None:
    """Describe the cluster that the fleets join; None on plain EC2."""
    if not ORCHESTRATORS[spec.orchestrator].uses_eks:
        return None
    has_charts = ORCHESTRATORS[spec.orchestrator].joins_eks
    if not has_charts:  # nodes and software are HyperPod's
        spec, views = spec.model_copy(update={"eks": spec.eks.without_software}), ()
    eks, existing = spec.eks, spec.eks.existing
    version = kubernetes_version(spec)
    support = _support(version)
    hour, extended = control_plane_hour(), control_plane_hour(extended_support=True)
    unknown = {}
    if support is None or support.standard_support_ends is None:
        unknown = dict.fromkeys(("standard_support_ends", "extended_support_ends"), _NO_DATES)
    if existing:
        unknown |= dict.fromkeys(("usd_per_hour", "usd_per_hour_extended"), _EXISTS)
    return KubernetesPlan(
        stack_name=None if existing else eks_stack(spec.name),
        cluster_name=existing.cluster_name if existing else None,
        version=version,
        standard_support_ends=_day(support, "standard_support_ends"),
        extended_support_ends=_day(support, "extended_support_ends"),
        public_access_cidrs=eks.public_access_cidrs,
        service_cidr=existing.service_cidr if existing else SERVICE_IPV4_CIDR,
        admins=eks.admin_principal_arns,
        add_ons=() if existing else (*BEFORE_NODES, *AFTER_NODES),
        system_nodes=None if existing else _system_nodes(spec),
        charts=tuple(
            ChartPlan(name=one.chart, version=one.version, namespace=one.namespace)
            for one in (*releases(spec, [view.node_group.pool for view in views]), *scaling_releases(spec, views))
            if has_charts
        ),
        slurm=_slurm(spec, views),
        teams=_teams(spec, [view.node_group.pool for view in views]),
        software_stack=software_stack(spec.name) if eks.software.apply else None,
        karpenter_stack=karpenter_stack(spec.name) if spec.has_karpenter else None,
        mirror=eks.software.mirror,
        usd_per_hour=None if existing else _amount(hour),
        usd_per_hour_extended=None if existing else _amount(extended),
        prices=() if existing else prices_used([*hour.prices, *extended.prices]),
        unknown=unknown,
    )


def _slurm(spec: ClusterSpec, views: Sequence[PlannedFleet]) -> SlinkyPlan | None:
    options, by_name = spec.eks.software.slurm, {view.name: view.node_group.pool for view in views}
    if options is None:
        return None
    cluster, pools = options.cluster, [by_name[name] for name in spec.slinky_fleets]
    plans = [gres_plan(pool, cluster) for pool in pools]
    return SlinkyPlan(
        name=cluster.name,
        partitions=tuple(
            SlinkyPartition(
                name=pool.name,
                node_count=pool.node_count,
                gres="" if plan is None else plan.node_gres,
                topology=topology_name(pool),
            )
            for pool, plan in zip(pools, plans, strict=True)
        ),
        accounting=None if cluster.accounting is None else cluster.accounting.host,
        login=cluster.login,
    )


def _teams(spec: ClusterSpec, pools: Sequence[NodePool]) -> tuple[TeamPlan, ...]:
    teams, named = spec.eks.all_teams, {pool.name: pool for pool in pools}
    every = [quota for team in teams for quota in team.quotas]
    return tuple(
        TeamPlan(
            name=team.name,
            group=team.group,
            weight=team.weight,
            quotas=tuple(
                TeamQuotaPlan(
                    fleet=quota.pool,
                    resource=quota.resource,
                    nominal=quota.nominal,
                    most=most_devices(named[quota.pool], quota, every),
                    lent=quota.lent,
                    of=device_count(named[quota.pool], quota.resource),
                )
                for quota in team.quotas
            ),
            members=spec.eks.teams[team.name].principal_arns,
        )
        for team in teams
    )


def _support(version: str) -> KubernetesVersion | None:
    return {row.version: row for row in kubernetes_versions()}.get(version)


def _day(support: KubernetesVersion | None, name: str) -> str | None:
    day = None if support is None else getattr(support, name)
    return None if day is None else str(day)


def _system_nodes(spec: ClusterSpec) -> SystemNodesPlan:
    nodes, hour = spec.eks.system_nodes, system_node_hour(spec)
    usd = None if hour.low is None else usd_amount(hour.low * nodes.nodes)
    return SystemNodesPlan(
        instance_type=nodes.instance_type,
        node_count=nodes.nodes,
        subnets=service_subnet_keys(spec.network),
        usd_per_hour=usd,
        prices=prices_used(hour.prices),
        unknown={} if usd is not None else {"usd_per_hour": hour.reason},
    )


def _amount(hour: Estimate) -> float | None:
    return None if hour.low is None else usd_amount(Decimal(hour.low))


# A fleet that is a managed node group.

_FOLLOWS_BLOCK = (
    "a state machine keeps the group filled from the start of its capacity, by eks:UpdateNodegroupConfig, and empties "
    "it before the end"
)


def report_node_group(view: PlannedFleet) -> NodeGroupReport:
    """Describe the node group of a fleet, or its node pool."""
    group, spec = view.node_group, view.spec
    pool, strategy = group.pool, group.update_strategy
    claims = view.parts.eks is not None and view.parts.eks.software.efa_software is EfaSoftware.DRA_DRIVER
    efa = {EFA_CLASS if claims else EFA_RESOURCE: pool.efa_count} if pool.efa_count else {}
    report = NodeGroupReport(
        capacity_type=CAPACITY_TYPES[view.plan.terms.kind].value,
        ami_type=group.ami_type,
        desired_nodes=group.desired_size,
        grown_by=_AUTOSCALED if view.is_autoscaled else _grown_by(view.plan),
        update_strategy=strategy.value,
        surge_nodes=group.surge_nodes,
        update=_update(group, rolls=spec.update == "rolling"),
        max_pods=group.max_pods,
        mig_strategy=pool.mig_strategy.value,
        resources={**pool.resources, **efa},
        labels={**pool.labels, **(scale_from_zero_labels(pool) if view.is_autoscaled else {})},
        taints=tuple(f"{one.key}={one.value}:{one.effect}" for one in pool.taints),
    )
    return _by_karpenter(view, report) if view.is_pool else report


_BY_PODS = (
    f"Karpenter launches nodes for pods that wait; one that was empty for {EMPTY_MINUTES} minutes goes, and one with "
    "pods stays"
)
_AUTOSCALED = f"the Cluster Autoscaler: nodes come for pods that wait, and go after {EMPTY_MINUTES} minutes without any"


def _by_karpenter(view: PlannedFleet, managed: NodeGroupReport) -> NodeGroupReport:
    """What Karpenter does otherwise than a managed node group."""
    plan, rolls = view.plan, view.spec.update == "rolling"
    update = "no changed node class replaces running nodes (update: never)"
    if rolls:
        update = "a changed node class replaces nodes one at a time, the new one first (update: rolling)"
    return replace(
        managed,
        managed_by="karpenter",
        capacity_type=", ".join(capacity_types(plan.terms)),
        ami_type=image_alias(view.node_group.request.release_version),
        desired_nodes=plan.maximum if is_static(plan) else None,
        grown_by="Karpenter keeps the number of nodes (replicas)" if is_static(plan) else _BY_PODS,
        update_strategy="",
        surge_nodes=view.surge_nodes,
        update=update,
    )


def _grown_by(plan: FleetPlan) -> str:
    if plan.keeps_size and plan.windows:
        return _FOLLOWS_BLOCK
    if plan.keeps_size:
        return "a fixed size, which the deployment sets"
    return (
        "an autoscaler of the cluster's, such as Cluster Autoscaler, which is not part of it; a deployment that "
        "changes the group may set the least size again"
    )


def _update(group: NodeGroupPlan, *, rolls: bool) -> str:
    order = f"new nodes come first, up to {count(group.surge_nodes, 'more node')} meanwhile"
    if group.update_strategy is UpdateStrategy.MINIMAL:
        order = "the old node goes first"
    if rolls:
        return f"a new template or version of the cluster replaces nodes one at a time; {order} (update: rolling)"
    return f"no deployment replaces running nodes (update: never); where EKS replaces one, {order}"
