"""The orchestrator of this node."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..node import Node
from .auto_scaling import AutoScaling
from .kubernetes import Kubernetes
from .orchestrator import Orchestrator
from .slurm import Slurm

_ORCHESTRATORS: Mapping[str, Callable[[Node], Orchestrator]] = {
    "ec2": AutoScaling,
    "eks": Kubernetes,
    "slurm": Slurm,
    "pcs": Slurm,
}


def orchestrator_of(node: Node) -> Orchestrator | None:
    """The orchestrator that GPU_ORCHESTRATOR names: `ec2`, `eks`, `slurm` or `pcs`; None if it names none."""
    make = _ORCHESTRATORS.get(node.settings.text("orchestrator").lower())
    return make(node) if make else None
