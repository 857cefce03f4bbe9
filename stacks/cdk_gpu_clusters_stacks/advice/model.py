"""The content of advice for a model."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from cdk_gpu_clusters.catalogue.lookup import instance_type
from cdk_gpu_clusters.catalogue.models import ModelShape
from cdk_gpu_clusters_stacks.starter import Purpose, Starter, StarterCapacity


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceRow:
    """One way to run the model.

    Attributes:
        instance_type: Type of the nodes.
        nodes: Number of nodes.
        gpus: GPUs in all.
        how: How the model is divided, in words.
        gb_per_device: Memory that a GPU, or MIG instance, needs, in GB (10^9 bytes).
        usable_gb_per_device: What it has, without the reserve.
        usd_per_day: On-demand price of all nodes; None where no source gives one.
        price_as_of: Date of the price.
        price_source: Where it comes from.
        devices_per_replica: Devices that hold one copy; 1 where it is trained.
        mig_profile: Profile of the MIG instances; None for unsplit GPUs.
        mig_instances_per_gpu: Instances of it on each GPU.
    """

    instance_type: str
    nodes: int
    gpus: int
    how: str
    gb_per_device: float
    usable_gb_per_device: float
    usd_per_day: Decimal | None
    price_as_of: str | None
    price_source: str | None
    devices_per_replica: int = 1
    mig_profile: str | None = None
    mig_instances_per_gpu: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What is advised.

    Attributes:
        mode: Training or serving.
        region: Region of offers and prices.
        parameters: Parameters of the model.
        shape: Shape that was taken.
        arithmetic: Lines that show where the memory goes.
        rows: Ways that fit, the cheapest first, those of unknown price last.
        notes: What to bear in mind.
    """

    mode: Purpose
    region: str
    parameters: int
    shape: ModelShape
    arithmetic: tuple[str, ...]
    rows: tuple[AdviceRow, ...]
    notes: tuple[str, ...]

    def starter(self) -> Starter:
        """A cluster file for the first row."""
        row = self.rows[0]
        block = instance_type(row.instance_type).supports_capacity_block and self.mode is Purpose.TRAIN
        layout = ",".join([row.mig_profile] * row.mig_instances_per_gpu) if row.mig_profile else None
        return Starter(
            name="model",
            region=self.region,
            instance_type=row.instance_type,
            nodes=row.nodes,
            purpose=self.mode,
            capacity=StarterCapacity.CAPACITY_BLOCK if block else StarterCapacity.ON_DEMAND,
            devices_per_server=row.devices_per_replica,
            mig=layout,
        )
