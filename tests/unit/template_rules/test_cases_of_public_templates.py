"""What public templates taught: cases that a rule once took for a fault, or did not see, in as few words as show it."""

from __future__ import annotations

import pytest

from cdk_gpu_clusters.template_rules.rule import Outcome
from templates import verdicts_of

COMPLIANT, FAULT = Outcome.COMPLIANT, Outcome.NOT_COMPLIANT
NOT_APPLICABLE, UNDECIDABLE = Outcome.NOT_APPLICABLE, Outcome.UNDECIDABLE


def outcomes(text: str, rule: str) -> set[Outcome]:
    return {verdict.outcome for verdict in verdicts_of(text, rule)}


BATCH = """
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties: {LaunchTemplateData: {MetadataOptions: {HttpTokens: required}}}
  Environment:
    Type: AWS::Batch::ComputeEnvironment
    Properties:
      Type: MANAGED
      ComputeResources:
        InstanceTypes: TYPES
        LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: $Latest}
        MORE
"""


def batch(types: str = "[g6.xlarge]", more: str = "MaxvCpus: 256") -> str:
    return BATCH.replace("TYPES", types).replace("MORE", more)


@pytest.mark.parametrize(
    ("types", "outcome"),
    [
        ("[g4dn]", COMPLIANT),
        ("[m5, r5, g4dn]", COMPLIANT),
        ("[m5, g6.xlarge]", COMPLIANT),
        ("[g4dn.huge]", FAULT),
        ("[m5]", NOT_APPLICABLE),
    ],
)
def test_batch_takes_families_of_types(types: str, outcome: Outcome) -> None:
    assert outcomes(batch(types), "GPU-INST-001") == {outcome}


def test_the_size_that_batch_will_choose_of_a_family_is_not_guessed() -> None:
    [verdict] = verdicts_of(batch("[g4dn]"), "GPU-CAP-005")
    assert verdict.reason == "Batch chooses a type of 'g4dn'"


def test_batch_tags_instances_with_the_tags_of_its_compute_resources() -> None:
    assert outcomes(batch(more="Tags: {Name: speech}"), "GPU-COST-001") == {COMPLIANT}
    assert outcomes(batch(), "GPU-COST-001") == {FAULT}


@pytest.mark.parametrize(
    ("image", "outcome"),
    [
        ("ImageId: /aws/service/ecs/optimized-ami/amazon-linux-2/gpu/recommended/image_id", FAULT),
        ("Ec2Configuration: [{ImageType: ECS_AL2023_NVIDIA, ImageIdOverride: gpu}]", FAULT),
        ("ImageId: ami-0123456789abcdef0", COMPLIANT),
        ("Ec2Configuration: [{ImageType: ECS_AL2023_NVIDIA}]", NOT_APPLICABLE),
    ],
)
def test_an_image_of_a_compute_environment_is_named_by_its_id(image: str, outcome: Outcome) -> None:
    assert outcome in outcomes(batch(more=image), "GPU-AMI-008")


NETWORK = """
Parameters: {Endpoint: {Type: String, Default: "true", AllowedValues: ["true", "false"]}}
Conditions: {Endpoint: !Equals [!Ref Endpoint, "true"]}
Resources:
  Network:
    Type: AWS::EC2::VPC
    Properties: {CidrBlock: 10.0.0.0/16}
  Public:
    Type: AWS::EC2::Subnet
    Properties: {VpcId: !Ref Network, CidrBlock: 10.0.0.0/24}
  Nat:
    Type: AWS::EC2::NatGateway
    Properties: {SubnetId: !Ref Public, AllocationId: eipalloc-0123456789abcdef0}
"""
LUSTRE = """
  Scratch:
    Type: AWS::FSx::FileSystem
    Properties: {FileSystemType: LUSTRE, SubnetIds: [subnet-0123456789abcdef0], StorageCapacity: 1200}
"""
WEB_SERVER = """
  Server:
    Type: AWS::EC2::Instance
    Properties: {InstanceType: t3.micro}
"""
OLD_NODES = """
  Nodes:
    Type: AWS::AutoScaling::LaunchConfiguration
    Properties: {InstanceType: p3.16xlarge, ImageId: ami-0123456789abcdef0}
"""
CHOSEN_ENDPOINT = """
  S3:
    Type: AWS::EC2::VPCEndpoint
    Condition: Endpoint
    Properties: {VpcId: !Ref Network, ServiceName: com.amazonaws.us-east-1.s3}
"""


@pytest.mark.parametrize(
    ("more", "outcome"),
    [
        (LUSTRE, FAULT),
        (OLD_NODES, FAULT),
        (WEB_SERVER, NOT_APPLICABLE),
        ("", UNDECIDABLE),
        (LUSTRE + CHOSEN_ENDPOINT, COMPLIANT),
    ],
    ids=["Lustre", "launch configuration", "web server", "network alone", "endpoint by choice"],
)
def test_a_network_without_an_s3_endpoint_matters_where_gpu_nodes_use_it(more: str, outcome: Outcome) -> None:
    assert outcomes(NETWORK + more, "GPU-COST-003") == {outcome}


