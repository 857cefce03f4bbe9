"""Fleets made with this library: `python fleets.py COUNT FLEETS_PER_STACK`."""

from __future__ import annotations

import sys

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2

from cdk_gpu_clusters import Capacity, CapacityReservation, ClusterPlacementGroup, EfaSecurityGroup, GpuFleet

ZONE = "us-east-1a"
TYPE = "p5.48xlarge"


class Fleets(cdk.Stack):
    """Some of the fleets, on one fabric in an existing network."""

    def __init__(self, app: cdk.App, number: int, fleets: range) -> None:
        env = cdk.Environment(account="123456789012", region="us-east-1")
        super().__init__(app, f"Fleets{number:04}", env=env)
        vpc = ec2.Vpc.from_vpc_attributes(
            self,
            "Vpc",
            vpc_id="vpc-0123456789abcdef0",
            availability_zones=[ZONE],
            private_subnet_ids=["subnet-0123456789abcdef0"],
            private_subnet_route_table_ids=["rtb-0123456789abcdef0"],
        )
        fabric = EfaSecurityGroup(self, "Fabric", vpc=vpc)
        for index in fleets:
            self._fleet(f"{index:04}", vpc, fabric)

    def _fleet(self, index: str, vpc: ec2.IVpc, fabric: EfaSecurityGroup) -> None:
        group = ClusterPlacementGroup(self, f"Placement{index}")
        CapacityReservation(
            self,
            f"Reservation{index}",
            instance_type=TYPE,
            instance_count=16,
            availability_zone=ZONE,
            placement_group=group,
            unlimited=True,
        )
        GpuFleet(
            self,
            f"Fleet{index}",
            vpc=vpc,
            fabric=fabric,
            instance_type=TYPE,
            node_count=16,
            placement_group=group,
            # Nodes on reserved capacity are followed by a state machine, which the baselines do not have.
            capacity=Capacity.spot(),
        )


def main() -> None:
    """Synthesize as many fleets as the first argument says, in stacks of as many as the second says."""
    count, per_stack = int(sys.argv[1]), int(sys.argv[2])
    app = cdk.App()
    for first in range(0, count, per_stack):
        Fleets(app, first // per_stack, range(first, min(count, first + per_stack)))
    app.synth()


if __name__ == "__main__":
    main()
