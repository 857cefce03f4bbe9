"""The stacks of a cluster, as `app.build_cluster` makes them."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters_stacks.spec.capacity import NewReservation
from cdk_gpu_clusters_stacks.spec.data import CheckpointsSpec, ExistingLustreSpec, LustreSpec
from cdk_gpu_clusters_stacks.spec.fleet import FleetSpec
from cdk_gpu_clusters_stacks.spec.inference import InferenceFleetSpec
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec
from cdk_gpu_clusters_stacks.spec.network import NewNetwork
from cdk_gpu_clusters_stacks.spec.views import FleetView
from cdk_gpu_clusters_stacks.stack_names import (
    capacity_stack,
    data_stack,
    eks_stack,
    fabric_stack,
    inference_stack,
    link_stack,
    network_stack,
    software_stack,
    training_stack,
)

from .model import StackPlan


def plan_stacks(spec: ClusterSpec, views: list[FleetView]) -> tuple[StackPlan, ...]:
    """The stacks in an order in which they can be deployed."""
    stacks: dict[str, StackPlan] = {}
    for stack in _stacks(spec, views):
        stacks.setdefault(stack.name, stack)
    return tuple(stacks.values())


def _stacks(spec: ClusterSpec, views: list[FleetView]) -> Iterator[StackPlan]:
    network = (network_stack(spec.name),) if isinstance(spec.network, NewNetwork) else ()
    for name in network:
        yield StackPlan(name=name, kind="network", of="", outlives=False)
    for name, store in spec.data.items():
        if isinstance(store, LustreSpec | CheckpointsSpec):
            depends = network if isinstance(store, LustreSpec) else ()
            yield StackPlan(
                name=data_stack(spec.name, name), kind="data", of=name, outlives=True, depends_on=depends
            )
    kubernetes: tuple[str, ...] = ()
    if spec.orchestrator == "eks" and spec.eks.existing is None:
        kubernetes = (eks_stack(spec.name),)
        yield StackPlan(name=kubernetes[0], kind="kubernetes", of="", outlives=False, depends_on=network)
    for view in views:
        yield from _of_fleet(spec, view, network, kubernetes)
    if spec.orchestrator == "eks" and spec.eks.software.apply:
        stores = [
            data_stack(spec.name, name) for name, one in spec.data.items() if isinstance(one, LustreSpec)
        ]
        yield StackPlan(
            name=software_stack(spec.name),
            kind="software",
            of="",
            outlives=False,
            depends_on=(*network, *kubernetes, *stores),
        )


def _of_fleet(
    spec: ClusterSpec, view: FleetView, network: tuple[str, ...], kubernetes: tuple[str, ...]
) -> Iterator[StackPlan]:
    fleet, depends = view.spec, [*network, *kubernetes]
    if isinstance(fleet, FleetSpec) and view.uses_efa:
        fabric = fabric_stack(spec.name, fleet.fabric)
        yield StackPlan(name=fabric, kind="fabric", of=fleet.fabric, outlives=False, depends_on=network)
        depends.append(fabric)
    if isinstance(fleet.capacity, NewReservation):
        reservation = capacity_stack(spec.name, view.name)
        yield StackPlan(name=reservation, kind="capacity", of=view.name, outlives=False)
        depends.append(reservation)
    for name in sorted({*fleet.mounts.values(), *_checkpoints(fleet)}):
        store = spec.data[name]
        if isinstance(store, LustreSpec | CheckpointsSpec):
            depends.append(data_stack(spec.name, name))
        if (
            isinstance(fleet, FleetSpec)
            and view.uses_efa
            and isinstance(store, LustreSpec | ExistingLustreSpec)
        ):
            link = link_stack(spec.name, name, fleet.fabric)
            own = (data_stack(spec.name, name),) if isinstance(store, LustreSpec) else ()
            yield StackPlan(
                name=link,
                kind="link",
                of=name,
                outlives=False,
                depends_on=(*own, fabric_stack(spec.name, fleet.fabric)),
            )
            depends.append(link)
    is_serving = isinstance(fleet, InferenceFleetSpec)
    stack_name = inference_stack if is_serving else training_stack
    yield StackPlan(
        name=stack_name(spec.name, view.name),
        kind="inference" if is_serving else "fleet",
        of=view.name,
        outlives=False,
        depends_on=tuple(depends),
    )


def _checkpoints(fleet: FleetSpec | InferenceFleetSpec) -> list[str]:
    name = fleet.checkpoints if isinstance(fleet, FleetSpec) else None
    return [] if name is None else [name]
