"""A node under the watchdog, in a temporary folder: its files, its kernel log, its programs, and its AWS account."""

from __future__ import annotations

import json
import tarfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cdk_gpu_clusters.node.gpunode.checks.check import Check
from cdk_gpu_clusters.node.gpunode.events import Events
from cdk_gpu_clusters.node.gpunode.node import Aws, AwsError, Metadata, Node, Settings
from cdk_gpu_clusters.node.gpunode.watch.mode import mode_of
from cdk_gpu_clusters.node.gpunode.watch.service import make_watch
from efa_sysfs import add_device

INSTANCE = "i-0123456789abcdef0"
GROUP = "trainers-asg"
POLL_SECONDS = 10
HEALTHY_SMI = "#!/bin/sh\necho 'GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-aaaa)'\n"


class Account(Aws):
    """The AWS account that a node sees.

    Attributes:
        members: Members of the Auto Scaling group, by instance: lifecycle state and health.
        activities: Its scaling activities.
        bundles: What was copied to S3: address, and the names in the archive.
        made: Operations that were asked for, in their order.
        denied: How many more calls of an operation fail.
    """

    def __init__(self) -> None:
        super().__init__("us-east-2")
        self.members = {INSTANCE: ["InService", "Healthy"], "i-0aaa": ["InService", "Healthy"]}
        self.activities: list[dict[str, str]] = []
        self.bundles: list[tuple[str, list[str]]] = []
        self.made: list[str] = []
        self.denied: Counter[str] = Counter()

    def call(self, service: str, operation: str, *arguments: str, timeout_seconds: float = 60) -> Any:
        self.made.append(operation)
        if self.denied[operation] > 0:
            self.denied[operation] -= 1
            raise AwsError("An error occurred (AccessDenied): not yet")
        answer = getattr(self, operation.replace("-", "_"))(*arguments)
        return json.loads(json.dumps(answer))

    def describe_auto_scaling_instances(self, *arguments: str) -> dict[str, Any]:
        rows = [self._row(name, GROUP) for name in self.members if name in arguments]
        return {"AutoScalingInstances": [{**row, "HealthStatus": row["HealthStatus"].upper()} for row in rows]}

    def describe_auto_scaling_groups(self, *_: str) -> dict[str, Any]:
        return {"AutoScalingGroups": [{"Instances": [self._row(name) for name in self.members]}]}

    def describe_scaling_activities(self, *_: str) -> dict[str, Any]:
        return {"Activities": self.activities}

    def set_instance_health(self, *arguments: str) -> None:
        instance, health = (arguments[arguments.index(name) + 1] for name in ("--instance-id", "--health-status"))
        self.members[instance][1] = health

    def cp(self, *arguments: str) -> None:
        with tarfile.open(arguments[1]) as archive:
            self.bundles.append((arguments[2], archive.getnames()))

    def _row(self, name: str, group: str | None = None) -> dict[str, str]:
        state, health = self.members[name]
        row = {"InstanceId": name, "LifecycleState": state, "HealthStatus": health}
        return {**row, "AutoScalingGroupName": group} if group else row


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Told(Events):
    """Events that can be read again: the watchdog forgets what it wrote."""

    def __init__(self) -> None:
        super().__init__(INSTANCE)
        self.all: list[dict[str, Any]] = []

    def write(self, *arguments: Any, **more: Any) -> dict[str, Any]:
        event = super().write(*arguments, **more)
        self.all.append(event)
        return event

    def of(self, stage: str) -> list[tuple[str, str]]:
        """State and reason of each event of a stage."""
        return [(event["state"], event["reason"]) for event in self.all if event["stage"] == stage]

    def symptoms(self, state: str = "seen") -> list[str]:
        return [event["symptom"] for event in self.all if event["stage"] == "watch" and event["state"] == state]


class WatchedNode:
    """One node below `root`, with only the programs of `tools`.

    Attributes:
        patience_seconds: How long a poll waits for what it began; long, so that slow machines see the same.
    """

    def __init__(self, folder: Path) -> None:
        self.root, self.tools = folder / "root", folder / "tools"
        self.account, self.clock = Account(), Clock()
        self.tools.mkdir(parents=True)
        self.write("dev/kmsg", "6,1,100,-;Linux version 6.1\n")
        self.write("proc/sys/kernel/random/boot_id", "boot-1\n")
        self.write("proc/uptime", "100.00 50.00\n")
        (self.root / "var/lib").mkdir(parents=True)
        self.tool("nvidia-smi", HEALTHY_SMI)
        # systemd: no unit is enabled or active, and what else is asked of it is recorded.
        self.tool("systemctl", f'#!/bin/sh\ncase "$1" in is-*) exit 1 ;; esac\necho "$*" >>{self.root}/systemctl\n')
        self.told = Told()
        self.patience_seconds = 60.0
        self._sequence = 1
        self.chance = 0.0

    def node(self, **settings: str) -> Node:
        """The node, with settings on top of those of a GPU node in an Auto Scaling group."""
        values = {
            "accelerator": "gpu",
            "orchestrator": "ec2",
            "evidence_uri": "s3://evidence/trainers",
            **settings,
        }
        return Node(Settings(values), Metadata(), INSTANCE, self.account)

    def begin(self, checks: Mapping[str, Check], **settings: str) -> None:
        """Begin to watch, as a start of the service does."""
        node, patience = self.node(**settings), self.patience_seconds
        self.watch = make_watch(
            node,
            self.told,
            checks,
            mode=mode_of(node),
            clock=self.clock,
            patience_seconds=patience,
            stages=lambda _: [],
            # The shortest pauses, so that every poll may act.
            chance=lambda: self.chance,
        )

    def poll(self, times: int = 1) -> None:
        """Poll, as the loop does, without its waits."""
        for _ in range(times):
            self.watch.poll()
            self.clock.now += POLL_SECONDS

    @property
    def actions(self) -> int:
        """How many times the node was marked as unhealthy, or rebooted."""
        return self.account.made.count("set-instance-health") + self.reboots

    @property
    def reboots(self) -> int:
        """How many times systemd was asked for a reboot."""
        asked = self.root / "systemctl"
        return asked.read_text().splitlines().count("--no-block reboot") if asked.exists() else 0

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def tool(self, name: str, script: str) -> Path:
        file = self.tools / name
        file.write_text(script)
        file.chmod(0o755)
        return file

    def kernel_says(self, *messages: str) -> None:
        with (self.root / "dev/kmsg").open("a") as log:
            for message in messages:
                self._sequence += 1
                log.write(f"4,{self._sequence},{self._sequence * 1000},-;{message}\n SUBSYSTEM=pci\n")

    def efa_counter(self, device: str, counter: str, value: object) -> None:
        add_device(self.root, device)
        self.write(f"sys/class/infiniband/{device}/ports/1/hw_counters/{counter}", f"{value}\n")
