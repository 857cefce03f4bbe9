"""Stores of a cluster, each in a stack of its own that outlives everything else."""

from __future__ import annotations

from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from cdk_gpu_clusters.catalogue.lustre import LustreDeploymentType, LustreStorageType, LustreVersion
from cdk_gpu_clusters.rules.lustre import ReadCacheMode
from cdk_gpu_clusters.storage.lustre_store import LustreStore
from cdk_gpu_clusters.storage.lustre_traffic import LustreTraffic
from cdk_gpu_clusters_stacks.checkpoints import CheckpointStack, ExistingCheckpoints
from cdk_gpu_clusters_stacks.data_stack import DataStack, given_key
from cdk_gpu_clusters_stacks.fabric import FabricStack
from cdk_gpu_clusters_stacks.network import ClusterPlace
from cdk_gpu_clusters_stacks.references import publish, read
from cdk_gpu_clusters_stacks.spec.data import (
    CheckpointsSpec,
    ExistingCheckpointsSpec,
    ExistingLustreOptions,
    ExistingLustreSpec,
    LustreOptions,
    LustreSpec,
    RepositorySpec,
)
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec
from cdk_gpu_clusters_stacks.stack_names import data_stack


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachedLustre:
    """A file system as the stack of its clients sees it: what nodes mount, and the peers of security-group rules."""

    file_system_id: str
    dns_name: str
    mount_name: str
    security_group_id: str
    efa: bool

    def let_in(self, scope: Construct, construct_id: str, clients: ec2.ISecurityGroup) -> LustreTraffic:
        """Define the rules between the servers and a group of clients, in the clients' stack."""
        servers = ec2.SecurityGroup.from_security_group_id(
            scope, f"{construct_id}Servers", self.security_group_id, mutable=False
        )
        return LustreTraffic(scope, construct_id, servers=servers, peer=clients, efa=self.efa)


class LustreStack(DataStack):
    """One FSx for Lustre file system with its links to S3.

    Nothing in its template depends on a fleet: the rules that let clients in stand in stacks of the clients.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        spec: LustreSpec,
        place: ClusterPlace,
        env: cdk.Environment,
    ) -> None:
        """Define the stack.

        Args:
            scope: The app.
            construct_id: Id, and name of the stack.
            spec: The store as the cluster file has it.
            place: Network of the cluster.
            env: Account and Region.
        """
        super().__init__(scope, construct_id, env=env)
        self.store = self._store(spec.lustre, place)
        for repository in spec.repositories:
            _link(self.store, repository)
        publish(self, "FileSystemId", self.store.file_system_id, description="The file system")
        publish(self, "DnsName", self.store.dns_name, description="Name to mount")
        publish(self, "MountName", self.store.mount_name, description="Mount name")
        publish(
            self,
            "ServerGroupId",
            self.store.security_group.security_group_id,
            description="Security group of the servers",
        )

    def within(self, reader: cdk.Stack) -> ReachedLustre:
        """The file system, for a stack that mounts it."""
        return ReachedLustre(
            file_system_id=read(reader, self, "FileSystemId"),
            dns_name=read(reader, self, "DnsName"),
            mount_name=read(reader, self, "MountName"),
            security_group_id=read(reader, self, "ServerGroupId"),
            efa=self.store.efa,
        )

    def _store(self, options: LustreOptions, place: ClusterPlace) -> LustreStore:
        vpc = ec2.Vpc.from_vpc_attributes(
            self, "Vpc", vpc_id=place.vpc_id(self), availability_zones=[place.availability_zone]
        )
        subnet = ec2.Subnet.from_subnet_attributes(
            self,
            "Subnet",
            subnet_id=options.subnet_id or place.subnet_ids(self)[0],
            availability_zone=place.availability_zone,
        )
        cdk.Annotations.of(subnet).acknowledge_warning(
            "@aws-cdk/aws-ec2:noSubnetRouteTableId", "a file system adds no route to its subnet"
        )
        return LustreStore(
            self,
            "Store",
            vpc=vpc,
            subnet=subnet,
            storage_capacity_gib=options.storage_capacity_gib,
            throughput_mb_per_s_per_tib=options.throughput_mb_per_s_per_tib,
            deployment_type=LustreDeploymentType(options.deployment_type),
            storage_type=LustreStorageType(options.storage_type),
            throughput_capacity_mb_per_s=options.throughput_capacity_mb_per_s,
            read_cache=None if options.read_cache is None else ReadCacheMode(options.read_cache),
            read_cache_gib=options.read_cache_gib,
            efa=options.efa,
            metadata_iops=options.metadata_iops,
            lustre_version=LustreVersion(options.lustre_version),
            encryption_key=given_key(self, options.encryption_key_arn),
            compression=options.compression,
            backup_retention_days=options.backup_retention_days,
            weekly_maintenance_start_time=options.weekly_maintenance_start_time,
        )


class ExistingLustre:
    """A file system that exists already."""

    def __init__(self, options: ExistingLustreOptions) -> None:
        """Know it by its attributes."""
        self._options = options

    def within(self, reader: cdk.Stack) -> ReachedLustre:
        """The file system, for a stack that mounts it."""
        name = f"{self._options.file_system_id}.fsx.{reader.region}.{reader.url_suffix}"
        return ReachedLustre(
            file_system_id=self._options.file_system_id,
            dns_name=self._options.dns_name or name,
            mount_name=self._options.mount_name,
            security_group_id=self._options.security_group_id,
            efa=self._options.efa,
        )


class LinkStack(cdk.Stack):
    """The rules between one file system and one EFA fabric, which several fleets may share.

    EC2 refuses the same rule twice, so that no fleet on a shared fabric can own it.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        store: LustreStack | ExistingLustre,
        fabric: FabricStack,
        env: cdk.Environment,
    ) -> None:
        """Define the stack.

        Args:
            scope: The app.
            construct_id: Id, and name of the stack.
            store: The file system.
            fabric: The fabric whose nodes mount it.
            env: Account and Region.
        """
        super().__init__(scope, construct_id, env=env, description="Way from a GPU fabric to its data")
        store.within(self).let_in(self, "Traffic", fabric.within(self))


Store = LustreStack | ExistingLustre | CheckpointStack | ExistingCheckpoints


def data_stacks(
    app: cdk.App, spec: ClusterSpec, place: ClusterPlace, env: cdk.Environment
) -> dict[str, Store]:
    """The stores by name: a stack for each that is made here."""
    made: dict[str, Store] = {}
    for name, store in spec.data.items():
        stack_name = data_stack(spec.name, name)
        if isinstance(store, LustreSpec):
            made[name] = LustreStack(app, stack_name, spec=store, place=place, env=env)
        elif isinstance(store, CheckpointsSpec):
            made[name] = CheckpointStack(app, stack_name, options=store.checkpoints, env=env)
        elif isinstance(store, ExistingLustreSpec):
            made[name] = ExistingLustre(store.existing_lustre)
        elif isinstance(store, ExistingCheckpointsSpec):
            made[name] = ExistingCheckpoints(store.existing_checkpoints)
    return made


def _link(store: LustreStore, repository: RepositorySpec) -> None:
    unlinks = repository.on_removal == "unlink"
    store.add_data_repository(
        repository.path,
        s3_uri=repository.uri,
        bucket_region=repository.bucket_region,
        auto_import=repository.imports,
        auto_export=repository.exports,
        removal_policy=cdk.RemovalPolicy.DESTROY if unlinks else cdk.RemovalPolicy.RETAIN,
    )
