"""Numbers as the page shows them."""

from __future__ import annotations

from collections.abc import Sequence

from cdk_gpu_clusters_stacks.counting import count
from cdk_gpu_clusters_stacks.plan import UsdRange

UNKNOWN = "unknown"


def number(value: float) -> str:
    """A number with commas, without needless decimals."""
    return f"{value:,.1f}".removesuffix(".0")


def usd(amount: UsdRange | None) -> str:
    """An amount or a range of US dollars; unknown for none."""
    if amount is None:
        return UNKNOWN
    low, high = _dollars(amount.low), _dollars(amount.high)
    return low if low == high else f"{low} to {high}"


def _dollars(value: float) -> str:
    return f"${value:,.0f}" if value >= 1000 else f"${value:,.2f}"


def gbps(value: float | None) -> str:
    """Bandwidth; unknown for none."""
    if value is None:
        return UNKNOWN
    return f"{number(value / 1000)} Tbps" if value >= 1000 else f"{number(value)} Gbps"


def nodes_text(least: int, most: int) -> str:
    """`4 nodes`, or `1 to 8 nodes`."""
    return count(most, "node") if least == most else f"{least:,} to {most:,} nodes"


def zones_text(zones: Sequence[str]) -> str:
    """Zones, or that only the deployment knows them."""
    return ", ".join(zones) or "zones of the account"
