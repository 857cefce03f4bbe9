"""`gpu-clusters init`: a first cluster file or a project, from flags, questions or an example."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer.core import TyperCommand

from cdk_gpu_clusters.catalogue.instances import instance_type
from cdk_gpu_clusters.catalogue.regions import region as region_of
from cdk_gpu_clusters.errors import ConfigError

from . import complete, files, output
from .group import examples, new_app

if TYPE_CHECKING:
    from typer._click import Context

    from cdk_gpu_clusters.errors import Finding
    from cdk_gpu_clusters_stacks.starter import Starter

_Capacity = Literal["on-demand", "spot", "reservation", "capacity-block"]
_Purpose = Literal["train", "serve"]
_Orchestrator = Literal["ec2", "eks", "pcs"]
_CLUSTER_FILE = "cluster.yaml"
#: Options whose value may be left out, and what they mean then.
_WITHOUT_VALUE = {"--app": ".", "--example": ""}

app = new_app()


class _Init(TyperCommand):
    """A command with options whose value may be left out."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Read the arguments, with the values that were left out."""
        words: list[str] = []
        for word, following in zip_longest(args, args[1:], fillvalue="--"):
            words.append(word)
            if word in _WITHOUT_VALUE and following.startswith("-"):
                words.append(_WITHOUT_VALUE[word])
        return super().parse_args(ctx, words)


@app.command(
    cls=_Init,
    epilog=examples(
        "gpu-clusters init",
        "gpu-clusters init --app my-cluster",
        "gpu-clusters init --app my-slurm-cluster --orchestrator pcs",
        "gpu-clusters init --example p5-lustre",
        "gpu-clusters init --name llama --type p5.48xlarge --nodes 16 --capacity capacity-block",
    ),
)
def init(
    name: Annotated[str | None, typer.Option(help="Name of the cluster.")] = None,
    region: Annotated[
        str | None, typer.Option(help="Region, such as us-east-1.", autocompletion=complete.regions)
    ] = None,
    type_name: Annotated[
        str | None, typer.Option("--type", help="Instance type of the nodes.", autocompletion=complete.instance_types)
    ] = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="Number of nodes.")] = None,
    purpose: Annotated[_Purpose | None, typer.Option(help="What the nodes do.")] = None,
    orchestrator: Annotated[
        _Orchestrator | None,
        typer.Option(help="What the nodes join: nothing (ec2), Kubernetes (eks) or Slurm (pcs)."),
    ] = None,
    capacity: Annotated[_Capacity | None, typer.Option(help="Where the nodes come from.")] = None,
    availability_zone: Annotated[str | None, typer.Option("--zone", help="Zone of the nodes.")] = None,
    lustre_gib: Annotated[
        int | None, typer.Option(min=1, help="Size of a shared FSx for Lustre file system, in GiB.")
    ] = None,
    mig: Annotated[str | None, typer.Option(help="MIG layout of each GPU, such as 3g.20gb,3g.20gb.")] = None,
    project: Annotated[
        Path | None,
        typer.Option(
            "--app", metavar="[FOLDER]", help="Write a CDK project: app, cdk.json, test, README. Default: this folder."
        ),
    ] = None,
    python: Annotated[bool, typer.Option("--python", help="With --app: an app in Python, no cluster file.")] = False,
    example: Annotated[
        str | None,
        typer.Option(
            metavar="[NAME]",
            help="Start from a complete example; without NAME, list them.",
            autocompletion=complete.examples,
        ),
    ] = None,
    file: Annotated[Path | None, typer.Option("--output", "-o", help="File to write. Default: cluster.yaml.")] = None,
    force: files.Force = False,
) -> None:
    """Write a commented cluster file. What no flag gives is asked for on a terminal, and has its default elsewhere."""
    if example == "":
        _list_examples()
        return
    if project is not None and file is not None:
        output.refuse("init: --app writes a folder; leave out --output")
    if python and (project is None or example is not None):
        output.refuse("init: --python needs --app, and goes with no --example")
    if example is not None:
        made = _of_example(example)
    else:
        given = _Answers(
            name=name,
            region=region,
            type_name=type_name,
            nodes=nodes,
            purpose=purpose,
            orchestrator=orchestrator,
            capacity=capacity,
            zone=availability_zone,
            lustre_gib=lustre_gib,
            mig=mig,
        )
        starter, text = _valid_starter(given, file or (project or Path()) / _CLUSTER_FILE)
        if python:
            _refuse_in_python(starter)
            _write_project(project or Path(), starter, force=force)
            return
        made = {_CLUSTER_FILE: text}
    if project is not None:
        _write_project(project, made, force=force)
    else:
        _write_cluster(made, file or Path(_CLUSTER_FILE), force=force)


