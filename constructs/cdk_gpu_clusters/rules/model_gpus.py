"""The GPUs of a node as a model sees them: how many, how much memory, and which groups can share a layer."""

from __future__ import annotations

from dataclasses import dataclass

from cdk_gpu_clusters.catalogue.instances import AcceleratorKind, InstanceType

_BYTES_PER_MIB = 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelGpus:
    """The GPUs of a node.

    Attributes:
        instance_type: Type of the node.
        count: GPUs of a node.
        bytes_each: Memory of one.
        nvlink: Whether they are joined by NVLink.
    """

    instance_type: InstanceType
    count: int
    bytes_each: int
    nvlink: bool

    @classmethod
    def of(cls, instance_type: InstanceType) -> ModelGpus | None:
        """The GPUs of a type; None without NVIDIA GPUs, or with shares of one: the formulas are for whole GPUs.

        Args:
            instance_type: A type of the catalogue.
        """
        found = instance_type.accelerator
        if found is None or found.kind is not AcceleratorKind.GPU or found.partition_fraction != 1:
            return None
        return cls(
            instance_type=instance_type,
            count=found.count,
            bytes_each=found.memory_mib_for_sizing * _BYTES_PER_MIB,
            nvlink=bool(found.nvlink_gbytes_per_s_per_gpu),
        )

    def usable_bytes(self, reserve: float) -> int:
        """Memory of one GPU without a reserve.

        Args:
            reserve: Part that is left free, from 0 to 1.
        """
        return int(self.bytes_each * (1 - reserve))

    def tensor_groups(self, heads: int, *, over_pcie: bool = False) -> list[int]:
        """Sizes of groups that can share a layer: powers of two that divide the heads and the GPUs of a node.

        Args:
            heads: Heads that are divided.
            over_pcie: Whether GPUs without NVLink may share layers, too: slow in training, usual in serving.
        """
        sizes = [1]
        while sizes[-1] * 2 <= self.count and (self.nvlink or over_pcie):
            sizes.append(sizes[-1] * 2)
        return [size for size in sizes if heads % size == 0 and self.count % size == 0]
