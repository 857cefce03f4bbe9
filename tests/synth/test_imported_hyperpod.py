"""Imported files of HyperPod, as templates: each field is that of the file, or the report names it.

The original files, and botocore's service model of CreateCluster, say what a cluster has. CloudFormation has the same
names for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator

from cdk_gpu_clusters_stacks.app import build_cluster
from cdk_gpu_clusters_stacks.importing.draft import Change, Note
from cdk_gpu_clusters_stacks.spec import ClusterSpec, read_cluster
from foreign_files import foreign_files, import_text, imported
from hyperpod_requests import LUSTRE, OPENZFS, PLAN_ARN, group, request

Path_ = tuple[str, ...]
Fields = dict[Path_, Any]
FILES = list(foreign_files("hyperpod"))
#: Fields that the library adds to a group: its script, its label or partition, and the layout of interfaces.
ADDED = {"LifeCycleConfig", "KubernetesConfig", "SlurmConfig", "NetworkInterface"}
#: Directories of a file that names none: Amazon SageMaker API reference, ClusterFsxLustreConfig, ClusterFsxOpenZfsConfig.
DEFAULTS: dict[tuple[str, ...], str] = {
    ("FsxLustreConfig", "MountPath"): "/fsx",
    ("FsxOpenZfsConfig", "MountPath"): "/home",
}
#: A cluster with what the public files do not have.
MORE = json.dumps(
    request(
        group("head", InstanceType="ml.m7i.8xlarge", InstanceCount=1, SlurmConfig={"NodeType": "Controller"}),
        group("people", InstanceType="ml.m7i.xlarge", InstanceCount=2, SlurmConfig={"NodeType": "Login"},
              InstanceStorageConfigs=[LUSTRE]),
        group("a", SlurmConfig={"NodeType": "Compute", "PartitionNames": ["gpu"]}, ThreadsPerCore=1, MinInstanceCount=2,
              NetworkInterface={"InterfaceType": "efa-only"}, TrainingPlanArn=PLAN_ARN,
              InstanceStorageConfigs=[{"EbsVolumeConfig": {"VolumeSizeInGB": 500}}, LUSTRE, OPENZFS]),
        group("b", InstanceType="ml.g6e.12xlarge", CapacityRequirements={"Spot": {}},
              OnStartDeepHealthChecks=["InstanceStress"], ImageId="ami-0a1b2c3d4e5f60717"),
        Orchestrator={"Slurm": {"SlurmConfigStrategy": "Managed", "AccountingDatabase": {
            "Endpoint": "db.example.com", "Port": 3307, "Name": "jobs",
            "SecretArn": "arn:aws:secretsmanager:us-west-2:111122223333:secret:slurm-AbCdEf"}}},
        NodeProvisioningMode="Continuous",
        Tags=[{"Key": "team", "Value": "research"}],
    )
)  # fmt: skip


@dataclass(frozen=True)
class Made:
    """An imported file: its fields, those of the template, and what was said about it."""

    asked: Fields
    template: Fields
    properties: Mapping[str, Any]
    notes: tuple[Note, ...]
    spec: ClusterSpec
    names: tuple[str, ...]

    def told(self, path: Path_) -> bool:
        """Whether the report names the field, or something around it."""
        shown = [path, *(path[:length] for length in range(1, len(path)))]
        return any(self.path_of(note) in shown for note in self.notes if note.change is not Change.FILLED)

    def to_fill_in(self, path: Path_) -> bool:
        """Whether the field is a placeholder, which the report repeats."""
        values = [str(one) for one in (self.asked[path] if isinstance(self.asked[path], tuple) else [self.asked[path]])]
        texts = [note.text for note in self.notes if note.change is Change.FILLED]
        return all(any(f"(the file has {value or 'none'})" in text for text in texts) for value in values)

    def path_of(self, note: Note) -> Path_:
        """The path of the field that a note is about, with names of groups in place of their numbers."""
        words = re.findall(r"[\w-]+|\[\d+\]", _in_requests_words(note.what))
        found: list[str] = []
        for word in words:
            is_group = word.startswith("[") and found == ["InstanceGroups"]
            if not word.startswith("["):
                found.append(word)
            elif is_group:
                found.append(self.names[int(word[1:-1])])
        return tuple(found)


_OF_CLI = {
    "instance_group_settings": "InstanceGroups",
    "node_recovery": "NodeRecovery",
    "node_provisioning_mode": "NodeProvisioningMode",
    "hyperpod_cluster_name": "ClusterName",
    "tags": "Tags",
}


def _in_requests_words(what: str) -> str:
    first = re.match(r"\w*", what)
    assert first is not None
    return _OF_CLI.get(first[0], first[0]) + what[first.end() :]


def _named(name: str) -> str:
    """The library's name of a group: one controller, and one group of login nodes."""
    return "controller" if re.search("controller|head", name) else "login" if re.search("login|people", name) else name


