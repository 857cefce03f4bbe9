"""What AWS PCS refuses in custom settings of Slurm and in records of gres.conf.

PCS takes the parameters of a list at each level, and refuses every other. Sources, stored copies of 2026: AWS PCS
user guide, "Custom Slurm settings for AWS PCS clusters", "... compute node groups" and "... queues" (the names, and
the versions that some need), "Configuring custom GRES settings in AWS PCS", "Slurm metrics in AWS PCS". That an empty
list is refused: awslabs/awsome-distributed-ai, PCS template of a cluster. Which values a parameter takes, and the
parameters of slurmdbd and cgroup, are not looked at.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from types import MappingProxyType

from ..faults import Fault
from ..world import Json

_PATH = "SlurmConfiguration/SlurmCustomSettings"
_GRES_PATH = "SlurmConfiguration/GresCustomSettings"
_LISTS = ("SlurmCustomSettings", "SlurmdbdCustomSettings", "CgroupCustomSettings", "GresCustomSettings")
_OF_CLUSTERS = """
    AccountingStorageEnforce AccountingStorageTRES AccountingStoreFlags AuthAltParameters CliFilterParameters
    CliFilterPlugins CommunicationParameters DefMemPerCPU Epilog EnforcePartLimits FairShareDampeningFactor
    FirstJobId HealthCheckInterval HealthCheckNodeState HealthCheckProgram JobRequeue LaunchParameters
    Licenses MetricsType MinJobAge OverTimeLimit PreemptExemptTime PreemptMode PreemptParameters PreemptType
    PriorityCalcPeriod PriorityDecayHalfLife PriorityFavorSmall PriorityFlags PriorityMaxAge
    PriorityUsageResetPeriod PriorityWeightAge PriorityWeightAssoc PriorityWeightFairshare
    PriorityWeightJobSize PriorityWeightPartition PriorityWeightQOS PriorityWeightTRES Prolog PrologFlags
    RequeueExit RequeueExitHold SchedulerParameters SelectTypeParameters SrunPortRange TaskEpilog
    TaskPluginParam TaskProlog TrackWCKey UnkillableStepProgram UnkillableStepTimeout
"""
_OF_GROUPS = """
    CpuSpecList Features Gres MemSpecLimit Parameters RealMemory Sockets Weight
"""
_OF_QUEUES = """
    AllowAccounts AllowQos Default DefaultTime DenyAccounts DenyQos ExclusiveUser GraceTime MaxTime
    OverSubscribe OverTimeLimit PowerDownOnIdle PreemptMode PriorityJobFactor PriorityTier QOS
    TRESBillingWeights
