"""Containers of a multi-node job see the EFA device."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.jobs import JOB_DEFINITION, node_ranges_of
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

DEVICE = define_rule(
    "GPU-BAT-004",
    "containers of a multi-node job on nodes with EFA are given the EFA device",
    source='AWS Batch user guide, "Elastic Fabric Adapter"',
)


def _check(resource: Resource) -> Iterator[Fault]:
    ranges = [one for one in node_ranges_of(resource) if any(one.network.efa for one in one.records())]
    if not ranges:
        raise NotApplicable
    for one in ranges:
        devices = one.container.get("LinuxParameters", "Devices")
        paths = [device.get("HostPath").text() or "" for device in devices.items()]
        if not any(path.startswith("/dev/infiniband/") for path in paths):
            yield Fault(
                at=devices, got=", ".join(paths) or "no devices", allowed="/dev/infiniband/uverbs0 and such"
            )


RULE = TemplateRule(
    rule=DEVICE,
    severity=Severity.WARNING,
    cause="the container finds no EFA, and falls back to TCP: slower by far",
    fix="add /dev/infiniband/uverbs0 to LinuxParameters/Devices, and one for each further EFA",
    url="https://docs.aws.amazon.com/batch/latest/userguide/efa.html",
    on=(JOB_DEFINITION,),
    looks_at=(
        "NodeProperties/NodeRangeProperties/*/Container/LinuxParameters/Devices",
        "NodeProperties/NodeRangeProperties/*/InstanceTypes",
    ),
    check=_check,
    bad="""
Resources:
  Train:
    Type: AWS::Batch::JobDefinition
    Properties:
      Type: multinode
      NodeProperties:
        MainNode: 0
        NumNodes: 4
        NodeRangeProperties:
          - TargetNodes: "0:3"
            InstanceTypes: [g6.8xlarge]
            Container:
              Image: 111122223333.dkr.ecr.us-east-1.amazonaws.com/train:1
              ResourceRequirements:
                - {Type: GPU, Value: "1"}
                - {Type: VCPU, Value: "30"}
                - {Type: MEMORY, Value: "120000"}
""",
    good="""
Resources:
  Train:
    Type: AWS::Batch::JobDefinition
    Properties:
      Type: multinode
      NodeProperties:
        MainNode: 0
        NumNodes: 4
        NodeRangeProperties:
          - TargetNodes: "0:3"
            InstanceTypes: [g6.8xlarge]
            Container:
              Image: 111122223333.dkr.ecr.us-east-1.amazonaws.com/train:1
              ResourceRequirements:
                - {Type: GPU, Value: "1"}
                - {Type: VCPU, Value: "30"}
                - {Type: MEMORY, Value: "120000"}
              LinuxParameters:
                Devices: [{HostPath: /dev/infiniband/uverbs0, Permissions: [READ, WRITE, MKNOD]}]
""",
)
