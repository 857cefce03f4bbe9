"""Who held GPUs, and when: what a scheduler accounts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


class NoAccounting(Exception):
    """Accounting that cannot be read, or that does not fit the fleets of the cluster file.

    Attributes:
        faults: What is wrong, a sentence each.
    """

    def __init__(self, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of a job.

    Attributes:
        job: Its JobID in Slurm, the same for each run of a job that was requeued; its namespace and name in Kueue.
        user: Who submitted it; its namespace in Kueue.
        account: The account that it is charged to; its ClusterQueue in Kueue.
        start: When it started, in seconds since 1970.
        seconds: How long it ran, or has run.
        gpus: GPUs or MIG instances by type of Slurm, which is empty for their number of all types; in Kueue by the name
            of the resource.
        nodes: Its nodes; in Kueue their flavor.
    """

    job: str
    user: str
    account: str
    start: int
    seconds: int
    gpus: Mapping[str, int]
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounting:
    """What was read.

    Attributes:
        source: What wrote it.
        runs: Runs of jobs that held nodes, each once.
        left_out: What is no run, and how many there are. In Slurm rows: `steps`, which are part of their job,
            `without_nodes`, such as jobs that wait, and `repeated`, which another row has as well. In Kueue workloads:
            `waiting`, and `ran_before`, which also ran before they lost their admission.
    """

    source: Literal["slurm", "kueue"]
    runs: tuple[Run, ...]
    left_out: Mapping[str, int]


#: Where each has the GPUs of a job, and what it names nodes by.
RESOURCES = {"slurm": "AllocTRES", "kueue": "resourceUsage"}
PLACES = {"slurm": "node", "kueue": "flavor"}
