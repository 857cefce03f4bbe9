"""Files of nodes in S3, as an asset of the app."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from cdk_gpu_clusters._cdk import report
from cdk_gpu_clusters.errors import define_rule

NO_ASSETS = define_rule(
    "GPU-UD-007",
    "A stack whose nodes get files from S3 can carry assets",
    source="AWS CDK: assets go to the bucket that `cdk bootstrap` makes; some stack synthesizers take none",
)


class NodeAsset(Construct):
    """One object in the bucket of `cdk bootstrap`, and the right of a role to read it, and nothing else there.

    The object is named by the digest of its bytes: the same bytes are one object in all stacks and at every synthesis,
    and other bytes are another object.

    Example:
        >>> asset = NodeAsset(stack, "Agent", content=b"...", file_extension=".tar", role=NodeRole(stack, "Role"))
        >>> asset.sha256[:8]
        'ab5df625'

    Attributes:
        sha256: Digest of the bytes, in hex.
        bucket_name: Bucket of the object, known at deployment.
        object_key: Key of the object.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        content: bytes,
        file_extension: str,
        role: iam.IRole,
    ) -> None:
        """Define the object.

        The key that `cdk bootstrap --bootstrap-customer-key` makes lets all principals of the account read through
        S3. Where the bucket has another key, let the role decrypt with it (`key.grant_decrypt(role)`).

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            content: The bytes.
            file_extension: End of its name, such as `.tar`.
            role: Who may read it.

        Raises:
            ConfigError: GPU-UD-007.
        """
        super().__init__(scope, construct_id)
        self.sha256: str = hashlib.sha256(content).hexdigest()
        location = self._publish(content, f"asset.{self.sha256}{file_extension}")
        self.bucket_name: str = location.bucket_name
        self.object_key: str = location.object_key
        arn = cdk.Stack.of(self).format_arn(
            service="s3", region="", account="", resource=self.bucket_name, resource_name=self.object_key
        )
        statements = [iam.PolicyStatement(actions=["s3:GetObject"], resources=[arn])]
        if location.kms_key_arn is not None:  # only where the stack's synthesizer was told a key
            statements.append(iam.PolicyStatement(actions=["kms:Decrypt"], resources=[location.kms_key_arn]))
        # Here and not under the role, which several fleets may share.
        iam.Policy(self, "Read", roles=[role], statements=statements)

    def _publish(self, content: bytes, name: str) -> cdk.FileAssetLocation:
        """Put the bytes into the cloud assembly; `cdk deploy` takes them to S3 before the stack."""
        stage = cdk.Stage.of(self)
        assert stage is not None  # noqa: S101 - every stack has one, `cdk.App` at least
        file = Path(stage.asset_outdir, name)
        file.write_bytes(content)
        try:
            return cdk.Stack.of(self).synthesizer.add_file_asset(
                source_hash=self.sha256,
                packaging=cdk.FileAssetPackaging.FILE,
                file_name=os.path.relpath(file, stage.outdir),
                display_name=self.node.path,
            )
        except RuntimeError as error:  # what jsii makes of a refusal
            finding = NO_ASSETS.finding(
                cause=str(error).splitlines()[0],
                got=f"{len(content):,} bytes for S3",
                fix="give the stack the DefaultStackSynthesizer and bootstrap its account, or keep the user data small "
                "enough for all files",
            )
            report(self, [finding])
            raise  # not reached: the finding is an error
