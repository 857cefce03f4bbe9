"""What a cluster file asks for and the configuration of AWS ParallelCluster has no place for: warnings at its keys."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from cdk_gpu_clusters.rules.parallelcluster import not_exported

from ._document import Fault, Key, faults_at
from ._parts import FleetPart, SpecParts
from .data import CheckpointsSpec, ExistingCheckpointsSpec, StoreSpec
from .fleet import FleetSpec, ImageByOs
from .model import ClusterSpec
from .parallelcluster import ParallelClusterSpec
from .pcs import PcsSpec

#: Key of a fleet -> why it is left out, and what does the same in ParallelCluster.
_OF_FLEETS = {
    "alarms": ("its nodes are no Auto Scaling group", "set Monitoring.Alarms of the configuration"),
    "evidence_bucket": ("the script has no right to write to the bucket", "evidence stays on the nodes"),
    "metadata_users": (
        "daemons of ParallelCluster read the metadata service as users of their own",
        "limit it on the head node: HeadNode.Imds.Secured",
    ),
    "ray": ("Slurm runs jobs, and starts no service on all nodes", "start Ray in a job"),
    "read_only_mounts": (
        "shared storage is mounted in the same way on all nodes",
        "remove the right to write on the server",
    ),
}
_OF_CLUSTER = {
    "monitoring": ("its dashboard, budget and collector are of the stacks of fleets", "see Monitoring of the file"),
    "termination_protection": ("the stacks of fleets are not made", "protect the stack that pcluster makes"),
}
_OF_PCS = {
    "existing": ("ParallelCluster makes a controller of its own", ""),
    "rest_api": ("ParallelCluster does not start slurmrestd", "start it by a custom action of the head node"),
    "metrics": ("ParallelCluster has no such setting", "write MetricsType to CustomSlurmSettings, if its Slurm has it"),
    "users": ("ParallelCluster takes users from a directory", "write DirectoryService"),
    "directory": ("ParallelCluster has a section of its own for it", "write DirectoryService"),
}


def omissions(spec: ClusterSpec) -> Iterator[Fault]:
    """What is left out of the configuration of a cluster of another orchestrator, beside `omissions_of_fleets`.

    Args:
        spec: The cluster.
    """
    for name, (cause, fix) in _OF_CLUSTER.items():
        if name in spec.model_fields_set:
            yield from _omission((name,), cause, fix)
    if isinstance(spec.slurm_section, PcsSpec):
        yield from _of_pcs(spec.slurm_section)
    for name, fleet in spec.training.fleets.items():
        yield from _of_checkpoints(("training", "fleets", name), spec.data.get(fleet.checkpoints or ""))


def omissions_of_fleets(parts: SpecParts) -> Iterator[Fault]:
    """What is left out of the configuration of the fleets of a cluster, each at its key.

    Args:
        parts: The valid parts of its file.
    """
    # Of its own orchestrator, a file with Ray is refused.
    refused = ("ray",) if isinstance(parts.slurm_section, ParallelClusterSpec) else ()
    for part in parts.fleets:
        if isinstance(part.spec, FleetSpec):
            yield from _of_fleet(part, part.spec, refused)


def _of_checkpoints(key: Key, store: StoreSpec | None) -> Iterator[Fault]:
    if isinstance(store, CheckpointsSpec) or (
        isinstance(store, ExistingCheckpointsSpec) and store.existing_checkpoints.encryption_key_arn
    ):
        cause = "the nodes get no right to the key of the bucket"
        fix = "add a policy to Iam.AdditionalIamPolicies of the queue, with kms:Decrypt and kms:GenerateDataKey"
        yield from _omission((*key, "checkpoints"), cause, fix)


def _of_pcs(pcs: PcsSpec) -> Iterator[Fault]:
    for name, (cause, fix) in _OF_PCS.items():
        if getattr(pcs, name) != type(pcs).model_fields[name].get_default():
            yield from _omission(("pcs", name), cause, fix)
    if pcs.existing is None and pcs.accounting.enabled:
        cause = "the accounting of ParallelCluster needs a database of yours"
        yield from _omission(("pcs",), cause, "write Scheduling.SlurmSettings.Database, with its address and secret")
    if len(pcs.login.ssh_cidrs) > 1:
        cause = "SSH is open to one range or prefix list: the first is written"
        yield from _omission(("pcs", "login", "ssh_cidrs"), cause, "write a prefix list to Ssh.AllowedIps")


def _of_fleet(part: FleetPart, fleet: FleetSpec, refused: Collection[str]) -> Iterator[Fault]:
    key = part.key
    for name, (cause, fix) in _OF_FLEETS.items():
        if name in fleet.model_fields_set and name not in refused:
            yield from _omission((*key, name), cause, fix)
    if isinstance(fleet.image, ImageByOs) and fleet.image.framework:
        cause, fix = "images of ParallelCluster have no framework", "run it in containers, or build an image with it"
        yield from _omission((*key, "image", "framework"), cause, fix)
    if not fleet.scratch:
        cause = "ParallelCluster always makes one file system of the local disks"
        yield from _omission((*key, "scratch"), cause, "leave /scratch unused")


def _omission(key: Key, cause: str, fix: str) -> list[Fault]:
    return faults_at(key, [not_exported(cause, got=str(key[-1]), fix=fix)])
