"""What `doctor` says about an account of canned answers: nodes on old versions, and answers that are missing or odd."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters_stacks import preflight
from cdk_gpu_clusters_stacks.cli.main import main
from cdk_gpu_clusters_stacks.doctor import Diagnosis, as_json, examine, format_diagnosis, policy_to_examine
from cdk_gpu_clusters_stacks.preflight import Account
from fake_aws import FakeAws, Refusal
from preflight_account import ACCOUNT, NEW, NOW, ON_EKS, ON_PCS, spec_of

FLEET_STACK = "llama-fleet-trainers"
ABSENT = Refusal("ValidationError", "Stack with id x does not exist")
DENIED = Refusal("AccessDeniedException", "User: me is not authorized to perform: x:Y")
TEMPLATE: dict[str, Any] = {
    "Parameters": {"Secret": {"Type": "String", "NoEcho": True}, "Size": {"Type": "String"}},
    "Conditions": {"Never": {"Fn::Equals": ["a", "b"]}, "Large": {"Fn::Not": [{"Fn::Equals": [{"Ref": "Size"}, "1"]}]}},
    "Resources": {
        "Nodes": {
            "Type": "AWS::AutoScaling::AutoScalingGroup",
            "Properties": {
                "MinSize": "0",
                "MaxSize": {"Fn::If": ["Large", {"Ref": "Size"}, "1"]},
                "HealthCheckType": {"Ref": "Secret"},
                "LaunchTemplate": {
                    "LaunchTemplateId": {"Ref": "Launch"},
                    "Version": {"Fn::GetAtt": ["Launch", "LatestVersionNumber"]},
                },
                "VPCZoneIdentifier": ["subnet-1"],
            },
        },
        "Launch": {
            "Type": "AWS::EC2::LaunchTemplate",
            "Properties": {
                "LaunchTemplateData": {
                    "InstanceType": "p5.48xlarge",
                    "KeyName": {"Ref": "AWS::NoValue"},
                    "MetadataOptions": {"HttpTokens": "required"},
                    "TagSpecifications": [
                        {"ResourceType": "instance", "Tags": [{"Key": "gpu-cluster", "Value": "llama"}]}
                    ],
                    "UserData": {"Fn::Base64": {"Fn::Sub": ["${AWS::Region} ${x} ${!y}", {"x": "X"}]}},
                }
            },
        },
        "Left": {"Type": "AWS::EC2::PlacementGroup", "Condition": "Never", "Properties": {"Strategy": "cluster"}},
    },
}
USER_DATA = "dXMtZWFzdC0xIFggJHt5fQ=="  # us-east-1 X ${y}


def version(number: int, **changes: Any) -> dict[str, Any]:
    given = TEMPLATE["Resources"]["Launch"]["Properties"]["LaunchTemplateData"]
    same = {name: given[name] for name in ("InstanceType", "MetadataOptions", "TagSpecifications")}
    data = {**same, "UserData": USER_DATA, **changes}
    return {"LaunchTemplateId": "lt-1", "VersionNumber": number, "LaunchTemplateData": data}


def group(**changes: Any) -> dict[str, Any]:
    return {
        "AutoScalingGroupName": "nodes",
        "MinSize": 0,
        "MaxSize": 2,
        "DesiredCapacity": 2,
        "DefaultCooldown": 300,
        "AvailabilityZones": ["us-east-1a"],
        "HealthCheckType": "EC2",
        "CreatedTime": NOW,
        "VPCZoneIdentifier": "subnet-1",
        "LaunchTemplate": {"LaunchTemplateId": "lt-1", "Version": "2"},
        "Instances": [node("1"), node("2")],
        **changes,
    }


def node(number: str) -> dict[str, Any]:
    return {
        "InstanceId": f"i-{number}",
        "AvailabilityZone": "us-east-1a",
        "LifecycleState": "InService",
        "HealthStatus": "Healthy",
        "ProtectedFromScaleIn": False,
        "LaunchTemplate": {"LaunchTemplateId": "lt-1", "Version": number},
    }


def only_the_fleet(answer: Any) -> Any:
    return lambda asked: answer if asked["StackName"] == FLEET_STACK else ABSENT


def aws(**answers: Any) -> FakeAws:
    """An account with one stack, in which all is as planned; its launch template has two equal versions."""
    stack = {
        "StackName": FLEET_STACK,
        "CreationTime": NOW,
        "StackStatus": "CREATE_COMPLETE",
        "Parameters": [
            {"ParameterKey": "Secret", "ParameterValue": "****"},
            {"ParameterKey": "Size", "ParameterValue": "/a/parameter", "ResolvedValue": "2"},
        ],
    }
    rows = [
        {
            "LogicalResourceId": name,
            "PhysicalResourceId": physical,
            "ResourceType": TEMPLATE["Resources"][name]["Type"],
            "ResourceStatus": "CREATE_COMPLETE",
            "LastUpdatedTimestamp": NOW,
        }
        for name, physical in (("Nodes", "nodes"), ("Launch", "lt-1"))
    ]
    return FakeAws(
        {
            "sts.get_caller_identity": {"Account": ACCOUNT, "Arn": f"arn:aws:iam::{ACCOUNT}:user/me"},
            "cloudformation.describe_stacks": only_the_fleet({"Stacks": [stack]}),
            "cloudformation.get_template": only_the_fleet({"TemplateBody": json.dumps(TEMPLATE)}),
            "cloudformation.list_stack_resources": only_the_fleet({"StackResourceSummaries": rows}),
            "autoscaling.describe_auto_scaling_groups": {"AutoScalingGroups": [group()]},
            "autoscaling.describe_lifecycle_hooks": {"LifecycleHooks": []},
            "ec2.describe_launch_template_versions": versions({"1": version(1), "2": version(2)}),
        }
    ).but(**answers)


def versions(known: dict[str, Any]) -> Any:
    """The versions of the launch template; the last one is the latest."""

    def answer(asked: Any) -> dict[str, Any]:
        (wanted,) = asked["Versions"]
        found = known[max(known)] if wanted == "$Latest" else known[wanted]
        return {"LaunchTemplateVersions": [found]}

    return answer


def found_in(fake: FakeAws) -> Diagnosis:
    with Account(fake.clients, region="us-east-1") as account:
        return examine(spec_of(NEW), account, rules=())


def places(found: Diagnosis) -> list[tuple[str, str]]:
    return [(one.logical_id, ".".join(one.path)) for one in found.drifts]


def test_an_account_as_planned_has_no_drift_and_names_what_is_unknown() -> None:
    found = found_in(aws())
    assert found.is_healthy
    assert found.compared == 2
    assert found.unknown == [f"{FLEET_STACK} Nodes.HealthCheckType"]
    assert FLEET_STACK not in found.absent
    assert "llama-network" in found.absent


def test_a_plan_that_breaks_a_rule_is_no_drift_and_not_healthy() -> None:
    older = copy.deepcopy(TEMPLATE)
    del older["Resources"]["Launch"]["Properties"]["LaunchTemplateData"]["MetadataOptions"]
    same = version(2, MetadataOptions={})
    fake = aws(
        cloudformation__get_template=only_the_fleet({"TemplateBody": json.dumps(older)}),
        ec2__describe_launch_template_versions=versions({"1": same, "2": same}),
    )
    with Account(fake.clients, region="us-east-1") as account:
        found = examine(spec_of(NEW), account)
    assert not found.drifts
    assert [(stack, resource, rule) for stack, resource, rule, _ in found.faults] == [
        (FLEET_STACK, "Launch", "GPU-LT-010")
    ]
    assert not found.is_healthy
    assert "rules that the deployed plan breaks" in list(format_diagnosis(found))


def test_a_drift_names_the_rule_that_it_breaks() -> None:
    open_to_all = version(2, MetadataOptions={"HttpTokens": "optional"})
    fake = aws(ec2__describe_launch_template_versions=versions({"1": version(1), "2": open_to_all}))
    with Account(fake.clients, region="us-east-1") as account:
        found = examine(spec_of(NEW), account)
    (drift,) = found.drifts
    assert drift.path == ("LaunchTemplateData", "MetadataOptions", "HttpTokens")
    assert [rule for rule, _ in drift.rules] == ["GPU-LT-010"]
    assert not found.faults


def test_nodes_on_a_version_that_differs_from_the_plan_are_found() -> None:
    old = version(1, InstanceType="p5en.48xlarge")
    found = found_in(aws(ec2__describe_launch_template_versions=versions({"1": old, "2": version(2)})))
    (drift,) = found.drifts
    assert (drift.logical_id, drift.path, drift.live) == ("Nodes", ("Instances",), "1 node on version 1")
    assert "replace the nodes" in drift.fix


def test_a_group_that_is_gone_is_one_drift() -> None:
    found = found_in(aws(autoscaling__describe_auto_scaling_groups={"AutoScalingGroups": []}))
    assert places(found) == [("Nodes", "")]
    assert "does not exist" in "\n".join(format_diagnosis(found))


def test_user_data_is_never_printed() -> None:
    changed = version(2, UserData="c2VjcmV0")
    found = found_in(aws(ec2__describe_launch_template_versions=versions({"1": version(1), "2": changed})))
    text = "\n".join(format_diagnosis(found)) + json.dumps(as_json(found))
    assert places(found) == [("Launch", "LaunchTemplateData.UserData")]
    assert "sha256:" in text
    assert "c2VjcmV0" not in text
    assert USER_DATA not in text


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("autoscaling__describe_auto_scaling_groups", "autoscaling:DescribeAutoScalingGroups"),
        ("autoscaling__describe_lifecycle_hooks", "autoscaling:DescribeLifecycleHooks"),
        ("ec2__describe_launch_template_versions", "ec2:DescribeLaunchTemplateVersions"),
        ("cloudformation__get_template", "cloudformation"),
    ],
)
@pytest.mark.parametrize("answer", [DENIED, Refusal("ThrottlingException", "slow down")])
def test_a_call_without_an_answer_cannot_tell(call: str, name: str, answer: Refusal) -> None:
    found = found_in(aws(**{call: answer}))
    assert not found.drifts
    assert found.unread
    text = "\n".join(format_diagnosis(found))
    assert "cannot tell" in text
    if answer is not DENIED:
        assert any(one.call.startswith(name) for one in found.unread), found.unread


def test_an_answer_in_another_form_cannot_tell() -> None:
    found = found_in(aws(cloudformation__describe_stacks=only_the_fleet({"Stacks": []})))
    assert not found.drifts
    assert "a form that is unknown here" in found.unread[0].cause


def test_the_policy_has_every_call_and_nothing_of_other_services() -> None:
    fake = aws()
    found_in(fake)
    asked = {one.name.split(".")[1].replace("_", "") for one in fake.asked}
    allowed = {action.split(":")[1].lower() for action in policy_to_examine(spec_of(NEW))["Statement"][0]["Action"]}
    assert asked <= allowed
    services = {action.split(":")[0] for action in policy_to_examine(spec_of(NEW))["Statement"][0]["Action"]}
    assert not services & {"eks", "pcs"}
    for text, service in ((ON_EKS, "eks"), (ON_PCS, "pcs")):
        actions = policy_to_examine(spec_of(text))["Statement"][0]["Action"]
        assert any(one.startswith(f"{service}:") for one in actions)
        assert all(one.split(":")[1].startswith(("Describe", "Filter", "Get", "List")) for one in actions)


# The command.


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "cluster.yaml"
    made.write_text(NEW, encoding="utf-8")
    return made


def run(fake: FakeAws, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(preflight, "boto3_clients", lambda *_, **__: fake.clients)
    return main(["doctor", *arguments])


def test_the_command_prints_what_differs(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(aws(), monkeypatch, str(file)) == 0
    assert "no drifts, 2 resources compared" in capsys.readouterr().out
    larger = aws(autoscaling__describe_auto_scaling_groups={"AutoScalingGroups": [group(MaxSize=9)]})
    assert run(larger, monkeypatch, str(file)) == 1
    assert "MaxSize: 9, planned 2" in capsys.readouterr().out
    assert run(larger, monkeypatch, str(file), "--json") == 1
    (drift,) = json.loads(capsys.readouterr().out)["drifts"]
    assert (drift["about"], drift["property"], drift["live"]) == ("training.fleets.trainers", "MaxSize", 9)


def test_the_command_needs_a_deployed_cluster_and_credentials(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = {f"cloudformation__{name}": ABSENT for name in ("describe_stacks", "get_template", "list_stack_resources")}
    assert run(aws(**gone), monkeypatch, str(file)) == 2
    assert "nothing of llama could be compared" in capsys.readouterr().err
    expired = aws(sts__get_caller_identity=Refusal("ExpiredToken", "too late"))
    assert run(expired, monkeypatch, str(file)) == 2
    assert capsys.readouterr().err.startswith("gpu-clusters: doctor: the credentials have expired")
    assert main(["doctor", str(file), "--print-policy"]) == 0
    assert json.loads(capsys.readouterr().out)["Statement"][0]["Sid"] == "GpuClustersDoctor"
