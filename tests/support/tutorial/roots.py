"""What the nodes of the tutorial boot: the image of other tests, with PyTorch, and with a hub of models in a folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from nodebox.image import image_layer
from nodebox.machine import dies_with_us
from nodebox.node import Node
from nodebox.rootfs import debian_root, kept

REPOSITORY = Path(__file__).resolve().parents[3]
_LOCK = REPOSITORY / "requirements" / "tutorial.txt"
_HUB = Path(__file__).with_name("hub.py")
_FILES = Path(__file__).with_name("image")
# Without OpenBLAS a step takes a second.
_PACKAGES = ("libopenblas0-pthread", "python3-torch", "python3-venv")
# Where a Deep Learning AMI has PyTorch (docs/jobs.md, "Images with PyTorch").
_PYTORCH = "/opt/pytorch"
# No node of a test reaches the hub: a name leads to the folder. Gloo is told the network that nodes share.
_TORCHRUN = f"""\
#!/bin/sh
export HF_HOME=/opt/hub HF_HUB_OFFLINE=1 GLOO_SOCKET_IFNAME=lan0
exec {_PYTORCH}/bin/python -m torch.distributed.run "$@"
"""
# PyTorch 1.13 iterates over flags, which on Python 3.11 leaves out 0 and 3 (Python documentation, enum, "Flag"): its
# torchrun cannot start there without this change.
_FLAGS = "usr/lib/python3/dist-packages/torch/distributed/elastic/multiprocessing/api.py"
_ITERATED, _COMPLETE = "for s in Std:", "for s in Std.__members__.values():"
_INSTALL = f"""
mount -t overlay overlay -o lowerdir={{lower}},upperdir={{directory}}/disk,workdir={{directory}}/work {{directory}}/root
mount --bind /etc/resolv.conf {{directory}}/root/etc/resolv.conf
mount -t proc proc {{directory}}/root/proc
export DEBIAN_FRONTEND=noninteractive
chroot {{directory}}/root apt-get -qq update
chroot {{directory}}/root apt-get -qq -o Dpkg::Options::=--force-unsafe-io install -y --no-install-recommends \
  {" ".join(_PACKAGES)}
chroot {{directory}}/root python3 -m venv --system-site-packages {_PYTORCH}
"""


class PyTorchNode(Node):
    """A node whose image has PyTorch, and containers that answer as a model server does."""

    @classmethod
    def image(cls, directory: Path) -> list[Path]:
        made = image_layer(directory, "container")
        shutil.copytree(_FILES, made, dirs_exist_ok=True)
        return [made, pytorch_layer(), debian_root()]


def pytorch_layer() -> Path:
    """What lies above Debian: its PyTorch, a virtual environment as AWS's images have it, and the hub."""
    recipe = "\n".join([str(debian_root()), _INSTALL, _TORCHRUN, _COMPLETE, _LOCK.read_text(), _HUB.read_text()])
    return kept("pytorch", recipe, _build)


def _build(layer: Path) -> None:
    directory = layer.with_name("pytorch.new")
    shutil.rmtree(directory, ignore_errors=True)
    for one in ("disk", "work", "root"):
        (directory / one).mkdir(parents=True)
    _checked(dies_with_us(_INSTALL.format(lower=debian_root(), directory=directory)))
    disk = directory / "disk"
    (packages,) = disk.glob(f"{_PYTORCH.lstrip('/')}/lib/python*/site-packages")
    version = packages.parent.name.removeprefix("python")
    wheels = ("--only-binary", ":all:", "--python-version", version)
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--require-hashes", *wheels)
    _checked([*pip, "--target", str(packages), "-r", str(_LOCK)])
    torchrun = disk / _PYTORCH.lstrip("/") / "bin/torchrun"
    torchrun.write_text(_TORCHRUN)
    torchrun.chmod(0o755)
    flags = (disk / _FLAGS).read_text()
    assert flags.count(_ITERATED) == 1
    (disk / _FLAGS).write_text(flags.replace(_ITERATED, _COMPLETE))
    shutil.copy(_HUB, disk / "opt/hub.py")
    hub = "mount -t overlay overlay -o lowerdir={lower},upperdir={directory}/disk,workdir={directory}/work {directory}/root"
    run = f"{hub}\nchroot {{directory}}/root {_PYTORCH}/bin/python /opt/hub.py"
    _checked(dies_with_us(run.format(lower=debian_root(), directory=directory)))
    for rest in ("var/cache/apt", "var/lib/apt"):
        shutil.rmtree(disk / rest, ignore_errors=True)
    disk.rename(layer)
    shutil.rmtree(directory)


def _checked(command: list[str]) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
