"""MIG on one node: the layouts a user gives, where they fit on a GPU, the plan, and how Kubernetes sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from types import MappingProxyType

from cdk_gpu_clusters.catalogue import AcceleratorKind, InstanceType, instance_types
from cdk_gpu_clusters.catalogue import instance_type as look_up
from cdk_gpu_clusters.catalogue.images import ImageParameter
from cdk_gpu_clusters.catalogue.mig import MigEvidence, MigGpu, MigProfile, mig_gpu_of
from cdk_gpu_clusters.errors import Finding, Severity, check, define_rule, raise_for
from cdk_gpu_clusters.rules.images import version_of

#: The word for a GPU that is not split, in a layout and in MIG_PARTITION.
OFF = "off"


@dataclass(frozen=True, slots=True)
class MigLayout:
    """The GPU instances of one GPU.

    Attributes:
        profiles: Profile names or ids, in any order: a sequence, or the text of `MIG_PARTITION` for one GPU. The word
            `off` alone leaves the GPU unsplit.

    Example:
        >>> MigLayout(["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"])
        MigLayout(profiles=('3g.40gb', '2g.20gb', '1g.10gb', '1g.10gb'))
        >>> MigLayout("9,14,19,19").profiles
        ('9', '14', '19', '19')
        >>> MigLayout.whole_gpu().is_whole_gpu
        True
    """

    profiles: Sequence[str | int]

    def __post_init__(self) -> None:
        given = self.profiles.split(",") if isinstance(self.profiles, str) else self.profiles
        object.__setattr__(self, "profiles", tuple(str(profile).strip() for profile in given))

    @classmethod
    def from_text(cls, text: str) -> MigLayout:
        """The layout of a text as in a cluster file, such as `3g.20gb,2g.10gb`.

        Args:
            text: Profiles, separated by commas.
        """
        return cls(text)

    @classmethod
    def whole_gpu(cls) -> MigLayout:
        """The layout of a GPU that is not split, beside others that are."""
        return cls([OFF])

    @property
    def is_whole_gpu(self) -> bool:
        """Whether the GPU is left unsplit."""
        return self.profiles == (OFF,)

    def __str__(self) -> str:
        return " + ".join(str(profile) for profile in self.profiles)


# Where the GPU instances of a layout can lie on a GPU: proven by search, not by sums.
#
# Source: NVIDIA MIG User Guide, partitioning; the catalogue's placements. 3g + 3g + 1g needs no more compute slices
# than a GPU has, and still does not fit; sums over one axis are not enough.

ALL_MEDIA = "+me.all"
MEDIA_EXTENSIONS = "+me"
NO_MEDIA = "-me"


def creation_order(profiles: Sequence[MigProfile]) -> tuple[MigProfile, ...]:
    """The order to create instances in: by descending compute slices, then memory slices, then id.

    A small instance that is created first can block every start of a larger one (NVIDIA MIG User Guide, which names
    3-2-1-1 as such a case).
    """
    return tuple(sorted(profiles, key=lambda p: (-p.compute_slices, -p.memory_slices, -p.id)))


def place(gpu: MigGpu, profiles: Sequence[MigProfile]) -> tuple[int, ...] | None:
    """Starts at which the instances lie side by side, in the order of `profiles`; None if there are none.

    Media engines are another matter: see `media_conflict`.

    Args:
        gpu: The GPU.
        profiles: One per instance, in `creation_order`, so that the search fails early.
    """
    if sum(profile.compute_slices for profile in profiles) > gpu.compute_slices:
        return None
    return _search(tuple((profile.starts, profile.memory_slices) for profile in profiles), 0)


def media_conflict(profiles: Sequence[MigProfile]) -> str | None:
    """Why the profiles cannot share the media engines of a GPU, None if they can."""
    extended = [profile.name for profile in profiles if MEDIA_EXTENSIONS in profile.attributes]
    if len(extended) > 1:
        return f"only one instance of a GPU can have the media extensions, not {len(extended)}"
    greedy = [profile.name for profile in profiles if ALL_MEDIA in profile.attributes]
    bearing = [profile.name for profile in profiles if NO_MEDIA not in profile.attributes]
    if greedy and len(bearing) > 1:
        bearing.remove(greedy[0])
        return f"{greedy[0]} takes every media engine, so that {bearing[0]} beside it gets none"
    return None


def fits(gpu: MigGpu, profiles: Sequence[MigProfile]) -> bool:
    """Whether the profiles can be on one GPU together."""
    return media_conflict(profiles) is None and place(gpu, creation_order(profiles)) is not None


def nearest_fit(gpu: MigGpu, profiles: Sequence[MigProfile]) -> tuple[tuple[MigProfile, ...], Counter[MigProfile]]:
    """A layout that fits and is near to one that does not, and what was dropped for it.

    As much of the request as possible is kept, then the remaining room is filled with the largest plain profiles.
    """
    kept = max(_fitting_parts(gpu, Counter(profiles)), key=lambda part: (len(part), _fill_of(gpu, part)))
    return _filled(gpu, kept), Counter(profiles) - Counter(kept)


def _fill_of(gpu: MigGpu, part: Sequence[MigProfile]) -> tuple[int, int]:
    filled = _filled(gpu, part)
    return sum(p.compute_slices for p in filled), sum(p.memory_slices for p in filled)


def _filled(gpu: MigGpu, part: Sequence[MigProfile]) -> tuple[MigProfile, ...]:
    filled = tuple(part)
    plain = creation_order([profile for profile in gpu.profiles.values() if not profile.attributes])
    # Of two plain profiles with the same compute slices, the one with less memory leaves less of the GPU idle.
    frugal = {profile.compute_slices: profile for profile in plain}
    for profile in frugal.values():
        while fits(gpu, (*filled, profile)):
            filled = (*filled, profile)
    return creation_order(filled)


def _fitting_parts(gpu: MigGpu, requested: Counter[MigProfile]) -> Iterator[tuple[MigProfile, ...]]:
    """Every part of the request that fits, the empty one included."""
    kinds = creation_order(list(requested))

    def extend(part: tuple[MigProfile, ...], index: int) -> Iterator[tuple[MigProfile, ...]]:
        if index == len(kinds):
            yield part
            return
        for _ in range(requested[kinds[index]] + 1):
            if not fits(gpu, part):  # nor would anything larger
                return
            yield from extend(part, index + 1)
            part = (*part, kinds[index])

    return extend((), 0)


@cache
def _search(shapes: tuple[tuple[tuple[int, ...], int], ...], taken: int) -> tuple[int, ...] | None:
    """Backtracking over the starts of each shape; `taken` has a bit for each slice in use."""
    if not shapes:
        return ()
    (starts, size), *rest = shapes
    for start in starts:
        mask = ((1 << size) - 1) << start
        if taken & mask:
            continue
        found = _search(tuple(rest), taken | mask)
        if found is not None:
            return (start, *found)
    return None


_GUIDE = "NVIDIA MIG User Guide, editions 580 to 620 (2026-10)"

NOT_CAPABLE = define_rule("GPU-MIG-001", "the GPU of the type supports MIG", source=f"{_GUIDE}, supported GPUs")
UNKNOWN_PROFILE = define_rule("GPU-MIG-002", "the GPU has the profile", source=f"{_GUIDE}, supported MIG profiles")
DOES_NOT_FIT = define_rule("GPU-MIG-003", "the profiles of a layout fit side by side", source=f"{_GUIDE}, partitioning")
LAYOUT_COUNT = define_rule(
    "GPU-MIG-004", "there is one layout for all GPUs of a node, or one for each", source="design"
)
MEDIA_ENGINES = define_rule(
    "GPU-MIG-005",
    "one instance of a GPU has the media extensions, or every media engine",
    source=f"{_GUIDE}, profiles with the attributes +me and +me.all",
)
WITH_EFA = define_rule(
    "GPU-MIG-006",
    "a fleet whose GPUs are split has no EFA",
    source=f"{_GUIDE}; NVIDIA Fabric Manager user guide, interoperability with MIG",
)
INFERRED = define_rule(
    "GPU-MIG-007",
    "names, ids and placements of the profiles were read on the GPU",
    source="the catalogue's MIG profiles",
)
NOTHING_SPLIT = define_rule("GPU-MIG-008", "a layout names profiles, and at least one GPU is split", source="design")


def check_mig(instance_type: InstanceType | str, layouts: MigLayout | Sequence[MigLayout]) -> list[Finding]:
    """Find what is wrong with splitting the GPUs of a type.

    Args:
        instance_type: The type of the node.
        layouts: One layout for all GPUs, or one for each in the order of `nvidia-smi -L`.

    Returns:
        GPU-MIG-001 to -005 and -008; GPU-MIG-007 as advice where facts about the GPU are inferred.

    Raises:
        ConfigError: If the name of the type is not known.

    Example:
        >>> [finding.id for finding in check_mig("p4d.24xlarge", MigLayout(["3g.20gb"] * 3))]
        ['GPU-MIG-003']
    """
    record = look_up(instance_type) if isinstance(instance_type, str) else instance_type
    gpu = mig_gpu_of(record)
    if gpu is None or not gpu.profiles:
        return [_not_capable(record, gpu)]
    given = [layouts] if isinstance(layouts, MigLayout) else list(layouts)
    one_for_all = isinstance(layouts, MigLayout)
    return _check_layouts(record, gpu, given, one_for_all=one_for_all) or _advice(gpu)


@check
def check_layout(gpu: MigGpu, layout: MigLayout) -> Iterator[Finding]:
    """Find what is wrong with the layout of one GPU."""
    if layout.is_whole_gpu:
        return
    names = [str(name) for name in layout.profiles]
    if not any(names) or OFF in names:
        yield _nothing_split(repr(",".join(names)))
        return
    found = [gpu.profile(name) for name in names]
    unknown = dict.fromkeys(name for name, profile in zip(names, found, strict=True) if profile is None)
    if unknown:
        yield from (_unknown(gpu, name) for name in unknown)
        return
    profiles = [profile for profile in found if profile is not None]
    conflict = media_conflict(profiles)
    if conflict is not None:
        yield MEDIA_ENGINES.finding(
            cause=conflict,
            got=layout_text(creation_order(profiles)),
            allowed="one +me instance per GPU; beside +me.all only instances with -me",
            fix=f"use {layout_text(nearest_fit(gpu, profiles)[0])}",
        )
    elif place(gpu, creation_order(profiles)) is None:
        yield _does_not_fit(gpu, profiles)


@check
def check_mig_with_efa(
    instance_type: InstanceType | str, layouts: MigLayout | Sequence[MigLayout] | None, *, efa: bool
) -> Iterator[Finding]:
    """Find a fleet that is split with MIG and yet set up for training over EFA."""
    if layouts is None or not efa:
        return
    name = instance_type if isinstance(instance_type, str) else instance_type.name
    yield WITH_EFA.finding(
        cause="MIG and EFA do not go together: a process can use one MIG instance only, and a split GPU has no "
        "NVLink peer-to-peer, so that collectives over a fabric would have nothing to run between",
        got=f"{name} with mig and EFA",
        allowed="mig with efa=False, or EFA with GPUs that are not split",
        fix="pass efa=False if the nodes serve or share GPUs; leave mig out if they train together",
        path="mig",
    )


@check
def _check_layouts(
    record: InstanceType, gpu: MigGpu, given: list[MigLayout], *, one_for_all: bool
) -> Iterator[Finding]:
    count = record.accelerator.count if record.accelerator else 0
    if len(given) not in (1, count):
        yield LAYOUT_COUNT.finding(
            cause=f"too {'many' if len(given) > count else 'few'} layouts for the {count} GPUs of a {record.name}",
            got=f"{len(given)} layouts",
            allowed="1" if count == 1 else f"1 for all GPUs, or {count}",
            fix="give one MigLayout, or exactly one per GPU; MigLayout.whole_gpu() leaves a GPU unsplit",
            path="mig",
        )
    if given and all(layout.is_whole_gpu for layout in given):
        yield _nothing_split(f"{OFF} for every GPU")
    for index, layout in enumerate(given):
        for finding in check_layout(gpu, layout):
            yield finding.at("mig" if one_for_all else f"mig[{index}]")


def _not_capable(record: InstanceType, gpu: MigGpu | None) -> Finding:
    if gpu is not None:
        cause = f"{gpu.model} supports MIG, but its profiles are not known yet"
    elif record.accelerator is None:
        cause = f"{record.name} has no GPU"
    else:
        cause = f"{record.accelerator.manufacturer} {record.accelerator.name} cannot be split with MIG"
    families = dict.fromkeys(
        other.family
        for other in instance_types().values()
        if (capable := mig_gpu_of(other)) is not None and capable.profiles
    )
    return NOT_CAPABLE.finding(
        cause=cause,
        got=record.name,
        allowed=f"types of {', '.join(families)}",
        fix="choose such a type, or leave mig out",
        path="mig",
    )


def _unknown(gpu: MigGpu, name: str) -> Finding:
    near = get_close_matches(name.lower(), list(gpu.profiles), n=3)
    listed = ", ".join(f"{profile.name} ({profile.id})" for profile in gpu.profiles.values())
    return UNKNOWN_PROFILE.finding(
        cause=f"{article(gpu.key)} has no such profile",
        got=repr(name),
        allowed=listed,
        fix=f"use {' or '.join(near)}" if near else "use a name or an id of this GPU; they differ between GPUs",
    )


def _does_not_fit(gpu: MigGpu, profiles: list[MigProfile]) -> Finding:
    requested = layout_text(creation_order(profiles))
    reason = _why_not(gpu, profiles)
    instead, dropped = nearest_fit(gpu, profiles)
    drops = " and ".join(
        f"{'one' if count == 1 else f'{count} of the'} {profile.name}" for profile, count in dropped.items()
    )
    return DOES_NOT_FIT.finding(
        cause=f"{requested} does not fit {article(gpu.key)}: {reason}",
        fix=f"use {layout_text(instead)}, or drop {drops}",
    )


def _why_not(gpu: MigGpu, profiles: list[MigProfile]) -> str:
    memory = sum(profile.memory_slices for profile in profiles)
    compute = sum(profile.compute_slices for profile in profiles)
    if memory > gpu.memory_slices:
        return f"it needs {memory} memory slices of {gpu.memory_slices}"
    if compute > gpu.compute_slices:
        return f"it needs {compute} compute slices of {gpu.compute_slices}"
    for profile, count in Counter(profiles).items():
        if count > profile.max_instances:
            return f"at most {profile.max_instances} of {profile.name} fit"
    return "the starts that the profiles may have leave no room side by side"


def _nothing_split(got: str) -> Finding:
    return NOTHING_SPLIT.finding(
        cause="the layout splits nothing",
        got=got,
        allowed=f"profiles of the GPU; or {OFF}, alone, for some of the GPUs",
        fix="name the profiles, or leave mig out",
    )


@check
def _advice(gpu: MigGpu) -> Iterator[Finding]:
    doubts = {"names": gpu.names, "ids": gpu.ids, "placements": gpu.placements}
    if set(doubts.values()) == {MigEvidence.VERIFIED}:
        return
    told = ", ".join(f"{what} {evidence.value}" for what, evidence in doubts.items())
    yield INFERRED.finding(
        cause=f"profiles of {gpu.key}: {told}. {' '.join(gpu.notes).rstrip('.')}",
        fix="try the layout on one node; nodes read it back and fail their boot if it differs",
        path="mig",
        severity=Severity.INFO if gpu.names is MigEvidence.VERIFIED else Severity.WARNING,
    )


def layout_text(profiles: Sequence[MigProfile]) -> str:
    """The profiles as people write them, such as `3g.20gb + 1g.5gb` and `7 x 1g.5gb`."""
    return " + ".join(
        " + ".join([profile.name] * count) if count <= 3 else f"{count} x {profile.name}"
        for profile, count in Counter(profiles).items()
    )


def article(key: str) -> str:
    """The GPU with its article, such as `an A100-40GB` and `a B200`."""
    return f"{'an' if key[0] in 'AHR' else 'a'} {key}"


# The MIG plan of a node: which instances each GPU gets, and what follows from them.
#
# Source: NVIDIA MIG User Guide, editions 580 to 620; NVIDIA/mig-parted v0.15.0.

__all__ = [
    "MigGpuPlan",
    "MigLayout",
    "MigPlacement",
    "MigPlan",
    "check_mig",
    "check_mig_with_efa",
    "plan_mig",
]

#: What NVIDIA's Kubernetes device plugin calls a whole GPU.
WHOLE_GPU_RESOURCE = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class MigPlacement:
    """An instance at a place that it can have; the driver may choose another one.

    Attributes:
        profile: Profile of the instance.
        start: First memory slice.
        size: Number of memory slices.
    """

    profile: MigProfile
    start: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MigGpuPlan:
    """One GPU of the node.

    Attributes:
        index: Index of the GPU, from 0, as in `nvidia-smi -L`.
        placements: Its instances in the order of creation, at places that prove that they fit; empty if not split.
        partition: `MIG_PARTITION` text of this GPU, such as `3g.20gb,2g.10gb,1g.5gb,1g.5gb`, or `off`.
    """

    index: int
    placements: tuple[MigPlacement, ...]
    partition: str

    @property
    def profiles(self) -> tuple[MigProfile, ...]:
        """The profiles in the order of creation."""
        return tuple(placement.profile for placement in self.placements)


@dataclass(frozen=True, slots=True, kw_only=True)
class MigPlan:
    """How the GPUs of a node are split.

    Attributes:
        instance_type: Type of the node.
        gpu: MIG side of its GPUs.
        gpus: Each GPU, in index order.
        partition: `MIG_PARTITION` text of the node: one layout if all GPUs have the same, else one per GPU, separated
            by semicolons.
        slices_per_node: MIG instances of the node.
        resources: What Kubernetes sees on a node with the device plugin's strategy "mixed": name and number. Names of
            the pattern are unverified, and disputed on a GPU with disputed profile names.
        minimum_driver: First driver release that makes this layout.
        findings: Advice; never errors.
    """

    instance_type: str
    gpu: MigGpu
    gpus: tuple[MigGpuPlan, ...]
    partition: str
    slices_per_node: int
    resources: Mapping[str, int]
    minimum_driver: str
    findings: tuple[Finding, ...]

    @property
    def placements_inferred(self) -> bool:
        """Whether no listing of this GPU's placements was found, so that those of its relatives are taken."""
        return self.gpu.placements is not MigEvidence.VERIFIED

    @property
    def whole_gpus_per_node(self) -> int:
        """GPUs of the node that are not split."""
        return sum(not gpu.placements for gpu in self.gpus)


