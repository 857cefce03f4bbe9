"""How to run `all_reduce_perf` of nccl-tests, on one node or by MPI on several, and how to read its output."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import paths

_NAME = "all_reduce_perf"
# AWS Deep Learning AMIs (release notes of 2023: /usr/local/cuda-xx.x/efa/test-cuda-xx.x/; public scripts of 2025 and
# 2026 find it there), and the usual build folder, also of AWS's container images.
_PLACES = ("usr/local/cuda-*/efa/test-cuda-*", "opt/nccl-tests/build")
_MPI = ("/opt/amazon/openmpi/bin/mpirun", "/opt/amazon/openmpi5/bin/mpirun")
# awslabs/awsome-distributed-ai micro-benchmarks/nccl-tests/slurm/nccl-tests-ami.sbatch @ 95b939c.
_LIBRARIES = ("/opt/amazon/efa/lib", "/opt/amazon/openmpi/lib", "/opt/amazon/ofi-nccl/lib", "/usr/local/lib")
_PASSED_ON = ("NCCL_", "FI_")


def find_program() -> str:
    """The program on the PATH, or that of the image for its newest CUDA; empty if there is none."""
    on_path = shutil.which(_NAME)
    found = [file for place in _PLACES for file in paths.root().glob(f"{place}/{_NAME}") if os.access(file, os.X_OK)]
    return on_path or str(max(found, key=_cuda, default=""))


def find_mpi() -> str:
    """`mpirun` of the EFA installer, or on the PATH; empty if there is none."""
    installed = [str(paths.below(place)) for place in _MPI if os.access(paths.below(place), os.X_OK)]
    return next(iter(installed), shutil.which("mpirun") or "")


def library_path(program: str, environment: Mapping[str, str]) -> str:
    """The library path of the program: the user's folders, then those of its CUDA, then EFA's."""
    cuda = re.match(r"(.*/cuda-[^/]+)/", program)
    folders = [f"{cuda[1]}/lib", f"{cuda[1]}/lib64"] if cuda else []
    given = [environment["LD_LIBRARY_PATH"]] if environment.get("LD_LIBRARY_PATH") else []
    return ":".join([*given, *folders, *(str(paths.below(place)) for place in _LIBRARIES)])


def on_one_node(program: str, gpus: int, max_size: str) -> list[str]:
    """The command for all GPUs of this node in one process.

    Args:
        max_size: Largest message, such as `16G`; sizes double from 8 bytes.
    """
    return [program, "-b", "8", "-e", max_size, "-f", "2", "-g", str(gpus)]


def on_nodes(
    program: str, mpi: str, hosts: Path, *, nodes: int, gpus: int, max_size: str, variables: Sequence[str]
) -> list[str]:
    """The command for one process per GPU on several nodes.

    Args:
        program: The program, in the same place on every node.
        variables: Names of this process's variables. Those of NCCL and libfabric are passed on.
    """
    passed_on = ["LD_LIBRARY_PATH", *(name for name in sorted(variables) if name.startswith(_PASSED_ON))]
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return [
        mpi, *root, "--hostfile", str(hosts), "-np", str(nodes * gpus), "--map-by", f"ppr:{gpus}:node",
        "--bind-to", "none", "--mca", "pml", "^ucx", "--mca", "btl", "tcp,self",
        "--mca", "btl_tcp_if_exclude", "lo,docker0",
        *(word for name in passed_on for word in ("-x", name)),
        *on_one_node(program, 1, max_size),
    ]  # fmt: skip


def _cuda(program: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", str(program))]


_GIB = 1024**3
# size count type redop [root], then twice: time algbw busbw #wrong. Out of place first, then in place.
_ROW = re.compile(r"^ *\d+ +\d+ +[a-z]\w* +\w+( +-?\d+)?(?: +[\d.e+-]+ +[\d.]+ +[\d.]+ +\S+){2} *$")


@dataclass(frozen=True)
class Row:
    """One size.

    Attributes:
        size_bytes: Size of the message.
        gbytes_per_s: Bus bandwidth, the better of out of place and in place.
        wrong: Number of wrong values.
    """

    size_bytes: int
    gbytes_per_s: float
    wrong: int


def read_rows(text: str) -> list[Row]:
    """The rows of a run, in order. Ranks may print other lines between them."""
    return [_row(line.split()) for line in text.splitlines() if _ROW.match(line)]


def size_words(size_bytes: int) -> str:
    """A size for people.

    Example:
        >>> size_words(16 * 1024**3), size_words(8)
        ('16 GiB', '8 B')
    """
    for unit, factor in (("GiB", _GIB), ("MiB", 1024**2), ("KiB", 1024)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:g} {unit}"
    return f"{size_bytes} B"


def read_size(text: str) -> int:
    """A size in the format of nccl-tests, such as `16G`.

    Raises:
        ValueError: If it is not a size.
    """
    found = re.fullmatch(r"(\d+)([KMG]?)", text.upper())
    if found is None:
        raise ValueError(f"{text} is not a size, such as 16G")
    return int(found[1]) * {"": 1, "K": 1024, "M": 1024**2, "G": _GIB}[found[2]]


def _row(words: list[str]) -> Row:
    # Without a check of the values, their number is N/A.
    wrong = sum(int(word) for word in (words[-5], words[-1]) if word.isdecimal())
    return Row(int(words[0]), max(float(words[-6]), float(words[-2])), wrong)
