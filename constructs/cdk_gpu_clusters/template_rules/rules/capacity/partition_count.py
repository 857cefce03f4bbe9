"""A partition group has 1 to 7 partitions."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.placement import PARTITION_COUNT, check_partition_count
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import PLACEMENT_GROUP
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule, faults_of


def _check(resource: Resource) -> Iterator[Fault]:
    count = resource.get("PartitionCount")
    number = count.integer()
    if number is None:
        raise NotApplicable
    yield from faults_of(PARTITION_COUNT, check_partition_count(number), count)


RULE = TemplateRule(
    rule=PARTITION_COUNT,
    severity=Severity.ERROR,
    cause="EC2 refuses a partition placement group with that many partitions",
    fix="choose a number from 1 to 7",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html",
    on=(PLACEMENT_GROUP,),
    looks_at=("PartitionCount",),
    check=_check,
    bad="""
Resources:
  Place:
    Type: AWS::EC2::PlacementGroup
    Properties: {Strategy: partition, PartitionCount: 8}
""",
    good="""
Resources:
  Place:
    Type: AWS::EC2::PlacementGroup
    Properties: {Strategy: partition, PartitionCount: 7}
""",
)
