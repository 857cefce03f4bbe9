"""Where nodes leave their events, and the evidence of a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct, IConstruct

from cdk_gpu_clusters._accepted import AcceptedFinding, named_resource
from cdk_gpu_clusters._cdk import arn_of, path_of, region_of, stack_of
from cdk_gpu_clusters.compute.fleet_props import EVIDENCE_PREFIX, NodeSoftwareProps

if TYPE_CHECKING:
    from aws_cdk import aws_kms as kms
    from aws_cdk import aws_s3 as s3


PLAIN_LOGS = AcceptedFinding(
    cause="`GpuFleet`, `EksGpuNodeGroup`, `NodeUserData`: log groups of the nodes and of state machines",
    reason="CloudWatch Logs encrypts every log group; these hold events, metrics, sizes and runs, no data.",
    nist_hipaa_pci=("CloudWatchLogGroupEncrypted",),
)
# CloudWatch Logs user guide, "Encrypt log data in CloudWatch Logs using AWS KMS".
_ACTIONS = ("kms:Encrypt*", "kms:Decrypt*", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:Describe*")


def node_log_group(
    scope: Construct, retention: logs.RetentionDays, encryption_key: kms.IKey | None = None
) -> logs.ILogGroup:
    """Make the log group that nodes write their events and metrics to, one stream each.

    Args:
        scope: Their construct.
        retention: How long events are kept.
        encryption_key: Key of the events, which CloudWatch Logs then may use for log groups of this account and
            Region; None for CloudWatch's own.
    """
    if encryption_key is not None:
        encrypt_logs(scope, encryption_key)
    made = logs.LogGroup(
        scope,
        "Logs",
        retention=retention,
        encryption_key=encryption_key,
        removal_policy=cdk.RemovalPolicy.DESTROY,
    )
    if encryption_key is None:
        PLAIN_LOGS.at(made)
    return made


def encrypt_logs(scope: Construct, encryption_key: kms.IKey) -> None:
    """Let CloudWatch Logs use a key for the log groups of this account and Region.

    Args:
        scope: Construct of a log group.
        encryption_key: The key; an imported one takes no statement.
    """
    # Not the ARN of one group: the group needs the key, and the key's policy would need the group.
    groups = arn_of(scope, "logs", "log-group:*")
    encryption_key.add_to_resource_policy(
        iam.PolicyStatement(
            principals=[iam.ServicePrincipal(f"logs.{region_of(stack_of(scope))}.amazonaws.com")],
            actions=list(_ACTIONS),
            resources=["*"],
            conditions={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}},
        )
    )


_BUNDLES = AcceptedFinding(
    cause="`GpuFleet(evidence_bucket=...)`: policy of the nodes",
    reason="A node names its bundle by its instance and the time, below the fleet's own prefix.",
    aws_solutions=("IAM5",),
)


class NodeEvidence:
    """The fleet's own place in a bucket, to which its nodes may write and from which they may not read."""

    def __init__(self, fleet: Construct, bucket: s3.IBucket, prefix: str) -> None:
        """Choose the place.

        Args:
            fleet: The fleet; its path names the place.
            bucket: The bucket.
            prefix: What its objects begin with.
        """
        self._bucket = bucket
        self._keys = "/".join(filter(None, (prefix.strip("/"), path_of(fleet))))

    @property
    def uri(self) -> str:
        """Where the bundles of the fleet go, such as `s3://logs/node-evidence/Training/Fleet`."""
        return f"s3://{self._bucket.bucket_name}/{self._keys}"

    def statements(self) -> list[dict[str, Any]]:
        """What lets a node put a bundle there."""
        found: list[dict[str, Any]] = [
            {"Effect": "Allow", "Action": "s3:PutObject", "Resource": self._objects},
        ]
        key = self._bucket.encryption_key
        if key is not None:
            # Decrypt, for bundles that travel in parts (AWS KMS developer guide, "How Amazon S3 uses AWS KMS").
            actions = ["kms:GenerateDataKey", "kms:Decrypt"]
            found.append({"Effect": "Allow", "Action": actions, "Resource": key.key_arn})
        return found

    def accept_at(self, policy: IConstruct) -> None:
        """Accept what policy packs find in the statements."""
        _BUNDLES.at(policy, named_resource(policy, self._objects))

    @property
    def _objects(self) -> str:
        return self._bucket.arn_for_objects(f"{self._keys}/*")


def evidence_of(scope: Construct, options: NodeSoftwareProps) -> NodeEvidence | None:
    """Where the nodes of a fleet leave evidence; None if its options name no bucket.

    Args:
        scope: The fleet.
        options: Its options.
    """
    bucket = options.get("evidence_bucket")
    return None if bucket is None else NodeEvidence(scope, bucket, options.get("evidence_prefix", EVIDENCE_PREFIX))
