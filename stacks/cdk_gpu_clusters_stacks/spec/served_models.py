"""The models of an inference fleet on Amazon EKS: how many servers each has, and between which numbers they scale."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cdk_gpu_clusters.kubernetes.mig import profile_label, profiles_of
from cdk_gpu_clusters.kubernetes.model_deployment import server_places
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.rules.vllm import is_vllm

from .inference import InferenceFleetSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """The servers of one size in a fleet.

    Attributes:
        name: Name of their Deployment, or of their Rollout.
        devices_per_server: Devices of each.
        profile: Their MIG profile; None without MIG.
        places: Places that the fleet has for them.
        fewest: Fewest servers.
        most: Most servers: all places but those that a canary keeps free.
    """

    name: str
    devices_per_server: int
    profile: str | None
    places: int
    fewest: int
    most: int

    @property
    def scales(self) -> bool:
        """Whether an autoscaler sets their number."""
        return self.fewest < self.most


def served_models(name: str, fleet: InferenceFleetSpec, pool: NodePool) -> Iterator[ServedModel]:
    """The models of a fleet; with MIG one for each profile.

    Args:
        name: Name of the fleet.
        fleet: The fleet.
        pool: Its nodes.
    """
    size = fleet.devices_per_server or 1
    profiles = [] if pool.mig is None else profiles_of(pool.mig)
    made: list[tuple[str, int, str | None]] = [(name, size, None)]
    if profiles:
        alone = len(profiles) == 1
        made = [(name if alone else f"{name}-{profile_label(one)}", 1, one.name) for one in profiles]
    for called, devices, profile in made:
        found = server_places(pool, devices_per_server=devices, profile=profile)
        places = 0 if found is None else found.count
        most = places if fleet.canary is None else places - fleet.canary.spare_servers
        # Others have no metric to scale by. Nodes between 0 and 1 leave servers no room to change.
        scales = fleet.scales and is_vllm(fleet.server.image)
        fewest = min(most, max(1, fleet.minimum_nodes) * (places // pool.node_count)) if scales else most
        yield ServedModel(
            name=called, devices_per_server=devices, profile=profile, places=places, fewest=fewest, most=most
        )
