"""The stacks of a cluster file: one per life span, stable, the same everywhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from shared_assemblies import SharedAssemblies

Synthesize = Callable[[Path], dict[str, str]]


@pytest.fixture
def synthesize(assemblies_of_files: SharedAssemblies) -> Synthesize:
    """Synthesize a cluster file; the text of each template by file name."""

    def run(path: Path) -> dict[str, str]:
        folder = assemblies_of_files.of(path.read_text(encoding="utf-8"))
        return {file.name: file.read_text() for file in folder.glob("*.template.json")}

    return run


CLUSTER = """\
version: 1
name: lab
region: us-east-1
network: {{ availability_zone: us-east-1a }}
training:
  fleets:
{fleets}
"""
FLEETS = {
    "reserved": "instance_type: p4d.24xlarge, nodes: 4, capacity: { new_reservation: { end_date: 2027-01-31T00:00Z } }",
    "block": "instance_type: p5.48xlarge, nodes: 16, fabric: hopper, capacity: { capacity_block: "
    "cr-0123456789abcdef0, starts_at: 2026-12-01T11:30Z, ends_at: 2026-12-15T11:30Z }",
    "helpers": "instance_type: m8g.4xlarge, nodes: 2",
    "spare": "instance_type: p4d.24xlarge, nodes: 2, capacity: spot",
}


def write_cluster(folder: Path, names: list[str]) -> Path:
    folder.mkdir()
    path = folder / "cluster.yaml"
    lines = "\n".join(f"    {name}: {{ {FLEETS[name]} }}" for name in names)
    path.write_text(CLUSTER.format(fleets=lines))
    return path


@pytest.fixture
def all_fleets(tmp_path: Path, synthesize: Synthesize) -> dict[str, str]:
    return synthesize(write_cluster(tmp_path / "all", list(FLEETS)))


def test_there_is_a_stack_for_each_life_span(all_fleets: dict[str, str]) -> None:
    assert set(all_fleets) == {
        f"lab-{name}.template.json"
        for name in (
            "network",
            "fabric-default",
            "fabric-hopper",
            "capacity-reserved",
            "fleet-reserved",
            "fleet-block",
            "fleet-helpers",
            "fleet-spare",
        )
    }


def test_reordering_fleets_changes_nothing(tmp_path: Path, synthesize: Synthesize, all_fleets: dict[str, str]) -> None:
    assert synthesize(write_cluster(tmp_path / "reversed", list(reversed(FLEETS)))) == all_fleets


@pytest.mark.parametrize("removed", sorted(FLEETS))
def test_removing_or_adding_a_fleet_leaves_every_other_template_byte_identical(
    removed: str, tmp_path: Path, synthesize: Synthesize, all_fleets: dict[str, str]
) -> None:
    fewer = synthesize(write_cluster(tmp_path / "fewer", [name for name in FLEETS if name != removed]))
    assert fewer.items() <= all_fleets.items()
    gone = {name for name in all_fleets if name not in fewer}
    own = {f"lab-{kind}-{removed}.template.json" for kind in ("fleet", "capacity")}
    assert f"lab-fleet-{removed}.template.json" in gone
    assert gone <= own | {"lab-fabric-hopper.template.json"}


def test_what_a_fleet_says_of_its_watchdog_and_its_evidence_reaches_its_nodes(
    tmp_path: Path, synthesize: Synthesize
) -> None:
    said = (
        "{ instance_type: m8g.4xlarge, nodes: 2, watch: { mode: off, actions_per_hour: 3 }, evidence_bucket: records }"
    )
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER.format(fleets=f"    helpers: {said}"))
    told = synthesize(path)["lab-fleet-helpers.template.json"]
    assert "GPU_EVIDENCE_URI=s3://records/node-evidence/lab-fleet-helpers/Fleet\\n" in told
    assert "GPU_WATCH=off\\n    GPU_WATCH_ACTIONS_PER_HOUR=3\\n" in told
    assert ":s3:::records/node-evidence/lab-fleet-helpers/Fleet/${aws:Ec2InstanceSourcePrivateIPv4}/*" in told


def test_references_between_stacks_are_weak(all_fleets: dict[str, str]) -> None:
    for text in all_fleets.values():
        assert "Fn::ImportValue" not in text
        assert '"Export"' not in text
    assert "Fn::GetStackOutput" in all_fleets["lab-fleet-block.template.json"]


def test_a_person_is_told_how_to_reach_the_fleet(all_fleets: dict[str, str]) -> None:
    outputs = json.loads(all_fleets["lab-fleet-block.template.json"])["Outputs"]
    assert set(outputs) == {"FleetName", "SessionCommand", "LogGroupName"}
    assert "ssm start-session" in json.dumps(outputs["SessionCommand"])


def test_tags_reach_every_taggable_resource(tmp_path: Path, synthesize: Synthesize) -> None:
    path = write_cluster(tmp_path / "tagged", ["block"])
    path.write_text(path.read_text().replace("region:", "tags: { project: llama }\nregion:"))
    for name, text in synthesize(path).items():
        for logical_id, resource in json.loads(text)["Resources"].items():
            if resource["Type"] in ("AWS::EC2::LaunchTemplate", "AWS::EC2::SecurityGroup", "AWS::IAM::Role"):
                assert "llama" in json.dumps(resource), f"{name}: {logical_id}"


def test_a_reservation_has_the_tags_and_its_placement_group_has_none(tmp_path: Path, synthesize: Synthesize) -> None:
    """CloudFormation replaces a placement group whose tags change, and with it the reservation made in it."""
    path = write_cluster(tmp_path / "tagged", ["reserved"])
    text = path.read_text().replace("region:", "tags: { project: llama }\nregion:")
    path.write_text(text.replace("nodes: 4,", "nodes: 4, tags: { team: vision },"))
    resources = json.loads(synthesize(path)["lab-capacity-reserved.template.json"])["Resources"].values()
    (group,) = [each for each in resources if each["Type"] == "AWS::EC2::PlacementGroup"]
    assert group["Properties"] == {"Strategy": "cluster"}
    (reservation,) = [each for each in resources if each["Type"] == "Custom::EC2CapacityReservation"]
    assert reservation["Properties"]["Tags"] == {
        "Name": "lab-capacity-reserved/Reservation",
        "gpu-cluster": "lab",
        "project": "llama",
        "team": "vision",
    }


SHARED_STORE = """\
version: 1
name: lab
region: us-east-1
orchestrator: pcs
network: { availability_zone: us-east-1a }
pcs: { login: { mounts: { /fsx: shared } } }
data:
  shared:
    existing_lustre:
      file_system_id: fs-0123456789abcdef0
      mount_name: abcdefgh
      security_group_id: sg-0123456789abcdef0
