"""A node under `gpunode watch`: the process as systemd starts it, a kernel log that tests write, and a fake nvidia-smi."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from fakes import gpu_health
from nodebox.debian import program
from nodebox.imds import Metadata
from services.account import BUCKET, Account
from services.kernel import Kernel, pci_address
from services.programs import install_gpunode, record

#: What issue and README promise from the message of the kernel to what it leads to.
DEADLINE_SECONDS = 15.0
_PATIENCE_SECONDS = 60.0
_GPUS = 8
_SETTINGS = {
    "GPU_ACCELERATOR": "gpu",
    "GPU_ACCELERATOR_COUNT": f"{_GPUS}",
    "GPU_MODEL": "H100",
    "GPU_EVIDENCE_URI": f"s3://{BUCKET}",
}
# Not the credentials: those come from the metadata service.
_AWS_SETTINGS = ("AWS_ENDPOINT_URL", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")
Found = TypeVar("Found")


class WatchedNode:
    """One node; to be closed.

    Args:
        folder: An empty folder.
        instance_id: Its id.
        packages: Where the node software is.
        programs: All that is on its PATH beside nvidia-smi.
        environment: Variables of the process, beside those that tell it where the node is.
        settings: What the user data says, beside the GPUs and the place of evidence.

    Attributes:
        gpu: PCI address of the GPU that its kernel complains of.
    """

    def __init__(
        self,
        folder: Path,
        instance_id: str,
        *,
        packages: Path,
        programs: list[Path],
        environment: Mapping[str, str],
        settings: Mapping[str, str],
    ) -> None:
        self.instance_id, self.gpu = instance_id, pci_address()
        self._root, self._output = folder / "root", folder / "output"
        self._calls = folder / "calls"
        self._process: subprocess.Popen[bytes] | None = None
        tools = folder / "tools"
        tools.mkdir(parents=True)
        gpu_health.install(tools, {"gpus": [{} for _ in range(_GPUS)]})
        for each in programs:
            record(tools, each, self._calls)
        self._kernel = Kernel(self._root / "dev/kmsg")
        for name in ("proc/sys/kernel/random/boot_id", "proc/uptime"):
            (self._root / name).parent.mkdir(parents=True, exist_ok=True)
            (self._root / name).symlink_to(f"/{name}")
        (self._root / "var/lib").mkdir(parents=True)
        lines = "".join(f"{name}={value}\n" for name, value in {**_SETTINGS, **settings}.items())
        (self._root / "etc/gpu-cluster").mkdir(parents=True)
        (self._root / "etc/gpu-cluster/node.env").write_text(lines)
        metadata = Metadata.of_instance(
            instance_id, user_data="", instance_type="p5.48xlarge", zone="us-east-1a", account="123456789012"
        )
        self._imds = metadata.serve(socket.create_server(("127.0.0.1", 0)))
        address = f"http://127.0.0.1:{self._imds.server_address[1]}"
        self._environment = {
            "PATH": str(tools),
            "PYTHONPATH": str(packages),
            "GPU_CLUSTER_ROOT": str(self._root),
            "GPU_CLUSTER_IMDS": address,
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": address,
            **environment,
        }

    def start(self) -> None:
        """Start to watch; the kernel is heard from now on, or from where the last process ended."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd, self._output.open("ab") as output:
            systemd.bind(f"\0{self.instance_id}-{self.gpu}")
            systemd.settimeout(_PATIENCE_SECONDS)
            self._process = subprocess.Popen(
                [sys.executable, "-m", "gpunode", "watch"],
                env={**self._environment, "NOTIFY_SOCKET": f"@{self.instance_id}-{self.gpu}"},
                cwd=self._root,
                stdout=output,
                stderr=output,
            )
            # Once at the end of each poll; the log is opened in the first.
            while systemd.recv(100) != b"WATCHDOG=1":
                pass

    def kill(self) -> None:
        """End the process as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = None

    def close(self) -> None:
        self.kill()
        self._imds.close()
        self._kernel.close()

    def fail(self, code: int = 79) -> float:
        """Let the kernel report an Xid; gives the moment."""
        now = time.monotonic()
        self._kernel.say_xid(code, self.gpu)
        return now

    def within_deadline(self, since: float, look: Callable[[], Found]) -> Found:
        """What `look` gives, which has to be something in time; the time is printed."""
        found = self.eventually(look, since + DEADLINE_SECONDS - time.monotonic())
        sys.stdout.write(f"{self.instance_id}: {time.monotonic() - since:.1f} s\n")
        return found

    def eventually(self, look: Callable[[], Found], seconds: float = _PATIENCE_SECONDS) -> Found:
        """What `look` gives, as soon as that is not nothing."""
        end = time.monotonic() + seconds
        while not (found := look()):
            assert time.monotonic() < end, f"nothing after {seconds:.1f} s; it said:\n{self._output.read_text()}"
            time.sleep(0.1)
        return found

    def actions(self) -> list[tuple[str, str]]:
        """Outcome and reason of each action so far."""
        return [(one["state"], one["reason"]) for one in self._events() if one["stage"] == "action"]

    def outcomes(self) -> list[str]:
        """Outcome of each action so far."""
        return [outcome for outcome, _ in self.actions()]

    def acted(self) -> list[tuple[str, str]]:
        """Wait until the process says what became of its action; all such words so far."""
        return self.eventually(self.actions)

    def sees(self, text: str) -> None:
        """Wait until it tells of a symptom."""
        self.eventually(lambda: any(text in one["reason"] for one in self._events() if one["stage"] == "watch"))

    def asked(self, words: str) -> list[str]:
        """Command lines of its programs that hold these words."""
        return [line for line in self._calls.read_text().splitlines() if words in line]

    def _events(self) -> list[dict[str, Any]]:
        found = []
        for line in self._output.read_text().splitlines():
            with suppress(ValueError):
                found.append(json.loads(line))
        return found


class WatchedNodes:
    """Makes nodes that reach an account through the real AWS CLI.

    Args:
        account: The account.
        aws_cli: The program.
        folder: An empty folder.
    """

    def __init__(self, account: Account, aws_cli: Path, folder: Path) -> None:
        self._settings = {name: value for name, value in account.emulator.settings.items() if name in _AWS_SETTINGS}
        # What every image has, and a bundle of evidence asks for.
        self._programs = [aws_cli, Path(program("dmesg", "util-linux"))]
        self._packages = install_gpunode(folder / "lib")
        self._folder = folder
        self._made: list[WatchedNode] = []

    def begin(self, instance_id: str, settings: Mapping[str, str], *, programs: Iterable[Path] = ()) -> WatchedNode:
        """A node that is watched from now on.

        Args:
            instance_id: Its id.
            settings: What the user data says, beside what all these nodes have in common.
            programs: What is on its PATH, beside what all have.
        """
        node = WatchedNode(
            self._folder / f"node-{len(self._made)}",
            instance_id,
            packages=self._packages,
            programs=[*self._programs, *programs],
            environment=self._settings,
            settings=settings,
        )
        self._made.append(node)
        node.start()
        return node

    def close(self) -> None:
        for node in self._made:
            node.close()


def expect_evidence(account: Account, node: WatchedNode, code: int = 79) -> None:
    """One bundle: why, what the kernel said, what nvidia-smi says, and what the checks found."""
    [bundle] = account.bundles(node.instance_id)
    why = json.loads(bundle["reason.json"])
    assert why["instance_id"] == node.instance_id
    assert f"Xid {code} " in why["reason"]
    assert node.gpu in why["reason"]
    assert f"NVRM: Xid (PCI:{node.gpu}): {code}," in bundle["kernel.txt"]
    assert bundle["nvidia-smi.txt"].count("NVIDIA H100") == _GPUS
    assert bundle["nvidia-smi-q.txt"].count("GPU 00000000:") == _GPUS
    found = {one["check"]: one["severity"] for one in json.loads(bundle["checks.json"])["results"]}
    assert found["gpus"] == found["ecc"] == "ok"
