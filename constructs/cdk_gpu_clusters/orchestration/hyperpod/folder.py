"""A folder of files in the bucket of the stack's assets, which HyperPod copies to its nodes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import aws_cdk as cdk
from constructs import Construct

from cdk_gpu_clusters._cdk import ClusterConstruct, partition_of, path_of, report, stack_of
from cdk_gpu_clusters.compute.node_asset import NO_ASSETS

_FOLDERS = "hyperpod-"


def log_group_prefix(cluster_name: str) -> str:
    """How the names of all log groups of a cluster's nodes begin.

    Args:
        cluster_name: Name that no other cluster has, known at synthesis.
    """
    return f"/gpu-clusters/hyperpod/{cluster_name}/"


class LifecycleFolder(ClusterConstruct):
    """Files of one folder in the bucket of the stack's assets, below a folder of the cluster.

    The folder's name follows from the digest of all its files: the same files are one folder, and others are another.

    Attributes:
        uri: `s3://` address of the folder, known at deployment.
        bucket_arn: ARN of the bucket, known at deployment.
        parent: How the keys of all folders of the cluster begin.
    """

    def __init__(self, scope: Construct, construct_id: str, *, cluster_name: str, files: Mapping[str, bytes]) -> None:
        """Define the folder.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            cluster_name: Name of the cluster, as for `log_group_prefix`.
            files: The files by name; a name has an extension.

        Raises:
            ConfigError: GPU-UD-007.
        """
        super().__init__(scope, construct_id)
        digest = hashlib.sha256()
        for name, content in sorted(files.items()):
            digest.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
        bucket, keys = self._upload(f"{_FOLDERS}{cluster_name}/{digest.hexdigest()}", files)
        folder = keys[0].rpartition("/")[0]
        self.uri: str = f"s3://{bucket}/{folder}"
        self.bucket_arn: str = f"arn:{partition_of(stack_of(self))}:s3:::{bucket}"
        self.parent: str = f"{folder.rpartition('/')[0]}/"

    def _upload(self, folder: str, files: Mapping[str, bytes]) -> tuple[str, list[str]]:
        """The bucket, and the keys of the files: the folder is the beginning of their source hash."""
        stage, stack = cdk.Stage.of(self), stack_of(self)
        assert stage is not None  # noqa: S101 - every stack has one, an App at least
        keys, bucket = [], ""
        for name, content in sorted(files.items()):
            file = Path(stage.asset_outdir, f"{folder.rpartition('/')[2]}.{name}")
            if not file.exists():
                file.write_bytes(content)
            try:
                location = stack.synthesizer.add_file_asset(
                    source_hash=f"{folder}/{name.rpartition('.')[0]}",
                    file_name=os.path.relpath(file, stage.outdir),
                    packaging=cdk.FileAssetPackaging.FILE,
                    display_name=f"{path_of(self)}/{name}",
                )
            except RuntimeError as error:  # what jsii makes of a refusal
                finding = NO_ASSETS.finding(
                    cause=str(error).splitlines()[0],
                    got=f"{len(content):,} bytes for S3",
                    fix="give the stack the DefaultStackSynthesizer and bootstrap its account",
                )
                report(self, [finding])
                raise  # not reached: the finding is an error
            bucket = location.bucket_name
            keys.append(location.object_key)
        return bucket, keys
