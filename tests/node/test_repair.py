"""Booted nodes of each orchestrator on the rungs of the repair ladder, with a job beside the fault."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode.repair.history import Step
from nodebox.lab import Lab
from nodebox.repaired import (
    GRACE_SECONDS,
    REBOOT,
    REPLACE,
    RESET,
    OnEc2,
    OnEks,
    OnSlurm,
    PowerCut,
    fail,
    forget,
    look_again,
    outcomes,
    repairs,
    resets,
    step_now,
    steps,
    wait_for_step,
)


@pytest.mark.parametrize("workplace", [OnEc2, OnSlurm, OnEks])
def test_a_node_is_reset_then_rebooted_then_replaced_and_its_jobs_have_their_time(
    lab: Lab, tmp_path: Path, workplace: Any
) -> None:
    with workplace.booted(lab, tmp_path) as at:
        node, holds = at.node, workplace is not OnEc2
        assert at.held_for() == ""

        at.begin_job()
        fail(node, RESET)
        node.eventually(lambda: outcomes(node)[-1:] == ["waiting"])
        assert at.held_for() == ("reset" if holds else "")
        assert at.runs(), "a job is never ended for a reset"
        assert resets(node) == 0
        at.end_job()
        look_again(node)
        node.eventually(lambda: outcomes(node)[-1:] == ["repaired"])
        assert steps(node) == ["begin", "hold", "wait", "reset", "check", "release", "ok"]
        assert (resets(node), node.boots, at.held_for()) == (1, 1, "")

        at.begin_job()
        fail(node, REBOOT)
        node.eventually(lambda: outcomes(node)[-1:] == ["waiting"])
        assert at.held_for() == ("reboot" if holds else "")
        assert at.runs(), "a job has its grace before a reboot"
        time.sleep(GRACE_SECONDS)
        look_again(node)
        node.eventually(lambda: node.boots == 2)
        at.rebooted()
        node.ready()
        node.eventually(lambda: outcomes(node)[-1:] == ["repaired"])
        assert steps(node)[7:] == ["begin", "hold", "wait", "end-work", "reboot", "check", "release", "ok"]
        assert not at.runs()
        assert (resets(node), at.held_for()) == (1, "")

        at.begin_job()
        fail(node, REPLACE)
        node.eventually(lambda: outcomes(node)[-1:] == ["ok"])
        assert steps(node)[15:] == ["begin", "take-out", "ok"]
        assert at.held_for() == "replace"
        assert at.runs(), "its orchestrator ends the job, or lets it end"
        assert node.boots == 2
        assert repairs(node) == [("reset", "ok"), ("reboot", "ok"), ("replace", "ok")]


# Step, what requires the repair, the call in which the power is cut (none: as soon as the step is on the disk), and the
# repairs that are on the disk at the end. What ends a job has one to end.
CUTS = [
    ("begin", RESET, "sinfo", []),
    ("hold", RESET, "State=DRAIN", [("reset", "ok")]),
    ("wait", RESET, "sinfo", [("reset", "ok")]),
    ("reset", RESET, "--gpu-reset", [("reset", "ok")]),
    ("check", RESET, "nvidia-smi", [("reset", "ok")]),
    ("release", RESET, "State=RESUME", [("reset", "ok")]),
    ("end-work", REBOOT, "scancel", [("reboot", "ok")]),
    ("reboot", REBOOT, "", [("reboot", "ok")]),
    ("take-out", REPLACE, "State=DRAIN", [("replace", "ok")]),
]


def test_a_repair_ends_right_whose_node_loses_its_power_in_any_of_its_steps(lab: Lab, tmp_path: Path) -> None:
    """One node for all of them, since boots take most of the time."""
    assert {Step(step) for step, *_ in CUTS} == set(Step)
    with OnSlurm.booted(lab, tmp_path, repair_wait_seconds=0) as at:
        node, cut = at.node, PowerCut(at.node, at.programs)
        beside = at.slurm.run_job(at.OTHER)
        for step, xid, words, expected in CUTS:
            if step == "end-work":
                at.begin_job()
            boots = node.boots
            if words:
                cut.expect(step, words)
            fail(node, xid)
            if not words:
                wait_for_step(node, step)
                node.power_off()
            node.eventually(lambda: not node.is_on)
            assert step_now(node) == step
            node.power_on()
            node.ready()
            at.rebooted()
            node.eventually(lambda: not step_now(node))
            assert repairs(node) == expected, step
            assert at.held_for() == ("replace" if step == "take-out" else ""), step
            assert resets(node) == (step in ("reset", "check", "release")), step
            assert node.boots == boots + 1, step
            assert at.slurm.job_state(beside.id) == "RUNNING", step
            forget(node)
