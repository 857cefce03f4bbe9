"""The benchmark compares like with like: the baselines synthesize the same templates as the library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import subjects
from baseline import canonical, differences, templates
from run import round_trips
from subjects import check_same, javascript, ours, prepare, raw

# One more than a stack takes here, so that there are two stacks.
IN_A_STACK, COUNT = 2, 3
# Between Python and Node, for one more fleet; a raw one takes 10. Raise it only for something that is worth 2 % a piece.
MOST_MESSAGES = 50


@pytest.fixture
def small_stacks(monkeypatch: pytest.MonkeyPatch) -> int:
    """The fleets that a stack of the benchmark has, in place of which it has two."""
    most = subjects.FLEETS_PER_STACK
    monkeypatch.setattr(subjects, "FLEETS_PER_STACK", IN_A_STACK)
    prepare()
    return most


def test_baselines_synthesize_the_same_templates(small_stacks: int) -> None:
    resources = check_same(COUNT)
    fleet = {
        "AWS::AutoScaling::AutoScalingGroup": 1,
        "AWS::CloudWatch::Alarm": 7,
        "Custom::EC2CapacityReservation": 1,
        "AWS::EC2::LaunchTemplate": 1,
        "AWS::EC2::PlacementGroup": 1,
        "AWS::Events::Rule": 2,
        "AWS::IAM::InstanceProfile": 1,
        "AWS::IAM::ManagedPolicy": 3,
        "AWS::IAM::Role": 2,
        "AWS::Logs::LogGroup": 2,
        "AWS::SQS::Queue": 1,
        "AWS::SQS::QueuePolicy": 1,
        "AWS::StepFunctions::StateMachine": 1,
    }
    for subject in (ours(COUNT), raw(COUNT), javascript(COUNT)):
        first, second = templates(subject.assembly).values()
        types = [one["Type"] for template in (first, second) for one in template["Resources"].values()]
        # Each has three more policies, and a role: for the software of its nodes, for sessions, and for what reserves in
        # groups.
        stacks = {"AWS::IAM::ManagedPolicy": 6, "AWS::IAM::Role": 2}
        counted = {name: types.count(name) - stacks.get(name, 0) for name in fleet}
        assert counted == {name: COUNT * number for name, number in fleet.items()}
        assert len(types) == resources
        interfaces = [
            len(one["Properties"]["LaunchTemplateData"]["NetworkInterfaces"])
            for one in second["Resources"].values()
            if one["Type"] == "AWS::EC2::LaunchTemplate"
        ]
        assert interfaces == [33]
    # CloudFormation user guide, "Understand CloudFormation quotas": resources and bytes of a template.
    two, one = (json.dumps(template, indent=1) for template in templates(ours(COUNT).assembly).values())
    for measure, most in ((len, 1_000_000), (lambda text: len(json.loads(text)["Resources"]), 500)):
        assert measure(one) + (small_stacks - 1) * (measure(two) - measure(one)) <= most


def test_one_more_fleet_costs_few_messages() -> None:
    """Their number decides how long synthesis takes, and is the same on every machine.

    `python benchmarks/round_trips.py benchmarks/apps/fleets.py 10 25` shows what is asked, and could be asked once.
    """
    prepare()
    one, eleven = (round_trips(ours(count)) for count in (1, 11))
    assert 0 < eleven - one <= 10 * MOST_MESSAGES


def assembly(folder: Path, template: dict[str, Any]) -> Path:
    folder.mkdir()
    (folder / "Stack.template.json").write_text(json.dumps(template), encoding="utf-8")
    return folder


def template(role: str, **more: Any) -> dict[str, Any]:
    profile = {"Type": "AWS::IAM::InstanceProfile", "Properties": {"Roles": [{"Ref": role}]}}
    return {"Resources": {role: {"Type": "AWS::IAM::Role", "Properties": {}, **more}, "Profile": profile}}


def test_only_hashes_and_metadata_may_differ(tmp_path: Path) -> None:
    plain = assembly(tmp_path / "plain", template("Role"))
    hashed = assembly(tmp_path / "hashed", template("Role0A1B2C3D", Metadata={"aws:cdk:path": "Stack/Role"}))
    retained = assembly(tmp_path / "retained", template("Role", DeletionPolicy="Retain"))
    renamed = assembly(tmp_path / "renamed", template("Other"))
    assert differences(plain, hashed) == []
    assert differences(plain, retained) == ["Stack"]
    assert differences(plain, renamed) == ["Stack"]
    (tmp_path / "empty").mkdir()
    assert differences(plain, tmp_path / "empty") == ["Stack"]


def test_ids_that_differ_in_their_hash_only_are_refused() -> None:
    both = {"Role0A1B2C3D": {"Type": "AWS::IAM::Role"}, "Role0A1B2C3E": {"Type": "AWS::IAM::Role"}}
    with pytest.raises(ValueError, match="differ in their hash only"):
        canonical({"Resources": both})
