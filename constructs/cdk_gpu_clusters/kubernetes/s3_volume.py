"""A bucket, or a part of one, as a volume that pods read: Mountpoint for Amazon S3.

Source: awslabs/mountpoint-s3-csi-driver, docs/CONFIGURATION.md, "Static Provisioning" (read 2026-11-22). The role of
the add-on reads the bucket (`authenticationSource` driver, its default).
"""

from __future__ import annotations

from cdk_gpu_clusters.errors import raise_for
from cdk_gpu_clusters.kubernetes.objects import DEFAULT_NAMESPACE, KubernetesObject, check_name, metadata
from cdk_gpu_clusters.rules.model_servers import check_weights

_DRIVER = "s3.csi.aws.com"
#: The driver ignores it, and Kubernetes demands it.
_ANY_SIZE = "1Gi"


def s3_volume(name: str, s3_uri: str, *, namespace: str = DEFAULT_NAMESPACE) -> list[KubernetesObject]:
    """The PersistentVolume and the claim of a bucket that pods only read.

    Args:
        name: Name of the claim.
        s3_uri: `s3://bucket/prefix`.
        namespace: Namespace of the pods.

    Raises:
        ConfigError: GPU-K8S-001, GPU-INF-011.

    Example:
        >>> volume, claim = s3_volume("chat-weights", "s3://my-models/llama")
        >>> volume["spec"]["mountOptions"]
        ['read-only', 'prefix llama/']
    """
    volume = f"{namespace}-{name}"
    raise_for([*check_name(namespace, path="namespace"), *check_name(name), *check_name(volume)])
    raise_for(check_weights("/weights", s3_uri), path="s3_uri")
    bucket, _, prefix = s3_uri.removeprefix("s3://").partition("/")
    inside = [f"prefix {prefix.strip('/')}/"] if prefix.strip("/") else []
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": metadata(volume, namespace=None),
            "spec": {
                "capacity": {"storage": _ANY_SIZE},
                "accessModes": ["ReadOnlyMany"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "",
                "claimRef": {"namespace": namespace, "name": name},
                "mountOptions": ["read-only", *inside],
                "csi": {
                    "driver": _DRIVER,
                    "volumeHandle": volume,
                    "volumeAttributes": {"bucketName": bucket},
                },
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": metadata(name, namespace=namespace),
            "spec": {
                "accessModes": ["ReadOnlyMany"],
                "storageClassName": "",
                "volumeName": volume,
                "resources": {"requests": {"storage": _ANY_SIZE}},
            },
        },
    ]
