"""Fleets of the cluster file: what all fleets have, and training fleets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    PlainSerializer,
    StringConstraints,
    Tag,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from cdk_gpu_clusters._untrusted import is_below, read_bytes
from cdk_gpu_clusters.node.ray import RayNodes
from cdk_gpu_clusters.node.settings import WATCH_RANGES, FaultSeverity, NodeWatch, WatchMode
from cdk_gpu_clusters.rules.fleet import AlarmSettings
from cdk_gpu_clusters.rules.interfaces import InterfacePolicy
from cdk_gpu_clusters.rules.mig import MigLayout
from cdk_gpu_clusters.rules.placement import PlacementStrategy

from ._base import AsTuple, Environment, Line, Name, SpecModel, Tags, Text, UserName, form_of
from .capacity import CapacitySpec, OnDemand, capacity_terms
from .changes import NO_CHANGE, TEMPLATES, Resource, changes_with, makes, replaces, updates
from .data import BucketName, KeyArn, KeyPrefix

# `image`: the machine image, in one of three forms.

ImageId = Annotated[str, StringConstraints(pattern=r"^ami-([0-9a-f]{8}|[0-9a-f]{17})$")]
ParameterName = Annotated[str, StringConstraints(pattern=r"^/[A-Za-z0-9_./-]+$", max_length=1011)]
OperatingSystem = Literal["al2023", "ubuntu-24.04", "ubuntu-22.04"]
Framework = Literal["pytorch"]


#: What an image of the user's own runs.
RunningSystem = Annotated[
    OperatingSystem,
    Field(description="Operating system of the image. It decides the name of the root device."),
]


class ImageById(SpecModel):
    """One image, by id. It never moves."""

    id: ImageId = Field(description="Id of the image.", examples=["ami-0123456789abcdef0"])
    os: RunningSystem = "al2023"


class ImageByParameter(SpecModel):
    """The image that an SSM parameter names when the stack is deployed."""

    parameter: ParameterName = Field(
        description="Name of an SSM parameter that holds an image id.", examples=["/images/training/latest"]
    )
    os: RunningSystem = "al2023"


class ImageByOs(SpecModel):
    """An AWS Deep Learning AMI for the fleet's accelerator and architecture."""

    os: OperatingSystem = Field(description="Operating system of the image.")
    framework: Framework | None = Field(
        default=None,
        description="Framework that the image has installed, on EC2 with NVIDIA GPUs. Default: none.",
    )
    pinned: bool = Field(
        default=False,
        description="True: the image is looked up once and kept in cdk.context.json. "
        "False: the newest image is taken at each deploy; running nodes are replaced with `update: rolling` only.",
    )


def _image_form(value: object) -> str | None:
    """The form by its leading key; `os` leads only where no other does."""
    return form_of(value, ("id", "parameter", "os")) or form_of(value, ("id", "parameter"))


ImageSpec = Annotated[
    Annotated[ImageById, Tag("<id>")]
    | Annotated[ImageByParameter, Tag("<parameter>")]
    | Annotated[ImageByOs, Tag("<os>")],
    Discriminator(_image_form),
]


# `mig`: how GPUs are split.


def _mig_texts(value: object) -> object:
    """One text, or one for each GPU; a layout of one profile id is a number to YAML."""
    given = tuple(value) if isinstance(value, list | tuple) else (value,)
    if any(isinstance(one, bool) or not isinstance(one, str | int) for one in given):
        raise PydanticCustomError("mig", "not a MIG layout")
    return tuple(str(one) for one in given)


_LAYOUT = {"anyOf": [{"type": "string", "minLength": 1}, {"type": "integer"}]}

MigSpec = Annotated[
    tuple[Text, ...],
    BeforeValidator(_mig_texts),
    Field(min_length=1),
    WithJsonSchema({"anyOf": [*_LAYOUT["anyOf"], {"type": "array", "items": _LAYOUT, "minItems": 1}]}),
]


