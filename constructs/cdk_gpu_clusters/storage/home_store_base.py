"""What every store of home directories offers, made here or imported: mounts, clients and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import aws_cdk as cdk
import jsii
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from constructs import Construct, IConstruct

from cdk_gpu_clusters._cdk import path_of, resolved_or_none, stack_of, zone_of
from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.catalogue.homes import HomeService, nfs_export, nfs_options
from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.rules.homes import check_home_client
from cdk_gpu_clusters.storage.nfs_traffic import NfsTraffic

_NAMESPACES = {HomeService.OPENZFS: "AWS/FSx", HomeService.EFS: "AWS/EFS"}
# The names of the bytes that clients read and write.
_BYTES = {
    HomeService.OPENZFS: ("DataReadBytes", "DataWriteBytes"),
    HomeService.EFS: ("DataReadIOBytes", "DataWriteIOBytes"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeIdentity:
    """How a file system is reached, and what is known about it.

    Attributes:
        service: The service.
        file_system_id: `fs-…`.
        dns_name: Name to mount.
        security_group: Group of its servers.
        availability_zones: Zones of its servers or mount targets; empty if unknown.
        export_path: Directory of the file system that is mounted.
    """

    service: HomeService
    file_system_id: str
    dns_name: str
    security_group: ec2.ISecurityGroup
    availability_zones: tuple[str, ...] = ()
    export_path: str = ""


@jsii.implements(ec2.IConnectable)
class IHomeStore(Construct):
    """A file system for home directories: a `HomeStore`, or an imported one.

    Example:
        >>> from cdk_gpu_clusters import HomeService, HomeStore
        >>> existing = HomeStore.from_home_store_attributes(
        ...     stack, "ExistingHomes", service=HomeService.OPENZFS,
        ...     file_system_id="fs-0123456789abcdef0", security_group=existing_group,
        ... )
        >>> existing.export_path
        '/fsx'
    """

    _identity: HomeIdentity

    @property
    def service(self) -> HomeService:
        """The service that keeps the directories."""
        return self._identity.service

    @property
    def file_system_id(self) -> str:
        """Id, such as `fs-0123456789abcdef0`."""
        return self._identity.file_system_id

    @property
    def dns_name(self) -> str:
        """Name to mount."""
        return self._identity.dns_name

    @property
    def export_path(self) -> str:
        """Directory of the file system that is mounted: `/fsx` of FSx for OpenZFS and `/` of EFS by default."""
        return self._identity.export_path or nfs_export(self.service)

    @property
    def nfs_options(self) -> str:
        """Options of mount(8) that AWS recommends for the service."""
        return nfs_options(self.service)

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
    def availability_zones(self) -> tuple[str, ...]:
        """Zones of its servers or mount targets; empty if unknown."""
        return self._identity.availability_zones

    def mount_command(self, path: str) -> str:
        """A shell line that mounts the file system on a node that has the NFS client.

        Args:
            path: Existing directory of the node.
        """
        return f"sudo mount -t nfs -o {self.nfs_options} {self.dns_name}:{self.export_path} {path}"

    def allow_clients(self, security_group: ec2.ISecurityGroup) -> None:
        """Let the members of a group mount the file system; nothing happens the second time.

        The rules are in the client group's stack, so that a stack with data never depends on one with nodes.

        Args:
            security_group: Group of the clients, made here or imported.
        """
        same_stack = cdk.Stack.of(security_group).node.addr == stack_of(self).node.addr
        parent: IConstruct = self if same_stack else security_group
        name = f"Client.{path_of(security_group)}" if same_stack else f"Homes.{path_of(self)}"
        key = name.replace("/", ".")
        if parent.node.try_find_child(key) is None:
            NfsTraffic(
                cast("Construct", parent),
                key,
                servers=self.security_group,
                clients=security_group,
                service=self.service,
            )

    def check_client(
        self,
        *,
        subnets: Sequence[ec2.ISubnet] = (),
        instance_type: InstanceType | None = None,  # noqa: ARG002 - every type and system has an NFS client
        operating_system: str | None = None,  # noqa: ARG002
        kernel: str | None = None,  # noqa: ARG002
        node_count: int | None = None,  # noqa: ARG002
        efa: bool | None = None,  # noqa: ARG002
    ) -> list[Finding]:
        """Find what keeps nodes from mounting the file system, as far as it is known at synthesis.

        Args:
            subnets: Where the nodes are.
            instance_type: Their type; any type can mount it.
            operating_system: Their system; any system can mount it.
            kernel: Kernel of their image; any kernel can mount it.
            node_count: The most of them at a time; any number can mount it.
            efa: Whether they have EFA; NFS does not use it.
        """
        zones = [zone for subnet in subnets if (zone := zone_of(subnet)) is not None]
        here = [zone for zone in self.availability_zones if resolved_or_none(zone) is not None]
        # A zone's name and id cannot be compared: which is which differs between accounts.
        is_comparable = len({"-az" in zone for zone in (*zones, *here)}) <= 1
        return check_home_client(
            self.service,
            zones=zones,
            file_system_zones=here if is_comparable and len(here) == len(self.availability_zones) else (),
        )

    def metric(
        self, metric_name: str, *, statistic: str = "Sum", period: cdk.Duration | None = None
    ) -> cloudwatch.Metric:
        """A metric of the file system.

        Args:
            metric_name: Name in the namespace of the service, such as `DataReadBytes`.
            statistic: CloudWatch statistic.
            period: 1 minute if left out, the interval at which the service sends them.
        """
        return cloudwatch.Metric(
            namespace=_NAMESPACES[self.service],
            metric_name=metric_name,
            dimensions_map={"FileSystemId": self.file_system_id},
            statistic=statistic,
            period=period or cdk.Duration.minutes(1),
        )

    def metric_throughput(self) -> cloudwatch.MathExpression:
        """Bytes read and written in each second."""
        read, written = _BYTES[self.service]
        return cloudwatch.MathExpression(
            expression="(read + written) / PERIOD(read)",
            using_metrics={"read": self.metric(read), "written": self.metric(written)},
            label="Bytes of home directories per second",
            period=cdk.Duration.minutes(1),
        )

    def metric_client_connections(self) -> cloudwatch.Metric:
        """Connections between clients and the file system."""
        return self.metric("ClientConnections", statistic="Maximum" if self.service is HomeService.OPENZFS else "Sum")

    def metric_used_percent(self) -> cloudwatch.MathExpression:
        """Used storage in percent of the storage capacity, of FSx for OpenZFS.

        Raises:
            ValueError: If the file system is on EFS, which has no capacity.

        Source: FSx for OpenZFS user guide, "Amazon FSx for OpenZFS metrics and dimensions" (stored copy of 2026).
        """
        if self.service is not HomeService.OPENZFS:
            raise ValueError(f"{path_of(self)}: EFS grows with its data, and has no storage capacity")
        return cloudwatch.MathExpression(
            expression="100 * used / capacity",
            using_metrics={
                "used": self.metric("UsedStorageCapacity", statistic="Average"),
                "capacity": self.metric("StorageCapacity", statistic="Average"),
            },
            label="Used storage of home directories in percent",
            period=cdk.Duration.minutes(1),
        )


class ImportedHomeStore(IHomeStore):
    """A file system that is defined elsewhere."""

    def __init__(self, scope: Construct, construct_id: str, identity: HomeIdentity) -> None:
        """Refer to the file system."""
        super().__init__(scope, construct_id)
        self._identity = identity
