"""Pinning an image: one key of one file, and a line that a person can read when it fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from cdk_gpu_clusters.rules.images import image_context_key
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
