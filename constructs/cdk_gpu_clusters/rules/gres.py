"""The GPUs and MIG slices of a node as Slurm's generic resources (GRES): `Gres` of the node, and its `gres.conf`.

Sources: Slurm, gres.conf man page and "Generic Resource (GRES) Scheduling" (SchedMD/slurm @ 284c3b9); the names that
autodetection gives, src/plugins/gpu/nvml/gpu_nvml.c, and how it matches them, src/plugins/gres/gpu/gres_gpu.c, of the
same commit. Minor numbers of MIG devices: NVIDIA/open-gpu-kernel-modules @ 1739a20, kernel-open/nvidia/nv-caps.c.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from cdk_gpu_clusters.catalogue import AcceleratorKind, InstanceType
from cdk_gpu_clusters.errors import Finding, check, define_rule, raise_for
from cdk_gpu_clusters.rules.mig import MigPlan

_MAN_PAGE = "Slurm, gres.conf man page (SchedMD/slurm @ 284c3b9)"

AMBIGUOUS_TYPES = define_rule(
    "GPU-GRES-001",
    "the types of a node's GPUs and slices are unambiguous for Slurm's autodetection",
    source=f"{_MAN_PAGE}, Type: a substring of the detected name; the longest type is matched first, "
    "src/plugins/gres/gpu/gres_gpu.c",
)
UNKNOWN_FILES = define_rule(
    "GPU-GRES-002",
    "a gres.conf record of a MIG slice names the device files that the driver gave it",
    source='AWS PCS user guide, "Configuring Multi-Instance GPU (MIG) in AWS PCS": the files exist after the instances '
    "are made; NVIDIA/open-gpu-kernel-modules @ 1739a20, kernel-open/nvidia/nv-caps.c",
)
DIFFERENT_LAYOUT = define_rule(
    "GPU-GRES-003",
    "Gres declares the GPUs and MIG slices that the node has",
    source='Slurm, "Generic Resource (GRES) Scheduling": a node with fewer resources than configured is drained',
)
NO_GPU = define_rule(
    "GPU-GRES-004",
    "Slurm's GRES of the kind gpu are NVIDIA GPUs of the node",
    source=f"{_MAN_PAGE}, AutoDetect",
)
NO_SLICES = define_rule(
    "GPU-GRES-006",
    "MIG slices are detected by NVML, or have records of their own",
    source=f"{_MAN_PAGE}, AutoDetect: nvidia needs no library, and does not detect MIG",
)
GRES_FORM = define_rule(
    "GPU-GRES-005",
    "Gres is a list of name:type:count",
    source="Slurm, slurm.conf man page, Gres (SchedMD/slurm @ 284c3b9)",
)


class GresMode(str, Enum):
    """How `gres.conf` describes the devices of a node.

    Attributes:
        AUTODETECT: slurmd asks NVML at its start. AWS PCS takes MIG in this form only, from Slurm 25.11 on.
        NVIDIA: slurmd reads the files of NVIDIA's driver at its start. It finds unsplit GPUs only, and needs no NVML.
            From Slurm 24.11 on.
        EXPLICIT: Every device file is named. For a Slurm without NVML, and for nodes whose files are known.
    """

    AUTODETECT = "autodetect"
    NVIDIA = "nvidia"
    EXPLICIT = "explicit"


@dataclass(frozen=True, slots=True, kw_only=True)
class GresPlan:
    """The generic resources of a node.

    Attributes:
        node_gres: `Gres` of the node in `slurm.conf`, such as `gpu:1g.5gb:56`.
        records: The records of `gres.conf`, each without its `NodeName`.
        mode: How the records describe the devices.
    """

    node_gres: str
    records: tuple[Mapping[str, str], ...]
    mode: GresMode

    @property
    def custom_settings(self) -> list[dict[str, str]]:
        """The records as `GresCustomSettings` of an AWS PCS compute node group takes them."""
        return [dict(one) for one in self.records]

    def conf_text(self, node_names: str | Iterable[str]) -> str:
        """The text of `gres.conf` for any Slurm.

        Args:
            node_names: Names of the nodes: a host list of Slurm, such as `gpu-[1-16]`, or one name each.

        Example:
            >>> from cdk_gpu_clusters.catalogue import instance_type
            >>> print(plan_gres(instance_type("p5.48xlarge"), mode=GresMode.EXPLICIT).conf_text("gpu-[1-16]"), end="")
            NodeName=gpu-[1-16] Name=gpu Type=h100 File=/dev/nvidia[0-7]
        """
        nodes = node_names if isinstance(node_names, str) else ",".join(node_names)
        lines = [" ".join(f"{name}={value}" for name, value in one.items()) for one in self.records]
        return "".join(f"NodeName={nodes} {line}\n" for line in lines)


def plan_gres(
    kind: InstanceType,
    mig: MigPlan | None = None,
    *,
    mode: GresMode = GresMode.AUTODETECT,
    gpu_instance_ids: Sequence[Sequence[int]] | None = None,
) -> GresPlan:
    """Describe the GPUs and MIG slices of a node to Slurm.

    Args:
        kind: Type of the node.
        mig: How its GPUs are split; not at all if left out.
        mode: How `gres.conf` describes the devices.
        gpu_instance_ids: Ids of the GPU instances, for explicit records of MIG slices: a list for each GPU, in the
            order of the plan, as `nvidia-smi mig -lgi` shows them on the node. The driver chooses them, and GPUs of one
            model can have different ones.

    Raises:
        ConfigError: GPU-GRES-001, -002, -004 and -006, all at once.

    Example:
        >>> from cdk_gpu_clusters.catalogue import instance_type
        >>> from cdk_gpu_clusters.rules.mig import MigLayout, plan_mig
        >>> node = instance_type("p4d.24xlarge")
        >>> plan = plan_gres(node, plan_mig(node, MigLayout(["1g.5gb"] * 7)))
        >>> plan.node_gres, plan.custom_settings
        ('gpu:1g.5gb:56', [{'AutoDetect': 'nvml'}])
    """
    raise_for(check_gres_plan(kind, mig, mode=mode, gpu_instance_ids=gpu_instance_ids))
    counts = gres_counts(kind, mig)
    if mode is GresMode.AUTODETECT:
        records = [{"AutoDetect": "nvml"}]  # the only mechanism that finds MIG slices, by the man page
    elif mode is GresMode.NVIDIA:
        records = [{"AutoDetect": "nvidia"}]
    else:
        records = [*_slice_records(mig, gpu_instance_ids or []), *_whole_gpu_records(kind, mig)]
    return GresPlan(
        node_gres=",".join(f"gpu:{name}:{count}" for name, count in counts.items()),
        records=tuple(MappingProxyType(one) for one in records),
        mode=mode,
    )


@check
def check_gres_plan(
    kind: InstanceType,
    mig: MigPlan | None,
    *,
    mode: GresMode,
    gpu_instance_ids: Sequence[Sequence[int]] | None = None,
) -> Iterator[Finding]:
    """Find why the devices of a node cannot be described to Slurm."""
    accelerator = kind.accelerator
    if accelerator is None or accelerator.kind is not AcceleratorKind.GPU:
        yield NO_GPU.finding(
            cause="the node has no NVIDIA GPU that Slurm can schedule",
            got=kind.name,
            allowed="a type with NVIDIA GPUs",
            fix="leave Gres out for these nodes",
        )
        return
    if mode is GresMode.AUTODETECT:
        yield from _ambiguous_types(kind, mig)
    elif mode is GresMode.NVIDIA and mig is not None:
        yield NO_SLICES.finding(
            cause="Slurm finds no MIG slices without NVML",
            got="MIG slices, without NVML and without ids of GPU instances",
            allowed="a Slurm with NVML, or a record of each slice",
            fix="run a Slurm that was built with NVML, or give the ids that nvidia-smi mig -lgi shows on the node",
            path="mig",
        )
    elif mig is not None:
        yield from _unknown_files(mig, gpu_instance_ids)


def gres_counts(kind: InstanceType, mig: MigPlan | None) -> Mapping[str, int]:
    """How many GPUs or slices of each type a node has: slices first, in the order of the plan.

    Example:
        >>> from cdk_gpu_clusters.catalogue import instance_type
        >>> dict(gres_counts(instance_type("g6e.12xlarge"), None))
        {'l40s': 4}
    """
    counts = Counter({} if mig is None else _slice_types(mig))
    if whole := _whole_gpus(kind, mig):
        counts[gpu_type(kind)] = len(whole)
    return MappingProxyType(dict(counts))


# Where EC2's name of a GPU is not in NVML's.
_TYPES = {"RTX PRO Server 6000": "rtx_pro_6000"}


def gpu_type(kind: InstanceType) -> str:
    """The type of an unsplit GPU.

    It is a part of the name that autodetection gives the GPU: `h100` of `nvidia_h100_80gb_hbm3`.

    Args:
        kind: A type with NVIDIA GPUs.

    Example:
        >>> from cdk_gpu_clusters.catalogue import instance_type
        >>> gpu_type(instance_type("p4de.24xlarge"))
        'a100'
    """
    if kind.accelerator is None:
        raise ValueError(f"{kind.name} has no GPU")
    if kind.accelerator.mig_profile_key == "GB200":  # EC2 names the B200 in it
        return "gb200"
    name = kind.accelerator.name
    return _TYPES.get(name, name.lower().replace(" ", "_"))


def mig_capability(gpu: int, gpu_instance: int, compute_instance: int | None = None) -> int:
    """The minor number N of `/dev/nvidia-caps/nvidia-capN` for a GPU instance, or for a compute instance of it.

    The driver numbers them by its tables: one capability of NVLink and two of MIG, then for each GPU 15 GPU instances,
    each followed by its 8 compute instances.

    Args:
        gpu: Minor number of the GPU, 0 for `/dev/nvidia0`.
        gpu_instance: Id of the GPU instance, 0 to 14.
        compute_instance: Id of the compute instance, 0 to 7; None for the GPU instance itself.

    Example:
        >>> mig_capability(0, 7), mig_capability(0, 7, 0)
        (66, 67)
    """
    if not (0 <= gpu < _GPUS and 0 <= gpu_instance < _GPU_INSTANCES):
        raise ValueError(f"the driver has no GPU instance {gpu_instance} of GPU {gpu}")
    minor = _FIRST_GPU + (gpu * _GPU_INSTANCES + gpu_instance) * (1 + _COMPUTE_INSTANCES)
    if compute_instance is None:
        return minor
    if not 0 <= compute_instance < _COMPUTE_INSTANCES:
        raise ValueError(f"the driver has no compute instance {compute_instance}")
    return minor + 1 + compute_instance


# Lengths of the driver's tables, see `mig_capability`.
_FIRST_GPU = 3
_GPUS = 32
_GPU_INSTANCES = 15
_COMPUTE_INSTANCES = 8


def _slice_types(mig: MigPlan) -> list[str]:
    return [profile.name for gpu in mig.gpus for profile in gpu.profiles]


def _whole_gpus(kind: InstanceType, mig: MigPlan | None) -> list[int]:
    """Indexes of the GPUs that are not split."""
    if mig is not None:
        return [gpu.index for gpu in mig.gpus if not gpu.placements]
    accelerator = kind.accelerator
    return [] if accelerator is None else list(range(accelerator.count or accelerator.logical_count))


def _whole_gpu_records(kind: InstanceType, mig: MigPlan | None) -> Iterator[dict[str, str]]:
    if whole := _whole_gpus(kind, mig):
        yield {"Name": "gpu", "Type": gpu_type(kind), "File": f"/dev/nvidia{_ranges(whole)}"}


def _slice_records(mig: MigPlan | None, ids: Sequence[Sequence[int]]) -> Iterator[dict[str, str]]:
    """One record for each slice: the files of `MultipleFiles` are one resource together."""
    for gpu, own in zip(mig.gpus if mig else [], ids, strict=False):
        for profile, gpu_instance in zip(gpu.profiles, own, strict=True):
            minors = mig_capability(gpu.index, gpu_instance), mig_capability(gpu.index, gpu_instance, 0)
            files = [f"/dev/nvidia{gpu.index}", *(f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in minors)]
            yield {"Name": "gpu", "Type": profile.name, "MultipleFiles": ",".join(files)}


def _ranges(numbers: Sequence[int]) -> str:
    """Numbers as a host list of Slurm has them, such as `[0-2,5]`, and `7` for one alone."""
    if len(numbers) == 1:
        return str(numbers[0])
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return "[" + ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs) + "]"


def _ambiguous_types(kind: InstanceType, mig: MigPlan | None) -> Iterator[Finding]:
    if mig is None or (whole := gpu_type(kind)) not in (counts := gres_counts(kind, mig)):
        return
    detected = _detected(mig, whole)
    wrong = {name for name, own in detected if _matched(detected, counts)[name] != own}
    if wrong:
        yield AMBIGUOUS_TYPES.finding(
            cause=f"Slurm matches the type {whole} of unsplit GPUs before the shorter names of slices, and takes "
            "slices for unsplit GPUs",
            got=", ".join(counts),
            allowed="all GPUs of a node split, or none",
            fix="split every GPU of these nodes, or keep unsplit GPUs in another fleet",
            path="mig",
        )


def _detected(mig: MigPlan, whole: str) -> list[tuple[str, str]]:
    """The kinds of device by the names that NVML's plugin gives them, each with the type that it is meant to have."""
    name = mig.gpu.model.lower().replace(" ", "_")
    slices = {f"{name.partition('-')[0]}_{one}": one for one in _slice_types(mig)}
    return [(name, whole), *slices.items()]


