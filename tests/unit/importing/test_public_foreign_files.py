"""Public files of ParallelCluster, eksctl and HyperPod: `plan` takes what they become, it means the same, and nothing is dropped.

`tests/fixtures/imports/sources.yaml` says where each comes from, and what is filled in for its placeholders.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema
import pytest

from cdk_gpu_clusters.catalogue.instances import instance_types
from cdk_gpu_clusters.rules.capacity import CapacityKind
from cdk_gpu_clusters_stacks.importing.draft import Change, Note
from cdk_gpu_clusters_stacks.importing.eksctl import LOST
from cdk_gpu_clusters_stacks.plan import plan_cluster
from cdk_gpu_clusters_stacks.spec import ClusterSpec, capacity_terms, read_cluster
from cdk_gpu_clusters_stacks.spec.capacity import training_plan_of
from foreign_files import FOLDER, ForeignFile, foreign_files, import_text, imported, sources

FILES = list(foreign_files())
NAMES = [file.name for file in FILES]


def _words(name: str) -> tuple[str, ...]:
    """The orchestrators that a file can become, the first one by default."""
    if name.startswith("parallelcluster/"):
        return ("pcs", "parallelcluster")
    if name.startswith("eksctl/"):
        return ("eks",)
    return ("hyperpod-slurm", "pcs") if "/slurm-" in name else ("hyperpod-eks", "eks")


_FILES = {file.name: file for file in FILES}
#: Every file with each of its words; None for the default.
WAYS = [(name, word if number else None) for name in NAMES for number, word in enumerate(_words(name))]
_LICENCES = {"MIT-0", "MIT", "Apache-2.0"}


@cache
def _cluster(name: str, orchestrator: str | None = None) -> ClusterSpec:
    made = imported(name, orchestrator)
    assert made.text is not None, made.findings
    reading = read_cluster("cluster.yaml", content=made.text.encode())
    assert reading.spec is not None, reading.findings
    return reading.spec


def test_there_are_thirty_files_each_with_its_source_and_a_permissive_licence() -> None:
    kept = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file()}
    assert kept == {*sources(), "sources.yaml"}
    assert len(FILES) >= 30
    for name, source in sources().items():
        assert source["licence"] in _LICENCES, name
        assert len(source["commit"]) == 40, name
        assert source["repository"].count("/") == 1, name
        assert source["path"], name


@pytest.mark.parametrize(("name", "word"), WAYS)
def test_plan_takes_the_cluster_file_of(name: str, word: str | None) -> None:
    spec, made = _cluster(name, word), imported(name, word)
    assert spec.orchestrator == (word or _words(name)[0])
    assert plan_cluster(spec).fleets
    assert made.text is not None
    assert made.text.count("# CHANGE") == sum(note.change is Change.FILLED for note in made.notes)


# It means the same. What the file asks for is read from it by other code than that of the import.

_ACCELERATED = {name for name, kind in instance_types().items() if kind.accelerator is not None}
_EFA = {name for name, kind in instance_types().items() if kind.supports_efa}
Asked = tuple[str, int, CapacityKind | str, bool]


def _asked_of_parallelcluster(values: Any) -> Iterator[Asked]:
    for queue in values["Scheduling"]["SlurmQueues"]:
        for one in queue["ComputeResources"]:
            kind = one.get("InstanceType") or one["Instances"][0]["InstanceType"]
            if kind in _ACCELERATED:
                reserved = one.get("CapacityReservationTarget") or queue.get("CapacityReservationTarget")
                market = CapacityKind.RESERVATION if reserved else CapacityKind.ON_DEMAND
                efa = bool(one.get("Efa", {}).get("Enabled")) and kind in _EFA
                yield kind, one["MaxCount"], market, efa


def _asked_of_eksctl(values: Any) -> Iterator[Asked]:
    for one in [*values.get("managedNodeGroups", ()), *values.get("nodeGroups", ())]:
        kind = one.get("instanceType") or one["instancesDistribution"]["instanceTypes"][0]
        if kind not in _ACCELERATED:
            continue
        market, count = CapacityKind.ON_DEMAND, one["maxSize"]
        if "instanceMarketOptions" in one:
            market, count = CapacityKind.CAPACITY_BLOCK, one["desiredCapacity"]
        elif "capacityReservation" in one:
            market = CapacityKind.RESERVATION
        elif one.get("instancesDistribution"):
            market = CapacityKind.SPOT
        yield kind, count, market, bool(one.get("efaEnabled")) and kind in _EFA


def _asked_of_hyperpod(values: Any) -> Iterator[Asked]:
    for one in values.get("InstanceGroups") or values["instance_group_settings"]:
        kind = one["InstanceType"].removeprefix("ml.")
        if kind in _ACCELERATED:
            market = one.get("TrainingPlanArn", CapacityKind.ON_DEMAND)
            market = CapacityKind.SPOT if "Spot" in one.get("CapacityRequirements", ()) else market
            yield kind, one["InstanceCount"], market, kind in _EFA


_ASKED = {
    "parallelcluster": _asked_of_parallelcluster,
    "eksctl": _asked_of_eksctl,
    "hyperpod": _asked_of_hyperpod,
    "hyperpod-cli": _asked_of_hyperpod,
}


def _made(spec: ClusterSpec) -> list[Asked]:
    """Fleets, with those that AWS PCS wants apart put together again."""
    totals: dict[str, Asked] = {}
    for name, fleet in spec.training.fleets.items():
        whole = name.removesuffix("-static").removesuffix("-dynamic")
        before = totals[whole][1] if whole in totals else 0
        kind = training_plan_of(fleet.capacity) or capacity_terms(fleet.capacity).kind
        totals[whole] = (fleet.instance_type, before + fleet.maximum_nodes, kind, bool(fleet.efa))
    return sorted(totals.values(), key=str)


@pytest.mark.parametrize(("name", "word"), WAYS)
def test_types_counts_capacity_and_efa_are_those_of(name: str, word: str | None) -> None:
    asked: Iterator[Asked] = _ASKED[name.partition("/")[0]](_FILES[name].values)
    if word in ("eks", "pcs"):  # a training plan, which serves SageMaker only, becomes a block
        asked = ((kind, count, _outside(market), efa) for kind, count, market, efa in asked)
    assert _made(_cluster(name, word)) == sorted(asked, key=str)


def _outside(market: CapacityKind | str) -> CapacityKind:
    return (
        CapacityKind.CAPACITY_BLOCK if isinstance(market, str) and market.startswith("arn:") else CapacityKind(market)
    )


@pytest.mark.parametrize("word", [None, "parallelcluster"])
@pytest.mark.parametrize("file", list(foreign_files("parallelcluster/")), ids=lambda file: file.name)
def test_directories_are_mounted_where_the_file_mounts_them(file: ForeignFile, word: str | None) -> None:
    """The head node of ParallelCluster shares its /home."""
    points = {one["MountDir"] for one in file.values.get("SharedStorage", ())}
    for fleet in _cluster(file.name, word).training.fleets.values():
        assert {*fleet.mounts} == points | ({"/home"} if word is None else set())


# Nothing is dropped.


#: Keys whose mappings have names of their own.
_FREE = ("tags", "labels", "public", "private")


def _with_unknown_keys(text: str) -> tuple[list[str], list[int]]:
    """A file with an unknown key in every mapping, and the lines of those keys."""
    given = text.splitlines()
    lines: list[str] = []
    for index, line in enumerate(given):
        lines.append(line)
        following = given[index + 1] if index + 1 < len(given) else ""
        opens = re.fullmatch(r" *(?:- )?(\w+):\s*(?:#.*)?", line)
        if opens and opens[1] not in _FREE and re.match(r" +[A-Za-z]", following):
            lines.append(f"{' ' * _indent(following)}nobodyHasThis: 1")
    return lines, [number for number, line in enumerate(lines, 1) if "nobodyHasThis" in line]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _with_unknown_keys_as_json(values: Any) -> tuple[list[str], list[int]]:
    lines = json.dumps(_more(values), indent=2).splitlines()
    return lines, [number for number, line in enumerate(lines, 1) if "nobodyHasThis" in line]


def _more(value: Any) -> Any:
    if isinstance(value, dict):
        return {"nobodyHasThis": 1, **{key: _more(one) for key, one in value.items()}}
    return [_more(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("name", "word"), WAYS)
def test_a_key_that_no_tool_has_is_lost_with_its_line(name: str, word: str | None) -> None:
    """In every mapping of the file: by itself, or with what is around it."""
    file = _FILES[name]
    if file.name.startswith("hyperpod"):
        lines, unknown = _with_unknown_keys_as_json(file.values)
    else:
        lines, unknown = _with_unknown_keys(file.text)
    made = import_text("\n".join(lines), orchestrator=word)
    assert made.text is not None, made.findings
    said = [int(note.place.rsplit(":", 2)[1]) for note in made.notes if _is_gone(note) and note.place]
    assert unknown
    for line in unknown:
        assert any(_is_inside(line, first, lines) for first in said), lines[line - 2 : line]


def _is_gone(note: Note) -> bool:
    return note.change in (Change.LOST, Change.REPLACED)


def _is_inside(line: int, first: int, lines: list[str]) -> bool:
    """Whether a line is the first one of a value, or below it and further to the right."""
    below = [text for text in lines[first:line] if text.strip() and not text.lstrip().startswith("#")]
    return first <= line and all(_indent(text) > _indent(lines[first - 1]) for text in below)


# eksctl's own schema is the oracle of its files, and of the keys that the import speaks of.


@cache
def _schema() -> Any:
    return json.loads((FOLDER / "eksctl.schema.json").read_text("utf-8"))


def _unknown(fault: Any) -> set[str]:
    return set(fault.instance) - set(fault.schema["properties"])


@pytest.mark.parametrize("file", list(foreign_files("eksctl/")), ids=lambda file: file.name)
def test_eksctl_takes_the_file_or_refuses_keys_that_are_listed_as_lost(file: ForeignFile) -> None:
    validator = jsonschema.validators.validator_for(_schema())(_schema())
    lost = {note.what for note in imported(file.name).notes if note.change is Change.LOST}
    for fault in validator.iter_errors(file.values):
        assert fault.validator == "additionalProperties", fault.message
        above = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault.absolute_path)
        for name in _unknown(fault):
            path = f"{above}.{name}".lstrip(".")
            assert any(path.startswith(one) for one in lost), path


@pytest.mark.parametrize("path", LOST)
def test_eksctl_has_the_key_that_is_said_to_be_lost(path: str) -> None:
    place = _schema()["definitions"]["ClusterConfig"]
    for name in path.split("."):
        place = place["properties"].get(name) if "properties" in place else None
        assert place is not None, path
        place = place.get("items", place)
        place = _schema()["definitions"][place["$ref"].rpartition("/")[2]] if "$ref" in place else place
