"""What the user data of a node is made from, and the rules for what a user may put into it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from ipaddress import IPv4Network
from itertools import chain

from cdk_gpu_clusters.catalogue.instances import AcceleratorKind, InstanceType
from cdk_gpu_clusters.catalogue.mig import mig_gpu_of
from cdk_gpu_clusters.catalogue.nccl import nccl_variables
from cdk_gpu_clusters.errors import Finding, define_rule
from cdk_gpu_clusters.node.exporters import NodeExporters, check_exporters
from cdk_gpu_clusters.node.mig import MigSettings
from cdk_gpu_clusters.node.software import NodeFile, check_files
from cdk_gpu_clusters.node.storage import LustreEfa, Mount, ScratchSettings, check_storage
from cdk_gpu_clusters.node.users import UserDirectory, check_directory
from cdk_gpu_clusters.rules.harmful_variables import check_variable

#: Starts of the names of variables that NCCL and libfabric read, and that go into `nccl_environment`.
COMMUNICATION_VARIABLES = ("NCCL_", "FI_")

#: Huge pages of 2 MiB that the EFA installer reserves (Amazon EKS user guide, "Run machine learning training on Amazon
#: EKS with EFA").
EFA_HUGE_PAGES = 5_128

#: Content types that cloud-init handles, with what a body of that type must begin with.
_BEGINNINGS: Mapping[str, str] = {
    "text/cloud-boothook": "#!",
    "text/cloud-config": "",
    "text/jinja2": "## template: jinja",
    "text/x-include-once-url": "",
    "text/x-include-url": "",
    "text/x-shellscript": "#!",
    "text/x-shellscript-per-boot": "#!",
    "text/x-shellscript-per-instance": "#!",
    "text/x-shellscript-per-once": "#!",
}

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CLOUD_INIT = "cloud-init documentation, User-data formats, read 2026-11"
#: Numbers of `NodeWatch` -> lowest and highest value. A Spot notice comes two minutes ahead.
WATCH_RANGES: Mapping[str, tuple[int, int]] = {
    "actions_per_hour": (1, 1_000),
    "reboots_per_hour": (1, 1_000),
    "resets_per_hour": (1, 1_000),
    "repair_wait_seconds": (0, 7 * 24 * 3_600),
    "silence_seconds": (600, 7 * 24 * 3_600),
    "interval_seconds": (1, 30),
    "job_seconds": (1, 120),
    "dcgm_level": (0, 2),
    "all_reduce_percent": (0, 100),
}
#: Port of `/healthz`. `gpunode/health.py` has it, too, with the reasons for its choice.
HEALTH_PORT = 8687
# Below 1024 are the ports of well-known services. 0 is none.
_LEAST_PORT, _GREATEST_PORT = 1024, 65_535
_UNIT = re.compile(r"[A-Za-z0-9:_.@\\-]+")

ENVIRONMENT = define_rule(
    "GPU-UD-003",
    "Environment names are shell names; values, and the fleet's name, are one line of printable ASCII",
    source="the settings are read as NAME=value lines by shells, PAM and NCCL; the cloud-config part has no charset, "
    f"so a character beyond ASCII makes all of it unreadable ({_CLOUD_INIT})",
)
#: A user of a node: useradd(8), "Caveats", a domain after `@` as directories have it, or a number; `*` for all users.
USER_PATTERN = r"^(\*|[0-9]{1,10}|[A-Za-z_][A-Za-z0-9_.@-]{0,255})$"
USER_PART = define_rule(
    "GPU-UD-005",
    "A user part has a type that cloud-init handles, and is ASCII text of that type",
    source=_CLOUD_INIT,
)

WATCH = define_rule(
    "GPU-UD-008",
    "The settings of the watchdog are in range and name valid systemd units",
    source="systemd.service(5), WatchdogSec: gpu-node-watch reports with every poll and has 60 s to; "
    "systemd.unit(5), names of units",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserDataPart:
    r"""A part that the user adds to the user data.

    Attributes:
        content_type: Type that cloud-init handles, such as `text/x-shellscript` or `text/cloud-config`.
        body: The text of the part: ASCII; a script begins with `#!`.

    Example:
        >>> UserDataPart(content_type="text/x-shellscript", body="#!/bin/sh\ndnf install -y htop\n").content_type
        'text/x-shellscript'
    """

    content_type: str
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFacts:
    """Properties of the GPUs of an instance type, which `gpunode verify` compares with the actual ones.

    Attributes:
        model: Their model, such as `H100`. nvidia-smi prints its words.
        nvlink_gbytes_per_s: NVLink bandwidth of each in GB/s, both directions summed; 0 without NVLink.
        minimum_driver: First driver release with MIG on the model, also required for GPUs that are not split; empty
            for GPUs that cannot be split.
    """

    model: str
    nvlink_gbytes_per_s: float = 0
    minimum_driver: str = ""

    def environment(self) -> dict[str, str]:
        """The facts as node settings.

        Example:
            >>> GpuFacts(model="L4").environment()
            {'GPU_MODEL': 'L4'}
        """
        values = {
            "GPU_MODEL": self.model,
            "GPU_NVLINK": f"{self.nvlink_gbytes_per_s:g}" if self.nvlink_gbytes_per_s else "",
            "GPU_MIN_DRIVER": self.minimum_driver,
        }
        return {name: value for name, value in values.items() if value}


def gpu_facts(instance_type: InstanceType) -> GpuFacts | None:
    """The facts about a type's GPUs; None for a type without GPUs.

    Args:
        instance_type: A type of the catalogue.

    Example:
        >>> from cdk_gpu_clusters.catalogue import instance_type
        >>> gpu_facts(instance_type("p5.48xlarge")).environment()
        {'GPU_MODEL': 'H100', 'GPU_NVLINK': '900', 'GPU_MIN_DRIVER': '525.85.12'}
    """
    accelerator, mig = instance_type.accelerator, mig_gpu_of(instance_type)
    if accelerator is None or accelerator.kind is not AcceleratorKind.GPU:
        return None
    return GpuFacts(
        model=accelerator.marketing_name or accelerator.name,
        nvlink_gbytes_per_s=accelerator.nvlink_gbytes_per_s_per_gpu or 0,
        minimum_driver="" if mig is None else mig.minimum_driver,
    )


class WatchMode(str, Enum):
    """Whether the watchdog acts."""

    ON = "on"
    #: It only reports what it would do.
    DRY_RUN = "dry-run"
    OFF = "off"


class FaultSeverity(str, Enum):
    """The action that a fault requires, the least severe first."""

    RESET = "reset"
    REBOOT = "reboot"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWatch:
    """How a node is watched, and how its end is prepared.

    Attributes:
        mode: Whether the watchdog acts, only reports what it would do, or is off.
        acts_from: The least severe fault that is repaired.
        actions_per_hour: How many nodes of the fleet may be taken out permanently within an hour. Further unhealthy
            nodes keep their work, and only report it.
        reboots_per_hour: How many of its nodes may be rebooted within an hour.
        resets_per_hour: How many of its nodes may have their GPUs reset within an hour.
        repair_wait_seconds: How long jobs may go on before a reboot ends them. A reset waits as long as they run.
        silence_seconds: How long nothing of AWS and the orchestrator may answer before single nodes are repaired
            without being counted.
        maintenance: Why no node of the fleet is repaired; empty if they are.
        interval_seconds: From one poll to the next, 1 to 30.
        drain_on_rebalance: Whether a rebalance recommendation drains a Spot node, although it may stay (AWS EC2 user
            guide, "EC2 instance rebalance recommendations").
        job_units: systemd units of jobs, stopped when the node ends.
        job_seconds: How long jobs have from SIGTERM to the node's end.
        health_port: Port of `GET /healthz` on loopback; 0 for none.
        health_from: CIDR ranges of further clients of `/healthz`, such as the subnet of the nodes for application
            status checks of EC2. The node then also listens on its primary interface, and a `GpuFleet` admits them.
        metrics_port: Port of `GET /metrics` in the text format of Prometheus, on loopback and the primary interface;
            0 for none, the default. No security group admits clients by itself: use `GpuFleet.connections`.
        dcgm_level: Level of DCGM's diagnostics that a node must pass at its boot if the image has `dcgmi`: 1 takes
            seconds, 2 minutes; 0: none (NVIDIA DCGM user guide, "DCGM Diagnostics").
        all_reduce_percent: Least bus bandwidth of an all-reduce over the node's GPUs at its boot, in percent of the
            NVLink bandwidth of a GPU in one direction, if the image has nccl-tests; 0: it is not measured.

    Example:
        >>> NodeWatch(mode=WatchMode.DRY_RUN).environment()
        {'GPU_WATCH': 'dry-run'}
    """

    mode: WatchMode = WatchMode.ON
    acts_from: FaultSeverity = FaultSeverity.RESET
    actions_per_hour: int = 2
    reboots_per_hour: int = 10
    resets_per_hour: int = 20
    repair_wait_seconds: int = 1_800
    silence_seconds: int = 3_600
    maintenance: str = ""
    interval_seconds: int = 10
    drain_on_rebalance: bool = False
    job_units: tuple[str, ...] = ()
    job_seconds: int = 15
    health_port: int = HEALTH_PORT
    health_from: tuple[str, ...] = ()
    metrics_port: int = 0
    dcgm_level: int = 1
    all_reduce_percent: int = 0

    def environment(self) -> dict[str, str]:
        """Values that differ from the defaults, as node settings."""
        usual = _values(NodeWatch())
        return {name: value for name, value in _values(self).items() if value != usual[name]}


def _values(watch: NodeWatch) -> dict[str, str]:
    return {
        "GPU_WATCH": watch.mode.value,
        "GPU_WATCH_ACTS_FROM": watch.acts_from.value,
        "GPU_WATCH_ACTIONS_PER_HOUR": str(watch.actions_per_hour),
        "GPU_REBOOTS_PER_HOUR": str(watch.reboots_per_hour),
        "GPU_RESETS_PER_HOUR": str(watch.resets_per_hour),
        "GPU_REPAIR_WAIT_SECONDS": str(watch.repair_wait_seconds),
        "GPU_SILENCE_SECONDS": str(watch.silence_seconds),
        "GPU_MAINTENANCE": watch.maintenance,
        "GPU_WATCH_INTERVAL": str(watch.interval_seconds),
        "GPU_REBALANCE": "drain" if watch.drain_on_rebalance else "",
        "GPU_JOB_UNITS": " ".join(watch.job_units),
        "GPU_JOB_SECONDS": str(watch.job_seconds),
        "GPU_HEALTH_PORT": str(watch.health_port),
        "GPU_HEALTH_FROM": " ".join(watch.health_from),
        "GPU_METRICS_PORT": str(watch.metrics_port),
        "GPU_DCGM_LEVEL": str(watch.dcgm_level),
        "GPU_ALL_REDUCE_PERCENT": str(watch.all_reduce_percent),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """Everything that the user data of a fleet's nodes depends on.

    Every text may be an unresolved CDK token: it is copied verbatim and never encoded.

    Attributes:
        fleet_name: Name of the fleet, for people.
        region: Region of the AWS calls; None: from the instance metadata.
        launch_hook_name: Launching lifecycle hook that the node completes (CONTINUE, or ABANDON with the reason
            logged before); None: the node completes none.
        terminate_hook_name: Terminating lifecycle hook that the node completes after `on-drain`; None: none.
        boot_deadline_seconds: Seconds after the kernel's start by which the node must be ready. Keep it 300 s and
            more below the launching hook's heartbeat timeout, so that the reason still gets out.
        drain_deadline_seconds: Seconds that the user's `on-drain` command may take. 90 fits the two minutes of a
            Spot interruption notice (AWS EC2 user guide, Spot Instance interruption notices).
        drain_at: When the node drains itself, since EC2 does not announce the end of a Capacity Block; None: never.
        log_group_name: Log group that gets one stream per instance; None: the events stay on the node.
        inspection_seconds: How long a node that failed its first boot is kept for inspection if the launches of its
            group are suspended; 0: it is replaced at once.
        replacements_per_hour: How many nodes of the group may end themselves in an hour after a failed first boot, so
            that the group launches others; 0: none does.
        evidence_uri: `s3://bucket/prefix` for the evidence of a failed node; None: it stays on the node.
        orchestrator: What takes an unhealthy node out of service: `ec2` (its Auto Scaling group), `eks`, `slurm`,
            `pcs` or `batch`; None: the node only reports it. With `eks`, `pcs` and `batch`, kubelet, slurmd and the ECS
            agent start only on a node that is ready.
        slurm_bin: Folder of Slurm's programs; None if they are on the path.
        scales: Slurm: whether idle nodes are powered down, and jobs power them up under the same names.
        node_config: The NodeConfig of an EKS node, from `node_config_text`; empty for none.
        accelerator_kind: `gpu`, `neuron`, or None for a node without accelerators.
        accelerator_count: GPUs or Neuron devices that must answer before the node is ready.
        gpu_facts: What `gpunode verify` compares the GPUs with; None: their number only.
        efa_interface_count: EFA devices that must be there before the node is ready; 0 without EFA.
        processes_per_node: Slots and NPROC_PER_NODE of `gpu-peers`; None: one per accelerator (with MIG, per
            device), at least 1.
        instance_family: Instance family, such as `g6`, which selects some variables; None: those of all families.
        nccl_environment: NCCL and libfabric variables on top of `default_nccl_environment`; None as a value removes a
            default.
        extra_environment: Additional variables for every login session.
        huge_pages: Number of 2 MiB huge pages to reserve. None leaves it to the EFA installer, which reserves
            `EFA_HUGE_PAGES`; a node that cannot reserve the number given here fails its boot.
        mig: How the GPUs are split, before anything uses them; None: they are not split. The node is ready only when
            it has all its MIG devices.
        mounts: File systems of FSx for Lustre and NFS that the node mounts; it is ready only when a test file was
            written to each.
        lustre_efa: How it mounts those with `efa`; None if there are none.
        scratch: Its local disks as one file system, also in SCRATCH_DIR of every login session; None: unused.
        checkpoint_environment: Where jobs keep checkpoints, from `checkpoint_environment`, for every login session.
        watch: How the node is watched, and how its end is prepared.
        exporters: Exporters for Prometheus that the node installs and starts; None: none.
        watch_drain: Whether the node watches for termination and Spot notices.
        runs_jobs: Whether users start jobs on it by the log group.
        directory: LDAP directory of the node's users, with its password in Secrets Manager; None: none.
        metadata_users: Users who reach the instance metadata service, by name or number; empty for all.
        user_parts: The user's own parts, which run after the library's. The node is ready only when they are done, and
            fails if one of their scripts fails.
        files: Additional static files.
    """

    fleet_name: str
    region: str | None = None
    launch_hook_name: str | None = None
    terminate_hook_name: str | None = None
    boot_deadline_seconds: int = 900
    drain_deadline_seconds: int = 90
    drain_at: datetime | None = None
    log_group_name: str | None = None
    inspection_seconds: int = 0
    replacements_per_hour: int = 0
    evidence_uri: str | None = None
    orchestrator: str | None = None
    slurm_bin: str | None = None
    scales: bool = False
    node_config: str = ""
    accelerator_kind: str | None = None
    accelerator_count: int = 0
    gpu_facts: GpuFacts | None = None
    efa_interface_count: int = 0
    processes_per_node: int | None = None
    instance_family: str | None = None
    nccl_environment: Mapping[str, str | None] = field(default_factory=dict)
    extra_environment: Mapping[str, str] = field(default_factory=dict)
    huge_pages: int | None = None
    mig: MigSettings | None = None
    mounts: tuple[Mount, ...] = ()
    lustre_efa: LustreEfa | None = None
    scratch: ScratchSettings | None = None
    checkpoint_environment: Mapping[str, str] = field(default_factory=dict)
    watch: NodeWatch = field(default_factory=NodeWatch)
    exporters: NodeExporters | None = None
    watch_drain: bool = True
    runs_jobs: bool = False
    directory: UserDirectory | None = None
    metadata_users: tuple[str, ...] = ()
    user_parts: tuple[UserDataPart, ...] = ()
    files: tuple[NodeFile, ...] = ()

    def __post_init__(self) -> None:
        kind = self.accelerator_kind
        # A str-based Enum formats as its member name on Python 3.12 and later.
        object.__setattr__(self, "accelerator_kind", kind.value if isinstance(kind, Enum) else kind)
        if self.accelerator_kind not in (None, "gpu", "neuron"):
            raise ValueError(f"accelerator_kind must be 'gpu', 'neuron' or None, got {kind!r}")
        if (self.accelerator_kind is None) != (self.accelerator_count == 0):
            raise ValueError(f"accelerator_kind {kind!r} does not go with accelerator_count {self.accelerator_count}")


def default_nccl_environment(settings: NodeSettings) -> dict[str, str]:
    """The NCCL and libfabric variables of a node before the user's own.

    Those of the catalogue (`nccl_variables`), each with its source. Trainium uses the Neuron collectives instead of
    NCCL, and has none.
    """
    if settings.accelerator_kind != "gpu":
        return {}
    family, efa = settings.instance_family, settings.efa_interface_count > 0
    return {one.name: one.value for one in nccl_variables() if one.is_for(family=family, efa=efa)}


def nccl_environment(settings: NodeSettings) -> dict[str, str]:
    """The NCCL and libfabric variables of a node: the defaults with the user's changes."""
    merged = {**default_nccl_environment(settings), **settings.nccl_environment}
    return {name: value for name, value in sorted(merged.items()) if value is not None}


