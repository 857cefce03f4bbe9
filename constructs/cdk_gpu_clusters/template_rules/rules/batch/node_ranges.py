"""The node ranges of a multi-node job name every node."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.node_ranges import NODE_RANGES, check_node_ranges
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.jobs import JOB_DEFINITION
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule, faults_of


def _check(resource: Resource) -> Iterator[Fault]:
    properties = resource.get("NodeProperties")
    count = properties.get("NumNodes").integer()
    if count is None:
        raise NotApplicable
    ranges = properties.get("NodeRangeProperties")
    named = [one.get("TargetNodes").text() or "" for one in ranges.items()]
    yield from faults_of(NODE_RANGES, check_node_ranges(count, named), ranges)


RULE = TemplateRule(
    rule=NODE_RANGES,
    severity=Severity.ERROR,
    cause="Batch refuses a job whose ranges do not name exactly its nodes",
    fix="use ranges that cover every node, such as 0:3 and 4:",
    url="https://docs.aws.amazon.com/batch/latest/APIReference/API_NodeRangeProperty.html",
    on=(JOB_DEFINITION,),
    looks_at=(
        "NodeProperties/NumNodes",
        "NodeProperties/NodeRangeProperties/*/TargetNodes",
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
        NumNodes: 8
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