def mig_layouts(texts: Sequence[str] | None) -> MigLayout | list[MigLayout] | None:
    """The layouts as the library takes them: one for all GPUs, or one for each.

    Args:
        texts: Texts of `MIG_PARTITION` for one GPU each; a single one is for all GPUs. None: the GPUs are not split.

    Example:
        >>> mig_layouts(("3g.20gb,4g.20gb",))
        MigLayout(profiles=('3g.20gb', '4g.20gb'))
    """
    if texts is None:
        return None
    layouts = [MigLayout(text) for text in texts]
    return layouts[0] if len(layouts) == 1 else layouts


# `watch`: what the watchdog of a node may do.

_USUAL_WATCH = NodeWatch()


def _number(name: str, description: str) -> Any:
    """A number of the library's settings: its default and its range are as there."""
    low, high = WATCH_RANGES[name]
    return Field(default=getattr(_USUAL_WATCH, name), ge=low, le=high, description=description)


class WatchSpec(SpecModel):
    """How the nodes are watched and repaired; what is left out is as the library has it."""

    mode: Literal["on", "dry-run", "off"] = Field(
        default=_USUAL_WATCH.mode.value,
        description="Whether the watchdog acts, only reports what it would do, or is off.",
    )
    acts_from: Literal["reset", "reboot", "replace"] = Field(
        default=_USUAL_WATCH.acts_from.value,
        description="Least severe fault that is repaired.",
    )
    actions_per_hour: int = _number(
        "actions_per_hour", "Nodes of the fleet that may be taken out permanently within an hour."
    )
    reboots_per_hour: int = _number("reboots_per_hour", "Nodes of the fleet that may be rebooted within an hour.")
    resets_per_hour: int = _number("resets_per_hour", "Nodes that may have their GPUs reset within an hour.")
    repair_wait_seconds: int = _number("repair_wait_seconds", "How long jobs may go on before a reboot ends them.")
    silence_seconds: int = _number(
        "silence_seconds", "How long nothing of AWS may answer before single nodes are repaired without being counted."
    )
    maintenance: Line = Field(
        default=_USUAL_WATCH.maintenance, description="Why no node of the fleet is repaired; empty if they are."
    )
    interval_seconds: int = _number("interval_seconds", "Time from one poll to the next.")
    drain_on_rebalance: bool = Field(
        default=_USUAL_WATCH.drain_on_rebalance,
        description="Whether a rebalance recommendation drains a Spot node, which might not be interrupted.",
    )
    job_seconds: int = _number("job_seconds", "Time that jobs have from SIGTERM to the node's end.")
    dcgm_level: int = _number(
        "dcgm_level", "Level of DCGM's diagnostics at the boot, if the image has dcgmi; 0 for none."
    )
    all_reduce_percent: int = _number(
        "all_reduce_percent",
        "Least bus bandwidth of an all-reduce at the boot, in percent of a GPU's NVLink bandwidth in one direction, if "
        "the image has nccl-tests; 0: it is not measured.",
    )

    @property
    def settings(self) -> NodeWatch:
        """The same as the library takes it."""
        given = self.model_dump() | {"mode": WatchMode(self.mode), "acts_from": FaultSeverity(self.acts_from)}
        return NodeWatch(**given)


# `alarms`: when alarms are raised, where they are sent, and whether a launch loop is stopped.

_USUAL_ALARMS = AlarmSettings()

#: CloudWatch API reference, Schedule: five fields of a cron expression.
Cron = Annotated[str, StringConstraints(pattern=r"^[0-9A-Z*,-]+( [0-9A-Z*,-]+){4}$", max_length=250)]
#: The same: a name of the IANA time zone database.
TimeZone = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$", max_length=50)]
TopicArn = Annotated[
    str,
    StringConstraints(pattern=r"^arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}$"),
]


