"""Zones of the emulated account, which its APIs tell by name.

Which id belongs to which name differs between accounts (EC2 user guide, "Regions and Zones"). In this one, the zone
with the id that ends in 1 is zone a, the next b, and so on.
"""

from __future__ import annotations

import re

from cdk_gpu_clusters.rules.zones import read_zone

_ID = re.compile(r"[a-z]+\d+(?:-(?P<place>[a-z]+)(?P<number>\d+))?-az(?P<zone>\d+)")


def zone_name(zone: str) -> str:
    """The name of a zone that is given by name or by id; what is neither stays as it is."""
    known, parts = read_zone(zone), _ID.fullmatch(zone)
    if known is None or parts is None:
        return zone
    letter = chr(ord("a") + int(parts["zone"]) - 1)
    place = f"-{parts['place']}-{parts['number']}" if parts["place"] else ""
    return f"{known.region}{place}{letter}"
