"""Write docs/rules.md, the list of every rule of this repository, or check that it is current.

    python tools/write_rules_page.py            write it
    python tools/write_rules_page.py --check    exit 1 if it is not current

The rules are read from the sources, not by importing them: modules with constructs would start Node. The rules over
templates start none; they are imported for their severity.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from _pages import ROOT, cell, constants_made_by, write_or_check
from _template_rules import template_cell

PAGE = ROOT / "docs" / "rules.md"

AREAS = {
    "ALM": "Alarms of fleets",
    "AMI": "Machine images",
    "AMP": "Amazon Managed Service for Prometheus",
    "ARG": "Keywords of constructs",
    "BAT": "AWS Batch",
    "BUD": "Budgets",
    "CAP": "Capacity",
    "CKP": "Checkpoint stores",
    "COST": "Cost",
    "DASH": "Dashboards",
    "DRA": "Data repositories of FSx for Lustre",
    "EFA": "Network interfaces and EFA security groups",
    "EKS": "Amazon EKS",
    "FAB": "Fabrics",
    "FLT": "Fleets",
    "GRF": "Amazon Managed Grafana",
    "GRES": "Generic resources of Slurm",
    "HOM": "Home directories",
    "HYP": "Amazon SageMaker HyperPod",
    "IAM": "Roles of nodes and jobs",
    "INF": "Model servers",
    "IMP": "Files of other tools",
    "INST": "Instance types",
    "IP": "IP addresses",
    "K8S": "Workloads and software on Kubernetes",
    "KEY": "Encryption keys",
    "LT": "Launch templates",
    "LUS": "FSx for Lustre",
    "MIG": "GPUs split with MIG",
    "MODEL": "Models",
    "OFFER": "Capacity on offer",
    "MNT": "Mounts on the nodes",
    "NET": "Networks, zones and endpoints",
    "PCL": "AWS ParallelCluster",
    "PCS": "AWS PCS",
    "PLC": "Placement groups",
    "RAY": "Ray",
    "IMEX": "ComputeDomains on UltraServers",
    "PRE": "Preflight: what an account needs",
    "RGN": "Regions",
    "SCR": "Scrapers of metrics",
    "SRV": "Serving on Kubernetes",
    "SLK": "Slurm on Kubernetes",
    "SPEC": "Cluster file",
    "TEAM": "Teams on Kubernetes",
    "UD": "User data",
    "USR": "Users of the nodes",
}

INTRODUCTION = """\
# Rules

Every finding carries the id of its rule. An id keeps its meaning, and the id of a removed rule is not used again. A
finding names its cause, the value, the allowed values and the change to make. Errors stop; warnings and infos do not.

The last column has the severity of the rules over any CloudFormation template, with a link to an example: see
[template rules](template-rules.md). The other rules apply to constructs, cluster files and accounts. The documentation
site has a page for each rule, with its source.

This page is written by `tools/write_rules_page.py`; do not edit it.
"""


@dataclass(frozen=True, order=True)
class Row:
    """One rule as it stands in the sources."""

    id: str
    title: str
    source: str
    file: str

    @property
    def area(self) -> str:
        """The middle part of the id."""
        return self.id.split("-")[1]


def rules() -> Iterator[Row]:
    """The rules that the modules define at their top level, or by the decorator of a check."""
    for rule in constants_made_by("define_rule", "define_template_rule", "define_check"):
        yield Row(rule.argument(0), rule.argument(1), rule.keyword("source"), rule.file)


def every_rule() -> list[Row]:
    """The rules of all source roots, by id.

    Raises:
        ValueError: If two rules have the same id, or an area has no title here.
    """
    rows = sorted(rules())
    ids = [row.id for row in rows]
    if twice := sorted({rule_id for rule_id in ids if ids.count(rule_id) > 1}):
        raise ValueError(f"defined twice: {', '.join(twice)}")
    if untitled := sorted({row.area for row in rows} - AREAS.keys()):
        raise ValueError(f"areas without a title in {Path(__file__).name}: {', '.join(untitled)}")
    return rows


def page() -> str:
    """The text of the page."""
    rows = every_rule()
    areas = [f"- `GPU-{area}` {AREAS[area]}" for area in sorted({row.area for row in rows})]
    table = [f"| `{row.id}` | {cell(row.title)} | `{_module(row.file)}` | {template_cell(row.id)} |" for row in rows]
    heads = ["| Id | Rule | Decided in | In templates |", "| --- | --- | --- | --- |"]
    return "\n".join([INTRODUCTION, *areas, "", *heads, *table]) + "\n"


def _module(file: str) -> str:
    """A file below its package, as the page of a rule has the full path."""
    return "/".join(file.split("/")[2:]) or file


if __name__ == "__main__":
    raise SystemExit(write_or_check(__doc__, PAGE, page()))
