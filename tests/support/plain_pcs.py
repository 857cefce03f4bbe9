"""A cluster of AWS PCS as a template that nothing of the library made, for tests of the emulator itself."""

from __future__ import annotations

import base64
from typing import Any

Json = dict[str, Any]

#: User data of several parts, as PCS asks.
USER_DATA = base64.b64encode(
    b'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="=="\n\n'
    b'--==\nContent-Type: text/cloud-config; charset="us-ascii"\n\nruncmd: []\n--==--\n'
).decode()


def attribute(name: str, member: str = "Id") -> Json:
    return {"Fn::GetAtt": [name, member]}


def cluster_properties(**more: Any) -> Json:
    return {
        "Size": "SMALL",
        "Scheduler": {"Type": "SLURM", "Version": "25.11"},
        "Networking": {"SubnetIds": [{"Ref": "Subnet"}], "SecurityGroupIds": [attribute("Group", "GroupId")]},
        **more,
    }


def node_group_properties(**more: Any) -> Json:
    return {
        "ClusterId": attribute("Cluster"),
        "AmiId": "ami-0123456789abcdef0",
        "IamInstanceProfileArn": attribute("Profile", "Arn"),
        "InstanceConfigs": [{"InstanceType": "g6.xlarge"}],
        "ScalingConfiguration": {"MinInstanceCount": 2, "MaxInstanceCount": 2},
        "SubnetIds": [{"Ref": "Subnet"}],
        "CustomLaunchTemplate": {
            "TemplateId": {"Ref": "Template"},
            "Version": attribute("Template", "LatestVersionNumber"),
        },
        **more,
    }


def queue_properties(**more: Any) -> Json:
    groups = [{"ComputeNodeGroupId": attribute("Nodes")}]
    return {"ClusterId": attribute("Cluster"), "ComputeNodeGroupConfigurations": groups, **more}


def _document(*statements: Json) -> Json:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def node_role(**more: Any) -> Json:
    """A role that nodes may register with, and download scripts."""
    trust = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    actions = ["pcs:RegisterComputeNodeGroupInstance", "s3:GetObject"]
    allowed = _document({"Effect": "Allow", "Action": actions, "Resource": "*"})
    properties = {
        "Path": "/aws-pcs/",
        "AssumeRolePolicyDocument": _document(trust),
        "Policies": [{"PolicyName": "register", "PolicyDocument": allowed}],
        **more,
    }
    return {"Type": "AWS::IAM::Role", "Properties": properties}


def pcs_cluster(**more: Json) -> Json:
    """A template with a cluster, a group of two nodes and a queue.

    Args:
        more: Further resources, or others in place of these.
    """
    self_reference = {
        "GroupId": attribute("Group", "GroupId"),
        "IpProtocol": "-1",
        "SourceSecurityGroupId": attribute("Group", "GroupId"),
    }
    data = {"SecurityGroupIds": [attribute("Group", "GroupId")], "UserData": USER_DATA}
    resources = {
        "Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}},
        "Subnet": {
            "Type": "AWS::EC2::Subnet",
            "Properties": {"VpcId": {"Ref": "Vpc"}, "CidrBlock": "10.0.0.0/20", "AvailabilityZone": "us-east-1a"},
        },
        "Group": {
            "Type": "AWS::EC2::SecurityGroup",
            "Properties": {"GroupDescription": "nodes and controller", "VpcId": {"Ref": "Vpc"}},
        },
        "Itself": {"Type": "AWS::EC2::SecurityGroupIngress", "Properties": self_reference},
        "Role": node_role(),
        "Profile": {"Type": "AWS::IAM::InstanceProfile", "Properties": {"Roles": [{"Ref": "Role"}]}},
        "Template": {"Type": "AWS::EC2::LaunchTemplate", "Properties": {"LaunchTemplateData": data}},
        "Cluster": {"Type": "AWS::PCS::Cluster", "Properties": cluster_properties()},
        "Nodes": {
            "Type": "AWS::PCS::ComputeNodeGroup",
            "Properties": node_group_properties(),
            "DependsOn": ["Itself"],
        },
        "Queue": {"Type": "AWS::PCS::Queue", "Properties": queue_properties()},
        **more,
    }
    shown = {
        "ClusterRef": {"Ref": "Cluster"},
        "Cluster": attribute("Cluster"),
        "Nodes": attribute("Nodes"),
        "NodesRef": {"Ref": "Nodes"},
        "Queue": attribute("Queue"),
        "Status": attribute("Cluster", "Status"),
    }
    return {"Resources": resources, "Outputs": {key: {"Value": value} for key, value in shown.items()}}
