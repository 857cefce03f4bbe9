"""`gpu-clusters report`: one page about a cluster file, to open in a browser or to print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import files, output
from .group import examples, new_app
from .output import ClusterFile, read

app = new_app()


@app.command(epilog=examples("gpu-clusters report cluster.yaml -o report.html"))
def report(
    file: ClusterFile,
    page: Annotated[Path, typer.Option("--output", "-o", help="Page to write; - for standard output.")] = Path(
        "report.html"
    ),
    force: files.Force = False,
) -> None:
    """Draw a cluster file: topology, nodes with GPUs and network cards, cost, addresses and checks, on one page.

    The page needs nothing else: no network, no script.
    """
    from cdk_gpu_clusters_stacks.plan import plan_cluster
    from cdk_gpu_clusters_stacks.report_page import report_html

    cluster = read(file)
    if page.exists() and file.exists() and page.samefile(file):
        output.refuse(f"{page} is the cluster file; give another --output")
    text = report_html(plan_cluster(cluster))
    if str(page) == output.STREAM:
        output.write(text)
        return
    files.write_page(page, text, force=force)
    output.write(f"wrote {page} ({len(text.encode()) / 1000:.0f} kB)\n")
