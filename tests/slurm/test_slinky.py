"""What Slinky's charts make of our values, read by a real slurmctld, with nodes that register themselves (`slurmd -Z`).

The settings are those of the recorded charts (`chart_renderings`), put into slurm.conf as Slinky's operator does
(SlinkyProject/slurm-operator @ 87313da, internal/builder/controllerbuilder/controller_config.go and
workerbuilder/worker_app.go). NVIDIA's driver is files of /proc and /dev, which slurmd reads itself. Left out: cgroups,
which the box does not have, and accounting, which other tests here cover.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.software.slurm_topology import layer_labels, topology_spec
from cdk_gpu_clusters.rules.gres import gres_counts
from chart_renderings import SLURM, cases, rendering, slurm_pools
from slurmbox.box import Box

#: Topologies of more than one kind (topology.yaml) and of nodes that register themselves came with Slurm 25.05.
_HAS_TOPOLOGY = os.environ.get("SLURM_TIER") == "newest"
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
_MODELS = {"trainers": "NVIDIA H100 80GB HBM3", "slices": "NVIDIA A100-SXM4-40GB", "notebooks": "NVIDIA A10G"}
_PLACES = {
    "trainers-0": ("nn-1", "nn-2", "nn-4"),
    "trainers-1": ("nn-1", "nn-3", "nn-5"),
    "slices-0": ("nn-1", "nn-2", "nn-6"),
}
POOLS = {f"{pool.name}-{number}": pool for pool in slurm_pools() for number in range(pool.node_count)}


def chart() -> Mapping[str, Any]:
    """What the chart `slurm` renders with our values."""
    (release,) = [one for one in cases()["Slurm"] if one.name == "slurm"]
    return rendering(release)


def node_sets() -> dict[str, Mapping[str, Any]]:
    """The NodeSets by the names that the operator gives them in Slurm: those of their pods' host names."""
    sets = [one for one in chart()["workloads"] if one["kind"] == "NodeSet"]
    return {one["name"].removeprefix("slurm-worker-"): one for one in sets}


def slurm_conf() -> str:
    """slurm.conf as the operator writes it."""
    lines = [f"{name}={value}" for name, value in _BOX.items()]
    for name, one in node_sets().items():
        config = (
            one["partition"]["config"] if _HAS_TOPOLOGY else re.sub(r" ?Topology=\S+", "", one["partition"]["config"])
        )
        lines += [f"NodeSet={name} Feature={name}", f"PartitionName={name} Nodes={name} {config}"]
    (controller,) = [one for one in chart()["workloads"] if one["kind"] == "Controller"]
    left_out = ("AccountingStorageTRES=", "TaskPlugin=")
    lines += [line for line in controller["extraConf"].splitlines() if not line.startswith(left_out)]
    return _OPERATOR + "\n".join([*lines, ""])


