"""AWS PCS: clusters, compute node groups and queues, with their Slurm settings, GRES and lifecycle scripts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.catalogue.pcs import (
    custom_settings,
    feature_since,
    gres_attributes,
    size_limits,
    slurm_versions,
    version_of_slurm,
)
from cdk_gpu_clusters.errors import Finding, Severity, check, define_rule
from cdk_gpu_clusters.rules.gres import check_gres, check_gres_form, gres_entries
from cdk_gpu_clusters.rules.mig import MigPlan
from cdk_gpu_clusters.rules.zones import read_zone

_API = "botocore 1.44.5, pcs service model"
_GUIDE = "AWS PCS user guide"

SIZE = define_rule(
    "GPU-PCS-016",
    "a PCS cluster of size SMALL, MEDIUM or LARGE has at most 32, 512 or 2048 nodes",
    source=f"{_API}: CreateCluster, size",
)
VERSION = define_rule(
    "GPU-PCS-017",
    "a PCS cluster runs a version of Slurm that PCS offers, and that has not come to its end",
    source=f'{_API}: SchedulerRequest, version; {_GUIDE}, "Slurm versions in AWS PCS", by the catalogue',
)
NAME = define_rule(
    "GPU-PCS-018",
    "the name of a PCS cluster has 3 to 40 characters, that of a node group or queue 3 to 25",
    source=f"{_API}: ClusterName, ComputeNodeGroupName, QueueName",
)
NEEDS_VERSION = define_rule(
    "GPU-PCS-019",
    "a setting or feature of PCS is used with a version of Slurm that has it",
    source=f'{_GUIDE}, "Configuring custom Slurm settings", "Slurm metrics", "Slurm REST API", "Slurm accounting" and '
    '"Configuring custom GRES settings"; botocore 1.44.5, pcs service model',
)
SETTING = define_rule(
    "GPU-PCS-020",
    "a custom Slurm setting is one that PCS takes at its level, with a value that it takes",
    source=f'{_GUIDE}, "Custom Slurm settings" for clusters, compute node groups and queues, "Configuring custom '
    'SlurmDBD settings" and "Configuring custom cgroup settings", by the catalogue',
)
TIMES = define_rule(
    "GPU-PCS-022",
    "idle times are 1 to 10,000,000 seconds, and accounting records are kept for 1 to 10,000 days, or for ever by -1",
    source=f"{_API}: scaleDownIdleTimeInSeconds, defaultPurgeTimeInDays",
)
SCRIPT_FORM = define_rule(
    "GPU-PCS-023",
    "a stage of a PCS node has 1 to 20 scripts with names and arguments that PCS takes",
    source=f"{_API}: NodeLifecycleScript, NodeLifecycleScriptList, ScriptSource",
)
SCRIPT_PIN = define_rule(
    "GPU-PCS-024",
    "a lifecycle script from S3 has its checksum or the version of its object",
    source=f"{_API}: ScriptSource; PCS runs the script as root and verifies the checksum",
)
VERIFIED_NODES = define_rule(
    "GPU-PCS-025",
    "nodes with EFA do not join Slurm after a script before slurmd has failed",
    source=f"{_API}: OnError; this library: a job over several nodes waits for its slowest one",
)
CONTROLLER_SUBNET = define_rule(
    "GPU-PCS-027",
    "the controller of a PCS cluster is in one subnet, and not in a Local Zone",
    source=f"{_API}: NetworkingRequest, subnetIds",
)
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
SOCKETS = define_rule(
    "GPU-PCS-033",
    "autodetected GPUs and l3cache_as_socket have the sockets of the node",
    source=f'{_GUIDE}, "Configuring hardware topology in AWS PCS"',
)
STATIC_MIG = define_rule(
    "GPU-PCS-034",
    "a PCS node group with MIG runs a fixed number of nodes",
    source=f'{_GUIDE}, "Configuring Multi-Instance GPU (MIG) in AWS PCS", Limitations',
)
SCALE = define_rule(
    "GPU-PCS-036",
    "the least number of nodes of a PCS node group is not above the most",
    source=f"{_API}: ScalingConfigurationRequest",
)
METRICS = define_rule(
    "GPU-PCS-037",
    "metrics of Slurm are reached over the HTTP endpoint of the controller",
    source=f'{_GUIDE}, "Slurm metrics in AWS PCS"',
)


class ClusterSize(str, Enum):
    """The size of a PCS cluster; it can never change.

    Attributes:
        SMALL: At most 32 nodes and 256 jobs.
        MEDIUM: At most 512 nodes and 8,192 jobs.
        LARGE: At most 2,048 nodes and 16,384 jobs.
    """

    SMALL = "SMALL"
    MEDIUM = "MEDIUM"
    LARGE = "LARGE"

    @property
    def nodes(self) -> int:
        """Most compute nodes."""
        return size_limits()[self.value].nodes

    @property
    def jobs(self) -> int:
        """Most jobs, active and queued."""
        return size_limits()[self.value].jobs


class SettingsLevel(str, Enum):
    """What a custom setting belongs to.

    Attributes:
        CLUSTER: `SlurmCustomSettings` of the cluster.
        NODE_GROUP: `SlurmCustomSettings` of a compute node group.
        QUEUE: `SlurmCustomSettings` of a queue.
        SLURMDBD: `SlurmdbdCustomSettings` of the cluster.
        CGROUP: `CgroupCustomSettings` of the cluster.
    """

    CLUSTER = "cluster"
    NODE_GROUP = "compute node group"
    QUEUE = "queue"
    SLURMDBD = "slurmdbd"
    CGROUP = "cgroup"


def check_pcs_cluster(
    *,
    name: str | None = None,
    size: str | None = None,
    slurm_version: str | None = None,
    node_count: int | None = None,
    subnet_count: int | None = None,
    zone: str | None = None,
    accounting: bool = False,
    purge_after_days: int | None = None,
    rest_api: bool = False,
    scale_down_idle_seconds: int | None = None,
    slurm_settings: Mapping[str, str] | None = None,
    slurmdbd_settings: Mapping[str, str] | None = None,
    cgroup_settings: Mapping[str, str] | None = None,
) -> list[Finding]:
    """Find everything that is wrong with a PCS cluster; None is not known, or left to PCS.

    Args:
        name: Its name.
        size: SMALL, MEDIUM or LARGE.
        slurm_version: Major version of Slurm, such as `25.11`.
        node_count: The most nodes of all its node groups together.
        subnet_count: Number of subnets of its controller.
        zone: Zone of the controller's subnet.
        accounting: Whether PCS keeps an accounting database.
        purge_after_days: Days after which accounting records are removed; -1 keeps them.
        rest_api: Whether PCS runs slurmrestd.
        scale_down_idle_seconds: Seconds after which an idle node is ended.
        slurm_settings: Custom settings of `slurm.conf`.
        slurmdbd_settings: Custom settings of `slurmdbd.conf`.
        cgroup_settings: Custom settings of `cgroup.conf`.
    """
    features = {"accounting": accounting, "rest_api": rest_api}
    return [
        *([] if name is None else check_pcs_name(name, SettingsLevel.CLUSTER)),
        *([] if slurm_version is None else check_slurm_version(slurm_version)),
        *([] if size is None else check_cluster_size(size, node_count)),
        *([] if subnet_count is None else check_controller_subnet(subnet_count, zone)),
        *(one for feature, used in features.items() if used for one in check_feature(feature, slurm_version)),
        *check_times(scale_down_idle_seconds=scale_down_idle_seconds, purge_after_days=purge_after_days),
        *check_slurm_settings(slurm_settings or {}, slurm_version=slurm_version, level=SettingsLevel.CLUSTER),
        *check_slurm_settings(slurmdbd_settings or {}, slurm_version=slurm_version, level=SettingsLevel.SLURMDBD),
        *check_slurm_settings(cgroup_settings or {}, slurm_version=slurm_version, level=SettingsLevel.CGROUP),
    ]


def check_compute_node_group(
    *,
    name: str | None = None,
    slurm_version: str | None = None,
    kind: InstanceType | None = None,
    mig: MigPlan | None = None,
    min_nodes: int | None = None,
    max_nodes: int | None = None,
    scale_down_idle_seconds: int | None = None,
    slurm_settings: Mapping[str, str] | None = None,
    gres_settings: Sequence[Mapping[str, str]] | None = None,
) -> list[Finding]:
    """Find everything that is wrong with a compute node group; None is not known, or left to PCS.

    Its lifecycle scripts are checked by `check_lifecycle_scripts`, its launch template by other rules.

    Args:
        name: Its name.
        slurm_version: Version of Slurm of the cluster.
        kind: Type of its nodes.
        mig: How their GPUs are split.
        min_nodes: Least number of nodes.
        max_nodes: Most nodes.
        scale_down_idle_seconds: Seconds after which an idle node is ended; -1 takes the cluster's.
        slurm_settings: Custom settings of its nodes in `slurm.conf`.
        gres_settings: Records of `gres.conf`, without `NodeName`.
    """
    settings = dict(slurm_settings or {})
    gres = settings.get("Gres")
    idle_feature = scale_down_idle_seconds is not None and scale_down_idle_seconds != -1
    return [
        *([] if name is None else check_pcs_name(name, SettingsLevel.NODE_GROUP)),
        *check_scale(min_nodes, max_nodes, is_split=mig is not None),
        *check_times(group_idle_seconds=scale_down_idle_seconds),
        *(check_feature("idle_time_of_group", slurm_version) if idle_feature else []),
        *check_slurm_settings(settings, slurm_version=slurm_version, level=SettingsLevel.NODE_GROUP),
        *check_gres_records(gres_settings or [], slurm_version=slurm_version),
        *([] if gres is None else check_gres_agreement(gres, gres_settings or [])),
        *([] if gres is None or kind is None else check_gres(gres, kind, mig)),
        *check_sockets(settings, gres_settings or [], slurm_version=slurm_version),
    ]


def check_queue(
    *, name: str | None = None, slurm_version: str | None = None, slurm_settings: Mapping[str, str] | None = None
) -> list[Finding]:
    """Find everything that is wrong with a queue; None is not known, or left to PCS.

    Args:
        name: Its name.
        slurm_version: Version of Slurm of the cluster.
        slurm_settings: Custom settings of the partition in `slurm.conf`.
    """
    return [
        *([] if name is None else check_pcs_name(name, SettingsLevel.QUEUE)),
        *check_slurm_settings(slurm_settings or {}, slurm_version=slurm_version, level=SettingsLevel.QUEUE),
    ]


# Names, versions, sizes and times.

_NAME = re.compile(r"(?!pcs_)[A-Za-z][A-Za-z0-9-]+")
_LONGEST = {SettingsLevel.CLUSTER: 40, SettingsLevel.NODE_GROUP: 25, SettingsLevel.QUEUE: 25}
_SHORTEST_NAME = 3
_LONGEST_IDLE_SECONDS = 10_000_000
_LONGEST_KEPT_DAYS = 10_000


@check
def check_pcs_name(name: str, of: SettingsLevel) -> Iterator[Finding]:
    """Find a name that PCS refuses.

    Args:
        name: The name.
        of: Cluster, compute node group or queue.
    """
    longest = _LONGEST[of]
    if not _NAME.fullmatch(name) or not _SHORTEST_NAME <= len(name) <= longest:
        yield NAME.finding(
            cause=f"PCS refuses this name of a {of.value}",
            got=name,
            allowed=f"{_SHORTEST_NAME} to {longest} letters, digits and -, a letter first",
            path="name",
        )


@check
def check_slurm_version(version: str) -> Iterator[Finding]:
    """Find a version that PCS does not offer; one that is newer than the catalogue, or has an end, is a warning."""
    known = slurm_versions()
    row = known.get(version)
    offered = [one.version for one in known.values() if one.offered]
    if row is not None and row.offered and row.ends is None:
        return
    newer = re.fullmatch(r"\d\d\.\d\d", version) and version_of_slurm(version) > version_of_slurm(offered[-1])
    if row is not None and row.offered:
        cause = f"PCS makes no new cluster of Slurm {version} after {row.ends}"
    elif newer:
        cause = "this version of the library does not know it: its settings were not checked"
    else:
        cause = "PCS offers no such version of Slurm"
    yield VERSION.finding(
        cause=cause,
        got=version,
        allowed=", ".join(offered),
        fix=f'slurm_version="{offered[-1]}"',
        path="slurm_version",
        severity=Severity.WARNING if newer or (row is not None and row.offered) else Severity.ERROR,
    )


@check
def check_cluster_size(size: str, node_count: int | None) -> Iterator[Finding]:
    """Find more nodes than a cluster of its size holds, and a size that PCS does not have."""
    limits = size_limits()
    if size not in limits:
        yield SIZE.finding(cause="PCS has no such size", got=size, allowed=", ".join(limits), path="size")
    elif node_count is not None and node_count > limits[size].nodes:
        larger = [one.name for one in limits.values() if one.nodes >= node_count]
        yield SIZE.finding(
            cause="PCS makes no nodes beyond the size of the cluster, and the size can never be changed",
            got=f"{size} with up to {node_count} nodes",
            allowed=f"{limits[size].nodes} nodes",
            fix=f"choose {larger[0]} before you create the cluster" if larger else "make a second cluster",
            path="size",
        )


@check
def check_controller_subnet(subnet_count: int, zone: str | None) -> Iterator[Finding]:
    """Find subnets that PCS does not put the controller into.

    Args:
        subnet_count: How many are given.
        zone: Zone of the subnet, by name or id; None if it is not known.
    """
    if subnet_count != 1:
        yield CONTROLLER_SUBNET.finding(
            cause="PCS takes one subnet for the controller",
            got=f"{subnet_count} subnets",
            allowed="1 subnet",
            fix="name one; nodes can be in others",
            path="subnet",
        )
    place = None if zone is None else read_zone(zone)
    if place is not None and place.is_local:
        yield CONTROLLER_SUBNET.finding(
            cause="PCS does not put the controller into a Local Zone",
            got=f"a subnet in {zone}",
            allowed=f"a subnet in a zone of {place.region}",
            fix="choose a subnet of an Availability Zone for the cluster; its nodes can be in the Local Zone",
            path="subnet",
        )


@check
def check_times(
    *,
    scale_down_idle_seconds: int | None = None,
    group_idle_seconds: int | None = None,
    purge_after_days: int | None = None,
) -> Iterator[Finding]:
    """Find times out of PCS's range; None is left to PCS."""
    given = (
        ("scale_down_idle_seconds", scale_down_idle_seconds, _LONGEST_IDLE_SECONDS, ""),
        ("scale_down_idle_seconds", group_idle_seconds, _LONGEST_IDLE_SECONDS, "-1 for the cluster's, or "),
        ("purge_after_days", purge_after_days, _LONGEST_KEPT_DAYS, "-1 for ever, or "),
    )
    for path, value, most, also in given:
        if value is None or 1 <= value <= most or (also and value == -1):
            continue
        yield TIMES.finding(cause="PCS takes no such time", got=str(value), allowed=f"{also}1 to {most}", path=path)


