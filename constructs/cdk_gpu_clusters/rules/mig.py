"""The MIG plan of a node: which instances each GPU gets, and what follows from them.

Source: NVIDIA MIG User Guide, editions 580 to 620; NVIDIA/mig-parted v0.15.0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.catalogue import instance_type as look_up
from cdk_gpu_clusters.catalogue.mig import MigEvidence, MigGpu, MigProfile, mig_gpu_of
from cdk_gpu_clusters.errors import Finding, raise_for
from cdk_gpu_clusters.rules.mig_checks import check_mig, check_mig_with_efa
from cdk_gpu_clusters.rules.mig_driver import minimum_driver
from cdk_gpu_clusters.rules.mig_layout import OFF, MigLayout
from cdk_gpu_clusters.rules.mig_placement import creation_order, place

__all__ = [
    "MigGpuPlan",
    "MigLayout",
    "MigPlacement",
    "MigPlan",
    "check_mig",
    "check_mig_with_efa",
    "plan_mig",
]

#: What NVIDIA's Kubernetes device plugin calls a whole GPU.
WHOLE_GPU_RESOURCE = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class MigPlacement:
    """An instance at a place that it can have; the driver may choose another one.

    Attributes:
        profile: Profile of the instance.
        start: First memory slice.
        size: Number of memory slices.
    """

    profile: MigProfile
    start: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MigGpuPlan:
    """One GPU of the node.

    Attributes:
        index: Index of the GPU, from 0, as in `nvidia-smi -L`.
        placements: Its instances in the order of creation, at places that prove that they fit; empty for a whole GPU.
        partition: `MIG_PARTITION` text of this GPU, such as `3g.20gb,2g.10gb,1g.5gb,1g.5gb`, or `off`.
    """

    index: int
    placements: tuple[MigPlacement, ...]
    partition: str

    @property
    def profiles(self) -> tuple[MigProfile, ...]:
        """The profiles in the order of creation."""
        return tuple(placement.profile for placement in self.placements)


@dataclass(frozen=True, slots=True, kw_only=True)
class MigPlan:
    """How the GPUs of a node are split.

    Attributes:
        instance_type: Type of the node.
        gpu: MIG side of its GPUs.
        gpus: Each GPU, in index order.
        partition: `MIG_PARTITION` text of the node: one layout if all GPUs have the same, else one per GPU, separated
            by semicolons.
        slices_per_node: MIG instances of the node.
        resources: What Kubernetes sees on a node with the device plugin's strategy "mixed": name and number. Names of
            the pattern are unverified, and disputed on a GPU with disputed profile names.
        minimum_driver: First driver release that makes this layout.
        findings: Advice; never errors.
    """

    instance_type: str
    gpu: MigGpu
    gpus: tuple[MigGpuPlan, ...]
    partition: str
    slices_per_node: int
    resources: Mapping[str, int]
    minimum_driver: str
    findings: tuple[Finding, ...]

    @property
    def placements_inferred(self) -> bool:
        """Whether no listing of this GPU's placements was found, so that those of its relatives are taken."""
        return self.gpu.placements is not MigEvidence.VERIFIED

    @property
    def whole_gpus_per_node(self) -> int:
        """GPUs of the node that are not split."""
        return sum(not gpu.placements for gpu in self.gpus)


def plan_mig(instance_type: InstanceType | str, layouts: MigLayout | Sequence[MigLayout]) -> MigPlan:
    """Plan how the GPUs of a node are split.

    Args:
        instance_type: The type of the node.
        layouts: One layout for all GPUs, or one for each in the order of `nvidia-smi -L`.

    Raises:
        ConfigError: GPU-MIG-001 to -005 and -008, all faults at once.

    Example:
        >>> plan = plan_mig("p4d.24xlarge", MigLayout(["1g.5gb"] * 7))
        >>> plan.slices_per_node, dict(plan.resources)
        (56, {'nvidia.com/mig-1g.5gb': 56})
    """
    record = look_up(instance_type) if isinstance(instance_type, str) else instance_type
    findings = check_mig(record, layouts)
    raise_for(findings)
    gpu, accelerator = mig_gpu_of(record), record.accelerator
    if gpu is None or accelerator is None:
        raise ValueError(f"{record.name} has no GPU to split, which check_mig should have said")
    given = [layouts] if isinstance(layouts, MigLayout) else list(layouts)
    each = given * accelerator.count if len(given) == 1 else given
    gpus = tuple(_plan_gpu(gpu, index, layout) for index, layout in enumerate(each))
    partitions = [plan.partition for plan in gpus]
    names = Counter(profile.resource_name for plan in gpus for profile in plan.profiles)
    names[WHOLE_GPU_RESOURCE] = sum(not plan.placements for plan in gpus)
    return MigPlan(
        instance_type=record.name,
        gpu=gpu,
        gpus=gpus,
        partition=partitions[0] if len(set(partitions)) == 1 else ";".join(partitions),
        slices_per_node=sum(len(plan.placements) for plan in gpus),
        resources=MappingProxyType({name: count for name, count in sorted(names.items()) if count}),
        minimum_driver=minimum_driver(gpu, [[one.name for one in plan.profiles] for plan in gpus]),
        findings=tuple(findings),
    )


def _plan_gpu(gpu: MigGpu, index: int, layout: MigLayout) -> MigGpuPlan:
    if layout.is_whole_gpu:
        return MigGpuPlan(index=index, placements=(), partition=OFF)
    profiles = creation_order([found for name in layout.profiles if (found := gpu.profile(name))])
    starts = place(gpu, profiles)
    if starts is None:
        raise ValueError(f"{layout} does not fit {gpu.key}, which check_mig should have said")
    return MigGpuPlan(
        index=index,
        placements=tuple(
            MigPlacement(profile=profile, start=start, size=profile.memory_slices)
            for profile, start in zip(profiles, starts, strict=True)
        ),
        # Where sources disagree on the names, the node resolves the ids.
        partition=",".join(
            profile.name if gpu.names is MigEvidence.VERIFIED else str(profile.id) for profile in profiles
        ),
    )