class MuteSpec(SpecModel):
    """A window that comes back, in which alarms on nodes notify no one. They still change their state."""

    cron: Annotated[Cron, updates(Resource.ALARM_MUTE)] = Field(
        description="When a window begins: minute, hour, day of the month, month and day of the week, with `*`, `-` "
        "and `,`.",
        examples=["0 2 * * SUN"],
    )
    minutes: Annotated[int, updates(Resource.ALARM_MUTE)] = Field(
        ge=1, le=21_600, description="Length of a window, up to 15 days."
    )
    time_zone: Annotated[TimeZone, updates(Resource.ALARM_MUTE)] = Field(
        default="UTC", description="Time zone of `cron`.", examples=["Europe/Berlin"]
    )


class AlarmsSpec(SpecModel):
    """The alarms of a fleet; what is left out is as the library has it."""

    enabled: Annotated[bool, makes(Resource.ALARMS, Resource.ALARM_TOPIC, Resource.LAUNCH_STOP)] = Field(
        default=True,
        description="False: no alarms at all, and nothing stops a launch loop. CloudWatch bills each.",
    )
    idle: Annotated[bool, updates(Resource.ALARMS)] = Field(
        default=True, description="Whether an alarm is raised when all GPUs are idle."
    )
    idle_minutes: Annotated[int, updates(Resource.ALARMS)] = Field(
        default=_USUAL_ALARMS.idle_minutes or 60,
        ge=5,
        le=1440,
        description="How long they are idle before the alarm.",
    )
    abandoned_launches_per_node: Annotated[int, updates(Resource.ALARMS)] = Field(
        default=_USUAL_ALARMS.abandoned_launches_per_node,
        ge=1,
        le=100,
        description="Launches that may be abandoned for each node that the fleet is short of.",
    )
    abandoned_within_minutes: Annotated[int | None, updates(Resource.ALARMS)] = Field(
        default=_USUAL_ALARMS.abandoned_within_minutes,
        ge=10,
        le=1440,
        description="Within which time. Default: an hour, or as long as one more boot than that may take.",
    )
    suspends_launching: Annotated[bool, updates(Resource.ALARMS), makes(Resource.LAUNCH_STOP)] = Field(
        default=_USUAL_ALARMS.suspends_launching,
        description="Whether launching is suspended then, or only the alarm is raised.",
    )
    inspection_minutes: Annotated[int, updates(Resource.ALARMS)] = Field(
        default=_USUAL_ALARMS.inspection_minutes,
        ge=0,
        le=2880,
        description="How long a node that fails its boot is kept once launching is suspended. It is paid for.",
    )
    topic_arn: Annotated[TopicArn | None, updates(Resource.ALARMS)] = Field(
        default=None,
        description="Existing SNS topic in the cluster's Region that all alarms tell; one with a key of its own must "
        "let CloudWatch use it.",
        examples=["arn:aws:sns:us-east-1:111122223333:operators"],
    )
    emails: Annotated[tuple[Text, ...], AsTuple, updates(Resource.ALARMS), makes(Resource.ALARM_TOPIC)] = Field(
        default=(),
        description="E-mail addresses that all alarms tell, by a topic made here. Each confirms it by a link first.",
        examples=[["operators@example.org"]],
    )

    mute: Annotated[MuteSpec | None, makes(Resource.ALARM_MUTE)] = Field(
        default=None,
        description="A window of maintenance in which alarms on nodes notify no one; a launch loop is never muted. "
        "Default: none.",
    )

    @property
    def settings(self) -> AlarmSettings | None:
        """The same as the library takes it; None for no alarms."""
        if not self.enabled:
            return None
        return AlarmSettings(
            idle_minutes=self.idle_minutes if self.idle else None,
            abandoned_launches_per_node=self.abandoned_launches_per_node,
            abandoned_within_minutes=self.abandoned_within_minutes,
            suspends_launching=self.suspends_launching,
            inspection_minutes=self.inspection_minutes,
        )

    @property
    def tells(self) -> bool:
        """Whether there are recipients."""
        return self.topic_arn is not None or bool(self.emails)


# What all fleets have.


