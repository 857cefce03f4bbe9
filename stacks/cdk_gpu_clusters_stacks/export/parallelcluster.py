"""The configuration of AWS ParallelCluster for a cluster file, with the scripts that its nodes run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cdk_gpu_clusters.catalogue.parallelcluster import PARALLELCLUSTER_VERSION, system_names
from cdk_gpu_clusters.catalogue.regions import partition_of
from cdk_gpu_clusters.fleet.parallelcluster import ComputeResourceRequest, ObjectRight, QueueRequest, slurm_queue
from cdk_gpu_clusters.kubernetes.objects import document_text
from cdk_gpu_clusters.node.storage import checkpoint_environment
from cdk_gpu_clusters.rules.parallelcluster import not_exported
from cdk_gpu_clusters.rules.placement import GroupOrigin
from cdk_gpu_clusters.rules.slurm_conf import JOB_SETTINGS, merged_settings
from cdk_gpu_clusters_stacks.export.deployed import AskedOutputs, DeployedIds, Outputs
from cdk_gpu_clusters_stacks.export.kept_scripts import CopiedScripts, DeployedScripts, KeptScripts
from cdk_gpu_clusters_stacks.export.scripts import HEAD_NODE, scripts_of
from cdk_gpu_clusters_stacks.export.stores import shared_storage
from cdk_gpu_clusters_stacks.spec._check_parallelcluster import check_export, parallelcluster_parts
from cdk_gpu_clusters_stacks.spec._document import Fault, Key, faults_at
from cdk_gpu_clusters_stacks.spec.capacity import NewReservation, placement_group_of
from cdk_gpu_clusters_stacks.spec.data import CheckpointsSpec, ExistingCheckpointsSpec
from cdk_gpu_clusters_stacks.spec.fleet import FleetSpec, ImageById
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec
from cdk_gpu_clusters_stacks.spec.network import ExistingNetwork
from cdk_gpu_clusters_stacks.spec.parallelcluster import HEAD_TYPES, LOGIN_TYPES, ParallelClusterSpec
from cdk_gpu_clusters_stacks.spec.pcs import PcsSpec
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet
from cdk_gpu_clusters_stacks.stack_names import (
    capacity_stack,
    checkpoint_policy_output,
    data_stack,
    network_stack,
    parallelcluster_stack,
)

#: Name of the configuration among the files.
CONFIGURATION = "cluster-config.yaml"
_ORCHESTRATOR = ("orchestrator",)
#: An address that nobody connects from: sessions come through Systems Manager.
_NOBODY = "127.0.0.1/32"
#: How long the head node may take to be ready, with all static nodes, whose checks come first: this library's choice.
#: By default it is what each node has for itself, 2,100 s, and one node that is replaced would undo the cluster. Five
#: minutes less than CloudFormation waits for a custom resource (its user guide, ServiceTimeout), since that hour begins
#: before the stack of the cluster. ParallelCluster refuses another number for a cluster that has one, so that it is the
#: same for all; the section may come and go (aws-parallelcluster 3.16.1, TimeoutsSchema and ConfigPatch).
HEAD_NODE_SECONDS = 3300


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """What a cluster file does not say, and a configuration of ParallelCluster needs.

    Attributes:
        head_node_type: Instance type of the head node; a small one of the architecture of the fleets if None.
        key_name: EC2 key pair of the head node; None for none.
        scripts: Bucket and prefix of keys to which the scripts are copied; None to write none, or for those that the
            stacks of the cluster have.
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
    faults = check_export(spec)
    if any(fault.finding.severity.value == "error" for fault in faults):
        return Exported(files={}, faults=tuple(faults))
    writer = _Writer(spec, options)
    document = writer.document()
    faults += [*writer.ids.faults, *writer.faults, *_without(spec, options)]
    text = _header(spec, options) + document_text(document)
    return Exported(files={CONFIGURATION: text, **writer.files}, faults=tuple(faults))


def named_configuration(spec: ClusterSpec) -> tuple[dict[str, Any], dict[str, str]]:
    """The configuration of a cluster with the names of outputs in place of what only a deployment knows, and scripts.

    Args:
        spec: A cluster of ParallelCluster without errors.
    """
    writer = _Writer(spec, ExportOptions(scripts=("scripts", ""), outputs=AskedOutputs("{}.{}".format)))
    return writer.document(), dict(writer.files)


def deployed_configuration(spec: ClusterSpec, ask: Callable[[str, str], str]) -> dict[str, Any]:
    """The configuration of a cluster that the deployment makes.

    Args:
        spec: A cluster of ParallelCluster without errors.
        ask: Gives the value of an output by the names of its stack and itself, such as a token.
    """
    return _Writer(spec, ExportOptions(outputs=AskedOutputs(ask))).document()


