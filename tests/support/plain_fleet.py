"""A plain fleet as a template that nothing of the library made, for tests of the emulator itself."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

GROUP_ARN = "arn:${AWS::Partition}:autoscaling:${AWS::Region}:${AWS::AccountId}:autoScalingGroup:*:autoScalingGroupName"
#: The group by the name that CloudFormation generates, without a reference to the group.
BY_NAME = {"Fn::Sub": f"{GROUP_ARN}/${{AWS::StackName}}-Fleet-*"}
#: The group by reference, so that whatever has it comes after the group and goes before it.
BY_REFERENCE = {"Fn::Sub": f"{GROUP_ARN}/${{Fleet}}"}
LOG_GROUP = "/fleet"
_LOGS = {"Fn::Sub": f"arn:${{AWS::Partition}}:logs:${{AWS::Region}}:${{AWS::AccountId}}:log-group:{LOG_GROUP}:*"}
HOOKS = {"node-ready": "LAUNCHING", "node-drain": "TERMINATING"}


def role(service: str) -> Json:
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    document = {"Version": "2012-10-17", "Statement": [statement]}
    return {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": document}}


def policy(role_id: str, *statements: Json) -> Json:
    document = {"Version": "2012-10-17", "Statement": list(statements)}
    return {
        "Type": "AWS::IAM::ManagedPolicy",
        "Properties": {"PolicyDocument": document, "Roles": [{"Ref": role_id}]},
    }


def allow(resource: Any, *actions: str, **more: Any) -> Json:
    return {"Effect": "Allow", "Action": list(actions), "Resource": resource, **more}


def node_permissions(group: Any) -> Json:
    """What lets the nodes complete their hooks, and log."""
    return policy(
        "NodeRole",
        allow(group, "autoscaling:CompleteLifecycleAction", "autoscaling:RecordLifecycleActionHeartbeat"),
        allow(_LOGS, "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"),
    )


def fleet(size: int = 1, *, permissions: Json | None = None, before: tuple[str, ...] = (), **more: Any) -> Json:
    """A template with a fleet of one type.

    Args:
        size: Nodes.
        permissions: The nodes' policy; by the group's name, if it is left out.
        before: Logical ids that the group depends on, besides those that it refers to.
        more: Further resources.
    """
    hooks = [
        {
            "LifecycleHookName": name,
            "LifecycleTransition": f"autoscaling:EC2_INSTANCE_{transition}",
            "HeartbeatTimeout": 1800,
            "DefaultResult": "ABANDON",
        }
        for name, transition in HOOKS.items()
    ]
    group: Json = {
        "Type": "AWS::AutoScaling::AutoScalingGroup",
        "Properties": {
            "MinSize": str(size),
            "MaxSize": str(size),
            "VPCZoneIdentifier": [{"Ref": "Subnet"}],
            "LaunchTemplate": {
                "LaunchTemplateId": {"Ref": "Template"},
                "Version": {"Fn::GetAtt": ["Template", "LatestVersionNumber"]},
            },
            "LifecycleHookSpecificationList": hooks,
        },
    }
    data = {
        "InstanceType": "g6.xlarge",
        "ImageId": "ami-0123456789abcdef0",
        "IamInstanceProfile": {"Arn": {"Fn::GetAtt": ["Profile", "Arn"]}},
    }
    return {
        "Resources": {
            "Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}},
            "Subnet": {
                "Type": "AWS::EC2::Subnet",
                "Properties": {
                    "VpcId": {"Ref": "Vpc"}, "CidrBlock": "10.0.0.0/20", "AvailabilityZone": "us-east-1a",
                },
            },
            "Logs": {
                "Type": "AWS::Logs::LogGroup", "DeletionPolicy": "Retain", "Properties": {"LogGroupName": LOG_GROUP},
            },
            "NodeRole": role("ec2.amazonaws.com"),
            "Profile": {"Type": "AWS::IAM::InstanceProfile", "Properties": {"Roles": [{"Ref": "NodeRole"}]}},
            "Permissions": permissions or node_permissions(BY_NAME),
            "Template": {"Type": "AWS::EC2::LaunchTemplate", "Properties": {"LaunchTemplateData": data}},
            "Fleet": group | ({"DependsOn": list(before)} if before else {}),
            **more,
        }
    }  # fmt: skip
