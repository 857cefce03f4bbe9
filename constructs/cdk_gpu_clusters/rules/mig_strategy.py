"""How NVIDIA's device plugin shows the GPUs of a node to Kubernetes, and under which names.

Source: NVIDIA/k8s-device-plugin, README, "Configuration option details" (`MIG_STRATEGY`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType

from cdk_gpu_clusters.catalogue import AcceleratorKind, InstanceType
from cdk_gpu_clusters.errors import Finding, check, define_rule, raise_for
from cdk_gpu_clusters.rules.mig import WHOLE_GPU_RESOURCE, MigPlan

SINGLE_NEEDS_ONE_PROFILE = define_rule(
    "GPU-MIG-014",
    "strategy single shows slices of one profile, of which every GPU of the node has as many",
    source='NVIDIA/k8s-device-plugin, README, "MIG strategy": single',
)
NO_SLICES = define_rule(
    "GPU-MIG-015",
    "a node whose GPUs are split has a MIG strategy, and no other node has one",
    source='NVIDIA/k8s-device-plugin, README, "MIG strategy": none',
)

#: What the AWS Neuron device plugin calls a Neuron device.
NEURON_RESOURCE = "aws.amazon.com/neuron"


class MigStrategy(StrEnum):
    """What the device plugin does with MIG.

    Attributes:
        NONE: Unsplit GPUs, as `nvidia.com/gpu`.
        SINGLE: Every slice of the node as `nvidia.com/gpu`; they are all alike.
        MIXED: Every slice under its own name, such as `nvidia.com/mig-1g.5gb`; unsplit GPUs as `nvidia.com/gpu`.
    """

    NONE = "none"
    SINGLE = "single"
    MIXED = "mixed"


def choose_strategy(mig: MigPlan | None, requested: MigStrategy | None = None) -> MigStrategy:
    """The strategy of a node.

    Args:
        mig: How its GPUs are split; None if they are not split.
        requested: The requested strategy; None for mixed on split GPUs, so that no job takes a slice for a GPU.

    Raises:
        ConfigError: GPU-MIG-014 and -015.

    Example:
        >>> choose_strategy(None).value
        'none'
    """
    raise_for(check_strategy(mig, requested))
    if requested is not None:
        return requested
    return MigStrategy.NONE if mig is None else MigStrategy.MIXED


@check
def check_strategy(mig: MigPlan | None, requested: MigStrategy | None) -> Iterator[Finding]:
    """Find a strategy that does not fit how the GPUs are split."""
    if requested is None:
        return
    if (mig is None) != (requested is MigStrategy.NONE):
        yield NO_SLICES.finding(
            cause="the device plugin would show no GPU of these nodes as they are",
            got=f"strategy {requested.value}, with {'whole' if mig is None else 'split'} GPUs",
            allowed="none for unsplit GPUs; single or mixed for split ones",
            fix="leave the strategy out",
            path="mig_strategy",
        )
    elif mig is not None and requested is MigStrategy.SINGLE and not _is_uniform(mig):
        yield SINGLE_NEEDS_ONE_PROFILE.finding(
            cause="the slices of the node are not all alike",
            got=f"strategy single, with {mig.partition}",
            allowed="strategy mixed",
            fix="leave the strategy out, or give every GPU the same slices of one profile",
            path="mig_strategy",
        )


def node_resources(record: InstanceType, mig: MigPlan | None, strategy: MigStrategy | None = None) -> Mapping[str, int]:
    """What Kubernetes sees of the accelerators of a node: name and number.

    Args:
        record: Type of the node.
        mig: How its GPUs are split; None if they are not split.
        strategy: The strategy; the one that `choose_strategy` chooses if left out.

    Example:
        >>> from cdk_gpu_clusters.catalogue import instance_type
        >>> dict(node_resources(instance_type("p5.48xlarge"), None))
        {'nvidia.com/gpu': 8}
    """
    accelerator = record.accelerator
    if accelerator is None:
        return MappingProxyType({})
    count = accelerator.count or accelerator.logical_count
    if accelerator.kind is AcceleratorKind.NEURON:
        return MappingProxyType({NEURON_RESOURCE: count})
    chosen = choose_strategy(mig, strategy)
    if mig is None:
        return MappingProxyType({WHOLE_GPU_RESOURCE: count})
    if chosen is MigStrategy.SINGLE:
        return MappingProxyType({WHOLE_GPU_RESOURCE: mig.slices_per_node})
    return mig.resources


def _is_uniform(mig: MigPlan) -> bool:
    kinds = {profile.name for gpu in mig.gpus for profile in gpu.profiles}
    counts = {len(gpu.placements) for gpu in mig.gpus}
    return len(kinds) == 1 and len(counts) == 1
