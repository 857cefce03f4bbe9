"""What a node must pass before it gets work: DCGM's diagnostics, and an all-reduce over its GPUs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode import acceptance
from cdk_gpu_clusters.node.gpunode.acceptance import acceptance_stages, probe_all_reduce, probe_dcgm
from cdk_gpu_clusters.node.gpunode.boot.stage import State, Verdict
from cdk_gpu_clusters.node.gpunode.node import Aws, Metadata, Node, Settings


def node(**settings: str) -> Node:
    given = {"accelerator": "gpu", "accelerator_count": "8", "nvlink": "900", **settings}
    return Node(Settings(given), Metadata(), "i-1", Aws("us-east-1"))


class Programs:
    """A folder that is the entire PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.have("nvidia-smi", "")

    def have(self, name: str, output: str, status: int = 0, errors: str = "") -> None:
        (self.folder / f"{name}.out").write_text(output)
        (self.folder / f"{name}.err").write_text(errors)
        program = self.folder / name
        program.write_text(
            f'#!/bin/sh\necho "$*" >>{self.folder}/calls\n/bin/cat {self.folder}/{name}.out\n'
            f"/bin/cat {self.folder}/{name}.err >&2\nexit {status}\n"
        )
        program.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path / "root"))
    return Programs(tmp_path)


def report(*results: dict[str, Any], name: str = "software", version: int = 4) -> str:
    key = "DCGM GPU Diagnostic" if version == 3 else "DCGM Diagnostic"
    tests = [{"name": name, "results": list(results)}]
    return json.dumps({key: {"test_categories": [{"category": "Deployment", "tests": tests}]}})


PASS = {"entity_group": "GPU", "entity_id": 0, "status": "Pass"}
# Printed on p5 nodes of HyperPod without nvidia-persistenced, 2026-08-10 (awslabs/awsome-distributed-ai).
PERSISTENCE = {
    "entity_group": "GPU",
    "entity_id": 0,
    "status": "Fail",
    "warnings": [
        {
            "error_category": 8,
            "error_id": 29,
            "error_severity": 5,
            "warning": "Persistence Mode: Persistence mode for GPU 0 is disabled.",
        }
    ],
}
ISOLATE = {
    "entity_id": 3,
    "status": "Fail",
    "warnings": [{"error_id": 12, "error_severity": 2, "warning": "Uncorrectable ECC memory error detected"}],
}
# DCGM 3 with `-r 3 -j` (NVIDIA/DCGM issue 139), and a failed test in that form.
SKIPPED_V3 = {"gpu_id": "0", "status": "Skip"}
FAILED_V3 = {"gpu_id": "1", "status": "Fail", "warnings": "AER error"}


# The words of NVIDIA/go-dcgm issue 52. DCGM gives a failed call of CUDA the severity "monitor" (dcgm_errors.c).
CUDA = {
    "entity_id": 0,
    "status": "Fail",
    "warnings": [{"error_id": 40, "error_severity": 1, "warning": "API call cuCtxCreate failed: busy or unavailable"}],
}
# Software.cpp of DCGM: a threshold of memory errors that was exceeded is a warning.
THRESHOLD = {
    "entity_id": 1,
    "status": "Warn",
    "warnings": [{"error_id": 97, "error_severity": 2, "warning": "SRAM threshold exceeded"}],
}


def summarized(*, severity: int) -> str:
    """A report of DCGM 4 whose error belongs to no GPU, beside a test without results."""
    warning = {"error_id": 21, "error_severity": severity, "warning": "Found driver on the denylist: nouveau"}
    summary = {"status": "Fail", "warnings": [warning]}
    tests = [
        {"name": "memory", "test_summary": {"status": "Skip"}},
        {"name": "software", "results": [{"entity_id": 0, "status": "Fail"}], "test_summary": summary},
    ]
    return json.dumps({"DCGM Diagnostic": {"test_categories": [{"category": "Deployment", "tests": tests}]}})


@pytest.mark.parametrize(
    ("text", "state", "words"),
    [
        (report(CUDA), State.FAILED, "API call cuCtxCreate failed"),
        (report(PASS, THRESHOLD), State.FAILED, "SRAM threshold exceeded"),
        (summarized(severity=5), State.OK, "driver on the denylist"),
        (summarized(severity=2), State.FAILED, "driver on the denylist"),
        (
            report({"gpu_id": "0", "status": "Fail", "warnings": [{"warnings": "no libcuda"}]}, version=3),
            State.FAILED,
            "no libcuda",
        ),
        (report(PASS), State.OK, "DCGM's diagnostics of level 1 pass"),
        (report(PASS, PERSISTENCE), State.OK, "Persistence mode for GPU 0 is disabled"),
        (
            report(PERSISTENCE, ISOLATE),
            State.FAILED,
            "DCGM: software of GPU 3: Uncorrectable ECC memory error detected",
        ),
        (report(PASS, SKIPPED_V3, FAILED_V3, name="PCIe", version=3), State.FAILED, "DCGM: PCIe of GPU 1: AER error"),
        (
            report({"status": "Warn", "warnings": "a process runs"}, name="Graphics"),
            State.OK,
            "Graphics: a process runs",
        ),
        (report(SKIPPED_V3, version=3), State.OK, "not judged"),
        (
            "Error: unable to establish a connection to the specified host: localhost\n",
            State.OK,
            "not judged: dcgmi: Error",
        ),
        ("", State.OK, "not judged"),
        ("{", State.OK, "not judged"),
        ('{"DCGM Diagnostic": {"runtime_error": "x"}}', State.OK, "not judged"),
        (
            '{"DCGM Diagnostic": {"test_categories": [{"tests": [{"name": 1, "results": [7, null]}]}]}}',
            State.OK,
            "not judged",
        ),
    ],
)
def test_dcgm_diagnostics(programs: Programs, text: str, state: State, words: str) -> None:
    # dcgmi ends with another status than 0 also after minor findings.
    programs.have("dcgmi", text, status=226)
    verdict = probe_dcgm(node())
    assert verdict.state is state
    assert words in verdict.reason
    assert programs.calls == ["diag -r 1 -j --timeout 270"]


