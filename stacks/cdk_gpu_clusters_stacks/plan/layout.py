"""Text in sections: a heading, and rows of a label and its text, wrapped below each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from textwrap import wrap

from cdk_gpu_clusters.catalogue.prices import Price

from .model import PriceUsed, UsdRange

_INDENT = "  "
_LABEL = 13


@dataclass(frozen=True, slots=True)
class Row:
    """One row: a label, and lines, each of which is wrapped for itself; `details` are indented below them."""

    label: str
    lines: Sequence[str]
    details: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and its rows."""

    heading: str
    rows: Sequence[Row]


def lay_out(sections: Iterable[Section], *, width: int) -> str:
    """The sections as text, with an empty line between them."""
    blocks = ["\n".join([*_wrapped(one.heading, width, ""), *_rows(one.rows, width)]) for one in sections]
    return "\n\n".join(blocks) + "\n"


def _rows(rows: Sequence[Row], width: int) -> Iterator[str]:
    hanging = _INDENT + " " * _LABEL
    for row in rows:
        first = f"{_INDENT}{row.label:<{_LABEL}}"
        for line in row.lines:
            yield from _wrapped(line, width, first, hanging)
            first = hanging
        column = max((len(name) for name, _ in row.details), default=0) + 2
        for name, text in row.details:
            yield from _wrapped(text, width, f"{hanging}{name:<{column}}", hanging + " " * column)


def _wrapped(text: str, width: int, first: str, hanging: str = _INDENT) -> list[str]:
    lines = wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.rstrip() for line in lines] or [first.rstrip()]


@dataclass(slots=True)
class Footnotes:
    """Prices by the number that the text gives them, in the order of their first use."""

    _numbers: dict[PriceUsed | Price, int] = field(default_factory=dict)

    def mark(self, prices: Iterable[PriceUsed | Price]) -> str:
        """The mark behind an amount, such as ` [1]`; empty without prices."""
        numbers = [self._numbers.setdefault(price, len(self._numbers) + 1) for price in prices]
        return f" [{', '.join(map(str, numbers))}]" if numbers else ""

    def section(self) -> Iterator[Section]:
        """The section with each mark and its price; none without prices."""
        rows = [Row(f"[{number}]", [_price_words(price)]) for price, number in self._numbers.items()]
        if rows:
            yield Section("Prices (list prices: an estimate, not a bill)", rows)


def number(value: float) -> str:
    """A number with thousands apart and at most two decimals.

    Example:
        >>> number(3200.0), number(4.5), number(1399.999)
        ('3,200', '4.5', '1,400')
    """
    text = f"{value:,.2f}"
    return text.rstrip("0").rstrip(".")


def usd(amount: UsdRange | float, *, ceiling: bool = False) -> str:
    """An amount in US dollars.

    Example:
        >>> usd(UsdRange(0, 9.696)), usd(55.04), usd(160.0, ceiling=True)
        ('0.00 to 9.70 USD', '55.04 USD', 'at most 160.00 USD')
    """
    low, high = (amount.low, amount.high) if isinstance(amount, UsdRange) else (amount, amount)
    if ceiling:
        return f"at most {high:,.2f} USD"
    return f"{high:,.2f} USD" if f"{low:.2f}" == f"{high:.2f}" else f"{low:,.2f} to {high:,.2f} USD"


def _price_words(price: PriceUsed | Price) -> str:
    """A list price with its date and source."""
    place = {"*": "every Region that sells it", "": "Region not named"}.get(price.region, price.region)
    note = f"; {price.note}" if price.note else ""
    return (
        f"{price.subject}, {price.market}, {place}: {price.usd:g} USD per {price.unit}, {price.as_of}, "
        f"{price.verification}{note}. Source: {price.source}"
    )


def known(value: float | None, unit: str, reason: str) -> str:
    """A number with its unit, or `unknown` with the reason."""
    return f"unknown ({reason})" if value is None else f"{number(value)} {unit}".rstrip()


def ranges(indexes: Sequence[int]) -> str:
    """Indexes as ranges.

    Example:
        >>> ranges([0, 1, 2, 3, 7, 9, 10])
        '0-3, 7, 9-10'
    """
    runs = [[index for _, index in run] for _, run in groupby(enumerate(indexes), key=lambda pair: pair[1] - pair[0])]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
