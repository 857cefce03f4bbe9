"""Groups of nodes for tests of what Kubernetes runs on them, and the quantities of its objects as numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from cdk_gpu_clusters.catalogue import AcceleratorKind, instance_types
from cdk_gpu_clusters.catalogue.kubernetes import kubernetes_versions
from cdk_gpu_clusters.catalogue.mig import mig_gpu_of
from cdk_gpu_clusters.kubernetes.node_pool import LustreVolume, NodePool, node_pool
from cdk_gpu_clusters.rules.mig import MigLayout, MigStrategy
from kubernetes_schemas import check_objects

#: Versions that EKS supports by its standard terms, and the newest.
VERSIONS = tuple(one.version for one in kubernetes_versions() if one.minor >= (1, 33))
CORPUS = LustreVolume(
    name="corpus",
    file_system_id="fs-0123456789abcdef0",
    dns_name="fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com",
    mount_name="abcdefgh",
    storage_capacity_gib=38_400,
)
#: Layouts of a p4d.24xlarge.
UNIFORM = MigLayout(["1g.5gb"] * 7)
MIXED = MigLayout(["3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb"])
ONE_WHOLE = [MigLayout.whole_gpu(), *[MIXED] * 7]

_UNITS: Mapping[str, Fraction] = {
    "": Fraction(1),
    "m": Fraction(1, 1000),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
}

Objects = list[dict[str, Any]]


def pool_of(instance_type: str, *, node_count: int = 2, **given: Any) -> NodePool:
    """A group called `nodes` that mounts a file system, unless told otherwise."""
    given.setdefault("mounts", {"/fsx": CORPUS})
    return node_pool("nodes", instance_type=instance_type, node_count=node_count, **given)


def trainers() -> NodePool:
    """16 x p5.48xlarge, with a file system."""
    return node_pool("trainers", instance_type="p5.48xlarge", node_count=16, mounts={"/fsx": CORPUS})


def slices(layouts: Any = UNIFORM, *, node_count: int = 1, strategy: MigStrategy | None = None) -> NodePool:
    """p4d.24xlarge nodes with MIG."""
    return node_pool(
        "slices",
        instance_type="p4d.24xlarge",
        node_count=node_count,
        efa=False,
        mig=layouts,
        mig_strategy=strategy,
    )


def gpu_types() -> list[str]:
    """Every type with NVIDIA GPUs."""
    return [
        name
        for name, one in instance_types().items()
        if one.accelerator is not None and one.accelerator.kind is AcceleratorKind.GPU
    ]


def mig_types() -> list[str]:
    """Every type whose GPUs can be split, as far as profiles are known."""
    return [
        name
        for name, one in instance_types().items()
        if (gpu := mig_gpu_of(one)) is not None and gpu.profiles and one.accelerator and one.accelerator.count
    ]


def number(quantity: str) -> Fraction:
    """A quantity of Kubernetes as a number.

    >>> number("1500m"), number("2Mi")
    (Fraction(3, 2), Fraction(2097152, 1))
    """
    found = re.fullmatch(r"(\d+)(\D*)", quantity)
    assert found is not None, quantity
    return int(found[1]) * _UNITS[found[2]]


def containers(value: Any) -> Iterator[dict[str, Any]]:
    """Every container of an object that asks for resources, wherever it stands."""
    if isinstance(value, dict):
        if "resources" in value and "image" in value:
            yield value
        for inner in value.values():
            yield from containers(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from containers(inner)


def pod_specs(value: Any) -> Iterator[dict[str, Any]]:
    """Every pod of an object."""
    if isinstance(value, dict):
        if "containers" in value:
            yield value
        for inner in value.values():
            yield from pod_specs(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from pod_specs(inner)


def requests(container: Mapping[str, Any]) -> dict[str, Fraction]:
    """What a container asks for."""
    return {name: number(value) for name, value in container["resources"]["requests"].items()}


def kinds(objects: Objects) -> list[str]:
    return [one["kind"] for one in objects]


def check_everywhere(objects: Objects) -> None:
    """Hold objects against the schemas of every version, and count them."""
    assert len(VERSIONS) >= 4
    for version in VERSIONS:
        assert check_objects(objects, version) == len(objects)
