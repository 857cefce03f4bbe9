"""AWS PCS: clusters, compute node groups and queues, with their Slurm settings, GRES and lifecycle scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from enum import Enum

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.catalogue.pcs import JOIN_SECONDS, custom_settings, size_limits
from cdk_gpu_clusters.errors import Finding, Severity, check, define_rule
from cdk_gpu_clusters.rules.gres import check_gres
from cdk_gpu_clusters.rules.mig import MigPlan
from cdk_gpu_clusters.rules.pcs_gres import (
    check_declared_mig,
    check_gres_agreement,
    check_gres_records,
    check_sockets,
)
from cdk_gpu_clusters.rules.pcs_slurm_conf import check_controller_starts, check_devices
from cdk_gpu_clusters.rules.pcs_versions import check_feature, check_since, check_slurm_version
from cdk_gpu_clusters.rules.zones import read_zone

_API = "botocore 1.44.5, pcs service model"
_GUIDE = "AWS PCS user guide"

SIZE = define_rule(
    "GPU-PCS-016",
    "a PCS cluster of size SMALL, MEDIUM or LARGE has at most 32, 512 or 2048 nodes",
    source=f"{_API}: CreateCluster, size",
)
NAME = define_rule(
    "GPU-PCS-018",
    "the name of a PCS cluster has 3 to 40 characters, that of a node group or queue 3 to 25",
    source=f"{_API}: ClusterName, ComputeNodeGroupName, QueueName",
)
SETTING = define_rule(
    "GPU-PCS-020",
    "a custom Slurm setting is one that PCS takes at its level, with a value that it takes",
    source=f'{_GUIDE}, "Custom Slurm settings" for clusters, compute node groups and queues, "Configuring custom '
    'SlurmDBD settings" and "Configuring custom cgroup settings", by the catalogue',
)
TIMES = define_rule(
    "GPU-PCS-022",
    "idle times are 1 to 10,000,000 seconds, and accounting records stay for 1 to 10,000 days, or without end by -1",
    source=f"{_API}: scaleDownIdleTimeInSeconds, defaultPurgeTimeInDays",
)
CONTROLLER_SUBNET = define_rule(
    "GPU-PCS-027",
    "the controller of a PCS cluster is in one subnet, and not in a Local Zone",
    source=f"{_API}: NetworkingRequest, subnetIds",
)
STATIC_MIG = define_rule(
    "GPU-PCS-034",
    "a PCS node group with MIG runs a fixed number of nodes",
    source=f'{_GUIDE}, "Configuring Multi-Instance GPU (MIG) in AWS PCS", Limitations',
)
RESERVATION = define_rule(
    "GPU-PCS-028",
    "the launch template of a PCS node group names security groups by id, and On-Demand reservations by their group",
    source=f'{_GUIDE}, "Overview of launch templates in AWS PCS"',
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
JOIN = define_rule(
    "GPU-PCS-038",
    "the boot of a PCS node fits into the time in which it must join Slurm",
    source=f'{_GUIDE}, "Troubleshoot compute node bootstrap and registration problems in AWS PCS", ResumeTimeout '
    'reached, and "Best practices for node lifecycle actions in AWS PCS": approximately 30 minutes, by the catalogue',
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
        *check_controller_starts(slurm_settings or {}, accounting=accounting),
        *check_devices(cgroup_settings or {}),
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
        *([] if mig is None else check_declared_mig(mig, gres, gres_settings or [])),
        *check_sockets(settings, gres_settings or [], slurm_version=slurm_version),
    ]


def check_queue(
    *,
    name: str | None = None,
    slurm_version: str | None = None,
    slurm_settings: Mapping[str, str] | None = None,
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
            fix=f"choose a name of {_SHORTEST_NAME} to {longest} characters",
            path="name",
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
        ("purge_after_days", purge_after_days, _LONGEST_KEPT_DAYS, "-1 for no end, or "),
    )
    for path, value, most, also in given:
        if value is None or 1 <= value <= most or (also and value == -1):
            continue
        allowed = f"{also}1 to {most}"
        yield TIMES.finding(
            cause="PCS takes no such time", got=str(value), allowed=allowed, fix=f"give {allowed}", path=path
        )


@check
def check_join_time(ready_timeout_seconds: int) -> Iterator[Finding]:
    """Find a time for the boot that PCS does not wait for; it launches another node instead, which boots as long.

    Args:
        ready_timeout_seconds: How long the boot of a node may take.
    """
    if ready_timeout_seconds > JOIN_SECONDS:
        yield JOIN.finding(
            cause="AWS PCS marks a node as down that has not joined Slurm by then, terminates it and launches another "
            "one: a boot that needs longer never ends",
            got=f"{ready_timeout_seconds} seconds",
            allowed=f"at most {JOIN_SECONDS} seconds, the launch of the instance included",
            fix="shorten ready_timeout; put long installations and container images into an image of your own, or on a "
            "shared file system",
            path="ready_timeout",
        )


#: Market types under which PCS takes the id of one reservation.
_MARKETS_OF_ONE_RESERVATION = ("capacity-block", "interruptible-capacity-reservation")


@check
def check_reservation(reservation_id: str | None, market_type: str | None) -> Iterator[Finding]:
    """Find the id of an On-Demand reservation, which PCS takes by a resource group only.

    Args:
        reservation_id: The id that the launch template names; None if it names none, or a group.
        market_type: Market type of the launch template, such as `capacity-block`; None for On-Demand.
    """
    if reservation_id is not None and market_type not in _MARKETS_OF_ONE_RESERVATION:
        yield RESERVATION.finding(
            cause="PCS refuses a launch template with the id of an On-Demand reservation",
            got=reservation_id,
            allowed="the ARN of a resource group that holds the reservation",
            fix="make a group of the reservation, and name the group",
            path="capacity",
        )


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


# Custom settings.

_MIN_JOB_AGE_SECONDS = 5
_SHORT_LIST = 20


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
            yield from check_since(name, since, slurm_version, name)
        for word, first in row.values_since.get(name, {}).items():
            if word in re.split(r"[,=\s]+", value):
                yield from check_since(f"{name}={word}", first, slurm_version, name)
    if level is SettingsLevel.CLUSTER:
        yield from _cluster_values(settings)


def _unlisted(name: str, level: SettingsLevel) -> Finding:
    rows = custom_settings()
    own = rows[level.value].names
    elsewhere = [row.level for row in rows.values() if name in row.names]
    near = [one for one in own if one.lower() == name.lower()] or get_close_matches(name, own, n=1, cutoff=0.8)
    if elsewhere:
        fix = f"give it to the {' or the '.join(elsewhere)}"
    else:
        fix = f"write {near[0]}" if near else "leave it out, or look whether the user guide lists it by now"
    return SETTING.finding(
        cause=f"the AWS PCS user guide lists no such setting for a {level.value}",
        got=name,
        allowed=", ".join(own) if len(own) <= _SHORT_LIST else f"{len(own)} settings of slurm.conf",
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
            fix=f"set MinJobAge to {_MIN_JOB_AGE_SECONDS} or more",
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
