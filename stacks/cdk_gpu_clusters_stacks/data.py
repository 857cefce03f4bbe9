"""Stores of a cluster, each in a stack of its own that outlives everything else."""

from __future__ import annotations

from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from cdk_gpu_clusters._cdk import report
from cdk_gpu_clusters._object_access import grant_key, grant_objects
from cdk_gpu_clusters.catalogue.homes import HomeService, nfs_options
from cdk_gpu_clusters.catalogue.lustre import LustreDeploymentType, LustreStorageType, LustreVersion
from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.node.storage import checkpoint_environment
from cdk_gpu_clusters.rules.lustre import ReadCacheMode
from cdk_gpu_clusters.storage.checkpoint_store import CheckpointStore, grant_sessions
from cdk_gpu_clusters.storage.home_store import HomeStore
from cdk_gpu_clusters.storage.lustre_store import LustreStore
from cdk_gpu_clusters.storage.lustre_traffic import LustreTraffic
from cdk_gpu_clusters.storage.nfs_traffic import NfsTraffic
from cdk_gpu_clusters_stacks.network import ClusterNetworkRef, FabricStack, import_subnet
from cdk_gpu_clusters_stacks.references import publish, read
from cdk_gpu_clusters_stacks.spec.data import (
    CheckpointOptions,
    CheckpointsSpec,
    EfsOptions,
    EfsSpec,
    ExistingCheckpointsOptions,
    ExistingCheckpointsSpec,
    ExistingEfsOptions,
    ExistingEfsSpec,
    ExistingLustreOptions,
    ExistingLustreSpec,
    ExistingOpenZfsOptions,
    ExistingOpenZfsSpec,
    LustreOptions,
    LustreSpec,
    ObjectLockOptions,
    OpenZfsOptions,
    OpenZfsSpec,
    home_options,
    homes_export,
)
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec
from cdk_gpu_clusters_stacks.stack_names import data_stack


class DataStack(cdk.Stack):
    """A stack of one store: `cdk destroy` refuses it, and what it holds stays even if it is deleted."""

    def __init__(self, scope: Construct, construct_id: str, *, env: cdk.Environment) -> None:
        super().__init__(
            scope,
            construct_id,
            env=env,
            description="Data of a GPU cluster",
            termination_protection=True,
        )


def given_key(scope: Construct, arn: str | None) -> kms.IKey | None:
    """The key that the cluster file names, None where a new one is to be made."""
    return None if arn is None else kms.Key.from_key_arn(scope, "GivenKey", arn)


def weights_bucket(scope: Construct, name: str, key_arn: str | None) -> s3.IBucket:
    """The bucket of the weights, whose readers may decrypt with its key.

    Args:
        scope: Stack of the fleet.
        name: Name of the bucket.
        key_arn: Its customer managed key; None if it has none.
    """
    key = None if key_arn is None else kms.Key.from_key_arn(scope, "WeightsKey", key_arn)
    return s3.Bucket.from_bucket_attributes(scope, "Weights", bucket_name=name, encryption_key=key)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachedLustre:
    """A file system as the stack of its clients sees it: what nodes mount, and the peers of security-group rules."""

    file_system_id: str
    dns_name: str
    mount_name: str
    security_group_id: str
    efa: bool

    def allow_from(self, scope: Construct, construct_id: str, clients: ec2.ISecurityGroup) -> LustreTraffic:
        """Define the rules between the servers and a group of clients, in the clients' stack."""
        servers = ec2.SecurityGroup.from_security_group_id(
            scope, f"{construct_id}Servers", self.security_group_id, mutable=False
        )
        return LustreTraffic(scope, construct_id, servers=servers, peer=clients, efa=self.efa)


