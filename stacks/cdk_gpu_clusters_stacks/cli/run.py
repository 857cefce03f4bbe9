"""`gpu-clusters run`: start a job on all nodes of a fleet, and follow it."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Annotated

import typer

from cdk_gpu_clusters.catalogue.kubernetes import image as catalogue_image
from cdk_gpu_clusters.errors import raise_for
from cdk_gpu_clusters.node.gpunode.fleet_jobs.request import JobRequest, RequestError, as_text, read_request, with_files
from cdk_gpu_clusters.rules.secrets import check_container_secrets
from cdk_gpu_clusters_stacks import terminal
from cdk_gpu_clusters_stacks.counting import count
from cdk_gpu_clusters_stacks.jobs.client import JobError, new_job_id
from cdk_gpu_clusters_stacks.spec.model import ORCHESTRATORS
from cdk_gpu_clusters_stacks.spec.planned_fleet import planned_fleets
from cdk_gpu_clusters_stacks.stack_names import training_stack

from . import output
from .account import Profile
from .group import examples, new_app
from .jobs import Fleet, Region, connected, watch

if TYPE_CHECKING:
    from cdk_gpu_clusters_stacks.jobs.fleet import JobFleet
    from cdk_gpu_clusters_stacks.spec import ClusterSpec

app = new_app()


class Orchestrator(str, Enum):
    """What starts the job on the nodes."""

    EC2 = "ec2"
    EKS = "eks"
    SLURM = "slurm"


@app.command(
    epilog=examples(
        "gpu-clusters run trainers --files . -- torchrun train.py",
        "gpu-clusters run trainers --no-container -- env",
        then="Exit status: that of the job, 130 if it was stopped, 2 if it cannot start. Ctrl-C leaves it running.",
    ),
)
def run(
    fleet: Fleet,
    command: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="Program with its arguments, after --.")],
    nodes: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Nodes that the job takes. Default: all of the fleet.")
    ] = None,
    image: Annotated[
        str | None, typer.Option(metavar="IMAGE", help="Container image. Default: AWS's image with PyTorch and EFA.")
    ] = None,
    no_container: Annotated[
        bool, typer.Option("--no-container", help="Run on the node itself, as on an image with PyTorch.")
    ] = False,
    files: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder to send to all nodes: the job starts in it.")
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Variable of the ranks; repeat it. No secrets.")
    ] = None,
    checkpoints: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Folder of checkpoints on the nodes. Default: CHECKPOINT_DIR.")
    ] = None,
    max_restarts: Annotated[
        int, typer.Option(min=0, metavar="N", help="Restarts after failures; a lost node does not count.")
    ] = 3,
    processes: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Processes of a node. Default: one for each accelerator.")
    ] = None,
    grace: Annotated[int, typer.Option(min=0, max=3000, metavar="SECONDS", help="From SIGTERM to SIGKILL.")] = 60,
    on: Annotated[
        Orchestrator | None,
        typer.Option(
            help="Orchestrator. Default: that of the cluster file, or plain EC2. FLEET is a partition of Slurm."
        ),
    ] = None,
    cluster_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Cluster file of the fleet; on EKS it is needed, on AWS PCS it names the partition."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be submitted.")] = False,
    not_secret: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Variable or option that only looks like a secret.")
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Do not follow the job.")] = False,
    region: Region = None,
    profile: Profile = None,
) -> None:
    """Run a job on all nodes of a plain EC2 fleet, and follow it; or submit it to EKS or Slurm.

    Each node gets its rank, the address of the first one, and the settings of NCCL and EFA, so that
    `torchrun train.py` needs no more. The job starts when its nodes are in service, goes on when this terminal closes,
    and starts again from its newest checkpoint when a node is replaced.
    """
    if image is not None and no_container:
        output.refuse("run: --image and --no-container exclude each other")
    request = JobRequest(
        job_id=new_job_id(datetime.now(UTC)),
        command=tuple(command),
        nodes=nodes or 1,
        image=image or "",
        environment=_variables(env or []),
        max_restarts=max_restarts,
        grace_seconds=grace,
        processes_per_node=processes or 0,
        checkpoint_directory=checkpoints or "",
    )
    _check(request, not_secret or [])
    cluster = None if cluster_file is None else output.read(cluster_file)
    if cluster is not None and ORCHESTRATORS[cluster.orchestrator].joins_batch:
        output.refuse(f"run: {_ON_BATCH.format(stack=training_stack(cluster.name, fleet))}")
    where = on or _orchestrator(cluster)
    if where is not Orchestrator.EC2:
        if files is not None:
            output.refuse("run: --files needs a plain EC2 fleet: use an image, or a file system that all nodes share")
        if nodes is None:
            output.refuse(f"run: give --nodes: {where.value} does not say how many nodes the job takes")
        _submit(where, request, fleet, cluster, no_container=no_container, dry_run=dry_run)
        return
    packed = _pack(files)
    with connected(fleet, region, profile) as jobs:
        request = replace(
            request,
            nodes=nodes or _size(jobs.fleet),
            image="" if no_container else image or _image(jobs.fleet),
        )
        if dry_run:
            output.write(f"{as_text(with_files(request, packed))}\n")
            return
        try:
            with terminal.progress("sending the files" if packed else "requesting the job") as on_sent:
                submitted = jobs.submit(request, packed, on_sent=on_sent)
        except JobError as fault:
            output.refuse(f"run: {fault}")
        if submitted.replaced is not None:
            other = submitted.replaced.described
            output.write(f"{other} in the same moment: {request.job_id} takes its place\n", stderr=True)
        target = f"{count(request.nodes, 'node')} of {jobs.fleet.names[0]}"
        output.write(f"{request.job_id} is requested on {target}\n", stderr=True)
        if not detach:
            output.leave(watch(jobs, request.job_id, request.nodes, submitted.command_id))
    output.write(f"{request.job_id}\n")


_ON_BATCH = (
    "AWS Batch has the job of a fleet: submit it with the command that the output SubmitCommand of the stack {stack} "
    "prints, and change its image and command in batch.jobs"
)


def _orchestrator(cluster: ClusterSpec | None) -> Orchestrator:
    if cluster is None:
        return Orchestrator.EC2
    if cluster.slurm_section is not None or ORCHESTRATORS[cluster.orchestrator].is_hyperpod_slurm:
        return Orchestrator.SLURM
    if ORCHESTRATORS[cluster.orchestrator].joins_hyperpod:
        output.refuse("run: start jobs of a HyperPod cluster on Amazon EKS with its own command: hyp create")
    return Orchestrator(cluster.orchestrator)


def _partition(fleet: str, cluster: ClusterSpec | None) -> str:
    """The partition of Slurm that runs the job: the queue of that name, or the first one that has the fleet."""
    if cluster is not None and ORCHESTRATORS[cluster.orchestrator].is_hyperpod_slurm:
        partitions_of = {one.name: str(one.partition) for one in planned_fleets(cluster)}
        if fleet not in {**partitions_of, **dict.fromkeys(partitions_of.values())}:
            known = ", ".join(dict.fromkeys(partitions_of.values()))
            output.refuse(f"run: the cluster file has no fleet or partition {fleet}; partitions: {known}")
        return partitions_of.get(fleet, fleet)
    section = None if cluster is None else cluster.slurm_section
    if cluster is None or section is None:
        return fleet
    queues, fleets = section.queues, [*cluster.training.fleets]
    # ParallelCluster gives each fleet a queue of its own, beside those of the file.
    partitions = [*queues] or fleets if section is cluster.pcs else [*dict.fromkeys([*fleets, *queues])]
    of_fleet = [name for name, queue in queues.items() if fleet in queue.fleets]
    if fleet not in partitions and not of_fleet:
        output.refuse(f"run: the cluster file has no fleet or queue {fleet}; partitions: {', '.join(partitions)}")
    return fleet if fleet in partitions else of_fleet[0]


def _submit(
    where: Orchestrator,
    request: JobRequest,
    fleet: str,
    cluster: ClusterSpec | None,
    *,
    no_container: bool,
    dry_run: bool,
) -> None:
    """Hand a job to an orchestrator, by its own program; print it where that is missing, or with --dry-run."""
    if where is Orchestrator.SLURM:
        from cdk_gpu_clusters_stacks.jobs.slurm import sbatch_script

        text, program = sbatch_script(request, _partition(fleet, cluster)), ["sbatch"]
    else:
        from cdk_gpu_clusters_stacks.jobs.kubernetes import ManifestError, job_manifest

        if cluster is None or no_container:
            output.refuse("run: on EKS a job needs --cluster-file, and runs in a container")
        try:
            text, program = job_manifest(request, cluster, fleet), ["kubectl", "apply", "-f", "-"]
        except ManifestError as fault:
            output.refuse(f"run: {fault}")
    if dry_run:
        output.write(text)
        return
    found = which(program[0])
    if found is None:
        output.refuse(f"run: {program[0]} is not installed here: use --dry-run, and submit the text where it is")
    done = subprocess.run([found, *program[1:]], input=text, text=True, check=False)
    output.leave(2 if done.returncode else 0)


def _variables(given: list[str]) -> dict[str, str]:
    found = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name.isidentifier() or not name.isascii():
            output.refuse(f"run: --env takes NAME=VALUE, got {one.partition('=')[0]}")
        if "\n" in value:
            output.refuse(f"run: --env {name}: a variable of a job has one line")
        found[name] = value
    return found


def _pack(folder: Path | None) -> bytes:
    from cdk_gpu_clusters_stacks.jobs.files import FilesError, pack

    if folder is None:
        return b""
    try:
        return pack(folder)
    except FilesError as fault:
        output.refuse(f"run: {fault}")


def _size(fleet: JobFleet) -> int:
    if not fleet.size:
        output.refuse(f"run: {fleet.names[0]} has no nodes now: give --nodes, and the job starts when they are there")
    return fleet.size


def _image(fleet: JobFleet) -> str:
    """AWS's image with PyTorch, NCCL and EFA, for nodes with GPUs."""
    from cdk_gpu_clusters.catalogue.instances import AcceleratorKind, Architecture, instance_type, instance_types

    for name in sorted(fleet.instance_types & set(instance_types())):
        accelerator = instance_type(name).accelerator
        if accelerator is None or accelerator.kind is not AcceleratorKind.GPU:
            output.refuse(f"run: {name} has no NVIDIA GPU: give --image with an image for it, or --no-container")
        # It is built for x86_64 only (aws/deep-learning-containers, .github/config/image/pytorch/2.13-ec2-cuda.yml:
        # arch_type).
        if instance_type(name).architecture is not Architecture.X86_64:
            output.refuse(f"run: {name} is of arm64, and AWS's image of x86_64: give --image, or --no-container")
    return catalogue_image("pytorch").reference


# Everyone who may list jobs reads a request.
_OF_JOB = (
    "keep it in Secrets Manager or SSM Parameter Store, and fetch it in the program: the fleet needs "
    "metadata_users=['gpu-job'] and a role that may read it; if it is no secret, add --not-secret {name}"
)


def _check(request: JobRequest, not_secret: list[str]) -> None:
    try:
        read_request(as_text(request))
    except RequestError as fault:
        output.refuse(f"run: {fault}")
    raise_for(check_container_secrets(request.environment, request.command, not_secret=not_secret, fix=_OF_JOB))
