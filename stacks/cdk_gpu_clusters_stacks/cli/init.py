"""`gpu-clusters init`: a first cluster file, from flags or questions."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cdk_gpu_clusters.catalogue.instances import instance_type, instance_type_names

from . import files, output
from .group import new_app

if TYPE_CHECKING:
    from cdk_gpu_clusters_stacks.starter import Starter

_Capacity = Literal["on-demand", "spot", "reservation", "capacity-block"]
_Purpose = Literal["train", "serve"]

app = new_app()


@app.command(
    epilog="Examples: gpu-clusters init (asks); gpu-clusters init --name llama --region us-east-1 "
    "--type p5.48xlarge --nodes 16 --capacity capacity-block"
)
def init(
    name: Annotated[str | None, typer.Option(help="Name of the cluster.")] = None,
    region: Annotated[str | None, typer.Option(help="Region, such as us-east-1.")] = None,
    type_name: Annotated[str | None, typer.Option("--type", help="Instance type of the nodes.")] = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="Number of nodes.")] = None,
    purpose: Annotated[_Purpose | None, typer.Option(help="What the nodes do.")] = None,
    capacity: Annotated[_Capacity | None, typer.Option(help="Where the nodes come from.")] = None,
    availability_zone: Annotated[str | None, typer.Option("--zone", help="Zone of the nodes.")] = None,
    lustre_gib: Annotated[
        int | None, typer.Option(min=1, help="Size of a shared FSx for Lustre file system, in GiB.")
    ] = None,
    mig: Annotated[str | None, typer.Option(help="MIG layout of each GPU, such as 3g.20gb,3g.20gb.")] = None,
    file: Annotated[Path, typer.Option("--output", "-o", help="File to write.")] = Path("cluster.yaml"),
    force: files.Force = False,
) -> None:
    """Write a commented cluster file. What no flag gives is asked for on a terminal, and has its default elsewhere."""
    from cdk_gpu_clusters_stacks.starter import Purpose, Starter, StarterCapacity

    region = region or _ask("Region", "us-east-1")
    type_name = type_name or _ask("Instance type", "p5.48xlarge")
    if type_name not in instance_type_names():
        instance_type(type_name)  # raises, with the nearest names
    starter = Starter(
        name=name or _ask("Name of the cluster", "cluster"),
        region=region,
        instance_type=type_name,
        nodes=nodes or int(_ask("Nodes", "1", int)),
        purpose=Purpose(purpose or _ask("Purpose", "train", Purpose)),
        capacity=StarterCapacity(capacity or _ask("Capacity", "on-demand", StarterCapacity)),
        availability_zone=availability_zone,
        lustre_gib=lustre_gib,
        mig=mig,
    )
    write_starter(starter, file, force=force)


def write_starter(starter: Starter, file: Path, *, force: bool) -> None:
    """Write a cluster file, if it is valid: nothing is written before every fault is gone."""
    from cdk_gpu_clusters_stacks.spec import read_cluster, report
    from cdk_gpu_clusters_stacks.starter import starter_text

    text = starter_text(starter)
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder, file.name)
        draft.write_text(text, encoding="utf-8")
        reading = read_cluster(draft)
        findings = [replace(one, path=one.path.replace(str(draft), str(file))) for one in reading.findings]
    report(findings)
    if reading.spec is None:
        output.leave(2)
    files.write_new(file, text, force=force)
    changes = text.count("# CHANGE")
    what = "" if not changes else f"; change the {changes} line{'s'[: changes != 1]} marked CHANGE"
    output.write(f"wrote {file}{what}; then: gpu-clusters plan {file}\n")


def _ask(question: str, default: str, kind: Callable[[str], object] = str) -> str:
    """The answer to a question, asked again until it is of its kind; its default without a terminal."""
    if not sys.stdin.isatty():
        return default
    values = f" ({', '.join(map(str, kind))})" if isinstance(kind, type) and issubclass(kind, StrEnum) else ""
    while True:
        answer = output.ask(f"{question}{values}", default).strip()
        try:
            kind(answer)
        except ValueError:
            output.write(f"{answer!r} is no answer here\n", stderr=True)
        else:
            return answer
