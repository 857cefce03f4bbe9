"""A node is reset and rebooted by its watchdog while a real controller has jobs for it, and the job beside it runs on."""

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
    with watched_cluster(box, {SICK: 1, HEALTHY: 1, IDLE: 20}, {"GPU_REPAIR_WAIT_SECONDS": f"{_GRACE_SECONDS}"}) as cluster:
        yield cluster


class Job:
    """A job for one node."""

    def __init__(self, cluster: WatchedCluster, node: str, name: str) -> None:
        self._cluster, self._end, self._output = cluster, f"{SHARED}/end-{name}", f"{SHARED}/output-{name}"
        script = _SCRIPT.format(end=self._end, step_seconds=_STEP_SECONDS)
        # Slurm and bash write about the SIGTERM there, too.
        output = (f"--output={self._output}", "--open-mode=append", "--error=/dev/null")
        options = (f"--nodelist={node}", f"--job-name={name}", *output)
        self.id = cluster.submit(script, *options)

    @property
    def state(self) -> str:
        return self._cluster.job(self.id)["JobState"]

    def begun(self) -> None:
        self._cluster.eventually(lambda: self.state == "RUNNING" and len(self.lines()) > 1)

    def end(self) -> None:
        """Let it come to its own end."""
        self._cluster.box.write(self._end, "")
        self._cluster.eventually(lambda: self.state == "COMPLETED")

    def lines(self) -> list[str]:
        output = self._cluster.box.path(self._output)
        return output.read_text().splitlines() if output.exists() else []

    def goes_on(self, seconds: float = 0) -> None:
        """It runs on, for so long at least."""
        wanted = len(self.lines()) + 1 + round(seconds / _STEP_SECONDS)
        self._cluster.eventually(lambda: len(self.lines()) > wanted)
        assert self.state == "RUNNING"

    def expect_one_run(self, *last: str) -> None:
        """It was started once, counted without a gap, and said this at the end; accounting knows of no other attempt."""
        steps = self.lines()[1 : -len(last)]
        assert self.lines() == ["start", *(str(step) for step in range(len(steps))), *last]
        assert self._cluster.job(self.id)["Restarts"] == "0"
        options = ("--duplicates", "--allocations", "--parsable2", "--noheader", "--format=State,ExitCode")
        assert self._cluster.ask("sacct", f"--jobs={self.id}", *options).splitlines() == ["COMPLETED|0:0"]


def test_the_controller_sees_drain_reset_reboot_and_return_while_a_job_beside_runs_on(cluster: WatchedCluster) -> None:
    beside = Job(cluster, HEALTHY, "beside")
    beside.begun()
    started = cluster.job(beside.id)["StartTime"]

    own = Job(cluster, SICK, "before-reset")
    own.begun()
    cluster.gpus_say(SICK, **{"remapped_rows.pending": "1"})
    cluster.eventually(lambda: cluster.node(SICK)["State"] == "MIXED+DRAIN")
    assert cluster.node(SICK)["Reason"].startswith("gpunode: reset: GPU at 00000000:1A:00.0: a row waits to be remapped")
    own.goes_on()
    beside.goes_on()
    waiting = Job(cluster, SICK, "after-reset")
    own.end()
    cluster.eventually(lambda: cluster.node(SICK)["State"] == "IDLE+DRAIN")
    assert waiting.state == "PENDING"
    cluster.look_again(SICK)
    waiting.begun()
    assert cluster.node(SICK)["State"] == "MIXED"
    waiting.end()
    own.expect_one_run("done")
    waiting.expect_one_run("done")
    assert cluster.steps(SICK) == [f"reset {step}" for step in "begin hold wait reset check release ok".split()]

    own = Job(cluster, SICK, "before-reboot")
    own.begun()
    boot = cluster.boot_id(SICK), cluster.node(SICK)["BootTime"]
    cluster.kernel_says(SICK, REBOOT)
    cluster.eventually(lambda: cluster.node(SICK)["State"] == "MIXED+DRAIN")
    assert cluster.node(SICK)["Reason"].startswith("gpunode: reboot: Xid 154")
    waiting = Job(cluster, SICK, "after-reboot")
    own.goes_on(_GRACE_SECONDS + 1)
    cluster.look_again(SICK)
    cluster.eventually(lambda: cluster.wants_reboot(SICK))
    cluster.eventually(lambda: own.state == "COMPLETED")
    own.expect_one_run("saved")
    assert not cluster.wants_reboot(HEALTHY)
    cluster.hold_slurmd(SICK)
    cluster.cut_power(SICK)
    cluster.eventually(lambda: "NOT_RESPONDING" in cluster.node(SICK)["State"])
    beside.goes_on()

    cluster.power_on(SICK)
    cluster.eventually(lambda: any(one["stage"] == "action" and "registered" in one["reason"] for one in cluster.said(SICK)))
    assert "DRAIN" in cluster.node(SICK)["State"]
    cluster.let_slurmd_start(SICK)
    waiting.begun()
    assert cluster.node(SICK)["State"] == "MIXED"
    assert cluster.boot_id(SICK) != boot[0]
    assert cluster.node(SICK)["BootTime"] > boot[1]
    waiting.end()
    waiting.expect_one_run("done")

    assert cluster.job(beside.id)["StartTime"] == started, cluster.logs()
    beside.goes_on()
    beside.end()
    beside.expect_one_run("done")
    print(cluster.ask("sacctmgr", "--noheader", "--parsable2", "list", "event", "format=NodeName,State,Reason,Start,End"))
    print(cluster.ask("scontrol", "show", "node", SICK))


def test_a_job_that_waits_for_an_idle_node_starts_on_it_right_after_its_reset(cluster: WatchedCluster) -> None:
    # The watchdog's own word is taken 20 s after what it did, if that takes longer than a poll may last.
    cluster.gpus_say(IDLE, seconds=0.3)
    cluster.kernel_says(IDLE, RESET)
    cluster.eventually(lambda: cluster.node(IDLE)["State"] == "IDLE+DRAIN")
    waiting = Job(cluster, IDLE, "idle")
    waiting.begun()
    waiting.end()
    waiting.expect_one_run("done")
    cluster.eventually(lambda: cluster.node(IDLE)["State"] == "IDLE")
