"""A GPU node of a fleet: a machine with metadata, an account, GPUs and network adapters."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from efa_sysfs import make_device
from gpu_clusters_emulator.permissions import private_address
from nodebox.cloud import ACCOUNT, Fleet
from nodebox.gpus import Gpus
from nodebox.image import AWS, DAEMONS, DRIVER, S3, image_layer
from nodebox.imds import ADDRESS, Metadata
from nodebox.journal import JOURNAL, Entry, read_journal
from nodebox.machine import Machine
from nodebox.namespace import NetworkNamespace
from nodebox.rootfs import debian_root
from nodebox.servers import relay
from stack_fixtures import ZONE

Found = TypeVar("Found")

STATE = "/var/lib/gpu-cluster"


class Node(Machine):
    """One instance of a fleet, off until `power_on`.

    Args:
        fleet: The fleet; its instance that waits for a launching hook is this one.
        directory: An empty directory.
        layers: Directories below its disk, the topmost first.
        account: Where the emulated account answers.
        gpu: Row of the catalogue's MIG data, such as `A100-40GB`; anything else is a GPU without MIG.
        gpu_count: How many.
        efa_count: EFA devices.
        s3: Whether the network has a way to S3.
        user_data: What becomes of the launch template's user data; nothing if left out.
        binds: Files and directories of the host by their place in the machine.
        variables: Environment of all services.
        kernel_log: Whether it has a kernel log of its own, for `kernel_says`; a container has none.

    Attributes:
        metadata: What its metadata service answers.
        gpus: Its GPUs.
        patience_seconds: Much longer than a boot takes, for a machine that does much else.
        pause_seconds: From one look to the next.
        sees_sockets: Whether sockets of the host can be bound into it.
    """

    patience_seconds: ClassVar[float] = 150
    pause_seconds: ClassVar[float] = 0.3
    sees_sockets: ClassVar[bool] = True

    def __init__(
        self,
        fleet: Fleet,
        directory: Path,
        *,
        layers: Sequence[Path],
        account: tuple[str, int],
        gpu: str = "H100-80GB",
        gpu_count: int = 8,
        efa_count: int = 0,
        s3: bool = True,
        user_data: Callable[[str], str] = str,
        binds: Mapping[str, Path] | None = None,
        variables: Mapping[str, str] | None = None,
        kernel_log: bool = False,
    ) -> None:
        self._kernel_log = directory / "kmsg" if kernel_log else None
        self.fleet, self.instance_id = fleet, fleet.launching()
        fleet.booted.add(self.instance_id)
        self._made = ExitStack()
        network = NetworkNamespace()
        self._made.callback(network.close)
        if efa_count:
            binds = {"/sys/class": device_classes(directory / "class", efa_count), **(binds or {})}
        super().__init__(directory, layers=layers, network=network, binds=binds, variables=variables)
        self.metadata = Metadata.of_instance(
            self.instance_id,
            user_data=user_data(fleet.user_data()),
            instance_type=fleet.instance_type(),
            zone=ZONE,
            account=ACCOUNT,
            address=private_address(self.instance_id),
        )
        self.gpus = Gpus(gpu, gpu_count, directory=directory, units=self.disk / "var/lib/fakes/units")
        (self.disk / JOURNAL).mkdir(parents=True)
        self.write("/var/lib/fakes/units", "")
        self._serve(account, s3)

    @classmethod
    def image(cls, directory: Path) -> list[Path]:
        """Directories below the disk of such a node, the topmost first, made in a directory that is not there."""
        return [image_layer(directory, "container"), debian_root()]

    def close(self) -> None:
        """Take its power and its network away."""
        self.power_off()
        self._made.close()

    def powered_on(self) -> None:
        self.gpus.power_on()
        if self._kernel_log:
            self._kernel_log.write_text("6,0,0,-;Linux version 6.1\n")

    def kernel_says(self, message: str) -> None:
        """Add a message to the kernel's log, which a reboot empties."""
        assert self._kernel_log, "it has no kernel log"
        number = len(self._kernel_log.read_text().splitlines())
        with self._kernel_log.open("a") as log:
            log.write(f"4,{number},{number * 1000},-;{message}\n")

    def _options(self) -> list[str]:
        # systemd would write to it.
        log = [f"--bind-ro={self._kernel_log}:/dev/kmsg"] if self._kernel_log else []
        return [*super()._options(), *log]

    def ready(self) -> dict[str, Any]:
        """The result of this boot, which has to be a good one."""
        result = self.eventually(self._result)
        assert result["state"] == "ready", f"{result['reason']}\n{self.last_words()}"
        return result

    def failure(self) -> str:
        """Why this boot failed, which it has to."""
        result = self.eventually(self._result)
        assert result["state"] == "failed", self.last_words()
        return str(result["reason"])

    def in_service(self) -> None:
        """Wait until the launch was completed with CONTINUE."""
        self.eventually(lambda: self.fleet.states().get(self.instance_id) == "InService")

    def abandoned(self) -> str:
        """Wait until the launch was completed with ABANDON; what the fleet's log group shows at that moment."""
        self.eventually(lambda: self.instance_id not in self.fleet.states())
        failures = [one for one in self.fleet.logged(self.instance_id) if one["state"] == "failed"]
        return str(failures[-1]["reason"]) if failures else ""

    def eventually(self, look: Callable[[], Found | None]) -> Found:
        """What `look` gives, as soon as that is not nothing."""
        end = time.monotonic() + self.patience_seconds
        while not (found := look()):
            assert time.monotonic() < end, f"nothing after {self.patience_seconds} s; said last:\n{self.last_words()}"
            time.sleep(self.pause_seconds)
        return found

    def reboot(self) -> None:
        """Reboot it from inside once this boot is through, and wait until the next one begins."""
        boots = self.boots
        self.run("systemctl is-system-running --wait; systemctl reboot", check=False)
        self.eventually(lambda: self.boots > boots)

    def unit(self, name: str, what: str) -> str:
        """A property of a systemd unit, as `systemctl show` has it."""
        return self.run(f"systemctl show --value --property={what} {name}").stdout.strip()

    def unit_result(self, unit: str) -> dict[str, Any]:
        """What a unit such as `mig` left for the boot checks."""
        text = self.read(f"{STATE}/{unit}.json")
        return dict(json.loads(text)) if text else {}

    def said(self) -> list[Entry]:
        """Everything in its journal."""
        return read_journal(self.disk)

    def journal(self, unit: str = "", *, boot: int = 0) -> list[Entry]:
        """What was said, by one unit and in one boot if these are given."""
        return [
            entry
            for entry in self.said()
            if entry.unit in (unit and f"{unit}.service", unit or entry.unit) and boot in (0, entry.boot)
        ]

    def events(self, unit: str, *, boot: int = 0) -> list[tuple[str, str, str]]:
        """Stage, state and reason of each event of a unit."""
        events = [entry.event for entry in self.journal(unit, boot=boot)]
        return [(one["stage"], one["state"], one["reason"]) for one in events if "stage" in one]

    def sightings(self, *, boot: int = 0) -> dict[str, str]:
        """What each daemon found when it started last."""
        seen = [entry.text.split(" sees ") for entry in self.journal(boot=boot) if " sees " in entry.text]
        return {daemon: finding for daemon, finding in seen if daemon in DAEMONS}

    def last_words(self) -> str:
        """The end of its journal, for people who read a failure."""
        return "\n".join(f"{entry.unit}: {entry.text}" for entry in self.journal()[-60:])

    def _result(self) -> dict[str, Any] | None:
        found = self.unit_result("boot")
        boot_id = self.boot_id()
        return found if found.get("state") in ("ready", "failed") and found["boot_id"] == boot_id else None

    def _serve(self, account: tuple[str, int], s3: bool) -> None:
        listen = self.network.listen
        servers = [
            self.metadata.serve(listen(ADDRESS, 80)),
            self.gpus.serve(listen(DRIVER, 80)),
            relay(listen(AWS, 80), account),
        ]
        if s3:
            servers.append(relay(listen(S3, 80), account))
        else:
            self.network.swallow(S3)
        for server in servers:
            self._made.callback(server.close)


def device_classes(directory: Path, efa_count: int) -> Path:
    """What stands for `/sys/class` in a machine with EFA devices, which this kernel does not have."""
    for name in ("lo", "eth0"):
        link = directory / "net" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(f"../../devices/virtual/net/{name}")
    for index in range(efa_count):
        make_device(directory / "infiniband" / f"rdmap{index}s0")
    return directory
