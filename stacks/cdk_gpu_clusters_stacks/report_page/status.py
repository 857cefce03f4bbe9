"""The state of a live cluster as one page."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from cdk_gpu_clusters_stacks.status import Status
from cdk_gpu_clusters_stacks.status.text import sections_of, severity_name, summary

from .page import card, document, table


def status_html(status: Status) -> str:
    """The state of a cluster, as one HTML page that needs no network and no script.

    Args:
        status: The state.
    """
    return document(f"{status.cluster}: GPU cluster status", _body(status))


def _body(status: Status) -> Iterator[str]:
    account = f"account {status.account}" if status.account else "an unknown account"
    where = escape(f"{status.region} · {account} · {status.at}")
    tone = "good" if status.is_well else "left-out"
    yield (
        f"<header><h1>{escape(status.cluster)}</h1><p class='soft'>{where}</p>"
        f"<p class='{tone}'>{escape(summary(status))}</p></header>"
    )
    nodes = {fleet.name: fleet.nodes for fleet in status.fleets}
    # The first section is the heading of the page.
    for section in list(sections_of(status))[1:]:
        rows = [(escape(row.label), "<br>".join(escape(line) for line in row.lines)) for row in section.rows]
        every_node = [
            (
                escape(one.instance_id),
                escape(one.state),
                escape(one.lifecycle),
                "unknown" if one.severity is None else escape(severity_name(one.severity)),
                escape(one.reason or "-"),
            )
            for one in nodes.get(section.heading) or ()
        ]
        heads = ("node", "state", "lifecycle", "watchdog", "why")
        listed = f"<h3>Nodes</h3>{table(heads, every_node)}" if every_node else ""
        yield card(section.heading, f"{table(('what', 'now'), rows)}{listed}")
