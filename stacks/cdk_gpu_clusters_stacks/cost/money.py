"""Money: decimal amounts, rounded once to cents, and shares that add up to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction

SECONDS_PER_HOUR, HOURS_PER_DAY = 3600, 24
_CENT = Decimal("0.01")
#: Enough digits for a price of five decimals times the seconds of a large cluster in a century.
_EXACT = Context(prec=60)


@dataclass(frozen=True, slots=True)
class Usd:
    """US dollars from least to most, in cents; equal unless a fleet scales or a price is a range."""

    low: Decimal
    high: Decimal

    def __add__(self, other: Usd) -> Usd:
        return Usd(self.low + other.low, self.high + other.high)


NOTHING = Usd(Decimal("0.00"), Decimal("0.00"))


def cents(amount: Decimal | Fraction) -> Decimal:
    """An amount, rounded to cents; half a cent is rounded up.

    Example:
        >>> cents(Decimal("41.528") / 8), cents(Fraction(1, 3))
        (Decimal('5.19'), Decimal('0.33'))
    """
    if isinstance(amount, Fraction):
        amount = _EXACT.divide(Decimal(amount.numerator), Decimal(amount.denominator))
    return amount.quantize(_CENT, ROUND_HALF_UP, _EXACT)


def price_of_seconds(usd_per_hour: Decimal, seconds: int) -> Decimal:
    """What some seconds cost at a price by the hour, to the cent.

    Example:
        >>> price_of_seconds(Decimal("55.04"), 90 * 60)
        Decimal('82.56')
    """
    return cents(Fraction(usd_per_hour) * seconds / SECONDS_PER_HOUR)


def split(amount: Decimal, weights: Sequence[int]) -> list[Decimal]:
    """Shares of an amount by weight, each in cents, that add up to it.

    Each share is first rounded down. The cents that are left go to the largest remainders, to the first one among
    equals: the method of the largest remainder (Hare and Niemeyer).

    Args:
        amount: The amount, in cents, not negative.
        weights: The weights, not negative, at least one of them positive.

    Example:
        >>> split(Decimal("1.00"), [1, 1, 1])
        [Decimal('0.34'), Decimal('0.33'), Decimal('0.33')]
    """
    total, number = int(amount / _CENT), sum(weights)
    shares = [divmod(total * weight, number) for weight in weights]
    left = total - sum(share for share, _ in shares)
    first = sorted(range(len(shares)), key=lambda index: -shares[index][1])[:left]
    more = set(first)
    return [(share + (index in more)) * _CENT for index, (share, _) in enumerate(shares)]
