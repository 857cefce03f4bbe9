"""Write the tables of charts and images into docs/eks-software.md, or check that they are current.

    python tools/write_eks_software_page.py            write them
    python tools/write_eks_software_page.py --check    exit 1 if they are not current

The tables are made from the catalogue (`catalogue/data/kubernetes_software.json`).
"""

from __future__ import annotations

from _pages import ROOT, cell, write_or_check
from cdk_gpu_clusters.catalogue.kubernetes import charts, images

PAGE = ROOT / "docs" / "eks-software.md"
START = "<!-- Written by tools/write_eks_software_page.py from here; do not edit. -->\n"
END = "<!-- Written by tools/write_eks_software_page.py to here. -->\n"


def tables() -> str:
    """Charts, then images."""
    lines = ["| Chart | Version | From | Source |", "| --- | --- | --- | --- |"]
    lines += [
        f"| `{one.name}` | {one.version} | `{one.repository}` | {cell(one.source)} |" for one in charts()
    ]
    lines += ["", "| Image | Tag | Digest | Source |", "| --- | --- | --- | --- |"]
    lines += [
        f"| `{one.repository}` | `{one.tag}` | {_short(one.digest)} | {cell(one.source)} |"
        for one in images()
    ]
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page with the tables as they are now."""
    before, rest = PAGE.read_text(encoding="utf-8").split(START)
    after = rest.partition(END)[2]
    return f"{before}{START}\n{tables()}\n{END}{after}"


def _short(digest: str | None) -> str:
    return "none read" if digest is None else f"`{digest[: len('sha256:') + 12]}…`"


if __name__ == "__main__":
    raise SystemExit(write_or_check(__doc__, PAGE, page()))