def _matched(detected: Iterable[tuple[str, str]], types: Iterable[str]) -> Mapping[str, str | None]:
    """The type that Slurm gives each kind of device, longest type first. Counts do not matter as long as all match."""
    longest_first = sorted(types, key=lambda one: (-len(one), one))
    return {name: next((one for one in longest_first if one in name), None) for name, _ in detected}


def _unknown_files(mig: MigPlan, ids: Sequence[Sequence[int]] | None) -> Iterator[Finding]:
    wanted = [len(gpu.placements) for gpu in mig.gpus]
    given = [] if ids is None else [len(own) for own in ids]
    known = all(0 <= one < _GPU_INSTANCES for own in ids or () for one in own)
    distinct = all(len(set(own)) == len(own) for own in ids or ())
    if given == wanted and known and distinct:
        return
    yield UNKNOWN_FILES.finding(
        cause="the device files of the slices follow from ids that the driver chooses when it makes them",
        got="no ids of GPU instances" if ids is None else f"ids {[list(own) for own in ids]}",
        allowed=f"as many different ids from 0 to {_GPU_INSTANCES - 1} as each GPU has slices: {wanted}",
        fix="let slurmd detect the slices (GresMode.AUTODETECT), or give the ids that nvidia-smi mig -lgi shows",
        path="gpu_instance_ids",
    )


