"""What rules find out about launches beyond one resource, and what they leave open instead of guessing."""

from __future__ import annotations

import pytest

from cdk_gpu_clusters.template_rules.rule import Outcome
from templates import verdicts_of

NODES = """
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.8xlarge
        NetworkInterfaces: [{DeviceIndex: 0, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}]
"""
GROUP = """
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 0
      MaxSize: 4
      VPCZoneIdentifier: SUBNETS
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
"""
SUBNETS = """
  First:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.0.0/24, AvailabilityZone: ONE}
  Second:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: vpc-0123456789abcdef0, CidrBlock: 10.0.1.0/24, AvailabilityZone: OTHER}
"""


def outcomes(text: str, rule: str, *, of: str = "") -> list[Outcome]:
    return [one.outcome for one in verdicts_of(text, rule) if not of or one.resource == of]


def in_zones(one: str, other: str) -> str:
    subnets = SUBNETS.replace("ONE", one).replace("OTHER", other)
    return f"Resources:{NODES}{GROUP.replace('SUBNETS', '[!Ref First, !Ref Second]')}{subnets}"


@pytest.mark.parametrize(
    ("one", "other", "outcome"),
    [
        ("us-east-1a", "us-east-1b", Outcome.NOT_COMPLIANT),
        ("us-east-1a", "us-east-1a", Outcome.COMPLIANT),
        ("!Ref AWS::Region", "!Ref AWS::Region", Outcome.COMPLIANT),
        ("us-east-1a", "use1-az1", Outcome.UNDECIDABLE),
        ('!Select [0, !GetAZs ""]', '!Select [1, !GetAZs ""]', Outcome.UNDECIDABLE),
    ],
)
def test_zones_are_compared_as_far_as_they_are_known(one: str, other: str, outcome: Outcome) -> None:
    """The name of a zone means another zone in each account, so a name and an id cannot be compared."""
    assert outcomes(in_zones(one, other), "GPU-FAB-003") == [outcome]


@pytest.mark.parametrize(
    ("subnets", "outcome"),
    [
        ("[subnet-0123456789abcdef0, subnet-0123456789abcdef1]", Outcome.NOT_COMPLIANT),
        ("[subnet-0123456789abcdef0, subnet-0123456789abcdef0]", Outcome.COMPLIANT),
        ("[!Ref Left, !Ref Left]", Outcome.COMPLIANT),
        ("[!Ref Left, !Ref Right]", Outcome.UNDECIDABLE),
        ("!Ref Several", Outcome.UNDECIDABLE),
    ],
)
def test_subnets_that_are_parameters_may_be_one(subnets: str, outcome: Outcome) -> None:
    parameters = """
Parameters:
  Left: {Type: "AWS::EC2::Subnet::Id"}
  Right: {Type: "AWS::EC2::Subnet::Id"}
  Several: {Type: "List<AWS::EC2::Subnet::Id>"}
"""
    text = f"{parameters}Resources:{NODES}{GROUP.replace('SUBNETS', subnets)}"
    assert outcomes(text, "GPU-FAB-004") == [outcome]


def test_the_same_subnet_named_in_two_ways_is_one_subnet() -> None:
    subnets = "[!Ref First, !GetAtt First.SubnetId]"
    text = f"Resources:{NODES}{GROUP.replace('SUBNETS', subnets)}{SUBNETS.replace('ONE', 'us-east-1a')}"
    assert outcomes(text, "GPU-FAB-004") == [Outcome.COMPLIANT]


def test_what_launches_from_elsewhere_may_be_placed_there() -> None:
    """A launch template alone says nothing of the group that is made from it, maybe in another stack."""
    assert outcomes(f"Resources:{NODES}", "GPU-PLC-007") == [Outcome.UNDECIDABLE]


def test_a_group_that_counts_weights_says_nothing_of_nodes() -> None:
    reserved = """
Resources:
  Reserved:
    Type: AWS::EC2::CapacityReservation
    Properties: {AvailabilityZone: us-east-1a, InstanceCount: 2, InstancePlatform: Linux/UNIX, InstanceType: g6.8xlarge}
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.8xlarge
        CapacityReservationSpecification: {CapacityReservationTarget: {CapacityReservationId: !Ref Reserved}}
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 0
      MaxSize: 64
      MixedInstancesPolicy:
        LaunchTemplate:
          LaunchTemplateSpecification: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
          Overrides: [{InstanceType: g6.8xlarge, WeightedCapacity: 32}]
"""
    assert outcomes(reserved, "GPU-CAP-022") == [Outcome.UNDECIDABLE]
    assert outcomes(reserved.replace(", WeightedCapacity: 32", ""), "GPU-CAP-022") == [Outcome.NOT_COMPLIANT]