def plan_mig(instance_type: InstanceType | str, layouts: MigLayout | Sequence[MigLayout]) -> MigPlan:
    """Plan how the GPUs of a node are split.

    Args:
        instance_type: The type of the node.
        layouts: One layout for all GPUs, or one for each in the order of `nvidia-smi -L`.

    Raises:
        ConfigError: GPU-MIG-001 to -005 and -008, all faults at once.

    Example:
        >>> plan = plan_mig("p4d.24xlarge", MigLayout(["1g.5gb"] * 7))
        >>> plan.slices_per_node, dict(plan.resources)
        (56, {'nvidia.com/mig-1g.5gb': 56})
    """
    record = look_up(instance_type) if isinstance(instance_type, str) else instance_type
    findings = check_mig(record, layouts)
    raise_for(findings)
    gpu, accelerator = mig_gpu_of(record), record.accelerator
    if gpu is None or accelerator is None:
        raise ValueError(f"{record.name} has no GPU to split, which check_mig should have reported")
    given = [layouts] if isinstance(layouts, MigLayout) else list(layouts)
    each = given * accelerator.count if len(given) == 1 else given
    gpus = tuple(_plan_gpu(gpu, index, layout) for index, layout in enumerate(each))
    partitions = [plan.partition for plan in gpus]
    names = Counter(profile.resource_name for plan in gpus for profile in plan.profiles)
    names[WHOLE_GPU_RESOURCE] = sum(not plan.placements for plan in gpus)
    return MigPlan(
        instance_type=record.name,
        gpu=gpu,
        gpus=gpus,
        partition=partitions[0] if len(set(partitions)) == 1 else ";".join(partitions),
        slices_per_node=sum(len(plan.placements) for plan in gpus),
        resources=MappingProxyType({name: count for name, count in sorted(names.items()) if count}),
        minimum_driver=minimum_driver(gpu, [[one.name for one in plan.profiles] for plan in gpus]),
        findings=tuple(findings),
    )


