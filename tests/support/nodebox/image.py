"""What a GPU image has on top of Debian, as fakes: the files of `image/`, and its daemons, enabled; and what a container
or a virtual machine needs besides.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

from fakes import nodeadm
from nodebox.gpus import Gpus

#: Addresses inside a node's network: AWS but for S3, S3, and the driver of the GPUs. The files of `image/` know them.
AWS, S3, DRIVER = "10.77.0.1", "10.77.0.3", "10.77.0.4"
#: Daemons of a GPU image; each says in the journal what it finds when it starts.
DAEMONS = ("nvidia-persistenced", "nvidia-fabricmanager", "nvidia-dcgm", "docker", "slurmd")
_ONLY_DEBIAN = (
    "Before=sysinit.target",
    "Before=shutdown.target",
    "Conflicts=shutdown.target",
    "After=networking.service",
    "After=multi-user.target",
    "Before=apt-daily.service",
)
_FILES = Path(__file__).parent
_UNITS = "etc/systemd/system"


#: Units that EKS's image for NVIDIA GPUs starts (awslabs/amazon-eks-ami @ 81fec2e, templates/al2023/provisioners; for the
#: last NVIDIA/nvidia-container-toolkit @ d34b304, deployments/systemd), and daemons of other images, which it has not.
_OF_EKS = ("nodeadm-config", "nodeadm-run", "nvidia-kmod-load", "set-nvidia-clocks", "nvidia-cdi-refresh")
_NOT_OF_EKS = ("nvidia-dcgm", "docker", "slurmd")


def image_layer(directory: Path, machine: str, *, units: Sequence[str] = ()) -> Path:
    """Make the layer, with owners and modes that do not depend on how the repository was checked out.

    Args:
        directory: The layer.
        machine: What it is for, `container` or `virtual-machine`.
        units: Units to start besides the daemons.
    """
    for files in ("image", f"image-of-{machine}"):
        shutil.copytree(_FILES / files, directory, dirs_exist_ok=True)
    for unit in (*DAEMONS, *units):
        own = directory / f"{_UNITS}/{unit}.service"
        _request(directory, unit).symlink_to(
            f"../{unit}.service" if own.exists() else f"/lib/systemd/system/{unit}.service"
        )
    driver = directory / "usr/local/bin/nvidia-smi"
    driver.write_text(Gpus.program(f"http://{DRIVER}"))
    driver.chmod(0o755)
    return _owned(directory)


def other_order(directory: Path, debian: Path) -> Path:
    """Make a layer with cloud-init's units as they are outside Debian and Ubuntu, on Amazon Linux among others.

    There its first stages are not part of sysinit.target, and its last is not after multi-user.target
    (canonical/cloud-init, `systemd/*.service.tmpl`, the branches for variants).
    """
    units = directory / _UNITS
    units.mkdir(parents=True)
    for unit in ("cloud-init-local", "cloud-init", "cloud-final"):
        lines = (debian / f"lib/systemd/system/{unit}.service").read_text().splitlines(keepends=True)
        kept = [line for line in lines if line.strip() not in _ONLY_DEBIAN]
        assert len(kept) < len(lines), f"{unit} of this Debian is like that of others"
        (units / f"{unit}.service").write_text("".join(kept))
    return _owned(directory)


def eks_layer(directory: Path, debian: Path) -> Path:
    """Make a layer that turns the image into EKS's own, Amazon Linux 2023 for NVIDIA GPUs: nodeadm starts containerd and
    kubelet, which are not enabled, and cloud-init's units are ordered as there.
    """
    other_order(directory, debian)
    shutil.copytree(_FILES / "image-of-eks", directory, dirs_exist_ok=True)
    shutil.copy(nodeadm.__file__, directory / "usr/bin/nodeadm")
    (directory / "usr/bin/nodeadm").chmod(0o755)
    for unit in _OF_EKS:
        _request(directory, unit).symlink_to(f"../{unit}.service")
    for unit in _NOT_OF_EKS:
        for place in (directory / f"{_UNITS}/{unit}.service", _request(directory, unit)):
            remove_from_below(place)
    return _owned(directory)


def remove_from_below(place: Path) -> None:
    """Have a layer hide a file of those below it."""
    place.parent.mkdir(parents=True, exist_ok=True)
    os.mknod(place, stat.S_IFCHR, os.makedev(0, 0))  # to overlayfs, a file that is gone


def _request(directory: Path, unit: str) -> Path:
    """The link by which a unit is enabled."""
    requested = directory / f"{_UNITS}/multi-user.target.wants/{unit}.service"
    requested.parent.mkdir(parents=True, exist_ok=True)
    return requested


def _owned(directory: Path) -> Path:
    for folder, _, names in os.walk(directory):
        for path in (Path(folder), *(Path(folder, name) for name in names)):
            os.chown(path, 0, 0, follow_symlinks=False)
            if path.is_file() or path.is_dir():
                path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
    return directory
