"""What bandwidth a set of network cards gives together."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from cdk_gpu_clusters.catalogue import InstanceType

# p6e-gb200: cards (1,2), (3,4) ... share one 400 Gbps port; odd cards (1,3), (5,7) ... one GPU of 400 Gbps.
# Four cards in a row thus give 400 Gbps at most. Source: AWS EC2 user guide, "Maximize network bandwidth on
# Amazon EC2 instances with multiple network cards" (stored copy, mid-2026); that the even cards count against
# the same GPU is the cautious reading.
_SHARED_GBPS = {"p6e-gb200": (400.0, tuple(frozenset(range(first, first + 4)) for first in (1, 5, 9, 13)))}


def efa_gbps_of(instance_type: InstanceType, cards: Collection[int]) -> float | None:
    """The EFA bandwidth in Gbps of a node that has an EFA interface on each of `cards`.

    Args:
        instance_type: The instance type.
        cards: Indexes of the network cards that carry EFA; repeated ones count once.

    Returns:
        The sum over the cards, at most the type's ceiling; 0 without cards; None where no source gives it.
    """
    used = frozenset(cards)
    efa = instance_type.network.efa
    if not used or efa is None:
        return 0.0
    if used >= frozenset(efa.recommended_cards):
        return efa.ceiling_gbps
    per_card = {card.index: card.efa_gbps for card in instance_type.network.cards if card.index in used}
    total = _sum_with_shares(instance_type.family, per_card)
    if total is None or efa.ceiling_gbps is None:
        return total
    return min(total, efa.ceiling_gbps)


def ena_gbps_of(instance_type: InstanceType, cards: Sequence[int]) -> float | None:
    """The IP bandwidth in Gbps of a node that has an ENA interface on each of `cards`.

    Args:
        instance_type: The instance type.
        cards: Indexes of the network cards that carry an IP address.

    Returns:
        The primary card's bandwidth, or the type's maximum where every card documented for it is used; None
        for sets in between and where no source gives a number.
    """
    network = instance_type.network
    used = frozenset(cards)
    if used <= {0}:
        return network.primary_ena_gbps
    if network.extra_ena_cards and used >= {0, *network.extra_ena_cards}:
        return network.maximum_ena_gbps
    return None


def _sum_with_shares(family: str, per_card: dict[int, float | None]) -> float | None:
    limit, groups = _SHARED_GBPS.get(family, (0.0, ()))
    total = 0.0
    alone = dict(per_card)
    for group in groups:
        members = [alone.pop(card) for card in sorted(group & alone.keys())]
        known = [gbps for gbps in members if gbps is not None]
        if len(known) < len(members):
            return None
        total += min(limit, sum(known))
    known = [gbps for gbps in alone.values() if gbps is not None]
    return total + sum(known) if len(known) == len(alone) else None
