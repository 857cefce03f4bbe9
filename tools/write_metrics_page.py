"""Write the table of metrics into docs/metrics.md, or check that it is current.

    python tools/write_metrics_page.py            write it
    python tools/write_metrics_page.py --check    exit 1 if it is not current

The table is made from what the node software sends and the constructs read (`gpunode/metrics/names.py`).
"""

from __future__ import annotations

from _pages import ROOT, cell, write_or_check
from cdk_gpu_clusters.node.gpunode.metrics.names import METRICS

PAGE = ROOT / "docs" / "metrics.md"
START = "<!-- Written by tools/write_metrics_page.py from here; do not edit. -->\n"
END = "<!-- Written by tools/write_metrics_page.py to here. -->\n"


def table() -> str:
    """The metrics, as a table."""
    lines = ["| Metric | Unit | A value for each | Meaning | Read from |", "| --- | --- | --- | --- | --- |"]
    lines += [
        f"| `{metric.name}` | {metric.unit} | {metric.per} | {cell(metric.meaning)} | {cell(metric.source)} |"
        for metric in METRICS
    ]
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page with the table as it is now."""
    before, rest = PAGE.read_text(encoding="utf-8").split(START)
    after = rest.partition(END)[2]
    return f"{before}{START}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    raise SystemExit(write_or_check(__doc__, PAGE, page()))
