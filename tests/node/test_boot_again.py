"""Nodes in service that do not get through a reboot. docs/reliability.md lists what is done."""

from __future__ import annotations

import time
from typing import Any

from aws_cdk import aws_s3 as s3

from cdk_gpu_clusters import MigLayout, NodeWatch
from nodebox.cloud import Build
from nodebox.lab import Lab, fleet
from nodebox.node import Node
from stack_fixtures import Site

WATCH = "gpu-node-watch"


def watched(instance_type: str, **options: Any) -> Build:
    """A fleet that keeps evidence, and whose nodes are looked at every second."""

    def build(site: Site) -> object:
        bucket = s3.Bucket(site.stack, "Evidence")
        watch = NodeWatch(interval_seconds=1)
        return fleet(instance_type, evidence_bucket=bucket, watch=watch, **options)(site)

    return build


def actions(node: Node) -> list[tuple[str, str]]:
    return [(state, reason) for stage, state, reason in node.events(WATCH) if stage == "action"]


def is_taken_out_once(node: Node, reason: str) -> None:
    """It is, with evidence before, and not again in the polls that follow."""
    node.eventually(lambda: node.fleet.health() == {node.instance_id: "Unhealthy"})
    node.eventually(lambda: actions(node))
    time.sleep(8)
    [words] = [words for state, words in actions(node) if state == "ok"]
    # The looks at the GPUs see it, too, and find the node marked.
    assert {state for state, _ in actions(node)} <= {"ok", "skipped"}
    assert words.startswith(f"it did not pass its reboot: {reason}; evidence: s3://")
    assert words.rpartition("/")[2] in " ".join(node.fleet.evidence())
    assert node.unit(WATCH, "NRestarts") == "0"


def test_a_node_that_lost_a_gpu_over_a_reboot_is_replaced(lab: Lab) -> None:
    with lab.node(watched("g6.12xlarge", efa=False), gpu="L4", gpu_count=4) as node:
        node.power_on()
        node.ready()
        node.in_service()
        node.fleet.keep_unhealthy()
        # Less patience than half an hour, in which a driver may be late.
        node.run("sed -i s/^GPU_BOOT_DEADLINE=.*/GPU_BOOT_DEADLINE=20/ /etc/gpu-cluster/node.env")
        node.gpus.state["gpus"].pop()
        node.reboot()
        assert node.failure() == "driver: 3 of 4 GPUs answer"
        is_taken_out_once(node, "driver: 3 of 4 GPUs answer")
        assert node.fleet.states() == {node.instance_id: "InService"}, "it was marked, and its hook left alone"


def test_a_node_whose_gpus_are_not_split_after_a_reboot_is_replaced(lab: Lab) -> None:
    halves = MigLayout(["3g.40gb", "3g.40gb"])
    with lab.node(watched("p5.4xlarge", efa=False, mig=halves), gpu="H100-80GB", gpu_count=1) as node:
        node.power_on()
        node.ready()
        node.in_service()
        node.fleet.keep_unhealthy()
        node.gpus.state["refuses"] = [0]
        node.reboot()
        reason = node.failure()
        assert reason.startswith("mig: GPU 0: 3g.40gb,3g.40gb is wanted")
        is_taken_out_once(node, reason)


def test_a_node_that_fails_the_boot_of_its_launch_gives_the_launch_up_and_marks_nothing(lab: Lab) -> None:
    with lab.node(watched("g6.12xlarge"), gpu="L4", gpu_count=3) as node:
        node.power_on(uptime_seconds=1490)
        assert node.failure() == "driver: 3 of 4 GPUs answer"
        node.abandoned()
        said = node.eventually(lambda: [one for one in node.events(WATCH) if one[0] == "watch"])
        assert said == [("watch", "skipped", "the boot of the launch failed, and the launch was abandoned")]
        node.eventually(lambda: node.unit(WATCH, "ActiveState") == "inactive")
        assert actions(node) == []
