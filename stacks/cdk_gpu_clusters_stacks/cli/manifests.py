"""`gpu-clusters manifests`: what a cluster file makes inside Kubernetes, as files to read and to apply."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import output
from .group import new_app
from .output import ClusterFile, read

app = new_app()

_EXECUTABLE = 0o755


@app.command(
    epilog="Example: gpu-clusters manifests cluster.yaml -o manifests; sh manifests/install.sh\n\n"
    "Exit status: 0; 2 for a file that cannot be used, or files that cannot be written."
)
def manifests(
    file: ClusterFile,
    folder: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder to write; its other files stay.")
    ] = Path("manifests"),
    json: output.Json = False,
) -> None:
    """Write values of charts, queues, volumes, and jobs and model servers for every fleet of a cluster on EKS.

    Nothing is looked up in an account, and nothing is applied: `install.sh` does that, and asks CloudFormation for the
    file systems that the cluster file makes. Jobs are written for you to start.
    """
    from cdk_gpu_clusters_stacks.manifests import cluster_manifests

    cluster = read(file)
    if cluster.orchestrator != "eks":
        output.refuse(f"{file}: orchestrator is {cluster.orchestrator}; only a cluster on eks has manifests")
    files = cluster_manifests(cluster)
    if json:
        output.write_json(files)
        return
    try:
        for path, text in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
            if text.startswith("#!"):
                target.chmod(_EXECUTABLE)
    except OSError as fault:
        output.refuse(f"cannot write {fault.filename}: {fault.strerror}")
    output.write("".join(f"{folder / path}\n" for path in files))
