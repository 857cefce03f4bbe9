"""A Slurm cluster as Slinky runs it: what its chart renders, read by a real slurmctld, with a slurmd for each pod.

The settings are those of the recorded charts (`chart_renderings`), put into slurm.conf as Slinky's operator does
(SlinkyProject/slurm-operator @ 87313da, internal/builder/controllerbuilder/controller_config.go and
workerbuilder/worker_app.go). Nodes register themselves (`slurmd -Z`). NVIDIA's driver is files of /proc and /dev, which
slurmd reads itself. Left out: cgroups, which the box does not have, and accounting, which other tests cover.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.software import ChartRelease
from cdk_gpu_clusters.kubernetes.software.slurm_topology import layer_labels, topology_spec
from chart_renderings import rendering
from slurmbox.box import Box

#: Topologies of more than one kind (topology.yaml) and of nodes that register themselves came with Slurm 25.05.
HAS_TOPOLOGY = os.environ.get("SLURM_TIER") == "newest"
_SECONDS, _FIRST_PORT = 60.0, 17001
#: As the operator writes them, with the paths of the box.
_OPERATOR = """\
ClusterName=slurm
SlurmUser=root
SlurmctldHost=controller(127.0.0.1)
StateSaveLocation=/var/spool/slurm/state
SlurmdUser=root
SlurmdSpoolDir=/var/spool/slurm/%n
MaxNodeCount=1024
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/%n.log
AuthType=auth/slurm
CredType=cred/slurm
AuthInfo=use_client_ids
SlurmctldParameters=enable_configless,reconfig_on_restart
AccountingStorageType=accounting_storage/none
"""
#: What the box has in the place of cgroups, and files for each slurmd.
_BOX = {
    "TaskPlugin": "task/none",
    "ProctrackType": "proctrack/linuxproc",
    "JobAcctGatherType": "jobacct_gather/none",
    "SlurmctldPidFile": "/run/slurmctld.pid",
    "SlurmdPidFile": "/run/slurmd-%n.pid",
    "MpiDefault": "none",
}
#: A pod: its own /dev, and the files in which NVIDIA's driver and the kernel describe its GPUs.
_POD = """\
set -e
hostname {name}
mount --bind /nodes/{name}/dev /dev
mkdir -p /var/spool/slurm/{name}
mount -t tmpfs none /proc/driver
mount -t tmpfs none /sys/bus/pci/drivers
cp -r /nodes/{name}/proc/nvidia /proc/driver/
cp -r /nodes/{name}/pci/nvidia /sys/bus/pci/drivers/
exec slurmd -D -Z -N {name} --conf '{conf}'
"""
#: Ends the slurmd of one node, and so its namespaces.
_END = """\
for process in /proc/[0-9]*; do
  if tr '\\0' ' ' <"$process/cmdline" 2>/dev/null | grep -q '^slurmd .*-N {name} '; then
    kill -KILL "${{process#/proc/}}" || true
  fi
