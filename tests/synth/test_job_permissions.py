"""What a fleet gives to those who may run jobs on it, and what its nodes may do for that."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam
from cfnlint.api import lint_all

from cdk_gpu_clusters import GpuFleet, InferenceFleet, ModelServer, ServerSlots
from stack_fixtures import Site


def fleet(site: Site) -> GpuFleet:
    return GpuFleet(
        site.stack, "Trainers", vpc=site.vpc, vpc_subnets=site.one_subnet, instance_type="g6.xlarge", node_count=2
    )


def resources(template: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    return {name: one["Properties"] for name, one in template["Resources"].items() if one["Type"] == kind}


def statements(template: dict[str, Any], kind: str, part: str) -> list[dict[str, Any]]:
    (found,) = [one["PolicyDocument"]["Statement"] for name, one in resources(template, kind).items() if part in name]
    return list(found)


def test_a_fleet_has_a_document_without_parameters_and_the_group_names_it(site: Site) -> None:
    fleet(site)
    template = site.template()
    ((name, document),) = resources(template, "AWS::SSM::Document").items()
    assert "parameters" not in document["Content"]
    assert document["UpdateMethod"] == "NewVersion"
    ((parameter, value),) = resources(template, "AWS::SSM::Parameter").items()
    assert value["Value"] == "none"
    (group,) = resources(template, "AWS::AutoScaling::AutoScalingGroup").values()
    tags = {tag["Key"]: tag for tag in group["Tags"]}
    assert tags["gpu-clusters:job-document"]["Value"] == {"Ref": name}
    assert tags["gpu-clusters:job-parameter"]["Value"] == {"Ref": parameter}
    assert not tags["gpu-clusters:log-group"]["PropagateAtLaunch"]


def test_a_node_without_the_software_yet_ignores_the_document(site: Site) -> None:
    """The agent runs earlier in a boot; such a node looks for the job by itself."""
    fleet(site)
    (document,) = resources(site.template(), "AWS::SSM::Document").values()
    (line,) = document["Content"]["mainSteps"][0]["inputs"]["runCommand"]
    assert "/usr/local/bin/gpunode job sync" in line
    done = subprocess.run(["sh", "-c", line.replace("/usr/local", "/nowhere")], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    program = subprocess.run(
        ["sh", "-c", line.replace("/usr/local/bin/gpunode", "/bin/echo")], capture_output=True, check=True
    )
    assert program.stdout == b"job sync\n"


def test_cfn_lint_accepts_the_document(site: Site) -> None:
    """Rule E3051 of cfn-lint has the schema of Systems Manager's documents."""
    fleet(site)
    template = site.template()
    assert [one for one in lint_all(json.dumps(template)) if one.rule.id == "E3051"] == []
    (document,) = resources(template, "AWS::SSM::Document").values()
    document["Content"]["schemaVersion"] = "2.3"
    assert [one.rule.id for one in lint_all(json.dumps(template)) if one.rule.id == "E3051"] != []


def test_nodes_read_one_parameter_and_write_under_their_own_address(site: Site) -> None:
    fleet(site)
    template = site.template()
    found = statements(template, "AWS::IAM::ManagedPolicy", "NodePermissions")
    (parameters,) = [one for one in found if "ssm:GetParameter" in one["Action"]]
    (name,) = resources(template, "AWS::SSM::Parameter")
    assert {"Ref": name} in parameters["Resource"]["Fn::Join"][1]
    assert not any(action.startswith("ssm:Put") for one in found for action in one["Action"])
    (written,) = [one["Resource"] for one in found if "logs:PutLogEvents" in one["Action"]]
    assert all("${aws:Ec2InstanceSourcePrivateIPv4}" in json.dumps(one) for one in written)
    assert any(json.dumps(one).count("jobs/*/i-*/") for one in written)


def test_developers_get_one_fleet_and_no_shell(site: Site) -> None:
    trainers = fleet(site)
    role = iam.Role(site.stack, "Developers", assumed_by=iam.AccountRootPrincipal())
    trainers.grant_run_jobs(role)
    template = site.template()
    found = statements(template, "AWS::IAM::Policy", "Developers")
    sends = [one for one in found if one["Action"] == "ssm:SendCommand"]
    (document,) = resources(template, "AWS::SSM::Document")
    assert {"Ref": document} in sends[0]["Resource"]["Fn::Join"][1]
    (group,) = resources(template, "AWS::AutoScaling::AutoScalingGroup")
    assert sends[1]["Condition"] == {"StringEquals": {"ssm:resourceTag/aws:autoscaling:groupName": {"Ref": group}}}
    actions = {
        action for one in found for action in ([one["Action"]] if isinstance(one["Action"], str) else one["Action"])
    }
    assert "ssm:StartSession" not in actions
    (written,) = [one["Resource"] for one in found if "logs:PutLogEvents" in one["Action"]]
    assert json.dumps(written).count("log-stream:jobs/*/files") == 1
    everywhere = [one["Action"] for one in found if one["Resource"] == "*"]
    assert everywhere == [["autoscaling:DescribeAutoScalingGroups", "ssm:ListCommandInvocations"]]


def test_a_fleet_of_model_servers_takes_no_jobs(site: Site) -> None:
    service = InferenceFleet(
        site.stack,
        "Chat",
        vpc=site.vpc,
        instance_type="g6e.48xlarge",
        min_node_count=2,
        slots=ServerSlots.tensor_parallel(4),
        server=ModelServer(image="vllm/vllm-openai:v0.11.0", command=["--model", "/models/llama"]),
        plain_http=True,
    )
    with pytest.raises(ValueError, match="take no jobs"):
        service.fleet.grant_run_jobs(iam.Role(site.stack, "Developers", assumed_by=iam.AccountRootPrincipal()))
    template = site.template()
    assert resources(template, "AWS::SSM::Document") == {}
    assert cdk.Stack.of(service) is site.stack


@pytest.mark.parametrize(("nodes", "rules"), [(1, 0), (2, 1)])
def test_nodes_without_efa_reach_each_other_and_nobody_else_does(site: Site, nodes: int, rules: int) -> None:
    """A security group admits nothing by itself, not even its own members (Amazon VPC user guide, "Security groups")."""
    GpuFleet(
        site.stack, "Small", vpc=site.vpc, vpc_subnets=site.one_subnet, instance_type="g6.xlarge", node_count=nodes
    )
    template = site.template()
    ((group, made),) = resources(template, "AWS::EC2::SecurityGroup").items()
    assert "SecurityGroupIngress" not in made
    found = list(resources(template, "AWS::EC2::SecurityGroupIngress").values())
    assert len(found) == rules
    for one in found:
        assert one["GroupId"] == one["SourceSecurityGroupId"] == {"Fn::GetAtt": [group, "GroupId"]}
        assert (one["IpProtocol"], one["FromPort"], one["ToPort"]) == ("tcp", 1024, 65535)
