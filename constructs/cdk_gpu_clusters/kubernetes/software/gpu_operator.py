"""What NVIDIA's GPU Operator must leave alone to live beside nodes of this library.

The library does not install the operator: the image of a node has the driver and the container toolkit, MIG is set
before kubelet starts, and the charts of `cluster_software` do the rest. Two that do one thing undo each other.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class OperatorSwitch(NamedTuple):
    """One thing that the operator would do.

    Attributes:
        key: Key in the values of its chart.
        value: What it must be.
        done_by: What does it here.
    """

    key: str
    value: bool
    done_by: str


#: All of them are true by themselves.
#: Source: NVIDIA/gpu-operator @ 10ee5b3 (v26.7.0), deployments/gpu-operator/values.yaml (read 2026-11-22).
SWITCHES = (
    OperatorSwitch("driver.enabled", False, "the image of the node"),
    OperatorSwitch("toolkit.enabled", False, "the image of the node"),
    # NVIDIA/gpu-operator issue 2415: its manager restarts kubelet.
    OperatorSwitch(
        "migManager.enabled", False, "`gpu-mig`, before kubelet starts; the operator's restarts it"
    ),
    OperatorSwitch("devicePlugin.enabled", False, "the release `nvidia-device-plugin`"),
    OperatorSwitch("gfd.enabled", False, "the release `nvidia-device-plugin`"),
    OperatorSwitch("nfd.enabled", False, "the release `nvidia-device-plugin`"),
    OperatorSwitch("dcgmExporter.enabled", False, "the release `dcgm-exporter`"),
)


def gpu_operator_values() -> dict[str, Any]:
    """Values of the chart `gpu-operator` with which it leaves the nodes of this library alone.

    Example:
        >>> gpu_operator_values()["driver"]
        {'enabled': False}
    """
    values: dict[str, Any] = {}
    for switch in SWITCHES:
        section, _, key = switch.key.partition(".")
        values.setdefault(section, {})[key] = switch.value
    return values
