"""Write docs/preflight.md, the checks of `gpu-clusters preflight`, or check that it is current.

python tools/write_preflight_page.py            write it
python tools/write_preflight_page.py --check    exit 1 if it is not current
"""

from __future__ import annotations

import sys

from _pages import ROOT, cell, write_or_check

sys.path[:0] = [str(ROOT / "constructs"), str(ROOT / "stacks")]

from cdk_gpu_clusters_stacks.preflight import AREAS, checks_of, every_check  # noqa: E402 - the path is set above

PAGE = ROOT / "docs" / "preflight.md"

INTRODUCTION = """\
# Can the account take it? `preflight`

```sh
pip install "cdk-gpu-clusters[cli,live]"
gpu-clusters preflight cluster.yaml
gpu-clusters preflight cluster.yaml --print-policy > policy.json   # what the caller must be allowed
```

`preflight` asks the AWS account whether a cluster file would deploy there and its nodes start: {number} checks, all of
them read-only, in the Region of the file. Every distinct question goes to AWS once, and its answer serves all checks;
questions run side by side, throttled ones are asked again, and lists are read to their last page. Over calls of 200 ms
each, all checks of a large file took 2.1 s on a busy machine of two cores (`benchmarks/preflight.py`).

It has never run against a real account: all of it is tested against moto and against answers that botocore checks for
their shape. Where AWS answers otherwise than its reference says, a check may say the wrong thing; tell us.

Each check says one of:

| Outcome | Meaning |
| --- | --- |
| `pass` | as it must be |
| `warn` | works, but costs money, speed or safety, or has no room for the greatest size |
| `cannot tell` | the account does not say; where a permission is missing, it is named |
| `fail` | the deployment would fail, or its nodes would not start; the fix is named |
| `not applicable` | nothing in the file asks for it |

What it finds names the key of the cluster file, the cause and the fix. `--json` prints all of it, with what is not
applicable and why. Exit status: 0 if no check failed, 1 if one did, 2 if the file or the credentials cannot be used.
`--profile` chooses credentials; `--region` must be the file's, if it is given.

`--print-policy` prints the smallest IAM policy for the file: the actions of the checks that apply to it, all of which
read. Without one of them its checks say `cannot tell`, and the others go on. What `cdk deploy` needs is not checked: it
acts by the roles of `cdk bootstrap`.

What the cluster has already is recognized by its tag `gpu-cluster` and not counted against it, so that `preflight` can
be asked again before a change; load balancers and the interfaces of file systems are not told apart. Quota values are
the account's own; their codes are facts of the catalogue, each with its source. Which quota counts the vCPUs of a new
family is not always known: the check then says so.

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
            for check in checks_of(area)
        ]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    raise SystemExit(write_or_check(__doc__, PAGE, page()))