def _fields(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """Values by path; groups and tags by name, and storage by its kind."""
    if isinstance(value, Mapping):
        if not value:
            yield path, {}
        for name, one in value.items():
            yield from _fields(one, (*path, name))
    elif isinstance(value, list) and value and isinstance(value[0], Mapping):
        for one in value:
            if "InstanceGroupName" in one:
                inside = {key: inner for key, inner in one.items() if key != "InstanceGroupName"}
                yield from _fields(inside, (*path, _named(one["InstanceGroupName"])))
            elif "Key" in one:
                yield (*path, one["Key"]), one["Value"]
            else:
                yield from _fields(one, path)
    else:
        yield path, tuple(value) if isinstance(value, list) else value


def _plain(value: Any, pseudo: Mapping[str, str]) -> Any:
    """A template's value, with functions as far as they are known."""
    if isinstance(value, list):
        return [_plain(one, pseudo) for one in value]
    if not isinstance(value, Mapping):
        return value
    if value.keys() == {"Ref"} and value["Ref"] in pseudo:
        return pseudo[value["Ref"]]
    if value.keys() == {"Fn::Join"}:
        parts = [_plain(one, pseudo) for one in value["Fn::Join"][1]]
        return value["Fn::Join"][0].join(map(str, parts))
    if len(value) == 1 and next(iter(value)).startswith(("Ref", "Fn::")):
        return json.dumps(value)
    return {key: _plain(one, pseudo) for key, one in value.items()}


def _asked_of(values: Any) -> dict[str, Any]:
    """The request that a file is, or that the CLI makes of it."""
    if "InstanceGroups" in values:
        return dict(values)
    given = {name: values[key] for key, name in _OF_CLI.items() if values.get(key)}
    return {**given, "Orchestrator": {"Eks": {}}}


def _make(app: Any, text: str, values: Any, notes: tuple[Note, ...]) -> Made:
    reading = read_cluster("cluster.yaml", content=text.encode())
    assert reading.spec is not None, reading.findings
    build_cluster(app, reading.spec)
    (file,) = Path(app.synth().directory).glob("*-hyperpod.template.json")
    resources = json.loads(file.read_text("utf-8"))["Resources"].values()
    (raw,) = (one["Properties"] for one in resources if one["Type"] == "AWS::SageMaker::Cluster")
    asked = _asked_of(values)
    account = re.search(r"arn:aws:\w+:[\w-]+:(\d{12}):", json.dumps(asked))
    pseudo = {"AWS::Partition": "aws", "AWS::Region": reading.spec.region, "AWS::URLSuffix": "amazonaws.com"}
    properties = _plain(raw, {**pseudo, **({"AWS::AccountId": account[1]} if account else {})})
    names = tuple(_named(one["InstanceGroupName"]) for one in asked["InstanceGroups"])
    fields = dict(_fields(asked))
    return Made(fields, dict(_fields(properties)), properties, notes, reading.spec, names)


@pytest.fixture(scope="module")
def made(app_factory: Any) -> dict[str, Made]:
    """Every public file, and one with what they do not have."""
    found = {}
    for file in FILES:
        one = imported(file.name)
        assert one.text is not None, one.findings
        found[file.name] = _make(app_factory(), one.text, file.values, one.notes)
    more = import_text(MORE)
    assert more.text is not None, more.findings
    found["more"] = _make(app_factory(), more.text, json.loads(MORE), more.notes)
    return found


NAMES = [*(file.name for file in FILES), "more"]


@pytest.mark.parametrize("name", NAMES)
def test_each_field_is_that_of_the_file_or_in_the_report(name: str, made: dict[str, Made]) -> None:
    one = made[name]
    for path, value in one.asked.items():
        if path[-1] == "TargetAvailabilityZoneId":  # of the CLI: the subnet of the group
            assert value == one.spec.network.availability_zone or one.told(path)
        elif one.template.get(path) != value and value not in ({}, None):
            assert one.told(path) or one.to_fill_in(path), path


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_called_lost_that_is_there(name: str, made: dict[str, Made]) -> None:
    one = made[name]
    lost = [one.path_of(note) for note in one.notes if note.change is Change.LOST]
    kept = [path for path, value in one.asked.items() if one.template.get(path) == value and len(path) > 1]
    assert [path for path in kept if any(path[: len(gone)] == gone for gone in lost)] == []


@pytest.mark.parametrize("name", NAMES)
def test_nothing_else_is_added(name: str, made: dict[str, Made]) -> None:
    """Beside the controller, which HyperPod needs, and values of this library."""
    one = made[name]
    groups = {path[1] for path in one.template if path[0] == "InstanceGroups"}
    assert groups <= {*one.names, "controller"}
    # Its stacks give groups a role, and a file system that pods mount.
    of_cli = {"ExecutionRole", "InstanceStorageConfigs"} if name.startswith("hyperpod-cli/") else set[str]()
    for path, value in one.template.items():
        if path[0] == "InstanceGroups" and path not in one.asked and path[2] not in ADDED | of_cli:
            assert value == DEFAULTS.get(path[-2:]), path


@cache
def _shape() -> Any:
    return botocore.session.get_session().get_service_model("sagemaker").operation_model("CreateCluster").input_shape


@pytest.mark.parametrize("name", NAMES)
def test_create_cluster_takes_the_template(name: str, made: dict[str, Made]) -> None:
    report = ParamValidator().validate(dict(made[name].properties), _shape())
    assert not report.has_errors(), report.generate_report()


def test_a_cluster_with_all_that_hyperpod_has_is_the_same() -> None:
    """What the one file with everything loses: scripts, roles and security groups, nothing else."""
    lost = {note.what.rpartition(".")[2] for note in import_text(MORE).notes if note.change is Change.LOST}
    assert lost == {"LifeCycleConfig", "ExecutionRole", "SecurityGroupIds"}
