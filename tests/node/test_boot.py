"""Nodes booted from what the library synthesizes: all well, and what may go wrong on any of them."""

from __future__ import annotations

import json
import time

import pytest
from aws_cdk import aws_s3 as s3

from cdk_gpu_clusters import NodeFile, UserDataPart
from nodebox.lab import Lab, fleet
from stack_fixtures import Site

STAGES = [
    "metadata", "driver", "fabric-manager", "cuda", "efa", "limits", "user-data", "containers", "verification", "dcgm", "hook"
]  # fmt: skip
L4 = {"gpu": "L4", "gpu_count": 1}


@pytest.mark.parametrize("debian_order", [True, False])
def test_a_healthy_node_goes_into_service_and_stays_there_over_a_reboot(lab: Lab, debian_order: bool) -> None:
    with lab.node(fleet("p5.48xlarge"), efa_count=32, debian_order=debian_order) as node:
        node.power_on()
        assert node.ready()["first_boot"] is True
        node.in_service()
        logged = node.eventually(lambda: node.fleet.logged(node.instance_id))
        assert [one["stage"] for one in logged if one["state"] == "ok"] == ["software", "metadata", *STAGES]
        assert [one["state"] for one in logged if one["stage"] == "node"] == ["started", "ready"]
        limits = node.run("systemctl show --property=LimitMEMLOCK gpu-node-boot slurmd").stdout.split()
        assert limits == ["LimitMEMLOCK=infinity"] * 2
        assert "NCCL_SOCKET_IFNAME=^docker,lo,veth" in node.run("cat /etc/nccl.conf").stdout
        assert node.run("systemctl --failed --plain --no-legend").stdout == ""

        node.reboot()
        assert node.ready()["first_boot"] is False
        assert [stage for stage, _, _ in node.events("gpu-node-boot", boot=2) if stage == "hook"] == []
        assert node.fleet.states() == {node.instance_id: "InService"}


def test_a_cloud_config_of_the_users_own_is_merged_into_ours(lab: Lab) -> None:
    own = (
        "#cloud-config\nwrite_files:\n- path: /etc/own\n  content: own\nruncmd:\n- cp /etc/own /etc/nccl.conf /root/\n"
    )
    part = UserDataPart(content_type="text/cloud-config", body=own)
    with lab.node(fleet("g6.xlarge", user_data_parts=[part]), **L4) as node:
        node.power_on()
        node.ready()
        assert node.run("cat /root/own /root/nccl.conf").stdout.startswith("own# awslabs")


def test_a_driver_that_is_late_is_waited_for(lab: Lab) -> None:
    with lab.node(fleet("g6.xlarge"), **L4) as node:
        node.gpus.state["late"] = 12
        node.power_on()
        node.ready()
        node.in_service()
        states = [state for stage, state, _ in node.events("gpu-node-boot") if stage == "driver"]
        assert states == ["started", "waiting", "ok"]


def test_a_driver_that_never_comes_ends_the_launch_with_the_reason_logged_before(lab: Lab) -> None:
    with lab.node(fleet("g6.xlarge"), **L4) as node:
        node.gpus.state["late"] = -1
        node.power_on(uptime_seconds=1490)
        reason = node.failure()
        assert reason.startswith("driver: nvidia-smi: NVIDIA-SMI has failed")
        assert node.abandoned() == reason
        assert reason in node.console
        assert list(node.fleet.states().values()) == ["Pending:Wait"], "another one is launched in its place"


def test_a_lost_gpu_ends_the_launch_with_its_evidence_kept_before(lab: Lab) -> None:
    def build(site: Site) -> object:
        return fleet("g6.12xlarge", evidence_bucket=s3.Bucket(site.stack, "Evidence"))(site)

    with lab.node(build, gpu="L4", gpu_count=3) as node:
        node.power_on(uptime_seconds=1490)
        assert node.failure() == "driver: 3 of 4 GPUs answer"
        assert node.abandoned() == "driver: 3 of 4 GPUs answer"
        [(key, files)] = node.fleet.evidence().items()
        assert node.instance_id in key
        assert "3 of 4 GPUs answer" in files["reason.json"]
        assert files["nvidia-smi-q.txt"].count("GPU 00000000:") == 3


