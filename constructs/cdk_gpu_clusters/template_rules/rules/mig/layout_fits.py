"""The profiles of a layout fit side by side."""

from __future__ import annotations

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.mig import DOES_NOT_FIT
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES
from cdk_gpu_clusters.template_rules.rule import TemplateRule
from cdk_gpu_clusters.template_rules.rules.mig._layouts import LOOKS_AT, URL, checks_layouts

RULE = TemplateRule(
    rule=DOES_NOT_FIT,
    severity=Severity.ERROR,
    cause="the driver makes a part of the instances, and the node has fewer slices than jobs ask for",
    fix="use a layout that fits the GPU",
    url=URL,
    on=LAUNCHES,
    looks_at=LOOKS_AT,
    check=checks_layouts(DOES_NOT_FIT),
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p4d.24xlarge
        MetadataOptions: {HttpTokens: required}
        UserData:
          Fn::Base64: |
            #cloud-config
            bootcmd:
              - nvidia-smi -mig 1
              - nvidia-smi mig -cgi 3g.20gb,3g.20gb,1g.5gb -C
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p4d.24xlarge
        MetadataOptions: {HttpTokens: required}
        UserData:
          Fn::Base64: |
            #cloud-config
            bootcmd:
              - nvidia-smi -mig 1
              - nvidia-smi mig -cgi 3g.20gb,2g.10gb,1g.5gb,1g.5gb -C
""",
)
