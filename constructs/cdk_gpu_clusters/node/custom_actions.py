"""The custom actions of AWS ParallelCluster: scripts by which its nodes get the node software and its boot checks.

One script for each kind of nodes holds all that they need, so that nothing but its own object in S3 has to be there. It
runs twice: as `OnNodeStart` with the argument `start`, before ParallelCluster sets the node up and mounts its shared
storage, and as `OnNodeConfigured` with `configured`, before slurmd starts. A failure of the second ends the instance,
and ParallelCluster launches another one.

What only a deployment knows is an argument of the second, so that the text of a script is known before.

Sources: aws-parallelcluster 3.16.1, resources/compute_node/user_data.sh (`fetch_and_run -postinstall`, then
`aws-parallelcluster-entrypoints::finalize`; a failure of either shuts the instance down);
aws/aws-parallelcluster-cookbook @ f75d84c, recipes/finalize/finalize_compute.rb (starts slurmd) and
recipes/config/config_health_check.rb (folders of prologs and epilogs),
libraries/helpers.rb (file with the name of a node), and resources/nvidia_dcgm (the package alone).
"""

from __future__ import annotations

from cdk_gpu_clusters.node.settings import NodeSettings
from cdk_gpu_clusters.node.slurm_settings import EPILOG_FOLDER, PROLOG_FOLDER
from cdk_gpu_clusters.node.software import inline_archive, late_files, read_file
from cdk_gpu_clusters.node.user_data import CHECK_LINES, setting_files, unit_lines, user_data_files

_END = "gpu-cluster-end"
_UNITS, _LUSTRE = "/etc/systemd/system", "gpu-lustre-efa"
_SETTINGS = "/etc/gpu-cluster/node.env"
_SESSIONS = "/etc/profile.d/gpu-cluster.sh"
# ParallelCluster writes it before the custom action: <queue>-st-<compute resource>-<number>, or -dy-.
_NODE_NAME = "/etc/parallelcluster/slurm_plugin/slurm_nodename"
# The shared folder of Slurm; every node has it.
_SHARED = "/opt/slurm/etc/scripts"
_HOOKS = (("prolog.d", PROLOG_FOLDER), ("epilog.d", EPILOG_FOLDER))


def compute_node_script(settings: NodeSettings) -> str:
    """The custom action of compute nodes.

    Args:
        settings: What the nodes are and what they have to do; texts are known at synthesis.

    Returns:
        A script for Bash, the same for the same settings, with an argument: `start` or `configured`. The second may
        be followed by variables for logins and jobs, such as `CHECKPOINT_S3_URI=s3://bucket/prefix`.

    Example:
        >>> script = compute_node_script(NodeSettings(fleet_name="train", orchestrator="slurm"))
        >>> script.splitlines()[0], "gpu-node-boot" in script
        ('#!/bin/bash', True)
    """
    lines = [
        "#!/bin/bash",
        f"# Custom action of AWS ParallelCluster for nodes of {settings.fleet_name}, written by gpu-clusters export.",
        "#   OnNodeStart, start: installs the node software",
        "#   OnNodeConfigured, configured: checks the node before slurmd starts; a failure ends the instance",
        "set -u",
        'case "${1:-}" in',
        "start)",
        *_start(settings),
        "  ;;",
        "configured)",
        *_configured(settings),
        "  ;;",
        '*) echo "usage: $0 start|configured" >&2; exit 2 ;;',
        "esac",
    ]
    return "\n".join([*lines, ""])


def _start(settings: NodeSettings) -> list[str]:
    # One archive: the whole software is a quarter of a megabyte.
    archive = inline_archive((*user_data_files(settings), *late_files()))
    lines = [f"base64 -d <<'{_END}' | tar -xzC / || exit 1", archive, _END]
    files = setting_files(settings)
    lines.append(f"mkdir -p {' '.join(sorted({path.rpartition('/')[0] for path in files}))}")
    for path, text in files.items():
        lines += [f"cat >{path} <<'{_END}'", *text, _END]
    # Without the user of jobs, only jobs of `gpu-clusters run` would fail.
    lines += ["systemd-sysusers gpu-job.conf || true", "systemctl daemon-reload"]
    if settings.lustre_efa is not None:
        # Before ParallelCluster mounts: later it would find a network that is in use. Without EFA, Lustre uses TCP.
        lines += [
            f"cat >{_UNITS}/{_LUSTRE}.service <<'{_END}'",
            *read_file(f"files/{_LUSTRE}.service").splitlines(),
            _END,
        ]
        lines += [f"systemctl enable {_LUSTRE}", f"systemctl start {_LUSTRE} || echo 'Lustre uses TCP, not EFA' >&2"]
    return lines


def _configured(settings: NodeSettings) -> list[str]:
    return [
        # What the watchdog and the drain call the node.
        f"NAME=$(cat {_NODE_NAME}) || exit 1",
        f'echo "GPU_NODE_NAME=$NAME" >>{_SETTINGS}',
        f"echo GPU_REPLACES_DRAINED=1 >>{_SETTINGS}",
        # A dynamic node of a queue that has static ones, too: its drain would stay with its name, and the next instance
        # would end at once. Slurm powers it down in its place, as nodes that only come and go.
        f"case $NAME in {settings.fleet_name}-dy-*) echo GPU_SCALES=1 >>{_SETTINGS} ;; esac",
        # Its images have DCGM, and nothing starts its engine before the first check of theirs (gpu_health_check.sh).
        *(["systemctl enable --now nvidia-dcgm || true"] if settings.accelerator_kind == "gpu" else []),
        'for given in "${@:2}"; do',
        # The environment of the cluster file wins.
        f'  grep -qs "^export ${{given%%=*}}=" {_SESSIONS} ||',
        f"""    printf 'export %s=%q\\n' "${{given%%=*}}" "${{given#*=}}" >>{_SESSIONS}""",
        "done",
        *unit_lines(settings),
        # ParallelCluster keeps the output of custom actions in the log of the node.
        *CHECK_LINES,
    ]


def head_node_script() -> str:
    """The custom action of the head node, `OnNodeConfigured`: prolog and epilog of the nodes that have the software.

    ParallelCluster sets `Prolog` and `Epilog` itself, to folders that all nodes share. Nodes without the
    software pass. The text must never change: ParallelCluster refuses every update with another action of the head node
    (aws-parallelcluster 3.16.1, HeadNodeCustomActionsSchema).

    Example:
        >>> "/opt/slurm/etc/scripts/prolog.d/50-gpu-cluster" in head_node_script()
        True
    """
    lines = [
        "#!/bin/bash",
        "# Custom action of AWS ParallelCluster for the head node, written by gpu-clusters export.",
        "set -eu",
    ]
    for shared, own in _HOOKS:
        program, hook = f"{own}/90-gpu-cluster", f"{_SHARED}/{shared}/50-gpu-cluster"
        lines += [
            f"mkdir -p {_SHARED}/{shared}",
            f"cat >{hook} <<'{_END}'",
            "#!/bin/sh",
            f"if [ -x {program} ]; then exec {program}; fi",
            _END,
            f"chmod 0755 {hook}",
        ]
    return "\n".join([*lines, ""])