class RootVolume(SpecModel):
    """The encrypted gp3 root volume of every node."""

    size_gib: Annotated[int | None, updates(*TEMPLATES)] = Field(
        default=None,
        ge=1,
        le=65536,
        description="Size in GiB. Default: 200, room for a deep-learning image and containers.",
    )
    iops: Annotated[int | None, updates(*TEMPLATES)] = Field(
        default=None,
        ge=3000,
        le=80000,
        description="I/O operations per second, at most 500 per GiB. Default: 3000.",
    )
    throughput_mib_per_s: Annotated[int | None, updates(*TEMPLATES)] = Field(
        default=None,
        ge=125,
        le=2000,
        description="Throughput in MiB/s, at most a quarter of the IOPS. Default: 250.",
    )
    encryption_key_arn: Annotated[KeyArn | None, updates(*TEMPLATES)] = Field(
        default=None,
        description="Customer managed KMS key of the volume, in the cluster's Region. Its policy must let EC2 Auto "
        "Scaling use it. Default: the account's key for EBS.",
        examples=["arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"],
    )


class NodesSpec(SpecModel):
    """Equal nodes: an instance type, a number, and where the instances come from."""

    instance_type: Annotated[
        Text,
        updates(
            Resource.EC2_TEMPLATE,
            Resource.PCS_TEMPLATE,
            Resource.BATCH_TEMPLATE,
            Resource.NODE_GROUP_IDENTITY,
            Resource.COMPUTE_ENVIRONMENT,
            Resource.JOB_DEFINITION,
            Resource.INSTANCE_GROUP,
        ),
        replaces(Resource.COMPUTE_NODE_GROUP, Resource.RESERVATION),
    ] = Field(description="EC2 instance type.", examples=["p5.48xlarge"])
    nodes: Annotated[
        int | None,
        updates(
            Resource.AUTO_SCALING_GROUP,
            Resource.NODE_GROUP,
            Resource.COMPUTE_NODE_GROUP,
            Resource.COMPUTE_ENVIRONMENT,
            Resource.JOB_DEFINITION,
            Resource.BLOCK_FOLLOWER,
            Resource.RESERVATION,
            Resource.INSTANCE_GROUP,
        ),
    ] = Field(default=None, ge=1, description="Number of nodes. Either this, or `min_nodes` and `max_nodes`.")
    min_nodes: Annotated[int | None, changes_with("nodes")] = Field(
        default=None, ge=0, description="Least number of nodes of a fleet that scales."
    )
    max_nodes: Annotated[int | None, changes_with("nodes")] = Field(
        default=None, ge=1, description="Greatest number of nodes of a fleet that scales."
    )
    capacity: Annotated[
        CapacitySpec,
        updates(
            *TEMPLATES,
            Resource.AUTO_SCALING_GROUP,
            Resource.NODE_GROUP_IDENTITY,
            Resource.COMPUTE_NODE_GROUP,
            Resource.COMPUTE_ENVIRONMENT,
            Resource.JOB_QUEUE,
            Resource.RESERVATION,
            Resource.BLOCK_FOLLOWER,
            Resource.BLOCK_GROUP,
            Resource.RESERVATION_GROUP,
            Resource.INSTANCE_GROUP,
        ),
    ] = Field(
        default=OnDemand(),
        description="Where the instances come from: on_demand, spot, an existing reservation or group of them, "
        "a Capacity Block, several of them, an UltraServer block, or a reservation made here. Default: on_demand.",
    )
    image: Annotated[
        ImageSpec | None,
        updates(Resource.EC2_TEMPLATE, Resource.PCS_TEMPLATE, Resource.BATCH_TEMPLATE, Resource.INSTANCE_GROUP),
    ] = Field(
        default=None,
        description="Machine image: {id: ami-…} or {parameter: /ssm/name}, with os: if it is not al2023, or {os: …}, "
        "also with framework: pytorch. "
        "Default: AWS's image for the accelerator and architecture; Amazon Linux 2023 where it serves the type.",
    )
    root_volume: Annotated[RootVolume, NO_CHANGE] = Field(
        default=RootVolume(), description="Root volume of every node."
    )
    placement: Annotated[
        Literal["cluster", "spread", "partition", "none"] | None,
        updates(*TEMPLATES, Resource.NODE_GROUP_IDENTITY, Resource.COMPUTE_ENVIRONMENT),
        replaces(Resource.PLACEMENT_GROUP, Resource.RESERVATION),
        makes(Resource.RESERVED_PLACEMENT),
    ] = Field(
        default=None,
        description="Placement group of the fleet. Default: cluster with EFA, none for Capacity Blocks (EC2 refuses "
        "one) and without EFA; a reservation's own.",
    )
    managed_by: Annotated[
        Literal["eks", "karpenter"] | None,
        makes(Resource.EKS_TEMPLATE, Resource.NODE_GROUP, Resource.NODE_POOL, Resource.BLOCK_FOLLOWER),
    ] = Field(
        default=None,
        description="What launches and ends the nodes on Amazon EKS. `eks`: a managed node group. `karpenter`: a node "
        "pool of Karpenter, which the deployment installs, with the same nodes. Default: eks.",
    )
    mig: Annotated[
        MigSpec | None, updates(*TEMPLATES, Resource.NODE_GROUP, Resource.COMPUTE_NODE_GROUP, Resource.INSTANCE_GROUP)
    ] = Field(
        default=None,
        description="How every GPU is split with MIG: profiles separated by commas, by name or id, the same for all "
        "GPUs; or a list, one text for each GPU, `off` for an unsplit one. Not with EFA. Default: no split.",
        examples=["3g.20gb,2g.10gb,1g.5gb,1g.5gb"],
    )
    fabric_manager_order: Annotated[Literal["after", "before"], updates(*TEMPLATES)] = Field(
        default="after",
        description="Whether GPUs are split after or before NVIDIA's fabric manager starts.",
    )
    mounts: Annotated[
        dict[Text, Name],
        updates(
            *TEMPLATES,
            Resource.COMPUTE_NODE_GROUP,
            Resource.JOB_DEFINITION,
            Resource.MOUNT_RULES,
            Resource.INSTANCE_GROUP,
        ),
    ] = Field(
        default={},
        description="File systems of `data` that every node mounts: directory of the node -> name of the store.",
        examples=[{"/fsx": "corpus"}],
    )
    read_only_mounts: Annotated[tuple[Text, ...], AsTuple, updates(*TEMPLATES)] = Field(
        default=(), description="Directories of `mounts` at which the nodes only read.", examples=[["/data"]]
    )
    watch: Annotated[WatchSpec, updates(*TEMPLATES, Resource.INSTANCE_GROUP)] = Field(
        default=WatchSpec(), description="What the watchdog of each node may do."
    )
    alarms: Annotated[AlarmsSpec, updates(Resource.EC2_TEMPLATE)] = Field(
        default=AlarmsSpec(),
        description="Alarms of the fleet, their recipients, and the stop of a launch loop.",
    )
    evidence_bucket: Annotated[BucketName | None, updates(*TEMPLATES)] = Field(
        default=None,
        description="Existing bucket that gets a bundle of each node that fails, below node-evidence/ and the fleet's "
        "path; a KMS key of the bucket must let the nodes encrypt. Default: bundles stay on the nodes.",
        examples=["my-node-records"],
    )
    not_secret: Annotated[tuple[Text, ...], AsTuple, NO_CHANGE] = Field(
        default=(),
        description="Names of variables and options, and values, that only look like secrets in environment, command "
        "and user_data.",
        examples=[["STORAGE_KEY"]],
    )
    tags: Annotated[
        Tags,
        updates(
            Resource.TAGS, *TEMPLATES, Resource.AUTO_SCALING_GROUP, Resource.NODE_GROUP, Resource.COMPUTE_NODE_GROUP
        ),
    ] = Field(default={}, description="Tags of the fleet's resources, over and above the cluster's.")

    @property
    def minimum_nodes(self) -> int:
        """Least number of nodes: `nodes`, or `min_nodes`."""
        return (self.min_nodes or 0) if self.nodes is None else self.nodes

    @property
    def maximum_nodes(self) -> int:
        """Greatest number of nodes: `nodes`, or `max_nodes`."""
        return (self.max_nodes or 0) if self.nodes is None else self.nodes

    @property
    def scales(self) -> bool:
        """Whether the number of nodes is a range."""
        return self.nodes is None

    @property
    def is_reserved(self) -> bool:
        """Whether the capacity is reserved, and so lies in the cluster's zone."""
        return capacity_terms(self.capacity).kind.is_reserved

    @property
    def mig_layouts(self) -> MigLayout | list[MigLayout] | None:
        """How the GPUs are split, as the library's rules take it."""
        return mig_layouts(self.mig)

    @property
    def placement_strategy(self) -> PlacementStrategy | None:
        """Placement that the file asks for; None where the library decides."""
        return None if self.placement is None else PlacementStrategy(self.placement)

    @property
    def requested_efa(self) -> bool | None:
        """Whether the file asks for EFA; None where the instance type decides."""
        return False

    @property
    def requested_interfaces(self) -> InterfacePolicy | None:
        """Layout of the network interfaces that the file asks for; None where the library decides."""
        return None


