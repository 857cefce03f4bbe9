"""Nodes that split their GPUs do not train over EFA."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.mig import WITH_EFA, check_mig_with_efa
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, launch_of
from cdk_gpu_clusters.template_rules.lookups.mig import splits_of
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule


def _check(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    for split in splits_of(launch):
        if not all(layout.is_whole_gpu for layout in split.layouts) or not split.layouts:
            for _, record in launch.records():
                for _ in check_mig_with_efa(record, split.layouts, efa=launch.has_efa()):
                    got = f"{record.name} with EFA and {split.told}"
                    yield Fault(at=split.value, got=got, allowed="EFA or MIG")


RULE = TemplateRule(
    rule=WITH_EFA,
    severity=Severity.ERROR,
    cause="a process uses one MIG instance only, without peer-to-peer over NVLink: collectives cannot run",
    fix="leave the EFA interfaces out if the nodes serve or share GPUs; leave MIG out if they train together",
    url="https://docs.nvidia.com/datacenter/tesla/mig-user-guide/",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/UserData",
        "LaunchTemplateData/NetworkInterfaces/*/InterfaceType",
    ),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p4d.24xlarge
        MetadataOptions: {HttpTokens: required}
        NetworkInterfaces:
          - {DeviceIndex: 0, NetworkCardIndex: 0, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
          - {DeviceIndex: 0, NetworkCardIndex: 1, InterfaceType: efa-only, Groups: [sg-0123456789abcdef0]}
          - {DeviceIndex: 0, NetworkCardIndex: 2, InterfaceType: efa-only, Groups: [sg-0123456789abcdef0]}
          - {DeviceIndex: 0, NetworkCardIndex: 3, InterfaceType: efa-only, Groups: [sg-0123456789abcdef0]}
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
        NetworkInterfaces:
          - {DeviceIndex: 0, InterfaceType: interface, Groups: [sg-0123456789abcdef0]}
        UserData:
          Fn::Base64: |
            #cloud-config
            bootcmd:
              - nvidia-smi -mig 1
              - nvidia-smi mig -cgi 3g.20gb,2g.10gb,1g.5gb,1g.5gb -C
""",
)
