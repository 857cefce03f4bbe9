"""The network of a cluster, created or existing, and the EFA security group that its fleets share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct, IConstruct

from cdk_gpu_clusters.network.cluster_network import ClusterNetwork
from cdk_gpu_clusters.network.efa_security_group import EfaSecurityGroup
from cdk_gpu_clusters.network.egress import NetworkEgress
from cdk_gpu_clusters.network.endpoint_access import EndpointAccess
from cdk_gpu_clusters.rules.endpoints import NetworkFeature
from cdk_gpu_clusters_stacks.references import publish, read
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec
from cdk_gpu_clusters_stacks.spec.network import ExistingNetwork, NewNetwork
from cdk_gpu_clusters_stacks.stack_names import network_stack


@dataclass(frozen=True, slots=True)
class FleetPlace:
    """The place of a fleet, as constructs of the fleet's own stack."""

    vpc: ec2.IVpc
    subnets: list[ec2.ISubnet]


class NetworkStack(cdk.Stack):
    """A `ClusterNetwork` and what fleets need of it, as outputs that never change with the fleets."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        spec: NewNetwork,
        features: Sequence[NetworkFeature],
        env: cdk.Environment,
    ) -> None:
        super().__init__(scope, construct_id, env=env, description="Network of a GPU cluster")
        access = spec.endpoint_access
        self.network = ClusterNetwork(
            self,
            "Network",
            availability_zone=spec.availability_zone,
            cidr=spec.cidr,
            fleet_subnet_prefix=spec.fleet_subnet_prefix,
            control_availability_zones=spec.control_availability_zones,
            egress=NetworkEgress(spec.egress),
            endpoint_access=None if access is None else EndpointAccess(**access.model_dump()),
            features=features,
            flow_logs=spec.flow_logs,
        )
        publish(self, "VpcId", self.network.vpc.vpc_id, description="VPC of the cluster")
        publish(
            self,
            "FleetSubnetId",
            self.network.fleet_subnet.subnet_id,
            description="Subnet of the cluster's nodes",
        )
        for zone, subnet in zip(spec.control_zones, self.network.load_balancer_subnets, strict=True):
            publish(
                self,
                load_balancer_output(zone),
                subnet.subnet_id,
                description="Subnet of load balancers and of inference nodes",
            )


def load_balancer_output(zone: str) -> str:
    """Name of the output with the load-balancer subnet of a zone, such as `LoadBalancerSubnetIdUsEast1A`."""
    return f"LoadBalancerSubnetId{zone.title().replace('-', '')}"


class ClusterNetworkRef(ABC):
    """Gives each stack of the app its own view of the cluster's network.

    Attributes:
        availability_zone: Zone of the cluster, by name or id.
    """

    def __init__(self, availability_zone: str) -> None:
        self.availability_zone = availability_zone

    @abstractmethod
    def vpc_id(self, reader: cdk.Stack) -> str:
        """Id of the VPC, for a stack that reads it."""

    @abstractmethod
    def subnet_ids(self, reader: cdk.Stack) -> Sequence[str]:
        """Ids of the fleets' subnets, for a stack that reads them."""

    @abstractmethod
    def service_subnet_ids(self, reader: cdk.Stack) -> Mapping[str, str]:
        """Ids of the private subnets of load balancers by zone, for a stack that reads them."""

    @abstractmethod
    def public_subnet_ids(self) -> Mapping[str, str]:
        """Ids of the public subnets of load balancers by zone."""

    def import_into(self, reader: cdk.Stack) -> FleetPlace:
        """The VPC and the fleets' private subnets, imported into a stack."""
        zone = self.availability_zone
        subnets = [
            import_subnet(reader, f"Subnet{index}", subnet_id, zone)
            for index, subnet_id in enumerate(self.subnet_ids(reader))
        ]
        return FleetPlace(self.vpc(reader), subnets)

    def vpc(self, reader: cdk.Stack) -> ec2.IVpc:
        """The VPC, imported into a stack."""
        return ec2.Vpc.from_vpc_attributes(
            reader, "Vpc", vpc_id=self.vpc_id(reader), availability_zones=[self.availability_zone]
        )

    def service_subnets(self, reader: cdk.Stack, *, public: bool = False) -> list[ec2.ISubnet]:
        """The subnets of load balancers, one for each zone, imported into a stack."""
        ids = self.public_subnet_ids() if public else self.service_subnet_ids(reader)
        kind = "Public" if public else "Service"
        return [import_subnet(reader, f"{kind}{zone}", ids[zone], zone) for zone in sorted(ids)]