# `training.fleets.<name>`.

_USUAL_RAY = RayNodes()

#: Key of the validation context under which the loader gives the cluster file's folder.
FOLDER = "folder"


def _beside_cluster_file(path: Path, info: ValidationInfo) -> Path:
    folder = (info.context or {}).get(FOLDER)
    if folder is None:
        return path
    # Whoever may change the file, such as with a pull request, may not make others print or deploy what they can read.
    if not is_below(folder, path):
        raise PydanticCustomError("outside", "the file is not in the folder of the cluster file")
    return Path(folder, path)


#: Four times what EC2 takes as user data.
_MOST_SCRIPT_BYTES = 64 * 1024


def read_script(path: Path) -> str:
    """Read a script that a cluster file names.

    Raises:
        OSError: If it cannot be read, is no regular file, or is too large.
        UnicodeDecodeError: If it is not UTF-8 text.
    """
    return read_bytes(path, _MOST_SCRIPT_BYTES).decode("utf-8").replace("\r\n", "\n")


ScriptPath = Annotated[
    Path,
    Field(strict=False),
    AfterValidator(_beside_cluster_file),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "minLength": 1}),
]


class RayNodesSpec(SpecModel):
    """Ray on every node of a fleet, started after the checks of its boot. Its image or `user_data` installs Ray."""

    program: Line = Field(default=_USUAL_RAY.program, description="Absolute path of `ray` on the nodes.")
    head: Line | None = Field(
        default=None,
        description="Private DNS name or address of the head, without a port. Default: the nodes choose one of them.",
        examples=["ray.lab.internal"],
    )

    @property
    def settings(self) -> RayNodes:
        """The same as the library takes it."""
        return RayNodes(program=self.program, head=self.head)


