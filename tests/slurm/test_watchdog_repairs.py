"""A node is reset and rebooted by its watchdog in front of a real controller, and a job on another node runs on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nodebox.repaired import REBOOT, RESET
from slurmbox.box import Box
from slurmbox.cluster import SHARED
from slurmbox.watched import WatchedCluster, watched_cluster

SICK, HEALTHY, IDLE = "gpu-1", "gpu-2", "gpu-3"
_GRACE_SECONDS, _STEP_SECONDS = 3, 0.2
# Each job runs until it is told to end, or until it gets SIGTERM, and counts its steps meanwhile.
_SCRIPT = """\
#!/bin/bash
echo start
trap 'echo saved; exit 0' TERM
for ((step = 0; ; step++)); do
  echo $step
  [ ! -e {end} ] || break
  sleep {step_seconds}
done
echo done
"""


@pytest.fixture(scope="module")
def cluster(box: Box) -> Iterator[WatchedCluster]:
    polls = {SICK: 1, HEALTHY: 1, IDLE: 20}
    with watched_cluster(box, polls, {"GPU_REPAIR_WAIT_SECONDS": f"{_GRACE_SECONDS}"}) as cluster:
        yield cluster


class Job:
    """A job for one node."""

    def __init__(self, cluster: WatchedCluster, node: str, name: str) -> None:
        self._cluster, self._end, self._output = cluster, f"{SHARED}/end-{name}", f"{SHARED}/output-{name}"
        script = _SCRIPT.format(end=self._end, step_seconds=_STEP_SECONDS)
        # Slurm and bash write about the SIGTERM to the other stream.
        output = (f"--output={self._output}", "--open-mode=append", "--error=/dev/null")
        self.id = cluster.submit(script, f"--nodelist={node}", f"--job-name={name}", *output)

    @property
    def state(self) -> str:
        return self._cluster.job(self.id)["JobState"]

    def begun(self) -> None:
        """Wait until it runs."""
        self._cluster.eventually(lambda: self.state == "RUNNING" and len(self.lines()) > 1)

    def goes_on(self, seconds: float = 0) -> None:
        """It runs on, for so long at least."""
        wanted = len(self.lines()) + 1 + round(seconds / _STEP_SECONDS)
        self._cluster.eventually(lambda: len(self.lines()) > wanted)
        assert self.state == "RUNNING"

    def end(self) -> None:
        """Let it come to its own end."""
        self._cluster.box.write(self._end, "")
        self.expect_one_run("done")

    def lines(self) -> list[str]:
        output = self._cluster.box.path(self._output)
        return output.read_text().splitlines() if output.exists() else []

    def expect_one_run(self, last: str) -> None:
        """It was started once, counted without a gap, and this was its last word. Accounting has no other attempt."""
        self._cluster.eventually(lambda: self.state == "COMPLETED")
        lines = self.lines()
        assert lines == ["start", *(str(step) for step in range(len(lines) - 2)), last]
        assert self._cluster.job(self.id)["Restarts"] == "0"
        options = ("--duplicates", "--allocations", "--parsable2", "--noheader", "--format=State,ExitCode")
        assert self._cluster.ask("sacct", f"--jobs={self.id}", *options).splitlines() == ["COMPLETED|0:0"]


def test_the_controller_sees_drain_reset_reboot_and_return_while_a_job_beside_runs_on(cluster: WatchedCluster) -> None:
    beside = Job(cluster, HEALTHY, "beside")
    beside.begun()
    started = cluster.job(beside.id)["StartTime"]
    expect_reset(cluster, beside)
    expect_reboot(cluster, beside)
    rungs = [f"reset {step}" for step in ("begin", "hold", "wait", "reset", "check", "release", "ok")]
    rungs += [f"reboot {step}" for step in ("begin", "hold", "wait", "end-work", "reboot", "check", "release", "ok")]
    assert cluster.steps(SICK) == rungs
    assert [reason.split(": ")[:2] for reason in drains(cluster, SICK)] == [["gpunode", "reset"], ["gpunode", "reboot"]]
    assert cluster.job(beside.id)["StartTime"] == started
    beside.goes_on()
    beside.end()
    assert cluster.steps(HEALTHY) == drains(cluster, HEALTHY) == []


def expect_reset(cluster: WatchedCluster, beside: Job) -> None:
    """The node is drained, its job comes to its own end, and after the reset it takes the next one."""
    own = Job(cluster, SICK, "before-reset")
    own.begun()
    cluster.gpus_say(SICK, cells={"remapped_rows.pending": "1"})
    cluster.eventually(lambda: cluster.node(SICK)["State"] == "MIXED+DRAIN")
    reason = "gpunode: reset: GPU at 00000000:1A:00.0: a row waits to be remapped"
    assert cluster.node(SICK)["Reason"].startswith(reason)
    waiting = Job(cluster, SICK, "after-reset")
    own.goes_on()
    beside.goes_on()
    own.end()
    cluster.eventually(lambda: cluster.node(SICK)["State"] == "IDLE+DRAIN")
    assert waiting.state == "PENDING"
    cluster.look_again(SICK)
    expect_return(cluster, waiting)


def expect_reboot(cluster: WatchedCluster, beside: Job) -> None:
    """The node is drained, its job gets SIGTERM after the grace, and it is back with another boot and takes the next."""
    boot_id, booted = cluster.boot_id(SICK), cluster.node(SICK)["BootTime"]
    own = Job(cluster, SICK, "before-reboot")
    own.begun()
    cluster.kernel_says(SICK, REBOOT)
    cluster.eventually(lambda: cluster.node(SICK)["State"] == "MIXED+DRAIN")
    assert cluster.node(SICK)["Reason"].startswith("gpunode: reboot: Xid 154")
    waiting = Job(cluster, SICK, "after-reboot")
    own.goes_on(_GRACE_SECONDS + 1)
    cluster.look_again(SICK)
    cluster.eventually(lambda: cluster.wants_reboot(SICK))
    own.expect_one_run("saved")

    cluster.hold_slurmd(SICK)
    cluster.cut_power(SICK)
    cluster.eventually(lambda: "NOT_RESPONDING" in cluster.node(SICK)["State"])
    beside.goes_on()
    cluster.power_on(SICK)
    cluster.eventually(lambda: f"slurmd of {SICK} has not registered since this boot" in cluster.waits_for(SICK))
    assert "DRAIN" in cluster.node(SICK)["State"]
    cluster.let_slurmd_start(SICK)
    expect_return(cluster, waiting)
    assert cluster.boot_id(SICK) != boot_id
    assert cluster.node(SICK)["BootTime"] > booted


def expect_return(cluster: WatchedCluster, waiting: Job) -> None:
    """The job that waits for the node runs on it, and the drain and its reason are gone."""
    waiting.begun()
    assert cluster.node(SICK)["State"] == "MIXED"
    waiting.end()
    cluster.eventually(lambda: cluster.node(SICK)["State"] == "IDLE")
    assert "Reason" not in cluster.node(SICK)


def drains(cluster: WatchedCluster, node: str) -> list[str]:
    """Reasons for which accounting had a node out of service, in order, each once. All of that has an end."""
    options = ("--noheader", "--parsable2", "list", "event", f"nodes={node}", "format=Start,End,Reason")
    rows = sorted(line.split("|", 2) for line in cluster.ask("sacctmgr", *options).splitlines())
    assert "Unknown" not in [end for _, end, _ in rows]
    return list(dict.fromkeys(reason for *_, reason in rows))


def test_a_job_that_waits_for_an_idle_node_runs_on_it_right_after_its_reset(cluster: WatchedCluster) -> None:
    # The repair takes longer than a poll may last, so the watchdog itself hears of its end 20 s later.
    cluster.gpus_say(IDLE, seconds=0.3)
    cluster.kernel_says(IDLE, RESET)
    cluster.eventually(lambda: cluster.node(IDLE)["State"] == "IDLE+DRAIN")
    waiting = Job(cluster, IDLE, "idle")
    waiting.begun()
    waiting.end()
    cluster.eventually(lambda: cluster.node(IDLE)["State"] == "IDLE")
    assert [reason.split(": ")[:2] for reason in drains(cluster, IDLE)] == [["gpunode", "reset"]]
