"""The command `gpunode nccl-test`: measures the bandwidth between GPUs, and compares it with a baseline."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .. import nvidia_smi, paths
from ..command import Outcome, run
from ..node import Node, this_node
from .peers import NoPeersError, NotYetError, Peer, wait_for_peers
from .run_command import set_variables

_GOOD, _NOT_MEASURED, _SLOW, _WRONG = 0, 1, 2, 3
_TOLERANCE_PERCENT = 10

_TEXT = """\
Run all_reduce_perf of nccl-tests on the GPUs of this node, or with --nodes on several nodes of the fleet.

The bus bandwidth of the largest size is compared with a published one if there is a source for this instance type and
number of nodes, and otherwise with the first that this node has recorded (--record replaces it; only root can).
Slower by more than --tolerance percent is too slow. The default of 10 is ours; no source names a limit.

Several nodes need mpirun and SSH between the nodes without a password, which the fleet does not set up. With --pairs
they are measured two by two, each with the next one, so that a slow node shows.

Exit status: 0 as expected, or the first measurement; 1 it could not be measured; 2 too slow; 3 wrong results.
"""


class CannotMeasureError(Exception):
    """The test cannot run; the text is the reason."""


@dataclass(frozen=True)
class BandwidthVerdict:
    """The verdict on a run.

    Attributes:
        status: Exit status.
        words: The verdict in a sentence.
        expected: The bandwidth that it was compared with.
    """

    status: int
    words: str
    expected: Expected | None = None


def add_nccl_test(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to those of `gpunode`."""
    command = commands.add_parser(
        "nccl-test",
        help="measure the bandwidth between GPUs",
        description=_TEXT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = command.add_argument
    add("--nodes", type=int, default=1, metavar="N", help="on N nodes of the fleet; on this one if left out")
    add("--pairs", action="store_true", help="with --nodes: two by two, to find a slow node")
    add("--max-size", type=_size, metavar="SIZE", help="such as 64G; up to 16G, as memory allows, if left out")
    add("--tolerance", type=float, metavar="PERCENT", help="10 if left out")
    add("--timeout", type=float, default=1800, metavar="SECONDS", help="1800 if left out")
    add("--record", action="store_true", help="record what is measured as this node's own")
    add("--json", action="store_true", help="one JSON object instead of a table")
    command.set_defaults(run=nccl_test)


def nccl_test(given: argparse.Namespace) -> int:
    """Measure, compare and print; returns the exit status."""
    node = this_node()
    try:
        gpus, memory_gib = _gpus()
        max_size = given.max_size or _fitting(memory_gib)
        if given.pairs:
            return _test_pairs(node, given, gpus=gpus, max_size=max_size)
        rows = _measure(node, given, gpus=gpus, max_size=max_size)
    except CannotMeasureError as reason:
        sys.stderr.write(f"gpunode nccl-test: {reason}\n")
        return _NOT_MEASURED
    tolerance = _tolerance(node, given)
    kind = node.metadata.get("instance-type") or ""
    verdict = judge(
        rows, instance_type=kind, nodes=given.nodes, gpus=gpus, tolerance_percent=tolerance, fresh=given.record
    )
    sys.stdout.write((_as_json if given.json else _as_table)(rows, verdict) + "\n")
    return verdict.status


def _tolerance(node: Node, given: argparse.Namespace) -> float:
    if given.tolerance is None:
        return node.settings.number("nccl_tolerance", _TOLERANCE_PERCENT)
    return float(given.tolerance)


def judge(
    rows: Sequence[Row],
    *,
    instance_type: str,
    nodes: int,
    gpus: int,
    tolerance_percent: float,
    fresh: bool = False,
) -> BandwidthVerdict:
    """Compare a measurement with the expected bandwidth.

    Args:
        tolerance_percent: How much slower is still acceptable.
        fresh: Whether to record it as this node's own, in place of an earlier record.
    """
    wrong = sum(row.wrong for row in rows)
    if wrong:
        return BandwidthVerdict(_WRONG, f"{wrong} values are wrong: test each node alone, and replace the faulty one")
    largest = rows[-1]
    expected = published_baseline(instance_type, nodes, rows)
    if expected is None and not fresh:
        expected = own_baseline(nodes, gpus, largest)
    kept = (expected is None or fresh) and record_baseline(nodes, gpus, largest)
    if expected is None:
        return BandwidthVerdict(
            _GOOD, "recorded as this node's own" if kept else "the first, not recorded: that needs root"
        )
    found = next(row for row in rows if row.size_bytes == expected.size_bytes).gbytes_per_s
    percent = 100 * found / expected.gbytes_per_s
    words = f"{percent:.0f} % of {expected.gbytes_per_s:g} GB/s at {size_words(expected.size_bytes)}: {expected.source}"
    return BandwidthVerdict(_GOOD if percent >= 100 - tolerance_percent else _SLOW, words, expected)


def _measure(node: Node, given: argparse.Namespace, *, gpus: int, max_size: str) -> list[Row]:
    peers = [] if given.nodes == 1 else _first(node, given.nodes)
    return _measure_on(peers, gpus=gpus, max_size=max_size, timeout_seconds=given.timeout)


def _measure_on(peers: Sequence[Peer], *, gpus: int, max_size: str, timeout_seconds: float) -> list[Row]:
    """Measure on these nodes, or on this one alone if there are none."""
    program = find_program()
    if not program:
        raise CannotMeasureError("there is no all_reduce_perf: use a Deep Learning AMI, or put it on the PATH")
    set_variables()
    # Not into this process: the linker of other programs would use it too.
    environment = {"LD_LIBRARY_PATH": library_path(program, os.environ)}
    if not peers:
        outcome = run(*on_one_node(program, gpus, max_size), timeout_seconds=timeout_seconds, environment=environment)
        return _rows(outcome)
    mpi = find_mpi()
    if not mpi:
        raise CannotMeasureError("several nodes need mpirun, and there is none")
    with _hosts(peers, gpus) as hosts:
        command = on_nodes(
            program, mpi, hosts, nodes=len(peers), gpus=gpus, max_size=max_size, variables=list(os.environ)
        )
        return _rows(run(*command, timeout_seconds=timeout_seconds, environment=environment))


def _rows(outcome: Outcome) -> list[Row]:
    rows = read_rows(outcome.output)
    if not outcome.ok or not rows:
        # The reason is at the end.
        end = " ".join(f"{outcome.output} {outcome.errors}".split())[-400:]
        raise CannotMeasureError(f"all_reduce_perf ended with status {outcome.status}: {end}")
    return rows


def _gpus() -> tuple[int, float]:
    """The number of GPUs, all of them idle, and the memory of the smallest in GiB."""
    answer = nvidia_smi.query(["memory.total", "mig.mode.current"])
    if answer.without_row or not answer.rows:
        raise CannotMeasureError(f"nvidia-smi: {'; '.join(answer.without_row) or answer.outcome.words}")
    if any(row["mig.mode.current"] == "Enabled" for row in answer.rows):
        raise CannotMeasureError("the GPUs are split (MIG), and parts of GPUs have no NVLink")
    busy = nvidia_smi.call("--query-compute-apps=pid", "--format=csv,noheader").output.split()
    if any(word.isdecimal() for word in busy):
        raise CannotMeasureError(f"GPUs are in use by {' '.join(busy)}")
    memory = [nvidia_smi.number(row["memory.total"]) or 0 for row in answer.rows]
    return len(answer.rows), min(memory) / 1024


def _fitting(memory_gib: float) -> str:
    """The largest size whose three buffers (to send, to receive, to compare) fit into a GPU's memory."""
    sizes = [f"{2**power}G" for power in range(5)]
    fitting = [size for size in sizes if int(size[:-1]) * 4 <= memory_gib]
    return fitting[-1] if fitting else "256M"


def _first(node: Node, count: int) -> list[Peer]:
    """This node, where mpirun runs, and its nearest neighbours."""
    try:
        found = wait_for_peers(node, count, timeout_seconds=0).nodes
    except (NoPeersError, NotYetError) as reason:
        raise CannotMeasureError(str(reason)) from reason
    own = [index for index, peer in enumerate(found) if peer.instance_id == node.instance_id]
    if not own:
        raise CannotMeasureError("this node is not in service")
    start = min(own[0], len(found) - count)
    return found[start : start + count]


@contextmanager
def _hosts(nodes: Sequence[Peer], gpus: int) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="nccl-test.") as folder:
        file = Path(folder) / "hosts"
        file.write_text("".join(f"{peer.private_ip} slots={gpus}\n" for peer in nodes), encoding="ascii")
        yield file