"""
_ALLOWED: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "cluster": frozenset(_OF_CLUSTERS.split()),
        "compute node group": frozenset(_OF_GROUPS.split()),
        "queue": frozenset(_OF_QUEUES.split()),
    }
)
#: The first version that takes a parameter; SelectTypeParameters for two of its values.
_SINCE = {"MetricsType": (25, 11), "Parameters": (25, 11), "Sockets": (25, 11)}
_SOCKET_VALUES, _SOCKETS_SINCE = {"CR_Socket", "CR_Socket_Memory"}, (25, 11)
_LEAST_JOB_AGE = 5
_GRES_ATTRIBUTES = frozenset(
    {"AutoDetect", "Name", "Type", "Count", "Cores", "Links", "Flags", "File", "MultipleFiles"}
)
_AUTO_DETECT_SINCE = (25, 11)
_SHARED = frozenset({"mps", "shard"})
_RANGE = re.compile(r"\[([^\]]*)\]")


def version_of(text: str) -> tuple[int, int]:
    """A version of Slurm, such as 25.11, in its order; (0, 0) for what is none."""
    year, _, month = text.partition(".")
    return (int(year), int(month)) if year.isdigit() and month.isdigit() else (0, 0)


def setting_faults(slurm: Json, level: str, version: str) -> Iterator[Fault]:
    """Faults of the custom settings of a cluster, a compute node group or a queue."""
    for name in _LISTS:
        if slurm.get(name) == []:
            message = f"{name} is empty: leave it out, or give at least one setting"
            yield Fault("pcs-empty-settings", message, f"SlurmConfiguration/{name}")
    given = slurm.get("SlurmCustomSettings", [])
    names = [one["ParameterName"] for one in given]
    allowed = {one.lower(): one for one in _ALLOWED[level]}
    for name in names:
        if name.lower() not in allowed:
            shown = ", ".join(sorted(_ALLOWED[level]))
            message = f"the Slurm setting {name} is not supported for a {level}; supported: {shown}"
            yield Fault("pcs-setting", message, _PATH)
    for name, count in Counter(map(str.lower, names)).items():
        if count > 1:
            yield Fault("pcs-setting-twice", f"the Slurm setting {name} is given {count} times", _PATH)
    for one in given:
        yield from _version_faults(one["ParameterName"], one["ParameterValue"], version)


def _version_faults(name: str, value: str, version: str) -> Iterator[Fault]:
    needed = _SINCE.get(name, (0, 0))
    if name == "SelectTypeParameters" and _SOCKET_VALUES & set(value.split(",")):
        needed = _SOCKETS_SINCE
    if version_of(version) < needed:
        message = f"{name}={value} needs Slurm {'.'.join(map(str, needed))} or later, and the cluster has {version}"
        yield Fault("pcs-setting-version", message, _PATH)
    if name == "MinJobAge" and value.isdigit() and int(value) < _LEAST_JOB_AGE:
        yield Fault("pcs-setting", f"MinJobAge is at least {_LEAST_JOB_AGE} seconds, got {value}", _PATH)


def gres_faults(slurm: Json, version: str) -> Iterator[Fault]:
    """Faults of gres.conf records, and of `Gres` against them."""
    records: list[Json] = slurm.get("GresCustomSettings", [])
    for record in records:
        yield from _record_faults(record, version)
    devices = [record for record in records if _is_gpu(record)]
    if len(devices) > 1:
        message = (
            f"at most one GPU record for a compute node group, got {len(devices)}: a GPU record specifies Name=gpu or "
            "AutoDetect"
        )
        yield Fault("pcs-gres-records", message, _GRES_PATH)
    for one in slurm.get("SlurmCustomSettings", []):
        if one["ParameterName"] == "Gres":
            for entry in one["ParameterValue"].split(","):
                yield from _entry_faults(entry.strip(), records)


def _is_gpu(record: Json) -> bool:
    return record.get("Name") == "gpu" or "AutoDetect" in record


def _detects(record: Json) -> bool:
    return str(record.get("AutoDetect", "off")).lower() != "off"


def _record_faults(record: Json, version: str) -> Iterator[Fault]:
    unknown = sorted(record.keys() - _GRES_ATTRIBUTES)
    if unknown:
        message = f"gres.conf takes {', '.join(sorted(_GRES_ATTRIBUTES))} here, got {', '.join(unknown)}"
        yield Fault("pcs-gres-record", message, _GRES_PATH)
    if "AutoDetect" in record and version_of(version) < _AUTO_DETECT_SINCE:
        message = f"AutoDetect needs Slurm 25.11 or later, and the cluster has {version}"
        yield Fault("pcs-setting-version", message, _GRES_PATH)
    if "Name" not in record and not _detects(record):
        message = "a record declares either a Name or an active AutoDetect value"
        yield Fault("pcs-gres-record", message, _GRES_PATH)
    if record.get("Name") == "gpu" and not _detects(record) and not record.keys() & {"File", "MultipleFiles"}:
        message = "a GPU record specifies File or MultipleFiles, unless an active AutoDetect value finds the devices"
        yield Fault("pcs-gres-record", message, _GRES_PATH)


def _entry_faults(entry: str, records: list[Json]) -> Iterator[Fault]:
    name, *rest = entry.split(":")
    count = rest[-1] if rest and rest[-1].isdigit() else "1"
    kind = ":".join(rest[:-1] if rest and rest[-1].isdigit() else rest)
    declared = [one for one in records if one.get("Name") == name or (name == "gpu" and _is_gpu(one))]
    if not declared:
        message = f"Gres names {name}, and no gres.conf record declares it in GresCustomSettings"
        yield Fault("pcs-gres", message, _PATH)
        return
    if any(_detects(one) for one in declared):
        return
    types = {one["Type"] for one in declared if "Type" in one}
    if name == "gpu" and kind and types and kind not in types:
        message = f"Gres has the GPU type {kind}, and the gres.conf record has {', '.join(sorted(types))}"
        yield Fault("pcs-gres", message, _PATH)
    most = sum(map(_device_count, declared))
    if name not in _SHARED and int(count) > most:
        message = f"Gres has {count} of {name}, and the gres.conf records declare {most}"
        yield Fault("pcs-gres", message, _PATH)


def _device_count(record: Json) -> int:
    """Devices of a record: its count, its files, or one device of several files."""
    if "Count" in record:
        return int(record["Count"]) if str(record["Count"]).isdigit() else 0
    if "MultipleFiles" in record:
        return 1
    return sum(prod(map(_range_size, _RANGE.findall(one))) for one in _files(record.get("File", "")))


def _files(text: str) -> Iterable[str]:
    """Entries of a list of files; a comma inside brackets belongs to a range."""
    return [one for one in re.split(r",(?![^\[]*\])", text) if one] or [""]


def _range_size(text: str) -> int:
    total = 0
    for part in text.split(","):
        first, _, last = part.partition("-")
        total += int(last or first) - int(first) + 1 if first.isdigit() and (last or first).isdigit() else 1
    return total