# What the cluster file is made of: flags, then answers, then defaults.


@dataclass(slots=True, kw_only=True)
class _Answers:
    """What flags and answers gave so far."""

    name: str | None
    region: str | None
    type_name: str | None
    nodes: int | None
    purpose: _Purpose | None
    orchestrator: _Orchestrator | None
    capacity: _Capacity | None
    zone: str | None
    lustre_gib: int | None
    mig: str | None


def _valid_starter(given: _Answers, file: Path) -> tuple[Starter, str]:
    """A starter without faults, and its text. On a terminal, answers that do not go together are asked for again."""
    from cdk_gpu_clusters_stacks.starter import starter_text

    last: Starter | None = None
    while True:
        last = _ask_all(given, last)
        text = starter_text(last)
        findings = _findings(text, file)
        if not output.report(findings):
            return last, text
        if not sys.stdin.isatty() or not _can_be_asked(given):
            output.leave(2)
        output.write("\nThese answers do not go together. Change them; Enter keeps one:\n", stderr=True)


def _can_be_asked(given: _Answers) -> bool:
    asked = (given.name, given.region, given.type_name, given.nodes, given.purpose, given.orchestrator, given.capacity)
    return None in asked


def _ask_all(given: _Answers, last: Starter | None) -> Starter:
    from cdk_gpu_clusters_stacks.starter import Purpose, Starter, StarterCapacity, StarterOrchestrator

    region = given.region or _ask("Region", last.region if last else "us-east-1", region_of)
    type_name = given.type_name or _ask("Instance type", last.instance_type if last else "g6.xlarge", instance_type)
    instance_type(type_name)  # raises, with the nearest names
    if sys.stdin.isatty():
        output.write(f"  {_in_words(type_name, region)}\n", stderr=True)
    servers = instance_type(type_name).ultraservers
    usual_nodes = last.nodes if last else servers[0].instance_count if servers else 1
    usual_capacity = last.capacity if last else "capacity-block" if servers else "on-demand"
    return Starter(
        name=given.name or _ask("Name of the cluster", last.name if last else "cluster"),
        region=region,
        instance_type=type_name,
        nodes=given.nodes or int(_ask("Nodes", str(usual_nodes), _count)),
        purpose=Purpose(given.purpose or _ask("Purpose", str(last.purpose if last else "train"), Purpose)),
        orchestrator=StarterOrchestrator(
            given.orchestrator or _ask("Orchestrator", str(last.orchestrator if last else "ec2"), StarterOrchestrator)
        ),
        capacity=StarterCapacity(given.capacity or _ask("Capacity", str(usual_capacity), StarterCapacity)),
        availability_zone=given.zone,
        lustre_gib=given.lustre_gib,
        mig=given.mig,
    )


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _in_words(type_name: str, region: str) -> str:
    """What a type is and costs, in a line."""
    from cdk_gpu_clusters.catalogue.prices import newest_price

    found = instance_type(type_name).accelerator
    what = "no accelerators" if found is None else f"{found.logical_count} x {found.marketing_name or found.name}"
    price = newest_price(type_name, region)
    cost = "no list price known" if price is None else f"{price.usd:,.2f} USD an hour each on demand ({price.as_of})"
    return f"{type_name}: {what}, {cost}"


def _ask(question: str, default: str, kind: Callable[[str], object] = str) -> str:
    """The answer to a question, asked again until it is of its kind; its default without a terminal."""
    if not sys.stdin.isatty():
        return default
    values = f" ({', '.join(map(str, kind))})" if isinstance(kind, type) and issubclass(kind, StrEnum) else ""
    while True:
        answer = output.ask(f"{question}{values}", default).strip()
        try:
            kind(answer)
        except ConfigError as fault:
            output.report(fault.findings)
        except ValueError:
            output.write(f"{answer!r} is no answer here\n", stderr=True)
        else:
            return answer


