"""A CDK app that uses no construct of this library: network, reservation and fleet in three stacks.

`python reserved_fleet_app.py FOLDER` synthesizes it twice: FOLDER/before and FOLDER/after, with other user data.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_autoscaling as autoscaling
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as sfn

ZONE = "us-east-1a"
IMAGE = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id"
_Template = ec2.CfnLaunchTemplate
_Group = autoscaling.CfnAutoScalingGroup


class Network(cdk.Stack):
    """A VPC with one private subnet, NAT, endpoint, flow log and EFA group."""

    def __init__(self, scope: cdk.App) -> None:
        super().__init__(scope, "Network")
        vpc = ec2.CfnVPC(self, "Vpc", cidr_block="10.0.0.0/16")
        self.subnet = ec2.CfnSubnet(self, "Nodes", vpc_id=vpc.ref, cidr_block="10.0.0.0/20", availability_zone=ZONE)
        gateway = ec2.CfnInternetGateway(self, "Gateway")
        ec2.CfnVPCGatewayAttachment(self, "Attachment", vpc_id=vpc.ref, internet_gateway_id=gateway.ref)
        address = ec2.CfnEIP(self, "Address", domain="vpc")
        nat = ec2.CfnNatGateway(self, "Nat", subnet_id=self.subnet.ref, allocation_id=address.attr_allocation_id)
        table = ec2.CfnRouteTable(self, "Table", vpc_id=vpc.ref)
        ec2.CfnSubnetRouteTableAssociation(self, "Use", subnet_id=self.subnet.ref, route_table_id=table.ref)
        ec2.CfnRoute(self, "Out", route_table_id=table.ref, destination_cidr_block="0.0.0.0/0", nat_gateway_id=nat.ref)
        service = f"com.amazonaws.{self.region}.s3"
        ec2.CfnVPCEndpoint(self, "S3", vpc_id=vpc.ref, service_name=service, route_table_ids=[table.ref])
        log = logs.CfnLogGroup(self, "Flows", retention_in_days=30)
        role = iam.Role(self, "FlowRole", assumed_by=iam.ServicePrincipal("vpc-flow-logs.amazonaws.com"))
        ec2.CfnFlowLog(
            self, "Flow", resource_id=vpc.ref, resource_type="VPC", traffic_type="ALL",
            log_group_name=log.ref, deliver_logs_permission_arn=role.role_arn,
        )  # fmt: skip
        self.fabric = ec2.CfnSecurityGroup(self, "Fabric", group_description="EFA", vpc_id=vpc.ref)
        group = self.fabric.attr_group_id
        ec2.CfnSecurityGroupIngress(self, "From", group_id=group, ip_protocol="-1", source_security_group_id=group)
        ec2.CfnSecurityGroupEgress(self, "To", group_id=group, ip_protocol="-1", destination_security_group_id=group)


class Capacity(cdk.Stack):
    """A reservation of four nodes in a placement group."""

    def __init__(self, scope: cdk.App) -> None:
        super().__init__(scope, "Capacity")
        self.rack = ec2.CfnPlacementGroup(self, "Rack", strategy="cluster")
        arn = self.format_arn(service="ec2", resource="placement-group", resource_name=self.rack.ref)
        self.four = ec2.CfnCapacityReservation(
            self, "Four", instance_type="p5.48xlarge", instance_platform="Linux/UNIX", instance_count=4,
            availability_zone=ZONE, end_date_type="limited", end_date="2099-12-31T00:00:00Z",
            instance_match_criteria="targeted", placement_group_arn=arn,
        )  # fmt: skip


class Training(cdk.Stack):
    """A fleet of four with its template, role, logs, alarm, and a rule that starts a state machine."""

    def __init__(self, scope: cdk.App, network: Network, capacity: Capacity, *, word: str) -> None:
        super().__init__(scope, "Training")
        cdk.CrossStackReferences.of(self).consume(cdk.ReferenceStrength.WEAK)
        template = self._template(network, capacity, word)
        hook = _Group.LifecycleHookSpecificationProperty(
            lifecycle_hook_name="ready", lifecycle_transition="autoscaling:EC2_INSTANCE_LAUNCHING",
            heartbeat_timeout=1800, default_result="ABANDON",
        )  # fmt: skip
        fleet = _Group(
            self, "Fleet", min_size="0", max_size="4", desired_capacity="4",
            vpc_zone_identifier=[network.subnet.ref],
            launch_template=_Group.LaunchTemplateSpecificationProperty(
                launch_template_id=template.ref, version=template.attr_latest_version_number
            ),
            lifecycle_hook_specification_list=[hook],
            instance_maintenance_policy=_Group.InstanceMaintenancePolicyProperty(
                min_healthy_percentage=0, max_healthy_percentage=100
            ),
        )  # fmt: skip
        dimension = cloudwatch.CfnAlarm.DimensionProperty(name="AutoScalingGroupName", value=fleet.ref)
        cloudwatch.CfnAlarm(
            self, "Short", comparison_operator="LessThanThreshold", evaluation_periods=1, threshold=4, period=60,
            metric_name="GroupInServiceInstances", namespace="AWS/AutoScaling", statistic="Minimum",
            dimensions=[dimension],
        )  # fmt: skip
        self._drain(fleet)
        cdk.CfnOutput(self, "FleetName", value=fleet.ref)

    def _template(self, network: Network, capacity: Capacity, word: str) -> ec2.CfnLaunchTemplate:
        role = iam.Role(self, "NodeRole", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))
        profile = iam.CfnInstanceProfile(self, "Profile", roles=[role.role_name])
        parameter_type = "AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>"
        image = cdk.CfnParameter(self, "Image", type=parameter_type, default=IMAGE)
        places = [(0, 0, "interface"), (0, 1, "efa-only"), *((card, 0, "efa-only") for card in range(1, 32))]
        interfaces = [
            _Template.NetworkInterfaceProperty(
                network_card_index=card, device_index=device, interface_type=kind,
                groups=[network.fabric.attr_group_id],
            )
            for card, device, kind in places
        ]  # fmt: skip
        target = _Template.CapacityReservationTargetProperty(capacity_reservation_id=capacity.four.attr_id)
        disk = _Template.EbsProperty(volume_type="gp3", volume_size=200, iops=6000, throughput=500, encrypted=True)
        data = _Template.LaunchTemplateDataProperty(
            instance_type="p5.48xlarge",
            image_id=image.value_as_string,
            iam_instance_profile=_Template.IamInstanceProfileProperty(arn=profile.attr_arn),
            network_interfaces=interfaces,
            placement=_Template.PlacementProperty(group_name=capacity.rack.ref),
            capacity_reservation_specification=_Template.CapacityReservationSpecificationProperty(
                capacity_reservation_target=target
            ),
            block_device_mappings=[_Template.BlockDeviceMappingProperty(device_name="/dev/xvda", ebs=disk)],
            metadata_options=_Template.MetadataOptionsProperty(http_tokens="required"),
            user_data=cdk.Fn.base64(f"#!/bin/bash\necho {word}\n"),
        )
        return _Template(self, "Template", launch_template_data=data)

    def _drain(self, fleet: autoscaling.CfnAutoScalingGroup) -> None:
        task = {
            "Type": "Task",
            "Resource": "arn:aws:states:::aws-sdk:autoscaling:setDesiredCapacity",
            "Parameters": {"AutoScalingGroupName": "${Fleet}", "DesiredCapacity": 0},
            "End": True,
        }
        role = iam.Role(self, "DrainRole", assumed_by=iam.ServicePrincipal("states.amazonaws.com"))
        machine = sfn.CfnStateMachine(
            self, "Drain", role_arn=role.role_arn, definition_substitutions={"Fleet": fleet.ref},
            definition_string=json.dumps({"StartAt": "Empty", "States": {"Empty": task}}),
        )  # fmt: skip
        starter = iam.Role(self, "StartRole", assumed_by=iam.ServicePrincipal("events.amazonaws.com"))
        target = events.CfnRule.TargetProperty(id="Drain", arn=machine.attr_arn, role_arn=starter.role_arn)
        pattern = {"source": ["aws.ec2"], "detail-type": ["Capacity Block Expiration Warning"]}
        events.CfnRule(self, "Ending", event_pattern=pattern, targets=[target])


def synthesize(folder: Path, word: str) -> None:
    """Write the app's cloud assembly."""
    app = cdk.App(outdir=str(folder), analytics_reporting=False)
    Training(app, Network(app), Capacity(app), word=word)
    app.synth()


if __name__ == "__main__":
    for name in ("before", "after"):
        synthesize(Path(sys.argv[1], name), name)
