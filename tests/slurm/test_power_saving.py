"""Nodes that Slurm powers down and up under the same names, as AWS PCS does in a group that scales.

What happens to a node happens while a job runs on it: Slurm powers an idle one down within a second or two.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from cdk_gpu_clusters.node.slurm_settings import cluster_settings
from slurmbox.box import Box
from slurmbox.cluster import SHARED, Cluster

FIRST, SECOND = NODES = ("gpu-1", "gpu-2")
_END = f"{SHARED}/end"
_JOB = f"#!/bin/bash\nuntil [ -e {_END} ]; do sleep 0.1; done\n"
# The node's own software, with the settings of a node.
_OWN = """
mount --bind /nodes/{name}/etc/node.env /etc/gpu-cluster/node.env
exec python3 -c '
import sys
sys.path.insert(0, "/usr/local/lib/gpu-cluster")
from gpunode.actions.slurm import Slurm
from gpunode.checks.check import Severity
from gpunode.node import this_node
slurm = Slurm(this_node())
{call}'
"""


@pytest.fixture(scope="module")
def cluster(box: Box) -> Iterator[Cluster]:
    nodes = dict.fromkeys(NODES, "CPUs=2 RealMemory=1000")
    environment = ("GPU_ORCHESTRATOR=pcs", "GPU_SCALES=1")
    with Cluster(box, nodes, cluster_settings(), node_environment=environment, scales=True) as cluster:
        yield cluster


def own(cluster: Cluster, name: str, call: str) -> str:
    """What the software of a node does."""
    return cluster.box.run("unshare", "--mount", "sh", "-c", _OWN.format(name=name, call=call)).stdout


def states(cluster: Cluster, name: str) -> set[str]:
    return set(cluster.node(name)["State"].split("+"))


def begin(cluster: Cluster, name: str) -> str:
    """A job has a node powered up, and runs on it."""
    cluster.box.path(_END).unlink(missing_ok=True)
    job = cluster.submit(_JOB, f"--nodelist={name}")
    cluster.eventually(lambda: cluster.is_asked_for(name))
    cluster.power_on(name)
    cluster.eventually(lambda: cluster.job(job)["JobState"] == "RUNNING")
    return job


def end(cluster: Cluster, name: str, job: str) -> None:
    """The job comes to its own end, and then the instance, when Slurm wants it."""
    cluster.box.write(_END, "")
    cluster.eventually(lambda: cluster.job(job)["JobState"] == "COMPLETED")
    cluster.eventually(lambda: cluster.is_to_end(name))
    cluster.cut_power(name)
    cluster.eventually(lambda: "POWERED_DOWN" in states(cluster, name))


def test_a_drain_outlives_the_instance_and_slurm_starts_no_other_one(cluster: Cluster) -> None:
    # The fault, by what this software did before: it is Slurm's own behaviour.
    job = begin(cluster, FIRST)
    cluster.ask("scontrol", "update", f"NodeName={FIRST}", "State=DRAIN", "Reason=gpunode: replace: Xid 79")
    end(cluster, FIRST, job)
    assert "DRAIN" in states(cluster, FIRST)
    waits = cluster.submit(_JOB, f"--nodelist={FIRST}")
    cluster.eventually(lambda: cluster.job(waits)["Reason"].startswith("ReqNodeNotAvail"))
    assert not cluster.is_asked_for(FIRST)
    cluster.ask("scancel", waits)
    cluster.ask("scontrol", "update", f"NodeName={FIRST}", "State=RESUME")


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ('slurm.take_out(Severity.REPLACE, "Xid 79")', "gpunode: replace: Xid 79"),
        ('slurm.keep_new_work_away("spot-interruption")', "gpunode: spot-interruption"),
        ('slurm.hold(Severity.RESET, "Xid 95"); slurm.keep_new_work_away("spot-interruption")', "gpunode: spot-interruption"),
    ],
)  # fmt: skip
def test_a_name_returns_after_its_jobs_and_its_instance_have_ended(cluster: Cluster, call: str, reason: str) -> None:
    job = begin(cluster, SECOND)
    own(cluster, SECOND, call)
    assert {"DRAIN", "POWER_DOWN"} <= states(cluster, SECOND)
    assert cluster.node(SECOND)["Reason"] == reason
    time.sleep(3)  # Slurm looks every second
    assert not cluster.is_to_end(SECOND), "its job runs on"
    end(cluster, SECOND, job)
    assert states(cluster, SECOND) == {"IDLE", "CLOUD", "POWERED_DOWN"}
    assert cluster.node(SECOND)["Reason"] == reason  # and the next test runs a job under this name


def test_a_node_that_was_replaced_counts_until_its_name_is_in_use_again(cluster: Cluster) -> None:
    count = "print(slurm.taken_out(Severity.REPLACE))"
    job = begin(cluster, SECOND)
    own(cluster, SECOND, 'slurm.take_out(Severity.REPLACE, "Xid 79")')
    assert own(cluster, FIRST, count) == f"{{'{SECOND}'}}\n"
    end(cluster, SECOND, job)
    assert own(cluster, FIRST, count) == f"{{'{SECOND}'}}\n"
    job = begin(cluster, SECOND)
    assert own(cluster, FIRST, count) == "set()\n"
    end(cluster, SECOND, job)


def test_a_hold_whose_instance_is_powered_down_ends_by_itself(cluster: Cluster) -> None:
    job = begin(cluster, FIRST)
    own(cluster, FIRST, 'slurm.hold(Severity.RESET, "Xid 95")')
    end(cluster, FIRST, job)
    held = cluster.node(FIRST)
    assert "DRAIN" in held["State"]
    now = datetime.fromisoformat(cluster.ask("date", "+%FT%T").strip())
    assert timedelta(hours=23) < datetime.fromisoformat(held["ResumeAfterTime"]) - now <= timedelta(hours=24)
    # That day is over.
    cluster.ask(
        "scontrol", "update", f"NodeName={FIRST}", "State=DRAIN", "Reason=gpunode: reset: Xid 95", "ResumeAfter=1"
    )
    cluster.eventually(lambda: "DRAIN" not in states(cluster, FIRST))
    end(cluster, FIRST, begin(cluster, FIRST))


def test_what_a_person_drained_stays_drained(cluster: Cluster) -> None:
    job = begin(cluster, FIRST)
    cluster.ask("scontrol", "update", f"NodeName={FIRST}", "State=DRAIN", "Reason=disk swap, ask Kim")
    own(cluster, FIRST, 'slurm.keep_new_work_away("spot-interruption")')
    end(cluster, FIRST, job)
    assert "DRAIN" in states(cluster, FIRST)
    assert cluster.node(FIRST)["Reason"] == "disk swap, ask Kim"