# Two by two: a node is suspect if it is slow with both of its neighbours.


@dataclass(frozen=True)
class Pair:
    """The measurement of two nodes.

    Attributes:
        nodes: Their instance ids.
        gbytes_per_s: Bus bandwidth of the largest size; 0 if it could not be measured.
        fault: Why it could not, or how many values were wrong; empty if it is right.
    """

    nodes: tuple[str, str]
    gbytes_per_s: float = 0.0
    fault: str = ""


def _test_pairs(node: Node, given: argparse.Namespace, *, gpus: int, max_size: str) -> int:
    peers = _first(node, given.nodes)
    if len(peers) < 2:
        raise CannotMeasureError("--pairs needs --nodes with 2 or more")
    rounds = zip(peers, [*peers[1:], *peers[:1]]) if len(peers) > 2 else [(peers[0], peers[1])]
    pairs = []
    for first, second in rounds:
        names, fault, row = (first.instance_id, second.instance_id), "", Row(0, 0.0, 0)
        try:
            row = _measure_on([first, second], gpus=gpus, max_size=max_size, timeout_seconds=given.timeout)[-1]
            fault = f"{row.wrong} values are wrong" if row.wrong else ""
        except CannotMeasureError as reason:
            fault = str(reason)
        pairs.append(Pair(names, row.gbytes_per_s, fault))
    size_bytes, kind = row.size_bytes, node.metadata.get("instance-type") or ""
    published = published_baseline(kind, 2, [Row(size_bytes, 0.0, 0)])
    expected = published.gbytes_per_s if published else statistics.median(pair.gbytes_per_s for pair in pairs)
    least = expected * (1 - _tolerance(node, given) / 100)
    verdict = judge_pairs(pairs, least_gbytes_per_s=least)
    if given.json:
        sys.stdout.write(json.dumps({"least_gbytes_per_s": least, "pairs": [asdict(pair) for pair in pairs]}) + "\n")
    else:
        lines = [f"{' '.join(pair.nodes)}  {pair.fault or f'{pair.gbytes_per_s:8.2f} GB/s'}" for pair in pairs]
        sys.stdout.write("\n".join([*lines, verdict.words]) + "\n")
    return verdict.status


