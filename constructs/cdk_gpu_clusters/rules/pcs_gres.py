"""GRES of an AWS PCS compute node group: what PCS checks itself, and what a node with GPUs or MIG needs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from cdk_gpu_clusters.catalogue.pcs import feature_since, gres_attributes
from cdk_gpu_clusters.errors import Finding, check, define_rule
from cdk_gpu_clusters.rules.gres import check_gres_form, gres_entries
from cdk_gpu_clusters.rules.mig import MigPlan
from cdk_gpu_clusters.rules.pcs_versions import check_feature, is_before

_GUIDE = "AWS PCS user guide"

GRES_AGREEMENT = define_rule(
    "GPU-PCS-030",
    "every resource of Gres has records in GresCustomSettings that declare as many of its type",
    source=f'{_GUIDE}, "Configuring custom GRES settings in AWS PCS", Constraints between gres.conf and Gres',
)
GRES_RECORD = define_rule(
    "GPU-PCS-031",
    "GresCustomSettings has at most one record of GPUs, and attributes that PCS takes",
    source=f'{_GUIDE}, "Configuring custom GRES settings in AWS PCS"',
)
DECLARED_MIG = define_rule(
    "GPU-PCS-032",
    "a PCS node group with MIG detects its slices, and declares them in Gres",
    source=f'{_GUIDE}, "Configuring Multi-Instance GPU (MIG) in AWS PCS"',
)
SOCKETS = define_rule(
    "GPU-PCS-033",
    "autodetected GPUs and l3cache_as_socket have the sockets of the node",
    source=f'{_GUIDE}, "Configuring hardware topology in AWS PCS"',
)

_DEVICES = re.compile(r"\[([^\]]*)\]")
#: GRES that several jobs share: PCS does not compare their counts.
_SHARED_GRES = ("mps", "shard")


@check
def check_gres_records(records: Sequence[Mapping[str, str]], *, slurm_version: str | None) -> Iterator[Finding]:
    """Find records of `gres.conf` that PCS refuses.

    Args:
        records: The records, each without `NodeName`.
        slurm_version: Version of Slurm; None if it is not known.
    """
    gpus = [one for one in records if _is_gpu_record(one)]
    if len(gpus) > 1:
        yield GRES_RECORD.finding(
            cause="PCS takes one record of GPUs for a node group: one with Name=gpu or AutoDetect",
            got=f"{len(gpus)} of them",
            allowed="1; for MIG slices the one record AutoDetect=nvml",
            fix='GresCustomSettings: [{"AutoDetect": "nvml"}], and the slices in Gres',
            path="GresCustomSettings",
        )
    for index, one in enumerate(records):
        path = f"GresCustomSettings.{index}"
        for attribute in one:
            if attribute not in gres_attributes():
                yield GRES_RECORD.finding(
                    cause="PCS adds NodeName itself" if attribute == "NodeName" else "PCS takes no such attribute",
                    got=attribute,
                    allowed=", ".join(gres_attributes()),
                    path=path,
                )
        if "AutoDetect" in one:
            yield from check_feature("gres_autodetect", slurm_version, path=path)
        yield from _record_form(one, path)


def _record_form(one: Mapping[str, str], path: str) -> Iterator[Finding]:
    detects = _detects(one)
    files = [name for name in ("File", "MultipleFiles") if name in one]
    if "Name" not in one and not detects:
        cause, allowed = "a record has a name, or a mechanism of detection", "Name, or AutoDetect other than off"
    elif one.get("Name") == "gpu" and not files and not detects:
        cause, allowed = "a record of GPUs names their device files", "File or MultipleFiles, or AutoDetect"
    elif len(files) > 1:
        cause, allowed = "File and MultipleFiles exclude each other", "one of them"
    else:
        return
    yield GRES_RECORD.finding(cause=cause, got=_shown(one), allowed=allowed, path=path)


@check
def check_gres_agreement(gres: str, records: Sequence[Mapping[str, str]]) -> Iterator[Finding]:
    """Find resources of `Gres` that the records of `gres.conf` do not declare.

    Args:
        gres: The `Gres` setting of the node group.
        records: The records, each without `NodeName`.
    """
    if faults := check_gres_form(gres):
        yield from faults
        return
    for name, counts in _by_name(gres).items():
        own = [one for one in records if one.get("Name") == name or (name == "gpu" and _is_gpu_record(one))]
        if not own:
            yield GRES_AGREEMENT.finding(
                cause=f"PCS refuses {name} in Gres without a record of it",
                got=f"{name} in Gres alone",
                allowed=", ".join(sorted({one["Name"] for one in records if "Name" in one})) or "a record for it",
                fix="add the record" if name != "gpu" else 'add {"AutoDetect": "nvml"}, or a record with File',
                path="GresCustomSettings",
            )
        elif name not in _SHARED_GRES and not any(_detects(one) for one in own):
            yield from _too_few(name, counts, own)


def _by_name(gres: str) -> Mapping[str, Counter[str]]:
    """The counts of `Gres` by name and type."""
    found: dict[str, Counter[str]] = {}
    for one in gres_entries(gres):
        found.setdefault(one.name, Counter())[one.type] += one.count
    return found


def _too_few(name: str, counts: Counter[str], records: Sequence[Mapping[str, str]]) -> Iterator[Finding]:
    declared = sum(map(_record_count, records))
    if counts.total() > declared:
        yield GRES_AGREEMENT.finding(
            cause="PCS refuses a Gres setting of more than the records declare",
            got=f"{counts.total()} of {name}",
            allowed=f"at most {declared}",
            path="Gres",
        )
    types = {one["Type"] for one in records if "Type" in one}
    for other in [one for one in counts if one and types and name == "gpu" and one not in types]:
        yield GRES_AGREEMENT.finding(
            cause="PCS refuses a type of GPU that is not that of the record",
            got=f"gpu:{other}",
            allowed=", ".join(f"gpu:{one}" for one in sorted(types)),
            path="Gres",
        )


def _record_count(one: Mapping[str, str]) -> int:
    """How many resources a record declares: its count, else its files, else one."""
    count = one.get("Count", "")
    if count.isdecimal():
        return int(count)
    if "MultipleFiles" in one or "File" not in one:
        return 1
    return sum(map(_files_in, re.split(r",(?![^\[]*\])", one["File"])))


def _files_in(file: str) -> int:
    """How many device files a host list such as `/dev/nvidia[0-3,5]` names."""
    found = _DEVICES.search(file)
    if found is None:
        return 1
    ends = [[int(end) for end in part.split("-") if end.isdecimal()] for part in found[1].split(",")]
    return sum(end[-1] - end[0] + 1 for end in ends if end)


def _is_gpu_record(one: Mapping[str, str]) -> bool:
    return one.get("Name") == "gpu" or "AutoDetect" in one


def _detects(one: Mapping[str, str]) -> bool:
    return one.get("AutoDetect", "off").lower() != "off"


def _shown(one: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in one.items())


@check
def check_declared_mig(mig: MigPlan, gres: str | None, records: Sequence[Mapping[str, str]]) -> Iterator[Finding]:
    """Find MIG slices that jobs cannot request.

    Args:
        mig: How the GPUs of the nodes are split.
        gres: The `Gres` setting of the node group; None if there is none.
        records: Its records of `gres.conf`, each without `NodeName`.
    """
    slices = Counter(profile.name for gpu in mig.gpus for profile in gpu.profiles)
    declared = ",".join(f"gpu:{name}:{count}" for name, count in slices.items())
    missing = []
    if gres is None or not any(_parts_of(gres, "gpu")):
        missing.append("Gres of the slices")
    if not any(map(_detects, records)):
        missing.append("a record with AutoDetect=nvml: the files of slices are known on the node only")
    if missing:
        yield DECLARED_MIG.finding(
            cause="Slurm does not know the slices of the nodes, and no job gets one",
            got=f"no {', and no '.join(missing)}",
            allowed=f'Gres={declared} and GresCustomSettings [{{"AutoDetect": "nvml"}}]',
            fix="set both in the Slurm configuration of the node group",
            path="GresCustomSettings",
        )


def _parts_of(gres: str, name: str) -> list[str]:
    return [part for part in gres.split(",") if part.partition(":")[0].strip() == name]


@check
def check_sockets(
    settings: Mapping[str, str], records: Sequence[Mapping[str, str]], *, slurm_version: str | None
) -> Iterator[Finding]:
    """Find settings that need the number of sockets of the node, which PCS sets by itself from Slurm 26.05 on.

    Args:
        settings: Custom settings of the node group.
        records: Its records of `gres.conf`.
        slurm_version: Version of Slurm; None if it is not known.
    """
    if "Sockets" in settings:
        return
    if settings.get("Parameters", "").lower() == "l3cache_as_socket":
        cause, got = "PCS cannot know how many L3 caches a node has", "Parameters=l3cache_as_socket"
        fix = "set Sockets, too, or leave Parameters out"
    elif (
        any(map(_detects, records))
        and slurm_version is not None
        and not is_before(slurm_version, feature_since("gres_autodetect"))
        and is_before(slurm_version, feature_since("default_topology"))
    ):
        cause = "autodetected GPUs do not fit a node of one core per socket, and Slurm drains it (INVALID_REG)"
        got = f"AutoDetect with Slurm {slurm_version}"
        fix = f'set Sockets in the settings of the node group, or slurm_version="{feature_since("default_topology")}"'
    else:
        return
    yield SOCKETS.finding(
        cause=cause,
        got=f"{got}, without Sockets",
        allowed="Sockets: the number of NUMA nodes or L3 caches of the node; it divides the number of cores",
        fix=fix,
        path="Sockets",
    )
