"""Files of nodes in S3, as an asset of the app, and the user data that fetches them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding, named_resource
from cdk_gpu_clusters._cdk import ClusterConstruct, cached_per_construct, partition_of, path_of, report, stack_of
from cdk_gpu_clusters._template import allow
from cdk_gpu_clusters.errors import define_rule
from cdk_gpu_clusters.fleet.node import NodeRequest, node_settings
from cdk_gpu_clusters.fleet.plan import FleetPlan
from cdk_gpu_clusters.node.settings import check_settings
from cdk_gpu_clusters.node.software import NodeFile, SoftwareObject, software_archive
from cdk_gpu_clusters.node.user_data import render_user_data

NO_ASSETS = define_rule(
    "GPU-UD-007",
    "A stack whose nodes get files from S3 can carry assets",
    source="AWS CDK: assets go to the bucket that `cdk bootstrap` makes; some stack synthesizers take none",
)

# End of the objects' names. All assets of the account are in one bucket: nodes that read what their software was at
# earlier deployments read objects with this end alone, and those with files of their own have an end of their own.
_EXTENSION = ".gpunode"
# CDK names an object by a digest of the digest that it is told.
_DIGEST = re.compile(r"[0-9a-f]{64}")
_EARLIER = AcceptedFinding(
    cause="`EksGpuNodeGroup`: policy of nodes that keep their launch template",
    reason="The template names the software of the deployment that made it by a digest that later ones do not know; "
    "the end of the name limits nodes to such software.",
    aws_solutions=("IAM5",),
)


class NodeAsset(ClusterConstruct):
    """One object in the bucket of the stack's assets, and a policy to read it, and nothing else there.

    The object's key follows from the digest of its bytes: the same bytes are one object in all stacks and at every
    synthesis, and other bytes are another object.

    The key that `cdk bootstrap --bootstrap-customer-key` makes lets all principals of the account read through S3.
    Where the bucket has another key, let the role decrypt with it (`key.grant_decrypt(role)`).

    Example:
        >>> asset = NodeAsset(stack, "Agent", content=b"...", file_extension=".tar")
        >>> asset.sha256[:8]
        'ab5df625'

    Attributes:
        sha256: Digest of the bytes, in hex.
        bucket_name: Bucket of the object, known at deployment.
        object_key: Key of the object.
        read_statements: What lets a role read it, as statements of a policy.
    """

    def __init__(self, scope: Construct, construct_id: str, *, content: bytes, file_extension: str) -> None:
        """Define the object.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            content: The bytes.
            file_extension: End of its name, such as `.tar`.

        Raises:
            ConfigError: GPU-UD-007.
        """
        super().__init__(scope, construct_id)
        self.sha256: str = hashlib.sha256(content).hexdigest()
        asset = self._asset(content, file_extension)
        self.bucket_name: str = asset.s3_bucket_name
        self.object_key: str = asset.s3_object_key
        place = f"arn:{partition_of(stack_of(self))}:s3:::{self.bucket_name}/{self.object_key}"
        self.read_statements: list[dict[str, Any]] = [allow(place, "s3:GetObject")]
        key = asset.bucket.encryption_key
        if key is not None:  # only where the stack's synthesizer names one
            self.read_statements.append(allow(key.key_arn, "kms:Decrypt"))

    @cached_property
    def read_policy(self) -> iam.ManagedPolicy:
        """Lets a role read it that takes the policy (`read_policy.attach_to_role(role)`)."""
        document = iam.PolicyDocument.from_json({"Statement": self.read_statements})
        return iam.ManagedPolicy(self, "Read", document=document)

    @cached_property
    def policy_arn(self) -> str:
        """ARN of the policy; a token."""
        return self.read_policy.managed_policy_arn

    def allow_earlier(self, scope: Construct, role: iam.IRole, *, access: Construct | None = None) -> iam.ManagedPolicy:
        """Let nodes read what this object was at earlier deployments: those whose launch template still names it.

        They read software of nodes without files of their own, and their own, and no other asset.

        Args:
            scope: The nodes' construct.
            role: Their role.
            access: Construct below which the policy is; that of the nodes if left out.
        """
        prefix = _DIGEST.split(self.object_key)[0]
        ends = (_EXTENSION, _own_extension(scope))
        bucket = f"arn:{partition_of(stack_of(self))}:s3:::{self.bucket_name}"
        places = [f"{bucket}/{prefix}*{end}" for end in ends]
        statement = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": places}
        document = iam.PolicyDocument.from_json({"Statement": [statement]})
        policy = iam.ManagedPolicy(access or scope, "EarlierSoftware", roles=[role], document=document)
        _EARLIER.at(policy, *(named_resource(policy, place) for place in places))
        return policy

    def _asset(self, content: bytes, file_extension: str) -> s3_assets.Asset:
        stage = cdk.Stage.of(self)
        assert stage is not None  # noqa: S101 - every stack has one, an App at least
        # In the assembly, where it is also found if the CLI is told not to stage assets.
        file = Path(stage.asset_outdir, f"{self.sha256}{file_extension}")
        if not file.exists():
            file.write_bytes(content)
        try:
            return s3_assets.Asset(self, "Object", path=str(file), asset_hash=self.sha256, display_name=path_of(self))
        except RuntimeError as error:  # what jsii makes of a refusal
            finding = NO_ASSETS.finding(
                cause=str(error).splitlines()[0],
                got=f"{len(content):,} bytes for S3",
                fix="give the stack the DefaultStackSynthesizer and bootstrap its account, or the "
                "CliCredentialsStackSynthesizer with the file_assets_bucket_name of a bucket of yours",
            )
            report(self, [finding])
            raise  # not reached: the finding is an error


@cached_per_construct
def node_software(stack: cdk.Stack) -> NodeAsset:
    """The software of every node that has no files of its own: one object for all fleets, one construct for a stack."""
    return NodeAsset(stack, "GpuNodeSoftware", content=software_archive(), file_extension=_EXTENSION)


def write_node(scope: Construct, plan: FleetPlan, node: NodeRequest) -> tuple[str, NodeAsset]:
    """Write the user data of nodes; the files that can wait for the network are the asset beside it.

    Args:
        scope: Their construct.
        plan: What was decided about their fleet.
        node: What is requested of them.

    Raises:
        ConfigError: GPU-UD-003 and -005 to -008, GPU-MNT-001 to -003.
    """
    settings = node_settings(plan, node)
    report(scope, check_settings(settings))
    asset = _asset(scope, node.files)
    place = SoftwareObject(bucket_name=asset.bucket_name, object_key=asset.object_key, sha256=asset.sha256)
    return render_user_data(settings, place), asset


def _asset(scope: Construct, files: Sequence[NodeFile]) -> NodeAsset:
    if all(file.early for file in files):
        return node_software(stack_of(scope))
    return NodeAsset(scope, "Software", content=software_archive(files), file_extension=_own_extension(scope))


def _own_extension(scope: Construct) -> str:
    return f"{_EXTENSION}-{hashlib.sha256(path_of(scope).encode()).hexdigest()[:16]}"
