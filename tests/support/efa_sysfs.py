"""RDMA devices in sysfs, with the PCI ids by which EFA is known."""

from __future__ import annotations

from pathlib import Path


def add_device(root: Path, name: str) -> Path:
    """Add a device to the sysfs below a root."""
    return make_device(root / "sys/class/infiniband" / name)


def make_device(device: Path) -> Path:
    """Make the folder of a device: one of NVIDIA for a name of its NVLink controllers, `ibp*`, otherwise an EFA device.

    Linux kernel, drivers/infiniband/hw/efa/efa_main.c: vendor 1d0f, devices efa0 to efa3.
    """
    vendor, kind = ("0x15b3", "0x1021") if device.name.startswith("ibp") else ("0x1d0f", "0xefa2")
    (device / "device").mkdir(parents=True, exist_ok=True)
    (device / "device/vendor").write_text(f"{vendor}\n")
    (device / "device/device").write_text(f"{kind}\n")
    return device
