"""Nodes of Amazon EKS join their cluster when they are ready, and never otherwise.

They boot what EKS hands over: its own part of the user data merged with the launch template's. nodeadm, kubelet and
`setup-local-disks` are models of the real ones; the cluster is an API that knows nodes only.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters import MigLayout, NodeConfig, Orchestrator, UserDataPart
from nodebox.disks import local_disks
from nodebox.eks import NAME, eks_cluster, eks_node, joined, managed, order, stays_out, told
from nodebox.groups import group, seen_by
from nodebox.lab import Lab
from nodebox.node import Node
from services.kubernetes import Kubernetes

HALVES = MigLayout(["3g.40gb", "3g.40gb"])
H100: dict[str, Any] = {"gpu": "H100-80GB", "gpu_count": 1}
A100: dict[str, Any] = {"gpu": "A100-40GB", "gpu_count": 8}
L4: dict[str, Any] = {"gpu": "L4", "gpu_count": 1}
KUBECTL = "/usr/local/bin/kubectl"
TAINT = "nvidia.com/gpu=true:NoSchedule"


class Lustre:
    """A file system that is there already."""

    dns_name, mount_name = "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com", "abcdbev"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Kubernetes]:
    with Kubernetes(tmp_path) as cluster:
        yield cluster


def last_sighting(node: Node, daemon: str, boot: int) -> str:
    """How many slices a daemon found at its last start in a boot."""
    found = [entry.text for entry in node.journal(daemon, boot=boot) if " sees " in entry.text]
    return found[-1].removeprefix(f"{daemon} sees ").split(",")[0]


def test_node_joins_with_its_slices_disks_and_file_system_and_again_after_a_reboot(
    lab: Lab, cluster: Kubernetes
) -> None:
    build = managed("p5.4xlarge", efa=False, mig=HALVES, mounts={"/fsx": Lustre()})
    last = ["gpu-node-boot", "containerd", "kubelet"]
    with (
        local_disks(lab.directory()) as binds,
        eks_node(lab, cluster, build, binds=binds, **H100) as node,
    ):
        node.power_on()
        node.ready()
        found = joined(node, cluster)
        labels = found["metadata"]["labels"]
        assert (labels["gpu-cluster/fleet"], labels["gpu-cluster/gpu"]) == ("Gpus", "H100")
        assert labels["gpu-cluster/mig-strategy"] == "mixed"
        assert labels["eks.amazonaws.com/nodegroup"] == node.fleet.node_group()["nodegroupName"]
        assert cluster.taints(NAME) == [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}]
        assert found["spec"]["providerID"].endswith(f"/{node.instance_id}")
        assert found["status"]["capacity"]["pods"] == "110"
        assert told(node)["spec"]["instance"] == {"localStorage": {"strategy": "RAID0"}}
        for first in ("gpu-mig", "gpu-lustre"):
            assert order(node, first, *last, boot=1) == [first, *last]
        node.run("echo kept >/var/lib/containerd/image")
        node.reboot()
        node.ready()
        node.eventually(lambda: len(seen_by(node, "kubelet")) == 2)
        for first in ("gpu-mig", "gpu-lustre"):
            assert order(node, first, *last, boot=2) == [first, *last]
        assert seen_by(node, "kubelet") == ["kubelet sees 2 MIG devices, mounts: /fsx /var/lib/kubelet"] * 2
        for boot in (1, 2):
            assert last_sighting(node, "set-nvidia-clocks", boot) == "2 MIG devices"
            assert last_sighting(node, "nvidia-cdi-refresh", boot) == "2 MIG devices"
        disks = [entry.text for entry in node.journal("nodeadm-run") if "format" in entry.text]
        assert disks == ["formatted an array of 1 disks"]
        assert node.run("cat /var/lib/containerd/image").stdout == "kept\n"
        assert node.run("systemctl is-enabled gpu-scratch", check=False).stdout == "disabled\n"
        node.eventually(lambda: node.unit("gpu-node-watch", "ActiveState") == "active")


def test_node_of_56_slices_whose_mode_is_pending_reboots_once_and_then_starts_kubelet(
    lab: Lab, cluster: Kubernetes
) -> None:
    """The p4d.24xlarge of Amazon's article on MIG with EKS: seven slices of 5 GB on each GPU, by their id."""
    build = managed("p4d.24xlarge", efa=False, mig=MigLayout("19,19,19,19,19,19,19"))
    with eks_node(lab, cluster, build, **A100) as node:
        node.gpus.state["mode_change"] = "reboot"
        node.power_on()
        joined(node, cluster)
        assert node.boots == 2
        assert node.gpus.layouts() == [["1g.5gb"] * 7] * 8
        assert [text.split(",")[0] for text in seen_by(node, "kubelet")] == ["kubelet sees 56 MIG devices"]
        assert node.journal("nodeadm-config", boot=1), "it comes before cloud-init, and its work is not lost"
        assert node.journal("nodeadm-run", boot=1) == []
        assert "MIG_PARTITION=" in node.read("/etc/default/mig")


