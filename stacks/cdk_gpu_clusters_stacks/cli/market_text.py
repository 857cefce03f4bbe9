"""Offers as tables."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from cdk_gpu_clusters_stacks.offers.model import BlockOffer, Market

from . import output


def write_market(market: Market) -> None:
    """Print what is on offer, side by side; what could not be asked goes to standard error."""
    request = market.request
    output.write(f"{request.count} x {request.instance_type} for {request.hours} hours\n\n")
    if market.blocks:
        write_blocks(market.blocks)
    else:
        output.write("no Capacity Block is on offer\n")
    if market.zones:
        output.write("\n")
        output.write_table(
            ("market", "Region", "zone", "USD/h each", "USD in all", "score", "price"),
            (
                (
                    one.market,
                    one.region,
                    one.zone,
                    _usd(one.usd_per_hour),
                    _usd(one.total_usd(request)),
                    "-" if one.spot_score is None else f"{one.spot_score}/10",
                    one.price_source,
                )
                for one in market.zones
            ),
            right=("USD/h each", "USD in all", "score"),
        )
        output.write(
            "\nAn offer of a zone is no promise of room; spot is taken back with two minutes' notice.\n"
        )
        if any(one.spot_score is not None for one in market.zones):
            output.write(
                "EC2 scores a single instance type low everywhere: compare zones by the score, no more.\n"
            )
    for problem in market.problems:
        output.write(f"{problem.region}: {problem.action}: {problem.reason}\n", stderr=True)


def write_blocks(blocks: Sequence[BlockOffer]) -> None:
    """Print Capacity Blocks."""
    output.write_table(
        ("Capacity Block", "Region", "zone", "starts", "ends", "price", "each hour"),
        (
            (
                one.id,
                one.region,
                one.zone,
                f"{one.starts_at:%Y-%m-%d %H:%MZ}",
                f"{one.ends_at:%Y-%m-%d %H:%MZ}",
                f"{one.price:,} {one.currency}",
                f"{one.price_per_instance_hour:.3f}",
            )
            for one in blocks
        ),
        right=("price", "each hour"),
    )


def _usd(amount: Decimal | None) -> str:
    return "unknown" if amount is None else f"{amount:,.2f}"
