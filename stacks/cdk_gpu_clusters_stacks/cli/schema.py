"""`gpu-clusters schema`: the JSON Schema of the cluster file, for editors."""

from __future__ import annotations

from importlib.resources import files

from . import output
from .group import examples, new_app

app = new_app()


@app.command(
    epilog=examples(
        "gpu-clusters schema > cluster.schema.json",
        then="Editors find it by the first line of cluster.yaml: # yaml-language-server: $schema=cluster.schema.json",
    )
)
def schema() -> None:
    """Print the JSON Schema of the cluster file, version 1."""
    output.write(files("cdk_gpu_clusters_stacks.spec").joinpath("cluster.schema.json").read_text("utf-8"))
