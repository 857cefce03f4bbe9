"""Nodes that Slurm powers down and up under the same names, as AWS PCS does in a group that scales."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from cdk_gpu_clusters.node.slurm_settings import cluster_settings
from slurmbox.box import Box
from slurmbox.cluster import SHARED, Cluster

FIRST, SECOND = NODES = ("gpu-1", "gpu-2")
_JOB = "#!/bin/bash\ntrue\n"
_LONG_JOB = f"#!/bin/bash\nuntil [ -e {SHARED}/end ]; do sleep 0.1; done\n"
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


def begin(cluster: Cluster, name: str, script: str) -> str:
    """Submit a job for a node that is powered down, and launch its instance."""
    job = cluster.submit(script, f"--nodelist={name}")
    cluster.eventually(lambda: cluster.is_asked_for(name))
    cluster.power_on(name)
    return job


def end(cluster: Cluster, name: str) -> None:
    """End the instance of a node, when Slurm wants it."""
    cluster.eventually(lambda: cluster.is_to_end(name))
    cluster.cut_power(name)
    cluster.eventually(lambda: "POWERED_DOWN" in states(cluster, name))


def is_done(cluster: Cluster, job: str) -> bool:
    return cluster.job(job)["JobState"] == "COMPLETED"


def run_a_job(cluster: Cluster, name: str) -> None:
    """A job powers a node up, and runs on it."""
    job = begin(cluster, name, _JOB)
    cluster.eventually(lambda: is_done(cluster, job))


def test_a_drain_outlives_the_instance_and_slurm_starts_no_other_one(cluster: Cluster) -> None:
    # The fault, by what this software did before: it is Slurm's own behaviour.
    run_a_job(cluster, FIRST)
    cluster.ask("scontrol", "update", f"NodeName={FIRST}", "State=DRAIN", "Reason=gpunode: replace: Xid 79")
    end(cluster, FIRST)
    assert "DRAIN" in states(cluster, FIRST)
    waits = cluster.submit(_JOB, f"--nodelist={FIRST}")
    time.sleep(5)
    assert cluster.job(waits)["JobState"] == "PENDING"
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
    cluster.box.path(f"{SHARED}/end").unlink(missing_ok=True)
    job = begin(cluster, SECOND, _LONG_JOB)
    cluster.eventually(lambda: cluster.job(job)["JobState"] == "RUNNING")
    own(cluster, SECOND, call)
    assert {"DRAIN", "POWER_DOWN"} <= states(cluster, SECOND)
    assert cluster.node(SECOND)["Reason"] == reason
    assert not cluster.is_to_end(SECOND), "its job runs on"
    cluster.box.write(f"{SHARED}/end", "")
    cluster.eventually(lambda: is_done(cluster, job))
    end(cluster, SECOND)
    assert states(cluster, SECOND) == {"IDLE", "CLOUD", "POWERED_DOWN"}
    assert cluster.node(SECOND)["Reason"] == reason  # and the next test runs a job under this name


def test_a_node_that_was_replaced_counts_until_its_name_is_in_use_again(cluster: Cluster) -> None:
    count = "print(slurm.taken_out(Severity.REPLACE))"
    run_a_job(cluster, SECOND)
    own(cluster, SECOND, 'slurm.take_out(Severity.REPLACE, "Xid 79")')
    assert own(cluster, FIRST, count) == f"{{'{SECOND}'}}\n"
    end(cluster, SECOND)
    assert own(cluster, FIRST, count) == f"{{'{SECOND}'}}\n"
    run_a_job(cluster, SECOND)
    assert own(cluster, FIRST, count) == "set()\n"
    end(cluster, SECOND)


def test_a_hold_whose_instance_is_powered_down_ends_by_itself(cluster: Cluster) -> None:
    run_a_job(cluster, FIRST)
    # A day, as short as a test can wait.
    own(
        cluster,
        FIRST,
        'import gpunode.actions.slurm as it; it._DRAIN_SECONDS = 25; slurm.hold(Severity.RESET, "Xid 95")',
    )
    assert "DRAIN" in states(cluster, FIRST)
    end(cluster, FIRST)
    assert "DRAIN" in states(cluster, FIRST)
    cluster.eventually(lambda: "DRAIN" not in states(cluster, FIRST))
    run_a_job(cluster, FIRST)
    end(cluster, FIRST)


def test_what_a_person_drained_stays_drained(cluster: Cluster) -> None:
    run_a_job(cluster, FIRST)
    cluster.ask("scontrol", "update", f"NodeName={FIRST}", "State=DRAIN", "Reason=disk swap, ask Kim")
    own(cluster, FIRST, 'slurm.keep_new_work_away("spot-interruption")')
    end(cluster, FIRST)
    assert "DRAIN" in states(cluster, FIRST)
    assert cluster.node(FIRST)["Reason"] == "disk swap, ask Kim"
