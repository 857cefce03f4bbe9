"""A Slurm cluster of AWS PCS that is right for GPU nodes."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import Any, Literal
from weakref import WeakKeyDictionary

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_pcs as pcs
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import id_of_group, report, resolved_or_none, stack_of, zone_of
from cdk_gpu_clusters._values import takes_values
from cdk_gpu_clusters.catalogue.pcs import DEFAULT_SLURM_VERSION, version_of_slurm
from cdk_gpu_clusters.compute.fleet_network import id_of
from cdk_gpu_clusters.compute.node_records import own_log_group
from cdk_gpu_clusters.errors import Finding, define_rule
from cdk_gpu_clusters.network.efa_security_group import EfaSecurityGroup
from cdk_gpu_clusters.node.slurm_settings import CLUSTER_SETTINGS, cluster_settings
from cdk_gpu_clusters.orchestration.pcs.cluster_base import IPcsCluster, PcsIdentity
from cdk_gpu_clusters.orchestration.pcs.node_group import custom_settings
from cdk_gpu_clusters.rules.pcs import ClusterSize, check_pcs_cluster
from cdk_gpu_clusters.rules.pcs_programs import check_imported_settings
from cdk_gpu_clusters.rules.pcs_versions import check_feature
from cdk_gpu_clusters.rules.slurm_conf import CGROUP_SETTINGS

_AUDIT_SINCE = "25.11"
AUDIT_LOGS = define_rule(
    "GPU-PCS-063",
    "AWS PCS delivers audit logs of the scheduler by themselves from Slurm 25.11 on",
    source='AWS PCS user guide, "Scheduler audit logs in AWS PCS"',
)

NetworkType = Literal["IPV4", "IPV6"]


class PcsLog(str, Enum):
    """Logs that AWS PCS delivers of a cluster.

    Source: botocore 1.44.5, logs service model, PutDeliverySource; AWS PCS user guide, "Scheduler logs in AWS PCS",
    "Scheduler audit logs in AWS PCS" and "Job completion logs in AWS PCS".

    Attributes:
        SCHEDULER: Those of slurmctld, slurmdbd and slurmrestd.
        SCHEDULER_AUDIT: Who asked the controller and the accounting database for what; from Slurm 25.11 on, up to 90%
            of the volume. Before, they are part of `SCHEDULER`.
        JOB_COMPLETION: One record for each job that has ended.
    """

    SCHEDULER = "PCS_SCHEDULER_LOGS"
    SCHEDULER_AUDIT = "PCS_SCHEDULER_AUDIT_LOGS"
    JOB_COMPLETION = "PCS_JOBCOMP_LOGS"


_DELIVERIES = {PcsLog.SCHEDULER: "scheduler", PcsLog.SCHEDULER_AUDIT: "audit", PcsLog.JOB_COMPLETION: "jobs"}
_LOGS = AcceptedFinding(
    cause="`PcsCluster` without `log_encryption_key`: log group of the scheduler",
    reason="CloudWatch Logs encrypts the logs of the scheduler, too; `log_encryption_key` takes a key of your own.",
    nist_hipaa_pci=("CloudWatchLogGroupEncrypted",),
)
# AWS makes one cluster of an account and Region at a time (botocore 1.44.5, pcs service model: CreateCluster).
_LAST_CLUSTERS: WeakKeyDictionary[cdk.Stack, pcs.CfnCluster] = WeakKeyDictionary()


class PcsCluster(IPcsCluster):
    """A Slurm cluster of AWS PCS, whose controller AWS runs, ready for GPU nodes.

    Makes the cluster with managed accounting, a security group of the controller and all nodes, and the delivery of the
    scheduler's logs to a log group with an end. Its Slurm settings include what the node software needs: prolog and
    epilog, and the requeue of jobs whose nodes fail.

    Nodes come by `add_gpu_node_group`, queues by `add_queue`, and nodes to log in on by `add_login_nodes`.

    * Name, size, subnet, security group and network type are fixed: a change replaces the cluster with its accounting
      records, queues and node groups.
    * A later `slurm_version` updates the scheduler in place. Node groups and queues must be active then; images and
      SPANK plugins such as Pyxis must have that version.
    * AWS makes one cluster of an account and Region at a time. Clusters of one stack wait for each other; deploy stacks
      with clusters one after the other (`cdk deploy --concurrency 1`).

    Sources: AWS PCS user guide; registry schema of AWS::PCS::Cluster (2026-10-20); botocore 1.44.5, pcs service model.

    Example:
        >>> from cdk_gpu_clusters import ClusterSize, PcsCluster
        >>> cluster = PcsCluster(stack, "Research", vpc=vpc, subnet=gpu_subnet, size=ClusterSize.SMALL)
        >>> trainers = cluster.add_gpu_node_group("Trainers", instance_type="p5.48xlarge", node_count=4,
        ...     vpc_subnets=ec2.SubnetSelection(subnets=[gpu_subnet]))
        >>> queue = cluster.add_queue("train", node_groups=[trainers])
        >>> login = cluster.add_login_nodes("Login")

    Attributes:
        security_group: Group of the controller and of every node.
        log_group: Logs of the scheduler; None without logs.
        slurm_settings: Custom settings of `slurm.conf`, those of the library included.
        cfn_cluster: The CloudFormation resource, as an escape hatch; `attr_endpoints` has the addresses.
    """

    @takes_values
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        subnet: ec2.ISubnet,
        size: ClusterSize,
        slurm_version: str | None = None,
        cluster_name: str | None = None,
        security_group: ec2.ISecurityGroup | None = None,
        network_type: NetworkType = "IPV4",
        accounting: bool = True,
        accounting_purge_days: int = -1,
        slurm_settings: Mapping[str, str] | None = None,
        slurmdbd_settings: Mapping[str, str] | None = None,
        cgroup_settings: Mapping[str, str] | None = None,
        slurm_rest: bool = False,
        metrics: bool = False,
        scale_down_idle_time: cdk.Duration | None = None,
        log_types: Collection[PcsLog] | None = None,
        log_retention: logs.RetentionDays = logs.RetentionDays.THREE_MONTHS,
        log_encryption_key: kms.IKey | None = None,
    ) -> None:
        """Define the cluster.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            vpc: Network of the controller and all nodes.
            subnet: Subnet in which AWS puts the controller's network interface; not in a Local Zone. Nodes may be in
                other subnets of the VPC. A change replaces the cluster.
            size: Most nodes and jobs: 32 and 256, 512 and 8,192, or 2,048 and 16,384. A change replaces the cluster.
            slurm_version: Such as `25.11`; the library's default if left out. A later one updates the scheduler in
                place. Set it before you update the library.
            cluster_name: Name, 3 to 40 letters, digits and hyphens; it follows from the construct's path if left out. A
                change replaces the cluster.
            security_group: Group of the controller and every node, with all traffic among its members; a new one if
                left out. A change replaces the cluster.
            network_type: Addresses by which controller and nodes speak. A change replaces the cluster.
            accounting: Whether AWS keeps Slurm's accounting database, at a price. AWS's own sample leaves it out in AWS
                GovCloud (US).
            accounting_purge_days: Days after which accounting records are removed, 1 to 10,000; -1 keeps them.
            slurm_settings: Custom settings of `slurm.conf`, such as `{"AccountingStorageEnforce": "limits"}`; they win
                over those that the node software needs.
            slurmdbd_settings: Custom settings of `slurmdbd.conf`; none if left out.
            cgroup_settings: Custom settings of `cgroup.conf` beside `ConstrainDevices=yes`, by which a job sees its own
                GPUs and MIG slices alone; they win over it.
            slurm_rest: Whether AWS runs slurmrestd, from Slurm 25.05 on.
            metrics: Whether the controller serves OpenMetrics on port 6817, from Slurm 25.11 on. Every member of the
                security group reads them without a password.
            scale_down_idle_time: How long an idle node of a group that scales is kept; 10 minutes if left out.
            log_types: Which logs AWS delivers; all that the version of Slurm has if left out, none with an empty list.
            log_retention: How long they are kept; three months if left out.
            log_encryption_key: Key of these logs; CloudWatch's own if left out.

        Raises:
            ConfigError: GPU-PCS-016 to -022, -027, -037, -040, -041, -043 and -063, all of them at once.
        """
        super().__init__(scope, construct_id)
        version = slurm_version or DEFAULT_SLURM_VERSION
        name = cluster_name or cdk.Names.unique_resource_name(self, max_length=40, separator="-")
        idle = None if scale_down_idle_time is None else math.ceil(scale_down_idle_time.to_seconds())
        known = resolved_or_none(version)
        merged = cluster_settings(slurm_settings, slurm_version=known)
        self.slurm_settings: Mapping[str, str] = _with_metrics(merged, metrics=metrics)
        cgroup = {**CGROUP_SETTINGS, **(cgroup_settings or {})}
        kinds = _log_types(log_types, known)
        report(
            self,
            check_pcs_cluster(
                name=resolved_or_none(name),
                size=size.value,
                slurm_version=known,
                subnet_count=1,
                zone=zone_of(subnet),
                accounting=accounting,
                purge_after_days=accounting_purge_days,
                rest_api=slurm_rest,
                scale_down_idle_seconds=idle,
                slurm_settings=self.slurm_settings,
                slurmdbd_settings=slurmdbd_settings,
                cgroup_settings=cgroup,
            )
            + (check_feature("metrics", known, path="metrics") if metrics else [])
            + _check_logs(kinds, known),
        )
        self.security_group: ec2.ISecurityGroup = security_group or _group(self, vpc, network_type)
        # Dictionaries in camel case, which CDK passes on as given.
        self.cfn_cluster: pcs.CfnCluster = pcs.CfnCluster(
            self,
            "Resource",
            name=name,
            size=size.value,
            scheduler={"type": "SLURM", "version": version},
            networking={
                "subnetIds": [id_of(subnet)],
                "securityGroupIds": [id_of_group(self.security_group)],
                "networkType": network_type,
            },
            slurm_configuration=_slurm(
                settings=self.slurm_settings,
                slurmdbd=slurmdbd_settings or {},
                cgroup=cgroup,
                accounting={"mode": "STANDARD", "defaultPurgeTimeInDays": accounting_purge_days}
                if accounting
                else {"mode": "NONE"},
                rest=slurm_rest if slurm_rest or not check_feature("rest_api", known) else None,
                idle_seconds=idle,
            ),
        )
        if isinstance(self.security_group, EfaSecurityGroup):  # nodes wait for the cluster, and register by these rules
            self.cfn_cluster.node.add_dependency(self.security_group.self_rules)
        self._after_the_last_one()
        self._identity = PcsIdentity(
            cluster_id=self.cfn_cluster.attr_id,
            slurm_version=version,
            security_groups=[self.security_group],
            vpc=vpc,
            size=size,
            slurm_settings=self.slurm_settings,
        )
        self.log_group: logs.LogGroup | None = None
        if kinds:
            self.log_group = _deliver(
                self, name, kinds, self.cfn_cluster.attr_arn, retention=log_retention, key=log_encryption_key
            )

    @staticmethod
    def from_pcs_cluster_attributes(
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        cluster_id: str,
        slurm_version: str,
        security_groups: Sequence[ec2.ISecurityGroup],
        size: ClusterSize | None = None,
        slurm_settings: Mapping[str, str] | None = None,
    ) -> IPcsCluster:
        """Import a cluster.

        Its Slurm settings must have those that `cluster_settings` returns, or its nodes run no prolog and no epilog.
        Then every node of the cluster must have the programs that these settings name, also the nodes of groups that
        others made, or slurmd drains it at its first job.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            vpc: Its network.
            cluster_id: Its id, such as `pcs_abc123def4`.
            slurm_version: Its major version of Slurm, such as `25.11`.
            security_groups: Groups that every node joins, so that it reaches the controller, and the controller the
                node.
            size: Its size, so that more nodes than it holds are found; not checked if left out.
            slurm_settings: Its custom settings of `slurm.conf`, so that a warning names those that its nodes lack
                (GPU-PCS-069), and groups without the programs of these settings (GPU-PCS-068); not checked if left out.

        Raises:
            ConfigError: GPU-PCS-017.
        """
        cluster = IPcsCluster(scope, construct_id)
        known = None if slurm_settings is None else dict(slurm_settings)
        report(
            cluster,
            check_pcs_cluster(slurm_version=resolved_or_none(slurm_version))
            + ([] if known is None else check_imported_settings(known, CLUSTER_SETTINGS)),
        )
        cluster._identity = PcsIdentity(
            cluster_id=cluster_id,
            slurm_version=slurm_version,
            security_groups=list(security_groups),
            vpc=vpc,
            size=size,
            slurm_settings=known or {},
        )
        return cluster

    def _after_the_last_one(self) -> None:
        """Let clusters of one stack be made one after the other."""
        stack = stack_of(self)
        if stack in _LAST_CLUSTERS:
            self.cfn_cluster.node.add_dependency(_LAST_CLUSTERS[stack])
        _LAST_CLUSTERS[stack] = self.cfn_cluster


def _with_metrics(settings: dict[str, str], *, metrics: bool) -> dict[str, str]:
    """Settings with those of OpenMetrics.

    Source: AWS PCS user guide, "Slurm metrics in AWS PCS"; slurm.conf(5), MetricsType and CommunicationParameters.
    """
    if not metrics:
        return settings
    words = [*filter(None, settings.get("CommunicationParameters", "").split(",")), "enable_http"]
    return {
        "MetricsType": "metrics/openmetrics",
        **settings,
        "CommunicationParameters": ",".join(dict.fromkeys(words)),
    }


def _group(scope: Construct, vpc: ec2.IVpc, network_type: NetworkType) -> ec2.SecurityGroup:
    """The group of the controller and all nodes: AWS's own example, with the rules that EFA needs, too.

    Source: AWS PCS user guide, "Security groups in AWS PCS", permissive configuration.
    """
    made = EfaSecurityGroup(scope, "SecurityGroup", vpc=vpc, description="AWS PCS: controller and nodes")
    if network_type == "IPV6":
        ec2.CfnSecurityGroupEgress(
            scope,
            "Ipv6Egress",
            group_id=made.security_group_id,
            ip_protocol="-1",
            cidr_ipv6="::/0",
            description="AWS PCS: all traffic out",
        )
    return made


def _slurm(
    *,
    settings: Mapping[str, str],
    slurmdbd: Mapping[str, str],
    cgroup: Mapping[str, str],
    accounting: Mapping[str, Any],
    rest: bool | None,
    idle_seconds: int | None,
) -> dict[str, Any]:
    optional = {
        "accounting": dict(accounting),
        "slurmRest": None if rest is None else {"mode": "STANDARD" if rest else "NONE"},
        "scaleDownIdleTimeInSeconds": idle_seconds,
        "slurmCustomSettings": custom_settings(settings),
        "slurmdbdCustomSettings": custom_settings(slurmdbd),
        "cgroupCustomSettings": custom_settings(cgroup),
    }
    return {name: value for name, value in optional.items() if value is not None}


def _log_types(requested: Collection[PcsLog] | None, slurm_version: str | None) -> list[PcsLog]:
    if requested is not None:
        return [one for one in PcsLog if one in requested]
    return [one for one in PcsLog if not _check_logs([one], slurm_version)]


def _check_logs(requested: Sequence[PcsLog], slurm_version: str | None) -> list[Finding]:
    numbers = () if slurm_version is None else version_of_slurm(slurm_version)
    if PcsLog.SCHEDULER_AUDIT not in requested or not numbers or numbers >= version_of_slurm(_AUDIT_SINCE):
        return []
    return [
        AUDIT_LOGS.finding(
            cause="this version of Slurm writes them into the logs of the scheduler",
            got=f"SCHEDULER_AUDIT with Slurm {slurm_version}",
            allowed=f"Slurm {_AUDIT_SINCE} or later",
            fix="leave SCHEDULER_AUDIT out of log_types",
            path="log_types",
        )
    ]


def _deliver(
    scope: Construct,
    cluster_name: str,
    kinds: Sequence[PcsLog],
    cluster_arn: str,
    *,
    retention: logs.RetentionDays,
    key: kms.IKey | None,
) -> logs.LogGroup:
    """Let AWS deliver logs of a cluster to a log group: one delivery for each kind, which names its streams.

    Names below `/aws/vendedlogs/` do not grow the resource policy of CloudWatch Logs, which has a limit.

    Source: CloudWatch Logs user guide, "Enable logging from AWS services".
    """
    name = f"/aws/vendedlogs/pcs/{cluster_name}"
    group = own_log_group(scope, "Logs", name=name, retention=retention, encryption_key=key, without_key=_LOGS)
    prefix = cdk.Names.unique_resource_name(scope, max_length=40, separator="-")
    parent = Construct(scope, "LogDelivery")
    destination = logs.CfnDeliveryDestination(
        parent, "Destination", name=prefix, destination_resource_arn=group.log_group_arn
    )
    last: logs.CfnDelivery | None = None
    for kind in kinds:
        word = _DELIVERIES[kind]
        source = logs.CfnDeliverySource(
            parent, f"{word}-source", name=f"{prefix}-{word}", resource_arn=cluster_arn, log_type=kind.value
        )
        made = logs.CfnDelivery(
            parent, word, delivery_source_name=source.ref, delivery_destination_arn=destination.attr_arn
        )
        if last is not None:  # those made at the same time conflict (hashicorp/terraform-provider-aws issue 42194)
            made.node.add_dependency(last)
        last = made
    return group
