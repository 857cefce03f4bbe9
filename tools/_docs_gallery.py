"""The gallery of the site: a report of each example with a small picture. Everything is made when the site is built."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from _examples import Example, cluster_files
from cdk_gpu_clusters_stacks.report_page import report_html, topology_picture

#: Where the page stands on the site; it stands nowhere in the repository.
PAGE = "gallery/index.md"
#: Examples on the start page: one each of training, training and inference, and inference.
_ON_THE_START_PAGE = ("p5-lustre", "train-and-serve", "p4d-mig-56-slices")

_INTRODUCTION = """\
# Gallery

Each picture is the topology of an [example](../examples/README.md). It opens the report that
`gpu-clusters report` writes for the file: topology, nodes, cost, addresses, checks and stacks. Prices are list prices
and leave out what has no price; the report names it.
"""


def gallery_page() -> str:
    """The page with all examples."""
    return f"{_INTRODUCTION}\n{_cards(cluster_files(), '')}"


def gallery_files() -> Iterator[tuple[str, str]]:
    """The reports and their pictures: place on the site, and text."""
    for one in cluster_files():
        yield f"gallery/{one.name}.html", report_html(one.plan)
        yield f"gallery/{one.name}.svg", topology_picture(one.plan)


def with_gallery(start: str) -> str:
    """The start page, with some of the gallery behind its first section."""
    shown = [one for name in _ON_THE_START_PAGE for one in cluster_files() if one.name == name]
    before, heading, after = start.partition("\n## Constructs")
    strip = f"\n## Gallery\n\n{_cards(shown, 'gallery/')}\n[All examples with their reports](gallery/index.md)\n"
    return f"{before}{strip}{heading}{after}"


def _cards(shown: Sequence[Example], folder: str) -> str:
    return '<div class="gallery" markdown>\n\n' + "\n".join(_card(one, folder) for one in shown) + "\n</div>\n"


def _card(one: Example, folder: str) -> str:
    until = f", {one.per_run} USD until the end" if one.per_run else ""
    link = f"{folder}{one.name}"
    return f"""\
- [![Topology of {one.name}]({link}.svg){{ loading=lazy }}]({link}.html)

    **[{one.name}]({link}.html)**

    {one.makes}

    {one.per_hour} USD an hour{until}
"""
