"""The real CDK CLI against the emulator: bootstrap, deploy, diff, update, destroy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cdk_cli import CdkCli
from cdk_gpu_clusters.testing import Emulator

APP = Path(__file__).with_name("reserved_fleet_app.py")


@pytest.fixture(scope="module")
def assemblies(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The app before and after a change of its user data."""
    folder = tmp_path_factory.mktemp("assemblies")
    subprocess.run([sys.executable, str(APP), str(folder)], check=True, timeout=240)
    return folder / "before", folder / "after"


@pytest.fixture(scope="module")
def account(new_account_of_file: Emulator) -> Emulator:
    return new_account_of_file


def _described(account: Emulator) -> tuple[dict[str, Any], dict[str, Any]]:
    (group,) = account.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    (version,) = account.client("ec2").describe_launch_template_versions(
        LaunchTemplateId=group["LaunchTemplate"]["LaunchTemplateId"], Versions=["$Latest"]
    )["LaunchTemplateVersions"]
    return group, version


def _templates(account: Emulator) -> list[str]:
    return [one["type"] for one in account.resources() if one["stack"] != "CDKToolkit"]


def test_the_cli_bootstraps_deploys_updates_and_destroys(
    assemblies: tuple[Path, Path], account: Emulator, tmp_path: Path
) -> None:
    before, after = assemblies
    cdk = CdkCli(account, tmp_path)
    cdk(before, "bootstrap")
    cdk(before, "deploy", "--all", "--require-approval", "never", "--concurrency", "2")
    group, version = _described(account)
    assert (group["DesiredCapacity"], len(group["Instances"]), version["VersionNumber"]) == (4, 4, 1)
    data = version["LaunchTemplateData"]
    assert sum(one["InterfaceType"] == "efa-only" for one in data["NetworkInterfaces"]) == 32
    assert data["ImageId"].startswith("ami-")
    assert account.client("cloudwatch").describe_alarms()["MetricAlarms"][0]["MetricName"] == "GroupInServiceInstances"
    difference = cdk(after, "diff", "--all")
    assert "Number of stacks with differences: 1" in difference
    assert "echo after" in difference
    assert "replaced" not in difference, "a launch template is updated in place"
    cdk(after, "deploy", "--all", "--require-approval", "never")
    group, version = _described(account)
    assert (group["LaunchTemplate"]["Version"], version["VersionNumber"]) == ("2", 2)
    assert len(group["Instances"]) == 4
    cdk(after, "destroy", "--all", "--force")
    assert _templates(account) == []


def test_the_emulator_listens_on_loopback_only(account: Emulator) -> None:
    assert account.endpoint_url.startswith("http://127.0.0.1:")
    port = int(account.endpoint_url.rsplit(":", 1)[1])
    listening = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines() if " 0A " in line]
    assert [one for one in listening if one.endswith(f":{port:04X}")] == [f"0100007F:{port:04X}"]


def test_no_real_account_can_be_reached(account: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "secret")
    monkeypatch.setenv("AWS_ENDPOINT_URL_EC2", "https://ec2.us-east-1.amazonaws.com")
    assert {key: value for key, value in account.environment.items() if key.startswith("AWS_")} == account.settings


def test_a_stopped_emulator_is_gone() -> None:
    with Emulator() as account:
        assert account.resources() == []
        process = account._process
        assert process is not None
    assert process.returncode is not None
