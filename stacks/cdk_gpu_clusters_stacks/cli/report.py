"""`gpu-clusters report`: one page about a cluster file, to open in a browser or to print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import output
from .group import new_app
from .output import ClusterFile, read

app = new_app()


@app.command(epilog="Example: gpu-clusters report cluster.yaml -o report.html")
def report(
    file: ClusterFile,
    page: Annotated[Path, typer.Option("--output", "-o", help="Page to write.")] = Path("report.html"),
) -> None:
    """Draw a cluster file: topology, nodes with GPUs and network cards, cost, addresses and checks, on one page.

    The page needs nothing else: no network, no script.
    """
    from cdk_gpu_clusters_stacks.plan import plan_cluster
    from cdk_gpu_clusters_stacks.report_page import report_html

    text = report_html(plan_cluster(read(file)))
    try:
        page.write_text(text, encoding="utf-8")
    except OSError as fault:
        output.refuse(f"report: {fault}")
    output.write(f"wrote {page} ({len(text.encode()) / 1000:.0f} kB)\n")
