"""Settings of slurm.conf and cgroup.conf that every Slurm with GPU nodes gets, and how a user's own join them."""

from __future__ import annotations

from collections.abc import Mapping

#: What happens to jobs whose node fails. Source: slurm.conf(5), each by its name.
JOB_SETTINGS: Mapping[str, str] = {
    # On all nodes when the job gets them, not when its first step reaches them. A value replaces that of AWS PCS, which
    # is "Contain, Alloc" for its step manager (AWS PCS user guide, "Release notes for Slurm versions", 24.05): without
    # Contain, slurmctld ends with "STEP_MGR not supported" (SchedMD/slurm, src/slurmctld/read_config.c).
    "PrologFlags": "Alloc,Contain",
    "JobRequeue": "1",
    # Without the first, a job whose prolog failed is requeued, but held until somebody releases it. The second lets a
    # job whose node was terminated by its boot checks wait for another one.
    "SchedulerParameters": "nohold_on_prolog_fail,requeue_on_resume_failure",
}
#: Settings of `cgroup.conf`. Neither AWS PCS nor Slinky limits a job to its devices by itself: without this, a job can
#: use all GPUs and MIG slices of its nodes (AWS PCS user guide, "Configuring Multi-Instance GPU (MIG) in AWS PCS",
#: Limitations; cgroup.conf(5), ConstrainDevices). Devices that are no GRES, such as those of EFA, stay open to every
#: job.
CGROUP_SETTINGS: Mapping[str, str] = {"ConstrainDevices": "yes"}

_LISTS = ("PrologFlags", "SchedulerParameters")


def merged_settings(ours: Mapping[str, str], own: Mapping[str, str] | None) -> dict[str, str]:
    """Our settings with those of the user, who has the last word; lists of words are joined.

    Args:
        ours: Settings of this library.
        own: The user's settings by their names in slurm.conf; None if there are none.

    Example:
        >>> merged_settings(JOB_SETTINGS, {"PrologFlags": "X11", "JobRequeue": "0"})["PrologFlags"]
        'Alloc,Contain,X11'
    """
    merged = {**ours, **(own or {})}
    for name in _LISTS:
        merged[name] = _joined(ours[name], merged[name])
    return merged


def _joined(ours: str, own: str) -> str:
    """Two lists of words in one. Slurm reads the first `name=value` of a name: the user's replaces ours."""
    given = {word.partition("=")[0] for word in own.split(",") if "=" in word}
    kept = [word for word in ours.split(",") if word.partition("=")[0] not in given]
    return ",".join(dict.fromkeys(word for word in [*kept, *own.split(",")] if word))