def test_the_third_failed_launch_stops_the_loop_and_the_next_node_that_fails_is_kept(lab: Lab) -> None:
    deployed = lab.cloud.deploy(fleet("g6.12xlarge", efa=False))
    for _ in range(2):
        deployed.abandon()
    with lab.instance(deployed, gpu="L4", gpu_count=3) as node:
        assert deployed.launches()
        node.power_on(uptime_seconds=1490)
        assert node.abandoned() == "driver: 3 of 4 GPUs answer"
        node.eventually(lambda: not deployed.launches())
        assert deployed.states_of_alarm("LaunchLoop") == ["OK", "ALARM"]
    # It was launched before launching was suspended.
    with lab.instance(deployed, gpu="L4", gpu_count=3) as node:
        node.power_on(uptime_seconds=1490)
        assert node.failure() == "driver: 3 of 4 GPUs answer"
        (kept,) = node.eventually(
            lambda: [reason for stage, _, reason in node.events("gpu-node-boot") if stage == "inspection"]
        )
        assert f"aws ssm start-session --region us-east-1 --target {node.instance_id}" in kept
        assert deployed.states() == {node.instance_id: "Pending:Wait"}
        deployed.resume_launches()
        assert node.abandoned() == "driver: 3 of 4 GPUs answer"
        node.eventually(lambda: not deployed.launches())
        assert deployed.states_of_alarm("LaunchLoop") == ["OK", "ALARM"], (
            "one more failure stops it, without a new alarm"
        )


def test_too_few_efa_devices_end_the_launch(lab: Lab) -> None:
    with lab.node(fleet("p5.48xlarge"), efa_count=31) as node:
        node.power_on(uptime_seconds=1490)
        assert node.failure() == "efa: 31 of 32 EFA devices"
        assert node.abandoned() == "efa: 31 of 32 EFA devices"


def test_a_user_script_that_fails_ends_the_launch(lab: Lab) -> None:
    script = UserDataPart(content_type="text/x-shellscript", body="#!/bin/sh\nls /nowhere\n")
    with lab.node(fleet("g6.xlarge", user_data_parts=[script]), **L4) as node:
        node.power_on()
        reason = node.failure()
        assert reason.startswith("user-data: a shell script of the user data failed")
        assert node.abandoned() == reason


def test_a_check_of_the_users_own_decides_too(lab: Lab) -> None:
    check = NodeFile(path="/etc/gpu-cluster/ready.d/licence", text="#!/bin/sh\necho none left\nexit 2\n", mode=0o755)
    with lab.node(fleet("g6.xlarge", node_files=[check]), **L4) as node:
        node.power_on()
        assert node.failure() == "licence: none left"
        assert node.abandoned() == "licence: none left"


def test_slow_metadata_only_makes_a_boot_longer(lab: Lab) -> None:
    with lab.node(fleet("g6.xlarge"), **L4) as node:
        node.metadata.delay_seconds = 1.5
        node.power_on()
        node.ready()
        node.in_service()


def test_metadata_that_is_silent_for_a_while_is_waited_for(lab: Lab) -> None:
    with lab.node(fleet("g6.xlarge"), **L4) as node:
        node.power_on()
        node.eventually(lambda: node.run("systemctl is-active cloud-final", check=False).stdout != "inactive\n")
        node.metadata.silent_until = time.monotonic() + 15
        node.ready()
        node.in_service()


def test_a_spot_notice_during_the_boot_drains_the_node_and_ends_its_launch(lab: Lab) -> None:
    drain = NodeFile(path="/etc/gpu-cluster/on-drain", text="#!/bin/sh\necho saved: $*\n", mode=0o755)
    notice = json.dumps({"action": "terminate", "time": "2026-11-21T08:00:00Z"})
    with lab.node(fleet("g6.xlarge", node_files=[drain]), **L4) as node:
        node.gpus.state["late"] = -1
        node.power_on()
        node.eventually(lambda: [state for _, state, _ in node.events("gpu-node-boot") if state == "waiting"])
        node.metadata.values["spot/instance-action"] = notice
        reason = node.failure()
        assert reason.startswith("driver: this instance is about to end: spot-interruption")
        assert node.abandoned() == reason
        node.eventually(lambda: [state for stage, state, _ in node.events("gpu-node-drain") if state == "ok"])
        said = [entry.text for entry in node.journal("gpu-node-drain") if entry.text.startswith("saved")]
        assert said == ["saved: spot-interruption 2026-11-21T08:00:00Z"], "once"