def _plan_gpu(gpu: MigGpu, index: int, layout: MigLayout) -> MigGpuPlan:
    if layout.is_whole_gpu:
        return MigGpuPlan(index=index, placements=(), partition=OFF)
    profiles = creation_order([found for name in layout.profiles if (found := gpu.profile(name))])
    starts = place(gpu, profiles)
    if starts is None:
        raise ValueError(f"{layout} does not fit {gpu.key}, which check_mig should have reported")
    return MigGpuPlan(
        index=index,
        placements=tuple(
            MigPlacement(profile=profile, start=start, size=profile.memory_slices)
            for profile, start in zip(profiles, starts, strict=True)
        ),
        # Where sources disagree on the names, the node resolves the ids.
        partition=",".join(
            profile.name if gpu.names is MigEvidence.VERIFIED else str(profile.id) for profile in profiles
        ),
    )


DRIVER = define_rule(
    "GPU-MIG-009",
    "the image's driver is at least the first release that makes the layout on the GPU",
    source="NVIDIA MIG User Guide, editions 580 to 620 (2026-10), supported GPUs; AWS Deep Learning AMI release notes",
)


def minimum_driver(gpu: MigGpu, layouts: Iterable[Iterable[str]]) -> str:
    """The first driver release that makes layouts on a GPU.

    Args:
        gpu: The GPU.
        layouts: Names of the profiles of each layout.

    Example:
        >>> from cdk_gpu_clusters.catalogue.mig import mig_gpus
        >>> minimum_driver(mig_gpus()["A100-40GB"], [["4g.20gb", "3g.20gb"]])
        '510'
    """
    requests = [set(layout) for layout in layouts]
    needs = [one.minimum_driver for one in gpu.combinations if any(one.profiles <= requested for requested in requests)]
    return max([gpu.minimum_driver, *needs], key=version_of)


