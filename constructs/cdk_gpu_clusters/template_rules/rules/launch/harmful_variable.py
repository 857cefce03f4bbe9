"""User data sets no variable that does harm on current EFA software."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.harmful_variables import HARMFUL_VARIABLE, check_variable
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, accelerated_launch, user_data_of
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule, faults_of

_ASSIGNMENT = re.compile(r"(?m)^[ \t]*(?:-[ \t]+)?(?:export[ \t]+|ENV[ \t]+)?([A-Z][A-Z0-9_]*)=(\S*)")


def _check(resource: Resource) -> Iterator[Fault]:
    data = user_data_of(accelerated_launch(resource))
    if data is None:
        raise NotApplicable
    for name, value in _ASSIGNMENT.findall(data.text):
        yield from faults_of(HARMFUL_VARIABLE, check_variable(name, value), data.value)


RULE = TemplateRule(
    rule=HARMFUL_VARIABLE,
    severity=Severity.WARNING,
    cause="the variable was of use with older software, and slows or breaks collective operations today",
    fix="remove the variable",
    url="https://github.com/awslabs/awsome-distributed-ai/blob/main/1.architectures/efa-cheatsheet.md",
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
            export NCCL_PROTO=simple
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
            export NCCL_DEBUG=INFO
""",
)
