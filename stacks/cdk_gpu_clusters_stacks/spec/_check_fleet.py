"""Checks of one fleet: what all fleets have in common, then what only its kind has.

Each check names the fields that it reads, and is left out where one of them has a fault already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeVar

from ._check_alarms import check_alarms_of
from ._check_balancer import check_balancer
from ._check_capacity import (
    check_block_size,
    check_group_region,
    check_node_group,
    check_strategy,
    check_terms,
)
from ._check_eks import check_devices
from ._check_inference import check_inference_nodes, check_inference_values
from ._check_mounts import check_mounted_stores, check_mounts
from ._check_nodes import check_driver, check_layout, check_layout_with_efa, check_machine_image
from ._check_server import check_server
from ._check_size import check_number, check_volume
from ._check_tags import check_tags
from ._check_training import check_training_nodes, check_training_values
from ._check_user_data import check_size
from ._document import Key
from ._fault import Fault
from ._fleet_view import FleetView
from ._parts import FleetPart, SpecParts
from .fleet import FleetSpec
from .nodes import NodesSpec

_NODES = frozenset({"nodes", "min_nodes", "max_nodes"})

CheckT = TypeVar("CheckT")
ValueCheck: TypeAlias = Callable[[Key, NodesSpec], list[Fault]]
NodeCheck: TypeAlias = Callable[[FleetView], list[Fault]]

_OF_VALUES: tuple[tuple[frozenset[str], ValueCheck], ...] = (
    (_NODES, check_number),
    (frozenset({"root_volume"}), check_volume),
)
_OF_NODES: tuple[tuple[frozenset[str], NodeCheck], ...] = (
    (_NODES | {"capacity"}, check_block_size),
    (frozenset({"capacity"}), check_terms),
    (frozenset({"capacity"}), check_group_region),
    (frozenset({"capacity"}), check_node_group),
    (frozenset({"placement", "efa", "capacity"}), check_strategy),
    (frozenset({"image"}), check_machine_image),
    (frozenset(), check_devices),
    (frozenset({"mig"}), check_layout),
    (frozenset({"mig", "efa"}), check_layout_with_efa),
    (frozenset({"mig", "image"}), check_driver),
    (frozenset({"environment", "user_data", "mig", "server"}), check_size),
)


def check_fleet_values(part: FleetPart, parts: SpecParts) -> list[Fault]:
    """Find what is wrong with a fleet of whatever type."""
    key, spec = part.key, part.spec
    faults = check_tags((*key, "tags"), spec.tags, above=parts.tags)
    faults += [fault for check in _sound(_OF_VALUES, part.broken) for fault in check(key, spec)]
    if not any(name.partition(".")[0] == "alarms" for name in part.broken):
        faults += check_alarms_of(key, spec, parts.region)
    faults += check_mounted_stores(key, spec, parts)
    if isinstance(spec, FleetSpec):
        return faults + check_training_values(key, spec, part.broken, parts)
    faults += check_server((*key, "server"), spec.server, part.broken, parts)
    if not parts.on_eks:  # a Service takes its place there
        faults += check_balancer(key, spec, part.broken, parts.region)
    return faults + check_inference_values(key, spec, part.broken)


def check_fleet_nodes(view: FleetView, parts: SpecParts) -> list[Fault]:
    """Find what is wrong with a fleet of its type."""
    faults = [fault for check in _sound(_OF_NODES, view.broken) for fault in check(view)]
    faults += check_mounts(view, parts)
    if isinstance(view.spec, FleetSpec):
        return faults + check_training_nodes(view, view.spec)
    return faults + check_inference_nodes(view, view.spec)


def _sound(checks: Iterable[tuple[frozenset[str], CheckT]], broken: frozenset[str]) -> list[CheckT]:
    """The checks that read no broken field; `server` is one where any key of it is."""
    names = broken | {name.partition(".")[0] for name in broken}
    return [check for needs, check in checks if not needs & names]
