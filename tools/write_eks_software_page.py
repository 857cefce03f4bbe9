"""Write the tables of docs/eks-software.md, or check that they are current.

    python tools/write_eks_software_page.py            write them
    python tools/write_eks_software_page.py --check    exit 1 if they are not current

Charts and images come from the catalogue (`catalogue/data/kubernetes_software.json`), what the GPU Operator leaves
alone from `kubernetes/software/charts.py`.
"""

from __future__ import annotations

from _pages import ROOT, cell, write_or_check
from cdk_gpu_clusters.catalogue.kubernetes import charts, images
from cdk_gpu_clusters.kubernetes.software.charts import SWITCHES

PAGE = ROOT / "docs" / "eks-software.md"
START = "<!-- {name}: written by tools/write_eks_software_page.py from here; do not edit. -->\n"
END = "<!-- {name}: written by tools/write_eks_software_page.py to here. -->\n"


def versions() -> str:
    """Charts, then images."""
    lines = ["| Chart | Version | From | Source |", "| --- | --- | --- | --- |"]
    lines += [f"| `{one.name}` | {one.version} | `{one.repository}` | {cell(one.source)} |" for one in charts()]
    lines += ["", "| Image | Tag | Digest | Source |", "| --- | --- | --- | --- |"]
    lines += [f"| `{one.repository}` | `{one.tag}` | {_short(one.digest)} | {cell(one.source)} |" for one in images()]
    return "\n".join(lines) + "\n"


def switches() -> str:
    """Values of the GPU Operator, and what does the same here."""
    lines = ["| Value | Done here by |", "| --- | --- |"]
    lines += [f"| `{one.key}: {str(one.value).lower()}` | {cell(one.done_by)} |" for one in SWITCHES]
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page with the tables as they are now."""
    text = PAGE.read_text(encoding="utf-8")
    for name, table in (("Versions", versions()), ("Operator", switches())):
        start, end = START.format(name=name), END.format(name=name)
        before, rest = text.split(start)
        text = f"{before}{start}\n{table}\n{end}{rest.partition(end)[2]}"
    return text


def _short(digest: str | None) -> str:
    return "none read" if digest is None else f"`{digest[: len('sha256:') + 12]}…`"


if __name__ == "__main__":
    raise SystemExit(write_or_check(__doc__, PAGE, page()))
