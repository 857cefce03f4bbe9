"""Templates that give values to each other: exports, outputs of stacks, nested stacks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.template_rules.case import Case, Value, target_of
from cdk_gpu_clusters.template_rules.choices import Choices, Undecidable
from cdk_gpu_clusters.template_rules.engine import judge_estate
from cdk_gpu_clusters.template_rules.links import estates_of
from cdk_gpu_clusters.template_rules.lint import Report, lint
from cdk_gpu_clusters.template_rules.registry import every_rule
from cdk_gpu_clusters.template_rules.reports import FORMATS
from cdk_gpu_clusters.template_rules.rule import Outcome, Verdict
from cdk_gpu_clusters.template_rules.template import Template, read_text

NETWORK = """
Parameters: {Open: {Type: String}}
Conditions: {Never: !Equals [a, b]}
Resources:
  Fabric:
    Type: AWS::EC2::SecurityGroup
    Properties: {GroupDescription: fabric, VpcId: vpc-0123456789abcdef0}
Outputs:
  FabricId: {Value: !GetAtt Fabric.GroupId, Export: {Name: shared-fabric}}
  Type: {Value: p5.48xlarge, Export: {Name: !Sub 'shared-${AWS::Region}-type'}}
  Subnets: {Value: !Join [',', [subnet-1, !Ref Open, subnet-3]], Export: {Name: shared-subnets}}
  Open: {Value: !Ref Open, Export: {Name: shared-open}}
  Missing: {Condition: Never, Value: a, Export: {Name: shared-missing}}