def check_settings(settings: NodeSettings) -> list[Finding]:
    """Find errors in the fleet's name, the environment, files, mounts, and the user's own parts."""
    return [
        *_check_text(settings.fleet_name, what="the fleet's name", path="fleet_name"),
        *_check_environment(settings),
        *chain.from_iterable(_check_user(user) for user in settings.metadata_users),
        *_check_parts(settings),
        *check_files(settings.files),
        *check_watch(settings.watch),
        *_check_exporters(settings),
        *([] if settings.directory is None else check_directory(settings.directory)),
        *check_storage(
            settings.mounts,
            settings.scratch,
            checkpoint_directory=settings.checkpoint_environment.get("CHECKPOINT_DIR"),
        ),
    ]


def _check_exporters(settings: NodeSettings) -> list[Finding]:
    if settings.exporters is None:
        return []
    watch = settings.watch
    return check_exporters(
        settings.exporters,
        accelerator=settings.accelerator_kind,
        orchestrator=settings.orchestrator,
        ports={"watch.health_port": watch.health_port, "watch.metrics_port": watch.metrics_port},
    )


def _check_text(value: str, *, what: str, path: str) -> list[Finding]:
    """Find a text that the settings cannot hold: of several lines, unprintable, or beyond ASCII."""
    if value.isascii() and value.isprintable():
        return []
    culprit = next(letter for letter in value if not (letter.isascii() and letter.isprintable()))
    return [
        ENVIRONMENT.finding(
            cause=f"{what} must be one line of printable ASCII text",
            got=repr(culprit),
            allowed="printable ASCII characters",
            fix=f"remove {culprit!r}, or set the value in a script of the node",
            path=path,
        )
    ]


