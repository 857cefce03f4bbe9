"""Where nodes leave their events, and the evidence of a failure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct, IConstruct

from cdk_gpu_clusters._accepted import AcceptedFinding, named_resource
from cdk_gpu_clusters._cdk import arn_of, path_of, region_of, stack_of
from cdk_gpu_clusters._template import allow
from cdk_gpu_clusters.compute.fleet_props import EVIDENCE_PREFIX, NodeSoftwareProps

if TYPE_CHECKING:
    from aws_cdk import aws_kms as kms
    from aws_cdk import aws_s3 as s3


PLAIN_LOGS = AcceptedFinding(
    cause="`GpuFleet`, `EksGpuNodeGroup`, `NodeUserData`: log groups of the nodes and of state machines",
    reason="CloudWatch Logs encrypts every log group; these hold events, metrics, sizes and runs, no data.",
    nist_hipaa_pci=("CloudWatchLogGroupEncrypted",),
)
_LOG_STREAMS = AcceptedFinding(
    cause="`GpuFleet`, `EksGpuNodeGroup`, `NodeUserData`: log streams of the nodes",
    reason="A stream is named after the instance and its address, which are unknown before; the address limits a node "
    "to its own streams.",
    aws_solutions=("IAM5",),
)
# What a node writes has its address in its name (`gpunode.node.Node`), so that no other node can write it. AWS has no
# key for the bare id of the calling instance, and a stream's name takes no ARN. IAM user guide, "AWS global condition
# context keys": aws:Ec2InstanceSourcePrivateIPv4, of credentials of an instance role; "IAM policy elements: Variables
# and tags": variables stand in the resource part of an ARN, too.
_ADDRESS = "${aws:Ec2InstanceSourcePrivateIPv4}"
# Names of the records of the calling node, as a policy has them.
_OWN_RECORDS = f"i-*/{_ADDRESS}"
_OWN_STREAMS = (_OWN_RECORDS, f"{_OWN_RECORDS}/metrics")
# Empty streams that nodes count their repairs and replacements by (`gpunode.slots`).
_SLOTS = ("repairs/*", "replaced/*")
# What a node says of the jobs of users, and what its ranks print (`gpunode.fleet_jobs.board`). It only reads the files.
_OWN_JOBS, _FILES = f"jobs/*/{_OWN_RECORDS}", "jobs/*/files"
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
    return own_log_group(scope, "Logs", retention=retention, encryption_key=encryption_key, without_key=PLAIN_LOGS)


def own_log_group(
    scope: Construct,
    construct_id: str,
    *,
    name: str | None = None,
    retention: logs.RetentionDays,
    encryption_key: kms.IKey | None,
    without_key: AcceptedFinding,
) -> logs.LogGroup:
    """Make a log group that goes with its stack, or its name could not be made again.

    Args:
        scope: Parent construct.
        construct_id: Id in the scope.
        name: Its name; CloudFormation makes one by default.
        retention: How long events are kept.
        encryption_key: Key of the events, which CloudWatch Logs then may use for log groups of this account and
            Region; None for CloudWatch's own.
        without_key: Why it may have no key of its own.
    """
    if encryption_key is not None:
        encrypt_logs(scope, encryption_key)
    made = logs.LogGroup(
        scope,
        construct_id,
        log_group_name=name,
        retention=retention,
        encryption_key=encryption_key,
        removal_policy=cdk.RemovalPolicy.DESTROY,
    )
    if encryption_key is None:
        without_key.at(made)
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


def logging_statements(scope: Construct, log_group: logs.ILogGroup, *, runs_jobs: bool = False) -> list[dict[str, Any]]:
    """What lets a node write its own streams in a log group, and take slots.

    Args:
        scope: Construct of the nodes.
        log_group: Their log group.
        runs_jobs: Whether users start jobs on the nodes by the log group.
    """
    own = (*_OWN_STREAMS, *((_OWN_JOBS,) if runs_jobs else ()))
    reads = [allow(_streams(scope, log_group, [_FILES])[0], "logs:GetLogEvents")] if runs_jobs else []
    return [
        allow(_streams(scope, log_group, own), "logs:CreateLogStream", "logs:PutLogEvents"),
        allow(_streams(scope, log_group, _SLOTS), "logs:CreateLogStream"),
        allow(log_group.log_group_arn, "logs:DescribeLogStreams"),
        *reads,
    ]


def accept_records(
    policy: IConstruct, log_group: logs.ILogGroup, evidence: NodeEvidence | None, *, runs_jobs: bool = False
) -> None:
    """Accept what policy packs find in the statements on logs and evidence.

    Args:
        policy: The policy, or a construct above it.
        log_group: Log group of the nodes.
        evidence: Where they leave evidence, if anywhere.
        runs_jobs: Whether users start jobs on the nodes by the log group.
    """
    # The group is resolved once: each message to CDK costs time.
    group = named_resource(policy, _group_arn(policy, log_group))
    jobs = (_OWN_JOBS, _FILES) if runs_jobs else ()
    names = (name.replace("${", "<").replace("}", ">") for name in (*_OWN_STREAMS, *_SLOTS, *jobs))
    _LOG_STREAMS.at(policy, *(f"{group}:log-stream:{name}" for name in names))
    if evidence is not None:
        evidence.accept_at(policy)


def _streams(scope: IConstruct, log_group: logs.ILogGroup, names: Sequence[str]) -> list[str]:
    return [f"{_group_arn(scope, log_group)}:log-stream:{name}" for name in names]


def _group_arn(scope: IConstruct, log_group: logs.ILogGroup) -> str:
    return arn_of(scope, "logs", f"log-group:{log_group.log_group_name}")


_BUNDLES = AcceptedFinding(
    cause="`GpuFleet(evidence_bucket=...)`: policy of the nodes",
    reason="A node names its bundle by its instance and the time, below the fleet's own prefix.",
    aws_solutions=("IAM5",),
)


class NodeEvidence:
    """The fleet's own place in a bucket: each node writes below its own name there, and none reads."""

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
        # The address comes first: a pattern that began with any id would end in folders of other nodes, too.
        return self._bucket.arn_for_objects(f"{self._keys}/{_ADDRESS}/*")


def evidence_of(scope: Construct, options: NodeSoftwareProps) -> NodeEvidence | None:
    """Where the nodes of a fleet leave evidence; None if its options name no bucket.

    Args:
        scope: The fleet.
        options: Its options.
    """
    bucket = options.get("evidence_bucket")
    return None if bucket is None else NodeEvidence(scope, bucket, options.get("evidence_prefix", EVIDENCE_PREFIX))
