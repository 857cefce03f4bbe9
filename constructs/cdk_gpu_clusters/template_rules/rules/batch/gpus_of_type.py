"""Containers of a multi-node job ask for no more GPUs than a node has."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.jobs import JOB_DEFINITION, node_ranges_of
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

GPUS = define_rule(
    "GPU-BAT-005",
    "containers of a multi-node job ask for no more GPUs than their instance type has",
    source="EC2 DescribeInstanceTypes, GpuInfo; AWS Batch API reference, ResourceRequirement",
)


def _check(resource: Resource) -> Iterator[Fault]:
    ranges = [one for one in node_ranges_of(resource) if one.records()]
    if not ranges:
        raise NotApplicable
    for one in ranges:
        for asked in one.container.get("ResourceRequirements").items():
            if asked.get("Type").text() != "GPU":
                continue
            for record in one.records():
                held = record.accelerator.logical_count if record.accelerator else 0
                if (asked.get("Value").integer() or 0) > held:
                    got = f"{asked.get('Value').text()} GPUs of a {record.name}"
                    yield Fault(at=asked.get("Value"), got=got, allowed=f"at most {held}")


RULE = TemplateRule(
    rule=GPUS,
    severity=Severity.ERROR,
    cause="no node can ever run the container, and the job waits for ever",
    fix="ask for no more GPUs than the type has, or choose a larger one",
    url="https://docs.aws.amazon.com/batch/latest/APIReference/API_ResourceRequirement.html",
    on=(JOB_DEFINITION,),
    looks_at=(
        "NodeProperties/NodeRangeProperties/*/Container/ResourceRequirements",
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
                - {Type: GPU, Value: "8"}
                - {Type: VCPU, Value: "30"}
                - {Type: MEMORY, Value: "120000"}
              LinuxParameters:
                Devices: [{HostPath: /dev/infiniband/uverbs0, Permissions: [READ, WRITE, MKNOD]}]
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