def _check_user(name: str) -> list[Finding]:
    """Find what is no user of a node: the settings hold names and numbers, separated by blanks."""
    if re.fullmatch(USER_PATTERN, name):
        return []
    return [
        ENVIRONMENT.finding(
            cause="it is not the name or the number of a user",
            got=repr(name),
            allowed="letters, digits, '.', '_', '@' and '-', such as ubuntu or 1000; '*' for all users",
            fix="name a user that the image has",
            path="metadata_users",
        )
    ]


def _check_environment(settings: NodeSettings) -> list[Finding]:
    findings = []
    given = {
        "nccl_environment": settings.nccl_environment,
        "extra_environment": settings.extra_environment,
        "checkpoint_environment": settings.checkpoint_environment,
    }
    for where, variables in given.items():
        for name, value in variables.items():
            path = f"{where}.{name}"
            if not _NAME.fullmatch(name):
                findings.append(
                    ENVIRONMENT.finding(
                        cause="not the name of an environment variable",
                        got=repr(name),
                        allowed="ASCII letters, digits and underscores, no digit first",
                        fix="rename it, such as NCCL_DEBUG",
                        path=path,
                    )
                )
            findings += _check_text(value or "", what="the value", path=path)
            # On AWS Batch, jobs get the variables, too.
            in_task = settings.orchestrator == "batch"
            findings += [] if value is None else check_variable(name, value, path=path, in_task=in_task)
    return findings


