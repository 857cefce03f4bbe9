"""What a node is told of its GPUs, so that `gpunode verify` can say whether it has them."""

from __future__ import annotations

from dataclasses import dataclass

from cdk_gpu_clusters.catalogue.instances import AcceleratorKind, InstanceType
from cdk_gpu_clusters.catalogue.mig import mig_gpu_of


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFacts:
    """The GPUs of an instance type, as far as the catalogue has a source.

    Attributes:
        model: Their model, such as `H100`; its words are among those that nvidia-smi prints.
        nvlink_gbytes_per_s: NVLink bandwidth of each in GB/s, both directions summed; 0 without NVLink.
        minimum_driver: First driver release with MIG on the model, which is asked of whole GPUs too; empty for GPUs
            that cannot be split.
    """

    model: str
    nvlink_gbytes_per_s: float = 0
    minimum_driver: str = ""

    def environment(self) -> dict[str, str]:
        """The facts as node settings.

        Example:
            >>> GpuFacts(model="L4").environment()
            {'GPU_MODEL': 'L4'}
        """
        values = {
            "GPU_MODEL": self.model,
            "GPU_NVLINK": f"{self.nvlink_gbytes_per_s:g}" if self.nvlink_gbytes_per_s else "",
            "GPU_MIN_DRIVER": self.minimum_driver,
        }
        return {name: value for name, value in values.items() if value}


def gpu_facts(instance_type: InstanceType) -> GpuFacts | None:
    """The facts about a type's GPUs, None for a type without GPUs.

    Args:
        instance_type: A type of the catalogue.

    Example:
        >>> from cdk_gpu_clusters.catalogue import instance_type
        >>> gpu_facts(instance_type("p5.48xlarge")).environment()
        {'GPU_MODEL': 'H100', 'GPU_NVLINK': '900', 'GPU_MIN_DRIVER': '525.85.12'}
    """
    accelerator, mig = instance_type.accelerator, mig_gpu_of(instance_type)
    if accelerator is None or accelerator.kind is not AcceleratorKind.GPU:
        return None
    return GpuFacts(
        model=accelerator.marketing_name or accelerator.name,
        nvlink_gbytes_per_s=accelerator.nvlink_gbytes_per_s_per_gpu or 0,
        minimum_driver="" if mig is None else mig.minimum_driver,
    )
