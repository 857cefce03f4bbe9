"""`gpu-clusters plan`: what a cluster file makes, and what it costs, before anything is made."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cdk_gpu_clusters_stacks import terminal

from . import output
from .group import examples, new_app
from .output import ClusterFile, read

app = new_app()


@app.command(
    epilog=examples(
        "gpu-clusters plan cluster.yaml",
        "gpu-clusters plan cluster.yaml --against deployed.yaml",
        then="Exit status: 0, or 1 if --against finds a change that would replace a store; 2 for a file that cannot be "
        "used.",
    )
)
def plan(
    file: ClusterFile,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="DEPLOYED_FILE",
            help="The cluster file as it was deployed: say also what deploying CLUSTER_FILE changes.",
        ),
    ] = None,
    json: output.Json = False,
) -> None:
    """Show what a cluster file makes: nodes, network cards, addresses, capacity, MIG slices, stores, boot and cost.

    Nothing is looked up in an account. What no source knows is printed as unknown, with the reason.
    """
    from cdk_gpu_clusters_stacks.plan import compare_clusters, plan_cluster
    from cdk_gpu_clusters_stacks.plan.text import plan_text
    from cdk_gpu_clusters_stacks.plan.text_changes import comparison_text

    wanted = read(file, as_json=json)
    made = plan_cluster(wanted)
    compared = None if against is None else compare_clusters(read(against, as_json=json), wanted)
    if json:
        document: dict[str, Any] = output.as_json(made)
        output.write_document(document if compared is None else {**document, "against": output.as_json(compared)})
    else:
        output.write_headed(plan_text(made, width=terminal.text_width()))
        if compared is not None:
            output.write_headed("\n" + comparison_text(compared, width=terminal.text_width()))
    if compared is not None and compared.refused:
        output.leave(1)