def _check_parts(settings: NodeSettings) -> list[Finding]:
    findings = []
    for index, part in enumerate(settings.user_parts):
        path = f"user_parts[{index}]"
        beginning = _BEGINNINGS.get(part.content_type)
        if beginning is None:
            findings.append(
                USER_PART.finding(
                    cause="cloud-init does not handle this content type",
                    got=part.content_type,
                    allowed=", ".join(_BEGINNINGS),
                    path=path,
                )
            )
        elif not part.body.startswith(beginning):
            findings.append(
                USER_PART.finding(
                    cause=f"a {part.content_type} part begins with {beginning!r}",
                    fix=f"put {beginning!r} at the very start of the body",
                    path=path,
                )
            )
        if not part.body.isascii():
            culprit = next(character for character in part.body if not character.isascii())
            findings.append(
                USER_PART.finding(
                    cause="the part holds a character beyond ASCII, which a 7bit MIME part cannot carry",
                    got=repr(culprit),
                    fix="write it in ASCII, or fetch the file from an asset",
                    path=path,
                )
            )
    return findings


def check_watch(watch: NodeWatch) -> list[Finding]:
    """Find values that the watchdog cannot use, and invalid unit names."""
    findings = [
        WATCH.finding(cause=f"{name} is out of range", got=str(value), allowed=f"{low} to {high}", path=f"watch.{name}")
        for name, (low, high) in WATCH_RANGES.items()
        for value in [getattr(watch, name)]
        if not (isinstance(value, int) and low <= value <= high)
    ]
    findings += _check_health(watch)
    findings += _check_text(watch.maintenance, what="the reason of the maintenance", path="watch.maintenance")
    return findings + [
        WATCH.finding(
            cause="not the name of a systemd unit",
            got=repr(unit),
            allowed="such as training.service",
            path=f"watch.job_units[{index}]",
        )
        for index, unit in enumerate(watch.job_units)
        if not _UNIT.fullmatch(unit)
    ]


