"""Labels and taints of GPU nodes in Kubernetes, from the catalogue: what manifests select nodes by.

The node group gives them to its nodes before any pod runs; what GPU feature discovery finds later (`nvidia.com/...`)
reports the same from the driver's side, and is not needed to place a pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from cdk_gpu_clusters.catalogue import AcceleratorKind, InstanceType
from cdk_gpu_clusters.rules.mig import MigStrategy

#: What the labels of this library begin with.
PREFIX = "gpu-cluster/"
#: The group of nodes.
FLEET_LABEL = f"{PREFIX}fleet"
#: `gpu` or `neuron`; nodes without accelerators have no such label.
ACCELERATOR_LABEL = f"{PREFIX}accelerator"
#: EFA interfaces of a node; nodes without EFA have no such label.
EFA_LABEL = f"{PREFIX}efa-count"
#: The device plugin's strategy.
MIG_STRATEGY_LABEL = f"{PREFIX}mig-strategy"
#: By which the chart of NVIDIA's device plugin chooses one of its configurations for a node
#: (NVIDIA/k8s-device-plugin, README, "Updating per-node configuration with a node label").
DEVICE_PLUGIN_LABEL = "nvidia.com/device-plugin.config"

#: Taint of nodes with accelerators, by what they have: only pods that ask for them run there.
TAINTS: Mapping[AcceleratorKind, str] = MappingProxyType(
    {AcceleratorKind.GPU: "nvidia.com/gpu", AcceleratorKind.NEURON: "aws.amazon.com/neuron"}
)

TaintEffect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTaint:
    """A taint of a node.

    Attributes:
        key: Its key.
        value: Its value.
        effect: What it does to pods that do not tolerate it.
    """

    key: str
    value: str = "true"
    effect: TaintEffect = "NoSchedule"


def device_plugin_config(strategy: MigStrategy) -> str:
    """Name of the device plugin's configuration for a strategy.

    Example:
        >>> device_plugin_config(MigStrategy.MIXED)
        'mig-mixed'
    """
    return f"mig-{strategy.value}"


def node_labels(record: InstanceType, *, fleet: str, efa_count: int, mig_strategy: MigStrategy) -> Mapping[str, str]:
    """The labels of the nodes of a group.

    Args:
        record: Type of the nodes.
        fleet: Name of the group.
        efa_count: EFA interfaces of a node.
        mig_strategy: How the device plugin shows its GPUs.

    Example:
        >>> from cdk_gpu_clusters.catalogue import instance_type
        >>> record = instance_type("p5.48xlarge")
        >>> labels = node_labels(record, fleet="trainers", efa_count=32, mig_strategy=MigStrategy.NONE)
        >>> labels["gpu-cluster/gpu"], labels["gpu-cluster/gpu-memory-mib"], labels["gpu-cluster/efa-count"]
        ('H100', '81920', '32')
    """
    labels = {FLEET_LABEL: fleet}
    if efa_count:
        labels[EFA_LABEL] = str(efa_count)
    accelerator = record.accelerator
    if accelerator is None:
        return MappingProxyType(labels)
    kind = accelerator.kind.value
    labels |= {
        ACCELERATOR_LABEL: kind,
        f"{PREFIX}{kind}": accelerator.name.replace(" ", "-"),
        f"{PREFIX}{kind}-count": str(accelerator.count or accelerator.logical_count),
        f"{PREFIX}{kind}-memory-mib": str(accelerator.memory_mib_each),
    }
    if accelerator.kind is AcceleratorKind.GPU:
        labels |= {
            MIG_STRATEGY_LABEL: mig_strategy.value,
            DEVICE_PLUGIN_LABEL: device_plugin_config(mig_strategy),
        }
    return MappingProxyType(labels)


def node_taints(record: InstanceType) -> tuple[NodeTaint, ...]:
    """The taints of nodes of a type: none without accelerators."""
    accelerator = record.accelerator
    return () if accelerator is None else (NodeTaint(key=TAINTS[accelerator.kind]),)
