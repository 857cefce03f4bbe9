"""What a virtual machine needs of Debian besides what a container has: a kernel, and DHCP for cloud-init."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from nodebox.debian import CACHE, dependencies, download, locked, program

#: Debian's kernel for virtual machines: NVMe and ext4 are built into it, so that it needs no initial RAM disk.
_KERNEL = "linux-image-cloud-amd64"
_DHCP = "isc-dhcp-client"
# Since Debian 12 these are links into usr.
_MERGED = ("bin", "lib", "sbin")


def kernel_layer() -> Path:
    """A directory to lay over the root of a Debian, kept as long as the machine's mirror has the same kernel."""
    (package,) = dependencies(_KERNEL)
    layer = CACHE / f"kernel-{package}"
    with locked("kernel"):
        if not layer.exists():
            for old in CACHE.glob("kernel-*/"):
                shutil.rmtree(old)
            unfinished = layer.with_name("kernel-new")
            _extract(unfinished, package, _DHCP)
            unfinished.rename(layer)
    return layer


def _extract(layer: Path, *packages: str) -> None:
    """Unpack packages without installing them: they would want an initial RAM disk, which takes longest."""
    with tempfile.TemporaryDirectory() as folder:
        for file in download(Path(folder), *packages):
            subprocess.run(["dpkg-deb", "--extract", str(file), str(layer)], check=True)
    (modules,) = (layer / "lib/modules").iterdir()
    subprocess.run([program("depmod", "kmod"), "-b", str(layer), modules.name], check=True)
    for name in _MERGED:
        if (layer / name).exists():
            shutil.copytree(layer / name, layer / "usr" / name, symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(layer / name)
