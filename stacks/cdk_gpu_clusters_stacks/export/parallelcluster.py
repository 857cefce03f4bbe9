"""The configuration of AWS ParallelCluster for a cluster file, with the scripts that its nodes run."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cdk_gpu_clusters.catalogue import Architecture
from cdk_gpu_clusters.catalogue.parallelcluster import PARALLELCLUSTER_VERSION, system_names
from cdk_gpu_clusters.catalogue.regions import partition_of
from cdk_gpu_clusters.fleet.node import lustre_efa, node_settings
from cdk_gpu_clusters.fleet.parallelcluster import ComputeResourceRequest, ObjectRight, QueueRequest, slurm_queue
from cdk_gpu_clusters.kubernetes.objects import document_text
from cdk_gpu_clusters.node.custom_actions import compute_node_script, head_node_script
from cdk_gpu_clusters.node.storage import checkpoint_environment
from cdk_gpu_clusters.rules.parallelcluster import not_exported
from cdk_gpu_clusters.rules.placement import GroupOrigin
from cdk_gpu_clusters.rules.slurm_conf import JOB_SETTINGS, merged_settings
from cdk_gpu_clusters_stacks.export.deployed import DeployedIds, Outputs
from cdk_gpu_clusters_stacks.export.omissions import omissions
from cdk_gpu_clusters_stacks.export.stores import shared_storage
from cdk_gpu_clusters_stacks.spec._check_parallelcluster import check_parallelcluster, parallelcluster_parts
from cdk_gpu_clusters_stacks.spec._document import Fault, Key, faults_at
from cdk_gpu_clusters_stacks.spec.capacity import NewReservation, placement_group_of
from cdk_gpu_clusters_stacks.spec.data import CheckpointsSpec, ExistingCheckpointsSpec
from cdk_gpu_clusters_stacks.spec.fleet import FleetSpec, ImageById, read_script
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec
from cdk_gpu_clusters_stacks.spec.network import ExistingNetwork
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet
from cdk_gpu_clusters_stacks.stack_names import capacity_stack, data_stack, network_stack

#: Name of the configuration among the files.
CONFIGURATION = "cluster-config.yaml"
_SCRIPTS = "scripts"
_HEAD_SCRIPT = "head-node.sh"
_DIGEST = 12
#: Type of the head node by architecture: this library's choice, of four vCPUs.
_HEAD_TYPES = {Architecture.X86_64: "m7i.xlarge", Architecture.ARM64: "m7g.xlarge"}
#: An address that nobody connects from: sessions come through Systems Manager.
_NOBODY = "127.0.0.1/32"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """What a cluster file does not say, and a configuration of ParallelCluster needs.

    Attributes:
        head_node_type: Instance type of the head node; a small one of the architecture of the fleets if None.
        key_name: EC2 key pair of the head node; None for none.
        scripts: Bucket and prefix of keys to which the scripts are copied; None to write none.
        security_group_ids: Security groups that all nodes join, such as those that file systems admit.
        volumes: Ids of volumes of FSx for OpenZFS by the name of the store.
        outputs: Outputs of the stacks of the cluster.
    """

    head_node_type: str | None = None
    key_name: str | None = None
    scripts: tuple[str, str] | None = None
    security_group_ids: tuple[str, ...] = ()
    volumes: Mapping[str, str] = field(default_factory=dict)
    outputs: Outputs = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A cluster as files.

    Attributes:
        files: Text by path.
        faults: What is wrong with it, and what is left out.
    """

    files: Mapping[str, str]
    faults: tuple[Fault, ...]


def export_parallelcluster(spec: ClusterSpec, options: ExportOptions) -> Exported:
    """Write a cluster as a configuration of AWS ParallelCluster.

    Args:
        spec: A cluster without errors.
        options: What the cluster file does not say.

    Returns:
        The files; they are no configuration if one of the faults is an error.
    """
    faults = check_parallelcluster(spec)
    if any(fault.finding.severity.value == "error" for fault in faults):
        return Exported(files={}, faults=tuple(faults))
    writer = _Writer(spec, options)
    document = writer.document()
    faults += [*writer.ids.faults, *writer.faults, *omissions(spec), *_without(spec, options)]
    text = _header(spec, options) + document_text(document)
    return Exported(files={CONFIGURATION: text, **writer.files}, faults=tuple(faults))


