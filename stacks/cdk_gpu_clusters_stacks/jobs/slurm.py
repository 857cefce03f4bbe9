"""The sbatch script of a job: what `gpu-clusters run --on slurm` submits."""

from __future__ import annotations

import re
import shlex

from cdk_gpu_clusters.node.gpunode.fleet_jobs.request import JobRequest

_PORT = 29500
# A registry has a dot or a port, or is localhost (distribution/reference, grammar of names).
_REGISTRY = re.compile(r"(?P<registry>(?:[^/]*[.:][^/]*|localhost))/(?P<image>.+)")


# Before the time limit, at which a job with checkpoints saves its last one and goes back into the queue.
_LEAST_NOTICE_SECONDS = 300
# This script runs on the first node, which has rank 0. Others reach it by its address: AWS PCS has no DNS of the names
# of nodes in Slurm (aws-samples/aws-hpc-recipes, recipes/pcs/cluster_dns). Of many, it is that of the default route.
# 192.0.2.1 is nobody's (RFC 5737), and nothing is sent. Without a route it is the name.
_MASTER = r"""MASTER_ADDR=$(ip -4 route get 192.0.2.1 2>/dev/null | sed -n 's/.* src \([0-9.]*\).*/\1/p' || true)
MASTER_ADDR=${MASTER_ADDR:-$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)}"""
# A step does not get the GPUs that a job has by --exclusive alone (srun(1), --gres), and cannot open them if its
# cluster has ConstrainDevices.
_STEP = 'step=(srun --kill-on-bad-exit=1 --label ${SLURM_GPUS_ON_NODE:+"--gres=gpu:$SLURM_GPUS_ON_NODE"}) inside=()'
# The last lines: `gpunode resume` has the job, or this script waits for it, and passes the notice on. srun would kill
# its tasks at once for SIGTERM; scancel sends it to them. bash runs a trap only when no child runs in the foreground.
_START = """\
if [[ -n ${CHECKPOINT_DIR:-} ]] && command -v gpunode >/dev/null; then
  exec gpunode resume -- "${job[@]}"
fi
trap 'scancel --signal=TERM "$SLURM_JOB_ID"' USR1
"${job[@]}" &
child=$!
wait "$child" && exit
wait "$child"
"""


def sbatch_script(request: JobRequest, partition: str) -> str:
    """A script for `sbatch` that runs a job on entire nodes, and again after a node is lost.

    With checkpoints and `gpunode` on the nodes, `gpunode resume` starts it from the newest complete checkpoint, counts
    its attempts, goes back into the queue before the time limit, and avoids nodes that failed twice. An image runs by
    Pyxis where srun has it, otherwise by Apptainer.

    Sources: sbatch(1) and srun(1), `--requeue`, `--open-mode`, `--signal`, `--kill-on-bad-exit`; PyTorch documentation,
    torchrun (variables PET_...); NVIDIA/pyxis, README (`--container-image`); Apptainer user guide, "GPU Support".

    Args:
        request: The job.
        partition: Partition of its nodes.

    Example:
        >>> job = JobRequest(job_id="20261123-120000-a1b2", command=("torchrun", "train.py"), nodes=2)
        >>> "#SBATCH --nodes=2" in sbatch_script(job, "gpu").splitlines()
        True
    """
    head = {
        "job-name": f"gpu-{request.job_id}",
        "partition": partition,
        "nodes": request.nodes,
        "ntasks-per-node": 1,
        "output": "%x-%j.log",
        "open-mode": "append",
        "signal": f"B:USR1@{max(_LEAST_NOTICE_SECONDS, request.grace_seconds)}",
    }
    # The rank of a node is known on the node only.
    ranked = """bash -c 'export NODE_RANK=$SLURM_NODEID PET_NODE_RANK=$SLURM_NODEID; exec "$@"' job"""
    processes = request.processes_per_node or "${SLURM_GPUS_ON_NODE:-1}"
    return "\n".join(
        [
            "#!/bin/bash",
            *(f"#SBATCH --{name}={value}" for name, value in head.items()),
            # All processors and GPUs of a node, and with --mem=0 all of its memory (sbatch(1)).
            "#SBATCH --exclusive",
            "#SBATCH --mem=0",
            # Slurm starts the job again after a node has failed.
            "#SBATCH --requeue",
            "set -euo pipefail",
            *(f"export {name}={shlex.quote(value)}" for name, value in request.environment.items()),
            *(
                [f"export CHECKPOINT_DIR={shlex.quote(request.checkpoint_directory)}"]
                if request.checkpoint_directory
                else []
            ),
            _MASTER,
            f"export MASTER_ADDR MASTER_PORT={_PORT} NNODES=$SLURM_JOB_NUM_NODES",
            "export PET_MASTER_ADDR=$MASTER_ADDR PET_MASTER_PORT=$MASTER_PORT PET_NNODES=$NNODES",
            f"export PET_NPROC_PER_NODE={processes} PET_TEE=3",
            _STEP,
            *_container(request),
            f'job=("${{step[@]}}" {ranked} "${{inside[@]}}" {shlex.join(request.command)})',
            _START,
        ]
    )


def _container(request: JobRequest) -> list[str]:
    """The lines that put the command into a container, by what the cluster has."""
    if not request.image:
        return []
    found = _REGISTRY.fullmatch(request.image)
    image = f"{found['registry']}#{found['image']}" if found else request.image
    folder = request.checkpoint_directory
    # Else the job begins in the folder of the image, without the files beside its script (NVIDIA/pyxis,
    # pyxis_slurmstepd.c). Apptainer has them by itself (user guide, "Bind Paths and Mounts").
    stored = "," + shlex.quote(f"{folder}:{folder}") if folder else ""
    pyxis = f'{shlex.quote("--container-image=" + image)} --container-mounts="$PWD:$PWD"{stored}'
    bind = ["--bind", folder] if folder else []
    apptainer = ["apptainer", "exec", "--nv", *bind, f"docker://{request.image}"]
    return [
        # Not grep -q: it may end before srun, which a pipe without a reader kills (pipefail).
        "if srun --help 2>&1 | grep container-image >/dev/null; then",
        f'  step+=({pyxis} --container-workdir="$PWD")',
        "elif command -v apptainer >/dev/null; then",
        f"  inside=({shlex.join(apptainer)})",
        "else",
        '  echo "this cluster has neither Pyxis nor Apptainer, so that no job runs in a container" >&2',
        "  exit 1",
        "fi",
    ]
