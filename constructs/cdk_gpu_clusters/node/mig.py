"""The user data of a node with split GPUs: `/etc/default/mig`, and the drop-in of its unit."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from enum import Enum

from cdk_gpu_clusters.rules.mig import MigPlan

_PARTITION = re.compile(r"[0-9A-Za-z.+,;-]+")
_DRIVER = re.compile(r"[0-9]+(\.[0-9]+)*")
_DROP_IN = "/etc/systemd/system/gpu-mig.service.d/fabric-manager.conf"


class FabricManagerOrder(str, Enum):
    """When the GPUs are split, relative to NVIDIA's fabric manager on nodes with NVSwitch.

    Sources disagree: NVIDIA/mig-parted v0.15.0 orders itself after it, an AWS article of 2021 before it, and NVIDIA's
    Fabric Manager user guide describes both. After is the default, since switching MIG off needs a running fabric
    manager. Neither has been verified on hardware here.
    """

    AFTER = "after"
    BEFORE = "before"


@dataclass(frozen=True, slots=True, kw_only=True)
class MigSettings:
    """How a node splits its GPUs at every boot.

    Attributes:
        partition: `MIG_PARTITION` text, as `MigPlan.partition`.
        gpu_count: GPUs that must answer before anything is changed.
        device_count: MIG devices that make the node ready.
        whole_gpu_count: GPUs that are not split.
        minimum_driver: Oldest driver release for the layout; empty: not checked.
        fabric_manager: When to split them, relative to NVIDIA's fabric manager.
    """

    partition: str
    gpu_count: int
    device_count: int
    whole_gpu_count: int = 0
    minimum_driver: str = ""
    fabric_manager: FabricManagerOrder = FabricManagerOrder.AFTER

    def __post_init__(self) -> None:
        if not _PARTITION.fullmatch(self.partition):
            raise ValueError(f"not a MIG_PARTITION: {self.partition!r}")
        if self.minimum_driver and not _DRIVER.fullmatch(self.minimum_driver):
            raise ValueError(f"not a driver release: {self.minimum_driver!r}")


def mig_settings(plan: MigPlan, *, fabric_manager: FabricManagerOrder = FabricManagerOrder.AFTER) -> MigSettings:
    """The settings of a plan.

    Args:
        plan: How the GPUs are split.
        fabric_manager: When, relative to NVIDIA's fabric manager; after it if left out.
    """
    return MigSettings(
        partition=plan.partition,
        gpu_count=len(plan.gpus),
        device_count=plan.slices_per_node,
        whole_gpu_count=plan.whole_gpus_per_node,
        minimum_driver=plan.minimum_driver,
        fabric_manager=fabric_manager,
    )


def default_mig_file(settings: MigSettings) -> str:
    """The text of `/etc/default/mig`, for shells and for systemd's EnvironmentFile."""
    driver = f"MIG_MINIMUM_DRIVER={settings.minimum_driver}\n" if settings.minimum_driver else ""
    return f'MIG_PARTITION="{settings.partition}"\nMIG_GPU_COUNT={settings.gpu_count}\n{driver}'


def fabric_manager_drop_in(settings: MigSettings) -> str:
    """The drop-in of `gpu-mig.service` that orders it. No `Requires`: not every node has a fabric manager."""
    order = "After" if settings.fabric_manager is FabricManagerOrder.AFTER else "Before"
    return f"[Unit]\n{order}=nvidia-fabricmanager.service\n"


def mig_files_command(settings: MigSettings) -> str:
    """A shell command that writes the files of the unit. The early part of the user data runs it at the first boot.

    A unit that a user script installs would be too late on the first boot: the fabric manager and other services have
    started by then.
    """
    files = {"/etc/default/mig": default_mig_file(settings), _DROP_IN: fabric_manager_drop_in(settings)}
    writes = [f"printf %s {shlex.quote(text)} >{path}" for path, text in files.items()]
    return f"mkdir -p /etc/default {_DROP_IN.rpartition('/')[0]} && {' && '.join(writes)}"