@check
def check_scale(min_nodes: int | None, max_nodes: int | None, *, is_split: bool = False) -> Iterator[Finding]:
    """Find numbers of nodes that PCS refuses, and those under which jobs miss their MIG slices."""
    if min_nodes is None or max_nodes is None:
        return
    if not 0 <= min_nodes <= max_nodes:
        yield SCALE.finding(
            cause="PCS refuses these numbers of nodes",
            got=f"{min_nodes} to {max_nodes}",
            allowed="0 or more, the first not above the second",
            path="min_nodes",
        )
    elif is_split and min_nodes < max_nodes:
        yield STATIC_MIG.finding(
            cause="Slurm knows the slices of a node only after its first start: a job that makes PCS start a node can "
            "run without a slice",
            got=f"{min_nodes} to {max_nodes} nodes",
            allowed=f"{max_nodes} to {max_nodes} nodes",
            fix="set both to the same number",
            path="min_nodes",
            severity=Severity.WARNING,
        )


@check
def check_feature(feature: str, slurm_version: str | None, *, what: str = "", path: str = "") -> Iterator[Finding]:
    """Find a feature that the version of Slurm does not have under PCS.

    Args:
        feature: As `catalogue.pcs.feature_since` knows it.
        slurm_version: Version of Slurm; None if it is not known.
        what: The feature in a user's words; those of the feature by default.
        path: Where.
    """
    yield from _too_old(what or _FEATURES[feature], feature_since(feature), slurm_version, path or feature)


