"""When EC2 takes launches into a Capacity Block, by the emulator."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gpu_clusters_emulator.reservations import Reservation

END = datetime(2026, 12, 15, 11, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("instance_type", "kind", "minutes"),
    [
        ("p5.48xlarge", "capacity-block", 30),
        ("p6e-gb200.36xlarge", "capacity-block", 60),
        ("p5.48xlarge", "default", 0),
    ],
)
def test_a_block_takes_launches_until_its_instances_end(instance_type: str, kind: str, minutes: int) -> None:
    """EC2 user guide, "Capacity Blocks for ML": 30 minutes before the end, and 60 of an UltraServer."""
    block = Reservation(
        id="cr-0123456789abcdef0",
        instance_type=instance_type,
        availability_zone="us-east-1a",
        count=4,
        kind=kind,
        ends_at=END,
    )
    last = END - timedelta(minutes=minutes)
    assert block.accepts_launches(last - timedelta(seconds=1))
    assert not block.accepts_launches(last)
