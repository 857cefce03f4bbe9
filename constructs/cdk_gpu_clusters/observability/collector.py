"""What all managed collectors of metrics have in common: where they log, and where metrics go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aws_cdk as cdk
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import arn_of, place_of, resolved_or_none, stack_of
from cdk_gpu_clusters.compute.node_records import own_log_group
from cdk_gpu_clusters.rules.scrape import check_destination, check_workspace_place

if TYPE_CHECKING:
    from aws_cdk import aws_aps as aps
    from aws_cdk import aws_kms as kms
    from aws_cdk import aws_logs as logs

    from cdk_gpu_clusters.errors import Finding
    from cdk_gpu_clusters.observability.workspace import IMetricsWorkspace

_LOGS_PREFIX = "/aws/vendedlogs/prometheus-scraper"
# Prometheus finds no targets, the collector reaches none, or an exporter fails.
_LOGGED = ("SERVICE_DISCOVERY", "COLLECTOR", "EXPORTER")

_OWN_KEY = AcceptedFinding(
    cause="Collectors of metrics: log group without a key of its own",
    reason="The collector logs which targets it failed to scrape, no metrics. CloudWatch encrypts the group by its own "
    "key; `log_encryption_key` sets yours.",
    nist_hipaa_pci=("CloudWatchLogGroupEncrypted",),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceRoles:
    """Roles by which a collector writes to a workspace of another account, or to one with a key of its own.

    Both trust policies name the ARN of the collector, which is known once it is there: let it end with `scraper/*`
    before.

    Attributes:
        source_role_arn: Role in the account of the collector, which `scraper.aps.amazonaws.com` assumes and which may
            assume the other one.
        target_role_arn: Role in the account of the workspace, with the rights of AmazonPrometheusRemoteWriteAccess.
    """

    source_role_arn: str
    target_role_arn: str


def check_workspace_of(
    scope: Construct, workspace: IMetricsWorkspace | None, roles: WorkspaceRoles | None
) -> list[Finding]:
    """Find a workspace that a collector cannot write to.

    Args:
        scope: The collector.
        workspace: The workspace; None for Amazon CloudWatch.
        roles: Roles by which it writes; None for its service-linked role.
    """
    from cdk_gpu_clusters.observability.workspace import MetricsWorkspace  # takes long to load

    if workspace is None:
        if roles is not None:
            raise ValueError("workspace_roles: roles are for a workspace; remove them, or give workspace")
        return []
    arn = resolved_or_none(workspace.workspace_arn)
    found: tuple[str | None, str | None] = (None, None)
    if arn is not None:
        _, _, _, region, account, _ = arn.split(":", 5)
        found = region, account
    elif isinstance(workspace, MetricsWorkspace):
        found = _known_place(workspace)
    has_key = isinstance(workspace, MetricsWorkspace) and workspace.cfn_workspace.kms_key_arn is not None
    return [
        *check_destination(has_own_key=has_key, has_roles=roles is not None),
        *check_workspace_place(found, _known_place(scope), has_roles=roles is not None),
    ]


def _known_place(scope: Construct) -> tuple[str | None, str | None]:
    _, region, account = place_of(stack_of(scope))
    return resolved_or_none(region), resolved_or_none(account)


def collector_logs(scope: Construct, retention: logs.RetentionDays, encryption_key: kms.IKey | None) -> logs.LogGroup:
    """The log group of a collector; None as its key for the service's own."""
    return own_log_group(
        scope,
        "Logs",
        name=f"{_LOGS_PREFIX}/{cdk.Names.unique_resource_name(scope, max_length=100, separator='-')}",
        retention=retention,
        encryption_key=encryption_key,
        without_key=_OWN_KEY,
    )


def define_collector(
    scope: Construct,
    *,
    source: aps.CfnScraper.SourceProperty,
    configuration: str,
    workspace: IMetricsWorkspace | None,
    roles: WorkspaceRoles | None,
    log_group: logs.LogGroup,
) -> aps.CfnScraper:
    """The resource of a collector.

    Args:
        scope: The collector.
        source: Its subnets and security groups, and the cluster of Amazon EKS that it scrapes, if any.
        configuration: Its scrape configuration; may hold tokens.
        workspace: Where metrics go; None for the default dataset of Amazon CloudWatch in this account and Region.
        roles: Roles by which it writes to the workspace; None for its service-linked role.
        log_group: Where it logs.
    """
    from aws_cdk import aws_aps as aps  # takes long to load

    scraper = aps.CfnScraper
    component: Any = scraper.ScraperComponentProperty
    return scraper(
        scope,
        "Resource",
        source=source,
        destination=_destination(scope, workspace),
        role_configuration=None
        if roles is None
        else scraper.RoleConfigurationProperty(
            source_role_arn=roles.source_role_arn, target_role_arn=roles.target_role_arn
        ),
        # Written out by CloudFormation, so that a template shows what is scraped, and tokens have their values.
        scrape_configuration=scraper.ScrapeConfigurationProperty(configuration_blob=cdk.Fn.base64(configuration)),
        scraper_logging_configuration=scraper.ScraperLoggingConfigurationProperty(
            logging_destination=scraper.ScraperLoggingDestinationProperty(
                cloud_watch_logs=scraper.CloudWatchLogDestinationProperty(log_group_arn=log_group.log_group_arn)
            ),
            scraper_components=[component(type=kind) for kind in _LOGGED],
        ),
    )


def _destination(scope: Construct, workspace: IMetricsWorkspace | None) -> aps.CfnScraper.DestinationProperty:
    from aws_cdk import aws_aps as aps  # takes long to load

    scraper = aps.CfnScraper
    if workspace is not None:
        return scraper.DestinationProperty(
            amp_configuration=scraper.AmpConfigurationProperty(workspace_arn=workspace.workspace_arn)
        )
    return scraper.DestinationProperty(
        cloud_watch_configuration=scraper.CloudWatchConfigurationProperty(
            dataset_arn=arn_of(scope, "cloudwatch", "dataset/default")
        )
    )
