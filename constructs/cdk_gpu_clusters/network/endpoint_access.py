"""What the endpoints of a closed network carry: your own identities and resources, and AWS's own buckets to read.

Without a policy, an endpoint carries every request: a process of a node could write to a bucket of another account,
with its own credentials or with those of that account. The policies follow AWS's data perimeter: own identities, own
resources, and the exceptions that AWS lists.

Sources: AWS PrivateLink guide, "Control access to VPC endpoints using endpoint policies"; AWS's policy examples
(aws-samples/data-perimeter-policy-examples @ 007f7e2, vpc_endpoint_policies), which also link the page of each bucket.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from aws_cdk import Fn

from cdk_gpu_clusters.errors import raise_for
from cdk_gpu_clusters.rules.endpoints import check_access_names

#: Buckets of AWS that nodes read without credentials, or with addresses that AWS signed. `{}` is the Region.
READABLE_BUCKETS_OF_AWS = (
    # Layers of container images: Amazon ECR user guide, "Minimum Amazon S3 bucket permissions for Amazon ECR".
    "prod-{}-starport-layer-bucket",
    # Packages of Amazon Linux 2023: Amazon Linux 2023 user guide, "Kernel Live Patching".
    "al2023-repos-{}-de612dc2",
    "al2023-{}",
    # SSM Agent: Systems Manager user guide, "SSM Agent communications with AWS managed S3 buckets".
    "amazon-ssm-{}",
    "amazon-ssm-packages-{}",
    "aws-ssm-{}",
    "aws-ssm-distributor-file-{}",
    "aws-ssm-document-attachments-{}",
    "patch-baseline-snapshot-{}",
    "{}-birdwatcher-prod",
    # CloudWatch user guide, "Download the CloudWatch agent package".
    "amazoncloudwatch-agent-{}",
    "amazoncloudwatch-agent",
    # Agent and Slurm of AWS PCS: PCS user guide, "Custom Amazon Machine Images for AWS PCS".
    "aws-pcs-repo-{}",
    "aws-pcs-repo-public-keys-{}",
    # Lustre client for Ubuntu: FSx for Lustre user guide, "Installing the Lustre client".
    "fsx-lustre-client-repo",
    "fsx-lustre-client-repo-public-keys",
)

# CloudFormation user guide, "Access CloudFormation using an interface endpoint": functions of custom resources and wait
# conditions put their answers there, with addresses that CloudFormation signed; the first name has no hyphens.
_ANSWERS = "cloudformation-custom-resource-response-{}"
_WAIT_CONDITIONS = "cloudformation-waitcondition-{}"

# Images of EKS's add-ons and of the AWS Deep Learning Containers are in registries of AWS's accounts: Amazon EKS user
# guide, "View Amazon container image registries for Amazon EKS add-ons". Service authorization reference: Amazon ECR.
_PULL = (
    "ecr:BatchCheckLayerAvailability",
    "ecr:BatchGetImage",
    "ecr:GetAuthorizationToken",
    "ecr:GetDownloadUrlForLayer",
)
_ECR = ("ecr.api", "ecr.dkr")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a network is; any of it may be a token."""

    partition: str
    region: str
    account: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointAccess:
    """Whose identities and resources the endpoints of a closed network carry, besides those of its own account.

    Example:
        >>> EndpointAccess(accounts=["210987654321"], readable_buckets=["my-public-corpus"]).accounts
        ['210987654321']

    Attributes:
        accounts: Further accounts, such as the one with the weights.
        organization_id: Organization whose accounts are all meant, such as `o-a1b2c3d4e5`; none if left out.
        readable_buckets: Names of buckets of anybody that nodes may read, such as public data sets.

    Raises:
        ConfigError: GPU-NET-122.
    """

    accounts: Sequence[str] = ()
    organization_id: str | None = None
    readable_buckets: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Check the forms."""
        raise_for(
            check_access_names(
                accounts=self.accounts, organization_id=self.organization_id, buckets=self.readable_buckets
            )
        )

    def statements(self, service: str, place: Place) -> Iterator[dict[str, Any]]:
        """The statements of the policy of an endpoint.

        Args:
            service: Short name of the service, such as `s3` or `ecr.api`.
            place: Partition, Region and account of the network.
        """
        yield _allow("OwnAccounts", "*", "*", StringEquals=self._own(place, "Principal", "Resource"))
        if self.organization_id is not None:
            organization = {f"aws:{kind}OrgID": self.organization_id for kind in ("Principal", "Resource")}
            yield _allow("OwnOrganization", "*", "*", StringEquals=organization)
        if service == "ec2":
            # posit-dev/ptd (package aws, SupportsGlobalResourceCondition) lists the actions that have no
            # aws:ResourceAccount by the IAM user guide, "AWS global condition context keys"; the guide itself was not
            # opened. The driver of EBS makes volumes by this one, which are always of the caller's account.
            yield _allow("MakeVolumes", "ec2:CreateVolume", "*", StringEquals=self._own(place, "Principal"))
        if service in _ECR:
            yield _allow("PullImages", list(_PULL), "*", StringEquals=self._own(place, "Principal"))
        if service == "s3":
            names = [name.format(place.region) for name in READABLE_BUCKETS_OF_AWS]
            yield _allow("BucketsOfAws", "s3:GetObject", [_objects(place, name) for name in names])
            answers = [
                _ANSWERS.format(Fn.join("", Fn.split("-", place.region))),
                _WAIT_CONDITIONS.format(place.region),
            ]
            yield _allow("AnswersToCloudFormation", "s3:PutObject", [_objects(place, name) for name in answers])
            if self.readable_buckets:
                readable = [
                    arn for name in self.readable_buckets for arn in (_bucket(place, name), _objects(place, name))
                ]
                yield _allow("ReadableBuckets", ["s3:GetObject", "s3:GetBucketLocation", "s3:ListBucket"], readable)
        if service == "ssm":
            # Systems Manager user guide: public parameters and AWS's own documents belong to no account.
            owned = [f"arn:{place.partition}:ssm:{place.region}::{one}" for one in ("document/*", "parameter/aws/*")]
            yield _allow("DocumentsOfAws", ["ssm:Describe*", "ssm:Get*", "ssm:List*"], owned,
                         StringEquals=self._own(place, "Principal"))  # fmt: skip
        if service == "sts":
            # AWS STS API reference: the caller of this one has no identity yet; the role belongs to the own account.
            yield _allow("WebIdentity", "sts:AssumeRoleWithWebIdentity", "*",
                         StringEquals=self._own(place, "Resource"))  # fmt: skip

    def _own(self, place: Place, *kinds: str) -> dict[str, list[str]]:
        return {f"aws:{kind}Account": [place.account, *self.accounts] for kind in kinds}


def _allow(sid: str, actions: str | list[str], resources: str | list[str], **conditions: Any) -> dict[str, Any]:
    statement = {"Sid": sid, "Effect": "Allow", "Principal": "*", "Action": actions, "Resource": resources}
    return statement | ({"Condition": conditions} if conditions else {})


def _bucket(place: Place, name: str) -> str:
    return f"arn:{place.partition}:s3:::{name}"


def _objects(place: Place, name: str) -> str:
    return f"{_bucket(place, name)}/*"