@check
def check_mig_driver(model: str, needed: str, image: ImageParameter | None) -> Iterator[Finding]:
    """Find an image whose driver is too old for a layout, or is not known.

    A release note is a day's state, and images move on: an older driver is pointed out. The node itself refuses it.

    Args:
        model: The GPU, for people.
        needed: The first driver release that makes the layout.
        image: The image's row of the catalogue, None for an image of the user's own.
    """
    driver = None if image is None else image.versions.get("nvidia_driver")
    if driver is not None and version_of(driver) >= version_of(needed):
        return
    if image is None:
        cause = "it is not known which driver your own image has; nodes check it at boot"
        got, fix = "an image of your own", "look at nvidia-smi on a node of that image"
    elif driver is None:
        cause = "no release note with the driver of this image was read; nodes check it at boot"
        got, fix = (
            image.parameter,
            "try one node first, or use an image whose driver is known, such as al2023",
        )
    else:
        cause = f"the image's release note of {image.as_of} names a driver that is too old for this layout"
        got, fix = (
            driver,
            "choose another operating system, or check the image that the parameter gives today",
        )
    yield DRIVER.finding(
        cause=cause,
        got=got,
        allowed=f"driver {needed} or newer on {model}",
        fix=fix,
        path="mig",
        severity=Severity.INFO if driver is None else Severity.WARNING,
    )


