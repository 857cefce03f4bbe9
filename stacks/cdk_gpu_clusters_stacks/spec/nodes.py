"""What every fleet says about its nodes, whatever runs on them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cdk_gpu_clusters.rules.interfaces import InterfacePolicy
from cdk_gpu_clusters.rules.mig import MigLayout
from cdk_gpu_clusters.rules.placement import PlacementStrategy

from ._base import Name, SpecModel, Tags, Text
from .alarms import AlarmsSpec
from .capacity import CapacitySpec, OnDemand, capacity_terms
from .data import BucketName
from .image import ImageSpec
from .mig import MigSpec, mig_layouts
from .watch import WatchSpec


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


class NodesSpec(SpecModel):
    """Equal nodes: an instance type, a number, and where the instances come from."""

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
    image: ImageSpec | None = Field(
        default=None,
        description="Machine image: {id: ami-…} or {parameter: /ssm/name}, with os: if it is not al2023, or {os: …}. "
        "Default: AWS's image for the accelerator and architecture; Amazon Linux 2023 where it serves the type.",
    )
    root_volume: RootVolume = Field(default=RootVolume(), description="Root volume of every node.")
    placement: Literal["cluster", "spread", "partition", "none"] | None = Field(
        default=None,
        description="Placement group of the fleet. Default: cluster with EFA, none for Capacity Blocks (EC2 refuses "
        "one) and without EFA; a reservation's own.",
    )
    mig: MigSpec | None = Field(
        default=None,
        description="How every GPU is split with MIG: profiles separated by commas, by name or id, the same for all "
        "GPUs; or a list, one text for each GPU, `off` for one that stays whole. Not with EFA. Default: whole GPUs.",
        examples=["3g.20gb,2g.10gb,1g.5gb,1g.5gb"],
    )
    fabric_manager_order: Literal["after", "before"] = Field(
        default="after",
        description="Whether GPUs are split after or before NVIDIA's fabric manager starts.",
    )
    mounts: dict[Text, Name] = Field(
        default={},
        description="File systems of `data` that every node mounts: directory of the node -> name of the store.",
        examples=[{"/fsx": "corpus"}],
    )
    watch: WatchSpec = Field(default=WatchSpec(), description="What the watchdog of each node may do.")
    alarms: AlarmsSpec = Field(
        default=AlarmsSpec(),
        description="Alarms of the fleet, whom they tell, and the stop of a launch loop.",
    )
    evidence_bucket: BucketName | None = Field(
        default=None,
        description="Existing bucket that gets a bundle of each node that fails, below node-evidence/ and the fleet's "
        "path; a KMS key of the bucket must let the nodes encrypt. Default: bundles stay on the nodes.",
        examples=["my-node-records"],
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
    def efa_wish(self) -> bool | None:
        """Whether the file asks for EFA; None where the instance type decides."""
        return False

    @property
    def interface_wish(self) -> InterfacePolicy | None:
        """Layout of the network interfaces that the file asks for; None where the library decides."""
        return None
