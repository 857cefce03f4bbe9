"""How charts and images get into the registry of a closed network."""

from __future__ import annotations

from cdk_gpu_clusters.catalogue.kubernetes import Chart, ContainerImage, charts, images
from cdk_gpu_clusters.kubernetes.software.release import ImageMirror


def mirror_commands(mirror: ImageMirror) -> tuple[str, ...]:
    """Shell commands that copy every chart and image of the catalogue, for a machine that reaches both sides.

    An image with a known digest is copied by it, with all its platforms, so that the copy has the same digest. They
    need `crane` (google/go-containerregistry) and `helm`, logged in to the registry.

    Args:
        mirror: Where the copies go.

    Example:
        >>> mirror_commands(ImageMirror.in_registry("registry.example"))[-1]
        'helm push argo-workflows-1.0.18.tgz oci://registry.example/charts'
    """
    lines = [_copy(one, mirror) for one in images()]
    for one in charts():
        lines += [_pull(one), f"helm push {one.name}-{one.version}.tgz {mirror.charts}"]
    return tuple(lines)


def _copy(one: ContainerImage, mirror: ImageMirror) -> str:
    original = f"{one.repository}:{one.tag}" if one.digest is None else f"{one.repository}@{one.digest}"
    return f"crane copy {original} {mirror.repository_of(one)}:{one.tag}"


def _pull(one: Chart) -> str:
    if one.repository.startswith("oci://"):
        return f"helm pull {one.repository} --version {one.version}"
    return f"helm pull {one.name} --repo {one.repository} --version {one.version}"