# `Gres` as people write it, against what the node has.

_COUNT = re.compile(r"(\d+)([KMGTP]?)", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}


@dataclass(frozen=True, slots=True, kw_only=True)
class GresEntry:
    """One resource of a `Gres` setting.

    Attributes:
        name: Such as `gpu`.
        type: Such as `1g.5gb`; empty where none is named.
        count: How many there are; 1 where none is named.
    """

    name: str
    type: str
    count: int


def gres_entries(text: str) -> tuple[GresEntry, ...]:
    """The resources of a `Gres` setting.

    Raises:
        ConfigError: GPU-GRES-005, for every entry that has no such form.

    Example:
        >>> gres_entries("gpu:3g.20gb:8,gpu:1g.5gb:16")[1]
        GresEntry(name='gpu', type='1g.5gb', count=16)
    """
    raise_for(check_gres_form(text))
    return tuple(one for part in _parts(text) if (one := _entry(part)) is not None)


@check
def check_gres_form(text: str) -> Iterator[Finding]:
    """Find entries of a `Gres` setting that Slurm cannot read."""
    for part in _parts(text) or [""]:
        if _entry(part) is None:
            yield GRES_FORM.finding(
                cause="Slurm cannot read this resource",
                got=part or "nothing",
                allowed="name, type and count, separated by colons, such as gpu:1g.5gb:56",
                fix="write each resource like gpu:1g.5gb:56",
                path="Gres",
            )