def judge_pairs(pairs: Sequence[Pair], *, least_gbytes_per_s: float) -> BandwidthVerdict:
    """Name the nodes that are bad in all of their pairs.

    Example:
        >>> rows = [Pair(("i-1", "i-2"), 480.0), Pair(("i-2", "i-3"), 90.0), Pair(("i-3", "i-1"), 95.0)]
        >>> judge_pairs(rows, least_gbytes_per_s=430).words
        'too slow: i-3'
    """
    bad = [pair for pair in pairs if pair.fault or pair.gbytes_per_s < least_gbytes_per_s]
    if not bad:
        return BandwidthVerdict(_GOOD, f"ok: {len(pairs)} pairs have {least_gbytes_per_s:.0f} GB/s and more")
    good = {name for pair in pairs if pair not in bad for name in pair.nodes}
    suspects = sorted({name for pair in bad for name in pair.nodes} - good)
    where = ", ".join(suspects) or "; ".join(f"between {' and '.join(pair.nodes)}" for pair in bad)
    if all(pair.fault for pair in bad):
        wrong = any("wrong" in pair.fault for pair in bad)
        return BandwidthVerdict(_WRONG if wrong else _NOT_MEASURED, f"not right: {where}")
    return BandwidthVerdict(_SLOW, f"too slow: {where}")


