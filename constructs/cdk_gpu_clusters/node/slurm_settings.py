"""What Slurm's controller must know of the node software: cluster settings, as slurm.conf has them."""

from __future__ import annotations

from collections.abc import Mapping

from cdk_gpu_clusters.catalogue.pcs import scheduler_parameters
from cdk_gpu_clusters.rules.slurm_conf import JOB_SETTINGS, merged_settings

#: Folders of the prologs and epilogs on every node. A `NodeFile` there runs, too; the one with the last name first.
PROLOG_FOLDER, EPILOG_FOLDER = "/etc/gpu-cluster/prolog.d", "/etc/gpu-cluster/epilog.d"

#: Settings for which AWS PCS accepts a value at the level of the cluster (`rules.pcs.check_slurm_settings`). Source:
#: slurm.conf(5), each by its name.
CLUSTER_SETTINGS: Mapping[str, str] = {
    # Every node of the cluster must have the folders, also one without GPUs: where the pattern matches nothing, slurmd
    # fails the prolog, and the node is drained (seen with Slurm 24.11.5 and 26.05.5, tests/slurm).
    "Prolog": f"{PROLOG_FOLDER}/*",
    "Epilog": f"{EPILOG_FOLDER}/*",
    **JOB_SETTINGS,
}


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
    return merged_settings(ours, own)
