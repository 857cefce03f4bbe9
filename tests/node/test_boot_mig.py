"""Nodes that split their GPUs when they boot."""

from __future__ import annotations

from typing import Any

import pytest

from cdk_gpu_clusters import FabricManagerOrder, MigLayout
from nodebox.lab import Lab, fleet

HALVES = MigLayout(["3g.40gb", "3g.40gb"])
SEVENTHS = MigLayout(["1g.10gb"] * 7)
H100: dict[str, Any] = {"gpu": "H100-80GB", "gpu_count": 1}
A100: dict[str, Any] = {"gpu": "A100-80GB", "gpu_count": 8}


@pytest.mark.parametrize(
    ("debian_order", "order"),
    [
        (True, FabricManagerOrder.BEFORE),
        (False, FabricManagerOrder.BEFORE),
        (False, FabricManagerOrder.AFTER),
    ],
)
def test_gpus_are_split_at_the_first_boot_before_anything_uses_them(
    lab: Lab, debian_order: bool, order: FabricManagerOrder
) -> None:
    build = fleet("p4de.24xlarge", efa=False, mig=SEVENTHS, fabric_manager_order=order)
    with lab.node(build, debian_order=debian_order, **A100) as node:
        node.power_on()
        node.ready()
        node.in_service()
        assert node.gpus.layouts() == [["1g.10gb"] * 7] * 8
        seen = {daemon: finding.split()[0] for daemon, finding in node.sightings().items()}
        assert seen == {
            "nvidia-persistenced": "0",
            "nvidia-fabricmanager": "56" if order is FabricManagerOrder.BEFORE else "0",
            "nvidia-dcgm": "56",
            "docker": "56",
            "slurmd": "56",
        }


def test_every_boot_makes_the_layout_again_which_a_reboot_takes_away(lab: Lab) -> None:
    with lab.node(fleet("p5.4xlarge", efa=False, mig=HALVES), **H100) as node:
        node.power_on()
        node.ready()
        node.in_service()
        node.reboot()
        assert node.ready()["first_boot"] is False
        assert node.gpus.layouts() == [["3g.40gb", "3g.40gb"]]
        assert node.sightings(boot=2)["docker"].startswith("2 MIG devices")
        assert node.boots == 2


@pytest.mark.parametrize("debian_order", [True, False])
def test_a_pending_mode_takes_exactly_one_reboot(lab: Lab, debian_order: bool) -> None:
    build = fleet("p4de.24xlarge", efa=False, mig=MigLayout(["7g.80gb"]))
    with lab.node(build, debian_order=debian_order, **A100) as node:
        node.gpus.state["mode_change"] = "reboot"
        node.power_on()
        node.eventually(lambda: node.boots == 2)
        node.ready()
        node.in_service()
        assert [state for _, state, _ in node.events("gpu-mig", boot=1)][-1] == "rebooting"
        assert node.boots == 2
        assert node.sightings(boot=1).keys().isdisjoint({"docker", "slurmd"})


def test_a_mode_that_never_comes_ends_the_launch_after_one_reboot(lab: Lab) -> None:
    build = fleet("p4de.24xlarge", efa=False, mig=MigLayout(["7g.80gb"]))
    with lab.node(build, **A100) as node:
        node.gpus.state["mode_change"] = "never"
        node.power_on()
        node.eventually(lambda: node.boots == 2)
        reason = node.failure()
        assert reason.startswith("mig: MIG mode of GPU 0, 1, 2, 3, 4, 5, 6, 7 is pending")
        assert "also after a reboot" in reason
        assert node.abandoned() == reason
        assert node.run("systemctl is-active slurmd", check=False).stdout == "inactive\n"
        assert node.boots == 2, "a node that reboots for ever costs its full price"


def test_a_gpu_that_creates_no_instance_ends_the_launch(lab: Lab) -> None:
    with lab.node(fleet("p5.4xlarge", efa=False, mig=HALVES), **H100) as node:
        node.gpus.state["refuses"] = [0]
        node.power_on()
        reason = node.failure()
        assert reason.startswith("mig: GPU 0: 3g.40gb,3g.40gb is wanted, nothing is there")
        assert "Insufficient Resources" in reason
        assert node.abandoned() == reason
        assert node.run("systemctl is-active slurmd", check=False).stdout == "inactive\n"


def test_a_driver_that_is_late_is_waited_for_before_gpus_are_split(lab: Lab) -> None:
    with lab.node(fleet("p5.4xlarge", efa=False, mig=HALVES), **H100) as node:
        node.gpus.state["late"] = 8
        node.power_on()
        node.ready()
        assert node.sightings()["docker"].startswith("2 MIG devices")


def test_a_driver_that_never_comes_ends_the_launch_of_a_split_node(lab: Lab) -> None:
    build = fleet("p5.4xlarge", efa=False, mig=HALVES)
    with lab.node(build, variables={"MIG_DRIVER_WAIT": "4"}, **H100) as node:
        node.gpus.state["late"] = -1
        node.power_on(uptime_seconds=1485)
        assert node.failure().startswith("driver: nvidia-smi: NVIDIA-SMI has failed")
        assert node.unit_result("mig")["reason"].startswith("driver: 0 of 1 GPUs answer after 4 s")
        assert node.run("systemctl is-active slurmd", check=False).stdout == "inactive\n"


def test_a_new_template_version_changes_the_layout_of_new_nodes(lab: Lab) -> None:
    """Also where the image was made from a node of the old version, with all that it left on its disk."""
    build = fleet("p4de.24xlarge", efa=False, mig=SEVENTHS)
    with lab.node(build, **A100) as old:
        old.power_on()
        old.ready()
        old.in_service()
        deployed = old.fleet
        lab.cloud.deploy(fleet("p4de.24xlarge", efa=False, mig=HALVES), stack_name=deployed.stack_name)
        assert deployed.states() == {old.instance_id: "InService"}, "a running node is left alone"
        old.power_off()
        deployed.replace_all()
        with lab.instance(deployed, baked=old.disk, **A100) as new:
            new.gpus.split("1g.10gb", "1g.10gb")
            new.power_on()
            assert new.ready()["first_boot"] is True
            new.in_service()
            assert new.gpus.layouts() == [["3g.40gb", "3g.40gb"]] * 8
