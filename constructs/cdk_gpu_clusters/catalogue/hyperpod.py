"""What Amazon SageMaker HyperPod has: instance types, MIG configurations, types of training plans, names of quotas."""

from __future__ import annotations

from functools import cache
from typing import Literal

from cdk_gpu_clusters.catalogue._files import read_json


@cache
def hyperpod_type_names() -> frozenset[str]:
    """Names of the types, such as `ml.p5.48xlarge`, of the service model that the data file names."""
    sizes: dict[str, list[str]] = read_json("hyperpod_instance_types.json")["sizes"]
    return frozenset(f"ml.{family}.{size}" for family, known in sizes.items() for size in known)


@cache
def hyperpod_mig_configurations() -> dict[str, dict[str, int]]:
    """What HyperPod's chart offers for the label `nvidia.com/mig.config`: GPU instances of each GPU, by name."""
    found: dict[str, dict[str, int]] = read_json("hyperpod_facts.json")["mig_configurations"]["devices_of_a_gpu"]
    return found


@cache
def quota_partitions() -> tuple[str, ...]:
    """MIG profiles that the quota of a team may name, such as `mig-1g.10gb`."""
    return tuple(read_json("hyperpod_facts.json")["quota_partitions"]["types"])


@cache
def training_plan_types() -> tuple[str, ...]:
    """Types, such as `ml.p5.48xlarge`, for which training plans are sold."""
    return tuple(read_json("hyperpod_facts.json")["training_plans"]["types"])


HyperPodQuota = Literal["nodes-of-type", "nodes-of-cluster", "nodes", "volume"]


def hyperpod_quota_name(kind: HyperPodQuota, *, type_name: str = "", spot: bool = False) -> str:
    """Name of a quota of SageMaker: no source has the codes for all types.

    Args:
        kind: What it limits.
        type_name: Type with SageMaker's prefix, for `nodes-of-type`.
        spot: Whether it counts Spot instances.

    Example:
        >>> hyperpod_quota_name("nodes-of-type", type_name="ml.p5.48xlarge")
        'ml.p5.48xlarge for cluster usage'
    """
    names: dict[str, str] = read_json("hyperpod_facts.json")["spot_quotas" if spot else "quotas"]["names"]
    return names[kind].format(type=type_name)
