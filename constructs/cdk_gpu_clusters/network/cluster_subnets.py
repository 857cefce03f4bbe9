"""The private subnets of a cluster network, and the VPC as other constructs take it."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network

from aws_cdk import CfnTag, Fn
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from cdk_gpu_clusters._cdk import ClusterConstruct, path_of, resolved_or_none

from .network_subnet import NetworkSubnet, id_of_table
from .network_zones import NetworkZones
from .subnets import SubnetBlock, SubnetPlan

# The tag by which the AWS Load Balancer Controller finds subnets for internal load balancers (Amazon EKS user
# guide, "Route internet traffic with AWS Load Balancers"). CDK cannot tag subnets of an imported VPC itself.
_INTERNAL_LOAD_BALANCER = {"kubernetes.io/role/internal-elb": "1"}
_FLEET = "Fleet"
_CONTROL = "Control"
_LOAD_BALANCER = "LoadBalancer"


def cidr_of(block: SubnetBlock, vpc_cidr: str) -> str:
    """A subnet's CIDR: plain if the VPC's is plain, computed by CloudFormation (`Fn::Cidr`) otherwise."""
    if (literal := resolved_or_none(vpc_cidr)) is not None:
        return block.cidr(IPv4Network(literal))
    return Fn.select(block.index, Fn.cidr(vpc_cidr, block.index + 1, str(block.address_bits)))


class ClusterSubnets(ClusterConstruct):
    """The fleet subnet, and a control and a load-balancer subnet in each control zone.

    The fleet has a route table of its own; the other subnets share one.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc_id: str,
        vpc_cidr: str,
        zones: NetworkZones,
        plan: SubnetPlan,
    ) -> None:
        """Define the subnets.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            vpc_id: The VPC.
            vpc_cidr: Its block, or a token.
            zones: The zone of each subnet.
            plan: The block of each subnet.
        """
        super().__init__(scope, construct_id)
        self._vpc_id = vpc_id
        self._vpc_cidr = vpc_cidr
        self.route_tables: Mapping[str, ec2.CfnRouteTable] = {
            role: ec2.CfnRouteTable(
                self,
                f"{role}Routes",
                vpc_id=vpc_id,
                tags=[CfnTag(key="Name", value=f"{path_of(self)}/{role}")],
            )
            for role in (_FLEET, _CONTROL)
        }
        self.fleet: NetworkSubnet = self._subnet(self, _FLEET, zones.fleet, plan.fleet, routes=_FLEET)
        control, balancers = Construct(self, _CONTROL), Construct(self, _LOAD_BALANCER)
        self.control: list[NetworkSubnet] = [
            self._subnet(control, key, zone, plan.control[key]) for key, zone in zones.control
        ]
        self.load_balancer: list[NetworkSubnet] = [
            self._subnet(balancers, key, zone, plan.load_balancer[key], tags=_INTERNAL_LOAD_BALANCER)
            for key, zone in zones.control
        ]

    def import_vpc(self, scope: Construct, construct_id: str, *, isolated: bool) -> ec2.IVpc:
        """The VPC with the control and load-balancer subnets.

        An import, because `ec2.Vpc` looks up the account's zones where the stack names its account and
        Region. The fleet subnet cannot be among its subnets: an imported VPC has a subnet of each kind in
        every zone.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            isolated: Whether the subnets have no route to the internet.
        """
        subnets = [*self.control, *self.load_balancer]
        ids = [made.subnet.subnet_id for made in subnets]
        names = [_CONTROL, _LOAD_BALANCER]
        blocks = [made.cidr_block for made in subnets]
        tables = [id_of_table(self.route_tables[_CONTROL])] * len(subnets)
        return ec2.Vpc.from_vpc_attributes(
            scope,
            construct_id,
            vpc_id=self._vpc_id,
            vpc_cidr_block=self._vpc_cidr,
            availability_zones=[made.availability_zone for made in self.control],
            isolated_subnet_ids=ids if isolated else None,
            isolated_subnet_names=names if isolated else None,
            isolated_subnet_ipv4_cidr_blocks=blocks if isolated else None,
            isolated_subnet_route_table_ids=tables if isolated else None,
            private_subnet_ids=None if isolated else ids,
            private_subnet_names=None if isolated else names,
            private_subnet_ipv4_cidr_blocks=None if isolated else blocks,
            private_subnet_route_table_ids=None if isolated else tables,
        )

    def _subnet(
        self,
        parent: Construct,
        key: str,
        zone: str,
        block: SubnetBlock,
        *,
        routes: str = _CONTROL,
        tags: Mapping[str, str] | None = None,
    ) -> NetworkSubnet:
        return NetworkSubnet(
            parent,
            key,
            vpc_id=self._vpc_id,
            availability_zone=zone,
            cidr_block=cidr_of(block, self._vpc_cidr),
            route_table=self.route_tables[routes],
            tags=tags,
        )
