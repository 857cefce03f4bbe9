"""The stages of a node's boot, in their order."""

from __future__ import annotations

from ..checks.verify import checks_of
from ..node import Node
from .devices import look_at_efa, look_at_gpus, look_at_mig, look_at_neuron
from .extra import extra_stages
from .services import look_at_containers, look_at_fabric_manager
from .stage import Stage
from .system import look_at_limits, look_at_user_scripts
from .units import unit_look
from .verification import look_at_health

# What settles after a boot has settled by then.
_VERIFICATION_SECONDS = 120


def stages_of(node: Node) -> list[Stage]:
    """What must hold before this node takes work, as its settings say."""
    settings = node.settings
    kind = settings.text("accelerator") if settings.number("accelerator_count") else ""
    stages = []
    if settings.text("scratch"):
        stages.append(Stage("disks", unit_look("scratch")))
    if kind:
        stages.append(Stage("driver", look_at_gpus if kind == "gpu" else look_at_neuron))
    # EKS's image starts the fabric manager on every type, and it fails where there is no NVSwitch
    # (awslabs/amazon-eks-ami issue 2727).
    if kind == "gpu" and settings.number("nvlink"):
        stages.append(Stage("fabric-manager", look_at_fabric_manager))
    if settings.number("mig_count"):
        stages.append(Stage("mig", look_at_mig))
    if settings.number("efa_count"):
        stages.append(Stage("efa", look_at_efa))
    stages.append(Stage("limits", look_at_limits))
    if settings.number("mounts"):
        stages.append(Stage("lustre", unit_look("lustre")))
    stages.append(Stage("user-data", look_at_user_scripts))
    stages.append(Stage("containers", look_at_containers))
    if checks_of(node):
        stages.append(Stage("verification", look_at_health, deadline_seconds=_VERIFICATION_SECONDS))
    return [*stages, *extra_stages()]
