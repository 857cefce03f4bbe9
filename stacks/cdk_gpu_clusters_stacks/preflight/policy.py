"""The IAM policy that preflight needs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cdk_gpu_clusters_stacks.spec import ClusterSpec

from .call import CALLER
from .check import Check
from .cluster import Cluster
from .registry import every_check

Json = dict[str, Any]


def actions_for(spec: ClusterSpec, checks: Iterable[Check[Any]] | None = None) -> tuple[str, ...]:
    """The IAM actions that the checks of a cluster file need, sorted.

    Args:
        spec: The cluster file; what is not applicable to it needs nothing.
        checks: The checks; all of them by default.
    """
    cluster = Cluster.of(spec)
    calls = {
        call
        for check in (every_check() if checks is None else checks)
        if check.subjects(cluster)
        for call in check.calls
        if call not in check.unneeded(cluster)
    }
    return tuple(sorted({action for call in {CALLER, *calls} for action in call.actions}))


def policy_for(spec: ClusterSpec, checks: Iterable[Check[Any]] | None = None) -> Json:
    """The smallest IAM policy with which every check of a cluster file gets its answers.

    All actions only read. The resource is `*`: most of them know no other, and what the others ask for is in the file.
    A key or a bucket of another account has to let the caller in by a policy of its own, too.
    """
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "GpuClustersPreflight",
                "Effect": "Allow",
                "Action": list(actions_for(spec, checks)),
                "Resource": "*",
            }
        ],
    }
