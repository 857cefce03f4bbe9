"""What an EKS node needs to tell Kubernetes: kubectl, and rights."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.node.kubernetes_node import kubectl_part, node_health_rights

PROGRAM = b"#!/bin/sh\necho kubectl\n"
DIGEST = hashlib.sha256(PROGRAM).hexdigest()


def run(tmp_path: Path, url: str, sha256: str = DIGEST) -> subprocess.CompletedProcess[str]:
    """Run the script, with a curl and an aws that copy the program, and `/usr/local/bin` below a folder."""
    (tmp_path / "program").write_bytes(PROGRAM)
    (tmp_path / "bin").mkdir()
    for name in ("curl", "aws"):
        tool = tmp_path / "bin" / name
        tool.write_text(
            f'#!/bin/sh\necho "{name} $*" >>{tmp_path}/asked\nfor last; do :; done\ncp {tmp_path}/program "$last"\n'
        )
        tool.chmod(0o755)
    body = kubectl_part(url=url, sha256=sha256).body.replace("/usr/local/bin", str(tmp_path))
    environment = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
    return subprocess.run(["sh", "-c", body], env=environment, check=False, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("url", "tool"),
    [("https://dl.k8s.io/release/v1.34.1/bin/linux/amd64/kubectl", "curl"), ("s3://tools/kubectl", "aws")],
)
def test_program_is_fetched_checked_and_made_ready_to_run(tmp_path: Path, url: str, tool: str) -> None:
    done = run(tmp_path, url)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "asked").read_text().startswith(f"{tool} ")
    assert url in (tmp_path / "asked").read_text()
    assert subprocess.run([tmp_path / "kubectl"], check=True, capture_output=True).stdout == b"kubectl\n"


def test_another_program_is_not_installed_and_fails_the_script(tmp_path: Path) -> None:
    assert run(tmp_path, "https://example.org/kubectl", "0" * 64).returncode != 0
    assert not (tmp_path / "kubectl").exists()


def test_address_of_any_kind_is_no_code(tmp_path: Path) -> None:
    done = run(tmp_path, "https://example.org/k;touch$IFS/tmp/never")
    assert done.returncode == 0, done.stderr
    assert "k;touch$IFS/tmp/never" in (tmp_path / "asked").read_text()


@pytest.mark.parametrize(
    ("url", "sha256", "paths"),
    [
        ("http://example.org/kubectl", DIGEST, ["url"]),
        ("https://example.org/kubectl", "latest", ["sha256"]),
        ("kubectl", DIGEST.upper(), ["url", "sha256"]),
    ],
)
def test_faults_are_named_all_at_once(url: str, sha256: str, paths: list[str]) -> None:
    with pytest.raises(ConfigError) as refusal:
        kubectl_part(url=url, sha256=sha256)
    assert [finding.path for finding in refusal.value.findings] == paths
    assert {finding.id for finding in refusal.value.findings} == {"GPU-EKS-006"}


def test_kubelets_may_read_all_nodes_and_change_none() -> None:
    role, binding = node_health_rights()
    assert role["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]}]
    assert [(one["kind"], one["name"]) for one in binding["subjects"]] == [("Group", "system:nodes")]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]


def test_another_group_may_do_all_that_the_watchdog_does() -> None:
    role, binding = node_health_rights("gpu-node-doctors")
    granted = {(resource, verb) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]}
    assert granted == {("nodes", "get"), ("nodes", "list"), ("nodes", "patch"), ("nodes/status", "patch")}
    assert binding["subjects"][0]["name"] == "gpu-node-doctors"
    assert role["metadata"]["name"] != node_health_rights()[0]["metadata"]["name"]