BLOCK = """
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        InstanceMarketOptions: {MarketType: capacity-block}
        CapacityReservationSpecification: {CapacityReservationTarget: {CapacityReservationId: cr-0123456789abcdef0}}
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 0
      MaxSize: 4
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
"""
SCHEDULE = """
  Drain:
    Type: AWS::Scheduler::Schedule
    Properties:
      ScheduleExpression: at(2026-12-15T10:50:00)
      FlexibleTimeWindow: {Mode: "OFF"}
      Target:
        Arn: arn:aws:scheduler:::aws-sdk:autoscaling:updateAutoScalingGroup
        RoleArn: arn:aws:iam::123456789012:role/drain
        Input: !Sub '{"AutoScalingGroupName": "${Group}", "MinSize": 0, "MaxSize": 0}'
"""


def test_a_schedule_that_is_told_the_group_drains_it() -> None:
    assert outcomes(BLOCK, "GPU-CAP-033") == [Outcome.NOT_COMPLIANT]
    assert outcomes(f"{BLOCK}{SCHEDULE}", "GPU-CAP-033") == [Outcome.COMPLIANT]
    assert outcomes(BLOCK + SCHEDULE.replace("${Group}", "${GroupOfOthers}"), "GPU-CAP-033") == [Outcome.NOT_COMPLIANT]


IMAGE = """
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties: {LaunchTemplateData: {InstanceType: g5g.16xlarge, ImageId: "IMAGE"}}
"""
X86 = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id"


@pytest.mark.parametrize(
    ("image", "outcome"),
    [
        (f"resolve:ssm:{X86}", Outcome.NOT_COMPLIANT),
        (f"{{{{resolve:ssm:{X86}}}}}", Outcome.NOT_COMPLIANT),
        (f"{{{{resolve:ssm:{X86}:3}}}}", Outcome.NOT_COMPLIANT),
        (X86.replace("x86_64", "arm64").join(("resolve:ssm:", "")), Outcome.COMPLIANT),
        ("resolve:ssm:/our/golden/image", Outcome.UNDECIDABLE),
        ("ami-0123456789abcdef0", Outcome.UNDECIDABLE),
    ],
)
def test_an_image_is_known_by_its_public_parameter(image: str, outcome: Outcome) -> None:
    assert outcomes(IMAGE.replace("IMAGE", image), "GPU-AMI-005") == [outcome]


def with_user_data(script: str) -> str:
    return f"""
Resources:
  Logs: {{Type: "AWS::Logs::LogGroup"}}
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.xlarge
        UserData: {{"Fn::Base64": !Sub "{script}"}}
"""


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ("x" * 16_384, Outcome.COMPLIANT),
        ("x" * 16_385, Outcome.NOT_COMPLIANT),
        ("x" * 16_385 + "${Logs}", Outcome.NOT_COMPLIANT),
        ("x" * 16_370 + "${Logs}", Outcome.UNDECIDABLE),
        ("x" * 1_000 + "${Logs}", Outcome.COMPLIANT),
    ],
)
def test_user_data_near_the_limit_is_left_open_while_parts_are_unknown(script: str, outcome: Outcome) -> None:
    assert outcomes(with_user_data(script), "GPU-UD-001") == [outcome]


def test_one_type_of_several_that_a_launch_does_not_fit_is_found() -> None:
    """A group with two types is checked for each: interfaces that fit the first do not fit the second."""
    text = """
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        NetworkInterfaces:
          - {DeviceIndex: 0, NetworkCardIndex: 0, InterfaceType: interface}
          - {DeviceIndex: 1, NetworkCardIndex: 1, InterfaceType: efa-only}
  Pool:
    Type: AWS::EKS::Nodegroup
    Properties:
      ClusterName: gpu
      NodeRole: arn:aws:iam::123456789012:role/node
      Subnets: [subnet-0123456789abcdef0]
      InstanceTypes: [p4d.24xlarge, g6.8xlarge]
      LaunchTemplate: {Id: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
"""
    found = [one for one in verdicts_of(text, "GPU-EFA-006") if one.outcome is Outcome.NOT_COMPLIANT]
    assert [one.finding.cause for one in found if one.finding] == ["g6.8xlarge has no network card 1"]
    assert outcomes(text, "GPU-FAB-005", of="Nodes") == [Outcome.NOT_COMPLIANT]


def test_a_block_in_aws_batch_gets_its_types_from_the_compute_environment() -> None:
    text = BLOCK.partition("  Group:")[0].replace("        InstanceType: p5.48xlarge\n", "")
    batch = """
  Jobs:
    Type: AWS::Batch::ComputeEnvironment
    Properties:
      Type: MANAGED
      ComputeResources:
        Type: EC2
        InstanceTypes: [p5.48xlarge]
        LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
"""
    assert outcomes(text, "GPU-CAP-035") == [Outcome.NOT_COMPLIANT]
    assert outcomes(f"{text}{batch}", "GPU-CAP-035") == [Outcome.NOT_APPLICABLE]


def test_a_reservation_that_somebody_has_yet_to_fill_in_is_left_open() -> None:
    parameter = """
Parameters:
  Block: {Type: String, Default: ""}
"""
    text = parameter + BLOCK.replace("CapacityReservationId: cr-0123456789abcdef0", "CapacityReservationId: !Ref Block")
    assert outcomes(text, "GPU-CAP-006") == [Outcome.UNDECIDABLE]
