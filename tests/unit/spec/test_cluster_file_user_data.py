"""What a cluster file puts into user data is checked where it stands, before the app runs."""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path

import pytest

from cdk_gpu_clusters_stacks.spec import Reading, read_cluster

HEAD = "version: 1\nname: demo\nregion: us-east-1\nnetwork: { availability_zone: us-east-1a }\ntraining:\n  fleets:\n"
KEY_ID = "AKIA" + "ABCDEFGHIJKLMNOP"


def read(folder: Path, fleet: str, script: bytes | None = None) -> Reading:
    """A file whose one fleet stands in line 7 and names the script, if there is one."""
    if script is not None:
        (folder / "setup.sh").write_bytes(script)
        fleet = f"user_data: setup.sh, {fleet}"
    file = folder / "cluster.yaml"
    file.write_text(f"{HEAD}    a: {{ instance_type: g6.xlarge, nodes: 1, {fleet} }}\n", encoding="utf-8")
    return read_cluster(file)


def found(reading: Reading) -> list[str]:
    return [
        f"{':'.join(finding.path.split(':')[-2:])} {finding.severity.value} {finding.id}"
        for finding in reading.findings
    ]


@pytest.mark.parametrize(
    ("script", "finding"),
    [
        (b"", "error GPU-SPEC-013"),
        (b"#!/bin/sh\necho caf\xe9\n", "error GPU-SPEC-013"),
        (b"\xef\xbb\xbf#!/bin/sh\n", "error GPU-SPEC-013"),
        ("#!/bin/sh\n".encode("utf-16"), "error GPU-SPEC-013"),
        (b"echo no interpreter\n", "error GPU-UD-005"),
        ("#!/bin/sh\necho caf\u00e9\n".encode(), "error GPU-UD-005"),
        (f"#!/bin/sh\nexport AWS_ACCESS_KEY_ID={KEY_ID}\n".encode(), "error GPU-UD-002"),
        (b"#!/bin/sh\nDB_PASSWORD=hunter22\n", "error GPU-UD-002"),
        (b"#!/bin/sh\n" + b"# padding\n" * 1500, "error GPU-UD-001"),
    ],
    ids=["empty", "Latin-1", "mark", "UTF-16", "no #!", "UTF-8", "key id", "password", "too long"],
)
def test_faults_of_a_script_stand_at_its_name(script: bytes, finding: str, tmp_path: Path) -> None:
    reading = read(tmp_path, "tags: {}", script)
    assert found(reading) == [f"7:57 {finding}"]
    assert reading.findings[0].fix
    assert "hunter22" not in str(reading.findings[0])
    assert KEY_ID not in str(reading.findings[0])
    assert (reading.spec is None) == finding.startswith("error")


def test_undecodable_text_is_named_with_its_line(tmp_path: Path) -> None:
    [finding] = read(tmp_path, "tags: {}", b"#!/bin/sh\necho caf\xe9\n").findings
    assert "byte 0xe9 in its line 2" in finding.cause


@pytest.mark.parametrize(
    ("variable", "finding"),
    [
        (f"KEY: {KEY_ID}", "7:66 error GPU-UD-002"),
        ("HF_TOKEN: hf_abcdefgh", "7:71 error GPU-UD-002"),
        ("NCCL_PROTO: simple", "7:73 warning GPU-UD-004"),
    ],
)
def test_faults_of_a_variable_stand_at_its_value(variable: str, finding: str, tmp_path: Path) -> None:
    reading = read(tmp_path, f"environment: {{ {variable} }}")
    assert found(reading) == [finding]
    assert "hf_abcdefgh" not in str(reading.findings[0])
    assert KEY_ID not in str(reading.findings[0])


@pytest.mark.parametrize(
    "variable",
    ["DB_PASSWORD: /prod/db/password", "API_KEY: 'arn:aws:secretsmanager:us-east-1:111122223333:secret:a'"],
)
def test_names_of_secrets_are_no_secrets(variable: str, tmp_path: Path) -> None:
    assert found(read(tmp_path, f"environment: {{ {variable} }}")) == []


def test_long_variables_are_counted_without_a_script(tmp_path: Path) -> None:
    assert found(read(tmp_path, f"environment: {{ A: {'x' * 16_000} }}")) == ["7:46 error GPU-UD-001"]


def test_script_and_variables_are_counted_together(tmp_path: Path) -> None:
    padding = b"#!/bin/sh\n" + b"# padding\n" * 700
    assert found(read(tmp_path, "efa: false", padding)) == []
    assert found(read(tmp_path, f"environment: {{ A: {'x' * 5_000} }}", padding)) == ["7:57 error GPU-UD-001"]


CLUSTER = """\
version: 1
name: demo
region: us-east-1
network: { availability_zone: us-east-1a }
data:
  corpus: { lustre: { storage_capacity_gib: 38400, throughput_mb_per_s_per_tib: 250, efa: %s } }
  saves: { checkpoints: { express_zone_id: use1-az4 } }
training:
  fleets:
    a: { instance_type: p5.48xlarge, nodes: 2, mounts: { /fsx: corpus }, environment: { A: %s }%s }
"""
KUBECTL = "eks: { kubectl: { x86_64: { url: s3://my-tools/kubectl, sha256: " + "ab" * 32 + " } } }\n"


def room(folder: Path, *, efa: str = "false", more: str = "", head: str = "") -> int:
    """The longest variable with which the user data of a node are not too long."""

    def is_too_long(length: int) -> bool:
        file = folder / "cluster.yaml"
        text = CLUSTER % (efa, "x" * length, more)
        file.write_text(text.replace("network:", f"{head}network:", 1), encoding="utf-8")
        return "GPU-UD-001" in [finding.id for finding in read_cluster(file).findings]

    return bisect_left(range(16_384), True, key=is_too_long)


def test_what_the_app_adds_to_user_data_is_counted(tmp_path: Path) -> None:
    plain, on_eks = room(tmp_path), "orchestrator: eks\n"
    assert room(tmp_path, efa="true") < plain
    assert room(tmp_path, more=", checkpoints: saves") < plain
    assert room(tmp_path, head=on_eks + KUBECTL) < room(tmp_path, head=on_eks)


def test_a_wrong_variable_leaves_the_script_to_be_checked(tmp_path: Path) -> None:
    reading = read(tmp_path, "environment: { A: caf\u00e9 }", b"true\n")
    assert [finding.id for finding in reading.findings] == ["GPU-UD-005", "GPU-SPEC-008"]
