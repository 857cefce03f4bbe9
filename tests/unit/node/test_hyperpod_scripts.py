"""The folder that HyperPod copies to its nodes, against the published API model, and run by a shell."""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
from pathlib import Path

import botocore.session
import pytest

from cdk_gpu_clusters.fleet.instance_group import instance_group_settings
from cdk_gpu_clusters.fleet.node import NodeRequest
from cdk_gpu_clusters.fleet.plan import plan_fleet
from cdk_gpu_clusters.fleet.profile import HYPERPOD_EKS, HYPERPOD_SLURM, OrchestratorProfile
from cdk_gpu_clusters.fleet.request import FleetRequest
from cdk_gpu_clusters.node.hyperpod_scripts import EMPTY_FOLDER, SETUP_FILE, check_static, hyperpod_folder
from cdk_gpu_clusters.node.settings import NodeSettings


def settings_of(profile: OrchestratorProfile) -> NodeSettings:
    request = FleetRequest(name="train", instance_type="p5.48xlarge", profile=profile, minimum=2, maximum=2)
    return instance_group_settings(plan_fleet(request), NodeRequest(log_group_name="/gpu-clusters/train"))


def files_of(folder: dict[str, bytes]) -> dict[str, str]:
    with tarfile.open(fileobj=io.BytesIO(folder["software.tar"])) as tar:
        return {f"/{one.name}": (tar.extractfile(one) or io.BytesIO()).read().decode() for one in tar.getmembers()}


@pytest.mark.parametrize(
    ("profile", "agent", "slurm_bin"),
    [(HYPERPOD_SLURM, "hyperpod-slurm", "/opt/slurm/bin"), (HYPERPOD_EKS, "hyperpod-eks", None)],
)
def test_the_archive_holds_the_software_and_the_settings(
    profile: OrchestratorProfile, agent: str, slurm_bin: str | None
) -> None:
    files = files_of(hyperpod_folder(settings_of(profile)))
    settings = dict(line.split("=", 1) for line in files["/etc/gpu-cluster/node.env"].splitlines())
    assert settings["GPU_ORCHESTRATOR"] == agent
    assert settings.get("GPU_SLURM_BIN") == slurm_bin
    assert settings["GPU_EFA_COUNT"] == "32"
    assert not [name for name in settings if name.startswith("GPU_SOFTWARE_")]
    assert "/usr/local/bin/gpunode" in files
    order = files["/etc/systemd/system/gpu-node-boot.service.d/order.conf"]
    assert "cloud-final" not in order, "the agent of HyperPod may run within it, and waits for the script"


@pytest.mark.parametrize("event", ["OnCreate", "OnInitComplete"])
def test_the_script_is_one_that_the_api_takes(event: str) -> None:
    model = botocore.session.get_session().get_service_model("sagemaker")
    shape = model.shape_for("ClusterLifeCycleConfig").members[event]  # type: ignore[attr-defined]
    assert re.fullmatch(shape.metadata["pattern"], SETUP_FILE)
    assert len(SETUP_FILE) <= shape.metadata["max"]


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs of a node that record their calls; `tar` unpacks nothing."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in ("sleep", "sync", "systemctl", "systemd-sysusers", "tar", "timeout"):
        (folder / name).write_text(f'#!/bin/sh\necho {name} "$@" >>{tmp_path}/calls\n')
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def run(folder: Path, files: dict[str, bytes]) -> int:
    for name, content in files.items():
        (folder / name).write_bytes(content)
    script = folder / SETUP_FILE
    script.write_text(script.read_text().replace("/var/log/provision", f"{folder}/provision"))
    return subprocess.run(["sh", str(script)], cwd="/", check=False, capture_output=True).returncode


def test_the_script_unpacks_starts_and_checks(tmp_path: Path, tools: Path) -> None:
    own = f"#!/bin/sh\necho own >>{tmp_path}/calls\n"
    assert run(tmp_path, hyperpod_folder(settings_of(HYPERPOD_SLURM), setup_script=own)) == 0
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[:3] == ["tar -xf software.tar -C /", "systemd-sysusers gpu-job.conf", "own"]
    assert calls[-1] == "systemctl start gpu-node-boot"
    assert any("gpu-node-watch" in one for one in calls)
    assert "sleep 60" not in calls
    assert not any("gpu-node-drain" in one for one in calls), "HyperPod notices the end of a node by itself"


@pytest.mark.parametrize("broken", ["archive", "own", "checks"])
def test_the_script_fails_with_its_part(tmp_path: Path, tools: Path, broken: str) -> None:
    own = "#!/bin/sh\nexit 3\n" if broken == "own" else ""
    files = hyperpod_folder(settings_of(HYPERPOD_SLURM), setup_script=own)
    if broken == "archive":
        files["software.tar"] += b"x"
    if broken == "checks":
        (tools / "systemctl").write_text('#!/bin/sh\ntest "$*" != "start gpu-node-boot"\n')
    assert run(tmp_path, files) == 1
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[-2:] == ["sync", "sleep 60"], "the agent has to send the reason first"


def test_what_the_script_prints_is_in_the_file_that_the_agent_sends(tmp_path: Path, tools: Path) -> None:
    """SageMaker AI developer guide, "SageMaker HyperPod FAQs": the agent sends /var/log/provision/provisioning.log."""
    (tmp_path / "provision").mkdir()
    log = tmp_path / "provision" / "provisioning.log"
    log.write_text("what HyperPod wrote\n")
    folder = hyperpod_folder(
        settings_of(HYPERPOD_SLURM), setup_script="#!/bin/sh\necho mine; echo its fault >&2; exit 3\n"
    )
    assert "/var/log/provision/provisioning.log" in folder[SETUP_FILE].decode()
    assert run(tmp_path, folder) == 1
    assert log.read_text().splitlines() == ["what HyperPod wrote", "mine", "its fault"]


def test_nodes_without_the_software_have_a_script_that_does_nothing(tmp_path: Path, tools: Path) -> None:
    assert run(tmp_path, dict(EMPTY_FOLDER)) == 0
    assert not (tmp_path / "calls").exists()


def test_the_same_settings_are_the_same_bytes_and_others_are_others() -> None:
    slurm = settings_of(HYPERPOD_SLURM)
    assert hyperpod_folder(slurm) == hyperpod_folder(slurm)
    assert hyperpod_folder(slurm) != hyperpod_folder(settings_of(HYPERPOD_EKS))


def test_what_travels_through_s3_is_known_at_synthesis() -> None:
    assert not check_static({"setup_script": "echo hello"})
    found = check_static({"setup_script": "echo ${Token[TOKEN.1]}", "environment.A": "é"})
    assert [(one.id, one.path) for one in found] == [
        ("GPU-HYP-023", "setup_script"),
        ("GPU-HYP-023", "environment.A"),
    ]
