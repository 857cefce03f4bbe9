"""User data holds no secret."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.node.user_data import SECRET, check_secrets
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, accelerated_launch, user_data_of
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule


def _check(resource: Resource) -> Iterator[Fault]:
    data = user_data_of(accelerated_launch(resource))
    if data is None:
        raise NotApplicable
    for finding in check_secrets(data.text):  # a key is one for sure, a password is a guess by the name
        yield Fault(
            at=data.value,
            got=finding.got,
            allowed="no secret",
            cause=finding.cause,
            severity=finding.severity,
        )


RULE = TemplateRule(
    rule=SECRET,
    severity=Severity.WARNING,
    cause="everyone on the node reads user data, and all who may describe it; access keys and private keys are errors",
    fix="keep it in Secrets Manager or Parameter Store, and fetch it on the node with the instance role",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-metadata.html",
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
