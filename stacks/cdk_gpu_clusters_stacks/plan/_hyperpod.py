"""The cluster of SageMaker HyperPod of the plan, and fleets that are its instance groups."""

from __future__ import annotations

from cdk_gpu_clusters.rules.hyperpod import ml_name
from cdk_gpu_clusters_stacks.spec.capacity import training_plan_of
from cdk_gpu_clusters_stacks.spec.model import ORCHESTRATORS, ClusterSpec
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet
from cdk_gpu_clusters_stacks.stack_names import hyperpod_stack

from .model import HyperPodGroupPlan, HyperPodPlan, InstanceGroupReport

_UPDATE = "a deployment changes the group in place; new nodes run new scripts, and running nodes keep theirs"


def plan_hyperpod(spec: ClusterSpec) -> HyperPodPlan | None:
    """Describe the cluster of HyperPod; None under another orchestrator."""
    profile, hyperpod = ORCHESTRATORS[spec.orchestrator], spec.hyperpod
    if not profile.joins_hyperpod:
        return None
    on_slurm, database = profile.is_hyperpod_slurm, hyperpod.accounting_database
    controller, login = hyperpod.controller, hyperpod.login
    return HyperPodPlan(
        stack_name=hyperpod_stack(spec.name),
        runs=profile.agent.removeprefix("hyperpod-"),
        node_recovery=hyperpod.node_recovery,
        continuous_provisioning=hyperpod.continuous_provisioning,
        controller=_group(controller.instance_type, 1) if on_slurm else None,
        login=_group(login.instance_type, login.nodes, login.mounts) if on_slurm and login.nodes else None,
        accounting=database.endpoint if database else "on the controller" if on_slurm else None,
        tiered_checkpoint_percent=hyperpod.tiered_checkpoint_percent,
    )


def _group(instance_type: str, nodes: int, mounts: dict[str, str] | None = None) -> HyperPodGroupPlan:
    return HyperPodGroupPlan(instance_type=ml_name(instance_type), node_count=nodes, mounts=dict(mounts or {}))


def report_instance_group(view: PlannedFleet) -> InstanceGroupReport:
    """Describe the instance group of a fleet."""
    group, own = view.instance_group, view.group_options
    return InstanceGroupReport(
        name=view.name,
        instance_type=group.instance_type,
        interface_type=group.interface_type,
        partition=view.partition,
        labels=dict(group.labels),
        training_plan_arn=training_plan_of(view.spec.capacity),
        least_nodes=own.least_nodes,
        deep_health_checks=own.deep_health_checks,
        volume_gib=own.volume_gib,
        update=_UPDATE,
    )
