"""The suite for a real account, run against the emulator: it works, refuses, and leaves nothing, also when it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from real_account.account import CLUSTER_PREFIX
from real_account.checks import SCENARIOS
from real_account.plan import DEFAULT_LIMIT_USD, total_usd
from real_account.results import read_results

from cdk_gpu_clusters.testing import Emulator

REPOSITORY = Path(__file__).resolve().parents[2]
ACCOUNT = "123456789012"
_PATIENCE_SECONDS = 240


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with Emulator() as made:
        cdk = os.environ.get("CDK_CLI", str(REPOSITORY / ".tools" / "node_modules" / ".bin" / "cdk"))
        subprocess.run(
            [cdk, "bootstrap", f"aws://{ACCOUNT}/us-east-1"],
            cwd=tmp_path_factory.mktemp("bootstrap"),
            env=environment(made),
            check=True,
            capture_output=True,
        )
        yield made


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


def wait_for(seen: Callable[[], object]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.2)


# ----- before anything is made


def test_without_credentials_it_says_what_it_would_do_and_cost() -> None:
    status, output = finish(start())
    assert status == 0
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
def test_it_refuses(account: Emulator, more: list[str], reason: str) -> None:
    status, output = finish(start("--emulator", account.endpoint_url, *more, account=account))
    assert (status, reason in output) == (2, True), output
    assert left_in(account) == []


def test_it_refuses_without_credentials() -> None:
    found = environment() | {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
    done = subprocess.run(
        [sys.executable, "-m", "real_account", "--account", ACCOUNT, "--budget", "20"],
        env=found,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "no usable credentials" in done.stderr) == (2, True), done.stderr


# ----- the checks


@pytest.mark.parametrize("name", [scenario.name for scenario in SCENARIOS])
def test_a_scenario_passes_and_leaves_nothing(account: Emulator, tmp_path: Path, name: str) -> None:
    results = tmp_path / "results.json"
    status, output = finish(start(*options(account, results, "--only", name), account=account))
    assert status == 0, output
    assert "nothing is left" in output
    assert left_in(account) == []
    (scenario,) = (one for one in SCENARIOS if one.name == name)
    found = read_results(results)
    assert {check: result.outcome for check, result in found.items()} == {
        check.name: "passed" for check in scenario.checks
    }


# ----- killed half-way


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_interrupted_removes_what_it_made(
    account: Emulator, tmp_path: Path, number: signal.Signals
) -> None:
    process = start(*options(account, tmp_path / "r.json", "--only", "node"), account=account)
    wait_for(lambda: left_in(account))
    process.send_signal(number)
    status, output = finish(process)
    assert status == 1, output
    assert f"stopped (_Ended {number.name})" in output
    assert left_in(account) == []


def test_a_killed_worker_leaves_nothing(account: Emulator, tmp_path: Path) -> None:
    process = start(*options(account, tmp_path / "r.json", "--only", "node"), account=account)
    assert process.stdout is not None
    worker = next(int(line.split()[1]) for line in process.stdout if line.startswith("worker "))
    wait_for(lambda: left_in(account))
    os.kill(worker, signal.SIGKILL)
    status, output = finish(process)
    assert (status, "nothing is left" in output) == (1, True), output
    assert left_in(account) == []


def test_what_a_killed_run_left_is_removed_by_the_next(account: Emulator, tmp_path: Path) -> None:
    process = start(*options(account, tmp_path / "r.json", "--only", "node"), account=account)
    wait_for(lambda: left_in(account))
    process.kill()
    finish(process)
    assert left_in(account) != []
    for _ in range(2):  # again changes nothing
        status, output = finish(start(*options(account, tmp_path / "r.json", "--clean"), account=account))
        assert (status, "nothing is left" in output) == (0, True), output
        assert left_in(account) == []
