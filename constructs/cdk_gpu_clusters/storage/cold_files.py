"""Release of the space of files that are not read, on a schedule."""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding, named_resource
from cdk_gpu_clusters._cdk import ClusterConstruct, path_of, stack_of
from cdk_gpu_clusters.storage.lustre_store_base import ILustreStore

_TASKS = AcceptedFinding(
    cause="`ColdFileRelease`: policy of the schedule",
    reason="FSx makes the id of a task when it is created, so that no policy can name it before.",
    aws_solutions=("IAM5",),
)


class ColdFileRelease(ClusterConstruct):
    """Frees the space of files that are in S3 and were not read for a while, on a schedule.

    CloudFormation has no resource for a data repository task. This makes an EventBridge Scheduler schedule that calls
    the FSx API `CreateDataRepositoryTask` (release), and its role. Released files keep their names, and come back from
    S3 when they are read. Only files that were exported are released; a task that finds none ends without harm.

    Source: botocore 1.44.5, fsx service model: CreateDataRepositoryTask; EventBridge Scheduler user guide, "Using
    universal targets". That FSx takes the call from Scheduler was not tried on AWS.

    Example:
        >>> from cdk_gpu_clusters import ColdFileRelease, LustreStore
        >>> store = LustreStore(
        ...     stack, "Corpus", vpc=vpc, subnet=gpu_subnet,
        ...     storage_capacity_gib=4800, throughput_mb_per_s_per_tib=250,
        ... )
        >>> release = ColdFileRelease(stack, "Release", store=store, unused_for_days=14)
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        store: ILustreStore,
        path: str = "/",
        unused_for_days: int = 30,
        schedule_expression: str = "rate(1 day)",
    ) -> None:
        """Define the schedule.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            store: The file system.
            path: Directory to look in; all of it if left out.
            unused_for_days: Days since a file was last read or written.
            schedule_expression: When to look; each day if left out.
        """
        super().__init__(scope, construct_id)
        stack = stack_of(self)
        self.role: iam.Role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal(
                "scheduler.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": stack.account}}
            ),
        )
        # A managed policy: the packs of NIST, HIPAA and PCI accept no inline ones.
        policy = iam.ManagedPolicy(
            self, "Policy", roles=[self.role], statements=[store.data_repository_task_statement()]
        )
        tasks = stack.format_arn(service="fsx", resource="task", resource_name="*")
        _TASKS.at(policy, named_resource(policy, tasks))
        released = path.strip("/")
        call = {
            "FileSystemId": store.file_system_id,
            "Type": "RELEASE_DATA_FROM_FILESYSTEM",
            **({"Paths": [released]} if released else {}),
            "Report": {"Enabled": False},
            "ReleaseConfiguration": {"DurationSinceLastAccess": {"Unit": "DAYS", "Value": unused_for_days}},
            "ClientRequestToken": "<aws.scheduler.execution-id>",
        }
        self.cfn_schedule: scheduler.CfnSchedule = scheduler.CfnSchedule(
            self,
            "Resource",
            description=f"Release files of {path_of(store)} that were not used for {unused_for_days} days",
            schedule_expression=schedule_expression,
            flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(
                mode="FLEXIBLE", maximum_window_in_minutes=60
            ),
            target=scheduler.CfnSchedule.TargetProperty(
                arn=f"arn:{stack.partition}:scheduler:::aws-sdk:fsx:createDataRepositoryTask",
                role_arn=self.role.role_arn,
                input=stack.to_json_string(call),
            ),
        )
        self.cfn_schedule.node.add_dependency(policy)
