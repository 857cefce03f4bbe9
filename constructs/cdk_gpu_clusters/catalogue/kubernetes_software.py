"""What runs on a Kubernetes cluster of GPUs: charts and container images, each by source.

A digest is here where a source states it. A tag without one is trusted to stay where it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from cdk_gpu_clusters.catalogue._files import read_json

_SOFTWARE = "kubernetes_software.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerImage:
    """An image that pods run.

    Attributes:
        name: Short name.
        repository: Registry and path.
        tag: The tag that was read.
        digest: `sha256:…` of that tag, where a source states it, else None.
        note: What to know of it, or None.
        source: Where the row comes from, with date.
    """

    name: str
    repository: str
    tag: str
    digest: str | None
    note: str | None
    source: str

    @property
    def tag_and_digest(self) -> str:
        """What follows the colon of a reference: the tag, and the digest where one is known."""
        return self.tag if self.digest is None else f"{self.tag}@{self.digest}"

    @property
    def reference(self) -> str:
        """The image as a pod names it.

        Example:
            >>> image("lws").reference
            'registry.k8s.io/lws/lws:v0.10.0'
        """
        return f"{self.repository}:{self.tag_and_digest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A Helm chart.

    Attributes:
        name: Its name.
        repository: `https://` address of a chart repository, or `oci://` address of the chart.
        version: Version of the chart.
        app_version: Version of the software, None where the chart does not tell.
        license: SPDX name of its licence.
        source_repository: Where its source is: owner and name on GitHub.
        commit: Commit of that version.
        images: Images that it runs as this library uses it, by their short names.
        source: Where the row comes from, with date.
    """

    name: str
    repository: str
    version: str
    app_version: str | None
    license: str
    source_repository: str
    commit: str
    images: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DcgmField:
    """A field of NVIDIA DCGM, as its exporter gives it to Prometheus.

    Attributes:
        name: Its name.
        kind: `gauge` or `counter`.
        help: Its help text.
        whole_gpus_only: Whether a slice of MIG does not have it.
        source: Where the row comes from, with date.
    """

    name: str
    kind: str
    help: str
    whole_gpus_only: bool
    source: str


@cache
def _charts() -> Mapping[str, Chart]:
    return {
        row["name"]: Chart(**{**row, "images": tuple(row["images"]), "source": _source(row)})
        for row in read_json(_SOFTWARE)["charts"]
    }


def charts() -> tuple[Chart, ...]:
    """Every chart of the catalogue."""
    return tuple(_charts().values())


def chart(name: str) -> Chart:
    """One chart.

    Raises:
        KeyError: The catalogue does not have it.

    Example:
        >>> chart("kueue").version
        '0.19.2'
    """
    return _charts()[name]


@cache
def _images() -> Mapping[str, ContainerImage]:
    return {
        row["name"]: ContainerImage(**{**row, "source": _source(row)})
        for row in read_json(_SOFTWARE)["images"]
    }


def images() -> tuple[ContainerImage, ...]:
    """Every container image of the catalogue."""
    return tuple(_images().values())


def image(name: str) -> ContainerImage:
    """One container image.

    Raises:
        KeyError: The catalogue does not have it.

    Example:
        >>> image("pytorch").repository
        'public.ecr.aws/deep-learning-containers/pytorch'
    """
    return _images()[name]


@cache
def dcgm_fields() -> tuple[DcgmField, ...]:
    """The fields that are worth a time series of each GPU or slice."""
    data = read_json(_SOFTWARE)
    return tuple(DcgmField(**row, source=data["dcgm_fields_source"]) for row in data["dcgm_fields"])


def _source(row: Mapping[str, Any]) -> str:
    return str(read_json(_SOFTWARE)["sources"][row["source"]])