# How NVIDIA's device plugin shows the GPUs of a node to Kubernetes, and under which names.
#
# Source: NVIDIA/k8s-device-plugin, README, "Configuration option details" (`MIG_STRATEGY`).

SINGLE_NEEDS_ONE_PROFILE = define_rule(
    "GPU-MIG-014",
    "strategy single shows slices of one profile, of which every GPU of the node has as many",
    source='NVIDIA/k8s-device-plugin, README, "MIG strategy": single',
)
NO_SLICES = define_rule(
    "GPU-MIG-015",
    "a node whose GPUs are split has a MIG strategy, and no other node has one",
    source='NVIDIA/k8s-device-plugin, README, "MIG strategy": none',
)

#: What the AWS Neuron device plugin calls a Neuron device.
NEURON_RESOURCE = "aws.amazon.com/neuron"


class MigStrategy(StrEnum):
    """What the device plugin does with MIG.

    Attributes:
        NONE: Unsplit GPUs, as `nvidia.com/gpu`.
        SINGLE: Every slice of the node as `nvidia.com/gpu`; they are all identical.
        MIXED: Every slice under its own name, such as `nvidia.com/mig-1g.5gb`; unsplit GPUs as `nvidia.com/gpu`.
    """

    NONE = "none"
    SINGLE = "single"
    MIXED = "mixed"