def _without(spec: ClusterSpec, options: ExportOptions) -> list[Fault]:
    """What is left out since an option is not given."""
    faults = []
    if options.scripts is None:
        finding = not_exported(
            "nodes take jobs without the boot checks, and nothing watches them",
            got="no scripts",
            fix="give --scripts s3://BUCKET/PREFIX",
        )
        faults += faults_at(("training",), [finding], at_key=True)
    mounts = [(name, point) for name, fleet in spec.training.fleets.items() for point in fleet.mounts]
    if mounts and not options.security_group_ids:
        finding = not_exported(
            "security groups of ParallelCluster are not among those that the stores admit",
            got="no security group",
            fix="give --security-group, of clients that the servers admit",
        )
        name, point = mounts[0]
        faults += faults_at(("training", "fleets", name, "mounts", point), [finding])
    return faults


def _header(spec: ClusterSpec, options: ExportOptions) -> str:
    copy = []
    if options.scripts is not None:
        bucket, prefix = options.scripts
        copy = ["# Copy the scripts first, and again after every export:", f"#   {_copy(bucket, prefix)}"]
    run = f"--cluster-name {spec.name} --region {spec.region} --cluster-configuration {CONFIGURATION}"
    lines = [
        f"# AWS ParallelCluster {PARALLELCLUSTER_VERSION}, written by gpu-clusters export.",
        *copy,
        "# Check it in your account, then create the cluster:",
        f"#   pcluster create-cluster --dryrun true {run}",
        f"#   pcluster create-cluster {run}",
    ]
    return "\n".join([*lines, ""])


def _copy(bucket: str, prefix: str) -> str:
    return f"aws s3 cp --recursive {_SCRIPTS} s3://{bucket}/{prefix}"


