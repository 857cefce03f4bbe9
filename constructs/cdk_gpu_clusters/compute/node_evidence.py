"""Where nodes that fail leave their evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from constructs import Construct, IConstruct

from cdk_gpu_clusters._accepted import AcceptedFinding, named_resource
from cdk_gpu_clusters._cdk import path_of
from cdk_gpu_clusters.compute.fleet_props import EVIDENCE_PREFIX, FleetProps

if TYPE_CHECKING:  # takes long to load
    from aws_cdk import aws_s3 as s3

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


def evidence_of(scope: Construct, options: FleetProps) -> NodeEvidence | None:
    """Where the nodes of a fleet leave evidence; None if its options name no bucket.

    Args:
        scope: The fleet.
        options: Its options.
    """
    bucket = options.get("evidence_bucket")
    return (
        None
        if bucket is None
        else NodeEvidence(scope, bucket, options.get("evidence_prefix", EVIDENCE_PREFIX))
    )
