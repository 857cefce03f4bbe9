"""A node in service that does not get through a reboot is taken out, as for any other fault."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cdk_gpu_clusters.node.gpunode.watch import service
from cdk_gpu_clusters.node.gpunode.watch.kernel import XidTable
from cdk_gpu_clusters.node.gpunode.watch.mode import Mode
from cdk_gpu_clusters.node.gpunode.watch.service import watch
from watched_node import INSTANCE, WatchedNode

ON_DISK, IN_MEMORY = "var/lib/gpu-cluster/boot.json", "run/gpu-cluster/boot.json"
REASON = "driver: 7 of 8 GPUs answer"
SEEN = f"it did not pass its reboot: {REASON}"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WatchedNode:
    monkeypatch.setattr(service, "read_xids", lambda: XidTable({}))
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("PATH", str(tmp_path / "tools"))
    return WatchedNode(tmp_path)


def booted(node: WatchedNode, state: str, *, file: str = ON_DISK, boot: str = "boot-1", first: bool = False) -> None:
    result = {"state": state, "reason": REASON, "boot_id": boot, "first_boot": first}
    node.write(file, json.dumps(result))


@pytest.mark.parametrize("file", [ON_DISK, IN_MEMORY])
def test_node_that_fails_a_reboot_is_marked_once_with_evidence(node: WatchedNode, file: str) -> None:
    booted(node, "failed", file=file)
    node.begin({})
    node.poll(20)
    assert node.actions == 1
    assert node.account.members[INSTANCE] == ["InService", "Unhealthy"]
    [(where, _)] = node.account.bundles
    assert node.told.of("action") == [("ok", f"{SEEN}; evidence: {where}")]


@pytest.mark.parametrize(
    ("state", "boot", "first"),
    [
        ("ready", "boot-1", False),
        ("starting", "boot-1", False),
        ("failed", "boot-0", False),
        ("failed", "boot-1", True),
    ],
    ids=["good", "begun", "earlier", "of the launch"],
)
def test_other_results_take_no_node_out(node: WatchedNode, state: str, boot: str, first: bool) -> None:
    booted(node, state, boot=boot, first=first)
    node.begin({})
    node.poll(20)
    assert (node.actions, node.told.all) == (0, [])


def test_disk_that_kept_an_earlier_result_is_not_believed(node: WatchedNode) -> None:
    booted(node, "failed")
    booted(node, "ready", file=IN_MEMORY)
    node.begin({})
    node.poll(20)
    assert node.actions == 0


@pytest.mark.parametrize("text", ["", "garbage", "[]", '{"boot_id": "boot-1"}'])
def test_garbage_takes_no_node_out(node: WatchedNode, text: str) -> None:
    node.write(ON_DISK, text)
    node.write(IN_MEMORY, text)
    node.begin({})
    node.poll(20)
    assert node.actions == 0


def test_node_that_is_still_pending_in_its_hook_is_not_marked(node: WatchedNode) -> None:
    node.account.members[INSTANCE][0] = "Pending:Wait"
    booted(node, "failed")
    node.begin({})
    node.poll(20)
    assert node.actions == 0


def test_watchdog_that_is_started_again_does_not_mark_it_again(node: WatchedNode) -> None:
    booted(node, "failed")
    for _ in range(3):
        node.begin({})
        node.poll(5)
        node.account.members[INSTANCE][1] = "Healthy"
    assert node.actions == 1


def test_fleet_that_lost_as_many_as_it_may_keeps_it_until_there_is_room(node: WatchedNode) -> None:
    for name in ("i-0bbb", "i-0ccc"):
        node.account.members[name] = ["InService", "Unhealthy"]
    booted(node, "failed")
    node.begin({})
    node.poll(20)
    assert node.actions == 0
    [(state, words)] = node.told.of("action")
    assert (state, "the fleet may lose 2 nodes an hour" in words) == ("held", True)
    del node.account.members["i-0bbb"]
    node.poll(7)
    assert node.actions == 1


def test_boot_check_that_somebody_repeats_with_success_ends_it(node: WatchedNode) -> None:
    for name in ("i-0bbb", "i-0ccc"):
        node.account.members[name] = ["InService", "Unhealthy"]
    booted(node, "failed")
    node.begin({})
    node.poll(2)
    booted(node, "ready")
    node.account.members.pop("i-0bbb")
    node.poll(20)
    assert node.actions == 0
    assert node.told.symptoms("gone") == ["boot"]


def test_dry_run_only_says_it(node: WatchedNode) -> None:
    booted(node, "failed")
    node.begin({}, watch="dry-run")
    node.poll(20)
    assert node.actions == 0
    assert node.told.of("action") == [("dry-run", f"would take this node out of service: {SEEN}")]


def test_watchdog_of_a_launch_that_was_given_up_says_so_and_ends(node: WatchedNode) -> None:
    booted(node, "failed", first=True)
    assert watch(node.node(), node.told, {}, Mode.ON) == 0
    assert node.told.of("watch") == [("skipped", "the boot of the launch failed, and the launch was abandoned")]


def test_slurm_node_is_drained(node: WatchedNode) -> None:
    said = node.root / "scontrol"
    state = node.write("sinfo", "gpu-1|gpu-1|10.0.0.1|train*|idle|Unknown|none\n")
    node.tool("sinfo", f'#!/bin/sh\nread -r line <{state}\necho "$line"\n')
    drained = "gpu-1|gpu-1|10.0.0.1|train*|drained|Unknown|gpunode: x"
    node.tool("scontrol", f'#!/bin/sh\necho "$*" >>{said}\necho "{drained}" >{state}\n')
    booted(node, "failed")
    node.begin({}, orchestrator="pcs", node_name="gpu-1")
    node.poll(20)
    assert said.read_text().splitlines() == [f"update NodeName=gpu-1 State=DRAIN Reason=gpunode: replace: {SEEN}"]
