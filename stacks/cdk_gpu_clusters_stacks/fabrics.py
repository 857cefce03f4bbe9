"""The EFA fabrics of a cluster and their ways to its stores."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk

from cdk_gpu_clusters.rules.interfaces import uses_efa
from cdk_gpu_clusters_stacks.data import ExistingLustre, LinkStack, LustreStack, Store
from cdk_gpu_clusters_stacks.fabric import FabricStack
from cdk_gpu_clusters_stacks.network import ClusterPlace
from cdk_gpu_clusters_stacks.spec.fleet import FleetSpec
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec
from cdk_gpu_clusters_stacks.stack_names import fabric_stack, link_stack


class Fabrics:
    """The EFA fabrics of a cluster and their ways to its stores, each made when the first fleet needs it."""

    def __init__(
        self,
        app: cdk.App,
        spec: ClusterSpec,
        place: ClusterPlace,
        stores: Mapping[str, Store],
        env: cdk.Environment,
    ) -> None:
        """Begin with none."""
        self._app, self._spec, self._place, self._stores, self._env = app, spec, place, stores, env
        self._fabrics: dict[str, FabricStack] = {}
        self._links: dict[str, LinkStack] = {}

    def of(self, fleet: FleetSpec) -> FabricStack | None:
        """The fabric of a fleet, None without EFA."""
        if not uses_efa(fleet.instance_type, fleet.efa):
            return None
        if fleet.fabric not in self._fabrics:
            name = fabric_stack(self._spec.name, fleet.fabric)
            made = FabricStack(self._app, name, place=self._place, env=self._env)
            self._fabrics[fleet.fabric] = made
        return self._fabrics[fleet.fabric]

    def link(self, fleet: FleetSpec, made: cdk.Stack) -> None:
        """Make the ways from a fleet's fabric to what it mounts, each once, before the fleet."""
        fabric = self.of(fleet)
        if fabric is None:
            return
        for name in sorted(set(fleet.mounts.values())):
            store, stack_name = self._stores[name], link_stack(self._spec.name, name, fleet.fabric)
            if stack_name not in self._links and isinstance(store, LustreStack | ExistingLustre):
                self._links[stack_name] = LinkStack(
                    self._app, stack_name, store=store, fabric=fabric, env=self._env
                )
            made.add_stack_dependency(self._links[stack_name])
