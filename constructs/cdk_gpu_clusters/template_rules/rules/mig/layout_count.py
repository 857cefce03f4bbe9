"""There is one layout for all GPUs of a node, or one for each."""

from __future__ import annotations

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.mig import LAYOUT_COUNT
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES
from cdk_gpu_clusters.template_rules.rule import TemplateRule
from cdk_gpu_clusters.template_rules.rules.mig._layouts import LOOKS_AT, URL, checks_layouts

RULE = TemplateRule(
    rule=LAYOUT_COUNT,
    severity=Severity.ERROR,
    cause="the number of layouts is neither one nor that of the GPUs of a node",
    fix="give one layout, or as many as the node has GPUs",
    url=URL,
    on=LAUNCHES,
    looks_at=LOOKS_AT,
    check=checks_layouts(LAYOUT_COUNT),
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
            write_files:
              - path: /etc/default/mig
                content: MIG_PARTITION="1g.5gb,1g.5gb;off;off;off;off;off;off"
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
            write_files:
              - path: /etc/default/mig
                content: MIG_PARTITION="1g.5gb,1g.5gb;off;off;off;off;off;off;off"
""",
)
