"""Measure the bus bandwidth of NCCL's all-reduce over all GPUs of a job; `torchrun` starts one process for each.

Sizes double from MIN_BYTES to MAX_BYTES. Bus bandwidth is that of nccl-tests (NVIDIA/nccl-tests, doc/PERFORMANCE.md):
size over time of the slowest rank, times 2 (n - 1) / n for n ranks.

Exit status: 0 as it should be, 2 slower than EXPECTED_GBYTES_PER_S by more than TOLERANCE_PERCENT, 3 wrong results.
"""

from __future__ import annotations

import os
import sys
import time

import torch
import torch.distributed as dist

_WARM_UP, _ROUNDS = 5, 20
_SLOW, _WRONG = 2, 3


def main() -> int:
    """Join the other ranks, and measure."""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    try:
        return measure(int(os.environ["MIN_BYTES"]), int(os.environ["MAX_BYTES"]))
    finally:
        dist.destroy_process_group()


def measure(size: int, largest: int) -> int:
    """Measure every size, and judge the largest."""
    ranks, wrong, bandwidth = dist.get_world_size(), 0, 0.0
    tell(f"all-reduce over {ranks} GPUs")
    while size <= largest:
        wrong += check(size, ranks)
        bandwidth = size / slowest(size) * 2 * (ranks - 1) / ranks / 1e9
        tell(f"{size:>14} bytes  {bandwidth:8.2f} GB/s")
        size *= 2
    return judge(wrong, bandwidth)


def check(size: int, ranks: int) -> int:
    """Whether the sum comes out wrong: 1 or 0."""
    buffer = torch.full((size // 4,), float(dist.get_rank() % 7 + 1), device="cuda")
    dist.all_reduce(buffer)
    expected = float(sum(rank % 7 + 1 for rank in range(ranks)))
    return int(float(buffer.min()) != expected or float(buffer.max()) != expected)


def slowest(size: int) -> float:
    """Seconds that one all-reduce takes the slowest rank."""
    buffer = torch.zeros(size // 4, device="cuda")  # zeros stay zeros, however often they are added
    for _ in range(_WARM_UP):
        dist.all_reduce(buffer)
    torch.cuda.synchronize()
    dist.barrier()
    start = time.perf_counter()
    for _ in range(_ROUNDS):
        dist.all_reduce(buffer)
    torch.cuda.synchronize()
    seconds = torch.tensor([(time.perf_counter() - start) / _ROUNDS], device="cuda")
    dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
    return float(seconds)


def judge(wrong: int, bandwidth: float) -> int:
    """Say what the largest size tells, and the exit status."""
    if wrong:
        tell(f"wrong: the sums of {wrong} sizes; find the node by testing each alone, and replace it")
        return _WRONG
    expected = os.environ.get("EXPECTED_GBYTES_PER_S")
    if not expected:
        tell("nobody has published what these nodes should reach")
        return 0
    percent = 100 * bandwidth / float(expected)
    is_slow = percent < 100 - float(os.environ["TOLERANCE_PERCENT"])
    word = "too slow" if is_slow else "ok"
    tell(f"{word}: {percent:.0f} % of {expected} GB/s, {os.environ['EXPECTED_SOURCE']}")
    return _SLOW if is_slow else 0


def tell(text: str) -> None:
    """Log a line, once for all ranks."""
    if dist.get_rank() == 0:
        print(text, flush=True)  # noqa: T201 - the log of the pod is the result


if __name__ == "__main__":
    sys.exit(main())
