"""Kubernetes versions as EKS takes them: those of the catalogue, until their extended support ends.

Wording of the service: awslabs/aws-devops-essential issue 25, read 2026-11-22.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cdk_gpu_clusters.catalogue.kubernetes import kubernetes_versions

from ..faults import Fault

if TYPE_CHECKING:
    from ..world import World


def version_faults(version: str | None, world: World) -> Iterator[Fault]:
    """Faults of the version of a cluster; EKS chooses one where none is given."""
    today = world.clock.now().date()
    offered = [
        row.version
        for row in kubernetes_versions()
        if row.extended_support_ends is None or today < row.extended_support_ends
    ]
    if version is not None and version not in offered:
        message = f"unsupported Kubernetes version {version!r}; offered: {', '.join(offered)}"
        yield Fault(check="kubernetes-version", message=message, path="Version")


def minor_of(version: str) -> int:
    """The minor number of a version, such as 35; 0 for none."""
    return int(version.partition(".")[2] or 0)
