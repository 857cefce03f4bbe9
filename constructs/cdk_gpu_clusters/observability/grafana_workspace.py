"""A workspace of Amazon Managed Grafana that may read the metrics of clusters."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct, IConstruct

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import ClusterConstruct, place_of, report, resolved_or_none, stack_of
from cdk_gpu_clusters.observability.workspace import QUERY, IMetricsWorkspace
from cdk_gpu_clusters.rules.grafana import check_grafana

if TYPE_CHECKING:
    from aws_cdk import aws_grafana as grafana

_READS_CLOUDWATCH = "service-role/AmazonGrafanaCloudWatchAccess"
_MANAGED_POLICY = AcceptedFinding(
    cause="`GrafanaWorkspace`: managed policy of its role",
    reason="AWS maintains the policy by which Grafana reads CloudWatch. It only reads.",
    aws_solutions=("IAM4",),
)
_LISTS = AcceptedFinding(
    cause="`GrafanaWorkspace`: policy of its role",
    reason="Grafana lists the workspaces of Prometheus when a data source is added: that action has no resource level.",
    aws_solutions=("IAM5",),
)


class GrafanaAuthentication(str, Enum):
    """How people sign in to a workspace of Amazon Managed Grafana.

    Attributes:
        IDENTITY_CENTER: AWS IAM Identity Center, which the account or its organization has enabled.
        SAML: An identity provider by SAML 2.0, which is configured in the workspace after its deployment.
    """

    IDENTITY_CENTER = "AWS_SSO"
    SAML = "SAML"


class GrafanaWorkspace(ClusterConstruct):
    """A workspace of Amazon Managed Grafana with a role that reads Amazon CloudWatch and workspaces of Prometheus.

    Makes one `AWS::Grafana::Workspace` and its role. The workspace is kept when its stack is deleted: it has the
    dashboards. CloudFormation makes no data sources, dashboards or users: an administrator signs in, adds the data
    sources, and imports the file of `gpu-clusters dashboard`.

    Sources: CloudFormation registry schema of AWS::Grafana::Workspace; Amazon Managed Grafana API reference,
    CreateWorkspace (a workspace of CloudFormation has a role of yours); Amazon Managed Grafana user guide, "Amazon
    Managed Grafana permissions and policies for AWS data sources".

    Example:
        >>> metrics = MetricsWorkspace(stack, "Kept", alias="training")
        >>> shown = GrafanaWorkspace(
        ...     stack, "Grafana", authentication=[GrafanaAuthentication.IDENTITY_CENTER], metrics=[metrics],
        ... )
        >>> shown.cfn_workspace.authentication_providers
        ['AWS_SSO']

    Attributes:
        role: What the workspace reads with.
        cfn_workspace: The resource, as an escape hatch.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        authentication: Sequence[GrafanaAuthentication],
        metrics: Sequence[IMetricsWorkspace] = (),
        name: str | None = None,
        grafana_version: str | None = None,
        removal_policy: cdk.RemovalPolicy = cdk.RemovalPolicy.RETAIN,
    ) -> None:
        """Define the workspace and its role.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            authentication: How people sign in; at least one way.
            metrics: Workspaces of Amazon Managed Service for Prometheus that it may query. None by default.
            name: Name that people see: letters, digits, `-`, `.`, `_` and `~`. By default AWS has none.
            grafana_version: Version of Grafana, such as `10.4`. By default the newest that AWS offers.
            removal_policy: What happens to the workspace, and its dashboards, without its stack. By default it is kept.

        Raises:
            ConfigError: GPU-GRF-001, GPU-GRF-002.
        """
        from aws_cdk import aws_grafana as grafana  # takes long to load

        super().__init__(scope, construct_id)
        partition, region, account = place_of(stack_of(scope))
        providers = [GrafanaAuthentication(one).value for one in authentication]
        report(self, check_grafana(providers, region=resolved_or_none(region)))
        self.role: iam.Role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal(
                "grafana.amazonaws.com",
                conditions={
                    "StringEquals": {"aws:SourceAccount": account},
                    "StringLike": {"aws:SourceArn": f"arn:{partition}:grafana:{region}:{account}:/workspaces/*"},
                },
            ),
            managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(_READS_CLOUDWATCH)],
        )
        _MANAGED_POLICY.at(self.role, f"Policy::arn:<AWS::Partition>:iam::aws:policy/{_READS_CLOUDWATCH}")
        if metrics:
            arns = [workspace.workspace_arn for workspace in metrics]
            reads = iam.ManagedPolicy(
                self,
                "Reads",
                roles=[self.role],
                statements=[
                    iam.PolicyStatement(actions=["aps:DescribeWorkspace", *QUERY], resources=arns),
                    iam.PolicyStatement(actions=["aps:ListWorkspaces"], resources=["*"]),
                ],
            )
            _LISTS.at(reads, "Resource::*")
        self.cfn_workspace: grafana.CfnWorkspace = grafana.CfnWorkspace(
            self,
            "Resource",
            account_access_type="CURRENT_ACCOUNT",
            authentication_providers=providers,
            permission_type="CUSTOMER_MANAGED",
            role_arn=self.role.role_arn,
            name=name,
            grafana_version=grafana_version,
        )
        self.cfn_workspace.apply_removal_policy(removal_policy)
        self._read_node_anew()

    @property
    def endpoint(self) -> str:
        """Host name of its console, known at deployment."""
        return str(self.cfn_workspace.attr_endpoint)

    def _main_resource(self) -> IConstruct | None:
        return vars(self).get("cfn_workspace")
