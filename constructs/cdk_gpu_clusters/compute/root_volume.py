"""The root volume of a node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import aws_cdk as cdk
from aws_cdk import aws_iam as iam

from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.rules.fleet import DEFAULT_IOPS, DEFAULT_SIZE_GIB, DEFAULT_THROUGHPUT_MIB_PER_S, check_root_volume

if TYPE_CHECKING:
    from aws_cdk import aws_kms as kms


@dataclass(frozen=True, slots=True, kw_only=True)
class RootVolume:
    """An encrypted gp3 root volume, deleted with its instance.

    The defaults hold a deep-learning image (about 60 GiB and growing) with room for containers.

    Attributes:
        size_gib: Size in GiB, 1 to 65,536.
        iops: Operations per second, 3,000 to 80,000 and at most 500 per GiB.
        throughput_mib_per_s: MiB per second, 125 to 2,000 and at most a quarter of `iops`.
        encryption_key: Customer key; the account's EBS key if left out.

    Raises:
        ConfigError: GPU-LT-001 to -003, all at once.

    Example:
        >>> RootVolume(size_gib=500, iops=6000, throughput_mib_per_s=500).size_gib
        500
    """

    size_gib: int = DEFAULT_SIZE_GIB
    iops: int = DEFAULT_IOPS
    throughput_mib_per_s: int = DEFAULT_THROUGHPUT_MIB_PER_S
    encryption_key: kms.IKey | None = None

    def __post_init__(self) -> None:
        findings = check_root_volume(
            size_gib=self.size_gib, iops=self.iops, throughput_mib_per_s=self.throughput_mib_per_s
        )
        if findings:
            raise ConfigError(findings)


def allow_auto_scaling(key: kms.IKey) -> None:
    """Let EC2 Auto Scaling launch instances whose volumes the key encrypts.

    Its service-linked role has no right to customer keys of its own. The principal is named by condition, since the
    role may not exist before the account's first group. An imported key takes no statement: give it this one.

    Source: EC2 Auto Scaling guide, "Required AWS KMS key policy for use with encrypted volumes".

    Args:
        key: The customer key.
    """
    _allow_service_role(key, "autoscaling.amazonaws.com", "AWSServiceRoleForAutoScaling")


def allow_pcs(key: kms.IKey) -> None:
    """Let AWS PCS launch instances whose volumes the key encrypts, as `allow_auto_scaling` does.

    Source: AWS PCS user guide, "Required KMS key policy for use with encrypted EBS volumes in AWS PCS".

    Args:
        key: The customer key.
    """
    _allow_service_role(key, "pcs.amazonaws.com", "AWSServiceRoleForPCS")


def _allow_service_role(key: kms.IKey, service: str, name: str) -> None:
    role = cdk.Stack.of(key).format_arn(
        service="iam",
        region="",
        resource=f"role/aws-service-role/{service}",
        resource_name=name,
    )
    only_service = {"ArnEquals": {"aws:PrincipalArn": role}}
    key.add_to_resource_policy(
        iam.PolicyStatement(
            principals=[iam.AnyPrincipal()],
            actions=[
                "kms:Encrypt",
                "kms:Decrypt",
                "kms:ReEncrypt*",
                "kms:GenerateDataKey*",
                "kms:DescribeKey",
            ],
            resources=["*"],
            conditions=only_service,
        )
    )
    key.add_to_resource_policy(
        iam.PolicyStatement(
            principals=[iam.AnyPrincipal()],
            actions=["kms:CreateGrant"],
            resources=["*"],
            conditions={**only_service, "Bool": {"kms:GrantIsForAWSResource": "true"}},
        )
    )