def import_subnet(reader: cdk.Stack, construct_id: str, subnet_id: str, zone: str) -> ec2.ISubnet:
    """A subnet whose routes nothing changes, imported into a stack."""
    subnet = ec2.Subnet.from_subnet_attributes(reader, construct_id, subnet_id=subnet_id, availability_zone=zone)
    _add_no_route(subnet)
    return subnet


def _add_no_route(imported: IConstruct) -> None:
    cdk.Annotations.of(imported).acknowledge_warning(
        "@aws-cdk/aws-ec2:noSubnetRouteTableId", "no route is added to the subnet"
    )


class ExistingPlace(ClusterNetworkRef):
    """A network that exists already."""

    def __init__(self, spec: ExistingNetwork) -> None:
        super().__init__(spec.availability_zone)
        self._spec = spec

    def import_into(self, reader: cdk.Stack) -> FleetPlace:
        """The VPC and the fleets' subnets, known as public where they are."""
        if not self._spec.public:
            return super().import_into(reader)
        vpc = ec2.Vpc.from_vpc_attributes(
            reader,
            "Vpc",
            vpc_id=self._spec.vpc_id,
            availability_zones=[self.availability_zone],
            public_subnet_ids=list(self._spec.subnet_ids),
        )
        _add_no_route(vpc)
        return FleetPlace(vpc, vpc.public_subnets)

    def vpc_id(self, reader: cdk.Stack) -> str:  # noqa: ARG002
        return self._spec.vpc_id

    def subnet_ids(self, reader: cdk.Stack) -> Sequence[str]:  # noqa: ARG002
        return self._spec.subnet_ids

    def service_subnet_ids(self, reader: cdk.Stack) -> Mapping[str, str]:  # noqa: ARG002
        return self._spec.service_subnets

    def public_subnet_ids(self) -> Mapping[str, str]:
        return self._spec.public_subnets


class MadePlace(ClusterNetworkRef):
    """A network that a stack of this app makes."""

    def __init__(self, stack: NetworkStack, spec: NewNetwork) -> None:
        super().__init__(spec.availability_zone)
        self._stack, self._spec = stack, spec

    def vpc_id(self, reader: cdk.Stack) -> str:
        return read(reader, self._stack, "VpcId")

    def subnet_ids(self, reader: cdk.Stack) -> Sequence[str]:
        return [read(reader, self._stack, "FleetSubnetId")]

    def service_subnet_ids(self, reader: cdk.Stack) -> Mapping[str, str]:
        """Weak references to the subnets, by zones that only the deployment may know."""
        return {zone: read(reader, self._stack, load_balancer_output(zone)) for zone in self._spec.control_zones}

    def public_subnet_ids(self) -> Mapping[str, str]:
        """None: the one public subnet is the NAT gateway's."""
        return {}


def cluster_place(app: cdk.App, spec: ClusterSpec, env: cdk.Environment) -> ClusterNetworkRef:
    """The network of a cluster: made in a stack of its own, or existing."""
    if isinstance(spec.network, ExistingNetwork):
        return ExistingPlace(spec.network)
    stack = NetworkStack(app, network_stack(spec.name), spec=spec.network, features=spec.features, env=env)
    return MadePlace(stack, spec.network)


# The EFA security group that several fleets of a cluster share.


class FabricStack(cdk.Stack):
    """One fabric: an `EfaSecurityGroup`, in a stack of its own so that fleets come and go beside it."""

    def __init__(self, scope: Construct, construct_id: str, *, place: ClusterNetworkRef, env: cdk.Environment) -> None:
        super().__init__(scope, construct_id, env=env, description="EFA fabric of a GPU cluster")
        group = EfaSecurityGroup(self, "Fabric", vpc=place.vpc(self))
        publish(self, "FabricGroupId", group.security_group_id, description="EFA security group of the fabric")

    def import_into(self, reader: cdk.Stack) -> ec2.ISecurityGroup:
        """The group, imported into a stack."""
        return ec2.SecurityGroup.from_security_group_id(
            reader, "Fabric", read(reader, self, "FabricGroupId"), mutable=False
        )
