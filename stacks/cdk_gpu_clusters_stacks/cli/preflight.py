"""`gpu-clusters preflight`: whether an account can take a cluster, before anything is made."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cdk_gpu_clusters_stacks import terminal

from . import complete, output
from .account import Profile, account_of
from .group import examples, new_app

if TYPE_CHECKING:
    from cdk_gpu_clusters_stacks.preflight import Preflight
    from cdk_gpu_clusters_stacks.spec import ClusterSpec

_COLOURS = {"fail": "bold red", "cannot tell": "magenta", "warn": "yellow", "pass": "green"}

app = new_app()


@app.command(
    epilog=examples(
        "gpu-clusters preflight cluster.yaml",
        "gpu-clusters preflight cluster.yaml --print-policy",
        then="Exit status: 0 no check failed, 1 a check failed, 2 unusable file or credentials.",
    )
)
def preflight(
    file: output.ClusterFile,
    profile: Profile = None,
    region: Annotated[
        str | None,
        typer.Option(
            help="Region, to make sure that it is the file's. Default: the file's.", autocompletion=complete.regions
        ),
    ] = None,
    print_policy: Annotated[
        bool,
        typer.Option("--print-policy", help="Print the IAM policy that the checks need, and ask nothing."),
    ] = False,
    as_json: output.Json = False,
) -> None:
    """Ask an AWS account whether it can take a cluster. Read-only."""
    spec = output.read(file, as_json=as_json)
    if region not in (None, spec.region):
        output.refuse(f"--region {region} is not the Region of {file}, which is {spec.region}")
    if print_policy:
        from cdk_gpu_clusters_stacks.preflight import policy_for

        output.write_json(policy_for(spec))
        return
    found = _ask(spec, profile)
    if as_json:
        output.write_document(output.as_json(found))
    else:
        _print(found)
    output.leave(1 if found.failed else 0)


def _ask(spec: ClusterSpec, profile: str | None) -> Preflight:
    from cdk_gpu_clusters_stacks.preflight import run_preflight

    with (
        account_of(spec, profile, command="preflight") as account,
        terminal.progress(f"asking {spec.region}") as on_done,
    ):
        return run_preflight(spec, account, now=datetime.now(UTC), on_done=on_done)


def _print(found: Preflight) -> None:
    from rich.text import Text

    from cdk_gpu_clusters._untrusted import printable_line, shortened
    from cdk_gpu_clusters_stacks.preflight.run import format_preflight

    console = terminal.console()
    for outcome, words in format_preflight(found):
        line = printable_line(shortened(words))
        console.print(Text(outcome, _COLOURS.get(outcome.strip(), "")).append(line, "default"))
