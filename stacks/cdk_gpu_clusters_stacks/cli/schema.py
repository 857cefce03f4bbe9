"""`gpu-clusters schema`: the JSON Schema of the cluster file, for editors."""

from __future__ import annotations

from importlib.resources import files

from . import output
from .group import new_app

app = new_app()


@app.command(
    epilog="Example: gpu-clusters schema > cluster.schema.json, and in the first line of cluster.yaml:\n\n"
    "# yaml-language-server: $schema=cluster.schema.json"
)
def schema() -> None:
    """Print the JSON Schema of the cluster file, version 1."""
    output.write(files("cdk_gpu_clusters_stacks.spec").joinpath("cluster.schema.json").read_text("utf-8"))
