"""What EC2 publishes about instance types, read from the recorded data as they are, not through the library's records.

What no API returns is written down here once more, from the pages, so that a wrong fact of the library meets another
reading of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

_DATA = files("cdk_gpu_clusters") / "catalogue" / "data"

#: AWS EC2 user guide, "Maximize network bandwidth on Amazon EC2 instances with multiple network cards": the cards that
#: carry a plain interface at device 1 in the use cases for IP bandwidth. For no other type are such cards published.
CARDS_FOR_IP_BANDWIDTH: Mapping[str, frozenset[int]] = {
    "p5.48xlarge": frozenset({4, 8, 12, 16, 20, 24, 28}),
    "p5e.48xlarge": frozenset({4, 8, 12, 16, 20, 24, 28}),
    "p6-b200.48xlarge": frozenset(range(1, 8)),
    "p6-b300.48xlarge": frozenset(range(1, 17)),
}

#: The same page: P6e-GB200 reaches its 1,600 Gbps with four EFA interfaces of 400 or with eight of 200. Any other type
#: gets one for each of its EFA cards.
EFA_COUNTS: Mapping[str, frozenset[int]] = {"p6e-gb200.36xlarge": frozenset({4, 8})}

#: AWS EC2 user guide, "Capacity Blocks for ML": types that are sold in UltraServers only, with the instances of each.
ULTRASERVERS: Mapping[str, tuple[int, ...]] = {"p6e-gb200.36xlarge": (9, 18), "trn2u.48xlarge": (4,)}

#: The recorded answer leaves the accelerators of this type out; its page, "Trn2", gives 16 chips as on trn2.48xlarge.
_UNRECORDED_CHIPS = {"trn2u.48xlarge": ("neuron", 16, "Trainium2")}


@dataclass(frozen=True, slots=True)
class Card:
    """One network card: what it holds, and which types of interface it takes."""

    holds: int
    takes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Hardware:
    """One instance type as DescribeInstanceTypes has it."""

    name: str
    architecture: str
    accelerator: str | None
    accelerator_count: int
    accelerator_name: str | None
    accelerator_memory_mib: int | None
    vcpus: int
    addresses_per_interface: int
    disk_count: int
    cards: tuple[Card, ...]
    most_interfaces: int
    most_efa: int
    usage_classes: frozenset[str]
    placement_strategies: frozenset[str] | None

    @property
    def family(self) -> str:
        """Part of the name before the dot."""
        return self.name.partition(".")[0]

    @property
    def full_efa(self) -> frozenset[int]:
        """Numbers of EFA interfaces that give the type's whole EFA bandwidth."""
        return EFA_COUNTS.get(self.name, frozenset({self.most_efa}))


@cache
def hardware_types() -> Mapping[str, Hardware]:
    """Every type of the recorded data, by name."""
    found: dict[str, Hardware] = {}
    for file in ("documented_instance_types.json", "ec2_instance_types.json"):
        rows: Mapping[str, Any] = json.loads((_DATA / file).read_text(encoding="utf-8"))["types"]
        found |= {name: _hardware(name, row) for name, row in rows.items()}
    return dict(sorted(found.items()))


def _hardware(name: str, row: Mapping[str, Any]) -> Hardware:
    chips, network = row.get("accelerator"), row["network"]
    kind, count, of_page = _UNRECORDED_CHIPS.get(name, (None, 0, None))
    return Hardware(
        name=name,
        architecture=row["architecture"],
        accelerator=chips["kind"] if chips else kind,
        accelerator_count=(chips["count"] or chips["logical_count"]) if chips else count,
        accelerator_name=chips["name"] if chips else of_page,
        accelerator_memory_mib=chips["memory_mib_each"] if chips else None,
        vcpus=row["vcpus"],
        addresses_per_interface=network["ipv4_per_interface"],
        disk_count=sum(disk[0] for disk in row.get("disks", ())),
        cards=tuple(
            Card(card["max_interfaces"], frozenset(card["interface_types"]))
            for card in network["cards"]
            for _ in range(card["from"], card["to"] + 1)
        ),
        most_interfaces=network["max_interfaces"],
        most_efa=network.get("efa_interfaces", 0),
        usage_classes=frozenset(row["usage_classes"]),
        placement_strategies=frozenset(row["placement_strategies"]) if "placement_strategies" in row else None,
    )
