"""`gpunode watch` as the program that systemd starts: the node around it, and what systemd hears of it."""

from __future__ import annotations

import json
import os
import select
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from cdk_gpu_clusters.node.gpunode import cli
from watched_node import HEALTHY_SMI, INSTANCE

START = "import sys; sys.path.insert(0, {folder!r}); from gpunode.cli import main; sys.exit(main())"
SETTINGS = """\
GPU_ORCHESTRATOR=ec2
GPU_ACCELERATOR=gpu
GPU_ACCELERATOR_COUNT=1
GPU_WATCH_INTERVAL=1
GPU_EVIDENCE_URI=s3://evidence/trainers
"""
#: A record of the kernel's log.
OFF_THE_BUS = b"3,5,1,-;NVRM: Xid (PCI:0000:10:1c): 79, pid=1, GPU has fallen off the bus.\n"
ROW = f'"InstanceId": "{INSTANCE}", "LifecycleState": "InService"'
AWS = f"""#!/bin/sh
echo "$*" >>"$GPU_CLUSTER_ROOT/aws"
case "$2" in
describe-auto-scaling-instances)
  echo '{{"AutoScalingInstances": [{{{ROW}, "AutoScalingGroupName": "g", "HealthStatus": "HEALTHY"}}]}}' ;;
describe-auto-scaling-groups) echo '{{"AutoScalingGroups": [{{"Instances": [{{{ROW}, "HealthStatus": "Healthy"}}]}}]}}' ;;
describe-scaling-activities) echo '{{"Activities": []}}' ;;
esac
"""


class WatchProgram:
    """The node, the program, and what systemd hears of it.

    Args:
        folder: An empty folder.
        imds: Address of the instance metadata service.
    """

    def __init__(self, folder: Path, imds: str) -> None:
        self.root = folder / "root"
        self.tools, self.package = folder / "tools", folder / "lib/gpunode"
        for path, text in (
            ("etc/gpu-cluster/node.env", SETTINGS),
            ("proc/sys/kernel/random/boot_id", "boot-1\n"),
            ("proc/uptime", "100.00 50.00\n"),
        ):
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text)
        self.tools.mkdir()
        self.tool("aws", AWS)
        self.tool("nvidia-smi", HEALTHY_SMI)
        shutil.copytree(Path(cli.__file__).parent, self.package)
        (self.package / "xids.json").write_text('{"xids": {"79": {"class": "replace"}}}')
        (self.root / "var/lib").mkdir(parents=True)
        (self.root / "dev").mkdir()
        os.mkfifo(self.root / "dev/kmsg")
        self.kernel = os.open(self.root / "dev/kmsg", os.O_RDWR | os.O_NONBLOCK)
        self.systemd = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.systemd.bind(str(folder / "notify"))
        self.systemd.settimeout(60)
        self.environment = {
            "PATH": str(self.tools),
            "GPU_CLUSTER_ROOT": str(self.root),
            "GPU_CLUSTER_IMDS": imds,
            "NOTIFY_SOCKET": str(folder / "notify"),
        }
        self.command = [sys.executable, "-IS", "-c", START.format(folder=str(folder / "lib")), "watch"]

    def close(self) -> None:
        os.close(self.kernel)
        self.systemd.close()

    def tool(self, name: str, script: str) -> None:
        """A program on the node's path."""
        (self.tools / name).write_text(script)
        (self.tools / name).chmod(0o755)

    def set(self, **settings: str) -> None:
        with (self.root / "etc/gpu-cluster/node.env").open("a") as file:
            file.writelines(f"GPU_{name.upper()}={value}\n" for name, value in settings.items())

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [*self.command, *arguments]
        return subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, text=True)

    def has_nothing_open(self) -> bool:
        memory = json.loads((self.root / "run/gpu-cluster/watch.json").read_text())
        return bool(memory["open"] == [])

    def hears_something(self, seconds: float) -> bool:
        return bool(select.select([self.systemd], [], [], seconds)[0])

    def asked(self, operation: str) -> list[str]:
        file = self.root / "aws"
        return [line for line in file.read_text().splitlines() if operation in line] if file.exists() else []


def wait_until(done: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)