def _as_table(rows: Sequence[Row], verdict: BandwidthVerdict) -> str:
    lines = [f"{size_words(row.size_bytes):>10}  {row.gbytes_per_s:8.2f} GB/s" for row in rows]
    word = {_GOOD: "ok", _SLOW: "too slow", _WRONG: "wrong"}[verdict.status]
    return "\n".join([f"{'size':>10}  bus bandwidth", *lines, f"{word}: {verdict.words}"])


def _as_json(rows: Sequence[Row], verdict: BandwidthVerdict) -> str:
    expected = verdict.expected
    return json.dumps(
        {
            "status": verdict.status,
            "verdict": verdict.words,
            "expected_gbytes_per_s": None if expected is None else expected.gbytes_per_s,
            "rows": [asdict(row) for row in rows],
        }
    )


def _size(text: str) -> str:
    try:
        read_size(text)
    except ValueError as reason:
        raise argparse.ArgumentTypeError(str(reason)) from reason
    return text.upper()


#: The table of published bandwidths, which is part of this package.
PUBLISHED = Path(__file__).parents[1] / "all_reduce.json"
_GIB = 1024**3


@dataclass(frozen=True)
class Expected:
    """A bandwidth to compare with.

    Attributes:
        gbytes_per_s: Bus bandwidth.
        size_bytes: Size of the message.
        source: Its source.
    """

    gbytes_per_s: float
    size_bytes: int
    source: str


def published_baseline(instance_type: str, nodes: int, rows: Sequence[Row]) -> Expected | None:
    """The published bandwidth for the largest of the sizes; None if there is no source."""
    sizes = {row.size_bytes for row in rows}
    try:
        found = [
            Expected(float(row["gbytes_per_s"]), int(row["size_gib"]) * _GIB, str(row["source"]))
            for row in json.loads(paths.read_text(PUBLISHED, "[]"))
            if (row["instance_type"], row["nodes"]) == (instance_type, nodes) and row["size_gib"] * _GIB in sizes
        ]
    except (ValueError, KeyError, TypeError):
        return None
    return max(found, key=lambda one: one.size_bytes, default=None)


def own_baseline(nodes: int, gpus: int, largest: Row) -> Expected | None:
    """The bandwidth that this node recorded first for these nodes, GPUs and size; None if it has not."""
    row = _read().get(_key(nodes, gpus, largest), {})
    try:
        return Expected(float(row["gbytes_per_s"]), largest.size_bytes, f"this node on {row['date']}")
    except (KeyError, ValueError, TypeError):
        return None


def record_baseline(nodes: int, gpus: int, largest: Row) -> bool:
    """Record a bandwidth as this node's own, in place of an older one.

    Returns:
        Whether it is recorded: only root may.
    """
    row = {"gbytes_per_s": largest.gbytes_per_s, "date": time.strftime("%Y-%m-%d", time.gmtime())}
    try:
        paths.state_folder()
        text = json.dumps({**_read(), _key(nodes, gpus, largest): row}, indent=0)
        paths.write_atomically(_file(), text + "\n")
    except OSError:
        return False
    return True


def _key(nodes: int, gpus: int, largest: Row) -> str:
    return f"{nodes} nodes, {gpus} GPUs each, {size_words(largest.size_bytes)}"


def _file() -> Path:
    return paths.below("/var/lib/gpu-cluster/nccl-baseline.json")


def _read() -> dict[str, Any]:
    try:
        found = json.loads(paths.read_text(_file(), "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


# `all_reduce_perf` of nccl-tests, on one node or by MPI on several, and its output.

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
