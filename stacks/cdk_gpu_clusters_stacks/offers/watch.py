"""Ask again until a Capacity Block is on offer, at intervals that grow."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from .model import BlockOffer, Market

FIRST_INTERVAL_SECONDS = 30.0
LONGEST_INTERVAL_SECONDS = 900.0
GROWTH = 1.5


def watch_blocks(
    look: Callable[[], Market],
    *,
    most_seconds: float,
    max_price: Decimal | None,
    sleep: Callable[[float], None],
    on_wait: Callable[[float], None] = lambda _: None,
) -> list[BlockOffer]:
    """Look until a block is on offer; the first time at once.

    Args:
        look: Searches once.
        most_seconds: When to give up, counted in the intervals that were waited.
        max_price: Limit in USD: blocks that cost more, or in another currency, do not count.
        sleep: Waits.
        on_wait: Called before each interval, with its length in seconds.

    Returns:
        The blocks that count, the cheapest first; empty if there was none in all that time.
    """
    waited, interval = 0.0, FIRST_INTERVAL_SECONDS
    while True:
        found = [one for one in look().blocks if max_price is None or one.costs_at_most(max_price)]
        if found or waited + interval > most_seconds:
            return found
        on_wait(interval)
        sleep(interval)
        waited += interval
        interval = min(interval * GROWTH, LONGEST_INTERVAL_SECONDS)
