"""How nodes in private subnets reach AWS services and the internet."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from aws_cdk import CfnTag
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import ClusterConstruct, path_of

from .network_subnet import NetworkSubnet, id_of_table

EVERYWHERE = "0.0.0.0/0"

_PUBLIC_ROUTE = AcceptedFinding(
    cause="`ClusterNetwork`: route of the public subnet to the internet gateway",
    reason="The public subnet holds nothing but the NAT gateway, which takes no connections from outside.",
    nist_hipaa_pci=("VPCNoUnrestrictedRouteToIGW",),
)


class NetworkEgress(StrEnum):
    """How a cluster network reaches what is outside it."""

    NAT = "nat"
    """One NAT gateway: nodes reach the internet and every AWS service, nothing reaches them."""
    CLOSED = "closed"
    """No internet: nodes reach only S3 and the AWS services for which there is an interface endpoint."""


class NatEgress(ClusterConstruct):
    """An internet gateway, one public subnet with a NAT gateway, and default routes through it.

    One gateway in one zone, the fleet's: the fleet is in one zone anyway, and traffic that crosses zones
    costs extra. The public subnet gives no public address to anything but the gateway.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc_id: str,
        availability_zone: str,
        cidr_block: str,
        private_route_tables: Mapping[str, ec2.CfnRouteTable],
    ) -> None:
        """Define the gateway.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            vpc_id: The VPC.
            availability_zone: Zone of the NAT gateway, by name or id.
            cidr_block: Block of the public subnet, within the VPC's.
            private_route_tables: Tables that get a default route through the gateway, by role.
        """
        super().__init__(scope, construct_id)
        self.internet_gateway: ec2.CfnInternetGateway = ec2.CfnInternetGateway(
            self, "InternetGateway", tags=self._name("InternetGateway")
        )
        attachment = ec2.CfnVPCGatewayAttachment(
            self, "Attachment", vpc_id=vpc_id, internet_gateway_id=self.internet_gateway.ref
        )
        self.route_table: ec2.CfnRouteTable = ec2.CfnRouteTable(
            self, "PublicRoutes", vpc_id=vpc_id, tags=self._name("PublicRoutes")
        )
        internet = ec2.CfnRoute(
            self,
            "Internet",
            route_table_id=id_of_table(self.route_table),
            destination_cidr_block=EVERYWHERE,
            gateway_id=self.internet_gateway.ref,
        )
        internet.node.add_dependency(attachment)
        _PUBLIC_ROUTE.at(internet)
        self.public: NetworkSubnet = NetworkSubnet(
            self,
            "Public",
            vpc_id=vpc_id,
            availability_zone=availability_zone,
            cidr_block=cidr_block,
            route_table=self.route_table,
        )
        self.elastic_ip: ec2.CfnEIP = ec2.CfnEIP(self, "Address", domain="vpc", tags=self._name("Address"))
        self.elastic_ip.node.add_dependency(attachment)
        self.nat_gateway: ec2.CfnNatGateway = ec2.CfnNatGateway(
            self,
            "NatGateway",
            subnet_id=self.public.cfn_subnet.ref,
            allocation_id=self.elastic_ip.attr_allocation_id,
            tags=self._name("NatGateway"),
        )
        # Without the route the gateway is made, but its check for internet access fails.
        self.nat_gateway.node.add_dependency(internet, self.public.association)
        self.routes: list[ec2.CfnRoute] = [
            ec2.CfnRoute(
                self,
                f"{role}Default",
                route_table_id=id_of_table(table),
                destination_cidr_block=EVERYWHERE,
                nat_gateway_id=self.nat_gateway.ref,
            )
            for role, table in private_route_tables.items()
        ]

    def _name(self, part: str) -> list[CfnTag]:
        return [CfnTag(key="Name", value=f"{path_of(self)}/{part}")]