_FEATURES = {
    "accounting": "accounting",
    "rest_api": "the Slurm REST API",
    "metrics": "metrics of Slurm",
    "idle_time_of_group": "an idle time of a node group",
    "gres_autodetect": "AutoDetect of GPUs, and so MIG,",
    "default_topology": "the CPU topology that PCS sets by itself",
}


def _too_old(what: str, since: str, slurm_version: str | None, path: str) -> Iterator[Finding]:
    if slurm_version is None or not _is_before(slurm_version, since):
        return
    yield NEEDS_VERSION.finding(
        cause=f"PCS has {what} from Slurm {since} on",
        got=f"Slurm {slurm_version}",
        allowed=f"Slurm {since} or later",
        fix=f'slurm_version="{since}", or leave it out',
        path=path,
    )


def _is_before(version: str, since: str) -> bool:
    """Whether a version is older; one that has no such form is not."""
    numbers = version_of_slurm(version)
    return bool(numbers) and numbers < version_of_slurm(since)


# Custom settings.

_MIN_JOB_AGE_SECONDS = 5


@check
def check_slurm_settings(
    settings: Mapping[str, str], *, slurm_version: str | None, level: SettingsLevel
) -> Iterator[Finding]:
    """Find custom settings that PCS refuses.

    A name that no page lists is a warning only: PCS takes more of them from time to time.

    Args:
        settings: Names and values.
        slurm_version: Version of Slurm; None if it is not known.
        level: What they belong to.
    """
    row = custom_settings()[level.value]
    for name, value in settings.items():
        if name not in row.names:
            yield _unlisted(name, level)
            continue
        if since := row.since.get(name):
            yield from _too_old(name, since, slurm_version, name)
        for word, first in row.values_since.get(name, {}).items():
            if word in re.split(r"[,=\s]+", value):
                yield from _too_old(f"{name}={word}", first, slurm_version, name)
    if level is SettingsLevel.CLUSTER:
        yield from _cluster_values(settings)


