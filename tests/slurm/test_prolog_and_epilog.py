"""The prolog and the epilog of a node, run by a real slurmd."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.slurm_settings import PROLOG_FOLDER, cluster_settings
from slurmbox.box import Box
from slurmbox.cluster import SHARED, USER, Cluster

NODES = ("gpu-1", "gpu-2")
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@pytest.fixture(scope="module")
def cluster(box: Box) -> Iterator[Cluster]:
    nodes = dict.fromkeys(NODES, "CPUs=2 RealMemory=1000")
    environment = ("GPU_ORCHESTRATOR=pcs", "GPU_SCRATCH=/scratch")
    box.path("/scratch").mkdir(mode=0o755)
    with Cluster(box, nodes, cluster_settings(), node_environment=environment) as cluster:
        cluster.eventually(lambda: all(cluster.node(name)["State"] == "IDLE" for name in nodes))
        yield cluster


def watchdog_finds(cluster: Cluster, name: str, severity: int, *reasons: str) -> None:
    """What the watchdog of a node stores about it."""
    known = {
        "boot_id": _BOOT.read_text().strip(),
        "at": 1e12,
        "severity": severity,
        "open": [{"symptom": {"reason": reason}} for reason in reasons],
    }
    cluster.in_node(name, "run/watch.json").write_text(json.dumps(known))


def completed(cluster: Cluster, job: str) -> None:
    cluster.eventually(lambda: cluster.job(job)["JobState"] == "COMPLETED")


def test_a_job_on_a_sound_node_has_its_folder_and_leaves_nothing(cluster: Cluster) -> None:
    watchdog_finds(cluster, "gpu-1", 0)
    script = f"""#!/bin/bash
stat --format='%U %a' /scratch/job-$SLURM_JOB_ID
echo data >/dev/shm/nccl-left
mkdir /dev/shm/left && ln -s /etc/passwd /dev/shm/left/link
touch /scratch/job-$SLURM_JOB_ID/file
(setsid sh -c 'echo $$ >{SHARED}/pid; trap "" TERM; while :; do sleep 1; done' </dev/null >/dev/null 2>&1 &)
until [ -s {SHARED}/pid ]; do sleep 0.1; done
"""
    job = cluster.submit(script, "--nodelist=gpu-1", f"--output={SHARED}/sound")
    completed(cluster, job)
    assert cluster.box.path(f"{SHARED}/sound").read_text() == "alice 700\n"
    cluster.eventually(lambda: cluster.node("gpu-1")["State"] == "IDLE")
    assert list(cluster.in_node("gpu-1", "dev/shm").iterdir()) == []
    assert not cluster.box.path(f"/scratch/job-{job}").exists()
    left = cluster.box.run("pgrep", "--uid", str(USER), "--runstates", "RSD", check=False).stdout
    assert left == "", "no process of the user is left"


def test_the_epilog_leaves_the_other_job_of_the_user_alone(cluster: Cluster) -> None:
    other = cluster.submit(
        f"#!/bin/bash\necho data >/dev/shm/in-use\nuntil [ -e {SHARED}/end ]; do sleep 0.1; done\n", "--nodelist=gpu-1"
    )
    cluster.eventually(lambda: cluster.in_node("gpu-1", "dev/shm/in-use").exists())
    completed(cluster, cluster.submit("#!/bin/bash\ntrue\n", "--nodelist=gpu-1"))
    cluster.eventually(lambda: "COMPLETING" not in cluster.node("gpu-1")["State"])
    assert cluster.in_node("gpu-1", "dev/shm/in-use").exists()
    assert cluster.job(other)["JobState"] == "RUNNING"
    cluster.box.write(f"{SHARED}/end", "")
    completed(cluster, other)
    cluster.eventually(lambda: not cluster.in_node("gpu-1", "dev/shm/in-use").exists())


def test_a_node_without_the_software_runs_no_job(cluster: Cluster) -> None:
    # What the controller requires of all nodes: a group of the cluster without the software would be drained by its jobs.
    folder = cluster.box.path(PROLOG_FOLDER)
    away = folder.rename(folder.with_name("away"))
    try:
        job = cluster.submit("#!/bin/bash\ntrue\n", "--nodelist=gpu-2")
        cluster.eventually(lambda: "DRAIN" in cluster.node("gpu-2")["State"])
        assert cluster.node("gpu-2")["Reason"] == "Prolog error"
    finally:
        away.rename(folder)
    cluster.ask("scontrol", "update", "NodeName=gpu-2", "State=RESUME")
    completed(cluster, job)


def test_a_job_leaves_a_node_that_fails_the_prolog_for_another_one(cluster: Cluster) -> None:
    watchdog_finds(cluster, "gpu-1", 5, "Xid 79 on GPU 3")
    job = cluster.submit("#!/bin/bash\necho $SLURMD_NODENAME\n", f"--output={SHARED}/moved")
    completed(cluster, job)
    assert cluster.box.path(f"{SHARED}/moved").read_text() == "gpu-2\n"
    first = cluster.node("gpu-1")
    assert "DRAIN" in first["State"]
    assert first["Reason"] == "Prolog error"
    assert int(cluster.job(job)["Restarts"]) >= 1
    [event] = [event for event in _events(cluster) if event["stage"] == "prolog"]
    assert event["state"] == "failed"
    assert event["reason"] == "unhealthy: Xid 79 on GPU 3"
    assert event["job"] == job


def _events(cluster: Cluster) -> list[dict[str, Any]]:
    """The events that wait to be sent."""
    lines = cluster.box.path("/var/lib/gpu-cluster/spool/events.jsonl").read_text().splitlines()
    return [json.loads(json.loads(line)["message"]) for line in lines]


def test_an_instance_does_not_inherit_the_drain_of_the_one_before_it(cluster: Cluster) -> None:
    update = ("scontrol", "update", "NodeName=gpu-2")
    cluster.ask(*update, "State=DRAIN", "Reason=gpunode: spot-interruption 2026-12-01T11:00:00Z")
    cluster.cut_power("gpu-2")
    cluster.power_on("gpu-2")
    time.sleep(8)  # longer than SlurmdTimeout: the controller has heard of the new one
    assert "DRAIN" in cluster.node("gpu-2")["State"]
    # The other one has an uptime of its own only here: the kernel is that of the machine.
    script = """
mount --bind /nodes/gpu-2/etc/node.env /etc/gpu-cluster/node.env
echo 2 2 >/run/uptime && mount --bind /run/uptime /proc/uptime
PCS_IS_FIRST_BOOT={first} exec gpunode registered
"""
    for first in (0, 1):
        cluster.box.run("unshare", "--mount", "sh", "-c", script.format(first=first))
        assert ("DRAIN" in cluster.node("gpu-2")["State"]) is not bool(first)
    cluster.eventually(lambda: cluster.node("gpu-2")["State"] == "IDLE")