class LustreStack(DataStack):
    """One FSx for Lustre file system with its links to S3.

    Nothing in its template depends on a fleet: the rules that admit clients are in stacks of the clients.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        spec: LustreSpec,
        place: ClusterNetworkRef,
        env: cdk.Environment,
    ) -> None:
        super().__init__(scope, construct_id, env=env)
        self.store = self._store(spec.lustre, place)
        for one in spec.repositories:
            self.store.add_data_repository(
                one.path,
                s3_uri=one.uri,
                bucket_region=one.bucket_region,
                auto_import=one.imports,
                auto_export=one.exports,
                removal_policy=(
                    cdk.RemovalPolicy.DESTROY
                    if one.on_removal == "unlink"
                    else cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
                ),
            )
        publish(self, "FileSystemId", self.store.file_system_id, description="The file system")
        publish(self, "DnsName", self.store.dns_name, description="Name to mount")
        publish(self, "MountName", self.store.mount_name, description="Mount name")
        publish(
            self,
            "ServerGroupId",
            self.store.security_group.security_group_id,
            description="Security group of the servers",
        )

    def import_into(self, reader: cdk.Stack) -> ReachedLustre:
        """The file system, for a stack that mounts it."""
        return ReachedLustre(
            file_system_id=read(reader, self, "FileSystemId"),
            dns_name=read(reader, self, "DnsName"),
            mount_name=read(reader, self, "MountName"),
            security_group_id=read(reader, self, "ServerGroupId"),
            efa=self.store.efa,
        )

    def _store(self, options: LustreOptions, place: ClusterNetworkRef) -> LustreStore:
        vpc, subnet_id = place.vpc(self), options.subnet_id or place.subnet_ids(self)[0]
        subnet = import_subnet(self, "Subnet", subnet_id, place.availability_zone)
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

    def import_into(self, reader: cdk.Stack) -> ReachedLustre:
        """The file system, for a stack that mounts it."""
        name = f"{self._options.file_system_id}.fsx.{reader.region}.{reader.url_suffix}"
        return ReachedLustre(
            file_system_id=self._options.file_system_id,
            dns_name=self._options.dns_name or name,
            mount_name=self._options.mount_name,
            security_group_id=self._options.security_group_id,
            efa=self._options.efa,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachedHomes:
    """Home directories as the stack of their clients sees them."""

    service: HomeService
    dns_name: str
    export_path: str
    nfs_options: str
    security_group_id: str

    def allow_from(self, scope: Construct, construct_id: str, clients: ec2.ISecurityGroup) -> NfsTraffic:
        """Define the rules between the servers and a group of clients, in the clients' stack."""
        servers = ec2.SecurityGroup.from_security_group_id(
            scope, f"{construct_id}Servers", self.security_group_id, mutable=False
        )
        return NfsTraffic(scope, construct_id, servers=servers, clients=clients, service=self.service)


class HomeStack(DataStack):
    """One file system for home directories.

    Nothing in its template depends on a fleet: the rules that let clients in are in stacks of the clients.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        options: OpenZfsOptions | EfsOptions,
        place: ClusterNetworkRef,
        env: cdk.Environment,
    ) -> None:
        super().__init__(scope, construct_id, env=env)
        subnet_id = options.subnet_id or place.subnet_ids(self)[0]
        self.store = HomeStore(
            self,
            "Store",
            vpc=place.vpc(self),
            subnets=[import_subnet(self, "Subnet", subnet_id, place.availability_zone)],
            storage=options.homes,
            encryption_key=given_key(self, options.encryption_key_arn),
            weekly_maintenance_start_time=options.weekly_maintenance_start_time
            if isinstance(options, OpenZfsOptions)
            else None,
        )
        publish(self, "FileSystemId", self.store.file_system_id, description="The file system")
        publish(self, "DnsName", self.store.dns_name, description="Name to mount")
        if isinstance(self.store.cfn_file_system, fsx.CfnFileSystem):
            volume_id = self.store.cfn_file_system.attr_root_volume_id
            publish(self, "VolumeId", volume_id, description="Volume that is mounted")
        publish(
            self,
            "ServerGroupId",
            self.store.security_group.security_group_id,
            description="Security group of the servers",
        )

    def import_into(self, reader: cdk.Stack) -> ReachedHomes:
        """The file system, for a stack that mounts it."""
        return ReachedHomes(
            service=self.store.service,
            dns_name=read(reader, self, "DnsName"),
            export_path=self.store.export_path,
            nfs_options=self.store.nfs_options,
            security_group_id=read(reader, self, "ServerGroupId"),
        )


class ExistingHomes:
    """Home directories on a file system that exists already."""

    def __init__(self, service: HomeService, options: ExistingOpenZfsOptions | ExistingEfsOptions, path: str) -> None:
        """Know them by their service, their attributes and the directory to mount."""
        self._service = service
        self._options = options
        self._path = path

    def import_into(self, reader: cdk.Stack) -> ReachedHomes:
        """The file system, for a stack that mounts it."""
        options = self._options
        name = self._service.dns_name(options.file_system_id, reader.region, reader.url_suffix)
        return ReachedHomes(
            service=self._service,
            dns_name=options.dns_name or name,
            export_path=self._path,
            nfs_options=nfs_options(self._service),
            security_group_id=options.security_group_id,
        )


#: File systems as the stack of their clients sees them.
Reached = ReachedLustre | ReachedHomes
#: Stores that nodes mount.
MOUNTED = (LustreStack, ExistingLustre, HomeStack, ExistingHomes)
MountedStore = LustreStack | ExistingLustre | HomeStack | ExistingHomes


class LinkStack(cdk.Stack):
    """The rules between one file system and one EFA fabric, which several fleets may share.

    EC2 refuses the same rule twice, so that no fleet on a shared fabric can own it.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        store: MountedStore,
        fabric: FabricStack,
        env: cdk.Environment,
    ) -> None:
        super().__init__(scope, construct_id, env=env, description="Way from a GPU fabric to its data")
        store.import_into(self).allow_from(self, "Traffic", fabric.import_into(self))