def _unlisted(name: str, level: SettingsLevel) -> Finding:
    rows = custom_settings()
    own = rows[level.value].names
    elsewhere = [row.level for row in rows.values() if name in row.names]
    near = get_close_matches(name, own, n=1, cutoff=0.8) or [one for one in own if one.lower() == name.lower()]
    if elsewhere:
        fix = f"give it to the {' or the '.join(elsewhere)}"
    else:
        fix = f"write {near[0]}" if near else "leave it out, or look whether the user guide lists it by now"
    return SETTING.finding(
        cause=f"PCS takes no such setting of a {level.value}",
        got=name,
        allowed=", ".join(own),
        fix=fix,
        path=name,
        severity=Severity.ERROR if elsewhere or near else Severity.WARNING,
    )


def _cluster_values(settings: Mapping[str, str]) -> Iterator[Finding]:
    age = settings.get("MinJobAge", "")
    if age.isdecimal() and int(age) < _MIN_JOB_AGE_SECONDS:
        yield SETTING.finding(
            cause="PCS keeps the record of a finished job for 5 seconds at least",
            got=f"MinJobAge={age}",
            allowed=f"{_MIN_JOB_AGE_SECONDS} or more",
            path="MinJobAge",
        )
    if "MetricsType" in settings and "enable_http" not in settings.get("CommunicationParameters", "").split(","):
        yield METRICS.finding(
            cause="PCS disables the HTTP endpoint of the controller, which serves the metrics",
            got="MetricsType without CommunicationParameters=enable_http",
            allowed="CommunicationParameters with enable_http",
            fix="set both, and allow port 6817 from the scraper alone: the endpoint asks for no password",
            path="CommunicationParameters",
            severity=Severity.WARNING,
        )


