"""Make a cluster file of a file of another tool."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cdk_gpu_clusters.errors import Finding, errors_in
from cdk_gpu_clusters_stacks.spec import read_cluster

from ._rules import NO_FLEET, ORCHESTRATOR
from .draft import Change, Draft, Note
from .eksctl import LOST as LOST_OF_EKSCTL
from .eksctl import deployed_by_eksctl, import_eksctl, is_eksctl, name_of_eksctl
from .foreign import Foreign, Part, read_foreign, unknown_kind
from .group import Group, fleet_name
from .hyperpod import (
    deployed_by_hyperpod,
    import_hyperpod,
    is_hyperpod,
    lost_of_hyperpod,
    name_of_hyperpod,
    words_of_hyperpod,
)
from .hyperpod_cli import (
    deployed_by_hyperpod_cli,
    import_hyperpod_cli,
    is_hyperpod_cli,
    lost_of_hyperpod_cli,
    name_of_hyperpod_cli,
    words_of_hyperpod_cli,
)
from .judge import Deployed, broken_rules
from .network import Place
from .parallelcluster import ORCHESTRATORS as OF_PARALLELCLUSTER
from .parallelcluster import (
    deployed_by_parallelcluster,
    import_parallelcluster,
    is_parallelcluster,
    lost_of_parallelcluster,
)

if TYPE_CHECKING:
    from cdk_gpu_clusters_stacks.preflight import Account

_NO_KEY = "the cluster file has no key for it"


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import gave.

    Attributes:
        tool: The tool that the file is of; empty if it is not known.
        text: The cluster file; None if there is an error among the findings.
        notes: What becomes better, is replaced, is lost or is to be filled in.
        broken: Rules that the file of the tool breaks.
        findings: What is wrong with the file, or with the cluster file that would be made of it; the errors are at
            their lines of the file.
    """

    tool: str
    text: str | None
    notes: tuple[Note, ...]
    broken: tuple[Finding, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class _Tool:
    """A tool whose files are imported.

    Attributes:
        name: Its name.
        wrote: Whether a file is one of it.
        cluster_name: The name of the cluster in a file, or one made of the name of the file.
        orchestrators: The orchestrators that the cluster can become, the first one by default.
        write: Writes a cluster file for one of them, and gives the groups that became fleets.
        deployed: What the tool deploys for these groups, under the name of the cluster.
        lost: Where values are that are lost with an orchestrator, and what becomes of them.
    """

    name: str
    wrote: Callable[[object], bool]
    cluster_name: Callable[[Foreign, str], str]
    orchestrators: Callable[[Foreign], Sequence[str]]
    write: Callable[[Foreign, Draft, Place, str], list[Group]]
    deployed: Callable[[Foreign, Sequence[Group], str], Deployed]
    lost: Callable[[str], Mapping[str, str]]


_TOOLS = (
    _Tool(
        "AWS ParallelCluster",
        wrote=is_parallelcluster,
        cluster_name=lambda _foreign, stem: fleet_name(stem) or "cluster",
        orchestrators=lambda _foreign: OF_PARALLELCLUSTER,
        write=import_parallelcluster,
        deployed=lambda foreign, groups, _name: deployed_by_parallelcluster(foreign, groups),
        lost=lost_of_parallelcluster,
    ),
    _Tool(
        "Amazon SageMaker HyperPod",
        wrote=is_hyperpod,
        cluster_name=name_of_hyperpod,
        orchestrators=words_of_hyperpod,
        write=import_hyperpod,
        deployed=lambda foreign, _groups, name: deployed_by_hyperpod(foreign, name),
        lost=lost_of_hyperpod,
    ),
    _Tool(
        "SageMaker HyperPod CLI",
        wrote=is_hyperpod_cli,
        cluster_name=name_of_hyperpod_cli,
        orchestrators=words_of_hyperpod_cli,
        write=import_hyperpod_cli,
        deployed=lambda foreign, _groups, name: deployed_by_hyperpod_cli(foreign, name),
        lost=lost_of_hyperpod_cli,
    ),
    _Tool(
        "eksctl",
        wrote=is_eksctl,
        cluster_name=lambda foreign, _stem: name_of_eksctl(foreign),
        orchestrators=lambda _foreign: ("eks",),
        write=lambda foreign, draft, place, _word: import_eksctl(foreign, draft, place),
        deployed=lambda foreign, groups, _name: deployed_by_eksctl(foreign, groups),
        lost=lambda _word: LOST_OF_EKSCTL,
    ),
)


def import_file(
    path: Path,
    place: Place,
    *,
    target: Path,
    content: bytes | None = None,
    fill: Mapping[str, str] | None = None,
    orchestrator: str | None = None,
) -> Imported:
    """Make a cluster file of a file of AWS ParallelCluster, eksctl or Amazon SageMaker HyperPod.

    Args:
        path: The file.
        place: What the file does not say. An empty name is made of the file's.
        target: The cluster file that it becomes, for messages.
        content: What the file holds, if it is not to be read, such as standard input.
        fill: Placeholders and their values.
        orchestrator: The `orchestrator` of the cluster file; the usual one for the file if None.

    Example:
        >>> made = import_file(
        ...     Path("pcluster.yaml"),
        ...     Place(name="demo"),
        ...     target=Path("cluster.yaml"),
        ...     content=b"Image: {Os: ubuntu2204}",
        ... )
        >>> made.findings[0].id
        'GPU-IMP-001'
    """
    foreign = read_foreign(path, content=content, fill=fill)
    if foreign.findings:
        return Imported("", None, (), (), tuple(foreign.findings))
    draft = Draft()
    tool = next((one for one in _TOOLS if one.wrote(foreign.document.data)), None)
    if tool is None:
        return Imported("", None, (), (), (unknown_kind(foreign),))
    words = tool.orchestrators(foreign)
    word = orchestrator or words[0]
    if word not in words:
        return Imported(tool.name, None, (), (), (_not_there(tool.name, word, words, foreign.name),))
    named = replace(place, name=place.name or tool.cluster_name(foreign, path.stem))
    groups = tool.write(foreign, draft, named, word)
    deployed = tool.deployed(foreign, groups, named.name)
    if not groups and not foreign.findings:
        foreign.findings.append(_no_fleet(foreign))
    if foreign.findings:
        return Imported(tool.name, None, (), (), _in_order(foreign.findings))
    _note_lost(draft, foreign, tool.lost(word))
    return _checked(tool.name, draft, deployed, target)


def _not_there(tool: str, word: str, words: Sequence[str], file: str) -> Finding:
    return ORCHESTRATOR.finding(
        cause=f"a cluster of {tool} does not become one of this orchestrator",
        got=word,
        allowed=", ".join(words),
        fix=f"give --to {words[0]}, then change `orchestrator` in the cluster file, and run gpu-clusters plan",
        path=f"{file}:1:1",
    )


def _no_fleet(foreign: Foreign) -> Finding:
    return NO_FLEET.finding(
        cause="no group of nodes has a type with accelerators that the catalogue knows",
        got="none",
        allowed="types that `gpu-clusters catalogue` lists",
        fix="for nodes without accelerators, make compute node groups or node groups with the tools of AWS",
        path=f"{foreign.name}:1:1",
    )


def _apart(part: Part, lost: Mapping[str, str]) -> Iterator[Part]:
    """A value that is lost, or the values inside it where some of them have a reason of their own."""
    name = _path(part)
    if not any(one.startswith(f"{name}.") for one in lost):
        yield part
        return
    for child in part.children():
        yield from _apart(child, lost)


def _path(part: Part) -> str:
    """The path of a value without the indexes of lists."""
    return ".".join(str(name) for name in part.key if not isinstance(name, int))


def _why_lost(part: Part, lost: Mapping[str, str]) -> str:
    """The reason at the longest path that fits."""
    name = _path(part)
    while name:
        if found := lost.get(name):
            return found
        name = name.rpartition(".")[0]
    return _NO_KEY


def import_account(
    account: Account, place: Place, *, target: Path, launch_template: str | None = None, group: str | None = None
) -> Imported:
    """Make a cluster file of what an account has. It is only read.

    Args:
        account: The account.
        place: Name of the cluster, and its Region. An empty name is that of the resource.
        target: The cluster file that it becomes, for messages.
        launch_template: Id of a launch template, with `:VERSION` for another than the default version.
        group: Name of an Auto Scaling group.

    Raises:
        Unusable: If the credentials cannot be used.
    """
    from .deployed import LOST, MORE_RULES, as_deployed, import_deployed, read_deployed

    found = read_deployed(account, launch_template=launch_template, group=group)
    foreign, draft = found.foreign, Draft()
    if foreign.findings:
        return Imported("Amazon EC2", None, (), (), tuple(foreign.findings))
    named = replace(place, name=place.name or fleet_name(foreign.name) or "cluster", region=account.region)
    groups = import_deployed(found, draft, named)
    if not groups and not foreign.findings:
        foreign.findings.append(_no_fleet(foreign))
    if foreign.findings:
        return Imported("Amazon EC2", None, (), (), _in_order(foreign.findings))
    _note_lost(draft, foreign, LOST)
    return _checked("Amazon EC2", draft, as_deployed(found, groups), target, more=MORE_RULES)


def _note_lost(draft: Draft, foreign: Foreign, lost: Mapping[str, str]) -> None:
    unread = [inner for part in foreign.unread() for inner in _apart(part, lost)]
    draft.notes += [Note(Change.LOST, part.name, _why_lost(part, lost), part.place) for part in unread]


def _checked(tool: str, draft: Draft, deployed: Deployed, target: Path, *, more: Sequence[str] = ()) -> Imported:
    """Read the cluster file as every command does; its faults are at the lines that they come from."""
    region = str(draft.data["region"])
    text = draft.text()
    keys = [key for _, key in draft.lines()]
    found = list(draft.findings)
    for finding in read_cluster(target, content=text.encode()).findings:
        line = int(finding.path.rsplit(":", 2)[1])
        origin = draft.origin_of(keys[min(line, len(keys)) - 1])
        placed = finding if origin is None or not origin.exists else replace(finding, path=origin.place)
        found.append(placed)
    broken = tuple(broken_rules(deployed, region=region, more=more))
    wrong = bool(errors_in(found))
    return Imported(tool, None if wrong else text, tuple(draft.notes), broken, _in_order(found))


def _in_order(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    def line(finding: Finding) -> tuple[str, int]:
        name, number, _ = finding.path.rsplit(":", 2)
        return name, int(number)

    return tuple(sorted(dict.fromkeys(findings), key=line))
