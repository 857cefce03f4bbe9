"""What can be wrong with splitting the GPUs of a node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches

from cdk_gpu_clusters.catalogue import InstanceType, instance_types
from cdk_gpu_clusters.catalogue import instance_type as look_up
from cdk_gpu_clusters.catalogue.mig import MigEvidence, MigGpu, MigProfile, mig_gpu_of
from cdk_gpu_clusters.errors import Finding, Severity, define_rule
from cdk_gpu_clusters.rules.mig_layout import OFF, MigLayout
from cdk_gpu_clusters.rules.mig_placement import creation_order, media_conflict, nearest_fit, place

_GUIDE = "NVIDIA MIG User Guide, editions 580 to 620 (2026-10)"

NOT_CAPABLE = define_rule(
    "GPU-MIG-001", "the GPU of the type supports MIG", source=f"{_GUIDE}, supported GPUs"
)
UNKNOWN_PROFILE = define_rule(
    "GPU-MIG-002", "the GPU has the profile", source=f"{_GUIDE}, supported MIG profiles"
)
DOES_NOT_FIT = define_rule(
    "GPU-MIG-003", "the profiles of a layout fit side by side", source=f"{_GUIDE}, partitioning"
)
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
    "names, ids and placements of the profiles have been seen on the GPU",
    source="the catalogue's MIG profiles",
)
NOTHING_SPLIT = define_rule(
    "GPU-MIG-008", "a layout names profiles, and at least one GPU is split", source="design"
)


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
    findings = _check_count(record, given)
    if given and all(layout.is_whole_gpu for layout in given):
        findings.append(_nothing_split(f"{OFF} for every GPU"))
    one_for_all = isinstance(layouts, MigLayout)
    for index, layout in enumerate(given):
        path = "mig" if one_for_all else f"mig[{index}]"
        findings += [finding.at(path) for finding in check_layout(gpu, layout)]
    return findings or _advice(gpu)


def check_layout(gpu: MigGpu, layout: MigLayout) -> list[Finding]:
    """Find what is wrong with the layout of one GPU.

    Args:
        gpu: The GPU.
        layout: Its wished instances.
    """
    if layout.is_whole_gpu:
        return []
    names = [str(name) for name in layout.profiles]
    if not any(names) or OFF in names:
        return [_nothing_split(repr(",".join(names)))]
    found = [gpu.profile(name) for name in names]
    unknown = dict.fromkeys(name for name, profile in zip(names, found, strict=True) if profile is None)
    if unknown:
        return [_unknown(gpu, name) for name in unknown]
    profiles = [profile for profile in found if profile is not None]
    conflict = media_conflict(profiles)
    if conflict is not None:
        return [_media(gpu, profiles, conflict)]
    if place(gpu, creation_order(profiles)) is None:
        return [_does_not_fit(gpu, profiles)]
    return []


def check_mig_with_efa(
    instance_type: InstanceType | str, layouts: MigLayout | Sequence[MigLayout] | None, *, efa: bool
) -> list[Finding]:
    """Find a fleet that is split with MIG and yet set up for training over EFA.

    Args:
        instance_type: The type of the nodes.
        layouts: The layouts, None without MIG.
        efa: Whether the nodes have EFA interfaces.
    """
    if layouts is None or not efa:
        return []
    name = instance_type if isinstance(instance_type, str) else instance_type.name
    return [
        WITH_EFA.finding(
            cause="MIG and EFA do not go together: a process can use one MIG instance only, and a split GPU has no "
            "NVLink peer-to-peer, so that collectives over a fabric would have nothing to run between",
            got=f"{name} with mig and EFA",
            allowed="mig with efa=False, or EFA with whole GPUs",
            fix="pass efa=False if the nodes serve or share GPUs; leave mig out if they train together",
            path="mig",
        )
    ]


def _check_count(record: InstanceType, given: list[MigLayout]) -> list[Finding]:
    count = record.accelerator.count if record.accelerator else 0
    if len(given) in (1, count):
        return []
    kind = "too many" if len(given) > count else "too few"
    return [
        LAYOUT_COUNT.finding(
            cause=f"{kind} layouts for the {count} GPUs of a {record.name}",
            got=f"{len(given)} layouts",
            allowed="1" if count == 1 else f"1 for all GPUs, or {count}",
            fix="give one MigLayout, or exactly one per GPU; MigLayout.whole_gpu() leaves a GPU whole",
            path="mig",
        )
    ]


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
        fix=f"use {' or '.join(near)}"
        if near
        else "use a name or an id of this GPU; they differ between GPUs",
    )


def _does_not_fit(gpu: MigGpu, profiles: list[MigProfile]) -> Finding:
    wish = layout_text(creation_order(profiles))
    reason = _why_not(gpu, profiles)
    instead, dropped = nearest_fit(gpu, profiles)
    drops = " and ".join(
        f"{'one' if count == 1 else f'{count} of the'} {profile.name}" for profile, count in dropped.items()
    )
    return DOES_NOT_FIT.finding(
        cause=f"{wish} does not fit {article(gpu.key)}: {reason}",
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


def _media(gpu: MigGpu, profiles: list[MigProfile], conflict: str) -> Finding:
    instead, _ = nearest_fit(gpu, profiles)
    return MEDIA_ENGINES.finding(
        cause=conflict,
        got=layout_text(creation_order(profiles)),
        allowed="one +me instance per GPU; beside +me.all only instances with -me",
        fix=f"use {layout_text(instead)}",
    )


def _nothing_split(got: str) -> Finding:
    return NOTHING_SPLIT.finding(
        cause="the layout splits nothing",
        got=got,
        allowed=f"profiles of the GPU; or {OFF}, alone, for some of the GPUs",
        fix="name the profiles, or leave mig out",
    )


def _advice(gpu: MigGpu) -> list[Finding]:
    doubts = {"names": gpu.names, "ids": gpu.ids, "placements": gpu.placements}
    if set(doubts.values()) == {MigEvidence.VERIFIED}:
        return []
    told = ", ".join(f"{what} {evidence.value}" for what, evidence in doubts.items())
    return [
        INFERRED.finding(
            cause=f"profiles of {gpu.key}: {told}. {' '.join(gpu.notes).rstrip('.')}",
            fix="try the layout on one node; nodes read it back and fail their boot if it differs",
            path="mig",
            severity=Severity.INFO if gpu.names is MigEvidence.VERIFIED else Severity.WARNING,
        )
    ]


def layout_text(profiles: Sequence[MigProfile]) -> str:
    """The profiles as people write them, such as `3g.20gb + 1g.5gb` and `7 x 1g.5gb`."""
    return " + ".join(
        " + ".join([profile.name] * count) if count <= 3 else f"{count} x {profile.name}"
        for profile, count in Counter(profiles).items()
    )


def article(key: str) -> str:
    """The GPU with its article, such as `an A100-40GB` and `a B200`."""
    return f"{'an' if key[0] in 'AHR' else 'a'} {key}"