# GRES, by what PCS checks itself when it makes a node group.

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
    elif (
        any(map(_detects, records))
        and slurm_version is not None
        and not _is_before(slurm_version, feature_since("gres_autodetect"))
        and _is_before(slurm_version, feature_since("default_topology"))
    ):
        cause = "autodetected GPUs do not fit a node of one core per socket, and Slurm drains it (INVALID_REG)"
        got = f"AutoDetect with Slurm {slurm_version}"
    else:
        return
    yield SOCKETS.finding(
        cause=cause,
        got=f"{got}, without Sockets",
        allowed="Sockets: the number of NUMA nodes or L3 caches of the node; it divides the number of cores",
        fix=f'set Sockets in the settings of the node group, or slurm_version="{feature_since("default_topology")}"',
        path="Sockets",
    )


# Lifecycle scripts.

_SCRIPTS = range(1, 21)
_SCRIPT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _-]*")
_LONGEST_SCRIPT_NAME = 64
_MOST_ARGUMENTS = 20
_LONGEST_ARGUMENT = 256
_SHA256 = re.compile(r"[a-fA-F0-9]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleScriptFacts:
    """What is known of a script of a lifecycle stage.

    Attributes:
        name: Its name.
        arguments: Its arguments, as far as they are known.
        location: `s3://` or `https://` address; None if it is not known.
        checksum: SHA-256 of the script in hexadecimal digits; None if there is none.
        has_version: Whether the version of the S3 object is given.
        on_error: TERMINATE, STOP_SEQUENCE or CONTINUE.
    """

    name: str
    arguments: Sequence[str] = ()
    location: str | None = None
    checksum: str | None = None
    has_version: bool = False
    on_error: str = "TERMINATE"


@check
def check_lifecycle_scripts(
    scripts: Sequence[LifecycleScriptFacts], *, before_slurmd: bool, has_efa: bool
) -> Iterator[Finding]:
    """Find what PCS refuses of the scripts of one stage, and what lets a broken node run jobs.

    Args:
        scripts: The scripts in their order.
        before_slurmd: Whether it is the stage NodeBootstrapped.
        has_efa: Whether the nodes have EFA.
    """
    if len(scripts) not in _SCRIPTS:
        yield SCRIPT_FORM.finding(
            cause="PCS takes no such number of scripts for a stage",
            got=str(len(scripts)),
            allowed="1 to 20, or no stage",
        )
    for name, count in Counter(one.name for one in scripts).items():
        if count > 1:
            yield SCRIPT_FORM.finding(
                cause="two scripts have the same name", got=name, allowed="a name of its own for each", path=name
            )
    for one in scripts:
        yield from _script_form(one)
        if (one.location or "").startswith("s3://") and one.checksum is None and not one.has_version:
            yield SCRIPT_PIN.finding(
                cause="whoever can write to the bucket runs code as root on the nodes",
                got=one.location or "",
                allowed="Checksum or S3VersionId",
                fix="give the SHA-256 of the script as Checksum",
                path=one.name,
                severity=Severity.WARNING,
            )
        if before_slurmd and has_efa and one.on_error == "CONTINUE":
            yield VERIFIED_NODES.finding(
                cause="a node whose script has failed takes jobs, and a job over several nodes fails or waits for it",
                got=f"OnError CONTINUE of {one.name}",
                allowed="TERMINATE, or STOP_SEQUENCE to look at the node",
                fix="set OnError to TERMINATE",
                path=one.name,
                severity=Severity.WARNING,
            )


def _script_form(one: LifecycleScriptFacts) -> Iterator[Finding]:
    if not _SCRIPT_NAME.fullmatch(one.name) or len(one.name) > _LONGEST_SCRIPT_NAME:
        yield SCRIPT_FORM.finding(
            cause="PCS refuses this name of a script",
            got=one.name,
            allowed="1 to 64 letters, digits, spaces, _ and -, a letter or digit first",
            path=one.name,
        )
    if len(one.arguments) > _MOST_ARGUMENTS or any(len(text) > _LONGEST_ARGUMENT for text in one.arguments):
        longest = max(map(len, one.arguments))
        yield SCRIPT_FORM.finding(
            cause="PCS refuses these arguments of a script",
            got=f"{len(one.arguments)} arguments of up to {longest} characters",
            allowed=f"{_MOST_ARGUMENTS} arguments of up to {_LONGEST_ARGUMENT} characters",
            path=one.name,
        )
    if one.checksum is not None and not _SHA256.fullmatch(one.checksum):
        yield SCRIPT_FORM.finding(
            cause="PCS takes a SHA-256 as checksum", got=one.checksum, allowed="64 hexadecimal digits", path=one.name
        )
