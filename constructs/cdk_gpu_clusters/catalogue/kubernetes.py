"""Kubernetes on Amazon EKS: versions and their support, images of managed nodes, EKS add-ons, charts.

Versions of EKS add-ons are not here: none were read, and EKS takes the default one of the cluster's Kubernetes version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import Any, TypeVar

from cdk_gpu_clusters.catalogue._files import read_json, record
from cdk_gpu_clusters.catalogue.images import OperatingSystem
from cdk_gpu_clusters.catalogue.instances import AcceleratorKind, Architecture

__all__ = [
    "DEFAULT_KUBERNETES_VERSION",
    "AmiType",
    "Chart",
    "ContainerImage",
    "EksAddOn",
    "KubernetesVersion",
    "SystemPods",
    "add_on",
    "add_ons",
    "all_system_pods",
    "ami_type",
    "ami_types",
    "chart",
    "charts",
    "eks_image_registry",
    "image",
    "images",
    "inference_pool_crd",
    "kubernetes_version",
    "kubernetes_versions",
    "system_pods",
]

_EKS = "kubernetes.json"
_Named = TypeVar("_Named")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesVersion:
    """A minor version of Kubernetes that EKS offers.

    Attributes:
        version: Such as `1.35`.
        standard_support_ends: Day on which EKS begins to bill extended support; None where no source was read.
        extended_support_ends: Day on which EKS updates the control plane by itself; None where no source was read.
        source: Where the row comes from, with date.
    """

    version: str
    standard_support_ends: date | None
    extended_support_ends: date | None
    source: str

    @property
    def minor(self) -> tuple[int, int]:
        """The version as numbers, which have an order.

        Example:
            >>> kubernetes_version("1.35").minor >= (1, 34)
            True
        """
        major, minor = self.version.split(".")
        return int(major), int(minor)


@dataclass(frozen=True, slots=True, kw_only=True)
class AmiType:
    """An image that EKS chooses for a managed node group.

    Attributes:
        ami_type: As the API takes it.
        operating_system: Operating system.
        accelerator: Whose drivers it has; None is a plain CPU image.
        architecture: Processor architecture.
        source: Where the row comes from, with date.
    """

    ami_type: str
    operating_system: OperatingSystem
    accelerator: AcceleratorKind | None
    architecture: Architecture
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EksAddOn:
    """Software that EKS installs and updates in a cluster.

    Attributes:
        name: As CloudFormation takes it.
        namespace: Where its service account is.
        service_account: Whose pods need AWS permissions; None if none do.
        managed_policies: AWS managed policies that these need, without the ARN in front.
        needs_permissions: Whether it needs AWS permissions of its own. Without a managed policy they depend on what
            it is used for.
        community: Whether the community builds it; AWS then supports its installation only.
        note: What to know of it, or None.
        source: Where the row comes from, with date.
    """

    name: str
    namespace: str
    service_account: str | None
    managed_policies: tuple[str, ...]
    needs_permissions: bool
    community: bool
    note: str | None
    source: str


@cache
def kubernetes_versions() -> tuple[KubernetesVersion, ...]:
    """Every version of the catalogue, oldest first."""
    return tuple(
        record(
            KubernetesVersion,
            row,
            standard_support_ends=_day(row["standard_support_ends"]),
            extended_support_ends=_day(row["extended_support_ends"]),
            source=_source(_EKS, row),
        )
        for row in read_json(_EKS)["versions"]
    )


def kubernetes_version(version: str) -> KubernetesVersion:
    """One version.

    Raises:
        KeyError: The catalogue does not have it.
    """
    return {row.version: row for row in kubernetes_versions()}[version]


def ami_type(*, accelerator: AcceleratorKind | None, architecture: Architecture) -> AmiType | None:
    """The Amazon Linux 2023 image of managed nodes, or None where EKS has none.

    Example:
        >>> row = ami_type(accelerator=AcceleratorKind.GPU, architecture=Architecture.ARM64)
        >>> row.ami_type if row else None
        'AL2023_ARM_64_NVIDIA'
    """
    wanted = (OperatingSystem.AL2023, accelerator, architecture)
    rows = (row for row in ami_types() if (row.operating_system, row.accelerator, row.architecture) == wanted)
    return next(rows, None)


@cache
def ami_types() -> tuple[AmiType, ...]:
    """Images of managed node groups on Linux, without those for FIPS and without CUSTOM."""
    return tuple(record(AmiType, row, source=_source(_EKS, row)) for row in read_json(_EKS)["ami_types"])


@cache
def _named(kind: type[_Named], file: str, table: str) -> Mapping[str, _Named]:
    """Rows of a table by their names."""
    return {row["name"]: record(kind, row, source=_source(file, row)) for row in read_json(file)[table]}


def add_ons() -> tuple[EksAddOn, ...]:
    """Every EKS add-on of the catalogue."""
    return tuple(_named(EksAddOn, _EKS, "add_ons").values())


def add_on(name: str) -> EksAddOn:
    """One EKS add-on.

    Raises:
        KeyError: The catalogue does not have it.

    Example:
        >>> add_on("aws-ebs-csi-driver").managed_policies
        ('service-role/AmazonEBSCSIDriverPolicy',)
    """
    row: EksAddOn = _named(EksAddOn, _EKS, "add_ons")[name]
    return row


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemPods:
    """Pods of a cluster's own that run on nodes without accelerators, and what each asks for.

    Attributes:
        name: Of the add-on or chart, and of the part of it.
        cpu_millicores: Thousandths of a vCPU.
        memory_mib: Memory in MiB.
        replicas: How many there are; None for one on each node.
        source: Where the row comes from, with date.
    """

    name: str
    cpu_millicores: int
    memory_mib: int
    replicas: int | None
    source: str


def all_system_pods() -> tuple[SystemPods, ...]:
    """The pods of every add-on and chart that the library installs by default."""
    return tuple(_named(SystemPods, _EKS, "system_pods").values())


def system_pods(name: str) -> SystemPods:
    """The pods of one add-on or chart.

    Raises:
        KeyError: The catalogue does not have it.

    Example:
        >>> system_pods("kueue").replicas
        2
    """
    row: SystemPods = _named(SystemPods, _EKS, "system_pods")[name]
    return row


def eks_image_registry(region: str) -> str | None:
    """Host of the registry from which EKS serves its own images in a Region, or None where none was read.

    Example:
        >>> eks_image_registry("us-gov-west-1")
        '013241004608.dkr.ecr.us-gov-west-1.amazonaws.com'
    """
    rows = read_json(_EKS)["image_registries"]
    if region in rows["regions"]:
        return str(rows["host"].format(region=region))
    host: str | None = rows["other_hosts"].get(region)
    return host


def _day(text: str | None) -> date | None:
    return None if text is None else date.fromisoformat(text)


def _source(file: str, row: Mapping[str, Any]) -> str:
    return str(read_json(file)["sources"][row["source"]])


#: Kubernetes version of a new cluster; the data file says why.
DEFAULT_KUBERNETES_VERSION: str = read_json(_EKS)["default_version"]["version"]


# What runs on a Kubernetes cluster of GPUs: charts and container images, each by source.
#
# A digest is here where a source states it. A tag without one is trusted to stay where it is.

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


def charts() -> tuple[Chart, ...]:
    """Every chart of the catalogue."""
    return tuple(_named(Chart, _SOFTWARE, "charts").values())


def chart(name: str) -> Chart:
    """One chart.

    Raises:
        KeyError: The catalogue does not have it.

    Example:
        >>> chart("kueue").version
        '0.19.2'
    """
    row: Chart = _named(Chart, _SOFTWARE, "charts")[name]
    return row


def images() -> tuple[ContainerImage, ...]:
    """Every container image of the catalogue."""
    return tuple(_named(ContainerImage, _SOFTWARE, "images").values())


def image(name: str) -> ContainerImage:
    """One container image.

    Raises:
        KeyError: The catalogue does not have it.

    Example:
        >>> image("pytorch").repository
        'public.ecr.aws/deep-learning-containers/pytorch'
    """
    row: ContainerImage = _named(ContainerImage, _SOFTWARE, "images")[name]
    return row


def inference_pool_crd() -> Mapping[str, Any]:
    """The CustomResourceDefinition of InferencePool, whose project publishes no chart; it is shared, so copy it.

    Its source is in `inference_pool.json`.
    """
    found: Mapping[str, Any] = read_json("inference_pool.json")["definition"]
    return found


@cache
def dcgm_fields() -> tuple[DcgmField, ...]:
    """The fields that are worth a time series of each GPU or slice."""
    data = read_json(_SOFTWARE)
    return tuple(DcgmField(**row, source=data["dcgm_fields_source"]) for row in data["dcgm_fields"])
