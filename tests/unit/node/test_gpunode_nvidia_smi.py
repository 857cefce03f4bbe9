"""Reading `nvidia-smi --query-...`: what the program prints, and what it may print."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdk_gpu_clusters.node.gpunode import nvidia_smi
from fakes import gpu_health


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


def test_a_row_for_each_gpu(tools: Path) -> None:
    gpu_health.install(tools, {"gpus": [{}, {"temperature.gpu": "60"}]})
    answer = nvidia_smi.query(["temperature.gpu"])
    assert answer.rows == [
        {"index": "0", "temperature.gpu": "45"},
        {"index": "1", "temperature.gpu": "60"},
    ]
    assert answer.outcome.ok
    assert not answer.lost


def test_remapped_rows_have_no_index(tools: Path) -> None:
    gpu_health.install(tools, {"gpus": [{}]})
    [row] = nvidia_smi.query(["remapped_rows.pending"], what="remapped-rows").rows
    assert row == {"gpu_bus_id": "00000000:1A:00.0", "remapped_rows.pending": "0"}


def test_a_lost_gpu_has_no_row_though_all_ends_well(tools: Path) -> None:
    gpu_health.install(tools, {"gpus": [{}, {"lost": True}]})
    answer = nvidia_smi.query(["uuid", "memory.total"])
    assert [row["index"] for row in answer.rows] == ["0"]
    assert len(answer.lost) == 1
    assert answer.outcome.ok


def test_the_other_form_of_a_lost_gpu(tools: Path) -> None:
    text = "0, GPU-1\nUnable to determine the device handle for GPU0000:1B:00.0: GPU is lost.  Reboot the system\n"
    gpu_health.install(tools, {"gpus": [], "text": text, "status": 15})
    answer = nvidia_smi.query(["uuid"])
    assert len(answer.rows) == len(answer.lost) == 1


def test_an_unknown_section_is_left_out_and_the_rest_asked(tools: Path) -> None:
    gpu_health.install(tools, {"gpus": [{}], "unknown": ["fabric", "clocks_event_reasons"]})
    [row] = nvidia_smi.query(["fabric.state", "name", "clocks_event_reasons.gpu_idle", "fabric.status"]).rows
    assert row["name"] == "NVIDIA H100 80GB HBM3"
    for field in ("fabric.state", "fabric.status", "clocks_event_reasons.gpu_idle"):
        assert row[field] == "[N/A]"


def test_an_unknown_field_of_no_section(tools: Path) -> None:
    gpu_health.install(tools, {"gpus": [{}]})
    [row] = nvidia_smi.query(["name", "newer"]).rows
    assert row["newer"] == "[N/A]"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0\n",
        "0, 1, 2\n",
        "x, 1\n",
        '0, "1\n',
        "\x00\xff\n",
        'Field "index" is not a valid field to query.\n',
    ],
)
def test_garbage_gives_no_rows_and_no_lost_gpus(tools: Path, text: str) -> None:
    gpu_health.install(tools, {"gpus": [], "text": text, "status": 0})
    answer = nvidia_smi.query(["temperature.gpu"])
    assert answer.lost == []
    assert all(set(row) == {"index", "temperature.gpu"} for row in answer.rows)
    assert len(answer.rows) == (1 if text.startswith('0, "') else 0)


def test_a_program_that_hangs_is_given_up(tools: Path) -> None:
    gpu_health.install(tools, {"gpus": [{}], "seconds": 60})
    answer = nvidia_smi.query(["name"], timeout_seconds=0.1)
    assert answer.outcome.hung
    assert answer.rows == []