def choose_strategy(mig: MigPlan | None, requested: MigStrategy | None = None) -> MigStrategy:
    """The strategy of a node.

    Args:
        mig: How its GPUs are split; None if they are not split.
        requested: The requested strategy; None for mixed on split GPUs, so that no job takes a slice for a GPU.

    Raises:
        ConfigError: GPU-MIG-014 and -015.

    Example:
        >>> choose_strategy(None).value
        'none'
    """
    raise_for(check_strategy(mig, requested))
    if requested is not None:
        return requested
    return MigStrategy.NONE if mig is None else MigStrategy.MIXED


@check
def check_strategy(mig: MigPlan | None, requested: MigStrategy | None) -> Iterator[Finding]:
    """Find a strategy that does not fit how the GPUs are split."""
    if requested is None:
        return
    if (mig is None) != (requested is MigStrategy.NONE):
        yield NO_SLICES.finding(
            cause="the device plugin would show no GPU of these nodes as they are",
            got=f"strategy {requested.value}, with {'whole' if mig is None else 'split'} GPUs",
            allowed="none for unsplit GPUs; single or mixed for split ones",
            fix="leave the strategy out",
            path="mig_strategy",
        )
    elif mig is not None and requested is MigStrategy.SINGLE and not _is_uniform(mig):
        yield SINGLE_NEEDS_ONE_PROFILE.finding(
            cause="the slices of the node are not all identical",
            got=f"strategy single, with {mig.partition}",
            allowed="strategy mixed",
            fix="leave the strategy out, or give every GPU the same slices of one profile",
            path="mig_strategy",
        )


