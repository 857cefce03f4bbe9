"""What `doctor` says of nodes that AWS Batch launches, and of those that it cannot read."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.settings import NodeSettings
from cdk_gpu_clusters.node.software import SoftwareObject
from cdk_gpu_clusters.node.user_data import render_user_data
from cdk_gpu_clusters_stacks.doctor import Diagnosis, examine, policy_to_examine
from cdk_gpu_clusters_stacks.preflight import Account
from cdk_gpu_clusters_stacks.spec import load_cluster
from fake_aws import FakeAws, Refusal
from preflight_account import ACCOUNT, NOW

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
STACK, ENVIRONMENT = "llama-jobs-fleet-trainers", f"arn:aws:batch:us-east-1:{ACCOUNT}:compute-environment/trainers"
USER_DATA = "#!/bin/bash\n"
ABSENT = Refusal("ValidationError", "Stack with id x does not exist")
RESOURCES = {
    "Nodes": {
        "MaxvCpus": 3072,
        "MinvCpus": 0,
        "InstanceTypes": ["p5.48xlarge"],
        "LaunchTemplate": {"LaunchTemplateId": {"Ref": "Launch"}, "Version": "1"},
        "Subnets": ["subnet-1"],
        "Type": "EC2",
        "UpdateToLatestImageVersion": True,
    }
}
TEMPLATE = {
    "Resources": {
        "Nodes": {
            "Type": "AWS::Batch::ComputeEnvironment",
            "Properties": {"State": "ENABLED", "Type": "MANAGED", "ComputeResources": RESOURCES["Nodes"]},
        },
        "Launch": {
            "Type": "AWS::EC2::LaunchTemplate",
            "Properties": {"LaunchTemplateData": {}},
        },
    }
}


def environment(**changes: Any) -> dict[str, Any]:
    resources = {
        "type": "EC2",
        "maxvCpus": 3072,
        "minvCpus": 0,
        "instanceTypes": ["p5.48xlarge"],
        "launchTemplate": {"launchTemplateId": "lt-1", "version": "1"},
        "subnets": ["subnet-1"],
        **changes.pop("resources", {}),
    }
    one = {"computeEnvironmentName": "trainers", "computeEnvironmentArn": ENVIRONMENT, "state": "ENABLED", **changes}
    return {"computeEnvironments": [{**one, "computeResources": resources}]}


def only(name: str, answer: Any) -> Any:
    return lambda asked: answer if asked["StackName"] == name else ABSENT


def row(kind: str, logical_id: str, name: str) -> dict[str, Any]:
    return {
        "LogicalResourceId": logical_id,
        "PhysicalResourceId": name,
        "ResourceType": kind,
        "ResourceStatus": "CREATE_COMPLETE",
        "LastUpdatedTimestamp": NOW,
    }


def aws(user_data: str = USER_DATA, **answers: Any) -> FakeAws:
    rows = [
        row("AWS::Batch::ComputeEnvironment", "Nodes", ENVIRONMENT),
        row("AWS::EC2::LaunchTemplate", "Launch", "lt-1"),
    ]
    stack = {"StackName": STACK, "CreationTime": NOW, "StackStatus": "CREATE_COMPLETE"}
    data = {"UserData": base64.b64encode(user_data.encode()).decode()}
    template = json.loads(json.dumps(TEMPLATE))
    template["Resources"]["Launch"]["Properties"]["LaunchTemplateData"] = data
    version = {"LaunchTemplateId": "lt-1", "VersionNumber": 1, "LaunchTemplateData": data}
    return FakeAws(
        {
            "sts.get_caller_identity": {"Account": ACCOUNT},
            "cloudformation.describe_stacks": only(STACK, {"Stacks": [stack]}),
            "cloudformation.get_template": only(STACK, {"TemplateBody": json.dumps(template)}),
            "cloudformation.list_stack_resources": only(STACK, {"StackResourceSummaries": rows}),
            "ec2.describe_launch_template_versions": {"LaunchTemplateVersions": [version]},
            "ec2.describe_instances": {"Reservations": []},
            "batch.describe_compute_environments": environment(),
        }
    ).but(**answers)


def diagnose(fake: FakeAws, example: str = "batch-p5-capacity-block") -> Diagnosis:
    spec = load_cluster(EXAMPLES / f"{example}.yaml")
    with Account(fake.clients, region="us-east-1") as account:
        return examine(spec, account, rules=(), now=NOW)


def test_an_environment_as_planned_has_no_drift() -> None:
    found = diagnose(aws())
    assert (found.drifts, found.compared) == ([], 2)


@pytest.mark.parametrize(
    ("answer", "path", "breaks"),
    [
        (environment(state="DISABLED"), ("State",), "starts no jobs"),
        (environment(resources={"maxvCpus": 192}), ("ComputeResources", "MaxvCpus"), "never starts"),
        (
            environment(resources={"launchTemplate": {"launchTemplateId": "lt-2", "version": "1"}}),
            ("ComputeResources", "LaunchTemplate", "LaunchTemplateId"),
            "another launch template",
        ),
    ],
)
def test_a_change_by_hand_is_named_with_what_it_breaks(answer: Any, path: tuple[str, ...], breaks: str) -> None:
    (drift,) = diagnose(aws(batch__describe_compute_environments=answer)).drifts
    assert drift.path == path
    assert breaks in drift.breaks


def test_an_environment_that_is_gone_is_a_drift() -> None:
    (drift,) = diagnose(aws(batch__describe_compute_environments={"computeEnvironments": []})).drifts
    assert drift.is_gone


def test_nodes_are_found_by_the_tag_of_their_template_and_compared() -> None:
    settings = NodeSettings(
        fleet_name="trainers", orchestrator="batch", log_group_name="logs", accelerator_kind="gpu", accelerator_count=8
    )
    software = SoftwareObject(bucket_name="b", object_key="k", sha256="0" * 64)
    facts = json.dumps({"stage": "facts", "state": "ok", "instance_id": "i-1", "facts": {"accelerators": 7}})
    event = {"logStreamName": "i-1/10.0.0.1", "timestamp": int(NOW.timestamp() * 1000), "message": facts}
    node = {"InstanceId": "i-1", "PrivateIpAddress": "10.0.0.1"}
    fake = aws(
        render_user_data(settings, software),
        ec2__describe_instances={"Reservations": [{"Instances": [node]}]},
        logs__filter_log_events={"events": [event]},
    )
    found = diagnose(fake)
    assert [(one.physical_id, one.path, one.live) for one in found.drifts] == [("i-1", ("Accelerators",), 7)]
    (asked,) = (one.parameters["Filters"] for one in fake.asked if one.name == "ec2.describe_instances")
    assert {"Name": "tag:Name", "Values": ["llama-jobs-fleet-trainers/Environment"]} in asked


@pytest.mark.parametrize(
    ("example", "about"), [("hyperpod-slurm-p5", "hyperpod"), ("parallelcluster-p5", "parallelcluster")]
)
def test_nodes_that_cannot_be_read_are_named(example: str, about: str) -> None:
    absent: Mapping[str, Any] = {f"cloudformation__{name}": ABSENT for name in ("describe_stacks", "get_template")}
    found = diagnose(aws(**absent, cloudformation__list_stack_resources=ABSENT), example)
    (missed,) = [one for one in found.unread if one.call == "facts of nodes"]
    assert missed.about == about
    assert "gpu-clusters status" in missed.fix


def test_the_policy_reads_environments_only_where_there_are_some() -> None:
    for example, is_there in (("batch-p5-capacity-block", True), ("p5-capacity-block", False)):
        (statement,) = policy_to_examine(load_cluster(EXAMPLES / f"{example}.yaml"))["Statement"]
        assert ("batch:DescribeComputeEnvironments" in statement["Action"]) is is_there