class Slinky:
    """A controller, and a slurmd for each pod."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start all, and wait until every node is idle."""
        box, files = self.box, chart()["configurations"]["slurm-config-extra"]
        for folder in ("/var/log/slurm", "/var/spool/slurm/state"):
            box.path(folder).mkdir(parents=True, exist_ok=True)
        box.write("/etc/hosts", f"127.0.0.1 localhost controller {' '.join(POOLS)}\n")
        box.write("/etc/slurm/slurm.conf", slurm_conf())
        box.write("/etc/slurm/cgroup.conf", "CgroupPlugin=disabled\n")
        box.write("/etc/slurm/gres.conf", files["gres.conf"])
        if _HAS_TOPOLOGY:
            box.write("/etc/slurm/topology.yaml", files["topology.yaml"])
        box.path("/etc/slurm/slurm.key").write_bytes(os.urandom(1024))
        box.path("/etc/slurm/slurm.key").chmod(0o600)
        self.start_controller()
        for port, (name, pool) in enumerate(POOLS.items(), start=_FIRST_PORT):
            self._start_pod(name, pool, port)
        self.eventually(lambda: all(self.node(name).get("State", "").startswith("IDLE") for name in POOLS))

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
        count = accelerator.count if accelerator else 0
        files = [f"nvidia{minor}" for minor in range(count)]
        if pool.mig is not None:
            text = box.path("/etc/slurm/gres.conf").read_text()
            files += sorted(set(re.findall(r"nvidia-caps/nvidia-cap\d+", text)))
        box.make_devices(folder / "dev", files)
        for minor in range(count):
            bus = f"0000:{minor + 16:02x}:00.0"
            box.write(
                f"/nodes/{name}/proc/nvidia/gpus/{bus}/information",
                f"Model: \t\t {_MODELS[pool.name]}\nBus Location: \t {bus}\nDevice Minor: \t {minor}\n",
            )
            box.write(f"/nodes/{name}/pci/nvidia/{bus}/local_cpulist", "0-1\n")
        conf = {"Features": pool.name, "Port": str(port)}
        if extra := node_sets()[pool.name].get("extraConf"):
            conf["Gres"] = extra.removeprefix("Gres=")
        if _HAS_TOPOLOGY and name in _PLACES:
            conf["Topology"] = topology_spec(pool, dict(zip(layer_labels(pool), _PLACES[name], strict=True)))
        script = _POD.format(name=name, conf=" ".join(f"{key}={value}" for key, value in conf.items()))
        own = ["unshare", "--mount", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc"]
        self._daemons[name] = box.start(
            *own, "--propagation", "private", "sh", "-c", script, log=box.path(f"/var/log/slurm/{name}.output")
        )

    def node(self, name: str) -> dict[str, str]:
        """What the controller says of a node; nothing if it does not know it."""
        shown = self.box.run("scontrol", "--oneliner", "show", "node", name, check=False).stdout
        return dict(word.split("=", 1) for word in shown.split() if "=" in word)

    def eventually(self, look: Callable[[], object]) -> None:
        end = time.monotonic() + _SECONDS
        while not look():
            logs = sorted(self.box.path("/var/log/slurm").iterdir())
            assert time.monotonic() < end, "\n".join(
                f"{file.name}:\n{file.read_text(errors='replace')[-2000:]}" for file in logs
            )
            time.sleep(0.1)


@pytest.fixture(scope="module")
def slinky(box: Box) -> Iterator[Slinky]:
    made = Slinky(box)
    try:
        made.start()
        yield made
    finally:
        made.end()


@pytest.mark.parametrize("name", POOLS)
def test_a_node_registers_with_the_gpus_and_slices_of_its_group(slinky: Slinky, name: str) -> None:
    pool, shown = POOLS[name], slinky.node(name)
    found = re.findall(r"gpu:([\w.]+):(\d+)", shown["Gres"])
    has_gpu = pool.resources or pool.mig
    assert dict(found) == (
        {kind: str(count) for kind, count in gres_counts(pool.instance_type, pool.mig).items()} if has_gpu else {}
    )
    assert (shown["State"], shown["Partitions"]) == ("IDLE+DYNAMIC_NORM", pool.name)


def test_the_first_group_is_the_default_partition(slinky: Slinky) -> None:
    shown = slinky.box.run("sinfo", "--noheader", "--format=%P %D").stdout.split("\n")
    assert sorted(line for line in shown if line) == ["notebooks 1", "preprocessing 1", "slices 1", "trainers* 2"]


def test_jobs_get_gpus_and_slices_and_no_more_than_there_are(slinky: Slinky) -> None:
    show = "scontrol --details show job $SLURM_JOB_ID | grep -o 'GRES=.*'"
    whole = slinky.box.run(
        "srun", "--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=h100:8", "sh", "-c", show
    ).stdout
    assert whole.count("GRES=gpu:h100:8(IDX:0-7)") >= 1
    assert slinky.box.run("srun", "--partition=slices", "--gres=gpu:1g.5gb:3", "sh", "-c", show).stdout.startswith(
        "GRES=gpu:1g.5gb:3"
    )
    more = slinky.box.run("srun", "--partition=slices", "--gres=gpu:1g.5gb:57", "true", check=False)
    assert more.returncode != 0
    assert "Requested node configuration is not available" in more.stderr


def test_the_settings_are_in_force(slinky: Slinky) -> None:
    text = slinky.box.run("scontrol", "show", "config").stdout
    shown = dict(re.findall(r"^([\w\[\]]+)\s+= (.*?)\s*$", text, re.MULTILINE))
    assert shown["JobRequeue"] == "1"
    assert {"Alloc", "Contain"} <= set(shown["PrologFlags"].split(","))
    parameters = shown["SchedulerParameters"].split(",")
    assert {"nohold_on_prolog_fail", "requeue_on_resume_failure", SLURM.settings["SchedulerParameters"]} <= set(
        parameters
    )


def switches(slinky: Slinky) -> dict[str, str]:
    """The switches of the tree with the nodes below them."""
    text = slinky.box.run("scontrol", "show", "topology", "ec2-3").stdout
    return dict(re.findall(r"SwitchName=(\S+).* Nodes=(\S*)", text))


if _HAS_TOPOLOGY:

    def test_the_network_above_each_node_is_a_tree_that_outlives_the_controller(slinky: Slinky) -> None:
        expected = {
            "ec2-3": "slices-0,trainers-[0-1]",
            "nn-1": "slices-0,trainers-[0-1]",
            "nn-2": "slices-0,trainers-0",
            "nn-3": "trainers-1",
            "nn-4": "trainers-0",
            "nn-5": "trainers-1",
            "nn-6": "slices-0",
        }
        assert switches(slinky) == expected
        slinky.start_controller()
        slinky.eventually(lambda: all(slinky.node(name).get("State", "").startswith("IDLE") for name in POOLS))
        assert switches(slinky) == expected
        near = slinky.box.run("srun", "--nodes=2", "--switches=1@00:00:01", "true", check=False)
        assert near.returncode == 0

    def test_the_operator_moves_a_node_to_the_place_of_its_annotation(slinky: Slinky) -> None:
        spec = topology_spec(
            POOLS["trainers-1"], dict(zip(layer_labels(POOLS["trainers-1"]), _PLACES["trainers-0"], strict=True))
        )
        slinky.box.run("scontrol", "update", "nodename=trainers-1", f"topology={spec}")
        assert switches(slinky)["nn-4"] == "trainers-[0-1]"
