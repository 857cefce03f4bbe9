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
        then="Exit status: 0; 2 for a file that cannot be used or written, or a cluster whose nodes serve no metrics.",
    )
)
def dashboard(
    file: ClusterFile,
    page: Annotated[Path, typer.Option("--output", "-o", help="File to write; - for standard output.")] = Path(
        "grafana.json"
    ),
    force: files.Force = False,
) -> None:
    """Write a dashboard for Grafana: what Prometheus scrapes from the fleets of a cluster file.

    Import the file in Grafana. A fleet is on it if `monitoring.metrics` lets its nodes serve their metrics.
    """
    from cdk_gpu_clusters.observability.exporter_panels import exporter_rows
    from cdk_gpu_clusters.observability.grafana_dashboard import grafana_dashboard
    from cdk_gpu_clusters.observability.panels import plan_prometheus_dashboard
    from cdk_gpu_clusters_stacks.plan import scraped_exporters, scraped_fleets

    cluster = read(file)
    if page.exists() and file.exists() and page.samefile(file):
        output.refuse(f"{page} is the cluster file; give another --output")
    fleets = scraped_fleets(cluster)
    if not fleets:
        output.refuse(
            f"{file}: no fleet serves metrics for Prometheus; add `monitoring: {{metrics: {{}}}}`, with "
            "`orchestrator: ec2` and a fleet whose `watch.mode` is not off"
        )
    rows = (*plan_prometheus_dashboard(fleets), *exporter_rows(scraped_exporters(cluster)))
    model = grafana_dashboard(rows, title=cluster.name, uid=cluster.name)
    text = json.dumps(model, indent=2) + "\n"
    if str(page) == output.STREAM:
        output.write(text)
        return
    files.write_new(page, text, force=force)
    output.write(f"wrote {page}\n")
