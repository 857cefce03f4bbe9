"""`gpu-clusters manifests`: what a cluster file makes inside Kubernetes, as files to read and to apply."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import files as written_files
from . import output
from .group import examples, new_app
from .output import ClusterFile, read

app = new_app()


@app.command(
    epilog=examples(
        "gpu-clusters manifests cluster.yaml -o manifests && sh manifests/install.sh",
        then="Exit status: 0; 1 if a file that you changed cannot be merged; 2 for a file that cannot be used or "
        "written.",
    )
)
def manifests(
    file: ClusterFile,
    folder: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder to write; its other files stay.")
    ] = Path("manifests"),
    force: written_files.Force = False,
    json: output.Json = False,
) -> None:
    """Write values of charts, queues, volumes, and jobs and model servers for every fleet of a cluster on EKS.

    On HyperPod with Amazon EKS these are the volumes alone.

    Nothing is looked up in an account, and nothing is applied: `install.sh` does that, and asks CloudFormation for the
    file systems that the cluster file makes. Jobs are written for you to start. A second run keeps what you changed.
    """
    from cdk_gpu_clusters_stacks.manifests import cluster_manifests

    if str(folder) == output.STREAM:
        output.refuse("manifests: these are several files: give a folder, or --json")
    cluster = read(file, as_json=json)
    if cluster.orchestrator not in ("eks", "hyperpod-eks"):
        output.refuse(f"{file}: orchestrator is {cluster.orchestrator}; only eks and hyperpod-eks have manifests")
    files = cluster_manifests(cluster)
    if json:
        output.write_json(files)
        return
    made = written_files.write_folder(folder, files, force=force)
    written_files.tell(folder, made)
    if made.conflicts:
        output.leave(1)
