"""Multi-node parallel jobs of AWS Batch."""

from __future__ import annotations

from dataclasses import dataclass

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.template_rules.case import Resource, Value
from cdk_gpu_clusters.template_rules.lookups.launches import record_of, values_at

JOB_DEFINITION = "AWS::Batch::JobDefinition"


@dataclass(frozen=True, slots=True)
class NodeRange:
    """Some nodes of a job.

    Attributes:
        container: What they run.
        types: The instance types that they run on, where they are named.
    """

    container: Value
    types: tuple[Value, ...]

    def records(self) -> list[InstanceType]:
        """What the catalogue knows of the types.

        Raises:
            Undecidable: If one is not known.
        """
        return [record_of(value) for value in self.types]


def node_ranges_of(job: Resource) -> list[NodeRange]:
    """The node ranges of a job definition that run one container each; none for other jobs."""
    return [
        NodeRange(
            one.get("Container"),
            (*one.get("InstanceTypes").items(), *values_at(one, "Container/InstanceType")),
        )
        for one in job.get("NodeProperties", "NodeRangeProperties").items()
        if one.get("Container").exists
    ]
