"""`gpu-clusters dashboard`: the dashboard of a cluster file for Grafana, as a file to import."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from . import files, output
from .group import examples, new_app
from .output import ClusterFile, read

app = new_app()


@app.command(
    epilog=examples(
        "gpu-clusters dashboard cluster.yaml -o grafana.json",
        then="Exit status: 0; 2 for a file that cannot be used or written, or a cluster that is not scraped.",
    )
)
def dashboard(
    file: ClusterFile,
    page: Annotated[Path, typer.Option("--output", "-o", help="File to write; - for standard output.")] = Path(
        "grafana.json"
    ),
    force: files.Force = False,
) -> None:
    """Write a dashboard for Grafana: what Prometheus scrapes from the cluster of a cluster file.

    Import the file in Grafana. It shows what `monitoring.metrics` lets a collector scrape.
    """
    from cdk_gpu_clusters.observability.grafana_dashboard import grafana_dashboard
    from cdk_gpu_clusters_stacks.plan import scraped_rows
    from cdk_gpu_clusters_stacks.spec.model import ORCHESTRATORS

    cluster = read(file)
    if page.exists() and file.exists() and page.samefile(file):
        output.refuse(f"{page} is the cluster file; give another --output")
    if cluster.slurm_section is cluster.parallelcluster:
        output.refuse(
            f"{file}: no collector reads nodes of AWS ParallelCluster, which shows them in a dashboard itself"
        )
    rows = scraped_rows(cluster)
    if not rows and ORCHESTRATORS[cluster.orchestrator].joins_hyperpod:
        output.refuse(f"{file}: no collector scrapes nodes of HyperPod; use the observability of SageMaker HyperPod")
    if not rows:
        output.refuse(f"{file}: nothing is scraped for Prometheus; add `monitoring: {{metrics: {{}}}}`")
    model = grafana_dashboard(rows, title=cluster.name, uid=cluster.name)
    text = json.dumps(model, indent=2) + "\n"
    if str(page) == output.STREAM:
        output.write(text)
        return
    files.write_new(page, text, force=force)
    output.write(f"wrote {page}\n")