done
"""
#: As NVIDIA's driver names the GPUs of the catalogue.
_MODELS = {"H100": "NVIDIA H100 80GB HBM3", "A100": "NVIDIA A100-SXM4-40GB", "A10G": "NVIDIA A10G", "L4": "NVIDIA L4"}


class Slinky:
    """A controller, and a slurmd for each pod.

    Attributes:
        chart: What the chart `slurm` rendered.
        nodes: The group of each node, by the name of the node.
    """

    def __init__(
        self,
        box: Box,
        releases: Iterable[ChartRelease],
        pools: Sequence[NodePool],
        places: Mapping[str, tuple[str, ...]],
    ) -> None:
        (release,) = [one for one in releases if one.name == "slurm"]
        self.box, self.chart = box, rendering(release)
        self.nodes = {f"{pool.name}-{number}": pool for pool in pools for number in range(pool.node_count)}
        self._places = places
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._commands: dict[str, list[str]] = {}

    def node_sets(self) -> dict[str, Mapping[str, Any]]:
        """The NodeSets by the names that the operator gives them in Slurm: those of their pods' host names."""
        sets = [one for one in self.chart["workloads"] if one["kind"] == "NodeSet"]
        return {one["name"].removeprefix("slurm-worker-"): one for one in sets}

    def slurm_conf(self) -> str:
        """slurm.conf as the operator writes it."""
        lines = [f"{name}={value}" for name, value in _BOX.items()]
        for name, one in self.node_sets().items():
            given = one["partition"]["config"]
            config = given if HAS_TOPOLOGY else re.sub(r" ?Topology=\S+", "", given)
            lines += [f"NodeSet={name} Feature={name}", f"PartitionName={name} Nodes={name} {config}"]
        (controller,) = [one for one in self.chart["workloads"] if one["kind"] == "Controller"]
        left_out = ("AccountingStorageTRES=", "TaskPlugin=")
        lines += [line for line in controller["extraConf"].splitlines() if not line.startswith(left_out)]
        return _OPERATOR + "\n".join([*lines, ""])

    def start(self) -> None:
        """Start all, and wait until every node is idle."""
        box, files = self.box, self.chart["configurations"]["slurm-config-extra"]
        for folder in ("/var/log/slurm", "/var/spool/slurm/state"):
            box.path(folder).mkdir(parents=True, exist_ok=True)
        box.write("/etc/hosts", f"127.0.0.1 localhost controller {' '.join(self.nodes)}\n")
        box.write("/etc/slurm/slurm.conf", self.slurm_conf())
        box.write("/etc/slurm/cgroup.conf", "CgroupPlugin=disabled\n")
        box.write("/etc/slurm/gres.conf", files["gres.conf"])
        if HAS_TOPOLOGY:
            box.write("/etc/slurm/topology.yaml", files["topology.yaml"])
        box.path("/etc/slurm/slurm.key").write_bytes(os.urandom(1024))
        box.path("/etc/slurm/slurm.key").chmod(0o600)
        self.start_controller()
        for port, (name, pool) in enumerate(self.nodes.items(), start=_FIRST_PORT):
            self._start_pod(name, pool, port)
        self.eventually(lambda: all(self.node(name).get("State", "").startswith("IDLE") for name in self.nodes))

    def end(self) -> None:
        """End all at once."""
        for daemon in reversed(self._daemons.values()):
            daemon.kill()
            daemon.wait()

    def start_controller(self) -> None:
        """Start it, or end it in order and start it again."""
        if running := self._daemons.pop("slurmctld", None):
            self.box.run("scontrol", "shutdown", "slurmctld")
            running.wait(_SECONDS)
        self._daemons["slurmctld"] = self.box.start(
            "slurmctld", "-D", log=self.box.path("/var/log/slurm/slurmctld.output")
        )
        self.eventually(lambda: self.box.run("scontrol", "ping", check=False).returncode == 0)

    def _start_pod(self, name: str, pool: NodePool, port: int) -> None:
        box, folder = self.box, self.box.path(f"/nodes/{name}")
        for part in ("dev/shm", "proc/nvidia/gpus", "pci/nvidia"):
            (folder / part).mkdir(parents=True)
        accelerator = pool.instance_type.accelerator
        count, model = (accelerator.count, _MODELS[accelerator.name]) if accelerator else (0, "")
        files = [f"nvidia{minor}" for minor in range(count)]
        if pool.mig is not None:
            text = box.path("/etc/slurm/gres.conf").read_text()
            files += sorted(set(re.findall(r"nvidia-caps/nvidia-cap\d+", text)))
        box.make_devices(folder / "dev", files)
        for minor in range(count):
            bus = f"0000:{minor + 16:02x}:00.0"
            box.write(
                f"/nodes/{name}/proc/nvidia/gpus/{bus}/information",
                f"Model: \t\t {model}\nBus Location: \t {bus}\nDevice Minor: \t {minor}\n",
            )
            box.write(f"/nodes/{name}/pci/nvidia/{bus}/local_cpulist", "0-1\n")
        conf = {"Features": pool.name, "Port": str(port)}
        if extra := self.node_sets()[pool.name].get("extraConf"):
            conf["Gres"] = extra.removeprefix("Gres=")
        if HAS_TOPOLOGY and name in self._places:
            conf["Topology"] = topology_spec(pool, dict(zip(layer_labels(pool), self._places[name], strict=True)))
        script = _POD.format(name=name, conf=" ".join(f"{key}={value}" for key, value in conf.items()))
        own = ["unshare", "--mount", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc"]
        self._commands[name] = [*own, "--propagation", "private", "sh", "-c", script]
        self._run_pod(name)

    def _run_pod(self, name: str) -> None:
        log = self.box.path(f"/var/log/slurm/{name}.output")
        self._daemons[name] = self.box.start(*self._commands[name], log=log)

    def restart_pod(self, name: str) -> None:
        """End a pod as the operator's preStop does (worker_app.go), and start the next one on the same node.

        Returns when the controller knows the start of the next slurmd.
        """
        before = self.node(name)["SlurmdStartTime"]
        reason = "reason=slurm-operator: Pod is terminating"
        self.box.run("scontrol", "update", f"nodename={name}", "state=down", reason)
        # A slurmd that was told to reconfigure itself outlives the program that started it.
        self.box.run("sh", "-c", _END.format(name=name))
        self._daemons[name].wait(_SECONDS)
        time.sleep(1)  # the times of the controller are seconds
        self._run_pod(name)
        self.eventually(lambda: self.node(name).get("SlurmdStartTime", before) != before)

    def node(self, name: str) -> dict[str, str]:
        """What the controller says of a node; nothing if it does not know it."""
        shown = self.box.run("scontrol", "--oneliner", "show", "node", name, check=False).stdout
        return dict(word.split("=", 1) for word in shown.split() if "=" in word)

    def eventually(self, look: Callable[[], object]) -> None:
        """Wait until something holds; show the logs if it never does."""
        end = time.monotonic() + _SECONDS
        while not look():
            logs = sorted(self.box.path("/var/log/slurm").iterdir())
            assert time.monotonic() < end, "\n".join(
                f"{file.name}:\n{file.read_text(errors='replace')[-2000:]}" for file in logs
            )
            time.sleep(0.1)
