"""Pinning an image: one key of one file, and a line that a person can read when it fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from cdk_gpu_clusters.rules.images import choose_image, image_context_key
from cdk_gpu_clusters_stacks.cli.main import main
from cdk_gpu_clusters_stacks.cli.pin_image import pin_image

PARAMETER = "/images/training/latest"


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        boto3.client("ssm", region_name="us-east-1").put_parameter(
            Name=PARAMETER, Value="ami-0123456789abcdef0", Type="String"
        )
        yield


@pytest.mark.usefixtures("account")
def test_only_the_one_key_is_written(tmp_path: Path) -> None:
    file = tmp_path / "cdk.context.json"
    file.write_text(json.dumps({"vpc-provider:x": {"vpcId": "vpc-1"}}))
    assert pin_image(PARAMETER, region="us-east-1", context_file=file) == "ami-0123456789abcdef0"
    assert json.loads(file.read_text()) == {
        "vpc-provider:x": {"vpcId": "vpc-1"},
        image_context_key("us-east-1", PARAMETER): "ami-0123456789abcdef0",
    }


@pytest.mark.usefixtures("account")
def test_the_file_is_made_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["pin-image", "--region", "us-east-1", PARAMETER]) == 0
    assert "ami-0123456789abcdef0" in capsys.readouterr().out
    assert (tmp_path / "cdk.context.json").exists()


def cluster_file(folder: Path, text: str) -> Path:
    file = folder / "cluster.yaml"
    file.write_text(text)
    return file


def test_a_cluster_file_has_its_images_pinned_and_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    nodes = (
        "instance_type: p5.48xlarge, nodes: 2, capacity: { reservation: cr-0123456789abcdef0, placement_group: none }"
    )
    text = f"""# Ours.
version: 1
name: lab
region: us-east-1
network: {{ availability_zone: us-east-1a }}
training:
  fleets:
    first: {{ {nodes} }}   # as AWS has it
    second: {{ {nodes} }}
    own: {{ {nodes}, image: {{ id: ami-0fedcba9876543210 }} }}
    newest: {{ {nodes}, image: {{ os: ubuntu-24.04 }} }}
"""
    file = cluster_file(tmp_path, text)
    asked = []

    class Ssm:
        def get_parameter(self, Name: str) -> dict[str, dict[str, str]]:  # noqa: N803 - boto3's
            asked.append(Name)
            return {"Parameter": {"Value": "ami-0aaaaaaaaaaaaaaaa"}}

    class Session:
        def client(self, _service: str, region_name: str) -> Ssm:
            return {"us-east-1": Ssm()}[region_name]

    monkeypatch.setattr("cdk_gpu_clusters_stacks.aws_session.open_session", Session)
    assert main(["pin-image", str(file)]) == 0
    [parameter] = asked
    assert parameter.startswith("/aws/service/deeplearning/ami/x86_64/")
    written = json.loads((tmp_path / "cdk.context.json").read_text())
    assert written == {image_context_key("us-east-1", parameter): "ami-0aaaaaaaaaaaaaaaa"}
    assert capsys.readouterr().out.count(" is pinned to ") == 1
    assert file.read_text() == text


def test_a_pinned_image_with_pytorch_is_looked_up_by_its_own_parameter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = cluster_file(
        tmp_path,
        """version: 1
name: lab
region: us-east-1
network: { availability_zone: us-east-1a }
training:
  fleets:
    a: { instance_type: g6.xlarge, nodes: 2, image: { os: al2023, framework: pytorch, pinned: true } }
""",
    )

    class Ssm:
        def get_parameter(self, Name: str) -> dict[str, dict[str, str]]:  # noqa: N803 - boto3's
            return {"Parameter": {"Value": "ami-0aaaaaaaaaaaaaaaa"}}

    class Session:
        def client(self, _service: str, region_name: str) -> Ssm:
            return {"us-east-1": Ssm()}[region_name]

    monkeypatch.setattr("cdk_gpu_clusters_stacks.aws_session.open_session", Session)
    assert main(["pin-image", str(file)]) == 0
    parameter = choose_image("g6.xlarge", operating_system="al2023", variant="pytorch").parameter
    written = json.loads((tmp_path / "cdk.context.json").read_text())
    assert written == {image_context_key("us-east-1", parameter): "ami-0aaaaaaaaaaaaaaaa"}


def test_a_region_that_is_not_the_files_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = cluster_file(
        tmp_path, "version: 1\nname: lab\nregion: us-east-1\nnetwork: { availability_zone: us-east-1a }\n"
    )
    assert main(["pin-image", "--region", "us-west-2", str(file)]) == 2
    assert main(["pin-image", PARAMETER]) == 2
    assert "give --region" in capsys.readouterr().err


@pytest.mark.usefixtures("account")
def test_a_missing_parameter_is_one_line_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["pin-image", "--region", "us-east-1", "/images/none"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("gpu-clusters pin-image: cannot read /images/none in us-east-1")
    assert "Traceback" not in error
    assert not list(tmp_path.iterdir())
