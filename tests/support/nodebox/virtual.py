"""A node that boots in QEMU: a kernel, a firmware that says Amazon EC2, and NVMe disks of its own.

The processor is emulated (TCG), since few machines that run tests let them use their own; that is many times slower.
The network is QEMU's user network inside the node's network namespace, so that the node finds there what a node
in a container finds.
"""

from __future__ import annotations

import shlex
import subprocess
import uuid
from pathlib import Path
from typing import Any, ClassVar

from nodebox.cloud import Fleet
from nodebox.debian import program
from nodebox.image import image_layer
from nodebox.journal import Entry, entries
from nodebox.kernel import kernel_layer
from nodebox.machine import REBOOT, dies_with_us
from nodebox.node import Node
from nodebox.rootfs import debian_root
from nodebox.shell import Shell

# What the machine is started with besides the daemons of its image.
_UNITS = ("outside-journal", "outside-shell", "systemd-networkd", "systemd-networkd-wait-online")
_ROOT_BYTES, _ROOT_START = 3 * 2**30, 2**20
# The least that mkfs.xfs takes is 300 MB.
_DISK_BYTES = 512 * 2**20
_PARTITIONS = "label: dos\nlabel-id: 0xec2ec2ec\n1 : start=1MiB, type=83\n"
# Debian's kernel has the drivers of both in itself, so that it needs no initial RAM disk. The rest makes it quicker: what
# protects programs from each other is nobody's concern here.
_COMMAND_LINE = (
    *("root=PARTUUID=ec2ec2ec-01", "rootwait", "rw", "console=ttyS0"),
    *("quiet", "mitigations=off", "apparmor=0", "audit=0", "init_on_alloc=0"),
)
_MAKE_ROOT = """
mount -t overlay overlay -o ro,lowerdir={lower} {mount}
mke2fs -q -F -t ext4 -E offset={start} -d {mount} {image} {size_kib}k
"""
# Not one where the node in a container finds the services of AWS.
_NETWORK, _MAC = "10.78.0.0/24", "02:00:00:00:00:02"
_INTERFACE = {"device-number": "0", "local-ipv4s": "10.78.0.15", "subnet-ipv4-cidr-block": _NETWORK}
# QEMU ends where the system reboots, and is started again, with what a reboot changes outside of it.
_START = """
nsenter --net={network} {qemu} </dev/null
exit {reboot}
"""