def _check_health(watch: NodeWatch) -> list[Finding]:
    """Find a port or ranges at which `/healthz` cannot be reached."""
    findings, path = _check_metrics(watch), "watch.health_port"
    port, is_off = watch.health_port, watch.health_port == 0 or watch.mode is WatchMode.OFF
    if port != 0 and not _LEAST_PORT <= port <= _GREATEST_PORT:
        allowed = f"0, or {_LEAST_PORT} to {_GREATEST_PORT}"
        findings.append(WATCH.finding(cause="not a port of a program", got=str(port), allowed=allowed, path=path))
    if watch.health_from and is_off:
        findings.append(
            WATCH.finding(
                cause="health_from admits clients, but nothing would answer them",
                got=f"mode {watch.mode.value}, port {port}",
                fix="leave health_from out, or let the watchdog run with a port",
                path="watch.health_from",
            )
        )
    return findings + [
        WATCH.finding(
            cause="not a CIDR range of IPv4 addresses",
            got=repr(one),
            allowed="such as 10.0.1.0/24",
            path=f"watch.health_from[{index}]",
        )
        for index, one in enumerate(watch.health_from)
        if not _is_range(one)
    ]


def _check_metrics(watch: NodeWatch) -> list[Finding]:
    port, path = watch.metrics_port, "watch.metrics_port"
    if port != 0 and not _LEAST_PORT <= port <= _GREATEST_PORT:
        allowed = f"0, or {_LEAST_PORT} to {_GREATEST_PORT}"
        return [WATCH.finding(cause="not a port of a program", got=str(port), allowed=allowed, path=path)]
    if port and port == watch.health_port:
        allowed = "a port of its own, such as 9810"
        return [WATCH.finding(cause="/healthz has this port", got=str(port), allowed=allowed, path=path)]
    if port and watch.mode is WatchMode.OFF:
        fix = "leave metrics_port out, or let the watchdog run"
        cause = "the watchdog serves /metrics, and it is off"
        return [WATCH.finding(cause=cause, got=f"mode {watch.mode.value}, port {port}", fix=fix, path=path)]
    return []


def _is_range(text: str) -> bool:
    try:
        IPv4Network(text)
    except ValueError:
        return False
    return "/" in text