def _findings(text: str, file: Path) -> tuple[Finding, ...]:
    """What reading a cluster file would find, with the path that it will have."""
    from cdk_gpu_clusters_stacks.spec import read_cluster

    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder, _CLUSTER_FILE)
        draft.write_text(text, encoding="utf-8")
        reading = read_cluster(draft)
    return tuple(replace(one, path=one.path.replace(str(draft), str(file))) for one in reading.findings)


# Examples.


def _list_examples() -> None:
    from cdk_gpu_clusters_stacks.project import examples

    output.write_table(("example", "shows"), ((one.name, one.summary) for one in examples().values()))
    output.write("\ngpu-clusters init --example NAME writes one as cluster.yaml; --app FOLDER makes a project of it\n")


def _of_example(name: str) -> dict[str, str]:
    from cdk_gpu_clusters_stacks.project import example, nearest

    found = example(name)
    if found is None:
        near = nearest(name)
        hint = f"did you mean {' or '.join(near)}?" if near else "gpu-clusters init --example lists them"
        output.refuse(f"init: there is no example {name}; {hint}")
    return found.files()


# Write.


def write_starter(starter: Starter, file: Path, *, force: bool) -> None:
    """Write a cluster file, if it is valid: nothing is written before every fault is gone."""
    from cdk_gpu_clusters_stacks.starter import starter_text

    text = starter_text(starter)
    if output.report(_findings(text, file)):
        output.leave(2)
    _write_cluster({_CLUSTER_FILE: text}, file, force=force)


def _write_cluster(made: Mapping[str, str], file: Path, *, force: bool) -> None:
    """Write a cluster file and what it names beside it, or to standard output if it names nothing."""
    if str(file) == output.STREAM:
        more = ", ".join(name for name in made if name != _CLUSTER_FILE)
        if more:
            output.refuse(f"init: it comes with {more}: give the file to write")
        output.write(made[_CLUSTER_FILE])
        return
    targets = {file.parent / name if name != _CLUSTER_FILE else file: text for name, text in made.items()}
    _refuse_existing(targets, force=force)
    for target, text in targets.items():
        files.write_new(target, text, force=force)
    output.write(f"wrote {', '.join(map(str, targets))}{_marked(made)}; then: gpu-clusters plan {file}\n")


def _write_project(folder: Path, cluster: Mapping[str, str] | Starter, *, force: bool) -> None:
    from cdk_gpu_clusters_stacks.project import project_files

    made = project_files(cluster)
    targets = {folder / path: text for path, text in made.items()}
    _refuse_existing(targets, force=force)
    for target, text in targets.items():
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as fault:
            files.cannot_write(target, fault)
        files.write_new(target, text, force=force)
    output.write("".join(f"{target}\n" for target in targets))
    output.write(f"wrote a CDK project{_marked(made)}; then follow {folder / 'README.md'}\n")


def _refuse_existing(targets: Mapping[Path, str], *, force: bool) -> None:
    """Name every file that would be replaced, before one is written."""
    existing = [str(target) for target in targets if os.path.lexists(target)]
    if existing and not force:
        exist = "exists" if len(existing) == 1 else "exist"
        output.refuse(f"{', '.join(existing)} {exist}; --force writes over {'it' if exist == 'exists' else 'them'}")


def _marked(made: Mapping[str, str]) -> str:
    changes = sum(text.count("# CHANGE") for text in made.values())
    return "" if not changes else f"; change the {changes} line{'s'[: changes != 1]} marked CHANGE"


def _refuse_in_python(starter: Starter) -> None:
    if starter.orchestrator.value == "eks":
        output.refuse("init: --python writes apps for plain EC2 and AWS PCS; take a cluster file for EKS")
    if starter.orchestrator.value == "pcs" and starter.is_ultraserver:
        output.refuse("init: --python writes no UltraServers for AWS PCS; take a cluster file")
    if starter.purpose.value == "serve" or starter.mig or starter.lustre_gib:
        output.refuse(
            "init: --python writes training fleets only; take a cluster file for serving, --mig or --lustre-gib"
        )
