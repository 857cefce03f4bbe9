"""Write examples/README.md, the list of the examples, or check that it is current.

python tools/write_examples_page.py            write it
python tools/write_examples_page.py --check    exit 1 if it is not current
"""

from __future__ import annotations

from _examples import FOLDER, Example, apps, cluster_files
from _pages import cell, write_or_check

INTRODUCTION = """\
# Examples

Each file is a complete cluster. The comment at its top states what it makes, what to change and what it costs. The
[cookbook](../docs/cookbook.md) explains how to use it. The tests synthesize every example.

## Cluster files

The file with the lowest price for an hour comes first. Prices are list prices in US dollars. They are an estimate, not
a bill. "Until the end" applies to capacity with a start and an end. No price includes root volumes, load balancers, the
network, data transfer, logs and stored objects. The last column names what else has no price here. `gpu-clusters plan`
shows every price with its date. No example has been deployed to AWS, so the list states no deployment times.

| File | What it makes | USD an hour | USD until the end | Not in the price |
| --- | --- | ---: | ---: | --- |
"""
APPS = """
## Apps in Python

| File | What it makes |
| --- | --- |
"""


def page() -> str:
    """The text of the page."""
    files = [_line(one) for one in cluster_files()]
    own = [f"| [`{path}`]({path}) | {cell(words)} |" for path, words in apps()]
    notice = "\nThis page is written by `tools/write_examples_page.py`; do not edit it.\n"
    return INTRODUCTION + "\n".join(files) + "\n" + APPS + "\n".join(own) + "\n" + notice


def _line(one: Example) -> str:
    file = f"{one.name}.yaml"
    return f"| [`{file}`]({file}) | {cell(one.makes)} | {one.per_hour} | {one.per_run} | {one.unpriced} |"


if __name__ == "__main__":
    raise SystemExit(write_or_check(__doc__, FOLDER / "README.md", page()))
