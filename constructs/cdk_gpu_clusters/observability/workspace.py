"""A workspace of Amazon Managed Service for Prometheus: where metrics are kept and queried."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct, IConstruct

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import ClusterConstruct, arn_of, region_of, report, resolved_or_none, stack_of
from cdk_gpu_clusters.compute.node_records import own_log_group
from cdk_gpu_clusters.node.alerts import RUNBOOK_URL
from cdk_gpu_clusters.observability.alert_manager import alert_manager_definition as definition_for
from cdk_gpu_clusters.observability.prometheus_rules import PrometheusRules
from cdk_gpu_clusters.rules.metrics_workspace import check_alert_manager, check_workspace, check_workspace_arn

if TYPE_CHECKING:
    from aws_cdk import aws_aps as aps
    from aws_cdk import aws_kms as kms
    from aws_cdk import aws_sns as sns

# Log groups below it do not grow the resource policy of CloudWatch Logs (CloudWatch Logs user guide, "Enable logging
# from AWS services").
_LOGS_PREFIX = "/aws/vendedlogs/prometheus"
# AWS managed policies AmazonPrometheusQueryAccess and AmazonPrometheusRemoteWriteAccess.
QUERY = ("aps:GetLabels", "aps:GetMetricMetadata", "aps:GetSeries", "aps:QueryMetrics")
_REMOTE_WRITE = ("aps:RemoteWrite",)

_OWN_KEY = AcceptedFinding(
    cause="`MetricsWorkspace`: log group without a key of its own",
    reason="The workspace logs failures of rules and of the alert manager, no metrics. CloudWatch encrypts the group "
    "by its own key; `log_encryption_key` sets yours.",
    nist_hipaa_pci=("CloudWatchLogGroupEncrypted",),
)


class IMetricsWorkspace(ClusterConstruct):
    """A workspace of Amazon Managed Service for Prometheus, made here or imported.

    Example:
        >>> arn = "arn:aws:aps:us-east-2:123456789012:workspace/ws-0123abcd"
        >>> shared = MetricsWorkspace.from_metrics_workspace_attributes(stack, "OfAll", workspace_arn=arn)
        >>> rules = shared.add_rules("Rules", namespace_name="training")
    """

    @property
    def workspace_arn(self) -> str:
        """Its ARN, known at deployment."""
        raise NotImplementedError

    def grant_query(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let someone query the metrics, such as the role of a Grafana.

        Source: AWS managed policy AmazonPrometheusQueryAccess, here for this workspace only.

        Args:
            grantee: A role, a user or a group.
        """
        return self._grant(grantee, *QUERY)

    def grant_remote_write(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let someone send metrics by Prometheus' remote write, such as a Prometheus agent on nodes.

        A scraper needs no grant: it works by its service-linked role.

        Source: AWS managed policy AmazonPrometheusRemoteWriteAccess, here for this workspace only.

        Args:
            grantee: A role, a fleet, a user or a group.
        """
        return self._grant(grantee, *_REMOTE_WRITE)

    def add_rules(
        self,
        construct_id: str,
        *,
        idle_minutes: int | None = 60,
        namespace_name: str = "gpu-clusters",
        runbook_url: str = RUNBOOK_URL,
    ) -> PrometheusRules:
        """Put the alerting and recording rules of this library into the workspace.

        Args:
            construct_id: Id below the workspace.
            idle_minutes: As in `PrometheusRules`.
            namespace_name: As in `PrometheusRules`.
            runbook_url: As in `prometheus_rules`.

        Raises:
            ConfigError: GPU-ALM-001, GPU-AMP-006.
        """
        return PrometheusRules(
            self,
            construct_id,
            workspace_arn=self.workspace_arn,
            idle_minutes=idle_minutes,
            namespace_name=namespace_name,
            runbook_url=runbook_url,
        )

    def _grant(self, grantee: iam.IGrantable, *actions: str) -> iam.Grant:
        return iam.Grant.add_to_principal(grantee=grantee, actions=[*actions], resource_arns=[self.workspace_arn])


class MetricsWorkspace(IMetricsWorkspace):
    """A workspace of Amazon Managed Service for Prometheus.

    Makes one `AWS::APS::Workspace` and a log group for failures of its rules and of its alert manager. The workspace is
    kept when its stack is deleted: it has the metrics.

    Sources: CloudFormation registry schema of AWS::APS::Workspace; botocore, service model of amp; user guide of Amazon
    Managed Service for Prometheus, "Ingest metrics to your workspace" and "Encryption at rest".

    Example:
        >>> workspace = MetricsWorkspace(stack, "Metrics", alias="training", retention_days=400)
        >>> rules = workspace.add_rules("Rules", idle_minutes=30)
        >>> workspace.add_alert_topic(AlarmTopic(stack, "Alerted", emails=["operators@example.org"]).topic)
        >>> grafana = iam.Role(stack, "Grafana", assumed_by=iam.ServicePrincipal("grafana.amazonaws.com"))
        >>> grant = workspace.grant_query(grafana)

    Attributes:
        cfn_workspace: The resource, as an escape hatch.
        log_group: Where it logs failures of rules and of the alert manager.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        alias: str | None = None,
        retention_days: int | None = None,
        encryption_key: kms.IKey | None = None,
        alert_manager_definition: str | None = None,
        log_retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH,
        log_encryption_key: kms.IKey | None = None,
        removal_policy: cdk.RemovalPolicy = cdk.RemovalPolicy.RETAIN,
    ) -> None:
        """Define the workspace.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            alias: Name that people see, 1 to 100 characters; it need not be unique. By default the path of the
                construct.
            retention_days: How many days metrics are kept, 1 to 1,095. By default AWS keeps them for 150 days.
            encryption_key: Key of the metrics. A `MetricsScraper` cannot write to a workspace with a key. A change
                replaces the workspace, and the new one has no metrics. Whoever
                deploys must be allowed to make grants of the key. By default a key of AWS.
            alert_manager_definition: YAML of Alertmanager with receivers of Amazon SNS, as one text, instead of
                `add_alert_topic`. By default alerts notify no one.
            log_retention: How long the log group keeps records. By default a month.
            log_encryption_key: Key of the log group. A key of this app lets CloudWatch Logs use it; the policy of an
                imported one must. By default the service's own key.
            removal_policy: What happens to the workspace, and its metrics, without its stack. By default it is kept.

        Raises:
            ConfigError: GPU-AMP-001, GPU-AMP-002, GPU-AMP-003.
        """
        from aws_cdk import aws_aps as aps  # takes long to load

        super().__init__(scope, construct_id)
        findings = check_workspace(
            alias=resolved_or_none(alias),
            retention_days=resolved_or_none(retention_days),
            region=resolved_or_none(region_of(stack_of(scope))),
        )
        report(self, findings)
        name = cdk.Names.unique_resource_name(self, max_length=100, separator="-")
        self.log_group: logs.LogGroup = own_log_group(
            self,
            "Logs",
            name=f"{_LOGS_PREFIX}/{name}",
            retention=log_retention,
            encryption_key=log_encryption_key,
            without_key=_OWN_KEY,
        )
        self.cfn_workspace: aps.CfnWorkspace = aps.CfnWorkspace(
            self,
            "Resource",
            alias=alias if alias is not None else self._path[-100:].strip(),
            kms_key_arn=None if encryption_key is None else encryption_key.key_arn,
            alert_manager_definition=alert_manager_definition,
            # The ARN that CloudFormation has for a log group ends in `:*`, as AWS asks for.
            logging_configuration=aps.CfnWorkspace.LoggingConfigurationProperty(
                log_group_arn=self.log_group.log_group_arn
            ),
            workspace_configuration=None
            if retention_days is None
            else aps.CfnWorkspace.WorkspaceConfigurationProperty(retention_period_in_days=retention_days),
        )
        self.cfn_workspace.apply_removal_policy(removal_policy)
        self._has_own_definition = alert_manager_definition is not None
        self._alert_topics: list[str] = []
        self._read_node_anew()

    def add_alert_topic(self, topic: sns.ITopic) -> None:
        """Let the alerts of the rules notify a topic, by the alert manager of the workspace.

        Alerts are grouped by name and fleet (`alert_manager_configuration`). A topic of this app gets the statement in
        its policy that lets this workspace publish. The policy of an imported topic is yours, and so is that of a key.

        Source: user guide of Amazon Managed Service for Prometheus, "Giving Amazon Managed Service for Prometheus
        permission to send alert messages to your Amazon SNS topic": a topic of the same account.

        Args:
            topic: The topic.

        Raises:
            ConfigError: GPU-AMP-005.
        """
        report(self, check_alert_manager(has_definition=self._has_own_definition))
        stack = stack_of(self)
        self._alert_topics.append(topic.topic_arn)
        self.cfn_workspace.alert_manager_definition = definition_for(self._alert_topics, region=region_of(stack))
        topic.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal("aps.amazonaws.com")],
                actions=["sns:Publish", "sns:GetTopicAttributes"],
                resources=[topic.topic_arn],
                conditions={
                    "ArnLike": {"aws:SourceArn": self._source_for(topic)},
                    "StringEquals": {"aws:SourceAccount": stack.account},
                },
            )
        )

    def _source_for(self, topic: sns.ITopic) -> str:
        """Who publishes to a topic: of another stack, on which this one depends, any workspace of the account."""
        if stack_of(topic) is stack_of(self):
            return self.workspace_arn
        return arn_of(topic, "aps", "workspace/*")

    @staticmethod
    def from_metrics_workspace_attributes(
        scope: Construct, construct_id: str, *, workspace_arn: str
    ) -> IMetricsWorkspace:
        """Import a workspace, such as one of another app.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            workspace_arn: Its ARN. May be a token.

        Raises:
            ConfigError: GPU-AMP-004.

        Example:
            >>> arn = "arn:aws:aps:us-east-2:123456789012:workspace/ws-0123abcd"
            >>> MetricsWorkspace.from_metrics_workspace_attributes(stack, "Shared", workspace_arn=arn).workspace_arn
            'arn:aws:aps:us-east-2:123456789012:workspace/ws-0123abcd'
        """
        imported = _ImportedWorkspace(scope, construct_id, workspace_arn)
        report(imported, check_workspace_arn(resolved_or_none(workspace_arn)))
        return imported

    @property
    def workspace_arn(self) -> str:
        """Its ARN, known at deployment."""
        return str(self.cfn_workspace.attr_arn)

    @property
    def prometheus_endpoint(self) -> str:
        """URL below which `api/v1/remote_write` and `api/v1/query` are, known at deployment."""
        return str(self.cfn_workspace.attr_prometheus_endpoint)

    def _main_resource(self) -> IConstruct | None:
        return vars(self).get("cfn_workspace")


class _ImportedWorkspace(IMetricsWorkspace):
    """A workspace that is defined elsewhere."""

    def __init__(self, scope: Construct, construct_id: str, workspace_arn: str) -> None:
        super().__init__(scope, construct_id)
        self._workspace_arn = workspace_arn

    @property
    def workspace_arn(self) -> str:
        return self._workspace_arn
