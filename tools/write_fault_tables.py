"""Write what outside sources say of each fault: docs/xids.md, and the marked tables of two other pages.

python tools/write_fault_tables.py            write them
python tools/write_fault_tables.py --check    exit 1 if one is not current
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from _pages import ROOT, cell, write_or_check

sys.path[:0] = [str(ROOT / "constructs"), str(ROOT / "tests" / "support")]

from cdk_gpu_clusters.catalogue.xids import (  # noqa: E402 - the path is set above
    Xid,
    XidClass,
    harmless_link_down_reasons,
    nvidia_actions,
    recovery_actions,
    sxids,
    xid_sources,
    xids,
)
from tool_output import VERDICTS, samples, tools  # noqa: E402

PAGE = ROOT / "docs" / "xids.md"
HEALTH, RELIABILITY = ROOT / "docs" / "node-health.md", ROOT / "docs" / "reliability.md"

INTRODUCTION = """\
# Xids and SXids

What a message of NVIDIA's driver asks a node to do, and what others say of the same message. NVIDIA's immediate action
decides. Where NVIDIA names none, the message is watched: the driver itself asks by Xid 154 if a GPU needs a repair. The
last column has the reason where a node does anything else, and where the sources differ. The data is
`cdk_gpu_clusters.catalogue.xids`.

This page is written by `tools/write_fault_tables.py`; do not edit it.
"""

_DOES = {
    XidClass.MONITOR: "monitor",
    XidClass.RESET: "reset",
    XidClass.REBOOT: "reboot",
    XidClass.REPLACE: "replace",
    XidClass.RECOVERY: "by the [recovery action](#recovery-actions-xid-154)",
    XidClass.NVLINK5: "[by the text](#nvlink-5-xids-144-to-150)",
}


_XID_COLUMNS = (
    "Xid",
    "Meaning",
    "Node",
    "NVIDIA",
    "EKS guide",
    "EKS agent",
    "ECS",
    "GPUd",
    "HyperPod",
    "AWS suite",
    "Why",
)


_NVLINK5 = """\
A message with the word `Fatal` requires a reset, one with `Nonfatal` is watched. Exceptions are the reasons {reasons}
of a link that went down: a person or a host took it down. The reason is in bits 20 to 25 of the first number of the
message. The rule gives NVIDIA's immediate action for each of the 95 rows of its sheet "Xid 144-150 Decode".
"""


def page() -> str:
    """The page of Xids."""
    parts = [
        INTRODUCTION,
        "## Sources\n",
        _table(("Column", "Source"), ((name.replace("_", " "), text) for name, text in xid_sources().items())),
        "NVIDIA's actions:\n",
        _table(("Action", "Meaning"), ((f"`{name}`", text) for name, text in nvidia_actions().items())),
        "## Xids\n",
        "Numbers that NVIDIA does not use are left out. *EKS agent*: it sets a condition, which node repair acts on.\n",
        _table(
            _XID_COLUMNS,
            (_xid_row(xid) for xid in xids().values() if xid.name),
        ),
        "## Recovery actions: Xid 154\n",
        "The number after `to` decides. Its words differ between drivers. An unknown number requires a reset.\n",
        _table(
            ("Number", "NVML", "Printed", "Since driver", "Node"),
            (
                (str(row.code), f"`{row.name}`", ", ".join(row.texts) or "not known", row.since, row.xid_class.value)
                for row in recovery_actions().values()
            ),
        ),
        "## NVLink 5: Xids 144 to 150\n",
        _NVLINK5.format(reasons=" and ".join(map(str, harmless_link_down_reasons()))),
        "## SXids\n",
        "A fatal SXid requires a reboot, and a non-fatal one is watched, except for:\n",
        _table(
            ("SXid", "Meaning", "Node", "Why"),
            ((str(row.code), row.name, row.xid_class.value, row.note) for row in sxids().values()),
        ),
    ]
    return "\n".join(parts)


def classes() -> str:
    """Which Xids ask for what."""
    rows = []
    for xid_class in (XidClass.RESET, XidClass.REBOOT, XidClass.REPLACE, XidClass.RECOVERY, XidClass.NVLINK5):
        codes = ", ".join(str(xid.code) for xid in xids().values() if xid.xid_class is xid_class)
        rows.append((_DOES[xid_class].replace("(#", "(xids.md#"), codes))
    return _table(("Asks for", "Xids"), [*rows, ("monitor", "all others")])


def figures() -> str:
    """How many samples of real tools there are, by what people make of them."""
    rows = []
    for tool in tools():
        found = Counter(sample.verdict for sample in samples(tool))
        sources = len({sample.repository for sample in samples(tool)})
        rows.append((tool.replace("_", " "), str(sources), *(str(found[verdict] or "") for verdict in VERDICTS)))
    every = [sample for tool in tools() for sample in samples(tool)]
    total = Counter(sample.verdict for sample in every)
    sources = len({sample.repository for sample in every})
    rows.append(("all", str(sources), *(str(total[verdict]) for verdict in VERDICTS)))
    return _table(("Tool", "Sources", *VERDICTS), rows)


def _xid_row(xid: Xid) -> Sequence[str]:
    return (
        str(xid.code),
        xid.name or "",
        _DOES[xid.xid_class],
        f"`{xid.nvidia}`" if xid.nvidia else "",
        xid.eks or "",
        "acts" if xid.eks_agent else "",
        xid.ecs or "",
        xid.gpud or "",
        xid.hyperpod or "",
        xid.aws_suite or "",
        xid.note,
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell(text) for text in line)} |\n" for line in lines)


def _with(file: Path, name: str, table: str) -> str:
    """The text of a page with another table between its marks."""
    begin, end = f"<!-- {name}: written by tools/write_fault_tables.py -->\n", f"<!-- end of {name} -->\n"
    text = file.read_text(encoding="utf-8")
    if begin not in text or end not in text:
        raise SystemExit(f"{file} has no place for the table {name}")
    return re.sub(f"(?s){re.escape(begin)}.*{re.escape(end)}", lambda _: f"{begin}\n{table}\n{end}", text)


if __name__ == "__main__":
    files = {
        PAGE: page(),
        HEALTH: _with(HEALTH, "xids", classes()),
        RELIABILITY: _with(RELIABILITY, "samples", figures()),
    }
    sys.exit(max(write_or_check(__doc__, file, text) for file, text in files.items()))
