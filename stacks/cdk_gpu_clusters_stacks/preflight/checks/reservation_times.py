"""Starts and ends of reservations and blocks, against the file and the clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta

from cdk_gpu_clusters.errors import define_rule
from cdk_gpu_clusters_stacks.spec import capacity_terms

from ..check import Check, Inquiry, Verdict, failed, passed, warned
from ..cluster import Cluster
from ..reserved import RESERVATION_CALLS, Reserved, found_of, reserved, unneeded, utc

_BLOCKS = 'AWS EC2 user guide, "Capacity Blocks for ML"'

NOT_OVER = define_rule(
    "GPU-PRE-061",
    "the reservation does not end within a day",
    source='AWS EC2 user guide, "On-Demand Capacity Reservations": instances run on, new ones do not start',
)
BLOCK_START = define_rule("GPU-PRE-062", "the block starts at the time in the file", source=_BLOCKS)
BLOCK_END = define_rule(
    "GPU-PRE-063",
    "the block ends at the time in the file",
    source=f"{_BLOCKS}: EC2 terminates instances from 30 minutes before the end",
)

_SOON = timedelta(days=1)
# The file is to the minute.
_SAME = timedelta(minutes=1)


def _not_over(target: Reserved, inquiry: Inquiry) -> Iterator[Verdict]:
    for one in found_of(target, inquiry):
        end, name = one.get("EndDate"), one["CapacityReservationId"]
        if end is None:
            yield passed(f"{name} has no end")
        elif end <= inquiry.now:
            yield failed(f"{name} ended at {utc(end)}", fix="name a reservation that runs")
        elif end - inquiry.now < _SOON:
            yield warned(
                f"{name} ends at {utc(end)}, within a day", fix="extend it, or name one that runs longer"
            )
        else:
            yield passed(f"{name} ends at {utc(end)}")


def _blocks(cluster: Cluster) -> Mapping[str, Reserved]:
    return reserved(cluster, lambda one: one.is_block)


def _start(target: Reserved, inquiry: Inquiry) -> Iterator[Verdict]:
    said = capacity_terms(target.fleet.spec.capacity).starts_at
    for one in found_of(target, inquiry):
        start, name = one.get("StartDate"), one["CapacityReservationId"]
        if start is None or (said is not None and abs(start - said) < _SAME):
            yield passed(f"{name} starts at {'an unknown time' if start is None else utc(start)}")
        elif said is None and start <= inquiry.now:
            yield passed(f"{name} runs since {utc(start)}")
        elif said is None:
            yield failed(
                f"{name} starts at {utc(start)}, in the file it has started already",
                fix=f"starts_at: {utc(start)}",
            )
        else:
            yield warned(
                f"{name} starts at {utc(start)}, the file has {utc(said)}", fix=f"starts_at: {utc(start)}"
            )


def _end(target: Reserved, inquiry: Inquiry) -> Iterator[Verdict]:
    said = capacity_terms(target.fleet.spec.capacity).ends_at
    for one in found_of(target, inquiry):
        end, name = one.get("EndDate"), one["CapacityReservationId"]
        if end is None or said is None or abs(end - said) < _SAME:
            continue
        cause, fix = f"{name} ends at {utc(end)}, the file has {utc(said)}", f"ends_at: {utc(end)}"
        if said > end:
            yield failed(f"{cause}: EC2 would end the nodes before they are drained", fix=fix)
        else:
            yield warned(f"{cause}: paid time would go unused", fix=fix)


_NO_BLOCK = "no fleet launches into a Capacity Block"

CHECKS = (
    Check(
        rule=NOT_OVER,
        calls=RESERVATION_CALLS,
        subjects=reserved,
        judge=_not_over,
        unless="no fleet launches into an existing reservation",
        unneeded=unneeded,
    ),
    Check(
        rule=BLOCK_START,
        calls=RESERVATION_CALLS,
        subjects=_blocks,
        judge=_start,
        unless=_NO_BLOCK,
        unneeded=unneeded,
    ),
    Check(
        rule=BLOCK_END,
        calls=RESERVATION_CALLS,
        subjects=_blocks,
        judge=_end,
        unless=_NO_BLOCK,
        unneeded=unneeded,
    ),
)
