"""The program of the NCCL test, over a stand-in for PyTorch whose ranks are all the same process."""

from __future__ import annotations

import runpy
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

import cdk_gpu_clusters.kubernetes

PROGRAM = Path(cdk_gpu_clusters.kubernetes.__file__).parent / "programs" / "all_reduce.py"
RANKS, SECONDS = 16, 0.05
GIB = 2**30


class Tensor:
    """A tensor of equal values."""

    def __init__(self, count: int, value: float) -> None:
        self.count, self.value = count, value

    def min(self) -> float:
        return self.value

    def max(self) -> float:
        return self.value

    def __float__(self) -> float:
        return self.value


def on_gpu(device: str) -> bool:
    return device == "cuda"


class World:
    """PyTorch, as far as the program knows it: sums over ranks come out as `total` says, and take SECONDS."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, total: Callable[[float], float]) -> None:
        self.clock, self.sizes, self.joined, self.rank = 0.0, list[int](), False, 0
        self.total = total
        torch, dist = types.ModuleType("torch"), types.ModuleType("torch.distributed")
        torch.__dict__.update(
            cuda=types.SimpleNamespace(set_device=lambda _: None, synchronize=lambda: None),
            distributed=dist,
            full=lambda shape, value, device: on_gpu(device) and Tensor(shape[0], value),
            zeros=lambda count, device: on_gpu(device) and Tensor(count, 0.0),
            tensor=lambda values, device: on_gpu(device) and Tensor(1, values[0]),
        )
        dist.__dict__.update(
            ReduceOp=types.SimpleNamespace(MAX="max"),
            all_reduce=self.all_reduce,
            barrier=lambda: None,
            destroy_process_group=lambda: setattr(self, "joined", False),
            get_rank=lambda: self.rank,
            get_world_size=lambda: RANKS,
            init_process_group=lambda backend: setattr(self, "joined", backend == "nccl"),
        )
        monkeypatch.setitem(sys.modules, "torch", torch)
        monkeypatch.setitem(sys.modules, "torch.distributed", dist)
        monkeypatch.setattr("time.perf_counter", lambda: self.clock)
        monkeypatch.setenv("LOCAL_RANK", "0")
        monkeypatch.setenv("MIN_BYTES", str(GIB))
        monkeypatch.setenv("MAX_BYTES", str(4 * GIB))
        monkeypatch.setenv("TOLERANCE_PERCENT", "10")

    def all_reduce(self, buffer: Tensor, op: str = "sum") -> None:
        assert self.joined
        if op == "max":
            return
        self.clock += SECONDS
        self.sizes.append(buffer.count * 4)
        if buffer.value:
            buffer.value = self.total(buffer.value)

    def run(self) -> int:
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(PROGRAM), run_name="__main__")
        assert not self.joined
        status = ended.value.code
        assert isinstance(status, int)
        return status


def right(_: float) -> float:
    return float(sum(rank % 7 + 1 for rank in range(RANKS)))


#: 4 GiB in 0.05 s, by the formula of nccl-tests.
BANDWIDTH = 4 * GIB / SECONDS * 2 * (RANKS - 1) / RANKS / 1e9


def test_it_measures_every_size_by_the_formula_of_nccl_tests(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(monkeypatch, right)
    assert world.run() == 0
    assert sorted(set(world.sizes)) == [GIB, 2 * GIB, 4 * GIB]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "all-reduce over 16 GPUs"
    assert lines[-2].split() == [str(4 * GIB), "bytes", f"{BANDWIDTH:.2f}", "GB/s"]
    assert "no published result" in lines[-1]


@pytest.mark.parametrize(
    ("part", "status", "word"), [(1.0, 0, "ok"), (1.1, 0, "ok"), (1.2, 2, "too slow"), (0.5, 0, "ok")]
)
def test_it_fails_where_nodes_are_slower_than_published_by_more_than_the_tolerance(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], part: float, status: int, word: str
) -> None:
    monkeypatch.setenv("EXPECTED_GBYTES_PER_S", str(BANDWIDTH * part))
    monkeypatch.setenv("EXPECTED_SOURCE", "somebody (2026)")
    assert World(monkeypatch, right).run() == status
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"{word}: ")
    assert last.endswith("somebody (2026)")


def test_wrong_sums_count_more_than_bandwidth(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EXPECTED_GBYTES_PER_S", "1")
    assert World(monkeypatch, lambda value: right(value) + 1).run() == 3
    assert "wrong: the sums of 3 sizes" in capsys.readouterr().out


def test_one_rank_speaks_for_all(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    world = World(monkeypatch, right)
    world.rank = 5
    assert world.run() == 0
    assert capsys.readouterr().out == ""
