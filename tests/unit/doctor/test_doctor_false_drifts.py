"""What AWS and the cluster itself set or write in another form is no drift; the same place changed by hand is one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.model import StringShape, StructureShape

from cdk_gpu_clusters.compute.reconcile import MANUAL, SIZE_TAG
from cdk_gpu_clusters_stacks.doctor import Diagnosis, examine
from cdk_gpu_clusters_stacks.doctor.compare import _DEFAULTS, differences
from cdk_gpu_clusters_stacks.doctor.mapping import BY_TYPE, described
from cdk_gpu_clusters_stacks.doctor.planned import Stack
from cdk_gpu_clusters_stacks.doctor.sizes import size_differences
from cdk_gpu_clusters_stacks.preflight import Account
from fake_aws import FakeAws, Refusal
from preflight_account import ACCOUNT, NEW, NOW, spec_of

RECORDED = Path(__file__).resolve().parents[2] / "synth" / "__snapshots__" / "test_plan_of_templates"
GROUP, NODES, PCS = "AWS::AutoScaling::AutoScalingGroup", "AWS::EKS::Nodegroup", "AWS::PCS::ComputeNodeGroup"


def paths(planned: Any, live: Any, path: tuple[str, ...] = (), *, strict: bool = False) -> list[str]:
    return [".".join(one.path) for one in differences(planned, live, path, strict=strict)]


# Forms and defaults.


def test_members_of_items_that_only_aws_gives_are_its_own() -> None:
    planned = {"Scripts": [{"Name": "boot"}, {"Name": "ready", "OnError": "CONTINUE"}]}
    filled = [{"Name": "ready", "OnError": "CONTINUE"}, {"Name": "boot", "OnError": "TERMINATE"}]
    assert paths(planned, {"Scripts": filled}) == []
    assert paths(planned, {"Scripts": filled}, strict=True) == ["Scripts"]
    assert paths(planned, {"Scripts": filled[:1]}) == ["Scripts"]
    assert paths(planned, {"Scripts": [*filled, {"Name": "more"}]}) == ["Scripts"]
    assert paths(planned, {"Scripts": [filled[0], {"Name": "other"}]}) == ["Scripts"]


@pytest.mark.parametrize("end", ["", ":*", ":log-stream:datarepo_fs-0123456789abcdef0"])
def test_the_destination_of_logs_is_a_log_group(end: str) -> None:
    arn = f"arn:aws:logs:us-east-1:{ACCOUNT}:log-group:/aws/fsx/lustre"
    assert paths({"Destination": arn}, {"Destination": f"{arn}{end}"}) == []
    assert paths({"Destination": arn}, {"Destination": f"{arn}-other{end}"}) == ["Destination"]


DEFAULTS = [(*place, value) for place, value in _DEFAULTS.items() if value is not None]


@pytest.mark.parametrize(("above", "name", "value"), DEFAULTS)
def test_a_stated_default_is_no_difference(above: str, name: str, value: Any) -> None:
    assert paths({}, {name: value}, (above,), strict=True) == []
    assert paths({}, {name: f"not {value}"}, (above,), strict=True) == [f"{above}.{name}"]
    lives: list[dict[str, Any]] = [{}, {above: {}}, {above: {name: value}}]
    for live in lives:
        assert paths({above: {name: value}}, live) == []
    assert paths({above: {name: value}}, {above: {name: f"not {value}"}}) == [f"{above}.{name}"]
    assert paths({above: {name: value, "Other": "x"}}, {}) == [above]


@pytest.mark.parametrize(("above", "name", "value"), DEFAULTS)
def test_each_default_is_that_of_the_service_model(above: str, name: str, value: Any) -> None:
    service, shape = {
        "Accounting": ("pcs", "Accounting"),
        "BlockStorage": ("eks", "BlockStorage"),
        "ComputeConfig": ("eks", "ComputeConfigResponse"),
        "ElasticLoadBalancing": ("eks", "ElasticLoadBalancing"),
        "MetadataOptions": ("ec2", "LaunchTemplateInstanceMetadataOptionsRequest"),
        "NetworkInterfaces": ("ec2", "LaunchTemplateInstanceNetworkInterfaceSpecificationRequest"),
        "Networking": ("pcs", "Networking"),
        "SlurmRest": ("pcs", "SlurmRest"),
    }[above]
    model = botocore.session.get_session().get_service_model(service).shape_for(shape)
    assert isinstance(model, StructureShape)
    members = {f"{key[:1].upper()}{key[1:]}": one for key, one in model.members.items()}
    words = re.sub("<[^>]+>", "", members[name].documentation)
    assert re.search(rf"[Dd]efault[^.]*[ :]{value}\b|specify {value} or omit|^Indicates if .* is enabled", words), words


# Sizes.


def templates(example: str, kind: str) -> list[tuple[Stack, dict[str, Any]]]:
    """Stacks of a recorded example with the properties of their first resource of a type."""
    recorded = json.loads((RECORDED / f"test_every_example_is_as_recorded[{example}.yaml].json").read_text("utf-8"))
    found = []
    for template in documents(recorded):
        ids = {name: name for name in template["Resources"]}
        stack = Stack(name="stack", about="", template=template, physical_ids=ids)
        found += [(stack, dict(one["Properties"])) for _, one in stack.resources(kind)][:1]
    return found


def documents(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [value] if "Resources" in value else [one for item in value.values() for one in documents(item)]
    return []


def sizes(stack: Stack, kind: str, given: dict[str, Any], live: dict[str, Any]) -> list[str]:
    planned = dict(given)
    found = [".".join(one.path) for one in size_differences(stack, kind, planned, live)]
    named = ("MinSize", "MaxSize", "ScalingConfig", "ScalingConfiguration")
    return found + paths({name: planned[name] for name in named if name in planned}, live)


def fleet(example: str, kind: str, count: int = -1) -> tuple[Stack, dict[str, Any]]:
    return templates(example, kind)[count]


@pytest.mark.parametrize(("desired", "found"), [(0, []), (16, []), (12, ["DesiredCapacity"])])
def test_a_block_has_no_nodes_or_all(desired: int, found: list[str]) -> None:
    stack, given = fleet("p5-capacity-block", GROUP)
    live = {"MinSize": 0, "MaxSize": 16, "DesiredCapacity": desired}
    assert sizes(stack, GROUP, given, live) == found
    assert sizes(stack, GROUP, given, {**live, "Tags": [{"Key": SIZE_TAG, "Value": MANUAL}]}) == []


def test_the_least_size_of_a_group_that_scales_may_be_that_of_its_state_machine() -> None:
    stack, given = fleet("p5-capacity-block", GROUP)
    machine = next(name for name, _ in stack.resources("AWS::StepFunctions::StateMachine") if "Reconcile" in name)
    properties = stack.template["Resources"][machine]["Properties"]
    properties["DefinitionString"] = properties["DefinitionString"].replace("$seen.desired !=", "$seen.least < 2 or")
    live = {"MaxSize": 16, "DesiredCapacity": 12}
    assert sizes(stack, GROUP, given, {**live, "MinSize": 2}) == []
    assert sizes(stack, GROUP, given, {**live, "MinSize": 0}) == []
    assert sizes(stack, GROUP, given, {**live, "MinSize": 3}) == ["MinSize"]


@pytest.mark.parametrize(
    ("example", "least", "desired", "most", "found"),
    [
        ("eks-p5-capacity-block", 0, 0, 16, []),
        ("eks-p5-capacity-block", 0, 16, 16, []),
        ("eks-p5-capacity-block", 0, 12, 16, ["ScalingConfig.DesiredSize"]),
        ("eks-g6e-vllm", 2, 3, 4, []),
        ("eks-g6e-vllm", 2, 5, 5, ["ScalingConfig.MaxSize", "ScalingConfig.DesiredSize"]),
        ("eks-p4d-mig", 2, 3, 3, ["ScalingConfig.MaxSize", "ScalingConfig.DesiredSize"]),
    ],
)
def test_a_node_group_that_scales_has_any_size_between_its_bounds(
    example: str, least: int, desired: int, most: int, found: list[str]
) -> None:
    stack, given = fleet(example, NODES)
    live = {"ScalingConfig": {"MinSize": least, "DesiredSize": desired, "MaxSize": most}}
    assert sorted(sizes(stack, NODES, given, live)) == sorted(found)


@pytest.mark.parametrize(
    ("example", "least", "most", "found"),
    [
        ("pcs-p5-capacity-block", 16, 16, []),
        ("pcs-p5-capacity-block", 0, 16, []),
        ("pcs-p5-capacity-block", 0, 8, ["MinInstanceCount", "MaxInstanceCount"]),
        ("pcs-p5-capacity-block", 4, 16, ["MinInstanceCount"]),
        ("pcs-spot-queue", 1, 8, ["MinInstanceCount"]),
    ],
)
def test_bounds_of_a_compute_node_group_are_those_that_its_state_machine_sets(
    example: str, least: int, most: int, found: list[str]
) -> None:
    rows = templates(example, PCS)
    stack, given = next(one for one in rows if one[1]["ScalingConfiguration"]["MaxInstanceCount"] in (8, 16))
    live = {"ScalingConfiguration": {"MinInstanceCount": least, "MaxInstanceCount": most}}
    expected = sorted(f"ScalingConfiguration.{name}" for name in found)
    assert sorted(sizes(stack, PCS, given, live)) == expected


# Capacity.


@pytest.mark.parametrize(("state", "is_there"), [("active", True), ("expired", True), ("cancelled", False)])
def test_a_reservation_that_expired_ended_as_planned(state: str, is_there: bool) -> None:
    kind = BY_TYPE["Custom::EC2CapacityReservation"]
    states = botocore.session.get_session().get_service_model("ec2").shape_for("CapacityReservationState")
    assert isinstance(states, StringShape)
    assert state in states.enum
    found = described(kind, {"CapacityReservations": [{"State": state, "TotalInstanceCount": 4}]})
    assert (found is not None) is is_there


# Rules of security groups.

STACK, OTHER = "llama-fleet-trainers", "llama-network"
ANY = {"IpProtocol": "-1", "CidrIpv4": "0.0.0.0/0", "IsEgress": True, "SecurityGroupRuleId": "sgr-1"}
SSH = {
    "IpProtocol": "tcp",
    "FromPort": 22,
    "ToPort": 22,
    "CidrIpv4": "0.0.0.0/0",
    "IsEgress": False,
    "SecurityGroupRuleId": "sgr-2",
}


def examined(properties: dict[str, Any], *rules: dict[str, Any], other: Refusal | None = None) -> Diagnosis:
    """An account with one security group and its rules."""
    group = {"Type": "AWS::EC2::SecurityGroup", "Properties": {"GroupDescription": "x", **properties}}
    row = {
        "LogicalResourceId": "Group",
        "PhysicalResourceId": "sg-1",
        "ResourceType": group["Type"],
        "ResourceStatus": "CREATE_COMPLETE",
        "LastUpdatedTimestamp": NOW,
    }
    absent = Refusal("ValidationError", "Stack with id x does not exist")

    def of_stack(answer: Any) -> Any:
        return lambda asked: (
            answer if asked["StackName"] == STACK else (asked["StackName"] == OTHER and other) or absent
        )

    stack = {"StackName": STACK, "CreationTime": NOW, "StackStatus": "CREATE_COMPLETE"}
    fake = FakeAws(
        {
            "sts.get_caller_identity": {"Account": ACCOUNT, "Arn": f"arn:aws:iam::{ACCOUNT}:user/me"},
            "cloudformation.describe_stacks": of_stack({"Stacks": [stack]}),
            "cloudformation.get_template": of_stack({"TemplateBody": json.dumps({"Resources": {"Group": group}})}),
            "cloudformation.list_stack_resources": of_stack({"StackResourceSummaries": [row]}),
            "ec2.describe_security_group_rules": {"SecurityGroupRules": list(rules)},
        }
    )
    with Account(fake.clients, region="us-east-1") as account:
        return examine(spec_of(NEW), account, rules=())


def test_the_egress_of_a_group_without_any_in_its_template_is_the_default_of_ec2() -> None:
    assert examined({}, ANY).drifts == []
    stated = {"SecurityGroupEgress": [{"IpProtocol": "-1", "CidrIp": "10.0.0.0/16"}]}
    ten = {**ANY, "CidrIpv4": "10.0.0.0/16", "SecurityGroupRuleId": "sgr-3"}
    assert [one.path for one in examined(stated, ten, ANY).drifts] == [("SecurityGroupEgress",)]


def test_a_rule_is_of_nobody_only_if_all_stacks_were_read() -> None:
    assert [one.path for one in examined({}, SSH).drifts] == [("SecurityGroupIngress",)]
    found = examined({}, SSH, other=Refusal("AccessDeniedException", "no"))
    assert found.drifts == []
    assert found.unread


def test_a_rule_is_of_nobody_only_if_all_planned_ones_are_known() -> None:
    group = {"SecurityGroupIngress": [{"IpProtocol": "tcp", "CidrIp": {"Fn::GetAtt": ["Other", "CidrBlock"]}}]}
    found = examined(group, SSH)
    assert found.drifts == []
    assert found.unknown == [f"{STACK} Group"]
