"""The command `preflight`: its text, its JSON, its policy, and its exit status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters_stacks import preflight
from cdk_gpu_clusters_stacks.cli.main import main
from fake_aws import FakeAws, Refusal
from preflight_account import ACCOUNT, NEW, healthy, limit


@pytest.fixture
def file(tmp_path: Path) -> str:
    made = tmp_path / "cluster.yaml"
    made.write_text(NEW, encoding="utf-8")
    return str(made)


def use(monkeypatch: pytest.MonkeyPatch, aws: FakeAws) -> None:
    monkeypatch.setattr(preflight, "boto3_clients", lambda *_, **__: aws.clients)


def test_all_well_is_status_0(file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    use(monkeypatch, healthy())
    assert main(["preflight", file]) == 0
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert lines[0] == f"llama in us-east-1, account {ACCOUNT}"
    assert "pass         GPU-PRE-021 EC2 offers the instance type in the zones of the fleet" in lines
    assert "fail" not in said.out
    assert lines[-1].endswith(" not applicable")
    assert said.err == ""  # no progress in a pipe


def test_a_failed_check_is_status_1_and_says_the_fix(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, healthy().but(service_quotas__get_service_quota=limit(100)))
    assert main(["preflight", file]) == 1
    said = capsys.readouterr().out
    at = said.index("fail         GPU-PRE-031")
    cause, fix = said[at:].splitlines()[1:3]
    assert cause.strip().startswith("training.fleets.trainers: Running On-Demand P instances: 100 vCPU, 384 needed")
    assert fix.strip().startswith("fix: ask for 384 more than is used: aws service-quotas request-service")


def test_what_cannot_be_told_names_the_permission_and_is_no_failure(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, healthy().but(kms__describe_key=Refusal("AccessDeniedException", "no")))
    assert main(["preflight", file]) == 0
    said = capsys.readouterr().out
    assert "cannot tell  GPU-PRE-131" in said
    assert "fix: allow kms:DescribeKey, see --print-policy" in said


def test_json_has_every_check(file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    use(monkeypatch, healthy().but(kms__describe_key=Refusal("AccessDeniedException", "no")))
    assert main(["preflight", file, "--json"]) == 0
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    results = {one["id"]: one for one in said["results"]}
    assert (said["cluster"], said["region"], said["account"]) == ("llama", "us-east-1", ACCOUNT)
    assert len(results) == len(preflight.every_check())
    assert results["GPU-PRE-131"]["outcome"] == "cannot tell"
    assert results["GPU-PRE-131"]["verdicts"][0]["permission"] == "kms:DescribeKey"
    assert results["GPU-PRE-032"] == {
        "id": "GPU-PRE-032",
        "title": "the Spot vCPU quota has room for spot fleets",
        "outcome": "not applicable",
        "verdicts": [],
        "reason": "no fleet is spot",
    }


def test_the_policy_is_printed_without_asking(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr(preflight, "boto3_clients")
    assert main(["preflight", file, "--print-policy"]) == 0
    assert "ec2:DescribeCapacityReservations" in json.loads(capsys.readouterr().out)["Statement"][0]["Action"]


@pytest.mark.parametrize("code", ["ExpiredToken", "InvalidClientTokenId"])
def test_unusable_credentials_are_one_line_and_status_2(
    code: str, file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, healthy().but(sts__get_caller_identity=Refusal(code)))
    assert main(["preflight", file]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("gpu-clusters: preflight: ")
    assert code in said.err
    assert said.err.count("\n") == 1


def test_credentials_that_expire_meanwhile_are_one_line_and_status_2(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, healthy().but(ec2__describe_vpcs=Refusal("RequestExpired")))
    assert main(["preflight", file]) == 2
    assert "have expired" in capsys.readouterr().err


def test_without_credentials_it_is_one_line_and_status_2(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/no/such/file")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    assert main(["preflight", file]) == 2
    assert "no AWS credentials: sign in" in capsys.readouterr().err


def test_a_region_that_is_not_the_files_is_refused(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preflight", file, "--region", "eu-west-1"]) == 2
    assert "--region eu-west-1 is not the Region of" in capsys.readouterr().err


def test_the_region_of_the_file_may_be_repeated(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, healthy())
    assert main(["preflight", file, "--region", "us-east-1"]) == 0


def test_a_faulty_file_is_status_2_and_asks_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = tmp_path / "cluster.yaml"
    made.write_text(NEW.replace("p5.48xlarge", "p5.47xlarge"), encoding="utf-8")
    assert main(["preflight", str(made)]) == 2
    assert "GPU-INST-001" in capsys.readouterr().err


def test_a_terminal_sees_progress_and_colours(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, healthy())
    for stream in ("sys.stdout", "sys.stderr"):
        monkeypatch.setattr(f"{stream}.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("CI", raising=False)
    assert main(["preflight", file]) == 0
    said = capsys.readouterr()
    assert "asking us-east-1" in said.err
    assert "\x1b[32mpass" in said.out
