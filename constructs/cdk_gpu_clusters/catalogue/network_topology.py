"""Where EC2 reports the network distance between nodes, and the labels in which EKS repeats it."""

from __future__ import annotations

from functools import cache

from cdk_gpu_clusters.catalogue._files import read_json
from cdk_gpu_clusters.catalogue.instances import InstanceType

_FILE = "network_topology.json"


def network_layers(instance_type: InstanceType) -> int:
    """Layers of the network above a node that EC2 names; 0 where it names none for the type.

    Example:
        >>> from cdk_gpu_clusters.catalogue import instance_type
        >>> [network_layers(instance_type(name)) for name in ("p5.48xlarge", "p6-b200.48xlarge", "g6.48xlarge")]
        [3, 4, 0]
    """
    if instance_type.name in read_json(_FILE)["excluded_sizes"]["types"]:
        return 0
    return _layers().get(instance_type.family, 0)


def has_topology(region: str) -> bool:
    """Whether EC2 reports the network topology of nodes in a Region.

    Example:
        >>> has_topology("us-east-1"), has_topology("cn-north-1")
        (True, False)
    """
    return region in read_json(_FILE)["regions"]["codes"]


def topology_labels(instance_type: InstanceType) -> tuple[str, ...]:
    """The labels of the layers that every node of a type has on EKS, from the top layer down.

    Types whose nodes may become ready without them count as having none.

    Example:
        >>> from cdk_gpu_clusters.catalogue import instance_type
        >>> topology_labels(instance_type("p5.48xlarge"))[-1]
        'topology.k8s.aws/network-node-layer-3'
    """
    facts = read_json(_FILE)
    if instance_type.family in facts["labels_may_be_missing"]["families"]:
        return ()
    count, prefix = network_layers(instance_type), facts["label"]["prefix"]
    return tuple(f"{prefix}{layer}" for layer in range(1, count + 1))


@cache
def _layers() -> dict[str, int]:
    return {family: row["count"] for row in read_json(_FILE)["layers"] for family in row["families"]}
