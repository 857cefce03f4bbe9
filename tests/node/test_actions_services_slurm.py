"""From a message of the real kernel log to a real Slurm controller: the node is drained, and its job ends by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from services.account import Account
from services.kernel import unused_instance_id
from services.slurm import Slurm
from services.watched import WatchedNode, WatchedNodes, expect_evidence


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[Slurm]:
    (tmp_path / "slurm").mkdir()
    with Slurm(tmp_path / "slurm", "gpu-1", "gpu-2") as slurm:
        yield slurm


def begin(nodes: WatchedNodes, slurm: Slurm, name: str, **settings: str) -> WatchedNode:
    """Watch a node that finds Slurm by its settings alone: neither PATH nor SLURM_CONF say where it is."""
    given = {
        "GPU_ORCHESTRATOR": "slurm",
        "GPU_NODE_NAME": name,
        "GPU_SLURM_BIN": f"{slurm.programs}",
        "GPU_SLURM_CONF": f"{slurm.configuration}",
    }
    return nodes.begin(unused_instance_id(), {**given, **settings})


@pytest.mark.alone
def test_xid_drains_the_node_with_its_evidence_and_its_job_runs_on_to_its_end(
    account: Account, slurm: Slurm, watched_nodes: WatchedNodes
) -> None:
    job = slurm.run_job("gpu-1")
    node = begin(watched_nodes, slurm, "gpu-1")
    failed = node.fail()
    node.within_deadline(failed, lambda: slurm.node("gpu-1").state == "MIXED+DRAIN")
    reason = slurm.node("gpu-1").reason
    assert reason.startswith("gpunode: replace: Xid 79 (")
    assert node.gpu in reason
    assert slurm.node("gpu-2") == ("IDLE", "")
    expect_evidence(account, node)

    assert slurm.job_state(job.id) == "RUNNING"
    job.end.touch()
    slurm.eventually(lambda: slurm.job_state(job.id) == "COMPLETED")
    assert job.output.read_text() == "done\n"
    assert slurm.node("gpu-1") == ("IDLE+DRAIN", reason)


@pytest.mark.alone
def test_node_is_drained_once_and_for_a_new_fault_again_after_an_operator_resumed_it(
    account: Account, slurm: Slurm, watched_nodes: WatchedNodes
) -> None:
    node = begin(watched_nodes, slurm, "gpu-1")
    node.fail()
    node.acted()
    node.fail(48)
    node.eventually(lambda: node.outcomes() == ["ok", "skipped"])
    node.kill()
    slurm.update("gpu-1", "State=RESUME")
    slurm.eventually(lambda: slurm.node("gpu-1").state == "IDLE")
    node.start()
    # A fault that it only tells about, so that it is known to have looked.
    node.fail(31)
    node.sees("Xid 31")
    assert slurm.node("gpu-1").state == "IDLE", "the old faults are done with, also for a process that starts anew"
    assert slurm.drains("gpu-1") == 1
    assert len(account.bundles(node.instance_id)) == 1

    failed = node.fail()
    node.within_deadline(failed, lambda: slurm.node("gpu-1").state == "IDLE+DRAIN")
    node.eventually(lambda: node.outcomes() == ["ok", "skipped", "ok"])
    assert slurm.drains("gpu-1") == 2


def test_drain_of_an_operator_is_left_alone(account: Account, slurm: Slurm, watched_nodes: WatchedNodes) -> None:
    job = slurm.run_job("gpu-1")
    slurm.update("gpu-1", "State=DRAIN", "Reason=disk swap, ask Kim")
    drained = slurm.node("gpu-1")
    node = begin(watched_nodes, slurm, "gpu-1")
    node.fail()
    [(outcome, reason)] = node.acted()
    assert outcome == "skipped"
    assert "gpu-1 draining: disk swap, ask Kim" in reason
    assert slurm.node("gpu-1") == drained
    assert slurm.drains("gpu-1") == 1
    assert slurm.job_state(job.id) == "RUNNING"
    assert account.bundles(node.instance_id) == []


def test_second_node_of_a_partition_is_held_back_by_the_limit(slurm: Slurm, watched_nodes: WatchedNodes) -> None:
    first = begin(watched_nodes, slurm, "gpu-1")
    first.fail()
    first.acted()
    second = begin(watched_nodes, slurm, "gpu-2", GPU_WATCH_ACTIONS_PER_HOUR="1")
    second.fail()
    [(outcome, reason)] = second.acted()
    assert outcome == "held"
    assert "the fleet may lose 1 nodes an hour, gone are: gpu-1" in reason
    assert slurm.node("gpu-2") == ("IDLE", "")
