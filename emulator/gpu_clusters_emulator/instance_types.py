"""Which instance types exist: this library's catalogue, and every type that cfn-lint knows."""

from __future__ import annotations

from cdk_gpu_clusters.catalogue import instance_types

from .schemas import known_instance_types


def instance_type_exists(name: str) -> bool:
    """Whether EC2 has the type in any Region."""
    return name in instance_types() or name in known_instance_types()
