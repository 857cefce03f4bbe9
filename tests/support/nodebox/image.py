"""What a GPU image has on top of Debian, as fakes: the files of `image/`, and its daemons, enabled; and what a container
or a virtual machine needs besides.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

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
        wish = directory / f"etc/systemd/system/multi-user.target.wants/{unit}.service"
        wish.parent.mkdir(exist_ok=True)
        own = directory / f"etc/systemd/system/{unit}.service"
        wish.symlink_to(f"../{unit}.service" if own.exists() else f"/lib/systemd/system/{unit}.service")
    driver = directory / "usr/local/bin/nvidia-smi"
    driver.write_text(Gpus.program(f"http://{DRIVER}"))
    driver.chmod(0o755)
    return _owned(directory)


def other_order(directory: Path, debian: Path) -> Path:
    """Make a layer with cloud-init's units as they are outside Debian and Ubuntu, on Amazon Linux among others.

    There its first stages are not part of sysinit.target, and its last is not after multi-user.target
    (canonical/cloud-init, `systemd/*.service.tmpl`, the branches for variants).
    """
    units = directory / "etc/systemd/system"
    units.mkdir(parents=True)
    for unit in ("cloud-init-local", "cloud-init", "cloud-final"):
        lines = (debian / f"lib/systemd/system/{unit}.service").read_text().splitlines(keepends=True)
        kept = [line for line in lines if line.strip() not in _ONLY_DEBIAN]
        assert len(kept) < len(lines), f"{unit} of this Debian is like that of others"
        (units / f"{unit}.service").write_text("".join(kept))
    return _owned(directory)


def _owned(directory: Path) -> Path:
    for folder, _, names in os.walk(directory):
        for path in (Path(folder), *(Path(folder, name) for name in names)):
            os.chown(path, 0, 0, follow_symlinks=False)
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
    return directory
