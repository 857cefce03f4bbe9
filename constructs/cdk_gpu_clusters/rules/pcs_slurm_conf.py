"""Custom settings of AWS PCS that Slurm takes one by one, and refuses together: its controller ends when it starts.

AWS PCS checks each setting by itself. A combination fails only when PCS applies it (user guide, "Configuring custom
Slurm settings in AWS PCS"). Every combination here was given to a real slurmctld of Slurm 24.11 and 26.05
(`tests/slurm/test_slurm_conf.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cdk_gpu_clusters.errors import Finding, Severity, check, define_rule

_SLURM = "SchedMD/slurm @ 284c3b9"

STARTS = define_rule(
    "GPU-PCS-040",
    "the custom settings of a PCS cluster are ones with which Slurm's controller starts",
    source=f"{_SLURM}, src/common/read_config.c and src/slurmctld/controller.c: fatal errors; seen with slurmctld "
    "24.11.5 and 26.05.5",
)
STEP_MANAGER = define_rule(
    "GPU-PCS-041",
    "PrologFlags of a PCS cluster have Contain",
    source=f'{_SLURM}, src/slurmctld/read_config.c: "STEP_MGR not supported without PrologFlags=contain"; AWS PCS '
    'user guide, "Release notes for Slurm versions in AWS PCS", 24.05: the step manager is on by default. The example '
    'of its page on NVIDIA IMEX, "Alloc,NoHold", has no Contain',
)
DEVICES = define_rule(
    "GPU-PCS-043",
    "a job sees the GPUs and MIG slices that it was given, and no others",
    source='AWS PCS user guide, "Configuring Multi-Instance GPU (MIG) in AWS PCS", Limitations: AWS PCS does not '
    'constrain device access through cgroups; "Configuring custom cgroup settings in AWS PCS"; cgroup.conf(5). '
    "awslabs/awsome-distributed-ai @ 95b939c, architectures/aws-pcs/tests, calls ConstrainDevices=yes the default",
)

# src/common/read_config.c: MAX_BATCH_SCRIPT_SIZE and MAX_MAX_SUBMIT_LINE_SIZE, as slurmctld prints them.
_MOST_BYTES = {"max_script_size": 536_870_912, "max_submit_line_size": 2_097_152}
# src/common/read_config.c, prolog_str2flags: flags that imply Contain.
_CONTAINING = {"contain", "runinjob", "x11"}
_PLAIN_TRES = ("billing", "cpu", "energy", "mem", "node", "pages", "vmem")
_NAMED_TRES = ("bb", "fs", "gres", "ic", "license")
# src/common/read_config.h, DEFAULT_ACCOUNTING_TRES: it needs no database.
_ALWAYS_ACCOUNTED = "fs/disk"
# src/common/parse_value.c, s_p_handle_boolean.
_TRUE = ("yes", "up", "true", "1")


@check
def check_controller_starts(settings: Mapping[str, str], *, accounting: bool | None = None) -> Iterator[Finding]:
    """Find settings of a cluster with which Slurm's controller ends when it starts.

    Args:
        settings: Names and values of all settings of `slurm.conf` at the level of the cluster.
        accounting: Whether PCS keeps an accounting database; None if it is not known.
    """
    yield from _prolog_flags(settings)
    yield from _preemption(settings)
    yield from _scheduler_sizes(settings)
    yield from _accounted(settings, accounting=accounting)
    if {"enable_nss_slurm", "disable_send_gids"} <= _words(settings, "LaunchParameters"):
        yield _ends("LaunchParameters", settings, "one of enable_nss_slurm and disable_send_gids")
    states = _words(settings, "HealthCheckNodeState")
    if "start_only" in states and len(states) > 1:
        yield _ends("HealthCheckNodeState", settings, "START_ONLY alone, or other states")
    if settings.get("FirstJobId", "").strip() == "0":
        yield _ends("FirstJobId", settings, "1 or more")


def _ends(name: str, settings: Mapping[str, str], allowed: str, *, beside: str = "") -> Finding:
    got = f"{name}={settings[name]}" if name in settings else f"no {name}"
    if beside:
        got += f" beside {beside}={settings[beside]}" if beside in settings else f", and no {beside}"
    return STARTS.finding(
        cause="Slurm's controller ends when it starts with this setting: AWS PCS cannot create or update the cluster",
        got=got,
        allowed=allowed,
        fix=f"change {name}, or remove it" if name in settings else f"add {name}",
        path=name if name in settings else beside,
    )


def _words(settings: Mapping[str, str], name: str) -> set[str]:
    """The words of a list, in small letters: Slurm does not tell them apart. A blank is a part of a word."""
    return {word for word in settings.get(name, "").lower().split(",") if word}


def _prolog_flags(settings: Mapping[str, str]) -> Iterator[Finding]:
    flags = _words(settings, "PrologFlags")
    contains = bool(flags & _CONTAINING)
    if contains and "nohold" in flags:
        yield _ends("PrologFlags", settings, "NoHold, or one of Contain, RunInJob and X11, but not both")
    elif flags and not contains:
        yield STEP_MANAGER.finding(
            cause="the step manager, which AWS PCS turns on, needs Contain: Slurm's controller ends when it starts "
            "without it",
            got=f"PrologFlags={settings['PrologFlags']}",
            allowed="Alloc,Contain, with others if needed",
            fix="add Contain, and remove NoHold, which excludes it",
            path="PrologFlags",
            severity=Severity.WARNING,
        )


def _preemption(settings: Mapping[str, str]) -> Iterator[Finding]:
    kind = settings.get("PreemptType", "preempt/none").strip().lower().removeprefix("preempt/")
    modes = _words(settings, "PreemptMode") - {"off"}
    how = modes - {"gang", "within", "priority"}
    if kind == "none" and modes - {"gang"}:
        yield _ends(
            "PreemptMode", settings, "OFF or GANG, or PreemptType preempt/partition_prio or preempt/qos",
            beside="PreemptType",
        )  # fmt: skip
    elif kind != "none" and not how:
        yield _ends("PreemptMode", settings, "CANCEL, REQUEUE, or SUSPEND,GANG", beside="PreemptType")
    elif "suspend" in how and "gang" not in modes:
        yield _ends("PreemptMode", settings, "SUSPEND,GANG")


def _scheduler_sizes(settings: Mapping[str, str]) -> Iterator[Finding]:
    for word in _words(settings, "SchedulerParameters"):
        name, _, value = word.partition("=")
        most = _MOST_BYTES.get(name)
        if most is not None and value.isdecimal() and int(value) > most:
            yield STARTS.finding(
                cause="Slurm's controller ends when it starts with this setting: AWS PCS cannot create or update the "
                "cluster",
                got=word,
                allowed=f"{name} of at most {most}",
                fix=f"give {name} at most {most}",
                path="SchedulerParameters",
            )


def _accounted(settings: Mapping[str, str], *, accounting: bool | None) -> Iterator[Finding]:
    name = "AccountingStorageTRES"
    accounted = _words(settings, name)
    if wrong := sorted(one for one in accounted if not _is_tres(one)):
        kinds = ", ".join([*_PLAIN_TRES, *(f"{one}/<name>" for one in _NAMED_TRES)])
        yield STARTS.finding(
            cause="Slurm's controller ends when it starts with an unknown kind of resource",
            got=f"{name}={', '.join(wrong)}",
            allowed=kinds,
            fix="write gres/gpu for GPUs",
            path=name,
        )
    elif accounting is False and (named := sorted(one for one in accounted if "/" in one and one != _ALWAYS_ACCOUNTED)):
        yield STARTS.finding(
            cause="Slurm's controller ends when it starts with such a resource and no accounting database",
            got=f"{name}={', '.join(named)} without accounting",
            allowed="accounting, or none of these",
            fix="turn accounting on, or remove them",
            path=name,
        )


def _is_tres(word: str) -> bool:
    kind, slash, name = word.partition("/")
    return kind in _NAMED_TRES and bool(name) if slash else kind in _PLAIN_TRES


@check
def check_devices(cgroup_settings: Mapping[str, str], *, has_gres: bool = False) -> Iterator[Finding]:
    """Find nodes on which a job sees the GPUs of other jobs.

    Args:
        cgroup_settings: Custom settings of `cgroup.conf`.
        has_gres: Whether nodes of the cluster are known to have MIG slices or other GRES.
    """
    value = cgroup_settings.get("ConstrainDevices")
    if (value is None and has_gres) or (value is not None and value.lower() not in _TRUE):
        yield DEVICES.finding(
            cause="a job can use all GPUs and MIG slices of its nodes, also those of other jobs",
            got="no ConstrainDevices" if value is None else f"ConstrainDevices={value}",
            allowed="ConstrainDevices=yes",
            fix="set ConstrainDevices to yes in CgroupCustomSettings of the cluster",
            path="ConstrainDevices",
            severity=Severity.WARNING,
        )