POLICY_BY_HAND = define_rule(
    "GPU-CKP-020",
    "the policies of an existing bucket, and of its key, let the nodes in",
    source='IAM user guide, "Cross-account policy evaluation logic"; KMS developer guide, "Key policies"',
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachedCheckpoints:
    """Buckets for checkpoints as the stack of their users sees them.

    Attributes:
        bucket_name: Bucket of the Region.
        key_arn: Customer managed key of the buckets, None for none.
        express_bucket_name: Directory bucket, None for none.
        made_here: Whether their policies are this app's.
        prefix: What the keys of the fleet begin with, with a slash at its end; empty for all.
        write: Whether the fleet writes them, or only reads.
    """

    bucket_name: str
    key_arn: str | None
    express_bucket_name: str | None
    made_here: bool
    prefix: str
    write: bool

    @property
    def node_environment(self) -> dict[str, str]:
        """Variables by which nodes find the buckets."""
        uris = [f"s3://{name}/{self.prefix}".rstrip("/") for name in self._names()]
        return checkpoint_environment(s3_uri=uris[0], express_s3_uri=uris[1] if uris[1:] else None)

    def _names(self) -> list[str]:
        return [self.bucket_name, *([] if self.express_bucket_name is None else [self.express_bucket_name])]

    def grant(self, reader: cdk.Stack, role: iam.IRole, *, scope: Construct | None = None) -> None:
        """Let a role read checkpoints below the prefix, and write them if it may; the permissions are with the role.

        The policies of existing buckets cannot be changed from here: what they need is in an output.

        Args:
            reader: Stack of the role.
            role: The role.
            scope: Where the buckets are imported, if the stack has several such roles; the stack by default.
        """
        grants = self._grants(reader, scope or reader, role)
        if not self.made_here:
            _print_policies(reader, role, grants, scope=scope or reader)

    def allow(self, policy: iam.ManagedPolicy) -> None:
        """Let whoever gets a policy do the same. What policies of existing buckets need is not printed."""
        self._grants(cdk.Stack.of(policy), policy, policy)

    def _grants(self, reader: cdk.Stack, scope: Construct, grantee: iam.IGrantable) -> dict[str, iam.Grant]:
        bucket = s3.Bucket.from_bucket_name(scope, "Checkpoints", self.bucket_name)
        grants = {"bucket": grant_objects(grantee, bucket, prefix=self.prefix, write=self.write)}
        if self.key_arn is not None:
            key = kms.Key.from_key_arn(scope, "CheckpointKey", self.key_arn)
            grants["key"] = grant_key(grantee, key, write=self.write)
        if self.express_bucket_name is not None:
            arn = reader.format_arn(service="s3express", resource="bucket", resource_name=self.express_bucket_name)
            grants["express_bucket"] = grant_sessions(grantee, arn, None, write=self.write)
        return grants


class ExistingCheckpoints:
    """Buckets that exist already."""

    def __init__(self, options: ExistingCheckpointsOptions) -> None:
        """Know them by their names."""
        self._options = options

    def import_into(self, _reader: cdk.Stack, prefix: str, *, write: bool) -> ReachedCheckpoints:
        """The buckets, for a stack whose nodes use what lies below a prefix."""
        return ReachedCheckpoints(
            bucket_name=self._options.bucket_name,
            key_arn=self._options.encryption_key_arn,
            express_bucket_name=self._options.express_bucket_name,
            made_here=False,
            prefix=prefix,
            write=write,
        )


class CheckpointStack(DataStack):
    """Buckets for checkpoints."""

    def __init__(
        self, scope: Construct, construct_id: str, *, options: CheckpointOptions, env: cdk.Environment
    ) -> None:
        super().__init__(scope, construct_id, env=env)
        store = CheckpointStore(
            self,
            "Store",
            bucket_name=options.bucket_name,
            encryption_key=given_key(self, options.encryption_key_arn),
            versioned=options.versioned,
            noncurrent_version_expiration=cdk.Duration.days(options.keep_deleted_days),
            object_lock=_retention(options.object_lock),
            expire_after=_days(options.expire_after_days),
            archive_after=_days(options.archive_after_days),
            express_zone_id=options.express_zone_id,
            express_base_name=options.express_base_name,
            express_expire_after=_days(options.express_expire_after_days),
        )
        self.store = store
        publish(self, "BucketName", store.bucket.bucket_name, description="Bucket for checkpoints")
        publish(self, "KeyArn", store.encryption_key.key_arn, description="Key of the checkpoints")
        if store.express is not None:
            publish(
                self,
                "ExpressBucketName",
                store.express.bucket_name,
                description="Directory bucket for checkpoints",
            )

    def import_into(self, reader: cdk.Stack, prefix: str, *, write: bool) -> ReachedCheckpoints:
        """The buckets, for a stack whose nodes use what lies below a prefix."""
        return ReachedCheckpoints(
            bucket_name=read(reader, self, "BucketName"),
            key_arn=read(reader, self, "KeyArn"),
            express_bucket_name=None if self.store.express is None else read(reader, self, "ExpressBucketName"),
            made_here=True,
            prefix=prefix,
            write=write,
        )


def _print_policies(reader: cdk.Stack, role: iam.IRole, grants: dict[str, iam.Grant], *, scope: Construct) -> None:
    """Print what the policies of existing buckets and keys must allow: the same as the role's own."""
    statements = {
        name: [statement.to_statement_json() for statement in _for_owner(grant, role)] for name, grant in grants.items()
    }
    publish(
        scope,
        "CheckpointPolicies",
        reader.to_json_string(statements),
        description="Statements for the policies of the existing buckets and of their key, where they are needed",
    )
    report(
        scope,
        [
            POLICY_BY_HAND.finding(
                cause="the buckets for checkpoints are not made here, so their policies cannot be changed here",
                allowed="the statements in the output CheckpointPolicies of this stack",
                fix="add them to the policies of the buckets and of their key; not needed for buckets of the same"
                " account, nor for a key of it whose policy leaves permissions to IAM",
                severity=Severity.INFO,
            )
        ],
    )


def _for_owner(grant: iam.Grant, role: iam.IRole) -> list[iam.PolicyStatement]:
    """What a grant would add to the policy of its resource."""
    if grant.resource_statements:
        return grant.resource_statements
    return [
        iam.PolicyStatement(
            principals=[iam.ArnPrincipal(role.role_arn)],
            actions=own.actions,
            resources=own.resources,
            conditions=own.conditions,
        )
        for own in grant.principal_statements
    ]


def _retention(lock: ObjectLockOptions | None) -> s3.ObjectLockRetention | None:
    if lock is None:
        return None
    days = cdk.Duration.days(lock.days)
    compliance = lock.mode == "compliance"
    return s3.ObjectLockRetention.compliance(days) if compliance else s3.ObjectLockRetention.governance(days)


def _days(number: int | None) -> cdk.Duration | None:
    return None if number is None else cdk.Duration.days(number)


Store = MountedStore | CheckpointStack | ExistingCheckpoints


def _existing_homes(store: ExistingOpenZfsSpec | ExistingEfsSpec) -> ExistingHomes:
    is_openzfs = isinstance(store, ExistingOpenZfsSpec)
    service = HomeService.OPENZFS if is_openzfs else HomeService.EFS
    options = store.existing_openzfs if isinstance(store, ExistingOpenZfsSpec) else store.existing_efs
    return ExistingHomes(service, options, homes_export(store, service))


def data_stacks(app: cdk.App, spec: ClusterSpec, place: ClusterNetworkRef, env: cdk.Environment) -> dict[str, Store]:
    """The stores by name: a stack for each that is made here."""
    made: dict[str, Store] = {}
    for name, store in spec.data.items():
        stack_name = data_stack(spec.name, name)
        if isinstance(store, LustreSpec):
            made[name] = LustreStack(app, stack_name, spec=store, place=place, env=env)
        elif isinstance(store, OpenZfsSpec | EfsSpec) and (options := home_options(store)) is not None:
            made[name] = HomeStack(app, stack_name, options=options, place=place, env=env)
        elif isinstance(store, CheckpointsSpec):
            made[name] = CheckpointStack(app, stack_name, options=store.checkpoints, env=env)
        elif isinstance(store, ExistingLustreSpec):
            made[name] = ExistingLustre(store.existing_lustre)
        elif isinstance(store, ExistingOpenZfsSpec | ExistingEfsSpec):
            made[name] = _existing_homes(store)
        elif isinstance(store, ExistingCheckpointsSpec):
            made[name] = ExistingCheckpoints(store.existing_checkpoints)
    return made
