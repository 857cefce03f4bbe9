"""`gpu-clusters doctor`: whether a live cluster is as its stacks made it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cdk_gpu_clusters_stacks import terminal

from . import output
from .account import Profile, account_of
from .group import examples, new_app

if TYPE_CHECKING:
    from cdk_gpu_clusters_stacks.doctor import Diagnosis
    from cdk_gpu_clusters_stacks.spec import ClusterSpec

app = new_app()


@app.command(
    epilog=examples(
        "gpu-clusters doctor cluster.yaml",
        "gpu-clusters doctor cluster.yaml --print-policy",
        then="Exit status: 0 nothing differs, 1 something does, 2 unusable file or credentials, nothing deployed.",
    )
)
def doctor(
    file: output.ClusterFile,
    profile: Profile = None,
    print_policy: Annotated[
        bool, typer.Option("--print-policy", help="Print the IAM policy that the reading needs, and ask nothing.")
    ] = False,
    as_json: output.Json = False,
) -> None:
    """Compare a live cluster with its deployed stacks, and judge it by the template rules. Read-only."""
    from cdk_gpu_clusters_stacks import doctor as work

    spec = output.read(file, as_json=as_json)
    if print_policy:
        output.write_json(work.policy_to_examine(spec))
        return
    found = _ask(spec, profile)
    if as_json:
        output.write_document(work.as_json(found))
    else:
        output.write_headed("".join(f"{line}\n" for line in work.format_diagnosis(found)))
    if not found.compared:
        output.refuse(f"doctor: nothing of {found.cluster} could be compared")
    output.leave(0 if found.is_healthy else 1)


def _ask(spec: ClusterSpec, profile: str | None) -> Diagnosis:
    from cdk_gpu_clusters_stacks.doctor import examine

    with account_of(spec, profile, command="doctor") as account, terminal.steps(f"asking {spec.region}"):
        return examine(spec, account)
