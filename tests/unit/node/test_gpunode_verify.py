"""`gpunode verify`: which checks a node has, what holds when one breaks or hangs, and what is told."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from cdk_gpu_clusters.node.gpunode import cli
from cdk_gpu_clusters.node.gpunode.checks.check import Result, Severity, Undetermined
from cdk_gpu_clusters.node.gpunode.checks.verify import as_table, checks_of, verify, worst
from cdk_gpu_clusters.node.gpunode.node import Aws, Metadata, Node, Settings, read_settings
from fakes import gpu_health


def node(**settings: str) -> Node:
    return Node(Settings(settings), Metadata(), "i-1", Aws("us-east-1"))


WELL = Result("first", Severity.OK, "all there")


def well(_: Node) -> list[Result]:
    return [WELL]


def broken(_: Node) -> list[Result]:
    raise ZeroDivisionError("no GPUs")


def untold(_: Node) -> list[Result]:
    raise Undetermined("nvidia-smi: no driver")


def test_a_broken_check_is_one_unknown_result() -> None:
    results = verify(node(), {"first": well, "second": broken, "third": untold})
    assert results == [
        WELL,
        Result("second", Severity.UNKNOWN, "the check itself failed: ZeroDivisionError: no GPUs"),
        Result("third", Severity.UNKNOWN, "nvidia-smi: no driver"),
    ]


def test_a_check_that_hangs_holds_nobody_back() -> None:
    release = threading.Event()

    def hangs(_: Node) -> list[Result]:
        release.wait()
        return [WELL]

    results = verify(node(), {"late": hangs, "first": well}, deadline_seconds=0.2)
    release.set()
    assert results == [Result("late", Severity.UNKNOWN, "not done in time"), WELL]


def test_checks_run_beside_each_other() -> None:
    """The first waits for the second, which would wait for it for ever if it came later."""
    met = threading.Barrier(2)

    def waits(_: Node) -> list[Result]:
        met.wait(timeout=20)
        return [WELL]

    assert verify(node(), {"one": waits, "two": waits}) == [WELL, WELL]


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"efa_count": "0", "accelerator_count": "0"}, ""),
        ({"accelerator": "gpu"}, "gpus driver recovery ecc sram row-remapping pcie clocks numa"),
        (
            {"accelerator": "gpu", "nvlink": "900", "efa_count": "32", "mig_count": "56", "mounts": "1"},
            "gpus driver recovery ecc sram row-remapping pcie clocks nvlink fabric mig efa efa-provider nccl-plugin numa lustre",
        ),
        ({"accelerator": "neuron", "efa_count": "8"}, "neuron neuron-memory efa efa-provider numa"),
        ({"mounts": "2"}, "lustre"),
        ({"mounts": "1", "nfs_mounts": "1"}, "lustre nfs"),
    ],
)
def test_a_node_is_checked_for_what_its_settings_say(settings: dict[str, str], names: str) -> None:
    assert list(checks_of(node(**settings))) == names.split()


def test_severities_are_ordered_and_nothing_checked_is_nothing_known() -> None:
    found = [Result("a", severity, "") for severity in (Severity.MONITOR, Severity.REBOOT, Severity.OK)]
    assert worst(found) is Severity.REBOOT
    assert worst([]) is Severity.UNKNOWN


def test_the_table_is_aligned_and_says_what_to_do() -> None:
    results = [
        Result("gpus", Severity.OK, "8 GPUs", "8 GPUs"),
        Result("row-remapping", Severity.RESET, "GPU 1: waits", "none", "reset the GPU"),
        Result("sram", Severity.UNKNOWN, "no driver"),
    ]
    assert as_table(results).splitlines() == [
        "ok       gpus           8 GPUs",
        "reset    row-remapping  GPU 1: waits",
        "                        expected: none",
        "                        to do: reset the GPU",
        "unknown  sram           no driver",
    ]
    assert as_table([]) == ""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with two healthy GPUs, whose metadata service knows its id."""
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    monkeypatch.setattr(cli, "this_node", lambda: Node(read_settings(), Metadata(), "i-0ab", Aws("us-east-1")))
    settings = tmp_path / "etc/gpu-cluster/node.env"
    settings.parent.mkdir(parents=True)
    settings.write_text("GPU_ACCELERATOR=gpu\nGPU_ACCELERATOR_COUNT=2\nGPU_MODEL='RTX PRO Server 6000'\n")
    ok = {"name": "NVIDIA RTX PRO 6000 Blackwell Server Edition", "recovery": "None"}
    gpu_health.install(tools, {"gpus": [ok, ok]})
    return tmp_path


def test_a_healthy_node(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verify"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [["ok", name] for name in checks_of(node(accelerator="gpu"))]


def test_the_exit_status_is_the_worst_finding(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    states: list[tuple[dict[str, object], int]] = [
        ({"text": "NVIDIA-SMI has failed", "status": 9}, 1),
        ({"gpus": [{"pcie.link.width.current": "4"}, {}]}, 2),
        ({"gpus": [{"ecc.errors.uncorrected.volatile.total": "1"}, {}]}, 3),
        ({"gpus": [{"recovery": "Reboot"}, {}]}, 4),
        ({"gpus": [{"lost": True}, {}]}, 5),
    ]
    for state, status in states:
        gpu_health.install(machine / "tools", state)
        assert cli.main(["verify"]) == status
    assert "replace the node" in capsys.readouterr().out


def test_as_json(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gpu_health.install(machine / "tools", {"gpus": [{"lost": True}, {}]})
    assert cli.main(["verify", "--json"]) == int(Severity.REPLACE)
    [line] = capsys.readouterr().out.splitlines()
    told = json.loads(line)
    assert (told["instance_id"], told["severity"]) == ("i-0ab", "replace")
    time.strptime(told["time"], "%Y-%m-%dT%H:%M:%SZ")
    assert set(told["results"][0]) == {"check", "severity", "found", "expected", "fix", "is_acceptable"}
    assert told["results"][0]["severity"] == "replace"


def test_a_node_without_settings_is_not_called_well(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (machine / "etc/gpu-cluster/node.env").unlink()
    assert cli.main(["verify"]) == int(Severity.UNKNOWN)
    assert "nothing to check" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["verfy"], ["verify", "--yaml"]])
def test_misuse_is_no_severity(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(arguments)
    assert end.value.code == 64


def test_help_ends_well_and_tells_the_exit_statuses(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["verify", "--help"])
    assert end.value.code == 0
    told = " ".join(capsys.readouterr().out.split())
    for severity in Severity:
        assert f"{int(severity)} " in told
