"""`gpu-clusters explain` for a cluster file and for what was saved: its text, its JSON, its files, its exit status."""

from __future__ import annotations

import io
import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters_stacks import preflight
from cdk_gpu_clusters_stacks.cli.main import main
from fake_aws import FakeAws, Refusal
from preflight_account import ACCOUNT, NEW

SPOT = "Launching a new EC2 instance. Status Reason: Max spot instance count exceeded. Launching EC2 instance failed."
ABSENT = Refusal("ValidationError", "Stack with id x does not exist")


def event(text: str) -> dict[str, Any]:
    return {
        "StackId": "arn:aws:cloudformation:us-east-1:111122223333:stack/x/1",
        "EventId": "1",
        "StackName": "x",
        "Timestamp": "2099-12-02T11:00:00+00:00",
        "ResourceStatus": "CREATE_FAILED",
        "ResourceType": "AWS::EC2::VPC",
        "LogicalResourceId": "Vpc",
        "ResourceStatusReason": text,
    }


def account(*texts: str) -> FakeAws:
    """An account in which the stack of the network failed so, and no other one is there."""

    def events(asked: Any) -> Any:
        found = [event(text) for text in texts]
        return {"StackEvents": found} if asked["StackName"] == "llama-network" and found else ABSENT

    return FakeAws(
        {
            "sts.get_caller_identity": {"Account": ACCOUNT},
            "cloudformation.describe_stack_events": events,
            "cloudformation.list_stack_resources": ABSENT,
            "cloudtrail.lookup_events": Refusal("AccessDeniedException", "no"),
            "ec2.describe_fleets": {"Fleets": []},
        }
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "cluster.yaml"
    made.write_text(NEW, encoding="utf-8")
    return made


def use(monkeypatch: pytest.MonkeyPatch, aws: FakeAws) -> None:
    monkeypatch.setattr(preflight, "boto3_clients", lambda *_, **__: aws.clients)


def test_failures_are_status_1_with_cause_fix_and_rule(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, account("The maximum number of VPCs has been reached.", "words\nthat nobody knows"))
    assert main(["explain", str(file)]) == 1
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[0].startswith(f"llama in us-east-1, account {ACCOUNT}: 2 failures since ")
    at = lines.index("network")
    assert lines[at + 1 : at + 6] == [
        "  2099-12-02T11:00Z  CloudFormation event AWS::EC2::VPC Vpc",
        "    The maximum number of VPCs has been reached.",
        "    cause: the account has as many VPCs in the Region as its quota allows",
        "    fix: delete unused VPCs, use an existing network, or ask for a higher quota",
        "    rule: GPU-PRE-041 the VPC quota has room for the cluster's",
    ]
    unknown = lines.index("    words")
    assert lines[unknown + 1 : unknown + 3] == [
        "    that nobody knows",
        "    cause: unknown: the table of messages has none like it",
    ]
    assert "  cloudtrail:LookupEvents: cloudtrail:LookupEvents is not allowed" in lines
    assert "    fix: allow cloudtrail:LookupEvents, see --print-policy" in lines
    assert lines[-1].startswith("not deployed: llama-")
    assert printed.err == ""


def test_no_failure_is_status_0_also_if_something_could_not_be_read(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, account())
    assert main(["explain", str(file)]) == 0
    printed = capsys.readouterr().out
    assert ": no failures since " in printed
    assert "cannot tell" in printed


def test_json_has_everything(file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    use(monkeypatch, account("The maximum number of VPCs has been reached."))
    assert main(["explain", str(file), "--json"]) == 1
    printed = json.loads(capsys.readouterr().out)
    (failure,) = printed["failures"]
    assert (failure["about"], failure["known"], failure["rules"]) == ("network", ["quota-vpcs"], ["GPU-PRE-041"])
    assert failure["sources"] == ["virt-s1/rhel-edge#3947"]
    assert [one["permission"] for one in printed["unread"]] == ["cloudtrail:LookupEvents"] * 1
    assert printed["account"] == ACCOUNT


def test_what_was_read_is_saved_once_and_explained_again(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, account("The maximum number of VPCs has been reached."))
    saved = file.with_name("saved.json")
    assert main(["explain", str(file), "--save", str(saved)]) == 1
    first = capsys.readouterr().out
    assert main(["explain", "--saved", str(saved)]) == 1
    assert capsys.readouterr().out == first
    before = saved.read_bytes()
    monkeypatch.delattr(preflight, "boto3_clients")  # nothing is asked that could not be saved
    assert main(["explain", str(file), "--save", str(saved)]) == 2
    assert "exists; --force writes over it" in capsys.readouterr().err
    assert saved.read_bytes() == before


def test_force_writes_over_a_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, account())
    saved = file.with_name("saved.json")
    saved.write_text("mine", encoding="utf-8")
    assert main(["explain", str(file), "--save", str(saved), "--force"]) == 0
    assert json.loads(saved.read_text("utf-8"))["cluster"] == "llama"
    assert stat.S_IMODE(saved.stat().st_mode) & 0o111 == 0


def test_the_policy_is_printed_without_asking(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr(preflight, "boto3_clients")
    assert main(["explain", str(file), "--print-policy"]) == 0
    assert "cloudtrail:LookupEvents" in json.loads(capsys.readouterr().out)["Statement"][0]["Action"]


def test_unusable_credentials_are_one_line_and_status_2(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, account().but(sts__get_caller_identity=Refusal("ExpiredToken")))
    assert main(["explain", str(file)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("gpu-clusters: explain: the credentials have expired")
    assert printed.err.count("\n") == 1


# What was saved before.


def test_a_text_on_standard_input_is_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{SPOT}\n".encode())))
    assert main(["explain", "--saved", "-"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "1 failure",
        "",
        "in the file",
        "  text",
        f"    {SPOT}",
        "    cause: the launch needs more vCPUs than the account's Spot quota of this family",
        "    fix: ask for a higher quota of Spot instance requests of the family",
        "    rule: GPU-PRE-032 the Spot vCPU quota has room for spot fleets",
    ]


def test_the_output_of_the_aws_cli_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "activities.json"
    activities = [{"StatusCode": "Failed", "StatusMessage": SPOT, "AutoScalingGroupName": "trainers"}]
    saved.write_text(json.dumps({"Activities": activities}), encoding="utf-8")
    assert main(["explain", "--saved", str(saved)]) == 1
    assert "  now  Auto Scaling activity trainers" in capsys.readouterr().out


def test_no_failure_in_a_file_is_status_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "activities.json"
    saved.write_text('{"Activities": []}', encoding="utf-8")
    assert main(["explain", "--saved", str(saved)]) == 0
    assert capsys.readouterr().out == "no failures\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "it is empty"), (b'{"Reservations": []}', "it has none of"), (b"\xff\xfe\x00", "is no text in UTF-8")],
)
def test_a_file_that_cannot_be_used_is_one_line_and_status_2(
    content: bytes, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "saved"
    saved.write_bytes(content)
    assert main(["explain", "--saved", str(saved)]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert words in printed.err


def test_control_characters_of_a_message_are_not_obeyed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "saved"
    saved.write_text("\x1b[2Jodd", encoding="utf-8")
    assert main(["explain", "--saved", str(saved)]) == 1
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["GPU-EFA-001", "--saved", "x"],
        ["--saved", "x", "--save", "y"],
        ["--saved", "x", "--print-policy"],
        ["GPU-EFA-001", "--save", "y"],
        ["GPU-EFA-001", "--print-policy"],
        ["--saved", "/no/such/file"],
        ["/no/such/cluster.yaml"],
        ["GPU-EFA-001", "--hours", "0"],
    ],
)
def test_arguments_that_do_not_go_together_are_status_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Traceback" not in printed.err


def test_the_shell_completes_rules_and_cluster_files(tmp_path: Path) -> None:
    (tmp_path / "llama.yaml").touch()
    for incomplete, expected in (("lla", "llama.yaml"), ("GPU-EFA-00", "GPU-EFA-001")):
        environment = {
            "_GPU_CLUSTERS_COMPLETE": "complete_zsh",
            "_TYPER_COMPLETE_ARGS": f"gpu-clusters explain {incomplete}",
            "PATH": "",
        }
        command = [sys.executable, "-m", "cdk_gpu_clusters_stacks.cli.main"]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert expected in done.stdout
