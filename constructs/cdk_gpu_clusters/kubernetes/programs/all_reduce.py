"""Measure the bus bandwidth of NCCL's all-reduce over all GPUs of a job; `torchrun` starts one process for each.

Sizes double from MIN_BYTES to MAX_BYTES. Bus bandwidth is that of nccl-tests (NVIDIA/nccl-tests, doc/PERFORMANCE.md):
size over time of the slowest rank, times 2 (n - 1) / n for n ranks.

Exit status: 0 as it should be, 2 slower than EXPECTED_GBYTES_PER_S by more than TOLERANCE_PERCENT, 3 wrong results.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

_WARM_UP, _ROUNDS = 5, 20
_SLOW, _WRONG = 2, 3


class Ranks:
    """The processes of the job, as PyTorch joins them."""

    def __init__(self, torch: Any) -> None:
        """Join the other ranks.

        Args:
            torch: The module, which only the image of the job has.
        """
        self._torch, self._dist = torch, torch.distributed
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        self._dist.init_process_group("nccl")
        self.count: int = self._dist.get_world_size()

    def leave(self) -> None:
        """Leave the other ranks."""
        self._dist.destroy_process_group()

    def is_wrong(self, size: int) -> bool:
        """Whether a sum over all ranks comes out wrong."""
        buffer = self._torch.full((size // 4,), float(self._dist.get_rank() % 7 + 1), device="cuda")
        self._dist.all_reduce(buffer)
        expected = float(sum(rank % 7 + 1 for rank in range(self.count)))
        return float(buffer.min()) != expected or float(buffer.max()) != expected

    def seconds(self, size: int) -> float:
        """How long one all-reduce takes the slowest rank."""
        # Zeros stay zeros, however often they are added.
        buffer = self._torch.zeros(size // 4, device="cuda")
        for _ in range(_WARM_UP):
            self._dist.all_reduce(buffer)
        self._torch.cuda.synchronize()
        self._dist.barrier()
        start = time.perf_counter()
        for _ in range(_ROUNDS):
            self._dist.all_reduce(buffer)
        self._torch.cuda.synchronize()
        each = self._torch.tensor([(time.perf_counter() - start) / _ROUNDS], device="cuda")
        self._dist.all_reduce(each, op=self._dist.ReduceOp.MAX)
        return float(each)

    def tell(self, text: str) -> None:
        """Log a line, once for all ranks."""
        if self._dist.get_rank() == 0:
            print(text, flush=True)  # noqa: T201 - the log of the pod is the result


def main() -> int:
    """Join the other ranks, measure and judge."""
    import torch

    ranks = Ranks(torch)
    try:
        return measure(ranks, int(os.environ["MIN_BYTES"]), int(os.environ["MAX_BYTES"]))
    finally:
        ranks.leave()


def measure(ranks: Ranks, size: int, largest: int) -> int:
    """Measure every size, and judge the largest.

    Args:
        ranks: The ranks.
        size: Bytes of the first message.
        largest: Bytes that no message exceeds.
    """
    wrong, bandwidth = 0, 0.0
    ranks.tell(f"all-reduce over {ranks.count} GPUs")
    while size <= largest:
        wrong += ranks.is_wrong(size)
        bandwidth = size / ranks.seconds(size) * 2 * (ranks.count - 1) / ranks.count / 1e9
        ranks.tell(f"{size:>14} bytes  {bandwidth:8.2f} GB/s")
        size *= 2
    status, verdict = judge(wrong, bandwidth)
    ranks.tell(verdict)
    return status


def judge(wrong: int, bandwidth: float) -> tuple[int, str]:
    """The exit status, and the result of the largest size.

    Args:
        wrong: Sizes whose sums came out wrong.
        bandwidth: Bus bandwidth of the largest, in GB/s.
    """
    if wrong:
        return (
            _WRONG,
            f"wrong: the sums of {wrong} sizes; find the node by testing each alone, and replace it",
        )
    expected = os.environ.get("EXPECTED_GBYTES_PER_S")
    if not expected:
        return 0, "there is no published result for these nodes"
    percent = 100 * bandwidth / float(expected)
    is_slow = percent < 100 - float(os.environ["TOLERANCE_PERCENT"])
    words = f"{percent:.0f} % of {expected} GB/s, {os.environ['EXPECTED_SOURCE']}"
    return (_SLOW, f"too slow: {words}") if is_slow else (0, f"ok: {words}")


if __name__ == "__main__":
    sys.exit(main())
