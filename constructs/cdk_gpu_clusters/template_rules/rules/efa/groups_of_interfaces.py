"""Security groups stand in the interfaces, where interfaces are given."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, launch_of
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

GROUPS_OF_INTERFACES = define_rule(
    "GPU-EFA-033",
    "a launch with network interfaces names its security groups in them, and nowhere else",
    source='EC2 API, RunInstances, "SecurityGroupIds"; AWS PCS user guide, "Create or update an EC2 launch template"',
)


def _check(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    if not launch.interfaces():
        raise NotApplicable
    for name in ("SecurityGroupIds", "SecurityGroups"):
        if (groups := launch.data.get(name)).exists:
            yield Fault(
                at=groups, got=f"{name} beside NetworkInterfaces", allowed="NetworkInterfaces/*/Groups"
            )


RULE = TemplateRule(
    rule=GROUPS_OF_INTERFACES,
    severity=Severity.ERROR,
    cause="EC2 refuses a launch with security groups beside network interfaces",
    fix="move the groups into each interface",
    url="https://docs.aws.amazon.com/pcs/latest/userguide/working-with_networking_efa_create-lt.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/SecurityGroupIds",
        "LaunchTemplateData/SecurityGroups",
        "LaunchTemplateData/NetworkInterfaces",
    ),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.12xlarge
        SecurityGroupIds: [sg-0123456789abcdef0]
        NetworkInterfaces:
          - {DeviceIndex: 0}
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.12xlarge
        NetworkInterfaces:
          - {DeviceIndex: 0, Groups: [sg-0123456789abcdef0]}
""",
)