training:
  fleets:
    helpers: { instance_type: c7i.4xlarge, nodes: 2, mounts: { /fsx: shared } }
    servers: { instance_type: g6.xlarge, nodes: 1, mounts: { /fsx: shared } }
    trainers: { instance_type: p5.48xlarge, nodes: 2, mounts: { /fsx: shared } }
"""


def test_no_nodes_of_slurm_make_the_same_rule_twice(tmp_path: Path, synthesize: Synthesize) -> None:
    """EC2 API, AuthorizeSecurityGroupIngress: InvalidPermission.Duplicate."""
    path = tmp_path / "cluster.yaml"
    path.write_text(SHARED_STORE)
    rules: list[tuple[str, str]] = []
    for file, text in synthesize(path).items():
        for one in json.loads(text)["Resources"].values():
            if one["Type"].startswith("AWS::EC2::SecurityGroup") and one["Type"] != "AWS::EC2::SecurityGroup":
                words = {key: value for key, value in one["Properties"].items() if key != "Description"}
                # A group of the stack itself is another one in each stack.
                own = file if "Fn::GetAtt" in json.dumps(words) else ""
                rules.append((one["Type"], own + json.dumps(words, sort_keys=True)))
    assert len([one for one in rules if "sg-0123456789abcdef0" in one[1]]) >= 4 * 8
    assert sorted(rules) == sorted(set(rules))
