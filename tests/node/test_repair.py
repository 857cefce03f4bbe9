"""A booted node of plain EC2 on the rungs of the repair ladder, with a job beside the fault."""

from __future__ import annotations

from cdk_gpu_clusters import NodeWatch
from nodebox.lab import Lab, fleet
from nodebox.node import Node

UNIT = "gpu-node-watch"
JOB = "training.service"


def steps(node: Node) -> list[str]:
    return [state for stage, state, _ in node.events(UNIT) if stage == "repair"]


def actions(node: Node) -> list[str]:
    return [state for stage, state, _ in node.events(UNIT) if stage == "action"]


def test_a_node_is_reset_once_its_job_has_ended_then_rebooted_and_keeps_its_place(lab: Lab) -> None:
    watch = NodeWatch(interval_seconds=1, job_units=(JOB,))
    with lab.node(fleet("g6.12xlarge", efa=False, watch=watch), gpu="L4", gpu_count=4) as node:
        node.power_on()
        node.ready()
        node.in_service()
        node.run(f"systemd-run --unit={JOB} sleep infinity")
        job = node.unit(JOB, "MainPID")

        node.gpus.state["health"] = [{}, {}, {"recovery": "Reset"}, {}]
        node.eventually(lambda: "waiting" in actions(node))
        assert node.unit(JOB, "MainPID") == job, "a job is never ended for a reset"
        assert not any("--gpu-reset" in call for call in node.gpus.state["log"])
        # The watchdog is killed while it waits, and goes on.
        node.run(f"systemctl kill --signal=KILL {UNIT}; systemctl stop {JOB}")
        node.eventually(lambda: "repaired" in actions(node))
        assert steps(node)[:3] == ["begin", "hold", "wait"]
        assert steps(node)[-4:] == ["reset", "check", "release", "ok"]
        assert node.boots == 1

        node.gpus.state["health"] = [{}, {"recovery": "Reboot"}, {}, {}]
        node.eventually(lambda: node.boots == 2)
        node.ready()
        node.eventually(lambda: actions(node).count("repaired") == 2)
        assert steps(node)[-3:] == ["check", "release", "ok"]
        assert node.fleet.states() == {node.instance_id: "InService"}
        assert node.fleet.health() == {node.instance_id: "Healthy"}
