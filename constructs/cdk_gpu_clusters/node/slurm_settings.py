"""What Slurm's controller must know of the node software: cluster settings, as slurm.conf has them."""

from __future__ import annotations

from collections.abc import Mapping

from cdk_gpu_clusters.catalogue.pcs import scheduler_parameters

#: Folders of the prologs and epilogs on every node. A `NodeFile` there runs, too; the one with the last name first.
PROLOG_FOLDER, EPILOG_FOLDER = "/etc/gpu-cluster/prolog.d", "/etc/gpu-cluster/epilog.d"

#: Settings for which AWS PCS accepts a value at the level of the cluster (`rules.pcs.check_slurm_settings`). Source:
#: slurm.conf(5), each by its name.
CLUSTER_SETTINGS: Mapping[str, str] = {
    # Every node of the cluster must have the folders, also one without GPUs: where the pattern matches nothing, slurmd
    # fails the prolog, and the node is drained (seen with Slurm 24.11.5 and 26.05.5, tests/slurm).
    "Prolog": f"{PROLOG_FOLDER}/*",
    "Epilog": f"{EPILOG_FOLDER}/*",
    # On all nodes when the job gets them, not when its first step reaches them. A value replaces that of AWS PCS, which
    # is "Contain, Alloc" for its step manager (AWS PCS user guide, "Release notes for Slurm versions", 24.05): without
    # Contain, slurmctld ends with "STEP_MGR not supported" (SchedMD/slurm, src/slurmctld/read_config.c).
    "PrologFlags": "Alloc,Contain",
    "JobRequeue": "1",
    # Without the first, a job whose prolog failed is requeued, but held until somebody releases it. The second lets a
    # job whose node was terminated by its boot checks wait for another one.
    "SchedulerParameters": "nohold_on_prolog_fail,requeue_on_resume_failure",
}
#: Settings of `cgroup.conf`. AWS PCS does not limit a job to its devices by itself: without this, a job can use all
#: GPUs and MIG slices of its nodes (AWS PCS user guide, "Configuring Multi-Instance GPU (MIG) in AWS PCS", Limitations;
#: cgroup.conf(5), ConstrainDevices). Devices that are no GRES, such as those of EFA, stay open to every job.
CGROUP_SETTINGS: Mapping[str, str] = {"ConstrainDevices": "yes"}

_LISTS = ("PrologFlags", "SchedulerParameters")


def cluster_settings(own: Mapping[str, str] | None = None, *, slurm_version: str | None = None) -> dict[str, str]:
    """The cluster settings, with those of the user, who has the last word.

    Values of `PrologFlags` and `SchedulerParameters` are joined: both are lists. A custom value of the second may
    replace that of AWS PCS, so its words are in it, too.

    Args:
        own: The user's settings by their names in slurm.conf; none by default.
        slurm_version: Version of Slurm of AWS PCS, such as `25.11`. If left out, the words that AWS PCS sets itself
            from Slurm 25.11 on are left out, too.

    Example:
        >>> cluster_settings({"SchedulerParameters": "bf_continue"})["SchedulerParameters"]
        'nohold_on_prolog_fail,requeue_on_resume_failure,bf_continue'
    """
    ours = dict(CLUSTER_SETTINGS)
    if slurm_version is not None:
        ours["SchedulerParameters"] = ",".join([ours["SchedulerParameters"], *scheduler_parameters(slurm_version)])
    merged = {**ours, **(own or {})}
    for name in _LISTS:
        merged[name] = _joined(ours[name], merged[name])
    return merged


def _joined(ours: str, own: str) -> str:
    """Two lists of words in one. Slurm reads the first `name=value` of a name: the user's replaces ours."""
    given = {word.partition("=")[0] for word in own.split(",") if "=" in word}
    kept = [word for word in ours.split(",") if word.partition("=")[0] not in given]
    return ",".join(dict.fromkeys(word for word in [*kept, *own.split(",")] if word))
