"""One instance of a GPU has the media extensions."""

from __future__ import annotations

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.mig import MEDIA_ENGINES
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES
from cdk_gpu_clusters.template_rules.rule import TemplateRule
from cdk_gpu_clusters.template_rules.rules.mig._layouts import LOOKS_AT, URL, checks_layouts

RULE = TemplateRule(
    rule=MEDIA_ENGINES,
    severity=Severity.ERROR,
    cause="the driver refuses a second instance with the media extensions",
    fix="give +me to one instance of a GPU",
    url=URL,
    on=LAUNCHES,
    looks_at=LOOKS_AT,
    check=checks_layouts(MEDIA_ENGINES),
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
              - nvidia-smi mig -cgi 1g.5gb+me,1g.5gb+me -C
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
