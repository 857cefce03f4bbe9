"""Write docs/preflight.md, the checks of `gpu-clusters preflight`, or check that it is current.

python tools/write_preflight_page.py            write it
python tools/write_preflight_page.py --check    exit 1 if it is not current
"""

from __future__ import annotations

import sys

from _pages import ROOT, cell, write_or_check

sys.path[:0] = [str(ROOT / "constructs"), str(ROOT / "stacks")]

from cdk_gpu_clusters_stacks.preflight import AREAS, every_check  # noqa: E402 - the path is set above

PAGE = ROOT / "docs" / "preflight.md"

INTRODUCTION = """\
# Can the account take it? `preflight`

<!-- not run: it needs an AWS account -->
```sh
pip install "gpu-clusters[live]"
gpu-clusters preflight cluster.yaml
gpu-clusters preflight cluster.yaml --print-policy > policy.json   # what the caller must be allowed
```

`preflight` checks whether a cluster file would deploy in your AWS account, and whether its nodes would start. It has
{number} checks. All of them are read-only, and run in the Region of the file. Each distinct call is sent once, and all
checks use its answer. Calls run in parallel, throttled calls are repeated, and lists are read to their last page. With
calls of 200 ms each, all checks of a large file took 2.1 s on a busy machine of two cores (`benchmarks/preflight.py`).

It has [never run against a real account](not-tried.md). It is tested against moto and against answers whose shape
botocore checks. If AWS answers differently from its reference, a check may be wrong. Please report it.

Each check has one of these outcomes:

| Outcome | Meaning |
| --- | --- |
| `pass` | as required |
| `warn` | works, but costs money, speed or safety, or cannot grow to the greatest size |
| `cannot tell` | the account gives no answer; a missing permission is named |
| `fail` | the deployment would fail, or its nodes would not start; the fix is given |
| `not applicable` | nothing in the file needs it |

Each finding names the key of the cluster file, the cause and the fix. `--json` prints everything, including the checks
that are not applicable and the reason. The exit status is 0 if no check failed, 1 if one failed, and 2 if the file or
the credentials cannot be used. `--profile` selects the credentials. `--region` is optional, and must be the Region of
the file.

`--print-policy` prints the smallest IAM policy for the file: the read actions of the checks that apply to it. If a
permission is missing, the checks that need it result in `cannot tell`, and the others continue. The permissions of
`cdk deploy` are not checked, because it uses the roles of `cdk bootstrap`.

`preflight` recognizes existing resources of the cluster by their tag `gpu-cluster`, and does not count them against it.
You can therefore run it again before a change. It cannot distinguish load balancers and the interfaces of file systems
in this way. Quota values are those of your account. Quota codes come from the catalogue, each with its source. Those of
SageMaker HyperPod are found by their names, for which all quotas of SageMaker are listed. This takes some seconds.
Sometimes it is unknown which quota counts the vCPUs of a new family. The check then reports this.

This page is written by `tools/write_preflight_page.py`; do not edit it.
"""


def page() -> str:
    """The text of the page."""
    parts = [INTRODUCTION.format(number=len(every_check()))]
    for area, title in AREAS.items():
        parts += [f"\n## {title}\n", "| Id | Passes if | Permissions |", "| --- | --- | --- |"]
        parts += [
            f"| `{check.id}` | {cell(check.title)} | "
            f"{', '.join(f'`{action}`' for call in check.calls for action in call.actions)} |"
            for check in every_check()
            if check.id.startswith(area)
        ]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    raise SystemExit(write_or_check(__doc__, PAGE, page()))
