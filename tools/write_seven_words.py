"""Write what one word changes into docs/orchestrators.md, or check that it is current.

python tools/write_seven_words.py            write it
python tools/write_seven_words.py --check    exit 1 if it is not current
"""

from __future__ import annotations

import sys

from _pages import ROOT, cell, write_or_check

sys.path[:0] = [str(ROOT / root) for root in ("constructs", "stacks")]

from cdk_gpu_clusters_stacks.plan import ClusterPlan, plan_cluster  # noqa: E402 - the path is set above
from cdk_gpu_clusters_stacks.plan.model import FleetReport  # noqa: E402
from cdk_gpu_clusters_stacks.spec import read_cluster  # noqa: E402
from cdk_gpu_clusters_stacks.spec.model import ORCHESTRATORS  # noqa: E402

PAGE = ROOT / "docs" / "orchestrators.md"
#: A test makes the templates of this file under each orchestrator.
FILE = ROOT / "tests" / "fixtures" / "one-file-seven-words.yaml"
BEGIN, END = "<!-- begin: written by tools/write_seven_words.py -->\n", "<!-- end -->\n"


def table() -> str:
    """The table, with a row for each orchestrator."""
    heads = ("`orchestrator`", "nodes are", "interfaces, addresses of a node", "placement group", "mounts", "stacks")
    lines = [heads, ("---",) * len(heads), *(row(word) for word in ORCHESTRATORS)]
    return "".join(f"| {' | '.join(map(cell, line))} |\n" for line in lines)


def row(word: str) -> tuple[str, ...]:
    """What the file becomes with an orchestrator."""
    plan = plan_with(word)
    [fleet] = plan.fleets
    network = fleet.node.network
    stacks = [one.name.removeprefix(f"{plan.name}-") for one in plan.stacks]
    return (
        f"`{word}`",
        ORCHESTRATORS[word].group.value.replace("-", " "),
        f"{network.interface_count}, {network.ip_addresses}",
        "its own" if fleet.placement.is_made_here else fleet.placement.reason,
        mounted_by(fleet),
        ", ".join(stacks),
    )


def mounted_by(fleet: FleetReport) -> str:
    """Who mounts the file system."""
    if "lustre" in fleet.node.boot_stages:
        return "boot stage `lustre`"
    by_pods = fleet.instance_group is not None and fleet.instance_group.partition is None
    return "pods, as a volume" if by_pods else "the service"


def plan_with(word: str) -> ClusterPlan:
    """The plan of the file with an orchestrator."""
    text = FILE.read_text(encoding="utf-8").replace("orchestrator: ec2", f"orchestrator: {word}")
    spec = read_cluster("cluster.yaml", content=text.encode()).spec
    if spec is None:
        raise SystemExit(f"{FILE} has errors with orchestrator: {word}")
    return plan_cluster(spec)


def main() -> int:
    """Write the table into the page, or check it."""
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    text = f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}"
    return write_or_check(__doc__, PAGE, text)


if __name__ == "__main__":
    sys.exit(main())
