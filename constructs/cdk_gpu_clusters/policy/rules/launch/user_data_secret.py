"""User data holds no secret."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.node.user_data import SECRET, check_secrets
from cdk_gpu_clusters.policy.case import Resource
from cdk_gpu_clusters.policy.lookups.launches import LAUNCHES, accelerated_launch
from cdk_gpu_clusters.policy.lookups.user_data import user_data_of
from cdk_gpu_clusters.policy.rule import Fault, NotApplicable, TemplateRule, faults_of


def _check(resource: Resource) -> Iterator[Fault]:
    data = user_data_of(accelerated_launch(resource))
    if data is None:
        raise NotApplicable
    yield from faults_of(SECRET, check_secrets(data.text), data.value)


RULE = TemplateRule(
    rule=SECRET,
    severity=Severity.WARNING,
    cause="user data is readable by everyone on the node, and by all who may describe it",
    fix="keep it in Secrets Manager or Parameter Store, and fetch it on the node with the instance role",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/user-data.html",
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/UserData",),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        UserData:
          Fn::Base64: |
            #!/bin/sh
            docker login -u robot --password=hunter2hunter2 registry.example.com
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        UserData:
          Fn::Base64: |
            #!/bin/sh
            aws ecr get-login-password | docker login -u AWS --password-stdin registry.example.com
""",
)
