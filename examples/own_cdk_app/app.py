"""An app of your own: two fleets in an existing VPC, in a stack without an environment.

cdk synth --app "python examples/own_cdk_app/app.py"
"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as cloudwatch_actions
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_sns as sns
from constructs import Construct

from cdk_gpu_clusters import (
    Capacity,
    CapacityReservation,
    CheckpointStore,
    ClusterPlacementGroup,
    EfaSecurityGroup,
    GpuFleet,
    RootVolume,
)


class Research(cdk.Stack):
    """Four p4d nodes on a reservation made here, and helpers without accelerators beside them."""

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        vpc = ec2.Vpc.from_vpc_attributes(
            self,
            "Vpc",
            vpc_id="vpc-0123456789abcdef0",
            availability_zones=["us-east-1a"],
            private_subnet_ids=["subnet-0123456789abcdef0"],
            private_subnet_route_table_ids=["rtb-0123456789abcdef0"],
        )
        subnet = ec2.SubnetSelection(subnets=vpc.private_subnets)
        placement = ClusterPlacementGroup(self, "Placement")
        reservation = CapacityReservation(
            self,
            "Reservation",
            instance_type="p4d.24xlarge",
            instance_count=4,
            availability_zone="us-east-1a",
            placement_group=placement,
            ends_at="2027-01-31T00:00Z",
        )
        trainers = GpuFleet(
            self,
            "Trainers",
            vpc=vpc,
            vpc_subnets=subnet,
            fabric=EfaSecurityGroup(self, "Fabric", vpc=vpc),
            instance_type="p4d.24xlarge",
            node_count=4,
            capacity=Capacity.reservation(reservation),
            root_volume=RootVolume(size_gib=500),
            environment={"NCCL_DEBUG": "WARN"},
        )
        helpers = GpuFleet(
            self,
            "Helpers",
            vpc=vpc,
            vpc_subnets=subnet,
            instance_type="m8g.4xlarge",
            min_node_count=0,
            max_node_count=8,
            capacity=Capacity.spot(),
        )
        checkpoints = CheckpointStore(self, "Checkpoints", expire_after=cdk.Duration.days(30))
        checkpoints.grant_read_write(trainers, prefix="trainers/")
        helpers.grant_read(checkpoints.bucket)
        too_few = cloudwatch.Alarm(
            self,
            "TooFewTrainers",
            metric=trainers.metric_in_service_nodes(),
            threshold=4,
            evaluation_periods=15,
            comparison_operator=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
        )
        on_call = sns.Topic.from_topic_arn(self, "OnCall", self.format_arn(service="sns", resource="on-call"))
        too_few.add_alarm_action(cloudwatch_actions.SnsAction(on_call))
        cdk.CfnOutput(self, "Session", value=trainers.session_command)


app = cdk.App()
Research(app, "Research")
app.synth()
