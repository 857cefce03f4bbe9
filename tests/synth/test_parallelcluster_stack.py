"""The stack of what nodes of AWS ParallelCluster get: a group, scripts, and rights to checkpoints."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters_stacks.app import build_cluster
from cdk_gpu_clusters_stacks.export.scripts import scripts_of
from cdk_gpu_clusters_stacks.spec.load import load_cluster
from cdk_gpu_clusters_stacks.spec.planned_fleet import planned_fleets
from cdk_gpu_clusters_stacks.stack_names import output_of
from stack_fixtures import of_type

CLUSTER = """\
version: 1
name: lab
region: us-east-1
orchestrator: parallelcluster
network: { availability_zone: us-east-1a }
data:
  corpus: { lustre: { storage_capacity_gib: 38400, throughput_mb_per_s_per_tib: 250, efa: true } }
  home: { openzfs: {} }
  saves: { checkpoints: { express_zone_id: use1-az4 } }
training:
  fleets:
    big-ones:
      instance_type: p5.48xlarge
      nodes: 2
      capacity: spot
      mounts: { /fsx: corpus, /home: home }
      checkpoints: saves
      user_data: setup.sh
    small: { instance_type: g6.xlarge, nodes: 1, mounts: { /home: home }, checkpoints: saves, checkpoints_read_only: true }
"""


@pytest.fixture(scope="module")
def folder(app_factory: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The assembly."""
    here = tmp_path_factory.mktemp("cluster")
    (here / "cluster.yaml").write_text(CLUSTER)
    (here / "setup.sh").write_text("#!/bin/sh\necho mine\n")
    app = app_factory()
    build_cluster(app, load_cluster(here / "cluster.yaml"))
    return Path(app.synth().directory)


@pytest.fixture(scope="module")
def stack(folder: Path) -> dict[str, Any]:
    """The template."""
    found: dict[str, Any] = json.loads((folder / "lab-parallelcluster.template.json").read_text())
    return found


def test_one_group_for_all_nodes_that_each_store_admits_once(stack: dict[str, Any]) -> None:
    [(group, made)] = of_type(stack["Resources"], "AWS::EC2::SecurityGroup").items()
    assert "SecurityGroupIngress" not in made["Properties"]
    admitted = [
        (rule["Properties"]["GroupId"]["Fn::GetStackOutput"]["StackName"], rule["Properties"]["IpProtocol"])
        for rule in of_type(stack["Resources"], "AWS::EC2::SecurityGroupIngress").values()
        if rule["Properties"]["SourceSecurityGroupId"] == {"Fn::GetAtt": [group, "GroupId"]}
    ]
    assert {store for store, _ in admitted} == {"lab-data-corpus", "lab-data-home"}
    assert ("lab-data-corpus", "-1") in admitted  # EFA
    assert stack["Outputs"]["ClientSecurityGroupId"]["Value"] == {"Fn::GetAtt": [group, "GroupId"]}


def test_each_script_is_an_asset_that_an_output_names(folder: Path, stack: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "setup.sh").write_text("#!/bin/sh\necho mine\n")
    texts = {
        script.output: script.text
        for fleet in planned_fleets(load_cluster(tmp_path / "cluster.yaml"))
        for script in scripts_of(fleet)
    }
    assert texts.keys() == {"NodeScriptBigDashOnes", "NodeScriptSmall", "UserScriptBigDashOnes"}
    assets = json.loads((folder / "lab-parallelcluster.assets.json").read_text())["files"]
    kept = {one["source"]["path"]: one["destinations"] for one in assets.values()}
    for output, text in texts.items():
        [place] = [one for path, one in kept.items() if Path(folder, path).read_bytes() == text.encode()]
        [destination] = place.values()
        url = json.dumps(stack["Outputs"][f"{output}Url"]["Value"])
        assert destination["objectKey"] in url
        assert "s3://" in url


def test_nodes_reach_checkpoints_with_a_key_and_in_their_zone(stack: dict[str, Any]) -> None:
    policies = of_type(stack["Resources"], "AWS::IAM::ManagedPolicy")
    assert len(policies) == 2
    for name, writes in (("BigDashOnes", True), ("Small", False)):
        reference = stack["Outputs"][f"CheckpointPolicy{name}Arn"]["Value"]["Ref"]
        statements = policies[reference]["Properties"]["PolicyDocument"]["Statement"]
        actions = {action for one in statements for action in as_list(one["Action"])}
        assert {"s3:GetObject", "s3:ListBucket", "kms:Decrypt", "s3express:CreateSession"} <= actions
        assert ({"s3:PutObject", "kms:GenerateDataKey"} <= actions) is writes
        [session] = [one for one in statements if one["Action"] == "s3express:CreateSession"]
        assert ("Condition" in session) is not writes


def as_list(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]


def test_no_two_names_of_fleets_have_one_output() -> None:
    names = ["".join(one) for size in range(1, 6) for one in itertools.product("a1-", repeat=size)]
    valid = [name for name in names if name[0] == "a" and name[-1] != "-"]
    valid += ["a-dash", "adash", "a-dash-b", "a-dashb", "adash-b"]
    outputs = {output_of("Script", name) for name in valid}
    assert len(outputs) == len(set(valid))
    assert all(one.isalnum() for one in outputs)