def test_without_dcgm_the_node_is_not_judged(programs: Programs) -> None:
    assert probe_dcgm(node()) == Verdict.ok("dcgmi is not installed")


def test_diagnostics_that_use_the_gpus_leave_a_job_alone(programs: Programs) -> None:
    programs.have("nvidia-smi", "4711\n")
    programs.have("dcgmi", report(ISOLATE))
    assert probe_dcgm(node(dcgm_level="2")) == Verdict.ok("not judged: GPUs are in use by 4711")


@pytest.mark.parametrize("mode", ["dry-run", "off"])
def test_findings_are_only_reported_if_the_watchdog_does_not_act(programs: Programs, mode: str) -> None:
    programs.have("dcgmi", report(ISOLATE))
    verdict = probe_dcgm(node(watch=mode))
    assert verdict.state is State.OK
    assert verdict.reason.endswith("(only reported)")


ROW = "  4294967296    1073741824     float     sum      -1    31427  273.33  {speed}      {wrong}    31439  273.22  {speed}      0\n"


@pytest.mark.parametrize(
    ("speed", "wrong", "settings", "state", "words"),
    [
        (430.5, 0, {}, State.OK, "all-reduce: 430.5 GB/s at 4 GiB"),
        (300, 0, {}, State.FAILED, "all-reduce too slow: 300 GB/s at 4 GiB, less than 80 % of 450 GB/s"),
        (430, 2, {}, State.FAILED, "all_reduce_perf: 2 values are wrong"),
        (20, 0, {"nvlink": ""}, State.OK, "all-reduce: 20 GB/s at 4 GiB"),
        (300, 0, {"watch": "dry-run"}, State.OK, "(only reported)"),
    ],
)
def test_all_reduce(
    programs: Programs, speed: float, wrong: int, settings: dict[str, str], state: State, words: str
) -> None:
    programs.have("all_reduce_perf", ROW.format(speed=f"{speed:.2f}", wrong=wrong))
    verdict = probe_all_reduce(node(**{"all_reduce_percent": "80", **settings}))
    assert (verdict.state, words in verdict.reason) == (state, True), verdict.reason
    assert programs.calls[-1] == "-b 8 -e 4G -f 2 -g 8"


def test_all_reduce_that_fails(programs: Programs) -> None:
    programs.have("all_reduce_perf", "", status=1, errors="Test NCCL failure common.cu:1005 'unhandled system error'\n")
    verdict = probe_all_reduce(node(all_reduce_percent="80"))
    assert verdict.state is State.FAILED
    assert "unhandled system error" in verdict.reason


def test_all_reduce_that_cannot_run_does_not_judge(programs: Programs) -> None:
    assert probe_all_reduce(node(all_reduce_percent="80")) == Verdict.ok("not judged: no all_reduce_perf")
    programs.have("all_reduce_perf", "")
    programs.have("nvidia-smi", "4711\n")
    assert probe_all_reduce(node(all_reduce_percent="80")) == Verdict.ok("not judged: GPUs are in use by 4711")


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({}, ["dcgm"]),
        ({"dcgm_level": "0"}, []),
        ({"dcgm_level": "9"}, []),
        ({"all_reduce_percent": "80"}, ["dcgm", "all-reduce"]),
        ({"all_reduce_percent": "80", "accelerator_count": "1"}, ["dcgm"]),
        ({"all_reduce_percent": "80", "mig_count": "7"}, []),
        ({"accelerator": "neuron"}, []),
    ],
)
def test_stages_of_the_settings(settings: dict[str, str], names: list[str]) -> None:
    assert [stage.name for stage in acceptance_stages(node(**settings))] == names


def test_slow_program_is_left_alone(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptance, "_DCGM_SECONDS", {1: 0.1})
    (programs.folder / "dcgmi").write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    (programs.folder / "dcgmi").chmod(0o755)
    first, second = probe_dcgm(node()), probe_dcgm(node())
    assert (first.state, second.state) == (State.FAILED, State.FAILED), "it still runs on the GPUs"
    assert "dcgmi did not end within 0.1 s" in first.reason
    assert "dcgmi is still running" in second.reason
