"""The sbatch script of a job: what `gpu-clusters run --on slurm` submits."""

from __future__ import annotations

import re
import shlex

from cdk_gpu_clusters.node.gpunode.fleet_jobs.request import JobRequest

_PORT = 29500
# A registry has a dot or a port, or is localhost (distribution/reference, grammar of names).
_REGISTRY = re.compile(r"(?P<registry>(?:[^/]*[.:][^/]*|localhost))/(?P<image>.+)")


def sbatch_script(request: JobRequest, partition: str) -> str:
    """A script for `sbatch` that runs a job on entire nodes, and again after a node is lost.

    Sources: sbatch(1) and srun(1), `--requeue`, `--open-mode`, `--signal`, `--kill-on-bad-exit`; PyTorch documentation,
    torchrun (variables PET_...); NVIDIA/pyxis, README (`--container-image`).

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
        "signal": f"TERM@{max(1, request.grace_seconds)}",
    }
    step = shlex.join(["srun", "--kill-on-bad-exit=1", "--label", *_container(request)])
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
            'MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
            f"export MASTER_ADDR MASTER_PORT={_PORT} NNODES=$SLURM_JOB_NUM_NODES",
            "export PET_MASTER_ADDR=$MASTER_ADDR PET_MASTER_PORT=$MASTER_PORT PET_NNODES=$NNODES",
            f"export PET_NPROC_PER_NODE={processes} PET_TEE=3",
            f"{step} {ranked} {shlex.join(request.command)}",
            "",
        ]
    )


def _container(request: JobRequest) -> list[str]:
    if not request.image:
        return []
    found = _REGISTRY.fullmatch(request.image)
    image = f"{found['registry']}#{found['image']}" if found else request.image
    folder = request.checkpoint_directory
    return [f"--container-image={image}", *([f"--container-mounts={folder}:{folder}"] if folder else [])]
