"""The package `gpunode` as files of a node, run there as it will be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cdk_gpu_clusters.catalogue import instance_type
from cdk_gpu_clusters.catalogue.xids import XidClass, xids
from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from cdk_gpu_clusters.node.gpunode.watch.kernel import read_xids
from cdk_gpu_clusters.node.settings import GpuFacts, NodeSettings, gpu_facts
from cdk_gpu_clusters.node.software import GPUNODE_FOLDER, check_files, gpunode_files, software_files
from rendered import rendered


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The folder on the module path of a node that has the package."""
    for file in gpunode_files():
        path = tmp_path / file.path.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text)
    return (tmp_path / GPUNODE_FOLDER.lstrip("/")).parent


def test_the_files_are_good_and_can_wait_for_the_network() -> None:
    assert check_files(gpunode_files()) == []
    assert not any(file.early for file in gpunode_files())
    names = {file.path.removeprefix(f"{GPUNODE_FOLDER}/") for file in gpunode_files()}
    assert {"__main__.py", "checks/__init__.py", "checks/verify.py", "xids.json"} <= names


def launch(root: Path, imds: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `gpunode` as a node does, from its files alone."""
    for file in software_files():
        path = root / file.path.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text)
    return subprocess.run(
        ["bash", str(root / "usr/local/bin/gpunode"), *arguments],
        env={
            "PATH": os.environ["PATH"], "GPU_CLUSTER_ROOT": str(root), "GPU_CLUSTER_IMDS": imds,
            "GPU_CLUSTER_PYTHON": sys.executable, **environment,
        },
        check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_it_runs_from_its_files_alone(tmp_path: Path, imds_server: str, imds: dict[str, str]) -> None:
    """Past what a user put on Python's path: a node has none of our packages, and may have bad ones."""
    (tmp_path / "etc/gpu-cluster").mkdir(parents=True)
    (tmp_path / "etc/gpu-cluster/mounts").write_text("/fsx fs-0.fsx.us-east-1.amazonaws.com abcd flock\n")
    (tmp_path / "etc/gpu-cluster/node.env").write_text("GPU_MOUNTS=1\n")
    (tmp_path / "json.py").write_text("1 / 0\n")
    done = launch(tmp_path, imds_server, "verify", "--json", PYTHONPATH=str(tmp_path), PYTHONSTARTUP="/nowhere")
    assert done.returncode == int(Severity.MONITOR), done.stderr
    told = json.loads(done.stdout)
    assert told["instance_id"] == imds["instance-id"]
    assert told["results"][0]["found"] == "/fsx is not mounted"


def test_a_python_that_is_missing_or_too_old_is_named(tmp_path: Path, imds_server: str) -> None:
    done = launch(tmp_path, imds_server, "verify", GPU_CLUSTER_PYTHON="/nowhere/python3")
    assert (done.returncode, done.stdout) == (69, "")
    assert (
        done.stderr == "gpunode needs Python 3.9 or later, and there is no /nowhere/python3: bake it into the image\n"
    )
    old = tmp_path / "python3.7"
    program = (
        'import sys; sys.version_info = (3, 7); sys.version = "3.7.16 (default)"; sys.executable = "/usr/bin/python3"\n'
    )
    # The same program as the launcher gives it, on a Python that says it is an old one.
    old.write_text(f'#!/bin/sh\nexec {sys.executable} -I -c \'{program}\'"$3" "$4"\n')
    old.chmod(0o755)
    done = launch(tmp_path, imds_server, "verify", GPU_CLUSTER_PYTHON=str(old))
    assert done.stderr == "gpunode needs Python 3.9 or later, and /usr/bin/python3 is 3.7.16: use a newer image\n"
    assert done.returncode == 1


@pytest.mark.parametrize(("arguments", "status"), [((), 64), (("fly",), 64), (("--help",), 0)])
def test_a_wrong_command_is_no_finding(
    tmp_path: Path, imds_server: str, arguments: tuple[str, ...], status: int
) -> None:
    done = launch(tmp_path, imds_server, *arguments)
    assert done.returncode == status
    assert "usage: gpunode" in done.stdout + done.stderr


def test_the_node_reads_the_catalogues_xids(installed: Path) -> None:
    table = read_xids(installed / "gpunode/xids.json")
    assert table.severity(79, "") is Severity.REPLACE
    for xid in xids().values():
        if xid.xid_class not in (XidClass.RECOVERY, XidClass.NVLINK5):
            assert table.severity(xid.code, "").name.lower() == xid.xid_class.value


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("p5.48xlarge", GpuFacts(model="H100", nvlink_gbytes_per_s=900, minimum_driver="525.85.12")),
        (
            "p6e-gb200.36xlarge",
            GpuFacts(model="GB200", nvlink_gbytes_per_s=1800, minimum_driver="570.133.20"),
        ),
        ("g5.48xlarge", GpuFacts(model="A10G")),
        ("trn1.32xlarge", None),
    ],
)
def test_facts_of_a_type(name: str, facts: GpuFacts | None) -> None:
    assert gpu_facts(instance_type(name)) == facts


def test_the_user_data_says_what_the_gpus_are() -> None:
    kind = {"accelerator_kind": "gpu", "accelerator_count": 8}
    facts = GpuFacts(model="RTX PRO Server 6000", nvlink_gbytes_per_s=900, minimum_driver="525.85.12")
    document = rendered(NodeSettings(fleet_name="f", gpu_facts=facts, **kind))  # type: ignore[arg-type]
    assert "    GPU_MODEL='RTX PRO Server 6000'\n    GPU_NVLINK=900\n    GPU_MIN_DRIVER=525.85.12\n" in document
    assert "GPU_MODEL" not in rendered(NodeSettings(fleet_name="f", **kind))  # type: ignore[arg-type]
