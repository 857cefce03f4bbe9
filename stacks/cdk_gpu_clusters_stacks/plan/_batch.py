"""A fleet of the plan that is a compute environment of AWS Batch."""

from __future__ import annotations

from cdk_gpu_clusters.catalogue.kubernetes import image as catalogue_image
from cdk_gpu_clusters_stacks.spec.batch import BatchSpec
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet

from .model import BatchJobPlan, ComputeEnvironmentReport

_IN_PLACE = "a deployment that changes image or template replaces the nodes when their jobs end, at the latest after "
_REPLACED = "a deployment that changes image, template or block replaces the environment, and ends running jobs"


def report_compute_environment(view: PlannedFleet) -> ComputeEnvironmentReport:
    """Describe the compute environment of a fleet, its queue and its job."""
    environment, batch = view.compute_environment, view.parts.batch or BatchSpec()
    minutes = batch.job_minutes_on_update
    return ComputeEnvironmentReport(
        strategy=environment.strategy.value,
        minimum_vcpus=environment.minimum_vcpus,
        maximum_vcpus=environment.maximum_vcpus,
        grown_by=_grown_by(view),
        blocked_minutes=view.blocked_minutes,
        job=_job(view),
        update=_REPLACED if environment.replaces else _IN_PLACE + (f"{minutes} minutes" if minutes else "5 days"),
    )


def _job(view: PlannedFleet) -> BatchJobPlan:
    job, plan = view.batch_job, view.multi_node_job
    return BatchJobPlan(
        image=job.image or catalogue_image("pytorch").reference,
        nodes=job.nodes or view.spec.maximum_nodes,
        gpus=plan.gpus,
        efa_devices=len(plan.devices),
        memory_mib=plan.memory_mib,
        shared_memory_mib=plan.shared_memory_mib,
        attempts=job.attempts,
        timeout_minutes=job.timeout_minutes,
    )


def _grown_by(view: PlannedFleet) -> str:
    if view.compute_environment.minimum_vcpus == 0:
        return "AWS Batch launches nodes for waiting jobs, and ends idle ones"
    return "AWS Batch keeps the least number of nodes, and launches more for waiting jobs"
