"""`gpu-clusters export`: a cluster file as files of another tool."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from . import files as written_files
from . import output
from .group import examples, new_app
from .output import ClusterFile

if TYPE_CHECKING:
    from cdk_gpu_clusters_stacks.export import Exported, ExportOptions
    from cdk_gpu_clusters_stacks.export.deployed import Outputs
    from cdk_gpu_clusters_stacks.spec import ClusterSpec
    from cdk_gpu_clusters_stacks.spec._document import Fault

app = new_app()


class Tool(str, Enum):
    """What a cluster file can become."""

    PCLUSTER = "pcluster"


@app.command(
    epilog=examples(
        "gpu-clusters export --to pcluster cluster.yaml --scripts s3://my-bucket/cluster",
        then="Exit status: 0; 1 if a file that you changed cannot be merged; 2 for a file that cannot be used or "
        "written, or that the tool refuses.",
    )
)
def export(
    file: ClusterFile,
    to: Annotated[Tool, typer.Option("--to", help="The tool: pcluster is AWS ParallelCluster.")],
    folder: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FOLDER", help="Folder to write; its other files stay. Default: the tool's name."
        ),
    ] = None,
    scripts: Annotated[
        str, typer.Option(metavar="S3_URI", help="Where you copy the scripts of the nodes. Default: no scripts.")
    ] = "",
    head_node_type: Annotated[
        str, typer.Option(metavar="TYPE", help="Instance type of the head node. Default: a small one.")
    ] = "",
    key_name: Annotated[str, typer.Option(metavar="NAME", help="EC2 key pair of the head node. Default: none.")] = "",
    security_group: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Security group that all nodes join, such as clients of file systems."),
    ] = None,
    volume: Annotated[
        list[str] | None,
        typer.Option(metavar="STORE=ID", help="Volume of a store of FSx for OpenZFS, such as home=fsvol-..."),
    ] = None,
    outputs: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Outputs of deployed stacks, as cdk deploy --outputs-file writes them."),
    ] = None,
    force: written_files.Force = False,
    json: output.Json = False,
) -> None:
    """Write a training cluster as a configuration of AWS ParallelCluster, with the boot checks of its nodes.

    Nothing is looked up in an account, and nothing is created: `pcluster` does that, in an environment of its own. What
    ParallelCluster has no place for is listed as warnings. A second run keeps what you changed.
    """
    from cdk_gpu_clusters_stacks.export import ExportOptions

    folder = Path(to.value) if folder is None else folder
    if str(folder) == output.STREAM:
        output.refuse("export: these are several files: give a folder, or --json")
    options = ExportOptions(
        head_node_type=head_node_type or None,
        key_name=key_name or None,
        scripts=_scripts(scripts) if scripts else None,
        security_group_ids=tuple(_checked(one, r"sg-[0-9a-f]+", "--security-group") for one in security_group or ()),
        volumes=_volumes(volume or ()),
        outputs={} if outputs is None else _outputs(outputs),
    )
    made = _export(file, options, as_json=json)
    if json:
        output.write_json(made.files)
        return
    changes = written_files.write_folder(folder, dict(made.files), force=force)
    written_files.tell(folder, changes)
    if changes.conflicts:
        output.leave(1)


def _export(file: Path, options: ExportOptions, *, as_json: bool) -> Exported:
    """The files; leaves with 2 if the cluster file has an error, or ParallelCluster refuses it."""
    from cdk_gpu_clusters_stacks.export import Exported, export_parallelcluster

    made = Exported(files={}, faults=())

    def check(spec: ClusterSpec) -> tuple[Fault, ...]:
        nonlocal made
        made = export_parallelcluster(spec, options)
        return made.faults

    reading = output.reading_of(file, also=check)
    output.report(reading.findings)
    if reading.spec is None:
        if as_json:
            output.write_document({"findings": [output.as_json_finding(one) for one in reading.findings]})
        output.leave(2)
    return made


def _scripts(uri: str) -> tuple[str, str]:
    from cdk_gpu_clusters.errors import ConfigError
    from cdk_gpu_clusters.rules.data_repository import read_s3_uri

    try:
        return read_s3_uri(uri)
    except ConfigError as fault:
        output.refuse_all("--scripts", [str(one) for one in fault.findings])


def _volumes(given: list[str] | tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in given:
        store, _, volume_id = text.partition("=")
        found[store] = _checked(volume_id, r"fsvol-[0-9a-f]{17}", "--volume STORE=ID")
    return found


def _checked(text: str, pattern: str, option: str) -> str:
    if not re.fullmatch(pattern, text):
        _wrong(option, text)
    return text


def _wrong(option: str, text: str) -> NoReturn:
    output.refuse(f"export: {option}: this is no id: {text}")


def _outputs(file: Path) -> Outputs:
    from cdk_gpu_clusters_stacks.export.deployed import read_outputs

    try:
        return read_outputs(output.read_text(file))
    except ValueError:
        output.refuse(f"{file} holds no outputs of stacks: write it with cdk deploy --outputs-file")
