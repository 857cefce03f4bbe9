"""Local NVMe disks of an instance, as far as a container can have them: loop devices under the names of such disks."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from nodebox.debian import program

# The least that mkfs.xfs takes is 300 MB.
_BYTES = 512 * 2**20
_NAMES = "/dev/disk/by-id"


@contextmanager
def local_disks(directory: Path, count: int = 1) -> Iterator[dict[str, Path]]:
    """Blank disks as binds of a machine: the block devices, and the directory with their names.

    Args:
        directory: An empty directory.
        count: How many.
    """
    names = directory / "by-id"
    names.mkdir()
    with ExitStack() as stack:
        binds = {_NAMES: names}
        for index in range(count):
            image = directory / f"disk-{index}"
            with image.open("wb") as file:
                file.truncate(_BYTES)
            device = stack.enter_context(_loop_device(image))
            (names / f"nvme-Amazon_EC2_NVMe_Instance_Storage_AWS{index}").symlink_to(f"../../{device.name}")
            binds[str(device)] = device
        yield binds


@contextmanager
def _loop_device(image: Path) -> Iterator[Path]:
    """A device that is there while this process and the machine use it, and no longer: also if this one is killed."""
    losetup = program("losetup", "mount")
    attach = [losetup, "--find", "--show", str(image)]
    device = Path(subprocess.run(attach, check=True, capture_output=True, text=True).stdout.strip())
    with device.open("rb"):
        # In use, it is only marked.
        subprocess.run([losetup, "--detach", str(device)], check=True)
        yield device


def block_devices(binds: dict[str, Path]) -> list[str]:
    """The devices of `local_disks`."""
    return [place for place in binds if place != _NAMES]
