"""A node range of a multi-node job names one type."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.jobs import JOB_DEFINITION, node_ranges_of
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

ONE_TYPE = define_rule(
    "GPU-BAT-006",
    "a node range of a multi-node job names at most one instance type",
    source="botocore 1.44.5, batch service model: NodeRangeProperty, instanceTypes",
)


def _check(resource: Resource) -> Iterator[Fault]:
    ranges = node_ranges_of(resource)
    if not ranges:
        raise NotApplicable
    for one in ranges:
        if len(one.types) > 1:
            got = ", ".join(value.text() or "" for value in one.types)
            yield Fault(at=one.types[1], got=got, allowed="one type")


RULE = TemplateRule(
    rule=ONE_TYPE,
    severity=Severity.ERROR,
    cause="Batch refuses a node range with several instance types",
    fix="name one instance type in each range",
    url="https://docs.aws.amazon.com/batch/latest/APIReference/API_NodeRangeProperty.html",
    on=(JOB_DEFINITION,),
    looks_at=("NodeProperties/NodeRangeProperties/*/InstanceTypes",),
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
            InstanceTypes: [g6.8xlarge, g6.12xlarge]
            Container:
              Image: 111122223333.dkr.ecr.us-east-1.amazonaws.com/train:1
              ResourceRequirements:
                - {Type: GPU, Value: "1"}
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
