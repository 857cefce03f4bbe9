"""A fleet on AWS Batch: one stack per fleet, with its compute environment, its job queue and its job."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_iam as iam

from cdk_gpu_clusters.catalogue.kubernetes import image as catalogue_image
from cdk_gpu_clusters.compute.auto_scaling_group import UpdatePolicy
from cdk_gpu_clusters.orchestration.batch.compute_environment import BatchComputeEnvironment
from cdk_gpu_clusters.orchestration.batch.multi_node_job import BatchMultiNodeJob
from cdk_gpu_clusters.orchestration.batch.queue import BatchJobQueue
from cdk_gpu_clusters.rules.batch import BlockedReason
from cdk_gpu_clusters_stacks.capacity import CapacityStack
from cdk_gpu_clusters_stacks.fleets import NodesStack, Site, node_image
from cdk_gpu_clusters_stacks.jobs.all_reduce import ALL_REDUCE
from cdk_gpu_clusters_stacks.network import FabricStack
from cdk_gpu_clusters_stacks.references import publish
from cdk_gpu_clusters_stacks.spec.fleet import FleetSpec
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet

#: A failure of `gpu-peers` ends the container with its status, by which AWS Batch starts the job again: `eval` of a
#: command's output would hide it.
_TORCHRUN = (
    'peers="$(gpu-peers --format torchrun)" && eval "$peers" && exec torchrun --nnodes "$NNODES" --node-rank '
    '"$NODE_RANK" --nproc-per-node "$NPROC_PER_NODE" --master-addr "$MASTER_ADDR" --master-port "$MASTER_PORT" '
    '--no-python python -c "$0"'
)


class BatchFleetStack(NodesStack):
    """A training fleet of the cluster file: `BatchComputeEnvironment`, `BatchJobQueue` and `BatchMultiNodeJob`.

    They are one stack, so that a replaced environment takes its queue along.
    """

    def __init__(
        self,
        site: Site,
        fleet: PlannedFleet,
        spec: FleetSpec,
        *,
        fabric: FabricStack | None,
        capacity: CapacityStack | None,
    ) -> None:
        """Define the stack, as `NodesStack` has it."""
        super().__init__(site, fleet, description="Batch jobs of a GPU cluster", capacity=capacity, fabric=fabric)
        batch, options, training = site.spec.batch, self.node_options(), self.training_options()
        options["update_policy"] = UpdatePolicy(fleet.update)
        self.environment_of_nodes = BatchComputeEnvironment(
            self,
            "Environment",
            vpc=self.here.vpc,
            vpc_subnets=self.node_subnets(),
            image=node_image(spec.image),
            scratch=spec.scratch,
            user_data_parts=self.user_parts(),
            job_timeout_on_update=_minutes(batch.job_minutes_on_update),
            scale_down_delay=_minutes(batch.scale_down_idle_minutes),
            **training,
            **options,
        )
        self.job_role = iam.Role(
            self,
            "JobRole",
            assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"),
            description="What the containers of jobs may do",
        )
        nodes = self.environment_of_nodes
        self.complete(
            nodes,
            nodes,
            lambda: nodes.cfn_compute_environment,
            group=nodes.launch_template.security_groups[0],
            reads_checkpoints=self.job_role,
        )
        self.queue = BatchJobQueue(
            self,
            "JobQueue",
            compute_environments=[nodes],
            blocked_limits={BlockedReason.INSUFFICIENT_INSTANCE_CAPACITY: _minutes(fleet.blocked_minutes)},
        )
        self.job = self._job(fleet, training["environment"])
        group = nodes.log_group.log_group_name
        for name, value, description in (
            ("JobQueueArn", self.queue.job_queue_arn, "Job queue of the fleet"),
            ("JobDefinitionArn", self.job.job_definition_arn, "Multi-node job of the fleet, in its present revision"),
            ("JobRoleArn", self.job_role.role_arn, "Role of the containers: add the permissions that jobs need"),
            ("SubmitCommand", self._submit_command(fleet), "Submits a job"),
            ("LogGroupName", group, "Boot events, a stream per node, and output of jobs"),
        ):
            publish(self, name, value, description=description)

    def _job(self, fleet: PlannedFleet, environment: Mapping[str, str]) -> BatchMultiNodeJob:
        job = fleet.batch_job
        command = job.command or (() if job.image else ("bash", "-c", _TORCHRUN, ALL_REDUCE))
        minutes = job.timeout_minutes
        return BatchMultiNodeJob(
            self,
            "Job",
            compute_environment=self.environment_of_nodes,
            node_count=job.nodes or fleet.spec.maximum_nodes,
            image=job.image or catalogue_image("pytorch").reference,
            command=command,
            environment=environment,
            job_role=self.job_role,
            memory_mib=job.memory_mib,
            shared_memory_mib=job.shared_memory_mib,
            attempts=job.attempts,
            timeout=_minutes(minutes),
            not_secret=fleet.spec.not_secret,
        )

    def _submit_command(self, fleet: PlannedFleet) -> str:
        return (
            f"aws batch submit-job --region {self.region} --job-name {fleet.name} --job-queue "
            f"{self.queue.job_queue_arn} --job-definition {self.job.job_definition_arn}"
        )


def _minutes(number: int | None) -> cdk.Duration | None:
    return None if number is None else cdk.Duration.minutes(number)
