"""The cluster file that a command is given: read, or refused with all its faults."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import output

if TYPE_CHECKING:
    from cdk_gpu_clusters_stacks.spec import ClusterSpec

#: The argument of every command over a cluster file.
ClusterFile = Annotated[
    Path, typer.Argument(metavar="CLUSTER_FILE", help="Cluster file, such as cluster.yaml.")
]


def read(path: Path) -> ClusterSpec:
    """Read a cluster file; print its findings on standard error, and leave with 2 if one is an error."""
    from cdk_gpu_clusters_stacks.spec import read_cluster, report

    reading = read_cluster(path)
    report(reading.findings)
    if reading.spec is None:
        output.leave(2)
    return reading.spec
