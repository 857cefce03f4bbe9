"""`gpu-clusters plan`: what a cluster file makes, and what it costs, before anything is made."""

from __future__ import annotations

from . import output
from .cluster_file import ClusterFile, read
from .group import new_app

app = new_app()


@app.command(
    epilog="Example: gpu-clusters plan cluster.yaml; gpu-clusters plan --json cluster.yaml > plan.json"
)
def plan(file: ClusterFile, json: output.Json = False) -> None:
    """Show what a cluster file makes: nodes, network cards, addresses, capacity, MIG slices, stores, boot and cost.

    Nothing is looked up in an account. What no source knows is printed as unknown, with the reason.
    """
    from cdk_gpu_clusters_stacks.plan import plan_cluster
    from cdk_gpu_clusters_stacks.plan.text import plan_text

    made = plan_cluster(read(file))
    if json:
        output.write_json(output.as_json(made))
    else:
        output.write_headed(plan_text(made, width=output.text_width()))
