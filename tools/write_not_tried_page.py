"""Write docs/not-tried.md, what nobody has seen on AWS and what was seen, or check that it is current.

python tools/write_not_tried_page.py            write it
python tools/write_not_tried_page.py --check    exit 1 if it is not current
"""

from __future__ import annotations

import sys

from _pages import ROOT, cell, write_or_check

sys.path[:0] = [str(ROOT / root) for root in ("constructs", "stacks", "emulator", "tests/aws")]

from real_account.checks import SCENARIOS  # noqa: E402 - the path is set above
from real_account.plan import DEFAULT_LIMIT_USD, Scenario, total_usd  # noqa: E402
from real_account.results import Result, read_results  # noqa: E402

PAGE = ROOT / "docs" / "not-tried.md"

INTRODUCTION = """\
# What was not tried on AWS

The library is tested against an [emulator](emulator.md), AWS's service models and registry schemas, and real programs.
None of these is AWS. This page lists the open questions that need an account. Each row is a check of `make test-aws`,
which runs in your own account:

<!-- not run: it needs an AWS account, and costs money -->
```sh
make test-aws                                               # what it would do and cost; needs no credentials
make test-aws ARGS="--account 123456789012 --budget 20"     # in that account, and in no other
make test-aws ARGS="--account 123456789012 --budget 5 --only node"
make test-aws ARGS="--account 123456789012 --clean"         # removes what an earlier run left
```

- The account and its Region must be bootstrapped (`cdk bootstrap`), and its quotas must have room for the nodes.
- All checks cost at most {total} USD in us-east-1, at list prices and for the longest time that each may take. A plan
  above the typed budget is refused, and so is a budget above {limit} USD without `--limit`.
- Everything has the tag `gpu-clusters-test`. What has the tag is removed first and last, also after Ctrl-C and after a
  kill. If the process that watches is killed too, run it again with `--clean`. Use an account without other resources
  of this tag.
- `make test` runs the same code against the emulator. This proves that the checks work, and nothing about AWS.

The results are in `tests/aws/results.json`. This page is written by `tools/write_not_tried_page.py`; do not edit it.
"""

WITHOUT_A_CHECK = """\
## Without a check

| Not tried | Why no check |
| --- | --- |
| EFA between nodes, Lustre over EFA, the NCCL test, MIG | two nodes with EFA and such GPUs cost more than the limit |
| A Capacity Block from its start to its end | a block is paid for days; `block_events_match` tests events alone |
| Several blocks of one fleet: that Auto Scaling launches into a resource group of them, that a block joins it when it \
has started, that `resource-groups:GroupResources` on the group is all that this needs | two blocks are paid for days |
| An instance refresh that begins while the alarm on failing launches is raised | it needs nodes that fail their boots \
for an hour |
| UltraServers, P6e-GB200 | sold as blocks |
| AWS Batch: which security group a container gets, which interface NCCL takes, what Batch writes to the file of the \
ECS agent | two nodes with GPUs, and an image with NCCL |
| AWS PCS, Kueue, jobs of several nodes | they need clusters that this library does not make, or nodes with EFA |
| Partitions other than `aws` | an account is of one partition |
"""


def page() -> str:
    """The page."""
    results = read_results()
    total = total_usd(SCENARIOS, "us-east-1")
    parts = [INTRODUCTION.format(total=total, limit=DEFAULT_LIMIT_USD)]
    parts += [_section(one, results) for one in SCENARIOS]
    return "\n".join([*parts, WITHOUT_A_CHECK])


def _section(scenario: Scenario, results: dict[str, Result]) -> str:
    lines = [
        f"## {scenario.name}",
        "",
        f"Makes {scenario.makes}. At most {scenario.minutes} minutes and {scenario.most_usd('us-east-1')} USD.",
        "",
        "| Check | What it shows | Seen on AWS |",
        "| --- | --- | --- |",
    ]
    for check in scenario.checks:
        pages = ", ".join(map(_link, check.pages))
        lines.append(f"| `{check.name}` | {cell(check.doubt)} ({pages}) | {_seen(results.get(check.name))} |")
    return "\n".join([*lines, ""])


def _link(page: str) -> str:
    target = page.removeprefix("docs/")
    return f"[{target.removesuffix('.md')}]({target})"


def _seen(result: Result | None) -> str:
    if result is None or result.outcome == "not reached":
        return "no"
    text = f"{result.outcome} on {result.when} in {result.region}, version {result.version}"
    return cell(f"{text}: {result.cause}" if result.cause else text)


if __name__ == "__main__":
    sys.exit(write_or_check(__doc__, PAGE, page()))
