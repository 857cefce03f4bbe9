"""`gpu-clusters import`: a cluster file from a file of another tool, with a report."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdk_gpu_clusters_stacks import terminal

from . import complete, files, output
from .account import Profile
from .group import examples, new_app

if TYPE_CHECKING:
    from cdk_gpu_clusters_stacks.importing import Imported, Place

app = new_app()


@app.command(
    name="import",
    epilog=examples(
        "gpu-clusters import pcluster.yaml",
        "gpu-clusters import eks-p5.yaml --zone us-east-1a -o training.yaml",
        "gpu-clusters import cluster-config.json --region us-west-2",
        "gpu-clusters import cluster-config.json --to eks",
        "gpu-clusters import --auto-scaling-group trainers --region us-east-1",
        "gpu-clusters import pcluster.yaml --set '${INSTANCE}=p5.48xlarge' --set '${NODES}=16'",
        then="Exit status: 0 the cluster file was written, 2 the file cannot be imported, or would be written over.",
    ),
)
def import_(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]",
            help="Configuration of AWS ParallelCluster 3, eksctl or SageMaker HyperPod; - for standard input.",
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option("--auto-scaling-group", metavar="NAME", help="Read this group from an account instead."),
    ] = None,
    launch_template: Annotated[
        str | None,
        typer.Option("--launch-template", metavar="ID[:VERSION]", help="Read this launch template from an account."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the cluster. Default: that in the file, or the file's own.")
    ] = None,
    region: Annotated[
        str | None,
        typer.Option(help="Region of the cluster. Default: that in the file.", autocompletion=complete.regions),
    ] = None,
    zone: Annotated[str | None, typer.Option(help="Zone of the nodes. Default: that in the file.")] = None,
    vpc: Annotated[
        str | None, typer.Option(metavar="VPC_ID", help="VPC of the subnets. Default: that in the file.")
    ] = None,
    fill: Annotated[
        list[str],
        typer.Option(
            "--set", metavar="PLACEHOLDER=VALUE", help="Value of a placeholder in the file; several times for several."
        ),
    ] = [],  # noqa: B006
    orchestrator: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="ORCHESTRATOR",
            help="`orchestrator` of the cluster file: pcs or parallelcluster for ParallelCluster, hyperpod-eks, "
            "hyperpod-slurm, eks or pcs for HyperPod. Default: pcs, or the same of HyperPod.",
        ),
    ] = None,
    target: Annotated[Path, typer.Option("--output", "-o", help="Cluster file to write.")] = Path("cluster.yaml"),
    force: files.Force = False,
    profile: Profile = None,
    print_policy: Annotated[
        bool,
        typer.Option("--print-policy", help="Print the IAM policy that reading an account needs, and ask nothing."),
    ] = False,
    as_json: output.Json = False,
) -> None:
    """Make a cluster file of a file of another tool, and say what becomes better and what is lost.

    ParallelCluster becomes AWS PCS, eksctl Amazon EKS, and HyperPod stays HyperPod, unless --to moves it; nothing is
    looked up in an account. A launch template or an Auto Scaling group that is deployed becomes plain EC2; the account
    is only read.
    """
    from cdk_gpu_clusters_stacks.importing import Place, import_file

    if print_policy:
        from cdk_gpu_clusters_stacks.importing.deployed import policy_to_import

        output.write_json(policy_to_import())
        return
    if sum(one is not None for one in (file, group, launch_template)) != 1:
        output.refuse("import: give one of FILE, --auto-scaling-group and --launch-template")
    _refuse_existing(target, force=force)
    if file is None:
        if orchestrator is not None:
            output.refuse("import: --to is for a FILE; what an account has becomes orchestrator: ec2")
        place = Place(name=name or "", region=region, zone=zone, vpc_id=vpc)
        made = _of_account(place, target, group=group, launch_template=launch_template, profile=profile)
        source = f"{group or launch_template} in {region}"
        _finish(made, source=source, target=target, force=force, as_json=as_json)
        return
    shown = Path("<stdin>") if str(file) == output.STREAM else file
    made = import_file(
        shown,
        Place(name=name or "", region=region, zone=zone, vpc_id=vpc),
        target=target,
        content=output.standard_input() if str(file) == output.STREAM else None,
        fill=_filled(fill),
        orchestrator=orchestrator,
    )
    _finish(made, source=str(shown), target=target, force=force, as_json=as_json)


def _of_account(
    place: Place, target: Path, *, group: str | None, launch_template: str | None, profile: str | None
) -> Imported:
    from cdk_gpu_clusters_stacks import preflight
    from cdk_gpu_clusters_stacks.importing import import_account

    if place.region is None:
        output.refuse("import: give the Region of the account with --region")
    try:
        with (
            preflight.Account(preflight.boto3_clients(profile, region=place.region), region=place.region) as account,
            terminal.steps(f"asking {place.region}"),
        ):
            return import_account(account, place, target=target, launch_template=launch_template, group=group)
    except preflight.Unusable as fault:
        output.refuse(f"import: {fault}")


def _filled(pairs: list[str]) -> dict[str, str]:
    wrong = [pair for pair in pairs if "=" not in pair or pair.startswith("=")]
    if wrong:
        output.refuse(f"import: --set {wrong[0]} is not PLACEHOLDER=VALUE")
    return dict(pair.split("=", 1) for pair in pairs)


def _refuse_existing(target: Path, *, force: bool) -> None:
    if str(target) != output.STREAM and os.path.lexists(target) and not force:
        output.refuse(f"{target} exists; --force writes over it")


def _finish(made: Imported, *, source: str, target: Path, force: bool, as_json: bool) -> None:
    """Write the cluster file and the report, or the faults alone."""
    from cdk_gpu_clusters_stacks.importing.report import report_text, report_values

    if as_json:
        output.write_document(
            {
                **report_values(made),
                "broken": [output.as_json_finding(one) for one in made.broken],
                "findings": [output.as_json_finding(one) for one in made.findings],
            }
        )
    if made.text is None:
        output.report(made.findings)
        output.leave(2)
    to_stream = str(target) == output.STREAM
    if not to_stream:
        files.write_new(target, made.text, force=force)
    if as_json:
        return
    report = report_text(made, source=source, target=str(target), width=terminal.text_width())
    if to_stream:
        output.write(report, stderr=True)
        output.write(made.text)
        return
    output.write_headed(report)
    marks = made.text.count("# CHANGE")
    change = f"; change the {marks} line{'s'[: marks != 1]} marked CHANGE" if marks else ""
    output.write(f"wrote {target}{change}; then: gpu-clusters plan {target}\n")
