"""One subnet of a cluster network."""

from __future__ import annotations

import re
from collections.abc import Mapping

from aws_cdk import CfnTag
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import ClusterConstruct, cached_per_construct, path_of, resolved_or_none

# Zone ids: use1-az4, and use1-dfw2-az1 in a Local Zone. Zone names never end in "-az<number>".
_ZONE_ID = re.compile(r".+-az\d+")

_NAMED_ZONE = AcceptedFinding(
    cause="`ClusterNetwork`: subnets in a zone that is given by name",
    reason="You choose the zone: accelerated capacity is bought or reserved in one zone.",
    cloudformation=("W3010",),
)


class NetworkSubnet(ClusterConstruct):
    """A subnet that gives no public addresses, in a zone given by name or by id, with a route table.

    An L1, because `ec2.PrivateSubnet` takes no zone id and makes one route table for each subnet.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc_id: str,
        availability_zone: str,
        cidr_block: str,
        route_table: ec2.CfnRouteTable,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Define the subnet.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            vpc_id: The VPC.
            availability_zone: Name or id of the zone; a token counts as a name.
            cidr_block: Block within the VPC's.
            route_table: The table that the subnet is associated with.
            tags: Tags beside `Name`, none by default.
        """
        super().__init__(scope, construct_id)
        by_id = _ZONE_ID.fullmatch(resolved_or_none(availability_zone) or "") is not None
        self.cfn_subnet: ec2.CfnSubnet = ec2.CfnSubnet(
            self,
            "Resource",
            vpc_id=vpc_id,
            availability_zone=None if by_id else availability_zone,
            availability_zone_id=availability_zone if by_id else None,
            cidr_block=cidr_block,
            map_public_ip_on_launch=False,
            tags=[
                CfnTag(key="Name", value=path_of(self)),
                *(CfnTag(key=key, value=value) for key, value in (tags or {}).items()),
            ],
        )
        if resolved_or_none(availability_zone) and not by_id:
            _NAMED_ZONE.at(self.cfn_subnet)
        self.cidr_block: str = cidr_block
        subnet_id, route_table_id = self.cfn_subnet.ref, id_of_table(route_table)
        self.association: ec2.CfnSubnetRouteTableAssociation = ec2.CfnSubnetRouteTableAssociation(
            self, "Routes", subnet_id=subnet_id, route_table_id=route_table_id
        )
        self.availability_zone: str = self.cfn_subnet.attr_availability_zone if by_id else availability_zone
        self.subnet: ec2.ISubnet = ec2.Subnet.from_subnet_attributes(
            self,
            "Subnet",
            subnet_id=subnet_id,
            availability_zone=self.availability_zone,
            route_table_id=route_table_id,
            ipv4_cidr_block=cidr_block,
        )


@cached_per_construct
def id_of_table(table: ec2.CfnRouteTable) -> str:
    """The id of a route table: a token."""
    return table.ref
