"""What every Lustre store offers, made here or imported: mounts, clients, links to S3, tasks and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import aws_cdk as cdk
import jsii
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct, IConstruct

from cdk_gpu_clusters._accepted import SILENT_ALARM
from cdk_gpu_clusters._cdk import errors_at, ipv4_block_of, path_of, report, resolved_or_none, stack_of, zone_of
from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.errors import ConfigError, Finding
from cdk_gpu_clusters.rules.data_repository import (
    PATH_FORM,
    DataRepository,
    DataRepositoryEvent,
    check_chunk_size,
    check_data_repositories,
    normal_path,
)
from cdk_gpu_clusters.rules.lustre import LustreSizing
from cdk_gpu_clusters.rules.lustre_clients import check_lustre_client
from cdk_gpu_clusters.storage.data_repository import DataRepositoryAssociation, read_target
from cdk_gpu_clusters.storage.lustre_traffic import LustreTraffic

_NAMESPACE = "AWS/FSx"
# FSx sends one data point for each storage target and minute: over a longer period a Sum counts targets many times.
_MINUTE = 1


class LustreMetrics:
    """The metrics of one file system, for constructs that have a `file_system_id`.

    Source: FSx for Lustre user guide, "Amazon FSx for Lustre metrics and dimensions" (stored copy of 2026).
    """

    @property
    def file_system_id(self) -> str:
        """Id of the file system."""
        raise NotImplementedError

    def metric(
        self, metric_name: str, *, statistic: str = "Sum", period: cdk.Duration | None = None
    ) -> cloudwatch.Metric:
        """A metric of the file system.

        Args:
            metric_name: Name in the namespace AWS/FSx, such as `DataReadOperations`.
            statistic: CloudWatch statistic; Sum adds up the storage targets.
            period: 1 minute if left out, the interval at which FSx sends them.
        """
        return cloudwatch.Metric(
            namespace=_NAMESPACE,
            metric_name=metric_name,
            dimensions_map={"FileSystemId": self.file_system_id},
            statistic=statistic,
            period=period or cdk.Duration.minutes(_MINUTE),
        )

    def metric_free_capacity(self) -> cloudwatch.Metric:
        """Free storage in bytes, over all storage targets."""
        return self.metric("FreeDataStorageCapacity")

    def metric_free_capacity_of_fullest_target(self) -> cloudwatch.Metric:
        """Free storage in bytes of the fullest storage target: writes to it fail first."""
        return self.metric("FreeDataStorageCapacity", statistic="Minimum")

    def metric_metadata_operations(self) -> cloudwatch.Metric:
        """Metadata operations, such as create, open, close and delete, in each minute."""
        return self.metric("MetadataOperations")

    def metric_throughput(self) -> cloudwatch.MathExpression:
        """Bytes read and written in each second."""
        return cloudwatch.MathExpression(
            expression="(read + written) / PERIOD(read)",
            using_metrics={"read": self.metric("DataReadBytes"), "written": self.metric("DataWriteBytes")},
            label="Lustre bytes per second",
            period=cdk.Duration.minutes(_MINUTE),
        )


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
        return self._stack().format_arn(service="fsx", resource="file-system", resource_name=self.file_system_id)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class LustreIdentity:
    """How a file system is reached, and what is known about it; unknown parts are None."""

    file_system_id: str
    dns_name: str
    mount_name: str
    security_group: ec2.ISecurityGroup
    efa: bool
    version: str | None = None
    availability_zone: str | None = None
    cidr_block: str | None = None
    storage_capacity_gib: int | None = None
    sizing: LustreSizing | None = None
    backup_retention_days: int | None = None


@jsii.implements(ec2.IConnectable)
class ILustreStore(Construct, LustreMetrics, LustreTasks):
    """An FSx for Lustre file system: a `LustreStore`, or an imported one.

    Example:
        >>> from cdk_gpu_clusters import LustreStore
        >>> existing = LustreStore.from_lustre_store_attributes(
        ...     stack,
        ...     "Existing",
        ...     file_system_id="fs-0123456789abcdef0",
        ...     mount_name="abcdefgh",
        ...     security_group=existing_group,
        ... )
        >>> existing.mount_name
        'abcdefgh'
    """

    _identity: LustreIdentity

    def __init__(self, scope: Construct, construct_id: str) -> None:
        """Define the construct; subclasses set its identity."""
        super().__init__(scope, construct_id)
        self._repositories: list[DataRepository] = []
        # FSx gives the rules of its creation to the servers; later ones may not reach all of them
        # (bottlerocket-os/bottlerocket issue 3459, a user's report).
        self._servers: cdk.CfnResource | None = None

    @property
    def file_system_id(self) -> str:
        """Id, such as `fs-0123456789abcdef0`."""
        return self._identity.file_system_id

    @property
    def dns_name(self) -> str:
        """Name to mount."""
        return self._identity.dns_name

    @property
    def mount_name(self) -> str:
        """Path that FSx gives the file system behind its DNS name."""
        return self._identity.mount_name

    @property
    def security_group(self) -> ec2.ISecurityGroup:
        """Security group of the servers."""
        return self._identity.security_group

    @property
    @jsii.member(jsii_name="connections")
    def connections(self) -> ec2.Connections:
        """The servers' security group, for CDK's `allow_…` methods; `allow_clients` opens the right ports by itself."""
        return self._connections

    @cached_property
    def _connections(self) -> ec2.Connections:
        return ec2.Connections(security_groups=[self.security_group])

    @property
    def efa(self) -> bool:
        """Whether clients can mount it over EFA."""
        return self._identity.efa

    @property
    def lustre_version(self) -> str | None:
        """Version of the servers, None if unknown."""
        return self._identity.version

    @property
    def availability_zone(self) -> str | None:
        """Zone of its servers, None if unknown."""
        return self._identity.availability_zone

    def mount_command(self, path: str) -> str:
        """A shell line that mounts the file system on a node that has the Lustre client.

        Args:
            path: Existing directory of the node. `noatime` is left out: releasing cold files goes by access times.
        """
        return f"sudo mount -t lustre -o relatime,flock {self.dns_name}@tcp:/{self.mount_name} {path}"

    def allow_clients(self, security_group: ec2.ISecurityGroup) -> None:
        """Let the members of a group mount the file system; nothing happens the second time.

        The rules are in the client group's stack, so that a stack with data never depends on one with nodes.

        Args:
            security_group: Group of the clients, made here or imported. With EFA an `EfaSecurityGroup`.
        """
        same_stack = cdk.Stack.of(security_group).node.addr == stack_of(self).node.addr
        parent: IConstruct = self if same_stack else security_group
        key = _id(f"Client.{path_of(security_group)}" if same_stack else f"Lustre.{path_of(self)}")
        if parent.node.try_find_child(key) is not None:
            return
        traffic = LustreTraffic(
            cast("Construct", parent), key, servers=self.security_group, peer=security_group, efa=self.efa
        )
        if same_stack and self._servers is not None:
            self._servers.node.add_dependency(traffic)

    def check_client(
        self,
        *,
        subnets: Sequence[ec2.ISubnet] = (),
        instance_type: InstanceType | None = None,
        operating_system: str | None = None,
        kernel: str | None = None,
        node_count: int | None = None,
        efa: bool | None = None,
    ) -> list[Finding]:
        """Find what keeps nodes from mounting the file system, as far as it is known at synthesis.

        Args:
            subnets: Where the nodes are.
            instance_type: Their type.
            operating_system: Such as `al2023`.
            kernel: Kernel of their image, such as `6.8`.
            node_count: The most of them at a time.
            efa: Whether they mount over EFA; if left out they do where the file system has it.
        """
        zones = [zone for subnet in subnets if (zone := zone_of(subnet)) is not None]
        here = resolved_or_none(self.availability_zone)
        # A zone's name and id cannot be compared: which is which differs between accounts.
        comparable = here is not None and all(("-az" in zone) == ("-az" in here) for zone in zones)
        return check_lustre_client(
            operating_system=operating_system,
            kernel=kernel,
            version=resolved_or_none(self.lustre_version),
            instance_type=instance_type,
            node_count=node_count,
            zones=zones if comparable else (),
            file_system_zone=here,
            cidrs=[cidr for subnet in subnets if (cidr := ipv4_block_of(subnet)) is not None],
            file_system_cidr=self._identity.cidr_block,
            efa=self.efa if efa is None else efa,
        )

    def add_data_repository(
        self,
        path: str,
        *,
        bucket: s3.IBucket | None = None,
        prefix: str = "",
        s3_uri: str | None = None,
        bucket_region: str | None = None,
        auto_import: Sequence[DataRepositoryEvent] = (),
        auto_export: Sequence[DataRepositoryEvent] = (),
        batch_import: bool = True,
        imported_file_chunk_mib: int | None = None,
        removal_policy: cdk.RemovalPolicy = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    ) -> DataRepositoryAssociation:
        """Link a directory to an S3 bucket or prefix.

        Args:
            path: Directory, such as `/data`. The association's id follows from it: to link the directory to another
                prefix, unlink it in a deployment of its own first.
            bucket: The bucket; or give `s3_uri`.
            prefix: Prefix in `bucket`; all of it if left out.
            s3_uri: `s3://bucket/prefix/` of a bucket that is known by name only.
            bucket_region: Region of the bucket, where the construct does not know it.
            auto_import: Changes in S3 that appear in the file system; none if left out.
            auto_export: Changes in the file system that appear in S3; none if left out.
            batch_import: Whether the names of existing objects are imported at once, which is asked for only when
                the association is made; a change replaces it.
            imported_file_chunk_mib: How much of a file lies on one disk, 1 to 512000 MiB; 1024 if left out.
            removal_policy: The link stays with its file system, also when the line that made it goes, but not if
                making it fails. To unlink, deploy once with DESTROY, then remove the line; no data is deleted on
                either side.

        Raises:
            ConfigError: GPU-DRA-001 to -009, all of them at once.
        """
        with errors_at(self):
            target = read_target(bucket, prefix, s3_uri)
            if resolved_or_none(path) is None:
                raise ConfigError([_token_path(path)])
        region = bucket_region or (None if bucket is None else resolved_or_none(bucket.env.region))
        one = DataRepository(
            path=path,
            bucket=target.bucket_name,
            prefix=target.prefix,
            bucket_region=region,
            auto_import=tuple(auto_import),
            auto_export=tuple(auto_export),
        )
        findings = check_data_repositories(
            [*self._repositories, one],
            region=resolved_or_none(stack_of(self).region),
            sizing=self._identity.sizing,
            backup_retention_days=resolved_or_none(self._identity.backup_retention_days),
        )
        chunk = resolved_or_none(imported_file_chunk_mib)
        report(self, findings + ([] if chunk is None else check_chunk_size(chunk)))
        self._repositories.append(one)
        return DataRepositoryAssociation(
            self,
            _id(f"Repository.{normal_path(path)}"),
            file_system_id=self.file_system_id,
            path=normal_path(path),
            target=target,
            auto_import=auto_import,
            auto_export=auto_export,
            batch_import=batch_import,
            imported_file_chunk_mib=imported_file_chunk_mib,
            removal_policy=removal_policy,
        )

    def add_free_space_alarm(
        self, *, threshold_percent: float = 10, construct_id: str = "FreeSpace"
    ) -> cloudwatch.Alarm:
        """Define an alarm for little free space: below the threshold for five minutes.

        Args:
            threshold_percent: Of the storage capacity, which has to be known: Intelligent-Tiering has none.
            construct_id: Id, for a second alarm.

        Raises:
            ValueError: If the storage capacity is unknown.
        """
        capacity = self._identity.storage_capacity_gib
        if capacity is None:
            raise ValueError(f"{path_of(self)}: an alarm for free space needs storage_capacity_gib")
        alarm = cloudwatch.Alarm(
            self,
            construct_id,
            metric=self.metric_free_capacity(),
            threshold=capacity * 1024**3 * threshold_percent / 100,
            comparison_operator=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            evaluation_periods=5,
            treat_missing_data=cloudwatch.TreatMissingData.IGNORE,
            alarm_description=f"Less than {threshold_percent:g} % of {path_of(self)} is free",
        )
        SILENT_ALARM.at(alarm)
        return alarm


class ImportedLustreStore(ILustreStore):
    """A file system that is defined elsewhere."""

    def __init__(self, scope: Construct, construct_id: str, identity: LustreIdentity) -> None:
        """Refer to the file system."""
        super().__init__(scope, construct_id)
        self._identity = identity


def _id(text: str) -> str:
    """An id made of a path: CDK allows all but the slash."""
    return text.replace("/", ".")


def _token_path(path: str) -> Finding:
    return PATH_FORM.finding(
        cause="the directory is not known at synthesis, and ids follow from it",
        got=path,
        allowed="/, or /name/name",
        fix="write the path out",
    )
