"""Nodes of Amazon EKS join their cluster when they are ready, and never otherwise."""

from __future__ import annotations

from cdk_gpu_clusters import EksCluster, MigLayout, NodeConfig, Orchestrator
from nodebox.groups import group, make_eks, seen_by
from nodebox.lab import Lab

HALVES = MigLayout(["3g.40gb", "3g.40gb"])
H100 = {"gpu": "H100-80GB", "gpu_count": 1}
CLUSTER = EksCluster(
    name="training",
    endpoint="https://0.gr7.us-east-1.eks.amazonaws.com",
    certificate_authority="LS0t",
    service_cidr="172.20.0.0/16",
)
NODES = group(
    Orchestrator.EKS_SELF_MANAGED, "p5.4xlarge", mig=HALVES, node_config=NodeConfig(cluster=CLUSTER)
)


def test_kubelet_starts_on_a_ready_node_and_again_after_a_reboot(lab: Lab) -> None:
    with lab.node(NODES, debian_order=False, **H100) as node:
        make_eks(node)
        node.power_on()
        node.ready()
        node.eventually(lambda: seen_by(node, "kubelet"))
        assert node.gpus.layouts() == [["3g.40gb", "3g.40gb"]]
        node.reboot()
        node.ready()
        node.eventually(lambda: len(seen_by(node, "kubelet")) == 2)
        assert [text.split(",")[0] for text in seen_by(node, "kubelet")] == ["kubelet sees 2 MIG devices"] * 2
        node.eventually(lambda: node.unit("gpu-node-watch", "ActiveState") == "active")


def test_kubelet_never_starts_where_the_gpus_are_not_split(lab: Lab) -> None:
    with lab.node(NODES, debian_order=False, **H100) as node:
        make_eks(node)
        node.gpus.state["refuses"] = [0]
        node.power_on()
        assert node.failure().startswith("mig: GPU 0: 3g.40gb,3g.40gb is wanted, nothing is there")
        node.run("systemctl is-system-running --wait", check=False)
        assert (
            node.run("systemctl is-active kubelet containerd", check=False).stdout == "inactive\ninactive\n"
        )
        assert seen_by(node, "kubelet") == []
        assert node.run("systemctl list-jobs --no-legend").stdout == ""


def test_kubelet_never_starts_where_a_check_fails(lab: Lab) -> None:
    whole = group(Orchestrator.EKS_MANAGED, "p5.4xlarge")
    with lab.node(whole, debian_order=False, **H100) as node:
        make_eks(node)
        node.gpus.state["late"] = -1
        node.power_on(uptime_seconds=1485)
        assert node.failure().startswith("driver: nvidia-smi: NVIDIA-SMI has failed")
        node.run("systemctl is-system-running --wait", check=False)
        assert node.run("systemctl is-active kubelet", check=False).stdout == "inactive\n"
        assert seen_by(node, "kubelet") == []


def test_kubelet_never_starts_where_the_software_does_not_come(lab: Lab) -> None:
    with lab.node(NODES, debian_order=False, **H100) as node:
        make_eks(node)
        node.fleet.overwrite_assets(None)
        node.power_on()
        assert node.failure().startswith("software: ")
        node.run("systemctl is-system-running --wait", check=False)
        assert node.run("systemctl is-failed gpu-node-boot", check=False).stdout == "failed\n"
        assert seen_by(node, "kubelet") == []
