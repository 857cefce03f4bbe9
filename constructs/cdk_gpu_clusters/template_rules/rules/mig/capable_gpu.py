"""GPUs are split that can be split."""

from __future__ import annotations

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.mig import NOT_CAPABLE
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES
from cdk_gpu_clusters.template_rules.rule import TemplateRule
from cdk_gpu_clusters.template_rules.rules.mig._layouts import LOOKS_AT, URL, checks_layouts

RULE = TemplateRule(
    rule=NOT_CAPABLE,
    severity=Severity.ERROR,
    cause="the driver refuses to split a GPU without MIG, and the node never gets its slices",
    fix="choose a type whose GPU has MIG, or leave MIG out",
    url=URL,
    on=LAUNCHES,
    looks_at=LOOKS_AT,
    check=checks_layouts(NOT_CAPABLE),
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6e.48xlarge
        MetadataOptions: {HttpTokens: required}
        UserData:
          Fn::Base64: |
            #cloud-config
            bootcmd:
              - nvidia-smi -mig 1
              - nvidia-smi mig -cgi 3g.20gb,2g.10gb,1g.5gb,1g.5gb -C
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
