"""The signals by which HyperPod replaces and reboots a node, on Slurm and on Amazon EKS."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode.actions.hyperpod import HEALTH_LABEL, HyperPodKubernetes, HyperPodSlurm
from cdk_gpu_clusters.node.gpunode.actions.orchestrator import ActionError
from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from cdk_gpu_clusters.node.gpunode.events import Events
from cdk_gpu_clusters.node.gpunode.repair.steps import Steps
from cdk_gpu_clusters.node.gpunode.watch.service import orchestrator_of
from fakes import kubectl
from watched_node import INSTANCE, WatchedNode

MINE, OTHER = f"hyperpod-{INSTANCE}", "hyperpod-i-0aaa"


class SlurmSite:
    """What sinfo prints, and what scontrol was told."""

    def __init__(self, folder: Path) -> None:
        self.watched = WatchedNode(folder)
        self.said = folder / "scontrol"
        self.watched.tool("scontrol", f'#!/bin/sh\nprintf "%s\\n" "$*" >>{self.said}\n')
        self.rows("ip-10-1-0-1|mixed|none", "ip-10-1-0-2|idle|none", "ip-10-1-0-3|idle|none")

    def rows(self, *rows: str) -> None:
        since = time.strftime("%Y-%m-%dT%H:%M:%S")
        lines = []
        for row in rows:
            name, state, reason = row.split("|")
            lines.append(f"{name}|{name}|{name}|train*|{state}|{since}|{reason}")
        self.watched.write("sinfo", "\n".join([*lines, ""]))
        script = f'#!/bin/sh\nwhile IFS= read -r line; do echo "$line"; done <{self.watched.root}/sinfo\n'
        self.watched.tool("sinfo", script)

    @property
    def node(self) -> Any:
        return self.watched.node(node_name="ip-10-1-0-1", orchestrator="hyperpod-slurm")

    @property
    def slurm(self) -> HyperPodSlurm:
        found = orchestrator_of(self.node)
        assert isinstance(found, HyperPodSlurm)
        return found

    def told(self) -> list[str]:
        return self.said.read_text().splitlines() if self.said.exists() else []


@pytest.fixture
def slurm_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlurmSite:
    site = SlurmSite(tmp_path)
    monkeypatch.setenv("PATH", f"{site.watched.tools}:/usr/bin:/bin")
    return site


def test_a_broken_node_of_slurm_asks_for_another(slurm_site: SlurmSite) -> None:
    slurm = slurm_site.slurm
    assert slurm.why_out() == ""
    slurm.take_out(Severity.REPLACE, "Xid 79")
    assert slurm_site.told() == ["update NodeName=ip-10-1-0-1 State=FAIL Reason=Action:Replace"]


def test_a_hold_is_a_drain_and_a_reboot_the_signal_of_the_service(slurm_site: SlurmSite) -> None:
    slurm = slurm_site.slurm
    slurm.hold(Severity.REBOOT, "Xid 95")
    Steps(slurm_site.node, Events(slurm_site.node), slurm).reboot()
    assert slurm_site.told() == [
        "update NodeName=ip-10-1-0-1 State=DRAIN Reason=gpunode: reboot: Xid 95",
        "update NodeName=ip-10-1-0-1 State=FAIL Reason=Action:Reboot",
    ]


def test_nodes_that_the_service_takes_out_count_too(slurm_site: SlurmSite) -> None:
    slurm_site.rows(
        "ip-10-1-0-1|mixed|none",
        "ip-10-1-0-2|fail|Action:Replace",
        "ip-10-1-0-3|fail|Action:Reboot",
        "ip-10-1-0-4|drained|gpunode: replace: Xid 79",
    )
    slurm = slurm_site.slurm
    assert slurm.taken_out(Severity.REPLACE) == {"ip-10-1-0-2", "ip-10-1-0-4"}
    assert slurm.taken_out(Severity.REBOOT) == {"ip-10-1-0-2", "ip-10-1-0-3", "ip-10-1-0-4"}


def test_a_node_that_the_service_has_taken_over_is_left_alone(slurm_site: SlurmSite) -> None:
    slurm_site.rows("ip-10-1-0-1|fail|Action:Replace")
    slurm = slurm_site.slurm
    assert "Action:Replace" in slurm.why_out()
    assert not slurm.holds()
    slurm.release()
    assert slurm_site.told() == []


class KubernetesSite:
    """A cluster of two nodes behind kubectl, and the watched one of them."""

    def __init__(self, folder: Path) -> None:
        self.watched = WatchedNode(folder)
        self.state = folder / "cluster.json"
        nodes = [
            {
                "metadata": {"name": name, "labels": {HEALTH_LABEL: "Schedulable"}},
                "spec": {"providerID": f"aws:///usw2-az2/sagemaker/cluster/hyperpod-abc-{name[9:]}"},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            }
            for name in (MINE, OTHER)
        ]
        kubectl.install(self.watched.tools, self.state, nodes)

    @property
    def nodes(self) -> dict[str, dict[str, Any]]:
        return {node["metadata"]["name"]: node for node in json.loads(self.state.read_text())["nodes"]}

    def label(self, name: str, value: str) -> None:
        state = json.loads(self.state.read_text())
        for node in state["nodes"]:
            if node["metadata"]["name"] == name:
                node["metadata"]["labels"][HEALTH_LABEL] = value
        self.state.write_text(json.dumps(state))

    @property
    def kubernetes(self) -> HyperPodKubernetes:
        found = orchestrator_of(self.watched.node(orchestrator="hyperpod-eks"))
        assert isinstance(found, HyperPodKubernetes)
        return found


@pytest.fixture
def kubernetes_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KubernetesSite:
    site = KubernetesSite(tmp_path)
    monkeypatch.setenv("PATH", str(site.watched.tools))
    return site


def test_a_broken_node_of_eks_gets_the_label_last(kubernetes_site: KubernetesSite) -> None:
    kubernetes = kubernetes_site.kubernetes
    assert kubernetes.why_out() == ""
    kubernetes.take_out(Severity.REPLACE, "Xid 79")
    mine = kubernetes_site.nodes[MINE]
    assert mine["metadata"]["labels"][HEALTH_LABEL] == "UnschedulablePendingReplacement"
    assert mine["spec"]["unschedulable"]
    assert mine["status"]["conditions"][-1]["message"] == "Xid 79"
    assert kubernetes_site.nodes[OTHER]["metadata"]["labels"][HEALTH_LABEL] == "Schedulable"
    asked = json.loads(kubernetes_site.state.read_text())["asked"]
    assert asked[-1].startswith("label node")


def test_a_hold_sets_no_label_and_a_reboot_does(kubernetes_site: KubernetesSite) -> None:
    kubernetes = kubernetes_site.kubernetes
    kubernetes.hold(Severity.REBOOT, "Xid 95")
    assert kubernetes_site.nodes[MINE]["metadata"]["labels"][HEALTH_LABEL] == "Schedulable"
    assert kubernetes.reboot()
    assert kubernetes_site.nodes[MINE]["metadata"]["labels"][HEALTH_LABEL] == "UnschedulablePendingReboot"


def test_a_node_that_hyperpod_checks_is_left_alone(kubernetes_site: KubernetesSite) -> None:
    kubernetes_site.label(MINE, "Unschedulable")
    assert kubernetes_site.kubernetes.why_out() == "HyperPod has this node Unschedulable"


def test_a_node_without_its_name_is_not_found(kubernetes_site: KubernetesSite) -> None:
    state = kubernetes_site.state.read_text().replace(MINE, "hyperpod-i-0bbb")
    kubernetes_site.state.write_text(state)
    with pytest.raises(ActionError, match=f"none of 2 nodes is {INSTANCE}"):
        kubernetes_site.kubernetes.why_out()
