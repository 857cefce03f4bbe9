"""Instance types of Amazon SageMaker HyperPod."""

from __future__ import annotations

from functools import cache

from cdk_gpu_clusters.catalogue._files import read_json


@cache
def hyperpod_type_names() -> frozenset[str]:
    """Names of the types, such as `ml.p5.48xlarge`, of the service model that the data file names."""
    sizes: dict[str, list[str]] = read_json("hyperpod_instance_types.json")["sizes"]
    return frozenset(f"ml.{family}.{size}" for family, known in sizes.items() for size in known)
