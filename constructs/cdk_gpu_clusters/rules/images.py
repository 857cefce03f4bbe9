"""Which machine image an instance type can start from, and how images are pinned and compared."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.catalogue import instance_type as look_up
from cdk_gpu_clusters.catalogue.images import (
    Framework,
    ImageParameter,
    ImagePurpose,
    OperatingSystem,
    image_parameters,
    images_for,
    minimum_software,
)
from cdk_gpu_clusters.catalogue.instances import AcceleratorKind
from cdk_gpu_clusters.errors import ConfigError, Finding, Severity, check, define_rule

# Which machine image an instance type can start from.
#
# An image fits by purpose, accelerator, architecture and operating system, and by the instance families that its
# documentation lists. An image that lists the family beats the usual one, whose list may not be known.

_NOTES = "AWS Deep Learning AMI release notes, EKS user guide and Neuron documentation (2026)"

IMAGE_EXISTS = define_rule("GPU-AMI-001", "an image exists for the accelerator and the architecture", source=_NOTES)
IMAGE_FOR_SYSTEM = define_rule("GPU-AMI-002", "an image exists for the operating system", source=_NOTES)
FAMILY_LISTED = define_rule("GPU-AMI-003", "the image's documentation lists the instance family", source=_NOTES)
FAMILY_LIST_READ = define_rule(
    "GPU-AMI-004", "the image's list of instance families has been read", source="the catalogue's image rows"
)
ARCHITECTURE_FITS = define_rule(
    "GPU-AMI-005", "image and instance type have the same architecture", source="EC2 RunInstances"
)
DRIVER_FITS = define_rule(
    "GPU-AMI-006", "the image carries the drivers of the accelerator", source="EC2 DescribeInstanceTypes"
)
SOFTWARE_NEW_ENOUGH = define_rule(
    "GPU-AMI-007",
    "the image's software is at least what the family needs",
    source='AWS Deep Learning AMI guide, "P6 Supported DLAMIs", and the catalogue\'s minimum software',
)
IMAGE_ID_FORM = define_rule("GPU-AMI-008", "an image id has the form ami-<hex>", source="EC2 API, ImageId")
KUBERNETES_VERSION = define_rule(
    "GPU-AMI-009",
    "an EKS image is chosen for a Kubernetes version",
    source='AWS EKS user guide, "Amazon EKS optimized Amazon Linux AMIs"',
)
FRAMEWORK_KNOWN = define_rule("GPU-AMI-010", "AWS publishes images with the framework", source=_NOTES)

# The order in which a system is chosen where the user names none.
_SYSTEMS = (OperatingSystem.AL2023, OperatingSystem.UBUNTU_24_04, OperatingSystem.UBUNTU_22_04)
_IMAGE_ID = re.compile(r"ami-([0-9a-f]{8}|[0-9a-f]{17})")
_KUBERNETES = re.compile(r"1\.\d{1,2}")
_VERSIONED = ("nvidia_driver", "cuda", "kernel", "efa_installer", "aws_ofi_nccl")


def choose_image(
    instance_type: InstanceType | str,
    *,
    operating_system: OperatingSystem | str | None = None,
    purpose: ImagePurpose = ImagePurpose.EC2,
    variant: str | None = None,
) -> ImageParameter:
    """The image parameter that an instance type starts from, where the user pins no image.

    Args:
        instance_type: The type, or its name.
        operating_system: The system; without one AL2023, then Ubuntu 24.04, then 22.04, as far as they list
            the family.
        purpose: Which kind of node the image is for.
        variant: A variant such as `single-cuda` or `pytorch`; without one the one whose documentation lists the
            family, the preferred one first, and none with a framework.

    Returns:
        The row. `check_image` reports what is worth knowing about it.

    Raises:
        ConfigError: If no image fits, with what would.

    Example:
        >>> choose_image("trn2.48xlarge").parameter
        '/aws/service/neuron/dlami/base/amazon-linux-2023/latest/image_id'
    """
    kind = look_up(instance_type) if isinstance(instance_type, str) else instance_type
    system = None if operating_system is None else OperatingSystem(operating_system)
    rows = _rows_for(kind, purpose)
    if not rows:
        raise ConfigError([_no_image(kind, purpose)])
    of_system = [row for row in rows if system in (None, row.operating_system) and _is_meant(row, variant)]
    if not of_system:
        raise ConfigError([_no_system(kind, rows, system, variant)])
    chosen = _best(kind, of_system, any_variant=variant is not None)
    if chosen is None:
        raise ConfigError([_unlisted(kind, of_system[0])])
    return chosen


@check
def check_image(instance_type: InstanceType | str, image: ImageParameter) -> Iterator[Finding]:
    """Find what keeps an instance type from starting from an image, or is worth knowing about it."""
    kind = look_up(instance_type) if isinstance(instance_type, str) else instance_type
    accelerator = kind.accelerator.kind if kind.accelerator else None
    if image.architecture is not kind.architecture:
        yield ARCHITECTURE_FITS.finding(
            cause=f"{kind.name} is {kind.architecture.value} and the image is {image.architecture.value}",
            got=image.parameter,
            allowed=_what_works(kind),
            fix=f"choose an image for {kind.architecture.value}",
        )
    elif accelerator is not None and image.accelerator is not accelerator:
        yield DRIVER_FITS.finding(
            cause=f"the image lacks the drivers of {kind.name}",
            got=image.parameter,
            allowed=_what_works(kind),
            fix=f"choose an image for {accelerator.value}",
        )
    elif accelerator is not None and not _may_serve(kind, image):
        yield _unlisted(kind, image)
    elif accelerator is not None and image.families is None:
        yield FAMILY_LIST_READ.finding(
            cause=f"no release note of this image was read, so that it serves {kind.family} is not confirmed",
            got=image.parameter,
            allowed=_what_works(kind, image.purpose),
            fix="try one node first",
            severity=Severity.INFO,
        )
    else:
        yield from _check_software(kind, image)


def framework_named(name: str) -> Framework:
    """The framework that an image is to have installed.

    Args:
        name: Such as `pytorch`.

    Raises:
        ConfigError: If AWS publishes no image with it, with the names of those that it does.

    Example:
        >>> framework_named("pytorch").value
        'pytorch'
    """
    try:
        return Framework(name)
    except ValueError:
        finding = FRAMEWORK_KNOWN.finding(
            cause="no image with this framework is known",
            got=repr(name),
            allowed=", ".join(repr(one.value) for one in Framework),
            fix="choose one of these, or give an own image by its id",
        )
        raise ConfigError([finding]) from None


@check
def check_image_id(image_id: str) -> Iterator[Finding]:
    """Find a pinned image id that no image can have."""
    if not _IMAGE_ID.fullmatch(image_id):
        yield IMAGE_ID_FORM.finding(
            cause="this is not an image id",
            got=repr(image_id),
            allowed="ami- and 8 or 17 hexadecimal digits",
            fix="give the id, not the image's name or its SSM parameter",
        )


def parameter_name(image: ImageParameter, *, kubernetes_version: str | None = None) -> str:
    """The image's SSM parameter with the Kubernetes version filled in where it needs one.

    Args:
        image: The image's row.
        kubernetes_version: Such as `1.34`; needed for EKS images only.

    Raises:
        ConfigError: If an EKS image is asked for without a version, or with something else.
    """
    if "{kubernetes_version}" not in image.parameter:
        return image.parameter
    if kubernetes_version is None or not _KUBERNETES.fullmatch(kubernetes_version):
        raise ConfigError(
            [
                KUBERNETES_VERSION.finding(
                    cause="an EKS image exists once for every Kubernetes version",
                    got=repr(kubernetes_version),
                    allowed="a version such as 1.34",
                    fix="give the cluster's Kubernetes version",
                )
            ]
        )
    return image.parameter.format(kubernetes_version=kubernetes_version)


def _rows_for(kind: InstanceType, purpose: ImagePurpose) -> tuple[ImageParameter, ...]:
    accelerator = kind.accelerator.kind if kind.accelerator else None
    if accelerator is None and purpose is ImagePurpose.PCS:
        accelerator = AcceleratorKind.GPU  # AWS publishes one image for all nodes of AWS PCS
    return images_for(accelerator=accelerator, architecture=kind.architecture, purpose=purpose)


def _is_meant(row: ImageParameter, variant: str | None) -> bool:
    return row.framework is None if variant is None else row.variant == variant


def _best(kind: InstanceType, rows: Sequence[ImageParameter], *, any_variant: bool) -> ImageParameter | None:
    """The first row that lists the family; else the preferred one whose list is not known."""
    ranked = sorted(rows, key=_rank)
    listed = (row for row in ranked if row.families is not None and kind.family in row.families)
    unread = (
        row for row in ranked if row.families is None and (row.preferred or any_variant) and _may_serve(kind, row)
    )
    return next(listed, None) or next(unread, None)


def _rank(row: ImageParameter) -> tuple[bool, int]:
    system = row.operating_system
    return (not row.preferred, _SYSTEMS.index(system) if system in _SYSTEMS else len(_SYSTEMS))


def _may_serve(kind: InstanceType, row: ImageParameter) -> bool:
    """Whether the row lists the family, or has no list and a row of the same kind and framework lists it."""
    if row.families is not None:
        return kind.family in row.families
    alike = [other for other in _rows_for(kind, row.purpose) if other.framework is row.framework]
    lists = [other.families for other in alike if other.families is not None]
    return not lists or any(kind.family in families for families in lists)


def _check_software(kind: InstanceType, image: ImageParameter) -> list[Finding]:
    least = minimum_software(kind.family)
    if least is None:
        return []
    needs = {name: getattr(least, name) for name in _VERSIONED}
    return [
        SOFTWARE_NEW_ENOUGH.finding(
            cause=f"{kind.family} needs a newer {name} than the image's release note of {image.as_of} names",
            got=image.versions[name],
            allowed=f"{needed} or newer ({least.source})",
            fix="choose another operating system, or check the image that the parameter gives today",
            severity=Severity.WARNING,
        )
        for name, needed in needs.items()
        if needed and name in image.versions and version_of(image.versions[name]) < version_of(needed)
    ]


def _what_works(kind: InstanceType, purpose: ImagePurpose | None = None) -> str:
    """Every documented image for the type, of a purpose or of all."""
    accelerator = kind.accelerator.kind if kind.accelerator else None
    rows = [
        row
        for row in image_parameters()
        if (row.accelerator, row.architecture) == (accelerator, kind.architecture)
        and (accelerator is None or kind.family in (row.families or ()))
        and purpose in (None, row.purpose)
    ]
    names = [f"{row.operating_system.value} {row.variant} ({row.purpose.value})" for row in rows]
    return ", ".join(names) or "an own image, given by its id"


def _no_image(kind: InstanceType, purpose: ImagePurpose) -> Finding:
    drivers = f"{kind.accelerator.kind.value} drivers" if kind.accelerator else "no accelerator drivers"
    return IMAGE_EXISTS.finding(
        cause=f"no {purpose.value} image with {drivers} exists for {kind.architecture.value}",
        got=f"{kind.name} for {purpose.value}",
        allowed=_what_works(kind),
        fix="choose another kind of node or instance type, or give an own image by its id",
    )


def _no_system(
    kind: InstanceType, rows: Sequence[ImageParameter], system: OperatingSystem | None, variant: str | None
) -> Finding:
    wanted = " ".join(part for part in (system and system.value, variant) if part)
    names = sorted({f"{row.operating_system.value} {row.variant}" for row in rows})
    return IMAGE_FOR_SYSTEM.finding(
        cause=f"no image of this system and variant exists for {kind.name}",
        got=wanted,
        allowed=", ".join(names),
        fix="choose one of these, or give an own image by its id",
    )


def _unlisted(kind: InstanceType, row: ImageParameter) -> Finding:
    whose = "no documentation of such an image lists" if row.families is None else "its documentation omits"
    return FAMILY_LISTED.finding(
        cause=f"the {row.operating_system.value} {row.variant} image does not serve {kind.family}: {whose} it",
        got=f"{kind.name} with {row.parameter}",
        allowed=_what_works(kind),
        fix="choose one of the allowed images; an own image, given by its id, is not checked",
    )


# Pinned images: the key under which an image id stands in `cdk.context.json`.

PINNED_IMAGE = define_rule(
    "GPU-AMI-101",
    "a pinned image has been looked up once",
    source="design: synthesis reads no account; the image id is in cdk.context.json",
)


MOVING_IMAGE = define_rule(
    "GPU-AMI-102",
    "nodes that work together, and model servers, keep their image until you choose another",
    source='CloudFormation user guide, "Specify existing resources at runtime with CloudFormation-supplied parameter '
    'types": the value of an SSM parameter is read at each deployment',
)


@check
def check_moving_image(parameter: str, *, efa: bool, node_count: int | None, serves_models: bool) -> Iterator[Finding]:
    """Advise to pin an image that was chosen by its parameter alone.

    Args:
        parameter: The parameter that names the newest image.
        efa: Whether the nodes have EFA.
        node_count: Nodes at most; None if unknown.
        serves_models: Whether they run model servers.
    """
    if not serves_models and not (efa and node_count != 1):
        return
    yield MOVING_IMAGE.finding(
        cause="a deployment takes the newest image; a node that is replaced may boot another driver than its peers",
        got=parameter,
        allowed="an image that was pinned, or is named by its id",
        fix="run gpu-clusters pin-image CLUSTER_FILE, or with this parameter, and keep cdk.context.json",
        severity=Severity.INFO,
    )


def image_context_key(region: str, parameter: str) -> str:
    """The key in `cdk.context.json` that holds the image id of a parameter."""
    return f"cdk-gpu-clusters:image:region={region}:parameter={parameter}"


def not_pinned(region: str | None, parameter: str) -> Finding:
    """The finding for a pinned image that was never looked up.

    Args:
        region: Region of the stack, None if it has none.
        parameter: Name of the image's parameter.
    """
    where = region or "REGION"
    also = "" if region else "; and give the stack that Region in its env"
    return PINNED_IMAGE.finding(
        cause="the image is to be pinned, but its id is missing from the context",
        got=f"no {image_context_key(where, parameter)!r}",
        allowed="an image id in cdk.context.json",
        fix=f"run: gpu-clusters pin-image --region {where} {parameter}{also}",
    )


def version_of(text: str) -> tuple[int, ...]:
    """The numbers of a version; `12.8 to 13.2` counts as its newest one.

    Example:
        >>> version_of("595.64") < version_of("595.64.1") < version_of("595.71.05")
        True
    """
    return max(tuple(map(int, found.split("."))) for found in re.findall(r"\d+(?:\.\d+)*", text))
