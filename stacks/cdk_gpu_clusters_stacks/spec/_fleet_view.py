"""A fleet with what the catalogue and the rules say about its type."""

from __future__ import annotations

from dataclasses import dataclass

from cdk_gpu_clusters.catalogue import InstanceType, instance_type
from cdk_gpu_clusters.catalogue.images import ImageParameter
from cdk_gpu_clusters.errors import ConfigError, Finding
from cdk_gpu_clusters.node.storage import SCRATCH_MOUNT_POINT, ScratchSettings
from cdk_gpu_clusters.rules.eks_cluster import MINIMUM_IP_TARGET
from cdk_gpu_clusters.rules.images import choose_image
from cdk_gpu_clusters.rules.interfaces import InterfacePlan, Orchestrator, plan_interfaces, uses_efa
from cdk_gpu_clusters.rules.mig import MigPlan, plan_mig
from cdk_gpu_clusters.rules.model_servers import plan_scratch

from ._document import Key
from ._parts import FleetPart, SpecParts
from .fleet import FleetSpec, ImageByOs
from .inference import InferenceFleetSpec
from .network import ExistingNetwork, NewNetwork

_SIZE = frozenset({"nodes", "min_nodes", "max_nodes"})


@dataclass(frozen=True, slots=True)
class FleetView:
    """A fleet of a known instance type.

    Attributes:
        part: The fleet in the file.
        type: Its instance type's record.
        region: Region of the cluster, if it is sound.
        network: Network of the cluster, if it is sound.
        plan: Network interfaces of a node; None where there is no such layout.
        plan_findings: Why there is none, or what is worth knowing about it.
        mig: How its GPUs are split; None if they stay whole, or cannot be split so.
        mig_findings: Why they cannot be, or what is worth knowing about it.
        on_eks: Whether its nodes are a node group of Amazon EKS.
        pod_addresses: Addresses that the VPC CNI takes for pods when a node joins; 0 where its settings are not known.
    """

    part: FleetPart
    type: InstanceType
    region: str | None
    network: NewNetwork | ExistingNetwork | None
    plan: InterfacePlan | None
    plan_findings: tuple[Finding, ...] = ()
    mig: MigPlan | None = None
    mig_findings: tuple[Finding, ...] = ()
    on_eks: bool = False
    pod_addresses: int = 0

    @classmethod
    def of(cls, part: FleetPart, parts: SpecParts) -> FleetView:
        """Look a fleet up in the catalogue.

        Raises:
            ConfigError: If its instance type is unknown.
        """
        spec, kind = part.spec, instance_type(part.spec.instance_type)
        plan: InterfacePlan | None = None
        split: MigPlan | None = None
        about_plan: tuple[Finding, ...] = ()
        about_split: tuple[Finding, ...] = ()
        try:
            plan = plan_interfaces(
                kind,
                policy=spec.interface_wish,
                orchestrator=Orchestrator.EKS_MANAGED if parts.on_eks else Orchestrator.EC2,
                efa=uses_efa(kind, spec.efa_wish),
            )
            about_plan = plan.findings
        except ConfigError as fault:
            about_plan = fault.findings
        if spec.mig_layouts is not None:
            try:
                split = plan_mig(kind, spec.mig_layouts)
                about_split = split.findings
            except ConfigError as fault:
                about_split = fault.findings
        return cls(
            part,
            kind,
            parts.region,
            parts.network,
            plan,
            about_plan,
            split,
            about_split,
            parts.on_eks,
            MINIMUM_IP_TARGET if parts.makes_eks else 0,
        )

    @property
    def key(self) -> Key:
        """Path of the fleet in the file."""
        return self.part.key

    @property
    def spec(self) -> FleetSpec | InferenceFleetSpec:
        """The fleet."""
        return self.part.spec

    @property
    def broken(self) -> frozenset[str]:
        """Fields of it that have a fault already."""
        return self.part.broken

    @property
    def name(self) -> str:
        """The fleet's name."""
        return str(self.key[-1])

    @property
    def uses_efa(self) -> bool:
        """Whether its nodes have EFA interfaces."""
        return uses_efa(self.type, self.spec.efa_wish)

    @property
    def addresses_per_node(self) -> int:
        """IPv4 addresses that a node takes from its subnet, with those for its first pods."""
        return (1 if self.plan is None else self.plan.ip_addresses_per_node) + self.pod_addresses

    @property
    def node_count(self) -> int | None:
        """Most nodes that it can have, if that is sound."""
        return None if self.broken & _SIZE else self.spec.maximum_nodes or None

    @property
    def image_row(self) -> ImageParameter | None:
        """The catalogue's row of its machine image; None for an image of the user's own, and where there is none."""
        image = self.spec.image
        if "image" in self.broken or not (image is None or isinstance(image, ImageByOs)):
            return None
        try:
            return choose_image(self.type, operating_system=image.os if image else None)
        except ConfigError:
            return None

    @property
    def scratch(self) -> ScratchSettings | None:
        """The file system on the local disks of a node; None where it has none."""
        disks = sum(disk.count for disk in self.type.local_disks)
        return ScratchSettings(disk_count=disks) if disks and self.scratch_plan[0] else None

    @property
    def scratch_plan(self) -> tuple[bool, list[Finding]]:
        """Whether local disks become one file system, and what is wrong with weights that lie on it."""
        if isinstance(self.spec, FleetSpec):
            return self.spec.scratch, []
        weights = self.spec.server.weights
        return plan_scratch(
            None if weights is None else weights.path,
            self.type,
            scratch=SCRATCH_MOUNT_POINT,
            wish=self.spec.scratch,
            mount_points=self.spec.mounts,
            copied=weights is not None and weights.s3_uri is not None,
        )

    @property
    def is_in_service_subnets(self) -> bool:
        """Whether its nodes stand beside the load balancers, and not in the fleets' subnet."""
        return isinstance(self.spec, InferenceFleetSpec) and not self.spec.is_reserved

    @property
    def place_is_unsound(self) -> bool:
        """Whether a fault of the capacity hides in which of the network's subnets its nodes stand."""
        return isinstance(self.spec, InferenceFleetSpec) and "capacity" in self.broken

    @property
    def zones(self) -> tuple[str, ...]:
        """Zones that its nodes may stand in, as far as their names are known."""
        if self.network is None or self.place_is_unsound:
            return ()
        if not self.is_in_service_subnets:
            return (self.network.availability_zone,)
        if isinstance(self.network, NewNetwork):
            return self.network.control_availability_zones or ()
        return tuple(self.network.service_subnets)

    @property
    def zone_count(self) -> int:
        """How many zones these are, also where only the deployment knows their names."""
        if isinstance(self.network, NewNetwork) and self.is_in_service_subnets:
            return len(self.network.control_zones)
        return len(self.zones) or 1
