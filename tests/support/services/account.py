"""The AWS account of nodes whose actions are tested: an Auto Scaling group, and a bucket for evidence."""

from __future__ import annotations

import io
import json
import tarfile
from typing import Any, Self

from cdk_gpu_clusters.testing import Emulator

BUCKET = "evidence"
_SUBNET, _ZONE = "subnet-0123456789abcdef0", "us-east-1a"


class Account:
    """An emulated account, as a context manager."""

    def __init__(self) -> None:
        self.emulator = Emulator()
        self._groups = 0

    def __enter__(self) -> Self:
        self.emulator.start()
        self.emulator.seed({"subnets": {_SUBNET: _ZONE}})
        self.emulator.client("s3").create_bucket(Bucket=BUCKET)
        return self

    def __exit__(self, *_: object) -> None:
        self.emulator.stop()

    def make_group(self, nodes: int) -> Group:
        """Make an Auto Scaling group whose nodes are in service."""
        self._groups += 1
        stack_name = f"fleet-{self._groups}"
        self.emulator.deploy(_template(nodes), stack_name=stack_name)
        self.emulator.client("logs").create_log_group(logGroupName=stack_name)
        return Group(self.emulator, stack_name)

    def log_group(self, name: str) -> str:
        """Make a log group, for nodes that are in no Auto Scaling group of this account; gives its name."""
        self.emulator.client("logs").create_log_group(logGroupName=name)
        return name

    def bundles(self, instance_id: str) -> list[dict[str, str]]:
        """The evidence of a node, each bundle as its files and their texts."""
        s3 = self.emulator.client("s3")
        keys = [one["Key"] for one in s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])]
        own = [key for key in keys if f"{instance_id}/" in key]
        return [_texts(s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()) for key in own]


class Group:
    """One Auto Scaling group.

    Attributes:
        instances: Ids of the nodes that it began with.
        log_group: Log group of its nodes.
    """

    def __init__(self, emulator: Emulator, stack_name: str) -> None:
        self._scaling = emulator.client("autoscaling")
        self._logs, self.log_group = emulator.client("logs"), stack_name
        resources = emulator.client("cloudformation").describe_stack_resources(StackName=stack_name)
        (self.name,) = [
            row["PhysicalResourceId"] for row in resources["StackResources"] if row["LogicalResourceId"] == "Group"
        ]
        self.instances = list(self.health())

    def health(self) -> dict[str, str]:
        """What the API says of each node that it lists."""
        (group,) = self._scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[self.name])["AutoScalingGroups"]
        return {one["InstanceId"]: one["HealthStatus"] for one in group["Instances"]}

    def keep_unhealthy(self) -> None:
        """Let nodes that were marked stay where they are, to be looked at."""
        self._scaling.suspend_processes(AutoScalingGroupName=self.name, ScalingProcesses=["ReplaceUnhealthy"])

    def activities(self) -> list[str]:
        """Descriptions of what the group did, the newest first."""
        found = self._scaling.describe_scaling_activities(AutoScalingGroupName=self.name)["Activities"]
        return [str(one["Description"]) for one in found]

    def logged(self, instance_id: str) -> list[dict[str, Any]]:
        """The events of a node in its log group; none before the first one."""
        streams = self._logs.describe_log_streams(logGroupName=self.log_group, logStreamNamePrefix=instance_id)
        names = [one["logStreamName"] for one in streams["logStreams"]]
        if not names:
            return []
        name = next(one for one in names if not one.endswith("/metrics"))
        found = self._logs.get_log_events(logGroupName=self.log_group, logStreamName=name)["events"]
        return [json.loads(one["message"]) for one in found]


def _texts(archive: bytes) -> dict[str, str]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        return {name: opened.extractfile(name).read().decode() for name in opened.getnames()}  # type: ignore[union-attr]


def _template(nodes: int) -> dict[str, Any]:
    template = {
        "LaunchTemplateId": {"Ref": "Template"},
        "Version": {"Fn::GetAtt": ["Template", "LatestVersionNumber"]},
    }
    return {
        "Resources": {
            "Template": {
                "Type": "AWS::EC2::LaunchTemplate",
                "Properties": {
                    "LaunchTemplateData": {"ImageId": "ami-0123456789abcdef0", "InstanceType": "p5.48xlarge"}
                },
            },
            "Group": {
                "Type": "AWS::AutoScaling::AutoScalingGroup",
                "Properties": {
                    "MinSize": "0",
                    "MaxSize": f"{2 * nodes}",
                    "DesiredCapacity": f"{nodes}",
                    "VPCZoneIdentifier": [_SUBNET],
                    "LaunchTemplate": template,
                },
            },
        }
    }
