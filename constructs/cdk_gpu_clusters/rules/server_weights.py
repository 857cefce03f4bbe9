"""Whether the local disks on which model weights are to lie are there, and hold them."""

from __future__ import annotations

from cdk_gpu_clusters.errors import Finding, Severity, define_rule

WEIGHTS_ON_SCRATCH = define_rule(
    "GPU-INF-023",
    "weights lie on local disks only where the nodes have some, scratch is on, and they are copied there at boot",
    source="EC2 DescribeInstanceTypes, instance storage; EC2 user guide, instance store: empty when an instance starts",
)


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
