"""The stack of what nodes of AWS ParallelCluster get: a group, scripts, and rights to checkpoints."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from cdk_gpu_clusters_stacks.app import build_cluster
from cdk_gpu_clusters_stacks.export import ExportOptions, export_parallelcluster
from cdk_gpu_clusters_stacks.export.scripts import scripts_of
from cdk_gpu_clusters_stacks.spec import ClusterSpec, load_cluster
from cdk_gpu_clusters_stacks.spec.planned_fleet import planned_fleets
from cdk_gpu_clusters_stacks.stack_names import output_of
from parallelcluster.deployment import as_texts, deployed, outputs_of
from parallelcluster.installed import schema_faults
from stack_fixtures import of_type

CLUSTER = """\
version: 1
name: lab
region: us-east-1
orchestrator: parallelcluster
parallelcluster: { custom_resource: { role_arn: "arn:aws:iam::111122223333:role/operators", delete_with_stack: true } }
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
    reserved:
      instance_type: p4d.24xlarge
      nodes: 2
      capacity: { new_reservation: { end_date: 2027-01-31T00:00Z } }
      fabric: reserved
    small: { instance_type: g6.xlarge, nodes: 1, mounts: { /home: home }, checkpoints: saves, checkpoints_read_only: true }
"""


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> ClusterSpec:
    """The cluster."""
    here = tmp_path_factory.mktemp("cluster")
    (here / "cluster.yaml").write_text(CLUSTER)
    (here / "setup.sh").write_text("#!/bin/sh\necho mine\n")
    return load_cluster(here / "cluster.yaml")


@pytest.fixture(scope="module")
def folder(app_factory: Any, spec: ClusterSpec) -> Path:
    """The assembly."""
    app = app_factory()
    build_cluster(app, spec)
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


def test_each_script_is_an_asset_that_an_output_names(spec: ClusterSpec, folder: Path, stack: dict[str, Any]) -> None:
    texts = {script.output: script.text for fleet in planned_fleets(spec) for script in scripts_of(fleet)}
    assert texts.keys() == {"NodeScriptBigDashOnes", "NodeScriptReserved", "NodeScriptSmall", "UserScriptBigDashOnes"}
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


def test_people_with_the_documented_policies_may_attach_what_nodes_need(stack: dict[str, Any]) -> None:
    # aws/aws-parallelcluster @ 451cc53, parallelcluster-policies.yaml: policy/parallelcluster/* of the account.
    paths = {one["Properties"]["Path"] for one in of_type(stack["Resources"], "AWS::IAM::ManagedPolicy").values()}
    assert paths == {"/parallelcluster/"}


@pytest.fixture(scope="module")
def cluster(stack: dict[str, Any]) -> dict[str, Any]:
    """The resource that is the cluster itself."""
    [found] = of_type(stack["Resources"], "Custom::PclusterCluster").values()
    return found


def test_the_cluster_has_the_configuration_that_would_be_exported(
    spec: ClusterSpec, folder: Path, stack: dict[str, Any], cluster: dict[str, Any]
) -> None:
    ids = dict.fromkeys(of_type(stack["Resources"], "AWS::EC2::SecurityGroup"), "sg-0123456789abcdef0")
    for name in of_type(stack["Resources"], "AWS::IAM::ManagedPolicy"):
        ids[name] = f"arn:aws:iam::111122223333:policy/parallelcluster/{name}"
    files = {file.name.removesuffix(".template.json"): file for file in folder.glob("*.template.json")}
    others = outputs_of({name: json.loads(file.read_text()) for name, file in files.items()})
    own = {name: deployed(one["Value"], ids, others) for name, one in stack["Outputs"].items()}
    options = ExportOptions(outputs={**others, "lab-parallelcluster": own})
    exported = export_parallelcluster(spec, options)
    assert exported.faults == ()
    assert "pcluster must not" in exported.files["cluster-config.yaml"]
    configuration = deployed(cluster["Properties"]["ClusterConfiguration"], ids, others)
    assert configuration == yaml.safe_load(exported.files["cluster-config.yaml"])
    assert schema_faults([yaml.safe_dump(as_texts(configuration))]) == [{}]


def test_the_cluster_starts_when_its_nodes_can_mount(stack: dict[str, Any], cluster: dict[str, Any]) -> None:
    rules = [*of_type(stack["Resources"], "AWS::EC2::SecurityGroupIngress")]
    assert rules
    assert {*rules} <= {*cluster["DependsOn"]}


def test_the_file_decides_who_may_make_the_cluster_and_whether_it_stays(
    stack: dict[str, Any], cluster: dict[str, Any]
) -> None:
    [(provider, made)] = of_type(stack["Resources"], "AWS::CloudFormation::Stack").items()
    assert made["Properties"]["Parameters"] == {"CustomLambdaRole": "arn:aws:iam::111122223333:role/operators"}
    assert cluster["Properties"]["ServiceToken"] == {"Fn::GetAtt": [provider, "Outputs.ServiceToken"]}
    assert (cluster["Properties"]["ClusterName"], cluster["Properties"]["DeletionPolicy"]) == ("lab", "Delete")


def test_no_two_names_of_fleets_have_one_output() -> None:
    names = ["".join(one) for size in range(1, 6) for one in itertools.product("a1-", repeat=size)]
    valid = [name for name in names if name[0] == "a" and name[-1] != "-"]
    valid += ["a-dash", "adash", "a-dash-b", "a-dashb", "adash-b"]
    outputs = {output_of("Script", name) for name in valid}
    assert len(outputs) == len(set(valid))
    assert all(one.isalnum() for one in outputs)