def test_node_with_a_layout_for_each_gpu_joins_with_all_of_their_slices(lab: Lab, cluster: Kubernetes) -> None:
    quarters = MigLayout(["3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb"])
    build = managed("p4d.24xlarge", efa=False, mig=[*[quarters] * 4, *[MigLayout("9,9")] * 4])
    with eks_node(lab, cluster, build, **A100) as node:
        node.power_on()
        found = joined(node, cluster)
        assert node.gpus.layouts() == [["1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb"]] * 4 + [["3g.20gb"] * 2] * 4
        assert [text.split(",")[0] for text in seen_by(node, "kubelet")] == ["kubelet sees 24 MIG devices"]
        assert found["metadata"]["labels"]["gpu-cluster/mig-strategy"] == "mixed"


def test_node_stays_out_and_says_why_where_the_gpus_are_not_split(lab: Lab, cluster: Kubernetes) -> None:
    with eks_node(lab, cluster, managed("p5.4xlarge", efa=False, mig=HALVES), **H100) as node:
        node.gpus.state["refuses"] = [0]
        node.power_on()
        reason = node.failure()
        assert reason.startswith("mig: GPU 0: 3g.40gb,3g.40gb is wanted, nothing is there")
        stays_out(node, cluster)
        failures = [one["reason"] for one in node.fleet.logged(node.instance_id) if one["state"] == "failed"]
        assert reason in failures, "people read it in the log group of the nodes"
        assert "Dependency failed for nodeadm-run" in " ".join(entry.text for entry in node.journal("nodeadm-run"))


def test_node_with_efa_joins_with_all_of_its_devices_and_no_more_pods_than_addresses(
    lab: Lab, cluster: Kubernetes
) -> None:
    """EKS itself would say 100 pods: an EFA-only interface on card 0 has no addresses for half of them."""
    own = UserDataPart(
        content_type="text/cloud-config",
        body="#cloud-config\nwrite_files:\n- path: /etc/own\n  content: own\n",
    )
    build = managed("p5.48xlarge", user_data_parts=[own])
    with eks_node(lab, cluster, build, eks_first=False, efa_count=32) as node:
        node.power_on()
        node.ready()
        found = joined(node, cluster)
        assert found["status"]["capacity"]["pods"] == "51"
        assert found["metadata"]["labels"]["gpu-cluster/efa-count"] == "32"
        assert ("efa", "ok", "32 of 32 EFA devices") in node.events("gpu-node-boot")
        assert order(node, "gpu-node-boot", "kubelet") == ["gpu-node-boot", "kubelet"]
        assert node.read("/etc/own") == "own", "the user's own cloud-config is merged with ours, and replaces nothing"


