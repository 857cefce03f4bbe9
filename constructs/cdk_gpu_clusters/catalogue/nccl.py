"""NCCL and libfabric: the variables that instance types need, and published bandwidth measurements with their sources.

Images of 2024 and later (libfabric 1.18.0, aws-ofi-nccl 1.7.0) need no variables for EFA. What has no source is not
here: no type gets a variable by habit.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache

from cdk_gpu_clusters.catalogue._files import read_json, record

_FILE = "nccl.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclVariable:
    """A variable that NCCL or libfabric reads.

    Attributes:
        name: Its name.
        value: Its value.
        needs_efa: Whether it is for nodes with EFA only.
        families: Instance families that it is for; None for all.
        why: What it is good for.
        source: Where it comes from, with date.
    """

    name: str
    value: str
    needs_efa: bool
    families: tuple[str, ...] | None
    why: str
    source: str

    def is_for(self, *, family: str | None, efa: bool) -> bool:
        """Whether nodes of a family need it.

        Args:
            family: Such as `g6`; None for nodes of any.
            efa: Whether they have EFA.
        """
        return (efa or not self.needs_efa) and (self.families is None or family in self.families)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllReduceBandwidth:
    """Bus bandwidth of `all_reduce_perf` as published for nodes with all their GPUs.

    Attributes:
        instance_type: Type of the nodes.
        nodes: How many.
        size_gib: Size of the message.
        gbytes_per_s: Bus bandwidth.
        source: Where it comes from, with date.
        note: What to know of it.
    """

    instance_type: str
    nodes: int
    size_gib: int
    gbytes_per_s: float
    source: str
    note: str


@cache
def nccl_variables() -> tuple[NcclVariable, ...]:
    """Every variable that a type needs.

    Example:
        >>> [one.name for one in nccl_variables() if one.is_for(family="p5", efa=True)]
        ['FI_PROVIDER', 'NCCL_SOCKET_IFNAME']
    """
    sources = read_json(_FILE)["sources"]
    return tuple(record(NcclVariable, row, source=sources[row["source"]]) for row in read_json(_FILE)["variables"])


@cache
def awsvpc_variables() -> tuple[NcclVariable, ...]:
    """The variables with another value in containers of Amazon ECS that have a network interface of their own.

    Example:
        >>> [(one.name, one.value) for one in awsvpc_variables()]
        [('NCCL_SOCKET_IFNAME', '^lo,docker,ecs')]
    """
    sources = read_json(_FILE)["sources"]
    rows = read_json(_FILE)["awsvpc_variables"]
    return tuple(record(NcclVariable, row, source=sources[row["source"]]) for row in rows)


@cache
def all_reduce_bandwidths() -> tuple[AllReduceBandwidth, ...]:
    """Every measurement."""
    sources = read_json(_FILE)["sources"]
    return tuple(
        record(AllReduceBandwidth, row, source=sources[row["source"]]) for row in read_json(_FILE)["all_reduce"]
    )


def node_all_reduce() -> str:
    """The measurements as nodes read them: one JSON list, of which each row names its source."""
    rows = [asdict(one) for one in all_reduce_bandwidths()]
    for row in rows:
        del row["note"]
    return json.dumps(rows, indent=0) + "\n"
