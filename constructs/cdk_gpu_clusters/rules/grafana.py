"""What a workspace of Amazon Managed Grafana may be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cdk_gpu_clusters.errors import Finding, check, define_rule

GRAFANA_AUTHENTICATION = define_rule(
    "GPU-GRF-001",
    "people sign in to a workspace of Grafana in at least one way, each given once",
    source="CloudFormation registry schema of AWS::Grafana::Workspace: AuthenticationProviders",
)
GRAFANA_REGION = define_rule(
    "GPU-GRF-002",
    "the stack of a workspace of Grafana is in a Region with Amazon Managed Grafana",
    source="CloudFormation registry schemas by Region (cfn-lint 1.58.0)",
)

#: Regions of the catalogue of cfn-lint with `AWS::Grafana::Workspace`, without those of isolated partitions.
WITH_GRAFANA = frozenset(
    {
        "ap-northeast-1",
        "ap-northeast-2",
        "ap-southeast-1",
        "ap-southeast-2",
        "eu-central-1",
        "eu-west-1",
        "eu-west-2",
        "me-south-1",
        "us-east-1",
        "us-east-2",
        "us-west-2",
    }
)


@check
def check_grafana(authentication: Sequence[str], *, region: str | None) -> Iterator[Finding]:
    """Find ways to sign in or a Region that AWS refuses.

    Args:
        authentication: Ways to sign in.
        region: Region of the stack; None if it is not known yet.

    Example:
        >>> check_grafana(["AWS_SSO"], region="us-east-1")
        []
    """
    if not authentication or len(set(authentication)) != len(authentication):
        yield GRAFANA_AUTHENTICATION.finding(
            cause="a way is given twice" if authentication else "no one could sign in",
            got=", ".join(authentication) or "nothing",
            allowed="IDENTITY_CENTER, SAML or both",
            fix="give each way once",
            path="authentication",
        )
    if region is not None and region not in WITH_GRAFANA:
        yield GRAFANA_REGION.finding(
            cause="CloudFormation makes no workspace of Grafana in this Region",
            got=region,
            allowed=", ".join(sorted(WITH_GRAFANA)),
            fix="put the workspace into a stack of one of these Regions; it can query metrics of another one",
            path="region",
        )