"""


def template(text: str, stack: str, *, environment: str = "aws://111122223333/us-east-1", name: str = "") -> Template:
    region = environment.rpartition("/")[2]
    return Template(
        read_text(text),
        name=name or f"{stack}.template.json",
        region=region,
        stack_name=stack,
        environment=environment,
    )


def value_beside(text: str, *others: Template, environment: str = "aws://111122223333/us-east-1") -> Value:
    """A value of a template that is linked with others."""
    reader = template(
        f"Resources: {{Thing: {{Type: T, Properties: {{Value: {text}}}}}}}", "reader", environment=environment
    )
    estate = next(one for one in estates_of([*others, reader]) if reader in one.templates)
    resource = Case(reader, Choices(), estate).resource("Thing")
    assert resource is not None
    return resource.get("Value")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("!ImportValue shared-us-east-1-type", "p5.48xlarge"),
        ("!ImportValue {'Fn::Sub': 'shared-${AWS::Region}-type'}", "p5.48xlarge"),
        ("!GetStackOutput {StackName: network, OutputName: Type}", "p5.48xlarge"),
        ("!Select [2, !Split [',', !ImportValue shared-subnets]]", "subnet-3"),
        ("!Sub ['${a}!', {a: !ImportValue shared-us-east-1-type}]", "p5.48xlarge!"),
    ],
)
def test_what_another_template_holds_is_known(text: str, expected: str) -> None:
    assert value_beside(text, template(NETWORK, "network")).text() == expected


@pytest.mark.parametrize(
    "text", ["!ImportValue shared-fabric", "!GetStackOutput {StackName: network, OutputName: FabricId}"]
)
def test_a_resource_of_another_template_is_followed(text: str) -> None:
    network = template(NETWORK, "network")
    value = value_beside(text, network)
    target = target_of(value)
    assert target is not None
    assert (target.type, target.case.template) == ("AWS::EC2::SecurityGroup", network)
    assert target.is_target_of(value)
    with pytest.raises(Undecidable, match=r"network\.Fabric\.GroupId is known when the AWS::EC2::Sec"):
        value.text()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("!ImportValue shared-nothing", "no template that was given exports this value"),
        ("!ImportValue shared-missing", "no template that was given exports this value"),
        ("!ImportValue shared-open", "parameter Open has no default"),
        ("!Select [1, !Split [',', !ImportValue shared-subnets]]", "parameter Open has no default"),
        ("!GetStackOutput {StackName: other, OutputName: Type}", "no template that was given has this"),
        ("!GetStackOutput {StackName: network, OutputName: None}", "no template that was given has this"),
        (
            "!GetStackOutput {StackName: network, OutputName: Type, Region: eu-west-1}",
            "no template that was given",
        ),
        ("!GetStackOutput network", "no template that was given has this output"),
        ("!GetStackOutput {StackName: [a], OutputName: {b: 1}}", "no template that was given has this"),
        ("!ImportValue [a]", "no template that was given exports this value"),
    ],
)
def test_what_no_template_gives_is_undecidable(text: str, reason: str) -> None:
    with pytest.raises(Undecidable, match=reason) as caught:
        value_beside(text, template(NETWORK, "network")).text()
    assert caught.value.path[:4] == ("Resources", "Thing", "Properties", "Value")


def test_other_places_and_names_that_several_have_are_not_taken_for_it() -> None:
    elsewhere = template(NETWORK, "network", environment="aws://111122223333/eu-west-1")
    twice = [template(NETWORK, "network"), template(NETWORK, "network", name="again")]
    for others in ([elsewhere], twice):
        for text in (
            "!ImportValue shared-fabric",
            "!GetStackOutput {StackName: network, OutputName: FabricId}",
        ):
            assert target_of(value_beside(text, *others)) is None


def test_the_same_names_in_two_templates_are_not_the_same() -> None:
    text = "Parameters: {Open: {Type: String}}\nResources: {Thing: {Type: T, Properties: {Value: !Ref Open}}}"
    one, other = template(text, "one"), template(text, "other")
    first, second = (Case(each, Choices()).resource("Thing") for each in (one, other))
    assert first is not None
    assert second is not None
    assert first != second
    with pytest.raises(Undecidable):
        first.get("Value").is_same_as(second.get("Value"))


NODES = {
    "Type": "AWS::EC2::LaunchTemplate",
    "Properties": {
        "LaunchTemplateData": {
            "InstanceType": "p5.48xlarge",
            "MetadataOptions": {"HttpTokens": "required"},
            "NetworkInterfaces": [
                {
                    "NetworkCardIndex": 0,
                    "DeviceIndex": 0,
                    "InterfaceType": "efa",
                    "Groups": [{"Fn::ImportValue": "fabric"}],
                }
            ],
        }
    },
}
FABRIC = {
    "Type": "AWS::EC2::SecurityGroup",
    "Properties": {"GroupDescription": "nodes", "VpcId": "vpc-0123456789abcdef0"},
}


def rule_with_itself(kind: str, end: str, group: Any) -> dict[str, Any]:
    return {
        "Type": f"AWS::EC2::SecurityGroup{kind}",
        "Properties": {"GroupId": group, "IpProtocol": "-1", f"{end}SecurityGroupId": group},
    }


def written(folder: Path, **templates: Mapping[str, Any]) -> list[Path]:
    files = []
    for name, data in templates.items():
        files.append(folder / f"{name}.json")
        files[-1].write_text(json.dumps(data))
    return files


def efa(report: Report) -> dict[str, list[Outcome]]:
    wanted = ("GPU-EFA-030", "GPU-EFA-031")
    return {rule: [one.verdict.outcome for one in report.verdicts if one.verdict.rule.id == rule] for rule in wanted}


EXPORTED = {"Id": {"Value": {"Fn::GetAtt": ["Fabric", "GroupId"]}, "Export": {"Name": "fabric"}}}


def test_rules_of_a_group_are_seen_wherever_they_stand(tmp_path: Path) -> None:
    """The group, its rules and its nodes in three templates; each alone leaves the question open."""
    imported = {"Fn::ImportValue": "fabric"}
    files = written(
        tmp_path,
        network={"Resources": {"Fabric": FABRIC}, "Outputs": EXPORTED},
        rules={
            "Resources": {
                "In": rule_with_itself("Ingress", "Source", imported),
                "Out": rule_with_itself("Egress", "Destination", imported),
            }
        },
        nodes={"Resources": {"Nodes": NODES}},
    )
    undecided = [Outcome.UNDECIDABLE]
    assert efa(lint(files, every_rule())) == {"GPU-EFA-030": [], "GPU-EFA-031": []}
    assert efa(lint(files[2:], every_rule())) == {"GPU-EFA-030": undecided, "GPU-EFA-031": undecided}
    without = efa(lint([files[0], files[2]], every_rule()))
    assert without == {"GPU-EFA-030": [Outcome.NOT_COMPLIANT], "GPU-EFA-031": [Outcome.NOT_COMPLIANT]}


OPEN_FABRIC = {
    **FABRIC,
    "Properties": {
        **FABRIC["Properties"],  # type: ignore[dict-item]
        "SecurityGroupIngress": [
            {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "CidrIp": "0.0.0.0/0"},
        ],
    },
}


def open_group(folder: Path, **metadata: Any) -> Report:
    fabric, nodes = (
        {**one, "Metadata": metadata.get(name)} for name, one in (("Fabric", OPEN_FABRIC), ("Nodes", NODES))
    )
    files = written(
        folder,
        network={"Resources": {"Fabric": fabric}, "Outputs": EXPORTED},
        nodes={"Resources": {"Nodes": nodes}},
    )
    return lint(files, [rule for rule in every_rule() if rule.id == "GPU-LT-014"])


def test_a_fault_in_another_template_has_its_file_and_line(tmp_path: Path) -> None:
    report = open_group(tmp_path)
    [fault] = report.faults()
    assert Path(fault.file).name == "network.json"
    assert fault.verdict.path == ("Resources", "Fabric", "Properties", "SecurityGroupIngress", 0)
    assert Path(fault.file).read_text()[fault.place.column - 1 :].startswith('{"IpProtocol": "tcp"')
    assert fault.verdict.message.endswith(f"(for Nodes of {tmp_path / 'nodes.json'})")
    for write in FORMATS.values():
        assert "GPU-LT-014" in write(report)


@pytest.mark.parametrize("at", ["Fabric", "Nodes"])
def test_it_is_accepted_where_it_lies_or_where_it_was_asked(tmp_path: Path, at: str) -> None:
    accepted = {"cdk_gpu_clusters": {"acknowledge": [{"id": "GPU-LT-014", "reason": "a bastion"}]}}
    report = open_group(tmp_path, **{at: accepted})
    assert report.faults() == []
    assert [one.verdict.reason for one in report.accepted()] == ["a bastion"]


INNER = """
Parameters:
  Type: {Type: String}
  Groups: {Type: 'List<AWS::EC2::SecurityGroup::Id>'}
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData: {InstanceType: !Ref Type, SecurityGroupIds: !Ref Groups}
Outputs:
  Template: {Value: !Ref Nodes}
