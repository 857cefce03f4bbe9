"""GPUs are split again at every boot."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, launch_of, user_data_of
from cdk_gpu_clusters.template_rules.lookups.mig import splits_of
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

EVERY_BOOT = define_rule(
    "GPU-MIG-010",
    "GPUs are split again at every boot",
    source="NVIDIA MIG User Guide, editions 580 to 620 (2026-10): instances do not persist over a reboot",
)
# What runs again: a unit, or a part of user data of every boot.
_AGAIN = re.compile(r"/etc/systemd/|bootcmd:|boothook|scripts-user, *always|@reboot|mig-parted|mig-manager")
_CREATED = re.compile(r"nvidia-smi mig\b[^\n]*-cgi")


def _check(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    splits_of(launch)
    user_data = user_data_of(launch)
    if user_data is None:
        raise NotApplicable
    created = _CREATED.search(user_data.text)
    if created and not _AGAIN.search(user_data.text):
        yield Fault(at=user_data.value, got=created[0], allowed="a systemd unit, or bootcmd")


RULE = TemplateRule(
    rule=EVERY_BOOT,
    severity=Severity.WARNING,
    cause="user data runs at the first boot only: after a reboot the GPUs have no instances, and jobs find none",
    fix="make the instances in a systemd unit that starts after the driver, or in bootcmd",
    url="https://docs.nvidia.com/datacenter/tesla/mig-user-guide/",
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/UserData",),
    check=_check,
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
            #!/bin/sh
            nvidia-smi -mig 1
            nvidia-smi mig -cgi 3g.20gb,2g.10gb,1g.5gb,1g.5gb -C
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
