"""Whether the local disks on which model weights are to lie are there, and hold them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import PurePosixPath

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.errors import Finding, Severity, define_rule

WEIGHTS_ON_SCRATCH = define_rule(
    "GPU-INF-023",
    "weights lie on local disks only where the nodes have some, scratch is on, and they are copied there at boot",
    source="EC2 DescribeInstanceTypes, instance storage; EC2 user guide, instance store: empty when an instance starts",
)


def plan_scratch(
    path: str | None,
    instance_type: InstanceType,
    *,
    scratch: str,
    wish: bool | None,
    mount_points: Collection[str],
    copied: bool,
) -> tuple[bool, list[Finding]]:
    """Whether the local disks of a node become one file system, and what is wrong with weights that lie on it.

    A server sees nothing of them but its weights. So they are left alone if no weights lie there: a node then needs
    no disk tools to boot.

    Args:
        path: Folder of the weights, None for none.
        instance_type: Type of the nodes.
        scratch: Where the local disks are mounted.
        wish: What the user says, None to follow the weights.
        mount_points: Where other file systems are mounted.
        copied: Whether the weights are copied at boot.

    Example:
        >>> from cdk_gpu_clusters.catalogue import instance_type
        >>> plan_scratch(
        ...     "/scratch/llama", instance_type("g6e.48xlarge"), scratch="/scratch", wish=None, mount_points=(),
        ...     copied=True,
        ... )
        (True, [])
    """
    if path is None or not _is_inside(path, [scratch]) or _is_inside(path, mount_points):
        return bool(wish), []
    return wish is not False, check_weights_on_scratch(
        path,
        instance_type=instance_type.name,
        has_local_disks=bool(instance_type.local_disks),
        scratch=wish is not False,
        copied=copied,
    )


def _is_inside(path: str, directories: Collection[str]) -> bool:
    return any(PurePosixPath(path).is_relative_to(directory) for directory in directories)


def check_weights_on_scratch(
    path: str, *, instance_type: str, has_local_disks: bool, scratch: bool, copied: bool
) -> list[Finding]:
    """Find weights on local disks that are not there, or that nothing fills.

    Args:
        path: Folder of the weights, below the mount point of the local disks.
        instance_type: Type of the nodes.
        has_local_disks: Whether the type has local disks.
        scratch: Whether they become one file system.
        copied: Whether the weights are copied at boot.

    Example:
        >>> found = check_weights_on_scratch(
        ...     "/scratch/llama", instance_type="inf2.48xlarge", has_local_disks=False, scratch=True, copied=True
        ... )
        >>> [finding.id for finding in found]
        ['GPU-INF-023']
    """
    if not has_local_disks:
        return [
            WEIGHTS_ON_SCRATCH.finding(
                cause="the type has no local disks to hold the weights",
                got=f"{path} on {instance_type}",
                allowed="a folder of the root volume or of a mounted file system",
                fix="leave path out, and give a root_volume that holds the model; or choose a type with local disks",
            )
        ]
    if not scratch:
        return [
            WEIGHTS_ON_SCRATCH.finding(
                cause="the weights are to lie on the local disks, which are left alone",
                got=f"{path} with scratch=False",
                allowed="scratch=True, or another folder",
                fix="leave scratch out",
            )
        ]
    if copied:
        return []
    return [
        WEIGHTS_ON_SCRATCH.finding(
            cause="the local disks are empty when a node starts, and nothing copies the weights there",
            got=f'ModelWeights.from_path("{path}")',
            allowed="ModelWeights.from_bucket, or a service of your own image that fills the folder",
            fix=f'use ModelWeights.from_bucket(bucket, prefix, path="{path}")',
            severity=Severity.WARNING,
        )
    ]
