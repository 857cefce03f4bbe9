"""All node ranges of a multi-node job name one type."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.jobs import JOB_DEFINITION, node_ranges_of
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

SAME_TYPE = define_rule(
    "GPU-BAT-007",
    "all node ranges of a multi-node job name the same instance type",
    source='AWS Batch user guide, "Node groups" of multi-node parallel jobs',
)


def _check(resource: Resource) -> Iterator[Fault]:
    named = [one.types[0] for one in node_ranges_of(resource) if one.types]
    if len(named) < 2:
        raise NotApplicable
    for value in named[1:]:
        if not value.is_same_as(named[0]):
            yield Fault(
                at=value, got=f"{named[0].text()} and {value.text()}", allowed="one type for all ranges"
            )


RULE = TemplateRule(
    rule=SAME_TYPE,
    severity=Severity.ERROR,
    cause="Batch runs a multi-node job on one instance type only",
    fix="name the same instance type in each range, or split the job",
    url="https://docs.aws.amazon.com/batch/latest/userguide/mnp-node-groups.html",
    on=(JOB_DEFINITION,),
    looks_at=("NodeProperties/NodeRangeProperties/*/InstanceTypes",),
    check=_check,
    bad="""
Resources:
  Training:
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
              ResourceRequirements: [{Type: GPU, Value: "1"}]
              LinuxParameters: {Devices: [{HostPath: /dev/infiniband/uverbs0}]}
          - TargetNodes: "4:"
            InstanceTypes: [g6.16xlarge]
            Container:
              Image: 111122223333.dkr.ecr.us-east-1.amazonaws.com/train:1
              ResourceRequirements: [{Type: GPU, Value: "1"}]
              LinuxParameters: {Devices: [{HostPath: /dev/infiniband/uverbs0}]}
""",
    good="""
Resources:
  Training:
    Type: AWS::Batch::JobDefinition
    Properties:
      Type: multinode
      NodeProperties:
        MainNode: 0
        NumNodes: 8
        NodeRangeProperties:
          - TargetNodes: "0:3"
            InstanceTypes: [g6.16xlarge]
            Container:
              Image: 111122223333.dkr.ecr.us-east-1.amazonaws.com/train:1
              ResourceRequirements: [{Type: GPU, Value: "1"}]
              LinuxParameters: {Devices: [{HostPath: /dev/infiniband/uverbs0}]}
          - TargetNodes: "4:"
            InstanceTypes: [g6.16xlarge]
            Container:
              Image: 111122223333.dkr.ecr.us-east-1.amazonaws.com/train:1
              ResourceRequirements: [{Type: GPU, Value: "1"}]
              LinuxParameters: {Devices: [{HostPath: /dev/infiniband/uverbs0}]}
""",
)