CLUSTER = """
Resources:
  Control:
    Type: AWS::EC2::SecurityGroup
    Properties: {GroupDescription: control plane, VpcId: vpc-0123456789abcdef0}
  NodeGroup:
    Type: AWS::EC2::SecurityGroup
    Properties: {GroupDescription: nodes, VpcId: vpc-0123456789abcdef0}
  Cluster:
    Type: AWS::EKS::Cluster
    Properties:
      RoleArn: arn:aws:iam::111122223333:role/cluster
      ResourcesVpcConfig: {SubnetIds: [subnet-0123456789abcdef0], SecurityGroupIds: [!Ref Control]}
  Way:
    Type: AWS::EC2::SecurityGroupIngress
    Properties: {IpProtocol: "-1", GroupId: TO, SourceSecurityGroupId: FROM}
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties: {LaunchTemplateData: {SecurityGroupIds: [GROUP]}}
  Workers:
    Type: AWS::EKS::Nodegroup
    Properties:
      ClusterName: !Ref Cluster
      InstanceTypes: [g6.xlarge]
      LaunchTemplate: {Id: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
"""


@pytest.mark.parametrize(
    ("group", "source", "target", "outcome"),
    [
        ("!Ref Control", "!Ref Control", "!Ref Control", COMPLIANT),
        ("!Ref NodeGroup", "!Ref NodeGroup", "!Ref Control", COMPLIANT),
        ("!Ref NodeGroup", "!Ref NodeGroup", "!GetAtt Cluster.ClusterSecurityGroupId", COMPLIANT),
        ("!Ref NodeGroup", "!Ref NodeGroup", "!Ref NodeGroup", FAULT),
    ],
)
def test_nodes_that_the_control_plane_lets_in_need_not_be_in_its_group(
    group: str, source: str, target: str, outcome: Outcome
) -> None:
    text = CLUSTER.replace("GROUP]", f"{group}]").replace("FROM", source).replace("TO", target)
    assert outcomes(text, "GPU-EKS-017") == {outcome}


OLDER_CLASS = """
Conditions:
  Older: CONDITION
Parameters: {Class: {Type: String, Default: new}}
Resources:
  Scratch:
    Type: AWS::FSx::FileSystem
    Properties:
      FileSystemType: LUSTRE
      StorageCapacity: 1200
      LustreConfiguration: {DeploymentType: !If [Older, PERSISTENT_1, PERSISTENT_2]}
"""


@pytest.mark.parametrize(
    ("condition", "outcome"),
    [
        ("!Equals [!Ref AWS::Region, eu-west-3]", COMPLIANT),
        ("!Equals [!Sub '${AWS::Partition}', aws-us-gov]", COMPLIANT),
        ("!Not [!Equals [!Ref AWS::Region, us-east-1]]", FAULT),
        ("!Equals [!Ref Class, old]", FAULT),
    ],
)
def test_an_older_lustre_class_is_no_fault_where_a_region_is_why(condition: str, outcome: Outcome) -> None:
    found = outcomes(OLDER_CLASS.replace("CONDITION", condition), "GPU-LUS-001")
    assert (FAULT in found) is (outcome is FAULT)


def test_a_group_with_a_launch_configuration_takes_no_capacity_block() -> None:
    text = """
    Resources:
      Workers:
        Type: AWS::AutoScaling::AutoScalingGroup
        Properties: {MinSize: 0, MaxSize: 2, LaunchConfigurationName: workers}
    """
    assert outcomes(text, "GPU-CAP-033") == {NOT_APPLICABLE}


MOUNT = """
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        UserData:
          Fn::Base64: |
            #!/bin/bash
            LINE
            mount -t lustre fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com@tcp:/abcdef /fsx
"""


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("echo 'fs-0.fsx:/fsx/ /home nfs defaults 0 0' >> /etc/fstab", FAULT),
        ("echo 'fs-1@tcp:/abc /fsx lustre defaults,_netdev 0 0' >> /etc/fstab", COMPLIANT),
        ("printf 'fs-1@tcp:/abc\\t/fsx\\tlustre\\t_netdev\\t0 0' | tee -a /etc/fstab", COMPLIANT),
        ("systemctl enable /etc/systemd/system/fsx.mount", COMPLIANT),
    ],
)
def test_only_a_line_of_lustre_in_fstab_mounts_lustre_again(line: str, outcome: Outcome) -> None:
    assert outcomes(MOUNT.replace("LINE", line), "GPU-MNT-010") == {outcome}


@pytest.mark.parametrize(
    ("system", "options", "outcome"),
    [
        ("ECS_AL2023", "{}", COMPLIANT),
        ("ECS_AL2023", "{HttpTokens: optional}", FAULT),
        ("ECS_AL2_NVIDIA", "{}", FAULT),
    ],
)
def test_an_image_of_amazon_linux_2023_asks_for_tokens_by_itself(system: str, options: str, outcome: Outcome) -> None:
    text = batch(more=f"Ec2Configuration: [{{ImageType: {system}}}]")
    assert outcomes(text.replace("{HttpTokens: required}", options), "GPU-LT-010") == {outcome}
