"""What Slurm's controller must know of the node software: cluster settings, as slurm.conf has them."""

from __future__ import annotations

from collections.abc import Mapping

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
    # Without the first, a job whose prolog failed is requeued, but held until somebody releases it. The second is the
    # default of AWS PCS from Slurm 25.05 on (the same release notes), which a value of ours may replace: jobs of a node
    # that was terminated by its boot checks wait for another one.
    "SchedulerParameters": "nohold_on_prolog_fail,requeue_on_resume_failure",
}


def cluster_settings(own: Mapping[str, str] | None = None) -> dict[str, str]:
    """The cluster settings, with those of the user, who has the last word.

    Values of `PrologFlags` and `SchedulerParameters` are joined: both are lists.

    Args:
        own: The user's settings by their names in slurm.conf; none by default.

    Example:
        >>> cluster_settings({"SchedulerParameters": "bf_continue"})["SchedulerParameters"]
        'nohold_on_prolog_fail,requeue_on_resume_failure,bf_continue'
    """
    merged = {**CLUSTER_SETTINGS, **(own or {})}
    for name in ("PrologFlags", "SchedulerParameters"):
        words = [*CLUSTER_SETTINGS[name].split(","), *merged[name].split(",")]
        merged[name] = ",".join(dict.fromkeys(word for word in words if word))
    return merged
