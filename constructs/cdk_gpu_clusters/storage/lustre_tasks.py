"""Data repository tasks of an FSx for Lustre file system: import, export, and release of cold files."""

from __future__ import annotations

from typing import cast

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import IConstruct

_TASK_ACTIONS = (
    "fsx:CreateDataRepositoryTask",
    "fsx:CancelDataRepositoryTask",
    "fsx:DescribeDataRepositoryTasks",
    "fsx:TagResource",
)


class LustreTasks:
    """Tasks of one file system, for constructs that have a `file_system_id`.

    CloudFormation has no resource for a task: it is an API call.

    Source: botocore 1.44.5, fsx service model: CreateDataRepositoryTask.
    """

    @property
    def file_system_id(self) -> str:
        """Id of the file system."""
        raise NotImplementedError

    @property
    def file_system_arn(self) -> str:
        """ARN of the file system."""
        return self._stack().format_arn(
            service="fsx", resource="file-system", resource_name=self.file_system_id
        )

    def release_command(self, path: str = "/", *, unused_for_days: int = 30) -> str:
        """A shell line that frees the space of files that are in S3 and were not read for a while.

        Their names stay; contents come back from S3 when they are read. CloudFormation has no resource for such a
        task: run the line, or let `ColdFileRelease` run it on a schedule.
        """
        released = path.strip("/")
        paths = f"--paths {released} " if released else ""
        return (
            f"aws fsx create-data-repository-task --region {self._stack().region} "
            f"--file-system-id {self.file_system_id} --type RELEASE_DATA_FROM_FILESYSTEM {paths}"
            f"--release-configuration 'DurationSinceLastAccess={{Unit=DAYS,Value={unused_for_days}}}' "
            "--report Enabled=false"
        )

    def grant_data_repository_tasks(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let someone run import, export and release tasks. Reading and writing files needs no IAM permission."""
        return iam.Grant.add_to_principal(
            grantee=grantee, actions=list(_TASK_ACTIONS), resource_arns=self._task_resources()
        )

    def data_repository_task_statement(self) -> iam.PolicyStatement:
        """The permissions of `grant_data_repository_tasks`, for a policy of your own."""
        return iam.PolicyStatement(actions=list(_TASK_ACTIONS), resources=self._task_resources())

    def _task_resources(self) -> list[str]:
        tasks = self._stack().format_arn(service="fsx", resource="task", resource_name="*")
        return [self.file_system_arn, tasks]

    def _stack(self) -> cdk.Stack:
        return cdk.Stack.of(cast("IConstruct", self))