def test_node_whose_capacity_block_ends_is_cordoned_and_its_pods_end(
    lab: Lab, cluster: Kubernetes, kubectl: Path
) -> None:
    """With nothing but its kubelet's identity: it keeps new pods away, and has those that run save their work."""
    with eks_node(lab, cluster, managed("g6.xlarge", scratch=False), binds={KUBECTL: kubectl}, **L4) as node:
        environment = node.metadata.user_data.replace(
            "GPU_ORCHESTRATOR=eks",
            "GPU_ORCHESTRATOR=eks\n    GPU_JOB_SECONDS=1\n    GPU_DRAIN_AT=2026-01-01T00:00:00Z",
        )
        node.metadata.user_data = environment
        node.power_on()
        node.ready()
        joined(node, cluster)
        cluster.pods = {("research", "trainer-0"): NAME, ("research", "trainer-1"): "another"}
        node.eventually(lambda: cluster.pods == {("research", "trainer-1"): "another"})
        assert cluster.is_cordoned(NAME)
        assert cluster.disrupted == [("research", "trainer-0")], (
            "its job does not count the end of the node as a failure"
        )
        node.eventually(lambda: [one for one in node.events("gpu-node-drain") if one[0] == "jobs"])
        assert ("jobs", "ok", f"deleted 1 pods of {NAME}") in node.events("gpu-node-drain")


def test_the_imex_service_of_an_image_cannot_start_where_the_dra_driver_has_daemons_of_its_own(
    lab: Lab, cluster: Kubernetes
) -> None:
    """As on UltraServers, of which no model stands here: the setting alone is theirs."""
    with eks_node(lab, cluster, managed("g6.xlarge", scratch=False), **L4) as node:
        user_data = node.metadata.user_data
        node.metadata.user_data = user_data.replace("GPU_ORCHESTRATOR=eks", "GPU_ORCHESTRATOR=eks\n    GPU_IMEX_OFF=1")
        node.power_on()
        node.ready()
        joined(node, cluster)
        assert ("imex", "ok", "nvidia-imex.service is masked") in node.events("gpu-node-boot")
        assert node.run("systemctl is-enabled nvidia-imex", check=False).stdout == "masked\n"


def test_node_stays_out_with_fewer_efa_devices(lab: Lab, cluster: Kubernetes) -> None:
    with eks_node(lab, cluster, managed("p5.48xlarge"), efa_count=31) as node:
        node.power_on(uptime_seconds=1485)
        assert node.failure().startswith("efa: 31 of 32 EFA devices")
        stays_out(node, cluster)


def test_node_of_a_self_managed_group_joins_the_cluster_that_its_own_config_says(lab: Lab, cluster: Kubernetes) -> None:
    config = NodeConfig(
        cluster=eks_cluster(cluster),
        labels={"team": "research"},
        taints=(TAINT, "dedicated:NoExecute"),
        kubelet_config={"maxPods": 29, "topologyManagerPolicy": "single-numa-node"},
    )
    build = group(Orchestrator.EKS_SELF_MANAGED, "p5.4xlarge", mig=HALVES, node_config=config)
    with eks_node(lab, cluster, build, **H100) as node:
        node.power_on()
        node.ready()
        found = joined(node, cluster)
        assert found["metadata"]["labels"] == {"team": "research"}
        assert [one["key"] for one in cluster.taints(NAME)] == ["nvidia.com/gpu", "dedicated"]
        assert found["status"]["capacity"]["pods"] == "29"
        assert told(node)["spec"]["kubelet"]["config"] == dict(config.kubelet_config)


def test_node_stays_out_where_the_software_does_not_come(lab: Lab, cluster: Kubernetes) -> None:
    with eks_node(lab, cluster, managed("p5.4xlarge", efa=False, mig=HALVES), **H100) as node:
        node.fleet.overwrite_assets(None)
        node.power_on()
        assert node.failure().startswith("software: ")
        stays_out(node, cluster)
        assert node.run("systemctl is-failed gpu-node-boot", check=False).stdout == "failed\n"
