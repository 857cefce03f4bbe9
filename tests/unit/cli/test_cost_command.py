"""`gpu-clusters cost`: its text, its JSON, its exit status, and what it refuses."""

from __future__ import annotations

import io
import json
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from cdk_gpu_clusters_stacks import preflight
from cdk_gpu_clusters_stacks.cli.main import main
from cost_month import CLUSTER, IDLE, JOBS, PAID, SACCT
from fake_aws import FakeAws, Refusal
from preflight_account import ACCOUNT

PERIOD = ["--from", "2026-11-01", "--to", "2026-12-01"]
NODES = ["--nodes", "trainers=t-[1-17]", "--nodes", "slices=s-[1-2]"]


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "cluster.yaml").write_text(CLUSTER, encoding="utf-8")
    return str(tmp_path / "cluster.yaml")


@pytest.fixture
def jobs(tmp_path: Path) -> list[str]:
    (tmp_path / "sacct.txt").write_text(SACCT, encoding="utf-8")
    return ["--jobs", str(tmp_path / "sacct.txt"), *PERIOD, *NODES]


def use(monkeypatch: pytest.MonkeyPatch, aws: FakeAws) -> None:
    monkeypatch.setattr(preflight, "boto3_clients", lambda *_, **__: aws.clients)


def test_a_file_costs_by_the_hour_and_to_the_end_of_the_month(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", file, "--at", "2026-11-01"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "llama in us-west-2, from 2026-11-01T00:00Z, if all of it is there"
    at = lines.index("fleet trainers (reservation, used or not)")
    assert lines[at + 1 : at + 3] == [
        "  by the hour  351.32 USD an hour, 8,431.73 USD a day [1]",
        "  this month   252,952.04 USD to 2026-12-01T00:00Z",
    ]
    at = lines.index("Together")
    assert lines[at + 1 : at + 3] == [
        "  by the hour  395.24 USD an hour, 9,485.70 USD a day + unknown",
        "  this month   284,571.04 USD to 2026-12-01T00:00Z + unknown",
    ]
    assert any("2026-09-19, verified." in line for line in lines)  # prices have dates


def test_a_month_of_jobs_as_text(file: str, jobs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", file, *jobs]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  read         8 runs of jobs, 1 row of steps left out, 1 row without nodes left out" in lines
    assert "  paid         252,952.04 USD: 11,520.00 node hours at 21.957642 USD [1]" in lines
    assert "  allocated    16,358.45 USD (6.5%), 5,960.00 GPU hours" in lines
    assert "  idle         236,593.59 USD (93.5%), 86,200.00 GPU hours" in lines
    assert "               101  2,634.92 USD, 960.00 GPU hours, bob for vision, 2 runs" in lines
    assert "  paid         284,571.04 USD" in lines


def test_a_month_of_jobs_as_json_adds_up(file: str, jobs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", file, *jobs, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert {one["name"]: Decimal(one["paid"]) for one in printed["fleets"]} == PAID
    assert {one["name"]: Decimal(one["idle"]) for one in printed["fleets"]} == IDLE
    assert {job["name"]: Decimal(job["usd"]) for one in printed["fleets"] for job in one["jobs"]} == JOBS
    assert (printed["runs"], printed["left_out"]) == (8, {"steps": 1, "without_nodes": 1, "repeated": 0})
    assert (printed["since"], printed["until"]) == ("2026-11-01T00:00Z", "2026-12-01T00:00Z")


def test_a_forecast_as_json_has_amounts_as_text(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", file, "--at", "2026-11-01", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["to_month_end"] == {"low": "284571.04", "high": "284571.04"}
    assert printed["in_advance"] is None
    (login,) = (part for part in printed["parts"] if part["name"] == "login nodes")
    assert login["per_hour"] is None
    assert set(printed) >= {"version", "not_counted", "month_ends_at"}


def test_jobs_on_standard_input(file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SACCT.encode())))
    assert main(["cost", file, "--jobs", "-", *PERIOD, *NODES]) == 0
    assert "236,593.59" in capsys.readouterr().out


def test_many_jobs_are_put_together(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    heading = SACCT.splitlines()[0]
    rows = [f"{n}|a|b|COMPLETED|2026-11-02T00:00:00|3600|gres/gpu=1|t-{n % 16 + 1}" for n in range(1, 26)]
    (tmp_path / "sacct.txt").write_text("\n".join([heading, *rows]), encoding="utf-8")
    assert main(["cost", file, "--jobs", str(tmp_path / "sacct.txt"), *PERIOD, *NODES]) == 0
    lines = capsys.readouterr().out.splitlines()
    (line,) = (line for line in lines if line.strip().startswith("5 more"))
    assert "5.00 GPU hours" in line


def test_tokens(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", file, "--tokens", "slices=1000000000", *PERIOD]) == 0
    assert "  tokens       31.6190 USD for a million of 1,000,000,000" in capsys.readouterr().out.splitlines()


def test_what_runs_and_the_bill(file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    tags = [{"Key": "gpu-cluster", "Value": "llama"}, {"Key": "aws:autoscaling:groupName", "Value": "slices"}]
    node = {"InstanceType": "p4d.24xlarge", "Placement": {"AvailabilityZone": "us-west-2b"}, "Tags": tags}
    aws = FakeAws(
        {
            "sts.get_caller_identity": {"Account": ACCOUNT},
            "ec2.describe_instances": {"Reservations": [{"Instances": [node, node]}]},
            "ec2.describe_capacity_reservations": {"CapacityReservations": []},
            "ce.get_cost_and_usage": Refusal("AccessDeniedException", "no"),
        }
    )
    use(monkeypatch, aws)
    assert main(["cost", file, "--live", "--bill"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"llama in us-west-2, account {ACCOUNT}, ")
    assert lines[1] == "  together     43.92 USD an hour at list prices"
    assert "  runs         Auto Scaling group slices: 2 x p4d.24xlarge, on demand, 43.92 USD an hour [1]" in lines
    at = lines.index("Cannot tell")
    assert lines[at + 1].strip().startswith("ce:GetCostAndUsage: ce:GetCostAndUsage is not allowed")


def test_expired_credentials_are_status_2(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, FakeAws({"sts.get_caller_identity": Refusal("ExpiredToken", "over")}))
    assert main(["cost", file, "--live"]) == 2
    assert "gpu-clusters: cost: the credentials have expired" in capsys.readouterr().err


def test_the_policy_is_printed_and_nothing_is_asked(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    aws = FakeAws({})
    use(monkeypatch, aws)
    assert main(["cost", file, "--live", "--bill", "--print-policy"]) == 0
    assert "ce:GetCostAndUsage" in json.loads(capsys.readouterr().out)["Statement"][0]["Action"]
    assert not aws.asked


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--live", "--at", "2026-11-01"], "not of several"),
        (["--at", "2026-11-01", *PERIOD], "not of several"),
        (["--bill"], "need --live"),
        (["--orphans"], "need --live"),
        (PERIOD, "need --jobs or --tokens"),
        (["--tokens", "slices=5"], "need --from"),
        (["--tokens", "slices=5", "--from", "2026-12-01", "--to", "2026-11-01"], "ends before it starts"),
        (["--tokens", "slices=many", *PERIOD], "'many' is no number of tokens"),
        (["--tokens", "slices", *PERIOD], "--tokens slices: give the name of a fleet, =, and its value"),
        (["--tokens", "slices=5", "--tokens", "slices=6", *PERIOD], "has a value for slices already"),
        (["--tokens", "slices=5", "--usd-per-node-hour", "slices=0", *PERIOD], "is no number from 0.0001"),
        (["--tokens", "slices=5", "--node-hours", "slices=NaN", *PERIOD], "is no number from 0.0001"),
        (["--tokens", "slices=5", "--node-hours", "slices=1e9999999", *PERIOD], "to 1,000,000,000,000"),
        (["--at", "9999-12-01"], "must end before the year 10000"),
        (["--tokens", "slices=5", "--nodes", "slices=s[1", *PERIOD], "is no host list"),
        (["--tokens", "slice=5", *PERIOD], "slice is no fleet of the file"),
        (["--jobs", "/absent/sacct.txt", *PERIOD], "cannot read /absent/sacct.txt"),
    ],
)
def test_what_cannot_be_used_is_status_2(
    arguments: list[str], words: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cost", file, *arguments]) == 2
    printed = capsys.readouterr()
    assert words in printed.err
    assert printed.out == ""


def test_all_faults_of_options_are_reported(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", file, "--tokens", "slices=many", "--node-hours", "slices=0", "--nodes", "=s-1", *PERIOD]) == 2
    faults = capsys.readouterr().err
    assert all(f"cost: {option} " in faults for option in ("--tokens", "--node-hours", "--nodes"))


def test_two_inputs_cannot_both_be_standard_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "-", "--jobs", "-", *PERIOD]) == 2
    assert "only one of the cluster file and --jobs" in capsys.readouterr().err


def test_all_faults_of_accounting_are_reported(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "sacct.txt").write_text(
        SACCT.replace("|172800|", "|x|").replace("2026-11-10T22:00:00", "never"), "utf-8"
    )
    assert main(["cost", file, "--jobs", str(tmp_path / "sacct.txt"), *PERIOD, *NODES]) == 2
    faults = capsys.readouterr().err
    assert "line 3: ElapsedRaw 'x' is no number of seconds" in faults
    assert "Start 'never' is no time" in faults


def test_of_very_many_faults_some_are_shown(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    heading = SACCT.splitlines()[0]
    rows = [f"{n}|a|b|COMPLETED|2026-11-02T00:00:00|3600|gres/gpu=1|strange-{n}" for n in range(1, 101)]
    (tmp_path / "sacct.txt").write_text("\n".join([heading, *rows]), encoding="utf-8")
    assert main(["cost", file, "--jobs", str(tmp_path / "sacct.txt"), *PERIOD, *NODES]) == 2
    faults = [line for line in capsys.readouterr().err.splitlines() if "cost: " in line]
    assert len(faults) == 21
    assert (
        faults[0]
        == "gpu-clusters: cost: job 1: strange-1 is a node of no fleet; name the nodes of a fleet with --nodes"
    )
    assert faults[-1] == "cost: 80 more faults"
