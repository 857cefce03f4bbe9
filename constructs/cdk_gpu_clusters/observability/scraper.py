"""An AWS managed collector that scrapes the metrics of a cluster in its VPC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aws_cdk as cdk
import jsii
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_logs as logs
from constructs import Construct, IConstruct

from cdk_gpu_clusters._accepted import UNDELIVERED, AcceptedFinding
from cdk_gpu_clusters._cdk import (
    ClusterConstruct,
    DefinedResources,
    define,
    id_of_group,
    path_in_stack,
    place_of,
    region_of,
    report,
    resolved_or_none,
    selected_subnets,
    stack_of,
    zone_of,
)
from cdk_gpu_clusters._template import logical_id
from cdk_gpu_clusters.compute.fleet import GpuFleet
from cdk_gpu_clusters.compute.fleet_access import IGpuFleet, ImportedGpuFleet
from cdk_gpu_clusters.compute.node_records import PLAIN_LOGS
from cdk_gpu_clusters.compute.state_machine import shared_resources
from cdk_gpu_clusters.observability.collector import (
    WorkspaceRoles,
    check_workspace_of,
    collector_logs,
    define_collector,
)
from cdk_gpu_clusters.observability.node_addresses import Named, address_resources
from cdk_gpu_clusters.observability.targets import Exporter, scrape_configuration
from cdk_gpu_clusters.rules.scrape import (
    ZONE_SUFFIX,
    ScrapeTarget,
    check_configuration,
    check_controller,
    check_fleets,
    check_place,
    check_targets,
)

if TYPE_CHECKING:
    from aws_cdk import aws_aps as aps
    from aws_cdk import aws_kms as kms
    from aws_cdk import aws_route53 as route53

    from cdk_gpu_clusters.observability.workspace import IMetricsWorkspace
    from cdk_gpu_clusters.orchestration.pcs.cluster_base import IPcsCluster


_DESCRIBES = AcceptedFinding(
    cause="`MetricsScraper`: policy of the state machine that writes the addresses of nodes",
    reason="The describe actions of EC2 and EC2 Auto Scaling, log delivery and tracing have no resource level.",
    aws_solutions=("IAM5",),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrapedFleet:
    """A fleet on plain EC2 whose nodes are scraped.

    Attributes:
        name: Label of its DNS record, such as `trainers`: lowercase letters, digits and hyphens.
        fleet: The fleet, made here or imported, with 200 nodes at most.
        exporters: What its nodes serve, and at which port. By default the watchdog at port 9810, which
            `NodeWatch(metrics_port=9810)` turns on.
        fleet_path: Label `fleet` of what other exporters serve. By default the path of a fleet that is made here, as
            its watchdog has it, and the name of an imported one.
    """

    name: str
    fleet: IGpuFleet
    exporters: Mapping[Exporter, int] | Sequence[Exporter] = (Exporter.GPUNODE,)
    fleet_path: str | None = None

    @property
    def ports(self) -> dict[Exporter, int]:
        """The port of each of its exporters."""
        return _ports_of(self.exporters)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrapedNodeGroup:
    """A compute node group of AWS PCS whose nodes are scraped, from ten minutes after their launch on.

    Attributes:
        name: Label of its DNS record, such as `trainers`: lowercase letters, digits and hyphens.
        cluster: The cluster. Its security group, in which all nodes are, admits the collector.
        node_group_id: Id of the group; may be a token.
        fleet_path: Label `fleet` of what other exporters than the watchdog serve, such as `PcsNodeGroup.fleet_path`.
        exporters: What its nodes serve, and at which port. By default the watchdog at port 9810, which
            `NodeWatch(metrics_port=9810)` turns on.
        max_node_count: Most nodes of the group, 200 at most. By default it is not known.
    """

    name: str
    cluster: IPcsCluster
    node_group_id: str
    fleet_path: str
    exporters: Mapping[Exporter, int] | Sequence[Exporter] = (Exporter.GPUNODE,)
    max_node_count: int | None = None

    @property
    def ports(self) -> dict[Exporter, int]:
        """The port of each of its exporters."""
        return _ports_of(self.exporters)


@jsii.implements(ec2.IConnectable)
class MetricsScraper(ClusterConstruct):
    """A managed collector that scrapes fleets and other targets of a VPC, without an agent or a server.

    It sends what it reads to the default dataset of Amazon CloudWatch, where PromQL queries it, or to a workspace of
    Amazon Managed Service for Prometheus. It works by a service-linked role of its own, which AWS makes with it.

    Makes one `AWS::APS::Scraper`, its security group and its log group. The security groups of scraped fleets admit it
    at the ports of their exporters. For fleets it also makes a private hosted zone and a state machine that keeps a DNS
    record of the nodes in service for each fleet.

    The zone is kept without its stack: CloudFormation deletes no zone that still has a record.

    Sources: CloudFormation registry schema of AWS::APS::Scraper (the source can only be set at creation); Amazon
    CloudWatch user guide, "VPC-connected managed collector" and "Scraper configuration"; API reference of Amazon
    Managed Service for Prometheus, CloudWatchConfiguration (default dataset).

    Example:
        >>> trainers = GpuFleet(
        ...     stack, "Scraped", vpc=two_zone_vpc, instance_type="p5.48xlarge", node_count=16,
        ...     vpc_subnets=ec2.SubnetSelection(availability_zones=["us-east-1a"]),
        ...     watch=NodeWatch(metrics_port=9810),
        ... )
        >>> scraper = MetricsScraper(
        ...     stack, "Scraper", vpc=two_zone_vpc, zone_name="lab.metrics.internal",
        ...     fleets=[ScrapedFleet(name="trainers", fleet=trainers, exporters=[Exporter.GPUNODE, Exporter.DCGM])],
        ...     targets=Exporter.SLURMCTLD.at(addresses=["10.0.0.9"]),
        ... )
        >>> scraper.dns_names
        {'trainers': 'trainers.lab.metrics.internal'}

    Attributes:
        configuration: The scrape configuration of Prometheus, as it is at synthesis; it may hold tokens.
        dns_names: Name of the DNS record of each fleet, by the name of the fleet.
        zone: The private hosted zone of these records; None without fleets.
        log_group: What the collector logs: service discovery, failed scrapes, and deliveries.
        cfn_scraper: The resource, as an escape hatch.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        fleets: Sequence[ScrapedFleet] = (),
        targets: Sequence[ScrapeTarget] = (),
        slurm_clusters: Mapping[str, IPcsCluster] | None = None,
        node_groups: Sequence[ScrapedNodeGroup] = (),
        workspace: IMetricsWorkspace | None = None,
        workspace_roles: WorkspaceRoles | None = None,
        vpc_subnets: ec2.SubnetSelection | None = None,
        security_groups: Sequence[ec2.ISecurityGroup] = (),
        zone_name: str | None = None,
        zone: route53.IPrivateHostedZone | None = None,
        interval_seconds: int = 60,
        timeout_seconds: int = 10,
        log_retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH,
        log_encryption_key: kms.IKey | None = None,
    ) -> None:
        """Define the collector.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            vpc: Network in which the targets are. It must resolve DNS names of private zones (`enableDnsSupport` and
                `enableDnsHostnames`).
            fleets: Fleets on plain EC2 whose nodes are scraped.
            targets: Whatever else is scraped, such as `Exporter.SLURMCTLD.at(addresses=[...])`. Its security groups
                must admit the scraper: `scraper.connections.allow_to(cluster, ec2.Port.tcp(6817))`.
            slurm_clusters: Clusters of AWS PCS with `metrics=True` whose controllers are scraped, by a DNS label. Their
                metrics get the label `cluster` with it. None by default.
            node_groups: Compute node groups of AWS PCS whose nodes are scraped. None by default.
            workspace: Where the metrics go. By default to the default dataset of Amazon CloudWatch in this account and
                Region.
            workspace_roles: Roles by which it writes to a workspace of another account, or to one with a key of its
                own. By default it writes by its service-linked role.
            vpc_subnets: 2 to 5 subnets in different zones, in each of which AWS makes a network interface. By default
                the private subnets of the VPC, one of each zone. A change replaces the collector.
            security_groups: 1 to 5 groups of the collector. By default one of its own. A change replaces the collector.
            zone_name: Name of the private hosted zone, unique in the VPC. By default made of the path of the construct,
                and ends in `gpu-metrics.internal`.
            zone: Existing private hosted zone of the VPC instead. By default the collector makes one.
            interval_seconds: How often each target is scraped, 30 seconds or more. 60 by default, as nodes measure once
                a minute.
            timeout_seconds: How long a scrape may take, at most the interval. 10 by default.
            log_retention: How long the log group keeps records. By default a month.
            log_encryption_key: Key of the log groups. A key of this app lets CloudWatch Logs use it; the policy of an
                imported one must. By default the service's own key.

        Raises:
            ConfigError: GPU-SCR-001 to -008, -011.
            ValueError: If both `zone` and `zone_name` are given, or `workspace_roles` without `workspace`.
        """
        super().__init__(scope, construct_id)
        if zone is not None and zone_name is not None:
            raise ValueError("zone: an existing zone has its name already; remove zone_name")
        subnets = _subnets(vpc, vpc_subnets)
        controllers = slurm_clusters or {}
        self._check_place(subnets, fleets, controllers, node_groups)
        report(self, check_workspace_of(self, workspace, workspace_roles))
        name = zone.zone_name if zone is not None else zone_name or _default_zone(self._path)
        labels = [*(one.name for one in fleets), *controllers, *(one.name for one in node_groups)]
        self.dns_names: dict[str, str] = {label: f"{label}.{name}" for label in labels}
        everything = [*_targets_of([*fleets, *node_groups], self.dns_names), *targets]
        for label in controllers:
            everything += Exporter.SLURMCTLD.at(dns_name=self.dns_names[label], labels={"cluster": label})
        report(self, check_targets(everything, interval_seconds=interval_seconds, timeout_seconds=timeout_seconds))
        self.configuration: str = scrape_configuration(
            everything, interval_seconds=interval_seconds, timeout_seconds=timeout_seconds
        )
        report(self, check_configuration(self.configuration))
        self.zone: route53.IPrivateHostedZone | None = None
        if labels:
            self.zone = zone or self._own_zone(vpc, name)
            named = Named(
                groups={one.name: one.fleet.fleet_name for one in fleets},
                clusters={label: (one.cluster_id, one.cluster_arn) for label, one in controllers.items()},
                node_groups={one.name: one.node_group_id for one in node_groups},
            )
            addresses = self._keep_addresses(named, self.zone, log_encryption_key)
        self._groups = list(security_groups) or [
            ec2.SecurityGroup(self, "Group", vpc=vpc, description="Managed collector of metrics")
        ]
        self._connections = ec2.Connections(security_groups=self._groups)
        self.log_group: logs.LogGroup = collector_logs(self, log_retention, log_encryption_key)
        self.cfn_scraper: aps.CfnScraper = self._scraper(subnets, workspace, workspace_roles)
        # A zone with a record could not be deleted after a scraper that failed.
        for label in labels:
            addresses.resource(f"Addresses/{label}").add_dependency(self.cfn_scraper)
        for one in fleets:
            for exporter, port in one.ports.items():
                self._admit(one.name, exporter, one.fleet._node_security_groups[0], port)
        for label, cluster in controllers.items():
            self._admit(label, Exporter.SLURMCTLD, cluster.security_groups[0], Exporter.SLURMCTLD.default_port)
        self._admit_to_node_groups(node_groups)
        self._read_node_anew()

    @property
    @jsii.member(jsii_name="connections")
    def connections(self) -> ec2.Connections:
        """The security groups of the collector, for CDK's `allow_...` methods."""
        return self._connections

    def _check_place(
        self,
        subnets: Sequence[ec2.ISubnet],
        fleets: Sequence[ScrapedFleet],
        controllers: Mapping[str, IPcsCluster],
        node_groups: Sequence[ScrapedNodeGroup],
    ) -> None:
        given = [
            (
                one.name,
                isinstance(one.fleet, GpuFleet | ImportedGpuFleet),
                one.fleet.plan.maximum if isinstance(one.fleet, GpuFleet) else None,
            )
            for one in fleets
        ]
        region = resolved_or_none(region_of(stack_of(self)))
        report(
            self,
            [
                *check_place([zone_of(subnet) for subnet in subnets], region=region),
                *check_fleets(
                    [
                        *given,
                        *((name, True, None) for name in controllers),
                        *((one.name, True, one.max_node_count) for one in node_groups),
                    ]
                ),
                *(
                    one
                    for name, cluster in controllers.items()
                    for one in check_controller(name, _settings_of(cluster))
                ),
            ],
        )

    def _own_zone(self, vpc: ec2.IVpc, name: str) -> route53.IPrivateHostedZone:
        from aws_cdk import aws_route53 as route53  # takes long to load

        zone = route53.PrivateHostedZone(self, "Zone", vpc=vpc, zone_name=name)
        # Not if it was made in a deployment that failed: the next one would find its name taken.
        zone.apply_removal_policy(cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
        return zone

    def _keep_addresses(self, named: Named, zone: route53.IPrivateHostedZone, key: kms.IKey | None) -> DefinedResources:
        partition, _, account = place_of(stack_of(self))
        resources = address_resources(
            named,
            zone_name=zone.zone_name,
            zone_id=zone.hosted_zone_id,
            zone_arn=zone.hosted_zone_arn,
            partition=partition,
            account=account,
        )
        shared = shared_resources(
            resources,
            name=logical_id(path_in_stack(self)),
            log_key_arn=None if key is None else key.key_arn,
        )
        defined: DefinedResources = define(self, {**resources, **shared})
        accepted = UNDELIVERED.with_details() + _DESCRIBES.with_details("Resource::*")
        if key is None:
            accepted += PLAIN_LOGS.with_details()
        accepted.at(defined.scope)
        return defined

    def _admit(self, name: str, exporter: Exporter, group: ec2.ISecurityGroup, port: int) -> None:
        """Let the collector reach an exporter.

        The rule is a resource of the collector: one of a fleet in another stack would make its stack wait for this one,
        which names the fleet.
        """
        job = exporter.name.lower()
        ec2.CfnSecurityGroupIngress(
            self,
            f"Admit-{name}-{job}",
            group_id=id_of_group(group),
            source_security_group_id=id_of_group(self._groups[0]),
            ip_protocol="tcp",
            from_port=port,
            to_port=port,
            description=f"Managed collector scrapes {job}",
        )

    def _admit_to_node_groups(self, node_groups: Sequence[ScrapedNodeGroup]) -> None:
        """Let the collector reach compute nodes: those of a cluster are in one group, which has each rule once."""
        clusters = list(dict.fromkeys(id_of_group(one.cluster.security_groups[0]) for one in node_groups))
        admitted: set[tuple[int, int]] = set()
        for one in node_groups:
            group = one.cluster.security_groups[0]
            index = clusters.index(id_of_group(group))
            for exporter, port in one.ports.items():
                if (index, port) not in admitted:
                    # Not the label of a fleet, which has no points.
                    self._admit(f"nodes.{index}.{port}", exporter, group, port)
                    admitted.add((index, port))

    def _scraper(
        self,
        subnets: Sequence[ec2.ISubnet],
        workspace: IMetricsWorkspace | None,
        roles: WorkspaceRoles | None,
    ) -> aps.CfnScraper:
        from aws_cdk import aws_aps as aps  # takes long to load

        return define_collector(
            self,
            source=aps.CfnScraper.SourceProperty(
                vpc_configuration=aps.CfnScraper.VpcConfigurationProperty(
                    subnet_ids=[subnet.subnet_id for subnet in subnets],
                    security_group_ids=[group.security_group_id for group in self._groups],
                )
            ),
            configuration=self.configuration,
            workspace=workspace,
            roles=roles,
            log_group=self.log_group,
        )

    def _main_resource(self) -> IConstruct | None:
        return vars(self).get("cfn_scraper")


def _settings_of(cluster: IPcsCluster) -> Mapping[str, str] | None:
    from cdk_gpu_clusters.orchestration.pcs.cluster import PcsCluster  # takes long to load

    return cluster.slurm_settings if isinstance(cluster, PcsCluster) else None


def _subnets(vpc: ec2.IVpc, selection: ec2.SubnetSelection | None) -> list[ec2.ISubnet]:
    if selection is None:
        return list(vpc.select_subnets(one_per_az=True).subnets)
    return list(selected_subnets(vpc, selection).subnets)


def _default_zone(path: str) -> str:
    words = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in path.lower())
    return f"{words[-63:].strip('-')}.{ZONE_SUFFIX}"


def _ports_of(exporters: Mapping[Exporter, int] | Sequence[Exporter]) -> dict[Exporter, int]:
    if isinstance(exporters, Mapping):
        return dict(exporters)
    return {exporter: exporter.default_port for exporter in exporters}


def _path_of(one: ScrapedFleet | ScrapedNodeGroup) -> str:
    fleet = one.fleet if isinstance(one, ScrapedFleet) else None
    return fleet.fleet_path if isinstance(fleet, GpuFleet) else one.name


def _targets_of(fleets: Sequence[ScrapedFleet | ScrapedNodeGroup], dns_names: Mapping[str, str]) -> list[ScrapeTarget]:
    found = []
    for one in fleets:
        # What the watchdog serves has this label itself.
        path = one.fleet_path or _path_of(one)
        for exporter, port in one.ports.items():
            labels = {} if exporter is Exporter.GPUNODE else {"fleet": path}
            found += exporter.at(dns_name=dns_names[one.name], port=port, labels=labels)
    return found
