"""Instance groups of SageMaker HyperPod clusters."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.catalogue.lookup import instance_type, instance_type_names
from cdk_gpu_clusters.template_rules.case import Resource, Value

HYPERPOD = "AWS::SageMaker::Cluster"
_PREFIX = "ml."


def instance_groups(cluster: Resource) -> list[Value]:
    """The instance groups of a cluster."""
    return cluster.get("InstanceGroups").items()


def hyperpod_record_of(value: Value) -> InstanceType | None:
    """What the catalogue knows of a type with SageMaker's prefix; None if it knows nothing, or there is no type."""
    name = (value.text() or "").removeprefix(_PREFIX)
    return instance_type(name) if name in instance_type_names() else None


def efa_groups(cluster: Resource) -> Iterator[tuple[Value, Value]]:
    """The instance groups whose type has EFA, each with the network that it stands in, its own or the cluster's."""
    for group in instance_groups(cluster):
        record = hyperpod_record_of(group.get("InstanceType"))
        if record is not None and record.network.efa is not None:
            own = group.get("OverrideVpcConfig")
            yield group, own if own.exists else cluster.get("VpcConfig")
