"""Model servers on a node: image, ports, weights, and which devices each server gets."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import combinations
from pathlib import PurePosixPath
from typing import NamedTuple

from cdk_gpu_clusters.catalogue import AcceleratorKind, InstanceType
from cdk_gpu_clusters.catalogue import instance_type as look_up
from cdk_gpu_clusters.errors import Finding, Severity, check, define_rule, raise_for
from cdk_gpu_clusters.rules.checkpoints import check_bucket_name

# The grammar of distribution/reference, the Go package that Docker reads references with: registry[:port]/path, then
# :tag and @digest.
_DOMAIN = r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*(?::\d+)?"
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:{_DOMAIN}/)?{_COMPONENT}(?:/{_COMPONENT})*(?::(?P<tag>\w[\w.-]{{0,127}}))?"
    r"(?P<digest>@sha256:[0-9a-f]{64})?",
    re.ASCII,
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_ARN = re.compile(
    r"arn:aws[a-z-]*:(?:secretsmanager:[a-z0-9-]+:\d{12}:secret:[A-Za-z0-9/_+=.@-]+"
    r"|ssm:[a-z0-9-]+:\d{12}:parameter/[A-Za-z0-9/_.-]+)"
)
# Amazon ECR user guide, "Amazon ECR registries" and "Making requests over dual-stack endpoints"; FIPS endpoints have a
# name of their own.
_ECR_IMAGE = re.compile(
    r"(\d{12})\.dkr[.-]ecr(?:-fips)?\.([a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|on\.(?:aws|amazonwebservices\.com\.cn))/"
    r"([^:@]+)(?:[:@].*)?"
)
_FOLDER = re.compile(r"/[\w./-]*[\w-]", re.ASCII)
_S3_ADDRESS = re.compile(r"s3://([^\s/]{3,63})(?:/\S*)?")
#: Variables that the node sets for every server.
RESERVED_VARIABLES = frozenset({"MODEL_SERVER_INDEX"})

HEALTH_PATH = define_rule(
    "GPU-INF-005",
    "a health path begins with a slash and is one printable word",
    source="RFC 9112, 3.2.1: the origin form of a request target",
)
IMAGE_FORM = define_rule(
    "GPU-INF-006",
    "a container image is named as Docker names it",
    source="distribution/reference, the grammar of image references",
)
IMAGE_MOVES = define_rule(
    "GPU-INF-007",
    "servers of one fleet run one image: a digest or a tag that is not moved",
    source="a node that starts later pulls what the tag means then",
)
VARIABLES = define_rule(
    "GPU-INF-008",
    "variables of a server have shell names, one line each, and no two values",
    source="Docker reference, docker run --env-file: one NAME=value line each",
)
SECRET_FORM = define_rule(
    "GPU-INF-009",
    "a secret is named by the ARN of a Secrets Manager secret or a Parameter Store parameter",
    source="Service Authorization Reference, resource types of Secrets Manager and Systems Manager",
)
WEIGHTS_PLACE = define_rule(
    "GPU-INF-011",
    "model weights are in an absolute folder of the node, or come from an s3:// address",
    source="Docker reference, docker run --volume; AWS CLI reference, s3 sync",
)


CONTAINER_PORT = define_rule(
    "GPU-INF-020", "a server listens on a port from 1 to 65,535", source="RFC 9293, 3.1: 16 bits"
)
COMMAND = define_rule(
    "GPU-INF-021",
    "arguments of a server are one printable line each",
    source="they travel in a shell file of the user data",
)


class EcrImage(NamedTuple):
    """The location of a private ECR repository."""

    account: str
    region: str
    repository: str


def read_ecr_image(reference: str) -> EcrImage | None:
    """The ECR repository of an image reference; None if it is of another registry.

    Example:
        >>> read_ecr_image("111122223333.dkr.ecr.us-east-1.amazonaws.com/models/server:v1")
        EcrImage(account='111122223333', region='us-east-1', repository='models/server')
    """
    found = _ECR_IMAGE.fullmatch(reference)
    return None if found is None else EcrImage(*found.groups())


@check
def check_health_path(path: str) -> Iterator[Finding]:
    """Find a health path that no server could be asked for."""
    if not path.startswith("/") or not path.isascii() or not path.isprintable() or re.search(r"[\s\"'#\\]", path):
        yield HEALTH_PATH.finding(
            cause="this is not the path of a health check",
            got=repr(path),
            allowed="a path such as /health",
            fix="begin the path with a slash, and leave spaces, quotes and fragments out",
        )


@check
def check_container_image(image: str | None, *, tag: str | None = None) -> Iterator[Finding]:
    """Find what is wrong with the reference of a container image.

    Args:
        image: The reference; None for a repository, or for a text that only the deployment knows.
        tag: Tag or digest in the repository.

    Returns:
        `GPU-INF-006` where Docker would refuse it, and the warning `GPU-INF-007` where it names an image that moves.
    """
    reference = f"repository{'@' if (tag or '').startswith('sha256:') else ':'}{tag or 'latest'}"
    if image is not None:
        reference = image if tag is None else f"{image} and tag {tag}"
    found = _IMAGE.fullmatch(reference)
    if found is None:
        yield IMAGE_FORM.finding(
            cause="this is not a reference of a container image",
            got=repr(reference),
            allowed="[registry/]name[:tag][@sha256:digest], the name in lower case; tag only with a repository",
            fix="write it as docker pull takes it, without https://",
        )
    elif not found["digest"] and found["tag"] in (None, "latest"):
        yield IMAGE_MOVES.finding(
            cause="nodes that start at different times may run different images",
            got=reference,
            allowed="a tag that is not moved, or a digest",
            fix="name the version, best by its digest",
            severity=Severity.WARNING,
        )


@check
def check_container_port(port: int) -> Iterator[Finding]:
    """Find a port on which nothing can listen."""
    if not 1 <= port <= 65_535:
        yield CONTAINER_PORT.finding(
            cause="no server can listen there", got=str(port), allowed="1 to 65,535", fix="change port"
        )


def check_command(command: Iterable[str]) -> list[Finding]:
    """Find arguments that are not one printable line each."""
    return [
        COMMAND.finding(
            cause="an argument is more than one printable line",
            got=repr(argument),
            fix="put long texts into a file of the image or of the weights",
        )
        for argument in command
        if not argument.isprintable()
    ]


@check
def check_variables(environment: Mapping[str, str], secrets: Iterable[str]) -> Iterator[Finding]:
    """Find variables that a server would not get as they are written.

    Args:
        environment: Plain variables; values may be tokens.
        secrets: Names of the variables that hold secrets.
    """
    names = list(secrets)
    for name in (*environment, *names):
        if not _VARIABLE.fullmatch(name):
            yield _variable("this is not the name of a variable", name)
        elif name in RESERVED_VARIABLES:
            yield _variable("the node sets this variable itself", name)
    yield from (
        _variable("this variable has a plain value and a secret", name) for name in names if name in environment
    )
    yield from (
        _variable("the value is more than one printable line", f"{name}={value!r}")
        for name, value in environment.items()
        if not value.isprintable()
    )


@check
def check_secret_arn(arn: str) -> Iterator[Finding]:
    """Find an ARN that names neither a secret nor a parameter."""
    if not _SECRET_ARN.fullmatch(arn):
        yield SECRET_FORM.finding(
            cause="this names no secret and no parameter",
            got=repr(arn),
            allowed="arn:<partition>:secretsmanager:…:secret:… or arn:<partition>:ssm:…:parameter/…",
            fix="give the ARN; a secret's own value never belongs here",
        )


@check
def check_weights(path: str, uri: str | None) -> Iterator[Finding]:
    """Find a place of model weights that a node could not mount or copy from.

    Args:
        path: Folder on the node.
        uri: `s3://bucket/prefix` to copy from at boot, None for a folder that is there.
    """
    if not _FOLDER.fullmatch(path) or ".." in path.split("/"):
        yield _weights("the weights do not lie in a folder of the node", path, "/fsx/models/llama")
    address = None if uri is None else _S3_ADDRESS.fullmatch(uri)
    if uri is not None and (address is None or check_bucket_name(address[1])):
        yield _weights("the weights come from no S3 address", uri, "s3://bucket/prefix")


def _variable(cause: str, got: str) -> Finding:
    return VARIABLES.finding(cause=cause, got=got, allowed="a name such as MAX_MODEL_LEN, once", fix="rename it")


def _weights(cause: str, got: str, example: str) -> Finding:
    return WEIGHTS_PLACE.finding(cause=cause, got=repr(got), allowed=f"such as {example}", fix="correct it")


# Privileged ports end at 1023 (ip(7)); ephemeral ports, which outgoing connections take, begin at 32768 (Linux kernel
# documentation, ip_local_port_range).
_FIRST_PORT, _LAST_PORT = 1024, 32_767

PORTS = define_rule(
    "GPU-INF-004",
    "the ports of a node are different, from 1,024 to 32,767",
    source="ip(7); Linux kernel documentation, ip_local_port_range",
)


def check_ports(**taken: Sequence[int]) -> list[Finding]:
    """Find ports of a node that collide, or that a server cannot count on.

    Args:
        taken: By the name of the parameter, the ports that follow from it, in their order.
    """
    findings = [
        PORTS.finding(
            cause=f"{name} is privileged, or other programs may have taken it for a connection of theirs",
            got=_span(ports),
            allowed=f"{_FIRST_PORT} to {_LAST_PORT}",
            fix=f"change {name}",
        )
        for name, ports in taken.items()
        if ports[0] < _FIRST_PORT or ports[-1] > _LAST_PORT
    ]
    findings += [
        PORTS.finding(
            cause=f"{name} and {other} take the same port",
            got=f"{_span(taken[name])} and {_span(taken[other])}",
            allowed="ports that differ",
            fix=f"change {name} or {other}",
        )
        for name, other in combinations(taken, 2)
        if set(taken[name]) & set(taken[other])
    ]
    return findings


def _span(ports: Sequence[int]) -> str:
    return str(ports[0]) if len(ports) == 1 else f"{ports[0]} to {ports[-1]}"


# Whether the local disks on which model weights are to lie are there, and hold them.

WEIGHTS_ON_SCRATCH = define_rule(
    "GPU-INF-023",
    "weights are on local disks only if the nodes have some, scratch is on, and the weights are copied there at boot",
    source="EC2 DescribeInstanceTypes, instance storage; EC2 user guide, instance store: empty when an instance starts",
)


CACHE_ON_SCRATCH = define_rule(
    "GPU-INF-028",
    "a cache of model servers is a folder of the local disks, apart from the weights",
    source="EC2 DescribeInstanceTypes, instance storage; Docker reference, docker run --volume",
)


def plan_scratch(
    path: str | None,
    instance_type: InstanceType,
    *,
    scratch: str,
    requested: bool | None,
    mount_points: Collection[str],
    copied: bool,
    cache_path: str | None = None,
) -> tuple[bool, list[Finding]]:
    """Whether the local disks of a node become one file system, and what is wrong with what lies on it.

    A server sees nothing of them but its weights and its cache. So they are left alone if neither lies there: a node
    then needs no disk tools to boot.

    Args:
        path: Folder of the weights, None for none.
        instance_type: Type of the nodes.
        scratch: Where the local disks are mounted.
        requested: The requested setting; None to follow the weights.
        mount_points: Where other file systems are mounted.
        copied: Whether the weights are copied at boot.
        cache_path: Folder that the servers write, None for none.

    Example:
        >>> from cdk_gpu_clusters.catalogue import instance_type
        >>> plan_scratch(
        ...     "/scratch/llama", instance_type("g6e.48xlarge"), scratch="/scratch", requested=None, mount_points=(),
        ...     copied=True,
        ... )
        (True, [])
    """
    findings, needed = list[Finding](), cache_path is not None
    if cache_path is not None:
        findings = check_cache(
            cache_path,
            path,
            instance_type=instance_type.name,
            has_local_disks=bool(instance_type.local_disks),
            scratch=None if requested is False else scratch,
        )
    if path is not None and _is_inside(path, [scratch]) and not _is_inside(path, mount_points):
        needed = True
        findings += check_weights_on_scratch(
            path,
            instance_type=instance_type.name,
            has_local_disks=bool(instance_type.local_disks),
            scratch=requested is not False,
            copied=copied,
        )
    return requested is not False if needed else bool(requested), findings


@check
def check_cache(
    path: str, weights: str | None, *, instance_type: str, has_local_disks: bool, scratch: str | None
) -> Iterator[Finding]:
    """Find a cache that servers cannot write, or that is not on local disks.

    Args:
        path: Folder of the cache.
        weights: Folder of the weights, which servers only read; None for none.
        instance_type: Type of the nodes.
        has_local_disks: Whether the type has local disks.
        scratch: Where they are mounted; None if they are left alone.

    Example:
        >>> found = check_cache(
        ...     "/root/.cache", None, instance_type="g6e.48xlarge", has_local_disks=True, scratch="/scratch"
        ... )
        >>> [finding.id for finding in found]
        ['GPU-INF-028']
    """
    if not has_local_disks or scratch is None:
        yield CACHE_ON_SCRATCH.finding(
            cause="the cache is to lie on local disks, which the nodes do not have or leave alone",
            got=f"{path} on {instance_type}" + (" without scratch" if has_local_disks else ""),
            allowed="a type with local disks, and scratch not switched off",
            fix="remove the cache, or choose a type with local disks and leave scratch out",
        )
    elif not _FOLDER.fullmatch(path) or ".." in path.split("/") or path == scratch or not _is_inside(path, [scratch]):
        yield CACHE_ON_SCRATCH.finding(
            cause="this is not a folder of the local disks",
            got=repr(path),
            allowed=f"a folder below {scratch}",
            fix=f"use {scratch}/cache",
        )
    elif weights is not None and (_is_inside(path, [weights]) or _is_inside(weights, [path])):
        yield CACHE_ON_SCRATCH.finding(
            cause="the cache and the weights, which servers only read, lie inside each other",
            got=f"{path} and {weights}",
            allowed="two folders side by side",
            fix="move one of them",
        )


def _is_inside(path: str, directories: Collection[str]) -> bool:
    return any(PurePosixPath(path).is_relative_to(directory) for directory in directories)


@check
def check_weights_on_scratch(
    path: str, *, instance_type: str, has_local_disks: bool, scratch: bool, copied: bool
) -> Iterator[Finding]:
    """Find weights on local disks that are not there, or that nothing fills.

    Args:
        path: Folder of the weights, below the mount point of the local disks.
        instance_type: Type of the nodes.
        has_local_disks: Whether the type has local disks.
        scratch: Whether they become one file system.
        copied: Whether the weights are copied at boot.

    Example:
        >>> found = check_weights_on_scratch(
        ...     "/scratch/llama", instance_type="inf2.48xlarge", has_local_disks=False, scratch=True, copied=True
        ... )
        >>> [finding.id for finding in found]
        ['GPU-INF-023']
    """
    if not has_local_disks:
        yield WEIGHTS_ON_SCRATCH.finding(
            cause="the type has no local disks to hold the weights",
            got=f"{path} on {instance_type}",
            allowed="a folder of the root volume or of a mounted file system",
            fix="leave path out, and give a root_volume that holds the model; or choose a type with local disks",
        )
    elif not scratch:
        yield WEIGHTS_ON_SCRATCH.finding(
            cause="the weights are to lie on the local disks, which are left alone",
            got=f"{path} with scratch=False",
            allowed="scratch=True, or another folder",
            fix="leave scratch out",
        )
    elif not copied:
        yield WEIGHTS_ON_SCRATCH.finding(
            cause="the local disks are empty when a node starts, and nothing copies the weights there",
            got=f'ModelWeights.from_path("{path}")',
            allowed="ModelWeights.from_bucket, or a service of your own image that fills the folder",
            fix=f'use ModelWeights.from_bucket(bucket, prefix, path="{path}")',
            severity=Severity.WARNING,
        )


#: Instances that one GPU can be cut into at most (NVIDIA Multi-Instance GPU user guide, "Concepts").
MAX_MIG_SLICES_PER_GPU = 7

GROUP_DIVIDES = define_rule(
    "GPU-INF-001",
    "a tensor-parallel group divides the accelerators of the node",
    source="one server per group of equal size, no accelerator shared or idle",
)
SLOTS_FIT = define_rule(
    "GPU-INF-002",
    "model servers run on accelerators, and on MIG slices only where the GPU has MIG",
    source="EC2 DescribeInstanceTypes; NVIDIA Multi-Instance GPU user guide, supported GPUs",
)
SLICE_COUNT = define_rule(
    "GPU-INF-003",
    "a node has at least one MIG slice, and at most 7 per GPU",
    source='NVIDIA Multi-Instance GPU user guide, "Concepts"',
)
NO_NVLINK = define_rule(
    "GPU-INF-010",
    "GPUs of a tensor-parallel group exchange data at every layer: NVLink is faster than PCIe",
    source="NVIDIA data sheets of the GPUs (catalogue, nvlink_gbytes_per_s_per_gpu)",
)

SLICES_MATCH = define_rule(
    "GPU-INF-022",
    "every slice of the fleet's MIG layout has a server, and no GPU stays idle",
    source="a GPU that is split takes no whole-GPU server, and the servers of a node get one kind of device",
)


class DeviceKind(str, Enum):
    """What a model server is given."""

    GPU = "gpu"
    MIG_SLICE = "mig"
    NEURON = "neuron"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSlots:
    """How the accelerators of a node are shared out; make one with a class method.

    Attributes:
        devices_per_server: GPUs or Neuron devices of each server.
        mig_slices_per_node: MIG slices of a node, each with a server of its own; None without MIG.

    Example:
        >>> ServerSlots.tensor_parallel(4).devices_per_server
        4
    """

    devices_per_server: int = 1
    mig_slices_per_node: int | None = None

    @classmethod
    def per_accelerator(cls) -> ServerSlots:
        """One server on each GPU or Neuron device."""
        return cls()

    @classmethod
    def tensor_parallel(cls, size: int) -> ServerSlots:
        """One server on each group of GPUs or Neuron devices.

        Args:
            size: Accelerators of a group; it divides the accelerators of the node.
        """
        return cls(devices_per_server=size)

    @classmethod
    def per_mig_slice(cls, slices_per_node: int) -> ServerSlots:
        """One server on each MIG slice.

        Args:
            slices_per_node: Slices of all GPUs of a node, as the fleet's MIG layout makes them.
        """
        return cls(mig_slices_per_node=slices_per_node)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlan:
    """The model servers of one node.

    Attributes:
        kind: What each server is given.
        devices: Per server the indices of its devices: of GPUs, of Neuron devices, or of one MIG slice in the order
            in which `nvidia-smi -L` lists them.
        port: Where the node's balancer listens.
        stats_port: Where the balancer shows its state, on loopback.
        first_server_port: Port of the first server on loopback; the others follow.
        findings: What is worth knowing and stops nothing.
    """

    kind: DeviceKind
    devices: tuple[tuple[int, ...], ...]
    port: int
    stats_port: int
    first_server_port: int
    findings: tuple[Finding, ...] = ()

    @property
    def server_count(self) -> int:
        """Servers of the node."""
        return len(self.devices)

    @property
    def server_ports(self) -> tuple[int, ...]:
        """Port of each server on loopback."""
        return tuple(self.first_server_port + index for index in range(self.server_count))


def plan_servers(
    instance_type: InstanceType | str,
    slots: ServerSlots | None = None,
    *,
    port: int = 8080,
    stats_port: int = 8404,
    first_server_port: int = 9000,
) -> ServerPlan:
    """Share the accelerators of a node out among model servers.

    Args:
        instance_type: The type, or its name.
        slots: How to share; one server per accelerator if left out.
        port: Where the node's balancer listens.
        stats_port: Where the balancer shows its state, on loopback.
        first_server_port: Port of the first server on loopback.

    Raises:
        ConfigError: GPU-INF-001 to -004, all at once.

    Example:
        >>> plan_servers("p4d.24xlarge", ServerSlots.per_mig_slice(56)).server_ports[-1]
        9055
        >>> plan_servers("g6e.48xlarge", ServerSlots.tensor_parallel(4)).devices
        ((0, 1, 2, 3), (4, 5, 6, 7))
    """
    record = look_up(instance_type) if isinstance(instance_type, str) else instance_type
    slots = slots or ServerSlots()
    findings = check_slots(record, slots)
    devices = () if any(found.severity is Severity.ERROR for found in findings) else _devices(record, slots)
    plan = ServerPlan(
        kind=_kind(record, slots),
        devices=devices,
        port=port,
        stats_port=stats_port,
        first_server_port=first_server_port,
        findings=tuple(findings),
    )
    raise_for(
        [
            *findings,
            *check_ports(
                port=[port],
                stats_port=[stats_port],
                first_server_port=list(plan.server_ports) or [first_server_port],
            ),
        ]
    )
    return plan


@check
def check_slots(instance_type: InstanceType, slots: ServerSlots) -> Iterator[Finding]:
    """Find what is wrong with sharing out the accelerators of a type."""
    if instance_type.accelerator is None:
        yield SLOTS_FIT.finding(
            cause="the type has no accelerator to run a model server on",
            got=instance_type.name,
            allowed="a type with GPUs or Neuron devices",
            fix="choose another instance type",
        )
        return
    if slots.mig_slices_per_node is None:
        yield from _check_groups(instance_type, slots.devices_per_server)
        return
    yield from _check_slices(instance_type, slots.mig_slices_per_node)


@check
def check_mig_slots(slots: ServerSlots | None, slices_per_node: int, *, whole_gpus: int) -> Iterator[Finding]:
    """Find slots that do not go with the fleet's MIG layout.

    Args:
        slots: How the accelerators are shared out, None for one server per slice.
        slices_per_node: Slices that the layout makes on a node.
        whole_gpus: GPUs that it leaves unsplit.
    """
    if slots is not None and slots.mig_slices_per_node != slices_per_node:
        yield SLICES_MATCH.finding(
            cause="the slots are not those of the fleet's MIG layout",
            got="unsplit GPUs" if slots.mig_slices_per_node is None else str(slots.mig_slices_per_node),
            allowed=f"per_mig_slice({slices_per_node})",
            fix="leave slots out: mig already defines them",
        )
    if whole_gpus:
        yield SLICES_MATCH.finding(
            cause="GPUs that are not split run no server beside those that are",
            got=f"{whole_gpus} unsplit GPUs",
            allowed="a layout for every GPU",
            fix="split them too, if only into one slice, such as 7g.40gb",
        )


def _check_groups(instance_type: InstanceType, size: int) -> Iterator[Finding]:
    count = _accelerators(instance_type)
    if size < 1 or count % size:
        sizes = ", ".join(str(n) for n in range(1, count + 1) if count % n == 0)
        yield GROUP_DIVIDES.finding(
            cause=f"groups of that size do not share out the {count} accelerators of {instance_type.name}",
            got=str(size),
            allowed=sizes,
            fix="choose a size that divides the number of accelerators, or another type",
        )
        return
    accelerator = instance_type.accelerator
    if size > 1 and accelerator is not None and accelerator.nvlink_gbytes_per_s_per_gpu == 0:
        yield NO_NVLINK.finding(
            cause=f"the GPUs of {instance_type.name} have no NVLink: a group of {size} talks over PCIe",
            got=f"tensor_parallel({size})",
            fix="keep groups as small as the model allows, or choose a P type",
            severity=Severity.INFO,
        )


def _check_slices(instance_type: InstanceType, slices: int) -> Iterator[Finding]:
    accelerator = instance_type.accelerator
    if accelerator is None or not accelerator.mig_capable:
        yield SLOTS_FIT.finding(
            cause=f"the accelerators of {instance_type.name} cannot be cut into MIG slices",
            got=f"per_mig_slice({slices})",
            allowed="a type with A100, H100, H200, B200 or other MIG-capable GPUs",
            fix="use one server per accelerator, or a P type",
        )
        return
    most = MAX_MIG_SLICES_PER_GPU * _accelerators(instance_type)
    if not 1 <= slices <= most:
        yield SLICE_COUNT.finding(
            cause=f"{instance_type.name} cannot have that many MIG slices",
            got=str(slices),
            allowed=f"1 to {most}",
            fix="give the number of slices that the fleet's MIG layout makes on one node",
        )


def _accelerators(instance_type: InstanceType) -> int:
    accelerator = instance_type.accelerator
    # A fraction of a GPU counts 0 whole ones, and is one device on the node.
    return 0 if accelerator is None else accelerator.count or accelerator.logical_count


def _kind(instance_type: InstanceType, slots: ServerSlots) -> DeviceKind:
    accelerator = instance_type.accelerator
    if accelerator is not None and accelerator.kind is AcceleratorKind.NEURON:
        return DeviceKind.NEURON
    return DeviceKind.GPU if slots.mig_slices_per_node is None else DeviceKind.MIG_SLICE


def _devices(instance_type: InstanceType, slots: ServerSlots) -> tuple[tuple[int, ...], ...]:
    if slots.mig_slices_per_node is not None:
        return tuple((index,) for index in range(slots.mig_slices_per_node))
    size = slots.devices_per_server
    return tuple(tuple(range(first, first + size)) for first in range(0, _accelerators(instance_type), size))
