"""A layout names profiles of its GPU."""

from __future__ import annotations

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.mig import UNKNOWN_PROFILE
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES
from cdk_gpu_clusters.template_rules.rule import TemplateRule
from cdk_gpu_clusters.template_rules.rules.mig._layouts import LOOKS_AT, URL, checks_layouts

RULE = TemplateRule(
    rule=UNKNOWN_PROFILE,
    severity=Severity.ERROR,
    cause="the driver refuses a profile that the GPU does not have",
    fix="use the profiles of this GPU; their names differ between GPUs",
    url=URL,
    on=LAUNCHES,
    looks_at=LOOKS_AT,
    check=checks_layouts(UNKNOWN_PROFILE),
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
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