class _Writer:
    """Writes the parts of the configuration, and collects what is not known."""

    def __init__(self, spec: ClusterSpec, options: ExportOptions) -> None:
        self._spec, self._options = spec, options
        self.ids = DeployedIds(options.outputs)
        self.faults: list[Fault] = []
        self.files: dict[str, str] = {}
        parts = parallelcluster_parts(spec)
        self._fleets = [PlannedFleet.of(part, parts) for part in parts.fleets]
        self._aws = f"arn:{partition_of(spec.region)}:iam::aws:policy"
        login = spec.pcs.login
        #: Mount point -> store, and where the file says so. All nodes mount alike.
        self._mounts: dict[str, tuple[str, Key]] = {
            point: (store, (*fleet.key, "mounts", point))
            for fleet in self._fleets
            for point, store in fleet.spec.mounts.items()
        }
        if spec.orchestrator == "pcs":
            for point, store in login.mounts.items():
                self._mounts.setdefault(point, (store, ("pcs", "login", "mounts", point)))

    def document(self) -> dict[str, Any]:
        """The configuration."""
        spec = self._spec
        storage, faults = shared_storage(spec, self._mounts, self.ids, self._options.volumes)
        self.faults += faults
        login = self._login_nodes()
        return {
            "Region": spec.region,
            "Image": {"Os": self._system()},
            "Imds": {"ImdsSupport": "v2.0"},
            "HeadNode": self._head_node(),
            **({"LoginNodes": {"Pools": login}} if login else {}),
            "Scheduling": {
                "Scheduler": "slurm",
                "SlurmSettings": self._slurm_settings(),
                "SlurmQueues": [self._queue(fleet) for fleet in self._fleets],
            },
            **({"SharedStorage": storage} if storage else {}),
            "Tags": [{"Key": key, "Value": value} for key, value in {"gpu-cluster": spec.name, **spec.tags}.items()],
        }

    def _system(self) -> str:
        images = [fleet.spec.image for fleet in self._fleets]
        return system_names()[next((image.os for image in images if image is not None), "al2023")]

    def _subnets(self) -> list[str]:
        network = self._spec.network
        if isinstance(network, ExistingNetwork):
            return list(network.subnet_ids)
        return [self.ids.of(network_stack(self._spec.name), "FleetSubnetId", key=("network",))]

    def _groups(self) -> dict[str, list[str]]:
        groups = self._options.security_group_ids
        return {"AdditionalSecurityGroups": [*groups]} if groups else {}

    def _head_node(self) -> dict[str, Any]:
        options = self._options
        actions = {}
        if options.scripts is not None:
            self.files[f"{_SCRIPTS}/{_HEAD_SCRIPT}"] = head_node_script()
            actions = {"CustomActions": {"OnNodeConfigured": {"Script": self._url(_HEAD_SCRIPT)}}}
        reads = [one.document() for one in self._readable()]
        key_name = options.key_name or (self._spec.pcs.login.ssh_key_name if self._is_pcs else None)
        return {
            "InstanceType": options.head_node_type or _HEAD_TYPES[self._fleets[0].plan.instance_type.architecture],
            "Networking": {"SubnetId": self._subnets()[0], **self._groups()},
            "Ssh": {**({"KeyName": key_name} if key_name else {}), "AllowedIps": self._ssh_from()},
            "LocalStorage": {"RootVolume": {"VolumeType": "gp3", "Encrypted": True}},
            **actions,
            "Iam": {**self._sessions(), **({"S3Access": reads} if reads else {})},
        }

    def _sessions(self) -> dict[str, Any]:
        """The right to open sessions through Systems Manager."""
        return {"AdditionalIamPolicies": [{"Policy": f"{self._aws}/AmazonSSMManagedInstanceCore"}]}

    @property
    def _is_pcs(self) -> bool:
        return self._spec.orchestrator == "pcs"

    def _ssh_from(self) -> str:
        ranges = self._spec.pcs.login.ssh_cidrs if self._is_pcs else ()
        return ranges[0] if ranges else _NOBODY

    def _login_nodes(self) -> list[dict[str, Any]]:
        login = self._spec.pcs.login
        if not (self._is_pcs and login.nodes):
            return []
        return [
            {
                "Name": "login",
                "InstanceType": login.instance_type,
                "Count": login.nodes,
                "Networking": {"SubnetIds": self._subnets()[:1], **self._groups()},
                "Ssh": {"AllowedIps": self._ssh_from()},
                "Iam": self._sessions(),
            }
        ]

    def _slurm_settings(self) -> dict[str, Any]:
        pcs = self._spec.pcs
        own = pcs.slurm_settings if self._is_pcs else {}
        minutes = pcs.scale_down_idle_minutes if self._is_pcs else None
        settings: list[dict[str, str]] = [{name: value} for name, value in merged_settings(JOB_SETTINGS, own).items()]
        for name, queue in pcs.queues.items() if self._is_pcs else ():
            if [name] != list(queue.fleets):
                # So ParallelCluster names the nodes of a queue (aws-parallelcluster-cookbook @ f75d84c, NodeSet).
                nodes = ",".join(f"{fleet}_nodes" for fleet in queue.fleets)
                settings.append({"PartitionName": name, "Nodes": nodes, **queue.slurm_settings})
        return {
            **({} if minutes is None else {"ScaledownIdletime": minutes}),
            # Nodes of a changed queue finish their jobs first.
            "QueueUpdateStrategy": "DRAIN",
            "CustomSlurmSettings": settings,
        }

    def _queue(self, fleet: PlannedFleet) -> dict[str, Any]:
        spec, name, volume = fleet.spec, fleet.name, fleet.spec.root_volume
        queue = self._spec.pcs.queues.get(name) if self._is_pcs else None
        start, configured = self._scripts(fleet)
        request = QueueRequest(
            name=name,
            subnet_ids=self._subnets(),
            security_group_ids=self._options.security_group_ids,
            image_id=spec.image.id if isinstance(spec.image, ImageById) else None,
            root_volume_gib=fleet.root_volume_gib,
            root_volume_iops=volume.iops,
            root_volume_mib_per_s=volume.throughput_mib_per_s,
            slurm_settings={} if queue is None or list(queue.fleets) != [name] else queue.slurm_settings,
            on_node_start=start,
            on_node_configured=configured,
            policies=[f"{self._aws}/AmazonSSMManagedInstanceCore"],
            objects=[*self._readable(), *self._checkpoints(fleet)[1]],
            tags=spec.tags,
        )
        return slurm_queue(request, [self._compute_resource(fleet)])

    def _compute_resource(self, fleet: PlannedFleet) -> ComputeResourceRequest:
        capacity, key = fleet.spec.capacity, (*fleet.key, "capacity")
        reservation_id, group = None, placement_group_of(capacity)
        if isinstance(capacity, NewReservation):
            stack = capacity_stack(self._spec.name, fleet.name)
            reservation_id = self.ids.of(stack, "ReservationId", key=key)
            if fleet.plan.placement.origin is GroupOrigin.RESERVATION:
                group = self.ids.of(stack, "PlacementGroupName", key=key)
        return ComputeResourceRequest(
            fleet=fleet.plan,
            name=fleet.name,
            reservation_id=reservation_id,
            placement_group_name=group,
            slurm_settings=fleet.slurm_node_settings if self._is_pcs else {},
        )

    def _readable(self) -> list[ObjectRight]:
        """The scripts."""
        if self._options.scripts is None:
            return []
        bucket, prefix = self._options.scripts
        return [ObjectRight(bucket_name=bucket, prefix=prefix)]

    def _url(self, name: str) -> str:
        assert self._options.scripts is not None  # noqa: S101 - asked for where there are scripts only
        bucket, prefix = self._options.scripts
        return f"s3://{bucket}/{prefix}{name}"

    def _scripts(self, fleet: PlannedFleet) -> tuple[list[tuple[str, Sequence[str]]], list[tuple[str, Sequence[str]]]]:
        """What nodes of a fleet run before they are set up, and before slurmd starts."""
        if self._options.scripts is None:
            return [], []
        own = self._keep(f"nodes-{fleet.name}", self._node_script(fleet))
        configured: list[tuple[str, Sequence[str]]] = [(own, ("configured",))]
        if isinstance(fleet.spec, FleetSpec) and fleet.spec.user_data is not None:
            configured.insert(0, (self._keep(f"user-data-{fleet.name}", read_script(fleet.spec.user_data)), ()))
        return [(own, ("start",))], configured

    def _keep(self, name: str, text: str) -> str:
        """A script as a file; another text is another name, so that nodes never get another one than was exported."""
        name = f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]}.sh"
        self.files[f"{_SCRIPTS}/{name}"] = text
        return self._url(name)

    def _node_script(self, fleet: PlannedFleet) -> str:
        plan, request = fleet.plan, fleet.node_request()
        environment = {**getattr(fleet.spec, "environment", {}), **self._checkpoints(fleet)[0]}
        if fleet.scratch is not None:
            environment["SCRATCH_DIR"] = fleet.scratch.mount_point
        own = replace(
            request,
            # ParallelCluster mounts file systems and local disks, and its daemons read the metadata service.
            mounts=(),
            scratch=False,
            metadata_users=("*",),
            watch=fleet.spec.watch.settings,
            exporters=None,
            environment=environment,
        )
        by_efa = lustre_efa(request.mounts, plan.instance_type, plan.maximum) if plan.efa else None
        return compute_node_script(replace(node_settings(plan, own), lustre_efa=by_efa))

    def _checkpoints(self, fleet: PlannedFleet) -> tuple[dict[str, str], list[ObjectRight]]:
        """The variables by which jobs find the store for checkpoints, and the right to it."""
        spec = fleet.spec
        if not isinstance(spec, FleetSpec) or spec.checkpoints is None:
            return {}, []
        store = self._spec.data[spec.checkpoints]
        if isinstance(store, ExistingCheckpointsSpec):
            bucket = store.existing_checkpoints.bucket_name
        elif isinstance(store, CheckpointsSpec):
            key = (*fleet.key, "checkpoints")
            bucket = self.ids.of(data_stack(self._spec.name, spec.checkpoints), "BucketName", key=key)
        else:
            return {}, []
        folder = spec.checkpoint_folder(fleet.name)
        right = ObjectRight(bucket_name=bucket, prefix=folder, write=not spec.checkpoints_read_only)
        return checkpoint_environment(s3_uri=f"s3://{bucket}/{folder}"), [right]