def node_resources(record: InstanceType, mig: MigPlan | None, strategy: MigStrategy | None = None) -> Mapping[str, int]:
    """What Kubernetes sees of the accelerators of a node: name and number.

    Args:
        record: Type of the node.
        mig: How its GPUs are split; None if they are not split.
        strategy: The strategy; the one that `choose_strategy` chooses if left out.

    Example:
        >>> from cdk_gpu_clusters.catalogue import instance_type
        >>> dict(node_resources(instance_type("p5.48xlarge"), None))
        {'nvidia.com/gpu': 8}
    """
    accelerator = record.accelerator
    if accelerator is None:
        return MappingProxyType({})
    count = accelerator.count or accelerator.logical_count
    if accelerator.kind is AcceleratorKind.NEURON:
        return MappingProxyType({NEURON_RESOURCE: count})
    chosen = choose_strategy(mig, strategy)
    if mig is None:
        return MappingProxyType({WHOLE_GPU_RESOURCE: count})
    if chosen is MigStrategy.SINGLE:
        return MappingProxyType({WHOLE_GPU_RESOURCE: mig.slices_per_node})
    return mig.resources


def _is_uniform(mig: MigPlan) -> bool:
    kinds = {profile.name for gpu in mig.gpus for profile in gpu.profiles}
    counts = {len(gpu.placements) for gpu in mig.gpus}
    return len(kinds) == 1 and len(counts) == 1