"""
OUTER = """
Resources:
  Fabric:
    Type: AWS::EC2::SecurityGroup
    Properties: {GroupDescription: nodes, VpcId: vpc-0123456789abcdef0}
  Inner:
    Type: AWS::CloudFormation::Stack
    Properties:
      TemplateURL: ./inner.yaml
      Parameters: {Type: p5.48xlarge, Groups: !Join [',', [!GetAtt Fabric.GroupId, sg-0123456789abcdef0]]}
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties: {LaunchTemplate: {LaunchTemplateId: !GetAtt Inner.Outputs.Template, Version: '1'}}
"""


def test_nested_stacks_get_the_parameters_of_their_parent_and_give_it_their_outputs() -> None:
    outer, inner = template(OUTER, "outer", name="outer.yaml"), template(INNER, "", name="inner.yaml")
    inner.environment, inner.region = "", None
    [estate] = estates_of([outer, inner])
    case = Case(inner, Choices(), estate)
    nodes = case.resource("Nodes")
    assert nodes is not None
    data = nodes.get("LaunchTemplateData")
    assert data.get("InstanceType").text() == "p5.48xlarge"
    first, second = data.get("SecurityGroupIds").items()
    group = target_of(first)
    assert group is not None
    assert group.logical_id == "Fabric"
    assert second.text() == "sg-0123456789abcdef0"
    assert inner.region == "us-east-1"
    user = case.beside(outer).resource("Group")
    assert user is not None
    assert target_of(user.get("LaunchTemplate", "LaunchTemplateId")) == nodes


def test_a_template_that_is_nested_twice_is_left_open() -> None:
    twice = OUTER + "  Again: {Type: AWS::CloudFormation::Stack, Properties: {TemplateURL: inner.yaml}}\n"
    outer, inner = template(twice, "outer", name="outer.yaml"), template(INNER, "", name="inner.yaml")
    for estate in estates_of([outer, inner]):
        assert estate.nested == {}


def test_templates_that_need_each_other_are_undecidable() -> None:
    """Deployed so they cannot be, but no circle ends in a crash."""

    def one(name: str, other: str) -> Template:
        data = (
            f"Conditions: {{C: !Equals [!Ref P, x]}}\nParameters: {{P: {{Type: String}}}}\n"
            f"Resources:\n  N: {{Type: AWS::EC2::LaunchTemplate, Condition: C, Properties: "
            f"{{LaunchTemplateData: {{InstanceType: !ImportValue {other}}}}}}}\n"
            f"  S: {{Type: AWS::CloudFormation::Stack, Properties: {{TemplateURL: {other}, "
            f"Parameters: {{P: !Ref P}}}}}}\n"
            f"Outputs: {{O: {{Condition: C, Value: !ImportValue {other}, Export: {{Name: {name}}}}}}}\n"
        )
        return template(data, name, name=name)

    for estate in estates_of([one("a", "b"), one("b", "a")]):
        said: list[Verdict] = [v for vs in judge_estate(estate, every_rule()).values() for v in vs]
        assert {verdict.outcome for verdict in said} <= {Outcome.UNDECIDABLE, Outcome.NOT_APPLICABLE}


def test_conditions_of_two_templates_are_told_apart() -> None:
    text = """
Parameters: {Mode: {Type: String}}
Conditions: {Fast: !Equals [!Ref Mode, fast]}
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        MetadataOptions: {HttpTokens: !If [Fast, optional, required]}
Outputs: {Mode: {Value: !If [Fast, a, b], Export: {Name: mode}}}
"""
    reader = "Resources: {Thing: {Type: T, Properties: {Value: !ImportValue mode}}}"
    [estate] = estates_of([template(text, "one"), template(reader, "two")])
    rules = [rule for rule in every_rule() if rule.id == "GPU-LT-010"]
    said = judge_estate(estate, rules)[estate.templates[0]]
    assert [verdict.when for verdict in said] == ["Mode of one = 'fast'"]
