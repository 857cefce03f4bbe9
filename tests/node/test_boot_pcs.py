"""Nodes of AWS PCS start slurmd when they are ready, and never otherwise."""

from __future__ import annotations

import pytest

from cdk_gpu_clusters import MigLayout, Orchestrator, UserDataPart
from nodebox.groups import group, make_pcs, seen_by
from nodebox.lab import Lab

HALVES = MigLayout(["3g.40gb", "3g.40gb"])
H100 = {"gpu": "H100-80GB", "gpu_count": 1}
# What AWS PCS merges into the document: it registers the node in bootcmd, and starts slurmd in runcmd, after all scripts
# (aws-samples/aws-hpc-recipes, recipes/pcs/build_amis: its scripts in their order).
PCS = UserDataPart(
    content_type="text/cloud-config",
    body="bootcmd:\n- cat /proc/sys/kernel/random/boot_id >>/var/lib/registered\n"
    "runcmd:\n- systemctl enable slurmd\n- systemctl start slurmd\n",
)
NODES = group(Orchestrator.PCS, "p5.4xlarge", mig=HALVES, slurm_version="25.11", user_data_parts=[PCS])


@pytest.mark.parametrize("debian_order", [True, False])
def test_slurmd_starts_on_a_ready_node_and_again_after_a_reboot(lab: Lab, debian_order: bool) -> None:
    with lab.node(NODES, debian_order=debian_order, **H100) as node:
        make_pcs(node)
        node.power_on()
        node.ready()
        node.eventually(lambda: seen_by(node, "slurmd"))
        assert node.gpus.layouts() == [["3g.40gb", "3g.40gb"]]
        node.reboot()
        node.ready()
        node.eventually(lambda: len(seen_by(node, "slurmd")) == 2)
        assert [text.split(",")[0] for text in seen_by(node, "slurmd")] == ["slurmd sees 2 MIG devices"] * 2


def test_slurmd_never_starts_where_the_gpus_are_not_split(lab: Lab) -> None:
    with lab.node(NODES, **H100) as node:
        make_pcs(node)
        node.gpus.state["refuses"] = [0]
        node.power_on()
        assert node.failure().startswith("mig: GPU 0: 3g.40gb,3g.40gb is wanted, nothing is there")
        node.run("cloud-init status --wait", check=False)
        assert node.run("systemctl is-active slurmd", check=False).stdout == "inactive\n"
        assert seen_by(node, "slurmd") == []


@pytest.mark.parametrize("debian_order", [True, False])
def test_a_reboot_for_mig_comes_before_the_node_is_registered(lab: Lab, debian_order: bool) -> None:
    sevenths = MigLayout(["1g.10gb"] * 7)
    build = group(Orchestrator.PCS, "p4de.24xlarge", mig=sevenths, slurm_version="25.11", user_data_parts=[PCS])
    with lab.node(build, debian_order=debian_order, gpu="A100-80GB", gpu_count=8) as node:
        make_pcs(node)
        node.gpus.state["mode_change"] = "reboot"
        node.power_on()
        node.eventually(lambda: node.boots == 2)
        assert node.ready()["boot_id"] == node.read("/var/lib/registered").strip()
        node.eventually(lambda: seen_by(node, "slurmd"))
        assert seen_by(node, "slurmd")[0].startswith("slurmd sees 56 MIG devices")
        assert node.boots == 2
