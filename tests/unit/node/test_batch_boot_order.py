"""The ECS agent waits for the checks of a boot: units and drop-in as systemd reads them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from cdk_gpu_clusters.node.settings import NodeSettings
from cdk_gpu_clusters.node.software import SoftwareObject, early_files
from cdk_gpu_clusters.node.user_data import render_user_data

SOFTWARE = SoftwareObject(bucket_name="b", object_key="k.tar", sha256="0" * 64)
#: aws/amazon-ecs-agent @ 0923816, packaging/amazon-linux-ami-integrated/ecs.service: its order, and what pulls it in.
AGENT = """\
[Unit]
Wants=docker.service
After=docker.service
After=cloud-final.service
[Service]
Type=simple
ExecStart=/bin/true
[Install]
WantedBy=multi-user.target
"""
OTHERS = ("docker", "cloud-final", "nvidia-kmod-load")


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """The units of a node of AWS Batch, the agent's, and those that both name, in one folder."""
    for file in early_files(mig=False, orchestrator="batch"):
        inside = re.fullmatch(r"/etc/systemd/system/(gpu-node-boot\.service.*)", file.path)
        if inside:
            path = tmp_path / inside[1]
            path.parent.mkdir(exist_ok=True)
            path.write_text(re.sub(r"(?m)^(Exec\w+)=.*$", r"\1=/bin/true", file.text), encoding="utf-8")
    (tmp_path / "ecs.service").write_text(AGENT, encoding="utf-8")
    for name in OTHERS:
        (tmp_path / f"{name}.service").write_text("[Service]\nType=oneshot\nExecStart=/bin/true\n", encoding="utf-8")
    # `systemctl enable`, which the user data call.
    folder = tmp_path / "ecs.service.requires"
    folder.mkdir()
    (folder / "gpu-node-boot.service").symlink_to(tmp_path / "gpu-node-boot.service")
    return tmp_path


def test_the_agent_requires_the_checks_and_a_failure_ends_the_node(units: Path) -> None:
    order = (units / "gpu-node-boot.service.d/order.conf").read_text(encoding="utf-8")
    lines = order.splitlines()
    assert {"Before=ecs.service", "RequiredBy=ecs.service", "FailureAction=poweroff"} <= set(lines)
    assert lines.index("FailureAction=poweroff") < lines.index("[Install]"), "a key of [Unit]"
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return
    done = subprocess.run(
        [analyze, "--man=no", "verify", "ecs.service"],
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{units}:"},
        check=False,
        capture_output=True,
        text=True,
    )
    said = [line for line in done.stderr.splitlines() if "gpu-node-boot" in line or "ecs.service" in line]
    assert said == []


def test_the_unit_is_enabled_before_the_agent_starts() -> None:
    """In the boothook, which runs before other services; the agent comes after cloud-final."""
    text = render_user_data(NodeSettings(fleet_name="trainers", orchestrator="batch"), SOFTWARE)
    boothook = text.partition("Content-Type: text/x-shellscript")[0]
    assert "text/cloud-boothook" in boothook
    assert "systemctl enable gpu-node-boot" in boothook


def settings_of_agent(text: str) -> dict[str, str]:
    """What the agent gets: aws/amazon-ecs-agent @ 8dfceca, ecs-init/docker/docker.go, getEnvVars."""
    lines = (line.strip().partition("=") for line in text.strip().split("\n"))
    return {name: value for name, sign, value in lines if sign}


@pytest.mark.parametrize(
    ("before", "others"),
    [
        (None, {}),
        ("ECS_CLUSTER=batch\n", {"ECS_CLUSTER": "batch"}),
        ("ECS_CLUSTER=batch", {"ECS_CLUSTER": "batch"}),
        ("ECS_AWSVPC_BLOCK_IMDS=false\nECS_CLUSTER=batch\n", {"ECS_CLUSTER": "batch"}),
    ],
)
def test_containers_never_reach_the_role_of_the_node(
    tmp_path: Path, before: str | None, others: dict[str, str]
) -> None:
    """The setting is written after all user data and before the agent, which reads it from the file alone."""
    [order] = [one.text for one in early_files(mig=False, orchestrator="batch") if one.path.endswith("order.conf")]
    assert {"After=cloud-final.service nvidia-kmod-load.service", "Before=ecs.service"} <= set(order.splitlines())
    [command] = re.findall(r"(?m)^ExecStartPost=(.*)$", order)
    program, option, script = shlex.split(command)
    config = tmp_path / "ecs.config"
    if before is not None:
        config.write_text(before, encoding="utf-8")
    script = script.replace("/etc/ecs/ecs.config", str(config))
    for _ in range(2):  # boots
        subprocess.run([program, option, script], check=True)
        assert settings_of_agent(config.read_text(encoding="utf-8")) == {**others, "ECS_AWSVPC_BLOCK_IMDS": "true"}