def _without(spec: ClusterSpec, options: ExportOptions) -> list[Fault]:
    """What is left out since an option is not given; a file of ParallelCluster has all in its stacks."""
    faults = list[Fault]()
    if isinstance(spec.slurm_section, ParallelClusterSpec):
        return faults
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
        kept = CopiedScripts(*options.scripts)
        copy = ["# Copy the scripts first, and again after every export:", f"#   {kept.command}"]
    run = f"--cluster-name {spec.name} --region {spec.region} --cluster-configuration {CONFIGURATION}"
    create = [
        "# Check it in your account, then create the cluster:",
        f"#   pcluster create-cluster --dryrun true {run}",
        f"#   pcluster create-cluster {run}",
    ]
    if isinstance(spec.slurm_section, ParallelClusterSpec) and spec.slurm_section.custom_resource is not None:
        create = [f"# The stack {parallelcluster_stack(spec.name)} makes this cluster: pcluster must not."]
    lines = [f"# AWS ParallelCluster {PARALLELCLUSTER_VERSION}, written by gpu-clusters export.", *copy, *create]
    return "\n".join([*lines, ""])


class _Writer:
    """Writes the parts of the configuration, and collects what is not known."""

    def __init__(self, spec: ClusterSpec, options: ExportOptions) -> None:
        self._spec, self._options = spec, options
        self.ids = DeployedIds(options.outputs)
        self.faults: list[Fault] = []
        parts = parallelcluster_parts(spec)
        self._fleets = [PlannedFleet.of(part, parts) for part in parts.fleets]
        self._aws = f"arn:{partition_of(spec.region)}:iam::aws:policy"
        self._section = spec.slurm_section
        self._scripts = self._kept_scripts()
        #: Mount point -> store, and where the file says so. All nodes mount alike.
        self._mounts: dict[str, tuple[str, Key]] = {
            point: (store, (*fleet.key, "mounts", point))
            for fleet in self._fleets
            for point, store in fleet.spec.mounts.items()
        }
        if isinstance(self._section, PcsSpec):
            for point, store in self._section.login.mounts.items():
                self._mounts.setdefault(point, (store, ("pcs", "login", "mounts", point)))

    @property
    def files(self) -> Mapping[str, str]:
        """The scripts to copy, by path."""
        return self._scripts.files if isinstance(self._scripts, CopiedScripts) else {}

    @property
    def _stack(self) -> str | None:
        """The stack of what the nodes get; None for a file of another orchestrator."""
        return parallelcluster_stack(self._spec.name) if isinstance(self._section, ParallelClusterSpec) else None

    def _kept_scripts(self) -> KeptScripts | None:
        if self._options.scripts is not None:
            return CopiedScripts(*self._options.scripts)
        return None if self._stack is None else DeployedScripts(self._stack, self.ids)

    def document(self) -> dict[str, Any]:
        """The configuration."""
        spec = self._spec
        known = self._section.volumes if isinstance(self._section, ParallelClusterSpec) else {}
        volumes = {**known, **self._options.volumes}
        storage, faults = shared_storage(spec, self._mounts, self.ids, volumes)
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
            "DevSettings": {"Timeouts": {"HeadNodeBootstrapTimeout": HEAD_NODE_SECONDS}},
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

    def _group_ids(self) -> list[str]:
        """Security groups that all nodes join."""
        given = list(self._options.security_group_ids)
        if self._stack is not None:
            given.insert(0, self.ids.of(self._stack, "ClientSecurityGroupId", key=_ORCHESTRATOR))
        return given

    def _groups(self) -> dict[str, list[str]]:
        groups = self._group_ids()
        return {"AdditionalSecurityGroups": groups} if groups else {}

    def _head_node(self) -> dict[str, Any]:
        options, section = self._options, self._section
        actions, reads = dict[str, Any](), list[ObjectRight]()
        if self._scripts is not None:
            url = self._scripts.url(HEAD_NODE)
            reads = self._scripts.rights([url])
            actions = {"CustomActions": {"OnNodeConfigured": {"Script": url}}}
        own = section.head_node if isinstance(section, ParallelClusterSpec) else None
        login = section.login if isinstance(section, PcsSpec) else None
        key_name = options.key_name or (own.ssh_key_name if own else login.ssh_key_name if login else None)
        kind = options.head_node_type or (own.instance_type if own else None)
        return {
            "InstanceType": kind or HEAD_TYPES[self._fleets[0].plan.instance_type.architecture],
            "Networking": {"SubnetId": self._subnets()[0], **self._groups()},
            "Ssh": {**({"KeyName": key_name} if key_name else {}), "AllowedIps": self._ssh_from()},
            "LocalStorage": {"RootVolume": {"VolumeType": "gp3", "Encrypted": True}},
            **actions,
            "Iam": {**self._sessions(), **({"S3Access": [one.document() for one in reads]} if reads else {})},
        }

    def _sessions(self) -> dict[str, Any]:
        """The right to open sessions through Systems Manager."""
        return {"AdditionalIamPolicies": [{"Policy": f"{self._aws}/AmazonSSMManagedInstanceCore"}]}

    def _ssh_from(self) -> str:
        match self._section:
            case ParallelClusterSpec() as section:
                return section.head_node.ssh_cidr or _NOBODY
            case PcsSpec() as section:
                return next(iter(section.login.ssh_cidrs), _NOBODY)
        return _NOBODY

    def _login_nodes(self) -> list[dict[str, Any]]:
        if self._section is None or not self._section.login.nodes:
            return []
        login, fleet = self._section.login, self._fleets[0].plan
        return [
            {
                "Name": "login",
                "InstanceType": login.instance_type or LOGIN_TYPES[fleet.instance_type.architecture],
                "Count": login.nodes,
                "Networking": {"SubnetIds": self._subnets()[:1], **self._groups()},
                "Ssh": {"AllowedIps": self._ssh_from()},
                "Iam": self._sessions(),
            }
        ]

    def _slurm_settings(self) -> dict[str, Any]:
        section = self._section
        own = {} if section is None else section.slurm_settings
        minutes = None if section is None else section.scale_down_idle_minutes
        settings: list[dict[str, str]] = [{name: value} for name, value in merged_settings(JOB_SETTINGS, own).items()]
        for name, queue in () if section is None else section.queues.items():
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
        queue = None if self._section is None else self._section.queues.get(name)
        environment, objects, policies = self._checkpoints(fleet)
        start, configured = self._actions(fleet, environment)
        reads = [] if self._scripts is None else self._scripts.rights([url for url, _ in [*start, *configured]])
        request = QueueRequest(
            name=name,
            subnet_ids=self._subnets(),
            security_group_ids=self._group_ids(),
            image_id=spec.image.id if isinstance(spec.image, ImageById) else None,
            root_volume_gib=fleet.root_volume_gib,
            root_volume_iops=volume.iops,
            root_volume_mib_per_s=volume.throughput_mib_per_s,
            slurm_settings={} if queue is None or list(queue.fleets) != [name] else queue.slurm_settings,
            on_node_start=start,
            on_node_configured=configured,
            policies=[f"{self._aws}/AmazonSSMManagedInstanceCore", *policies],
            objects=[*reads, *objects],
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
            slurm_settings=fleet.slurm_node_settings,
        )

    def _actions(
        self, fleet: PlannedFleet, environment: Mapping[str, str]
    ) -> tuple[list[tuple[str, Sequence[str]]], list[tuple[str, Sequence[str]]]]:
        """What nodes of a fleet run before they are set up, and before slurmd starts."""
        if self._scripts is None:
            return [], []
        *before, own = [self._scripts.url(script) for script in scripts_of(fleet)]
        variables = [f"{name}={value}" for name, value in environment.items()]
        return [(own, ("start",))], [*((url, ()) for url in before), (own, ("configured", *variables))]

    def _checkpoints(self, fleet: PlannedFleet) -> tuple[dict[str, str], list[ObjectRight], list[str]]:
        """The variables by which jobs find the store for checkpoints, and the right to it: objects, or a policy."""
        spec = fleet.spec
        name = spec.checkpoints if isinstance(spec, FleetSpec) else None
        if not isinstance(spec, FleetSpec) or name is None:
            return {}, [], []
        folder, (bucket, express) = spec.checkpoint_folder(fleet.name), self._buckets(name, (*fleet.key, "checkpoints"))
        uris = [None if one is None else f"s3://{one}/{folder}" for one in (bucket, express)]
        if self._stack is None:
            right = ObjectRight(bucket_name=bucket, prefix=folder, write=not spec.checkpoints_read_only)
            return checkpoint_environment(s3_uri=uris[0]), [right], []
        policy = self.ids.of(self._stack, checkpoint_policy_output(fleet.name), key=(*fleet.key, "checkpoints"))
        return checkpoint_environment(s3_uri=uris[0], express_s3_uri=uris[1]), [], [policy]

    def _buckets(self, name: str, key: Key) -> tuple[str, str | None]:
        """The bucket of a store for checkpoints, and the one in the zone of the nodes."""
        store = self._spec.data[name]
        if isinstance(store, ExistingCheckpointsSpec):
            return store.existing_checkpoints.bucket_name, store.existing_checkpoints.express_bucket_name
        stack, has_express = data_stack(self._spec.name, name), False
        if isinstance(store, CheckpointsSpec):
            has_express = store.checkpoints.express_zone_id is not None and self._stack is not None
        express = self.ids.of(stack, "ExpressBucketName", key=key) if has_express else None
        return self.ids.of(stack, "BucketName", key=key), express
