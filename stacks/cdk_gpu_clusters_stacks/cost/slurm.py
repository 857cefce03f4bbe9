"""Jobs from Slurm accounting: what `sacct --parsable2` prints.

The names of the columns and the formats of their values are those of sacct(1) of Slurm. A job that was requeued has a
row for each of its runs, with the same JobID, if sacct is asked with --duplicates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TypeVar

from .accounting import Accounting, NoAccounting, Run

ValueT = TypeVar("ValueT")

#: Columns that are read. `Elapsed` serves in place of `ElapsedRaw`.
COLUMNS = ("JobID", "User", "Account", "Start", "ElapsedRaw", "AllocTRES", "NodeList")
#: How to write the file: all jobs of all users, every run of a job, no steps, times in seconds since 1970. Without
#: --starttime sacct has only jobs since midnight (sacct(1), DEFAULT TIME WINDOW).
COMMAND = (
    "SLURM_TIME_FORMAT=%s sacct --allusers --duplicates --allocations --parsable2 --starttime=FROM --endtime=TO "
    f"--format={','.join(COLUMNS)}"
)

_ELAPSED = re.compile(r"(?:(?P<days>\d+)-)?(?P<hours>\d\d):(?P<minutes>\d\d):(?P<seconds>\d\d)")
# What sacct prints for a job that has no nodes, or had none yet, and for a time that has not come.
_NO_NODES, _NO_TIME = ("", "None assigned", "None", "(null)"), ("", "Unknown", "None", "N/A")
_GPU = re.compile(r"gres/gpu(?::(?P<type>[^=]+))?")
#: A host list names more nodes than this only if it is no host list.
_MOST_NODES = 100_000
#: A job holds more GPUs than this only in a file that is damaged.
_MOST_GPUS = 10_000_000


def read_sacct(text: str) -> Accounting:
    r"""Read the output of `sacct --parsable2`, with its heading.

    Args:
        text: The output. Times without a zone are UTC. Several outputs may follow each other.

    Raises:
        NoAccounting: If it is something else, with all faults.

    Example:
        >>> text = "JobID|User|Account|Start|ElapsedRaw|AllocTRES|NodeList"
        >>> row = "7|ana|nlp|2026-11-01T10:00:00|3600|billing=8,cpu=8,gres/gpu=4,node=2|gpu-[1-2]"
        >>> run = read_sacct(f"{text}\n{row}\n").runs[0]
        >>> run.gpus, run.nodes
        ({'': 4}, ('gpu-1', 'gpu-2'))
    """
    faults: list[str] = []
    runs: dict[tuple[str, int], Run] = {}
    steps = without_nodes = repeated = 0
    for where, row in _rows(text, faults):
        if "." in row["JobID"]:
            steps += 1
        elif row["NodeList"] in _NO_NODES or not row["AllocTRES"] or row["Start"] in _NO_TIME:
            without_nodes += 1
        elif (run := _run(row, where, faults)) is not None:
            key = (run.job, run.start)
            repeated += key in runs
            runs[key] = max(run, runs.get(key, run), key=lambda one: one.seconds)
    if faults:
        raise NoAccounting(faults)
    left_out = {"steps": steps, "without_nodes": without_nodes, "repeated": repeated}
    return Accounting(source="slurm", runs=tuple(runs.values()), left_out=left_out)


def _rows(text: str, faults: list[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """The rows below the heading, each with the number of its line; the heading may be repeated."""
    lines = [(number, line.rstrip("\r").split("|")) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        faults.append("it is empty")
        return
    heading = lines[0][1]
    faults += _faults_of_heading(heading)
    for number, cells in lines if not faults else ():
        if len(cells) != len(heading):
            faults.append(f"line {number}: {len(cells)} fields, but the heading has {len(heading)}")
        elif cells != heading:
            yield f"line {number}", dict(zip(heading, cells, strict=True))


def _faults_of_heading(heading: list[str]) -> Iterator[str]:
    missing = [name for name in COLUMNS if name not in heading]
    if "Elapsed" in heading and "ElapsedRaw" in missing:
        missing.remove("ElapsedRaw")
    if missing:
        yield f"line 1: the heading has no {', '.join(missing)}; write the file with: {COMMAND}"


def _run(row: Mapping[str, str], where: str, faults: list[str]) -> Run | None:
    """The run of a row; None if the row has faults."""
    start = _read(_time, row["Start"], f"{where}: Start", faults)
    seconds = _read(_seconds, row.get("ElapsedRaw") or row.get("Elapsed", ""), f"{where}: ElapsedRaw", faults)
    gpus = _read(_gpus, row["AllocTRES"], f"{where}: AllocTRES", faults)
    nodes = _read(expand_host_list, row["NodeList"], f"{where}: NodeList", faults)
    if start is None or seconds is None or gpus is None or nodes is None:
        return None
    return Run(
        job=row["JobID"],
        user=row["User"],
        account=row["Account"],
        start=start,
        seconds=seconds,
        gpus=gpus,
        nodes=nodes,
    )


def _read(reader: Callable[[str], ValueT], cell: str, where: str, faults: list[str]) -> ValueT | None:
    """What a cell has; None, and a fault, if it has something else."""
    try:
        return reader(cell)
    except ValueError as fault:
        faults.append(f"{where} {cell!r} {fault}")
        return None


def _time(text: str) -> int:
    """Seconds since 1970 of a time: sacct prints local time, or with SLURM_TIME_FORMAT=%s such seconds."""
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("is no time") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def _seconds(text: str) -> int:
    """Seconds of ElapsedRaw, or of Elapsed: [days-]hours:minutes:seconds."""
    if text.isdecimal():
        return int(text)
    found = _ELAPSED.fullmatch(text)
    if found is None:
        raise ValueError("is no number of seconds")
    days, hours, minutes, seconds = (int(found[name] or 0) for name in ("days", "hours", "minutes", "seconds"))
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _gpus(text: str) -> dict[str, int]:
    """GPUs of a list of trackable resources, such as `cpu=8,gres/gpu:h100=8,gres/gpu=8,mem=90G`."""
    gpus: dict[str, int] = {}
    for item in text.split(","):
        name, sign, value = item.rpartition("=")
        if not sign:
            raise ValueError("is no list of name=number")
        found = _GPU.fullmatch(name)
        if found is not None:
            if not value.isdecimal() or int(value) > _MOST_GPUS:
                raise ValueError(f"has a number of GPUs that is no whole number up to {_MOST_GPUS:,}")
            gpus[found["type"] or ""] = int(value)
    return gpus


# Host lists of Slurm.

_HOSTS = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_PART = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(?P<first>\d+)(?:-(?P<last>\d+))?")


def expand_host_list(text: str) -> tuple[str, ...]:
    """The nodes of a host list of Slurm (`scontrol show hostnames` expands the same).

    Raises:
        ValueError: If it is no host list.

    Example:
        >>> expand_host_list("gpu-[1,08-10],login")
        ('gpu-1', 'gpu-08', 'gpu-09', 'gpu-10', 'login')
    """
    found = _HOSTS.findall(text)
    if not found or ",".join(found) != text:
        raise ValueError("is no host list")
    nodes: list[str] = []
    for one in found:
        nodes += _expand(one)
        if len(nodes) > _MOST_NODES:
            raise ValueError("names too many nodes")
    return tuple(nodes)


def _expand(text: str) -> list[str]:
    nodes = [""]
    for index, part in enumerate(_PART.split(text)):
        ends = _numbers(part) if index % 2 else [part]
        if len(nodes) * len(ends) > _MOST_NODES:
            raise ValueError("names too many nodes")
        nodes = [f"{node}{end}" for node in nodes for end in ends]
    return nodes


def _numbers(text: str) -> list[str]:
    """The numbers between brackets, such as `1,08-10`."""
    numbers: list[str] = []
    for item in text.split(","):
        found = _RANGE.fullmatch(item)
        if found is None:
            raise ValueError("is no host list")
        first, last = found["first"], found["last"] or found["first"]
        if int(last) < int(first):
            raise ValueError("is no host list")
        if len(numbers) + int(last) - int(first) > _MOST_NODES:
            raise ValueError("names too many nodes")
        numbers += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return numbers
