"""A chart as it is installed in a cluster, and where a closed network gets charts and images from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cdk_gpu_clusters.catalogue.kubernetes import (
    Chart,
    ContainerImage,
    chart,
    charts,
    eks_image_registry,
    image,
    images,
)

# Where the charts of AWS find the images of EKS; EKS serves them from a registry of each Region.
_EKS_REGISTRY = "602401143452.dkr.ecr.us-west-2.amazonaws.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartRelease:
    """A chart with all that its installation needs.

    Attributes:
        name: Name of the release.
        namespace: Namespace, which is made where it is not there.
        chart: Name of the chart.
        version: Version of the chart.
        repository: `https://` address of a chart repository, or `oci://` address of the chart itself.
        values: What differs from the chart's own values.
        images: Every image that its pods run.
    """

    name: str
    namespace: str
    chart: str
    version: str
    repository: str
    values: Mapping[str, Any]
    images: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageMirror:
    """Registries of a closed network that hold copies of charts and images.

    An image keeps its path, its tag and its digest; only the registry is another.

    Attributes:
        images: Registry of images, with a path if need be, such as
            `111122223333.dkr.ecr.us-east-1.amazonaws.com/mirror`.
        charts: `oci://` address below which the charts lie, such as
            `oci://111122223333.dkr.ecr.us-east-1.amazonaws.com/charts`.
    """

    images: str
    charts: str

    @classmethod
    def in_registry(cls, registry: str) -> ImageMirror:
        """Copies of both in one registry, charts below `charts`.

        Args:
            registry: Its host, with a path if need be.

        Example:
            >>> ImageMirror.in_registry("registry.example/gpu").charts
            'oci://registry.example/gpu/charts'
        """
        return cls(images=registry, charts=f"oci://{registry}/charts")

    def repository_of(self, one: ContainerImage) -> str:
        """Where the copy of an image lies.

        Example:
            >>> mirror = ImageMirror(images="registry.example/gpu", charts="oci://registry.example/charts")
            >>> mirror.repository_of(image("dcgm-exporter"))
            'registry.example/gpu/nvidia/k8s/dcgm-exporter'
        """
        return f"{self.images}/{one.repository.partition('/')[2]}"

    def address_of(self, one: Chart) -> str:
        """Where the copy of a chart lies.

        Example:
            >>> mirror = ImageMirror(images="registry.example/gpu", charts="oci://registry.example/charts")
            >>> mirror.address_of(chart("kueue"))
            'oci://registry.example/charts/kueue'
        """
        return f"{self.charts}/{one.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftwareSource:
    """From where a cluster gets charts and images.

    Attributes:
        mirror: Copies in a closed network; None for the publishers' own registries.
        region: Region whose EKS registry serves the images of AWS; None for the one that AWS's charts name.
    """

    mirror: ImageMirror | None = None
    region: str | None = None

    def repository(self, name: str) -> str:
        """Registry and path of an image of the catalogue."""
        one = image(name)
        if self.mirror is not None:
            return self.mirror.repository_of(one)
        host, _, path = one.repository.partition("/")
        if host == _EKS_REGISTRY and self.region is not None:
            return f"{eks_image_registry(self.region) or host}/{path}"
        return one.repository

    def repository_and_tag(self, name: str) -> dict[str, str]:
        """An image of the catalogue, as most charts take one. The tag carries the digest where one is known."""
        return {"repository": self.repository(name), "tag": image(name).tag_and_digest}

    def registry_and_path(self, name: str) -> dict[str, str]:
        """The same, for charts that take the registry apart from the path."""
        registry, _, path = self.repository(name).partition("/")
        return {"registry": registry, "repository": path, "tag": image(name).tag_and_digest}

    def reference(self, name: str) -> str:
        """An image of the catalogue, as a pod names it.

        Example:
            >>> SoftwareSource(region="eu-west-1").reference("aws-efa-k8s-device-plugin")
            '602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/aws-efa-k8s-device-plugin:v0.5.20'
        """
        return f"{self.repository(name)}:{image(name).tag_and_digest}"

    def release(self, name: str, namespace: str, values: Mapping[str, Any]) -> ChartRelease:
        """Install a chart of the catalogue under its own name.

        Args:
            name: Name of the chart.
            namespace: Namespace of the release.
            values: What differs from the chart's own values.
        """
        one = chart(name)
        return ChartRelease(
            name=one.name,
            namespace=namespace,
            chart=one.name,
            version=one.version,
            repository=one.repository if self.mirror is None else self.mirror.address_of(one),
            values=values,
            images=tuple(self.reference(each) for each in one.images),
        )


def mirror_commands(mirror: ImageMirror) -> tuple[str, ...]:
    """Shell commands that copy every chart and image of the catalogue, for a machine that reaches both sides.

    An image with a known digest is copied by it, with all its platforms, so that the copy has the same digest. They
    need `crane` (google/go-containerregistry) and `helm`, logged in to the registry.

    Args:
        mirror: Where the copies go.

    Example:
        >>> mirror_commands(ImageMirror.in_registry("registry.example"))[-1]
        'helm push kuberay-operator-1.7.0.tgz oci://registry.example/charts'
    """
    lines = []
    for one in images():
        original = f"{one.repository}:{one.tag}" if one.digest is None else f"{one.repository}@{one.digest}"
        lines.append(f"crane copy {original} {mirror.repository_of(one)}:{one.tag}")
    for each in charts():
        is_oci = each.repository.startswith("oci://")
        place = each.repository if is_oci else f"{each.name} --repo {each.repository}"
        lines.append(f"helm pull {place} --version {each.version}")
        lines.append(f"helm push {each.name}-{each.version}.tgz {mirror.charts}")
    return tuple(lines)