class VirtualNode(Node):
    """One instance of a fleet in a virtual machine, off until `power_on`.

    Until then its disk can be written to; from then on it is an image, which only the machine itself reads.

    Args:
        fleet: The fleet.
        directory: An empty directory.
        instance_type: What the firmware and the metadata say that it is.
        disk_count: Local NVMe disks; its root volume is one more, as on EC2.
        options: Go to `Node`.
    """

    tools: ClassVar[dict[str, str]] = {
        "qemu-system-x86_64": "qemu-system-x86", "mke2fs": "e2fsprogs", "sfdisk": "fdisk",
    }  # fmt: skip
    patience_seconds: ClassVar[float] = 1200
    pause_seconds: ClassVar[float] = 2
    sees_sockets: ClassVar[bool] = False

    def __init__(
        self, fleet: Fleet, directory: Path, *, instance_type: str, disk_count: int = 0, **options: Any
    ) -> None:
        super().__init__(fleet, directory, **options)
        self.metadata.version_1 = False
        self.metadata.values["instance-type"] = instance_type
        self.metadata.identity["instanceType"] = instance_type
        for key, value in _INTERFACE.items():
            self.metadata.values[f"network/interfaces/macs/{_MAC}/{key}"] = value
        self._instance_type, self._disk_count = instance_type, disk_count
        self._journal = directory / "journal"
        self._journal.touch()
        self._shell = Shell(directory / "shell", lambda: self.is_on)
        self._made.callback(self._shell.close)

    @classmethod
    def image(cls, directory: Path) -> list[Path]:
        return [image_layer(directory, "virtual-machine", units=_UNITS), kernel_layer(), debian_root()]

    def power_on(self, *, uptime_seconds: int = 5) -> None:
        """Start it; its kernel counts its uptime by itself."""
        if not self.boots:
            self._make_disks()
        super().power_on(uptime_seconds=uptime_seconds)

    def powered_on(self) -> None:
        super().powered_on()
        with self._journal.open("a") as journal:
            journal.write("\n")  # the end of the last boot may have been cut off

    def run(self, command: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = self._shell.run(command, self.patience_seconds)
        assert not check or done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def read(self, path: str) -> str:
        return self.run(f"cat {shlex.quote(path)}", check=False).stdout

    def boot_id(self) -> str:
        return self.read("/proc/sys/kernel/random/boot_id").strip()

    def said(self) -> list[Entry]:
        lines = self._journal.read_text(errors="replace").splitlines()
        return entries(line for line in lines if line.startswith("{") and line.endswith("}"))

    def _make_disks(self) -> None:
        root = self._disk("root", _ROOT_BYTES)
        subprocess.run([program("sfdisk", "fdisk"), "-q", str(root)], input=_PARTITIONS, check=True, text=True)
        lower = ":".join(map(str, [self.disk, *self._layers]))
        size_kib = (_ROOT_BYTES - _ROOT_START) // 1024
        script = _MAKE_ROOT.format(
            lower=lower, mount=self._directory / "root", start=_ROOT_START, image=root, size_kib=size_kib
        )
        done = subprocess.run(dies_with_us(script), check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        for number in range(self._disk_count):
            self._disk(f"AWS{number}", _DISK_BYTES)

    def _disk(self, serial: str, size_bytes: int) -> Path:
        image = self._directory / f"{serial}.image"
        with image.open("wb") as file:
            file.truncate(size_bytes)
        return image

    def _command(self, uptime_seconds: int) -> list[str]:
        qemu = shlex.join(["qemu-system-x86_64", *self._hardware(), *self._devices()])
        return dies_with_us(_START.format(network=self.network.path, qemu=qemu, reboot=REBOOT))

    def _hardware(self) -> list[str]:
        variables = [f"systemd.setenv={name}={value}" for name, value in self._variables.items()]
        command_line = shlex.join([*_COMMAND_LINE, *variables])
        [kernel] = [image for layer in self._layers for image in layer.glob("boot/vmlinuz-*")]
        # AWS EC2 user guide, "Detect whether a host is an EC2 instance": the UUID begins with EC2.
        serial = f"ec2{uuid.uuid5(uuid.NAMESPACE_URL, self.instance_id).hex[3:]}"
        made_by = f"manufacturer=Amazon EC2,product={self._instance_type}"
        return [
            "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "qemu64,-svm", "-smp", "2", "-m", "2048",
            "-nodefaults", "-display", "none", "-no-reboot",
            "-kernel", str(kernel), "-append", command_line,
            "-smbios", "type=0,vendor=Amazon EC2",
            "-smbios", f"type=1,{made_by},uuid={uuid.UUID(serial)},serial={uuid.UUID(serial)}",
        ]  # fmt: skip

    def _devices(self) -> list[str]:
        disks = {"root": "vol0123456789abcdef0", **{f"AWS{n}": f"AWS{n}" for n in range(self._disk_count)}}
        drives = [
            word
            for name, serial in disks.items()
            for word in (
                "-drive", f"id={name},if=none,format=raw,cache=unsafe,file={self._directory / name}.image",
                "-device", f"nvme,drive={name},serial={serial}",
            )
        ]  # fmt: skip
        return [
            *drives,
            "-netdev", f"user,id=network,net={_NETWORK},ipv6=off",
            "-device", f"virtio-net-pci,netdev=network,mac={_MAC},romfile=",
            "-device", "virtio-rng-pci",
            "-chardev", f"file,id=console,append=on,path={self._console}", "-serial", "chardev:console",
            "-device", "virtio-serial-pci",
            "-chardev", f"file,id=journal,append=on,path={self._journal}",
            "-device", "virtserialport,chardev=journal,name=journal",
            "-chardev", f"socket,id=shell,path={self._directory / 'shell'}",
            "-device", "virtserialport,chardev=shell,name=shell",
        ]  # fmt: skip
