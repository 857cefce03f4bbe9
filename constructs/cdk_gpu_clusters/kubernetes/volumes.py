"""Existing storage as volumes that pods mount: FSx for Lustre, NFS, and a bucket of Amazon S3.

Sources: kubernetes-sigs/aws-fsx-csi-driver @ 5b22712 (v1.9.0), examples/kubernetes/static_provisioning and
pkg/driver/node.go; awslabs/mountpoint-s3-csi-driver, docs/CONFIGURATION.md, "Static Provisioning" (read 2026-11-22);
Kubernetes documentation, "Persistent Volumes", type nfs, which kubelet mounts itself: the AMIs of EKS have `mount.nfs`
(awslabs/amazon-eks-ami @ 0030ac5, templates/al2023/provisioners/install-worker.sh).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Any

from cdk_gpu_clusters.errors import Finding, check, define_rule, raise_for
from cdk_gpu_clusters.kubernetes.node_pool import LustreVolume, NfsVolume, NodePool, SharedVolume
from cdk_gpu_clusters.kubernetes.objects import DEFAULT_NAMESPACE, KubernetesObject, check_name, kubernetes_object
from cdk_gpu_clusters.rules.model_servers import check_weights

_LUSTRE_DRIVER = "fsx.csi.aws.com"
#: As the nodes mount them; FSx for Lustre user guide, "Mounting from an Amazon EC2 instance" (stored copy of 2026).
_OPTIONS = ("relatime", "flock")
#: The smallest file system that FSx makes. Kubernetes compares claim and volume by it, and nothing else.
_UNKNOWN_CAPACITY_GIB = 1200

SUB_PATH = define_rule(
    "GPU-K8S-012",
    "a sub path of a volume is relative, and stays inside",
    source='Kubernetes documentation, "Volumes": subPath may hold no ".." and no absolute path',
)


def lustre_volume(volume: LustreVolume, *, namespace: str = DEFAULT_NAMESPACE) -> list[KubernetesObject]:
    """The PersistentVolume and the claim of a file system, for the pods of a namespace.

    The data stay when both are deleted: the volume is retained, and the driver never deletes what it did not make.

    Args:
        volume: The file system.
        namespace: Namespace of the pods; each has a volume of its own.

    Raises:
        ConfigError: GPU-K8S-001.

    Example:
        >>> store = LustreVolume(
        ...     name="corpus", file_system_id="fs-0123456789abcdef0", mount_name="abcdefgh",
        ...     dns_name="fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com",
        ... )
        >>> [one["metadata"]["name"] for one in lustre_volume(store)]
        ['default-corpus', 'corpus']
    """
    return _bound(
        _volume_name(volume.name, namespace),
        volume.name,
        namespace,
        size=f"{volume.storage_capacity_gib or _UNKNOWN_CAPACITY_GIB}Gi",
        access_mode="ReadWriteMany",
        volume_mode={"volumeMode": "Filesystem"},
        options=list(_OPTIONS),
        source={
            "csi": {
                "driver": _LUSTRE_DRIVER,
                "volumeHandle": volume.file_system_id,
                "volumeAttributes": {"dnsname": volume.dns_name, "mountname": volume.mount_name},
            }
        },
    )


def nfs_volume(volume: NfsVolume, *, namespace: str = DEFAULT_NAMESPACE) -> list[KubernetesObject]:
    """The PersistentVolume and the claim of an NFS file system, for the pods of a namespace. It needs no driver.

    The data stay when both are deleted: the volume is retained.

    Args:
        volume: The file system.
        namespace: Namespace of the pods; each has a volume of its own.

    Raises:
        ConfigError: GPU-K8S-001.

    Example:
        >>> homes = NfsVolume(name="homes", dns_name="fs-0.fsx.us-east-1.amazonaws.com", export_path="/fsx")
        >>> nfs_volume(homes)[0]["spec"]["nfs"]
        {'server': 'fs-0.fsx.us-east-1.amazonaws.com', 'path': '/fsx'}
    """
    return _bound(
        _volume_name(volume.name, namespace),
        volume.name,
        namespace,
        # Kubernetes compares claim and volume by it, and nothing else; an elastic file system has no size.
        size=f"{volume.storage_capacity_gib or 1}Gi",
        access_mode="ReadWriteMany",
        volume_mode={"volumeMode": "Filesystem"},
        options=volume.options.split(","),
        source={"nfs": {"server": volume.dns_name, "path": volume.export_path}},
    )


def shared_volume(volume: SharedVolume, *, namespace: str = DEFAULT_NAMESPACE) -> list[KubernetesObject]:
    """The PersistentVolume and the claim of a file system of either kind.

    Args:
        volume: The file system.
        namespace: Namespace of the pods.

    Raises:
        ConfigError: GPU-K8S-001.
    """
    if isinstance(volume, NfsVolume):
        return nfs_volume(volume, namespace=namespace)
    return lustre_volume(volume, namespace=namespace)


def _volume_name(claim: str, namespace: str) -> str:
    name = f"{namespace}-{claim}"
    raise_for([*check_name(namespace, path="namespace"), *check_name(claim), *check_name(name)])
    return name


def _bound(
    name: str,
    claim: str,
    namespace: str,
    *,
    size: str,
    access_mode: str,
    volume_mode: dict[str, str],
    options: list[str],
    source: dict[str, Any],
) -> list[KubernetesObject]:
    """A volume of storage that exists, and the one claim that takes it."""
    volume = {
        "capacity": {"storage": size},
        **volume_mode,
        "accessModes": [access_mode],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "",
        # No other claim may take it.
        "claimRef": {"namespace": namespace, "name": claim},
        "mountOptions": options,
        **source,
    }
    taken = {
        "accessModes": [access_mode],
        # Empty: no class makes a new volume for it.
        "storageClassName": "",
        "volumeName": name,
        "resources": {"requests": {"storage": size}},
    }
    return [
        kubernetes_object("v1", "PersistentVolume", name, volume, namespace=None),
        kubernetes_object("v1", "PersistentVolumeClaim", claim, taken, namespace=namespace),
    ]


def volume_mount(
    volume: SharedVolume, mount_path: str, *, sub_path: str = "", read_only: bool = False
) -> dict[str, Any]:
    """How a container mounts a file system.

    Args:
        volume: The file system.
        mount_path: Where the container sees it.
        sub_path: Folder of the file system to mount; all of it if left out.
        read_only: Whether the container may only read, as it may in any case if the volume is read-only.

    Raises:
        ConfigError: GPU-K8S-012.

    Example:
        >>> store = LustreVolume(
        ...     name="corpus", file_system_id="fs-0123456789abcdef0", mount_name="abcdefgh",
        ...     dns_name="fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com",
        ... )
        >>> volume_mount(store, "/data", sub_path="llama", read_only=True)
        {'name': 'corpus', 'mountPath': '/data', 'subPath': 'llama', 'readOnly': True}
    """
    raise_for(check_sub_path(sub_path))
    mount: dict[str, Any] = {"name": volume.name, "mountPath": mount_path}
    if sub_path:
        mount["subPath"] = sub_path
    if read_only or volume.read_only:
        mount["readOnly"] = True
    return mount


def claimed(volumes: Iterable[SharedVolume]) -> list[dict[str, Any]]:
    """The volumes of a pod that mounts file systems, each once."""
    return [
        {"name": name, "persistentVolumeClaim": {"claimName": name}}
        for name in dict.fromkeys(volume.name for volume in volumes)
    ]


@check
def check_sub_path(sub_path: str, *, path: str = "sub_path") -> Iterator[Finding]:
    """Find a sub path that Kubernetes would refuse.

    Args:
        sub_path: The sub path; empty for none.
        path: Where it was given.

    Example:
        >>> [finding.id for finding in check_sub_path("../other")]
        ['GPU-K8S-012']
    """
    inside = not PurePosixPath(sub_path).is_absolute() and ".." not in PurePosixPath(sub_path).parts
    if not inside or not re.fullmatch(r"[\w./-]*", sub_path, re.ASCII):
        yield SUB_PATH.finding(
            cause="this is no folder inside the file system",
            got=repr(sub_path),
            allowed="a relative path, such as checkpoints/llama",
            fix="leave the leading slash and .. out",
            path=path,
        )


def store_of(pool: NodePool, folder: str) -> tuple[str, SharedVolume] | None:
    """The mount point and the file system that a folder of a pod lies on, None if it lies on none."""
    for point, volume in pool.mounts.items():
        if PurePosixPath(folder).is_relative_to(point):
            return point, volume
    return None


# A bucket, or a part of one, by Mountpoint for Amazon S3. The role of the add-on reads the bucket
# (`authenticationSource` driver, its default).

_S3_DRIVER = "s3.csi.aws.com"
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
    volume = _volume_name(name, namespace)
    raise_for(check_weights("/weights", s3_uri), path="s3_uri")
    bucket, _, prefix = s3_uri.removeprefix("s3://").partition("/")
    inside = [f"prefix {prefix.strip('/')}/"] if prefix.strip("/") else []
    return _bound(
        volume,
        name,
        namespace,
        size=_ANY_SIZE,
        access_mode="ReadOnlyMany",
        volume_mode={},
        options=["read-only", *inside],
        source={
            "csi": {
                "driver": _S3_DRIVER,
                "volumeHandle": volume,
                "volumeAttributes": {"bucketName": bucket},
            }
        },
    )
