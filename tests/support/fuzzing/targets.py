"""What is fuzzed: each target changes inputs of the repository, and runs a program over them as a user would."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from cdk_gpu_clusters.catalogue.xids import node_xids
from cdk_gpu_clusters.node.gpunode import command
from cdk_gpu_clusters.node.gpunode.checks.verify import as_json, as_table, checks_of, verify, worst
from cdk_gpu_clusters.node.gpunode.command import Outcome
from cdk_gpu_clusters.node.gpunode.node import Aws, Metadata, Node, Settings
from cdk_gpu_clusters.node.gpunode.watch.kernel import KernelLog, XidTable, symptom_of
from cdk_gpu_clusters_stacks import preflight
from cdk_gpu_clusters_stacks.cli import capacity
from cdk_gpu_clusters_stacks.cli.main import main
from cluster_files.inference import EVERYTHING, MINIMAL, PUBLIC
from foreign_files import foreign_files
from fuzzing.engine import Target
from fuzzing.mutation import changed_text, changed_value
from preflight_account import EXISTING, NEW, healthy
from rule_fixtures import rule_fixtures
from tool_output import samples

_EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


@cache
def _cluster_files() -> list[str]:
    return [file.read_text("utf-8") for file in sorted(_EXAMPLES.glob("*.yaml"))] + [MINIMAL, EVERYTHING, PUBLIC]


@cache
def _templates() -> list[str]:
    return [text for one in rule_fixtures().values() for text in (one.bad, one.good)]


def _write(file: Path, text: str) -> Path:
    file.write_text(text, encoding="utf-8", errors="surrogatepass")
    return file


def _traps(folder: Path) -> Path:
    """A folder with what a stranger may put beside a file."""
    own = folder / "own"
    own.mkdir()
    os.mkfifo(own / "fifo")
    (own / "link").symlink_to("/etc/shadow")
    (own / "zero").symlink_to("/dev/zero")
    (folder / "secret").write_text("#!/bin/sh\nroot:$6$secret\n")
    (own / "dev-tools.sh").write_text("#!/bin/sh\n")
    return own


def cluster_file(folder: Path, random: Random) -> None:
    """`plan`, `manifests` and the check of cluster files."""
    own, seeds = _traps(folder), _cluster_files()
    text = changed_text(random.choice(seeds), seeds, random)
    if random.random() < 0.3:
        text = text.replace("dev-tools.sh", random.choice(("../secret", "link", "zero", "fifo", "/etc/shadow", ".")))
    file = _write(own / "cluster.yaml", text)
    commands = (
        ["plan", str(file)],
        ["plan", str(file), "--json"],
        ["plan", str(_write(own / "old.yaml", random.choice(seeds))), "--against", str(file)],
        ["manifests", str(file), "--json"],
        ["preflight", str(file), "--print-policy"],
    )
    _status(random.choice(commands))


@cache
def _foreign_files() -> list[str]:
    return [file.text for file in foreign_files()]


def foreign_file(folder: Path, random: Random) -> None:
    """`import` of files of other tools."""
    text = changed_text(random.choice(_foreign_files()), _foreign_files(), random)
    file, made = _write(folder / "theirs.yaml", text), folder / "cluster.yaml"
    form = random.choice(([], ["--json"]))
    _status(["import", str(file), "-o", str(made), *form])
    assert not made.exists() or main(["plan", str(made)]) == 0


def template(folder: Path, random: Random) -> None:
    """`lint` of templates, and of files that accept findings."""
    seeds = _templates()
    text = random.choice(seeds)
    if random.random() < 0.5:
        text = changed_text(text, seeds, random)
    else:
        try:
            text = json.dumps(changed_value(json.loads(text), random))
        except ValueError:
            text = changed_text(text, seeds, random)
    file = _write(folder / "one.template.json", text)
    arguments = ["lint", str(file), "--format", random.choice(("human", "json", "sarif", "junit"))]
    if random.random() < 0.2:
        accepted = changed_text("acknowledge:\n- { id: GPU-LT-010, reason: why, resource: A }\n", seeds, random)
        arguments += ["--acknowledgements", str(_write(folder / "accepted.yaml", accepted))]
    _status(arguments)


_MANIFEST = {
    "version": "36.0.0",
    "artifacts": {
        "one": {
            "type": "aws:cloudformation:stack",
            "environment": "aws://unknown-account/us-east-1",
            "properties": {"templateFile": "one.template.json", "stackName": "one"},
            "metadata": {"/one/A": [{"type": "aws:cdk:logicalId", "data": "A"}]},
            "additionalMetadataFile": "one.metadata.json",
        },
        "stage": {"type": "cdk:cloud-assembly", "properties": {"directoryName": "stage"}},
    },
}
_METADATA = {"/one/A": [{"type": "aws:cdk:acknowledged-rules", "data": {"GpuClusterRules::GPU-LT-010": "why"}}]}


def manifest(folder: Path, random: Random) -> None:
    """`lint` of the folder that a CDK app writes."""
    own = _traps(folder)
    (own / "stage").mkdir()
    _write(own / "stage/manifest.json", "{}")
    _write(own / "one.template.json", random.choice(_templates()))
    made, metadata = _MANIFEST, _METADATA
    for _ in range(random.randint(1, 3)):
        made, metadata = changed_value(made, random), changed_value(metadata, random)
    _write(own / "manifest.json", json.dumps(made))
    _write(own / "one.metadata.json", json.dumps(metadata))
    _status(["lint", str(own)])


@cache
def _outputs() -> list[str]:
    tools = ("nvidia_smi", "neuron", "efa", "fabric", "lustre", "kubectl_slurm", "systemd", "aws_cli")
    return [sample.text for tool in tools for sample in samples(tool)]


@cache
def _messages() -> list[str]:
    return [line for sample in samples("kernel") for line in sample.text.splitlines()]


_NODE: tuple[dict[str, str], ...] = (
    {"accelerator": "gpu", "accelerator_count": "8", "gpu_model": "H100", "efa": "4"},
    {"accelerator": "gpu", "accelerator_count": "8", "mig_count": "2"},
    {"accelerator": "neuron", "accelerator_count": "16"},
)


def tool_output(folder: Path, random: Random) -> None:
    """`gpunode verify` over what tools print, and the messages of a kernel."""
    node = Node(Settings(random.choice(_NODE)), Metadata(), "i-1", Aws("us-east-1"))

    def run(*_arguments: str, **_options: Any) -> Outcome:
        printed = random.choice(_outputs())
        if random.random() < 0.7:
            printed = changed_text(printed, _outputs(), random)
        return Outcome(random.choice((0, 0, 0, 1, 15, 127)), printed, random.choice(("", "warning: \x1b[31mred\n")))

    with _of_node(folder), _programs(run):
        results = verify(node, checks_of(node))
    sys.stdout.write(as_table(results) + "\n" + as_json(results, worst(results), node.instance_id) + "\n")
    broken = [result.found for result in results if "the check itself failed" in result.found]
    assert not broken, broken
    _kernel(folder, random)


def _kernel(folder: Path, random: Random) -> None:
    lines = [changed_text(random.choice(_messages()), _messages(), random) for _ in range(20)]
    records = "".join(f"4,{number},1,-;{line}\n" for number, line in enumerate(lines))
    table = XidTable.from_text(node_xids())
    for record in KernelLog(path=_write(folder / "kmsg", records)).read():
        symptom = symptom_of(record, table)
        sys.stdout.write(f"{symptom.reason if symptom else ''}\n")


@contextmanager
def _of_node(folder: Path) -> Iterator[None]:
    with patch.dict(os.environ, {"GPU_CLUSTER_ROOT": str(folder)}):
        yield


@contextmanager
def _programs(run: Any) -> Iterator[None]:
    """Programs of the node give what `run` makes."""
    original = command.run
    users = [one for one in list(sys.modules.values()) if getattr(one, "run", None) is original]
    for user in users:
        user.run = run  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for user in users:
            user.run = original  # type: ignore[attr-defined]


_START = datetime(2026, 12, 1, 11, 30, tzinfo=UTC)
_BLOCK = {
    "CapacityBlockOfferingId": "cb-1",
    "InstanceType": "p5.48xlarge",
    "AvailabilityZone": "us-east-1a",
    "InstanceCount": 16,
    "StartDate": _START,
    "EndDate": _START + timedelta(hours=336),
    "CapacityBlockDurationHours": 336,
    "UpfrontFee": "5.00",
    "CurrencyCode": "USD",
}
_BOUGHT = {
    "CapacityReservation": {
        "CapacityReservationId": "cr-0123456789abcdef0",
        "State": "payment-pending",
        "InstanceType": "p5.48xlarge",
        "TotalInstanceCount": 16,
        "AvailabilityZone": "us-east-1a",
        "StartDate": _START,
        "EndDate": _START + timedelta(hours=336),
    }
}
_PAGES: Mapping[str, Any] = {
    "describe_capacity_block_offerings": {"CapacityBlockOfferings": [_BLOCK]},
    "describe_instance_type_offerings": {
        "InstanceTypeOfferings": [{"InstanceType": "p5.48xlarge", "Location": "us-east-1a"}]
    },
    "describe_spot_price_history": {
        "SpotPriceHistory": [
            {"AvailabilityZone": "us-east-1a", "SpotPrice": "12.5", "Timestamp": _START, "AvailabilityZoneId": "a"}
        ]
    },
    "get_spot_placement_scores": {
        "SpotPlacementScores": [{"Region": "us-east-1", "AvailabilityZoneId": "a", "Score": 3}]
    },
}


class _Ec2:
    """An EC2 whose answers are changed."""

    def __init__(self, random: Random) -> None:
        self._random, self._method = random, ""

    def __call__(self, _region: str) -> _Ec2:
        return self

    def get_paginator(self, method: str) -> _Ec2:
        self._method = method
        return self

    def paginate(self, **_asked: Any) -> list[Any]:
        return [self._answer(_PAGES[self._method])]

    def purchase_capacity_block(self, **_asked: Any) -> Any:
        return self._answer(_BOUGHT)

    def _answer(self, whole: Any) -> Any:
        # botocore's parsers give a mapping of the members that the answer has.
        changed = changed_value(whole, self._random) if self._random.random() < 0.7 else whole
        return changed if isinstance(changed, dict) else {}


def aws_answer(folder: Path, random: Random) -> None:
    """`capacity` and `preflight` over answers of AWS."""
    if random.random() < 0.6:
        asked = ["--type", "p5.48xlarge", "--count", "16", "--duration", "14d", "--regions", "us-east-1"]
        commands = (
            ["search", *asked],
            ["search", *asked, "--json"],
            ["buy", "cb-1", *asked, "--yes", "--max-price", "9"],
        )
        with patch.object(capacity, "_clients", lambda *_, **__: _Ec2(random)):
            _status(["capacity", *random.choice(commands)])
        return
    file = _write(folder / "cluster.yaml", random.choice((NEW, EXISTING)))
    aws = healthy()
    for name in random.sample(sorted(aws.answers), 3):
        aws.answers[name] = _changed_answer(aws.answers[name], random)
    with patch.object(preflight, "boto3_clients", lambda *_, **__: aws.clients):
        _status(["preflight", str(file)])


def _changed_answer(answer: Any, random: Random) -> Any:
    seed = random.random()

    def changed(parameters: Any) -> Any:
        whole = answer(parameters) if callable(answer) else answer
        return _texts_changed(whole, Random(seed))

    return changed


def _texts_changed(value: Any, random: Random) -> Any:
    """An answer that still has the shape of the API: other texts, fewer members."""
    if isinstance(value, dict):
        return {key: _texts_changed(one, random) for key, one in value.items() if random.random() > 0.05}
    if isinstance(value, list):
        return [_texts_changed(one, random) for one in value if random.random() > 0.05]
    if isinstance(value, str) and random.random() < 0.1:
        return changed_text(value, [value], random)
    return value


def _status(arguments: list[str]) -> None:
    """Run the command; only its exit status may end it."""
    try:
        main(arguments)
    except SystemExit as end:
        if end.code not in (None, 0, 1, 2):
            raise


TARGETS: Mapping[str, Target] = {
    one.__name__.replace("_", "-"): one
    for one in (cluster_file, foreign_file, template, manifest, tool_output, aws_answer)
}