@check
def check_gres(text: str, kind: InstanceType, mig: MigPlan | None) -> Iterator[Finding]:
    """Find a `Gres` setting, written by hand, that declares something else than a node has.

    Args:
        text: The setting.
        kind: Type of the node.
        mig: How its GPUs are split; None if they are not split.
    """
    if faults := check_gres_form(text):
        yield from faults
        return
    present = gres_counts(kind, mig)
    allowed = ",".join(f"gpu:{name}:{count}" for name, count in present.items()) or "no gpu"
    for one in gres_entries(text):
        if one.name.lower() != "gpu":
            continue
        there = _count_of(one, present, is_split=mig is not None)
        if one.count > there:
            yield DIFFERENT_LAYOUT.finding(
                cause=f"a node has {there} of this resource, and Slurm drains a node that reports fewer than declared",
                got=f"gpu:{one.type}:{one.count}" if one.type else f"gpu:{one.count}",
                allowed=allowed,
                fix=f"Gres={allowed}" if present else "leave gpu out of Gres",
                path="Gres",
            )


def _count_of(one: GresEntry, present: Mapping[str, int], *, is_split: bool) -> int:
    """How many GPUs or slices of a node an entry can mean."""
    if not one.type:
        return sum(present.values())
    if is_split:
        return sum(count for name, count in present.items() if is_type_of_split_node(one.type, name))
    return sum(count for name, count in present.items() if name in one.type.lower())  # such as nvidia_h100_80gb_hbm3


def is_type_of_split_node(text: str, name: str) -> bool:
    """Whether a type in Slurm's settings or accounting means this type of a node with MIG slices.

    Example:
        >>> is_type_of_split_node("a100_1g.5gb", "1g.5gb"), is_type_of_split_node("a100", "1g.5gb")
        (True, False)
    """
    return f"_{text.lower()}".endswith(f"_{name}")  # a100_1g.5gb is a part of the name that NVML's plugin gives, too


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _entry(part: str) -> GresEntry | None:
    """An entry of the form `name[:type][:no_consume][:count]`, None if it has another one."""
    name, *rest = part.split(":")
    count = _COUNT.fullmatch(rest[-1]) if rest else None
    words = [one for one in (rest[:-1] if count else rest) if one != "no_consume"]
    if len(words) > 1 or not all(map(_WORD.fullmatch, (name, *words))):
        return None
    number = 1 if count is None else int(count[1]) * _UNITS[count[2].upper()]
    return GresEntry(name=name, type="".join(words), count=number)
