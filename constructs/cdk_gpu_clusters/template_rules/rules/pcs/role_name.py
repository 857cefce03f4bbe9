"""The role of PCS nodes has the name or the path that PCS asks for."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource, target_of
from cdk_gpu_clusters.template_rules.lookups.groups import PCS_NODE_GROUP
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

ROLE = define_rule(
    "GPU-PCS-014",
    "the role of PCS nodes has a name that starts with AWSPCS, or the path /aws-pcs/",
    source='AWS PCS guide, "IAM instance profiles for AWS PCS"; AWS PCS API reference, iamInstanceProfileArn',
)
_PREFIX, _FOLDER = "AWSPCS", "/aws-pcs/"


def _check(resource: Resource) -> Iterator[Fault]:
    profile = target_of(resource.get("IamInstanceProfileArn"))
    if profile is None:
        resource.get("IamInstanceProfileArn").text()
        raise NotApplicable  # an ARN names the profile, not its role
    for value in profile.get("Roles").items():
        role = target_of(value)
        if role is None:
            if (value.text() or "").startswith(_PREFIX):
                continue
            raise value.undecidable("this role stands in no part of the template")
        name, path = role.get("RoleName"), role.get("Path")
        if _FOLDER not in (path.text() or "") and not (name.text() or "").startswith(_PREFIX):
            got = name.text() or "a name that CloudFormation makes of the stack's"
            yield Fault(at=role, got=got, allowed=f"Path {_FOLDER}, or a RoleName that starts with {_PREFIX}")


RULE = TemplateRule(
    rule=ROLE,
    severity=Severity.ERROR,
    cause="PCS refuses the instance profile",
    fix="set Path to /aws-pcs/ on the role, or begin its RoleName with AWSPCS",
    url="https://docs.aws.amazon.com/pcs/latest/userguide/security-instance-profiles_create.html",
    on=(PCS_NODE_GROUP,),
    looks_at=(
        "IamInstanceProfileArn",
        "AWS::IAM::InstanceProfile/Roles",
        "AWS::IAM::Role/Path",
        "AWS::IAM::Role/RoleName",
    ),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        MetadataOptions: {HttpTokens: required}
        NetworkInterfaces:
          - {DeviceIndex: 0, NetworkCardIndex: 0, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
          - {DeviceIndex: 1, NetworkCardIndex: 1, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
          - {DeviceIndex: 1, NetworkCardIndex: 2, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
          - {DeviceIndex: 1, NetworkCardIndex: 3, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
  Role:
    Type: AWS::IAM::Role
    Properties:
      AssumeRolePolicyDocument: {}
  Profile:
    Type: AWS::IAM::InstanceProfile
    Properties: {Roles: [!Ref Role]}
  Group:
    Type: AWS::PCS::ComputeNodeGroup
    Properties:
      ClusterId: pcs_0123456789
      IamInstanceProfileArn: !GetAtt Profile.Arn
      InstanceConfigs: [{InstanceType: p4d.24xlarge}]
      ScalingConfiguration: {MinInstanceCount: 0, MaxInstanceCount: 4}
      SubnetIds: [subnet-0123456789abcdef0]
      CustomLaunchTemplate: {TemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        MetadataOptions: {HttpTokens: required}
        NetworkInterfaces:
          - {DeviceIndex: 0, NetworkCardIndex: 0, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
          - {DeviceIndex: 1, NetworkCardIndex: 1, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
          - {DeviceIndex: 1, NetworkCardIndex: 2, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
          - {DeviceIndex: 1, NetworkCardIndex: 3, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
  Role:
    Type: AWS::IAM::Role
    Properties:
      Path: /aws-pcs/
      AssumeRolePolicyDocument: {}
  Profile:
    Type: AWS::IAM::InstanceProfile
    Properties: {Roles: [!Ref Role]}
  Group:
    Type: AWS::PCS::ComputeNodeGroup
    Properties:
      ClusterId: pcs_0123456789
      IamInstanceProfileArn: !GetAtt Profile.Arn
      InstanceConfigs: [{InstanceType: p4d.24xlarge}]
      ScalingConfiguration: {MinInstanceCount: 0, MaxInstanceCount: 4}
      SubnetIds: [subnet-0123456789abcdef0]
      CustomLaunchTemplate: {TemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
)
