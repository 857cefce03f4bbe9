"""Nodes of a real Slurm cluster under the watchdog: the boot checks and `gpunode watch` run where their slurmd runs.

What they find of their hardware is replayed: `nvidia-smi`, the messages of the kernel, and the metadata of an instance.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cdk_gpu_clusters.node.slurm_settings import cluster_settings
from fakes import gpu_health
from nodebox.imds import ADDRESS, Metadata
from nodebox.repaired import address_of_a_device
from slurmbox.box import Box
from slurmbox.cluster import Cluster

_GPUS = 8
_SETTINGS = {
    "GPU_ORCHESTRATOR": "pcs",
    "GPU_ACCELERATOR": "gpu",
    "GPU_ACCELERATOR_COUNT": f"{_GPUS}",
    "GPU_MODEL": "H100",
    # All probes run in each poll: systemd's watchdog makes the polls shorter than this.
    "GPU_WATCH_INTERVAL": "60",
    "GPU_JOB_SECONDS": "1",
}
# The controller asks no node again before the last one has answered, or its message has timed out: a node that is gone
# must not make others seem to be.
_PINGS = {"SlurmdTimeout": "30", "MessageTimeout": "5"}
_FAKES = "/var/lib/fakes"
# In the order of systemd's units (gpu-node-boot-pcs.conf, gpu-node-watch.service): the boot checks, then the watchdog
# and slurmd beside each other. AWS PCS starts its slurmd whenever cloud-init comes to it, so a test may hold it back.
_BOOT = f"""
mount --bind /nodes/{{name}}/fakes {_FAKES}
mount --bind /nodes/{{name}}/state /var/lib/gpu-cluster
cat /proc/sys/kernel/random/uuid >{_FAKES}/boot_id
mount --bind {_FAKES}/boot_id /proc/sys/kernel/random/boot_id
rm -f /run/gpu-cluster/*
gpunode boot >>{_FAKES}/said
(while :; do WATCHDOG_USEC=$(cat {_FAKES}/watchdog-usec) gpunode watch >>{_FAKES}/said || true; done) &
while [ -e {_FAKES}/no-slurmd ]; do sleep 0.1; done
"""
_SYSTEMCTL = f"""\
#!/bin/sh
FAKE_UNITS={_FAKES}/units FAKE_REBOOT={_FAKES}/reboot exec /opt/fakes/systemctl "$@"
"""


@contextmanager
def watched_cluster(box: Box, names: Mapping[str, int], settings: Mapping[str, str]) -> Iterator[WatchedCluster]:
    """A cluster whose nodes are up and idle.

    Args:
        names: Names of the nodes to the seconds from one poll of their watchdog to the next.
        settings: Node settings beside the usual ones.
    """
    install_fakes(box)
    for name, seconds in names.items():
        box.path(f"/nodes/{name}/state").mkdir(parents=True)
        box.write(f"/nodes/{name}/fakes/nvidia-smi.json", json.dumps({"gpus": [{}] * _GPUS}))
        # A poll lasts half of it at most (watch/service.py, interval_seconds).
        box.write(f"/nodes/{name}/fakes/watchdog-usec", f"{2 * seconds * 1_000_000}")
    metadata = Metadata.of_instance(
        "i-0123456789abcdef0", user_data="", instance_type="p5.48xlarge", zone="us-east-1a", account="123456789012"
    )
    server = metadata.serve(box.listen(ADDRESS, 80))
    lines = [f"{name}={value}" for name, value in {**_SETTINGS, **settings}.items()]
    nodes = dict.fromkeys(names, "CPUs=2 RealMemory=1000")
    conf = {**cluster_settings(), **_PINGS}
    try:
        with WatchedCluster(box, nodes, conf, node_environment=lines, before_slurmd=_BOOT) as cluster:
            cluster.eventually(lambda: all(cluster.node(name)["State"] == "IDLE" for name in names))
            yield cluster
    finally:
        server.close()


def install_fakes(box: Box) -> None:
    """Put the programs that stand for the driver and systemd into the box."""
    fakes = Path(gpu_health.__file__).parent
    for name in ("gpu_health.py", "systemctl.sh"):
        box.write(f"/opt/fakes/{name.removesuffix('.sh')}", (fakes / name).read_text(), 0o755)
    smi = gpu_health.PROGRAM.format(python="/usr/bin/python3", folder="/opt/fakes", state=f"{_FAKES}/nvidia-smi.json")
    box.write("/usr/local/bin/nvidia-smi", smi, 0o755)
    box.write("/usr/local/bin/systemctl", _SYSTEMCTL, 0o755)
    for folder in (_FAKES, "/var/lib/gpu-cluster"):
        box.path(folder).mkdir(parents=True, exist_ok=True)


class WatchedCluster(Cluster):
    """The cluster. A FIFO takes the place of each node's `/dev/kmsg`: nothing but a kernel can write as the kernel there."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._kernels: dict[str, int] = {}
        self._messages = 0

    def __exit__(self, *given: object) -> None:
        super().__exit__(*given)
        for log in self._kernels.values():
            os.close(log)

    def _make_node(self, name: str) -> None:
        super()._make_node(name)
        log = self.in_node(name, "dev/kmsg")
        os.mkfifo(log)
        # Open for reading, too: what is written while nobody reads is kept.
        self._kernels[name] = os.open(log, os.O_RDWR | os.O_NONBLOCK)

    def gpus_say(self, name: str, *, cells: Mapping[str, str] | None = None, seconds: float = 0) -> None:
        """Have `nvidia-smi` of a node say something of its first GPU, and take some seconds for each answer."""
        state = {"gpus": [cells or {}, *[{}] * (_GPUS - 1)], "seconds": seconds}
        self._fake(name, "nvidia-smi.json").write_text(json.dumps(state))

    def kernel_says(self, name: str, xid: str) -> None:
        """Have the driver of a node report a fault of one GPU."""
        self._messages += 1
        head = f"4,{self._messages},{self._messages * 1000},-"
        os.write(self._kernels[name], f"{head};NVRM: Xid (PCI:{address_of_a_device()}): {xid}\n".encode())

    def steps(self, name: str) -> list[str]:
        """Rung and step of what the watchdog of a node did, in order."""
        return [f"{one['rung']} {one['state']}" for one in self.said(name) if one["stage"] == "repair"]

    def waits_for(self, name: str) -> str:
        """What the last action of the watchdog of a node came to."""
        return str([one["reason"] for one in self.said(name) if one["stage"] == "action"][-1])

    def said(self, name: str) -> list[dict[str, Any]]:
        """The events of a node."""
        return [json.loads(line) for line in self._fake(name, "said").read_text().splitlines()]

    def look_again(self, name: str) -> None:
        """Kill the watchdog of a node. The next one goes on at once, without the minute between two looks at a job."""
        slurmd = self.ask("pgrep", "--newest", "--full", f"slurmd -D -N {name}$").strip()
        self.ask("pkill", "--signal=KILL", f"--ns={slurmd}", "--nslist=pid", "--full", "gpu-cluster watch$")

    def wants_reboot(self, name: str) -> bool:
        """Whether systemd of a node was asked for a reboot."""
        return self._fake(name, "reboot").exists()

    def hold_slurmd(self, name: str) -> None:
        """Have the next boot of a node wait with its slurmd."""
        self._fake(name, "no-slurmd").touch()

    def let_slurmd_start(self, name: str) -> None:
        self._fake(name, "no-slurmd").unlink()

    def boot_id(self, name: str) -> str:
        """The boot of a node that goes on."""
        return self._fake(name, "boot_id").read_text().strip()

    def _fake(self, name: str, file: str) -> Path:
        return self.in_node(name, f"fakes/{file}")
