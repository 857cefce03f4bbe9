"""User data is no longer than EC2 accepts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.node.user_data import SIZE, check_user_data_size
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, accelerated_launch, user_data_of
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule, faults_of

_UNKNOWN = re.compile(r"\$\{[^}]*}")
# The longest value that is at hand, the ARN of a secret, is shorter.
_LONGEST = "x" * 256


def _check(resource: Resource) -> Iterator[Fault]:
    data = user_data_of(accelerated_launch(resource))
    if data is None:
        raise NotApplicable
    shortest, longest = data.text, data.text
    if not data.is_complete:
        shortest, longest = _UNKNOWN.sub("", data.text), _UNKNOWN.sub(_LONGEST, data.text)
    findings = check_user_data_size(shortest)
    yield from faults_of(SIZE, findings, data.value, own_fix=True)
    if not findings and check_user_data_size(longest):
        raise data.value.undecidable("it is near the limit, and parts of it are known at deployment only")


RULE = TemplateRule(
    rule=SIZE,
    severity=Severity.ERROR,
    cause="EC2 refuses user data of more than 16,384 bytes",
    fix="fetch what is long from S3 in a short script",
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
          Fn::Base64:
            Fn::Sub:
              - "#!/bin/sh\\necho ${Chapter}${Chapter}${Chapter}${Chapter}${Chapter}${Chapter}${Chapter}${Chapter}"
              - Chapter:
                  Fn::Sub:
                    - "${Page}${Page}${Page}${Page}${Page}${Page}${Page}${Page}"
                    - Page:
                        Fn::Sub:
                          - "${Line}${Line}${Line}${Line}${Line}${Line}${Line}${Line}"
                          - Line: 0123456789abcdef0123456789abcdef0123456789abcdef
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        UserData:
          Fn::Base64:
            Fn::Sub:
              - "#!/bin/sh\\necho ${Chapter}${Chapter}${Chapter}${Chapter}${Chapter}${Chapter}${Chapter}${Chapter}"
              - Chapter:
                  Fn::Sub:
                    - "${Page}${Page}${Page}${Page}${Page}${Page}${Page}${Page}"
                    - Page:
                        Fn::Sub:
                          - "${Line}${Line}${Line}${Line}${Line}${Line}${Line}${Line}"
                          - Line: 0123456789abcdef
""",
)
