"""What a workspace of Amazon Managed Service for Prometheus may be."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cdk_gpu_clusters.errors import Finding, check, define_rule

WORKSPACE_RETENTION = define_rule(
    "GPU-AMP-001",
    "a workspace keeps its metrics for 1 to 1,095 days",
    source='Amazon Managed Service for Prometheus user guide, "Ingest metrics to your workspace" (150 days by default, '
    "1,095 at most); CloudFormation registry schema of AWS::APS::Workspace (1 at least)",
)
WORKSPACE_ALIAS = define_rule(
    "GPU-AMP-002",
    "the alias of a workspace has 1 to 100 characters, without a blank at its ends",
    source="botocore 1.43, service model of amp: WorkspaceAlias; API reference, CreateWorkspace (blanks are trimmed)",
)
WORKSPACE_REGION = define_rule(
    "GPU-AMP-003",
    "the stack of a workspace is in a Region with Amazon Managed Service for Prometheus",
    source="CloudFormation registry schemas by Region (cfn-lint 1.58.0)",
)
WORKSPACE_ARN = define_rule(
    "GPU-AMP-004",
    "an existing workspace is named by its ARN",
    source="CloudFormation registry schema of AWS::APS::Workspace: pattern of Arn",
)
WORKSPACE_ALERTS = define_rule(
    "GPU-AMP-005",
    "a workspace has an alert manager definition of its own, or topics that alerts notify",
    source="CloudFormation registry schema of AWS::APS::Workspace: AlertManagerDefinition is one text",
)
RUNBOOK_ADDRESS = define_rule(
    "GPU-AMP-006",
    "the page with the runbooks of alerts has an address without a fragment",
    source="RFC 3986, section 3.5: the name of an alert is the fragment; people open it in a browser",
)

_PAGE = re.compile(r"https?://[^\s#]+")
_RETENTION_RANGE = (1, 1_095)
_LONGEST_ALIAS = 100
#: Regions of the catalogue of cfn-lint without `AWS::APS::Workspace`.
WITHOUT_WORKSPACES = frozenset({"cn-north-1", "cn-northwest-1"})
#: The pattern of the registry schema.
ARN = re.compile(r"arn:(aws|aws-us-gov|aws-cn):aps:[a-z0-9-]+:[0-9]+:workspace/[a-zA-Z0-9-]+")


@check
def check_workspace(*, alias: str | None, retention_days: int | None, region: str | None) -> Iterator[Finding]:
    """Find an alias, a retention or a Region that AWS refuses.

    Args:
        alias: The alias; None if there is none, or if it is not known yet.
        retention_days: How long metrics are kept; None for the default of AWS.
        region: Region of the stack; None if it is not known yet.

    Example:
        >>> check_workspace(alias="training", retention_days=400, region="us-east-2")
        []
    """
    low, high = _RETENTION_RANGE
    if retention_days is not None and not low <= retention_days <= high:
        yield WORKSPACE_RETENTION.finding(
            cause="AWS refuses the retention",
            got=f"{retention_days:,} days",
            allowed=f"{low} to {high:,} days",
            fix="correct retention_days, or leave it out for 150 days",
            path="retention_days",
        )
    if alias is not None and (not 1 <= len(alias) <= _LONGEST_ALIAS or alias != alias.strip()):
        yield WORKSPACE_ALIAS.finding(
            cause="AWS refuses or changes the alias",
            got=repr(alias),
            allowed=f"1 to {_LONGEST_ALIAS} characters, without a blank at the ends",
            fix="correct the alias, or leave it out",
            path="alias",
        )
    if region in WITHOUT_WORKSPACES:
        yield WORKSPACE_REGION.finding(
            cause="CloudFormation makes no workspaces in this Region",
            got=region,
            allowed="a Region with AWS::APS::Workspace",
            fix="put the workspace into a stack in another Region, or use CloudWatch",
            path="region",
        )


@check
def check_workspace_arn(arn: str | None) -> Iterator[Finding]:
    """Find a text that is no ARN of a workspace, such as its id.

    Args:
        arn: The ARN; None if it is not known yet.

    Example:
        >>> check_workspace_arn("arn:aws:aps:us-east-2:123456789012:workspace/ws-0123abcd")
        []
    """
    if arn is not None and not ARN.fullmatch(arn):
        yield WORKSPACE_ARN.finding(
            cause="this is no ARN of a workspace",
            got=arn,
            allowed="arn:PARTITION:aps:REGION:ACCOUNT:workspace/ID",
            fix="take the ARN from `aws amp list-workspaces`",
            path="workspace_arn",
        )


@check
def check_alert_manager(*, has_definition: bool) -> Iterator[Finding]:
    """Find a topic of a workspace whose alert manager is defined already.

    Args:
        has_definition: Whether it has a definition of its own.
    """
    if has_definition:
        yield WORKSPACE_ALERTS.finding(
            cause="the workspace has an alert manager definition, which a topic would replace",
            got="alert_manager_definition and add_alert_topic",
            allowed="one of the two",
            fix="name the topic in the definition, or leave the definition out",
            path="alert_manager_definition",
        )


@check
def check_runbooks(url: str) -> Iterator[Finding]:
    """Find an address of runbooks that no browser opens.

    Args:
        url: The address.

    Example:
        >>> check_runbooks("https://wiki.example.org/runbooks")
        []
    """
    if not _PAGE.fullmatch(url):
        yield RUNBOOK_ADDRESS.finding(
            cause="this is no address of a page",
            got=repr(url),
            allowed="such as https://wiki.example.org/runbooks",
            fix="correct runbook_url, or leave it out",
            path="runbook_url",
        )
