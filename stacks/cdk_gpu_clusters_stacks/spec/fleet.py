"""`training.fleets.<name>`: one group of equal nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PlainSerializer, StringConstraints, ValidationInfo, WithJsonSchema

from cdk_gpu_clusters.rules.interfaces import InterfacePolicy
from cdk_gpu_clusters.rules.placement import PlacementStrategy

from ._base import Name, SpecModel, Tags, Text
from .capacity import CapacitySpec, OnDemand
from .image import ImageSpec

#: Key of the validation context under which the loader gives the cluster file's folder.
FOLDER = "folder"


def _beside_cluster_file(path: Path, info: ValidationInfo) -> Path:
    folder = (info.context or {}).get(FOLDER)
    return path if folder is None else Path(folder, path)


ScriptPath = Annotated[
    Path,
    Field(strict=False),
    AfterValidator(_beside_cluster_file),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "minLength": 1}),
]
VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
VariableValue = Annotated[str, StringConstraints(pattern=r"^[\x20-\x7e]*$")]


class RootVolume(SpecModel):
    """The encrypted gp3 root volume of every node."""

    size_gib: int | None = Field(
        default=None,
        ge=1,
        le=65536,
        description="Size in GiB. Default: 200, room for a deep-learning image and containers.",
    )
    iops: int | None = Field(
        default=None,
        ge=3000,
        le=80000,
        description="I/O operations per second, at most 500 per GiB. Default: 3000.",
    )
    throughput_mib_per_s: int | None = Field(
        default=None,
        ge=125,
        le=2000,
        description="Throughput in MiB/s, at most a quarter of the IOPS. Default: 250.",
    )


class FleetSpec(SpecModel):
    """One group of equal nodes: an instance type, a number, and where the instances come from."""

    instance_type: Text = Field(description="EC2 instance type.", examples=["p5.48xlarge"])
    nodes: int | None = Field(
        default=None, ge=1, description="Number of nodes. Either this, or `min_nodes` and `max_nodes`."
    )
    min_nodes: int | None = Field(
        default=None, ge=0, description="Least number of nodes of a fleet that scales."
    )
    max_nodes: int | None = Field(
        default=None, ge=1, description="Greatest number of nodes of a fleet that scales."
    )
    capacity: CapacitySpec = Field(
        default=OnDemand(),
        description="Where the instances come from: on_demand, spot, an existing reservation or group of them, "
        "a Capacity Block, an UltraServer block, or a reservation made here. Default: on_demand.",
    )
    efa: bool | None = Field(
        default=None,
        description="Elastic Fabric Adapter interfaces. Default: true for accelerated types that have them.",
    )
    interface_policy: Annotated[InterfacePolicy, Field(strict=False)] | None = Field(
        default=None,
        description="How network interfaces are laid out. `minimum-ip`: full EFA bandwidth for one IP address a "
        "node. `maximum-ena-bandwidth`: more IP bandwidth, more addresses. `efa-per-card`: one `efa` a card. "
        "Default: minimum-ip.",
    )
    fabric: Name = Field(
        default="default",
        description="Fleets with the same fabric share one EFA security group and reach each other.",
    )
    placement: Literal["cluster", "spread", "partition", "none"] | None = Field(
        default=None,
        description="Placement group of the fleet. Default: cluster with EFA, none for Capacity Blocks (EC2 refuses "
        "one) and without EFA; a reservation's own.",
    )
    image: ImageSpec | None = Field(
        default=None,
        description="Machine image: {id: ami-…} or {parameter: /ssm/name}, with os: if it is not al2023, or {os: …}. "
        "Default: AWS's image for the accelerator and architecture; Amazon Linux 2023 where it serves the type.",
    )
    root_volume: RootVolume = Field(default=RootVolume(), description="Root volume of every node.")
    update: Literal["never", "rolling"] = Field(
        default="never",
        description="What a changed launch template does to running nodes. `never`: they stay as they are. "
        "`rolling`: they are replaced in turn.",
    )
    environment: dict[VariableName, VariableValue] = Field(
        default={},
        description="Environment variables for every login shell and service of the nodes: "
        "one line of printable ASCII each.",
    )
    user_data: ScriptPath | None = Field(
        default=None,
        description="Path of a shell script to run at first boot, relative to the cluster file: ASCII, starts with #!.",
    )
    mounts: dict[Text, Name] = Field(
        default={},
        description="File systems of `data` that every node mounts: directory of the node -> name of the store.",
        examples=[{"/fsx": "corpus"}],
    )
    checkpoints: Name | None = Field(
        default=None,
        description="Store of `data` for checkpoints, which the nodes may read and write. They find it in "
        "CHECKPOINT_S3_URI, and its directory bucket in CHECKPOINT_EXPRESS_S3_URI.",
    )
    tags: Tags = Field(default={}, description="Tags of the fleet's resources, over and above the cluster's.")

    @property
    def minimum_nodes(self) -> int:
        """Least number of nodes: `nodes`, or `min_nodes`."""
        return (self.min_nodes or 0) if self.nodes is None else self.nodes

    @property
    def maximum_nodes(self) -> int:
        """Greatest number of nodes: `nodes`, or `max_nodes`."""
        return (self.max_nodes or 0) if self.nodes is None else self.nodes

    @property
    def placement_strategy(self) -> PlacementStrategy | None:
        """Placement that the file asks for; None where the library decides."""
        return None if self.placement is None else PlacementStrategy(self.placement)

    @property
    def scales(self) -> bool:
        """Whether the number of nodes is a range."""
        return self.nodes is None
