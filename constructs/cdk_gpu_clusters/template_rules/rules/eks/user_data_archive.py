"""The user data of a managed node group is a MIME archive."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.groups import (
    EKS_NODE_GROUP,
    has_plain_user_data,
    launch_of_node_group,
)
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

ARCHIVE = define_rule(
    "GPU-EKS-018",
    "the user data of a managed node group of Amazon Linux is a MIME archive, which EKS adds its part to",
    source='Amazon EKS user guide, "Customize managed nodes with launch templates"',
)


def _check(resource: Resource) -> Iterator[Fault]:
    launch = launch_of_node_group(resource)
    ami_type = resource.get("AmiType").text() or ""
    if launch.data.get("ImageId").exists or not launch.data.get("UserData").exists:
        raise NotApplicable
    if not ami_type.startswith("AL2"):
        raise NotApplicable  # Bottlerocket reads TOML, Windows PowerShell
    plain = has_plain_user_data(launch)
    if plain is not None:
        yield Fault(at=plain, got="a text that does not start with MIME-Version", allowed="a MIME archive")


RULE = TemplateRule(
    rule=ARCHIVE,
    severity=Severity.ERROR,
    cause="EKS refuses user data that it cannot add its own part to",
    fix="write a multipart MIME archive, with the script as one of its parts",
    url="https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html",
    on=(EKS_NODE_GROUP,),
    looks_at=(
        "AmiType",
        "AWS::EC2::LaunchTemplate/LaunchTemplateData/UserData",
    ),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.xlarge
        MetadataOptions: {HttpTokens: required}
        UserData:
          Fn::Base64: |
            #!/bin/sh
            echo hello
  Group:
    Type: AWS::EKS::Nodegroup
    Properties:
      ClusterName: training
      NodeRole: arn:aws:iam::111122223333:role/nodes
      Subnets: [subnet-0123456789abcdef0]
      AmiType: AL2023_x86_64_NVIDIA
      LaunchTemplate: {Id: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.xlarge
        MetadataOptions: {HttpTokens: required}
        UserData:
          Fn::Base64: |
            MIME-Version: 1.0
            Content-Type: multipart/mixed; boundary="//"

            --//
            Content-Type: text/x-shellscript

            echo hello

            --//--
  Group:
    Type: AWS::EKS::Nodegroup
    Properties:
      ClusterName: training
      NodeRole: arn:aws:iam::111122223333:role/nodes
      Subnets: [subnet-0123456789abcdef0]
      AmiType: AL2023_x86_64_NVIDIA
      LaunchTemplate: {Id: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
)
