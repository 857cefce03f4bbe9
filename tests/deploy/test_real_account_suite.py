"""The suite for a real account, run against the emulator: it works, refuses, and leaves nothing, also when it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path

import pytest
from real_account.__main__ import _Ended, _signals_as_exceptions, main
from real_account.account import CLUSTER_PREFIX
from real_account.checks import SCENARIOS
from real_account.plan import DEFAULT_LIMIT_USD, total_usd
from real_account.results import read_results

from cdk_cli import bootstrap
from cdk_gpu_clusters.testing import Emulator

REPOSITORY = Path(__file__).resolve().parents[2]
ACCOUNT = "123456789012"
_PATIENCE_SECONDS = 600


@pytest.fixture(scope="module")
def account(new_account_of_file: Emulator) -> Emulator:
    bootstrap(new_account_of_file)
    return new_account_of_file


def environment(account: Emulator | None = None) -> dict[str, str]:
    found = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    found |= account.environment if account else {"AWS_EC2_METADATA_DISABLED": "true"}
    node = Path(os.environ["JSII_NODE"]).parent
    return found | {
        "PATH": os.pathsep.join([str(node), os.environ["PATH"]]),
        "PYTHONPATH": str(REPOSITORY / "tests" / "aws"),
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        "CI": "true",
    }


def start(*arguments: str, account: Emulator | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "real_account", *arguments],
        env=environment(account),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    output, _ = process.communicate(timeout=_PATIENCE_SECONDS)
    return process.returncode, output


def options(account: Emulator, results: Path, *more: str) -> list[str]:
    named = ["--account", ACCOUNT, "--emulator", account.endpoint_url, "--results", str(results)]
    return [*named, "--budget", "20", *more]


def left_in(account: Emulator) -> list[str]:
    """Types of what is there. The emulator still shows what an API call deleted, and keys that end by schedule."""
    left = [one for one in account.resources() if one["stack"] != "CDKToolkit"]
    deleted = set()
    if not any(one["Name"].startswith(CLUSTER_PREFIX) for one in account.client("s3").list_buckets()["Buckets"]):
        deleted |= {"AWS::S3::Bucket", "AWS::S3::BucketPolicy"}
    groups = {one["GroupId"] for one in account.client("ec2").describe_security_groups()["SecurityGroups"]}
    if not groups & {one["physical_id"] for one in left}:
        deleted |= {f"AWS::EC2::SecurityGroup{rules}" for rules in ("", "Ingress", "Egress")}
    kms = account.client("kms")
    keys = [kms.describe_key(KeyId=one["KeyId"])["KeyMetadata"]["KeyState"] for one in kms.list_keys()["Keys"]]
    if "Enabled" not in keys:
        deleted.add("AWS::KMS::Key")
    return [one["type"] for one in left if one["type"] not in deleted]


def wait_until_it_made_something(account: Emulator, process: subprocess.Popen[str]) -> None:
    """The emulator still shows some of what earlier runs removed."""
    before = len(account.resources())
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while len(account.resources()) <= before:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.2)


def refusal(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What it says when it refuses."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    return capsys.readouterr().err


# ----- before anything is made


def test_without_credentials_it_says_what_it_would_do_and_cost(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    output = capsys.readouterr().out
    for scenario in SCENARIOS:
        assert f"{scenario.name}: {scenario.makes}" in output
        assert all(check.name in output and check.doubt in output for check in scenario.checks)
    assert "USD at most in us-east-1" in output
    assert output.rstrip().endswith("nothing was done: give --account and --budget to run it")


def test_all_checks_together_cost_less_than_the_default_limit() -> None:
    assert Decimal(5) < total_usd(SCENARIOS, "us-east-1") <= DEFAULT_LIMIT_USD


def test_every_check_states_a_doubt_of_a_page_that_links_to_the_list() -> None:
    for check in (one for scenario in SCENARIOS for one in scenario.checks):
        assert check.doubt.endswith(".")
        assert check.pages
        for page in check.pages:
            assert "not-tried.md" in (REPOSITORY / page).read_text(encoding="utf-8"), (check.name, page)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (["--account", "210987654321"], "the credentials are of account 123456789012"),
        (["--account", ACCOUNT], "type what the run may cost"),
        (["--account", ACCOUNT, "--budget", "1"], "more than --budget 1"),
        (["--account", ACCOUNT, "--budget", "21"], "above the limit of 20 USD"),
        (["--account", ACCOUNT, "--budget", "much"], "is no amount"),
        (["--account", ACCOUNT, "--budget", "-5"], "is no amount"),
    ],
)
def test_it_refuses(account: Emulator, capsys: pytest.CaptureFixture[str], more: list[str], reason: str) -> None:
    assert reason in refusal(["--emulator", account.endpoint_url, *more], capsys)
    assert left_in(account) == []


def test_it_refuses_without_credentials(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in [one for one in os.environ if one.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    assert "no usable credentials" in refusal(["--account", ACCOUNT, "--budget", "20"], capsys)


# ----- the checks


def test_all_scenarios_pass_and_leave_nothing(account: Emulator, tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    status, output = finish(start(*options(account, results), account=account))
    assert status == 0, output
    assert "nothing is left" in output
    assert left_in(account) == []
    assert {check: result.outcome for check, result in read_results(results).items()} == {
        check.name: "passed" for scenario in SCENARIOS for check in scenario.checks
    }


# ----- killed half-way


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_run_once(number: signal.Signals) -> None:
    with _signals_as_exceptions():
        with pytest.raises(_Ended, match=number.name):
            signal.raise_signal(number)
        signal.raise_signal(number)  # what was made is being removed: another signal does not stop that


def test_a_run_that_is_interrupted_removes_what_it_made(account: Emulator, tmp_path: Path) -> None:
    process = start(*options(account, tmp_path / "r.json", "--only", "node"), account=account)
    wait_until_it_made_something(account, process)
    process.send_signal(signal.SIGINT)
    status, output = finish(process)
    assert status == 1, output
    assert "stopped (_Ended SIGINT)" in output
    assert left_in(account) == []


def test_a_killed_worker_leaves_nothing(account: Emulator, tmp_path: Path) -> None:
    process = start(*options(account, tmp_path / "r.json", "--only", "node"), account=account)
    assert process.stdout is not None
    worker = next(int(line.split()[1]) for line in process.stdout if line.startswith("worker "))
    wait_until_it_made_something(account, process)
    os.kill(worker, signal.SIGKILL)
    status, output = finish(process)
    assert (status, "nothing is left" in output) == (1, True), output
    assert left_in(account) == []


def test_what_a_killed_run_left_is_removed_by_the_next(
    account: Emulator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process = start(*options(account, tmp_path / "r.json", "--only", "node"), account=account)
    wait_until_it_made_something(account, process)
    process.kill()
    finish(process)
    assert left_in(account) != []
    for _ in range(2):  # again changes nothing
        assert main(options(account, tmp_path / "r.json", "--clean")) == 0
        assert "nothing is left" in capsys.readouterr().out
        assert left_in(account) == []