class FleetSpec(NodesSpec):
    """One group of equal nodes that train."""

    efa: Annotated[
        bool | None,
        updates(
            *TEMPLATES,
            Resource.NODE_GROUP_IDENTITY,
            Resource.NODE_GROUP,
            Resource.COMPUTE_NODE_GROUP,
            Resource.COMPUTE_ENVIRONMENT,
            Resource.JOB_DEFINITION,
            Resource.INSTANCE_GROUP,
        ),
        makes(Resource.FLEET_SECURITY_GROUP, Resource.MOUNT_RULES),
    ] = Field(
        default=None,
        description="Elastic Fabric Adapter interfaces. Default: true for accelerated types that have them.",
    )
    interface_policy: Annotated[
        Annotated[InterfacePolicy, Field(strict=False)] | None,
        updates(*TEMPLATES, Resource.NODE_GROUP_IDENTITY, Resource.JOB_DEFINITION, Resource.INSTANCE_GROUP),
    ] = Field(
        default=None,
        description="How network interfaces are laid out. `minimum-ip`: full EFA bandwidth for one IP address a "
        "node. `maximum-ena-bandwidth`: more IP bandwidth, more addresses. `efa-per-card`: one `efa` a card. "
        "Default: minimum-ip.",
    )
    fabric: Annotated[Name, updates(*TEMPLATES, Resource.COMPUTE_ENVIRONMENT)] = Field(
        default="default",
        description="Fleets with the same fabric share one EFA security group and reach each other.",
    )
    scratch: Annotated[bool, updates(*TEMPLATES, Resource.COMPUTE_NODE_GROUP, Resource.JOB_DEFINITION)] = Field(
        default=True,
        description="Whether the local disks of a node, where its type has some, become one file system at /scratch. "
        "It is empty after every stop of the instance.",
    )
    update: Annotated[Literal["never", "rolling"], updates(Resource.AUTO_SCALING_GROUP, Resource.NODE_GROUP)] = Field(
        default="never",
        description="What a changed launch template does to running nodes. `never`: they stay as they are. "
        "`rolling`: they are replaced in turn.",
    )
    environment: Annotated[Environment, updates(*TEMPLATES, Resource.JOB_DEFINITION, Resource.INSTANCE_GROUP)] = Field(
        default={},
        description="Environment variables for every login shell and service of the nodes: "
        "one line of printable ASCII each.",
    )
    user_data: Annotated[ScriptPath | None, updates(*TEMPLATES, Resource.INSTANCE_GROUP)] = Field(
        default=None,
        description="Path of a shell script to run at first boot, relative to the cluster file: ASCII, starts with #!.",
    )
    ray: Annotated[RayNodesSpec | None, updates(Resource.EC2_TEMPLATE)] = Field(
        default=None,
        description="Ray on every node, with `orchestrator: ec2`. `{}` takes all defaults. Default: none.",
    )
    metadata_users: Annotated[
        tuple[UserName, ...],
        AsTuple,
        updates(Resource.EC2_TEMPLATE, Resource.PCS_TEMPLATE, Resource.COMPUTE_NODE_GROUP),
    ] = Field(
        default=(),
        description="Users of the nodes, by name or number, who reach the instance metadata service beside root, and "
        "so have the role of the nodes. `*` for all users.",
        examples=[["ubuntu"]],
    )
    checkpoints: Annotated[Name | None, updates(*TEMPLATES, Resource.JOB_DEFINITION, Resource.INSTANCE_GROUP)] = Field(
        default=None,
        description="Store of `data` for checkpoints, which the nodes may read and write below `checkpoint_prefix`. "
        "They find it in CHECKPOINT_S3_URI, and its directory bucket in CHECKPOINT_EXPRESS_S3_URI.",
    )
    checkpoints_read_only: Annotated[bool, updates(Resource.NODE_ROLE)] = Field(
        default=False, description="Whether the nodes only read checkpoints, such as those of another fleet."
    )
    checkpoint_prefix: Annotated[
        KeyPrefix | None, updates(*TEMPLATES, Resource.JOB_DEFINITION, Resource.INSTANCE_GROUP)
    ] = Field(
        default=None,
        description="Folder of the fleet in the store for checkpoints; fleets with the same one share their "
        "checkpoints. Default: the name of the fleet. An empty text opens the entire store.",
        examples=["llama"],
    )

    def checkpoint_folder(self, fleet_name: str) -> str:
        """What the keys of its checkpoints begin with: empty, or with a slash at the end."""
        prefix = fleet_name if self.checkpoint_prefix is None else self.checkpoint_prefix
        return f"{prefix}/" if prefix else ""

    @property
    def requested_efa(self) -> bool | None:
        """Whether the file asks for EFA; None where the instance type decides."""
        return self.efa

    @property
    def requested_interfaces(self) -> InterfacePolicy | None:
        """Layout of the network interfaces that the file asks for; None where the library decides."""
        return self.interface_policy
