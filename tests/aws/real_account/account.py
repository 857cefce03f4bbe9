"""The account of a run: a real one, or the emulator on loopback with what surrounds it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

from cdk_gpu_clusters.testing import Emulator
from gpu_clusters_emulator.clock import parse_time

#: What the names of the clusters of all runs begin with.
CLUSTER_PREFIX = "gctest-"
_STEP = timedelta(minutes=1)
_TYPES = {
    "logs:log-group": "AWS::Logs::LogGroup",
    "ec2:security-group": "AWS::EC2::SecurityGroup",
    "kms:key": "AWS::KMS::Key",
    "s3": "AWS::S3::Bucket",
}
# States in which a node waits, and whose hook it then completes.
_TRANSITIONS = {
    "Pending:Wait": "autoscaling:EC2_INSTANCE_LAUNCHING",
    "Terminating:Wait": "autoscaling:EC2_INSTANCE_TERMINATING",
}


class Account:
    """A real AWS account, by the credentials of the caller.

    Attributes:
        region: The Region of the run.
        is_real: Whether what happens in it was seen on AWS.
        gaps: What the account is known not to have: actions, findings of preflight, and kinds of things to remove.
            Empty for a real one.
    """

    is_real = True
    gaps: frozenset[str] = frozenset()
    pause_seconds = 15.0

    def __init__(self, region: str) -> None:
        self.region = region
        self._clients: dict[str, Any] = {}

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of programs that use the account."""
        return {**os.environ, "AWS_REGION": self.region, "AWS_DEFAULT_REGION": self.region}

    def client(self, service: str) -> Any:
        """A boto3 client; to make one is slow, so each is kept."""
        if service not in self._clients:
            self._clients[service] = self._new_client(service)
        return self._clients[service]

    def _new_client(self, service: str) -> Any:
        import boto3
        from botocore.config import Config

        config = Config(retries={"mode": "standard", "total_max_attempts": 8}, connect_timeout=10)
        make: Any = boto3.Session(region_name=self.region).client
        return make(service, config=config)

    def tagged(self, tag: str, kind: str) -> list[str]:
        """Names of the resources with a tag; one that was deleted a while ago may be among them.

        Args:
            tag: Key of the tag.
            kind: `s3`, `kms:key`, `logs:log-group` or `ec2:security-group`, as the Resource Groups Tagging API has it.
        """
        asked: dict[str, Any] = {"TagFilters": [{"Key": tag}], "ResourceTypeFilters": [kind]}
        pages = self.client("resourcegroupstaggingapi").get_paginator("get_resources").paginate(**asked)
        arns = [str(one["ResourceARN"]) for page in pages for one in page["ResourceTagMappingList"]]
        if kind == "logs:log-group":  # their names have slashes
            return [arn.rpartition(":log-group:")[2] for arn in arns]
        return [arn.rpartition(":")[2].rpartition("/")[2] for arn in arns]

    def executions_of(self, machine_arn: str) -> list[str]:
        """States of the executions of a state machine so far, such as `SUCCEEDED`."""
        pages = self.client("stepfunctions").get_paginator("list_executions").paginate(stateMachineArn=machine_arn)
        return [str(one["status"]) for page in pages for one in page["executions"]]

    def address_of(self, instance_id: str) -> str:
        """The private address of an instance."""
        (reservation,) = self.client("ec2").describe_instances(InstanceIds=[instance_id])["Reservations"]
        return str(reservation["Instances"][0]["PrivateIpAddress"])

    def seconds(self) -> float:
        """A clock of the account's time, for deadlines."""
        return time.monotonic()

    def pause(self) -> None:
        """Let time pass until one looks again."""
        time.sleep(self.pause_seconds)


class EmulatedAccount(Account):
    """An emulator that another process serves. Nothing boots in it: here is what nodes and time would do."""

    is_real = False
    pause_seconds = 1.0
    gaps = frozenset(
        {
            "ec2:DescribeCapacityBlockOfferings",
            "ec2:DescribeInstanceTypeOfferings",
            "ec2:DescribeSpotPriceHistory",
            "ec2:GetSpotPlacementScores",
            "ssm:GetParameters",
            "backup",
            "GPU-PRE-101",  # public parameters of images
        }
    )

    def __init__(self, region: str, endpoint_url: str) -> None:
        super().__init__(region)
        self._emulator = Emulator(region=region)
        self._emulator.endpoint_url = endpoint_url
        self._seconds = 0.0

    @property
    def environment(self) -> Mapping[str, str]:
        return self._emulator.environment

    def _new_client(self, service: str) -> Any:
        return self._emulator.client(service)

    def tagged(self, tag: str, kind: str) -> list[str]:
        """The engine keeps no tags of these: all that stacks of a run made."""
        found = self._emulator.resources(_TYPES[kind])
        return [str(one["physical_id"]) for one in found if str(one["stack"]).startswith(CLUSTER_PREFIX)]

    def executions_of(self, machine_arn: str) -> list[str]:
        """The emulator runs state machines beside the engine, and keeps their executions itself."""
        found = self._emulator.history()["executions"]
        return [str(one["status"]) for one in found if one["state_machine"] == machine_arn]

    def address_of(self, instance_id: str) -> str:
        """The emulator has no addresses: one for each instance."""
        return f"10.0.0.{int(instance_id.removeprefix('i-'), 16) % 250 + 4}"

    def seconds(self) -> float:
        return self._seconds

    def pause(self) -> None:
        """A minute: nodes that wait in a hook continue, as their own programs would have them."""
        self._seconds += _STEP.total_seconds()
        self._emulator.move_clock(parse_time(self._emulator.now) + _STEP)
        self._complete_hooks()

    def _complete_hooks(self) -> None:
        scaling = self.client("autoscaling")
        for group in scaling.describe_auto_scaling_groups()["AutoScalingGroups"]:
            waiting = [one for one in group["Instances"] if one["LifecycleState"] in _TRANSITIONS]
            if not waiting:
                continue
            name = group["AutoScalingGroupName"]
            hooks = scaling.describe_lifecycle_hooks(AutoScalingGroupName=name)["LifecycleHooks"]
            for node in waiting:
                self._log(name, node["InstanceId"])
                for hook in hooks:
                    if hook["LifecycleTransition"] == _TRANSITIONS[node["LifecycleState"]]:
                        scaling.complete_lifecycle_action(
                            AutoScalingGroupName=name,
                            LifecycleHookName=hook["LifecycleHookName"],
                            InstanceId=node["InstanceId"],
                            LifecycleActionResult="CONTINUE",
                        )

    def _log(self, group_name: str, instance_id: str) -> None:
        """Write the stream of a node, as its own program would."""
        groups = self._emulator.resources("AWS::AutoScaling::AutoScalingGroup")
        stacks = [one["stack"] for one in groups if one["physical_id"] == group_name]
        logs, stream = self.client("logs"), f"{instance_id}/{self.address_of(instance_id)}"
        for group in self._emulator.resources("AWS::Logs::LogGroup"):
            if group["stack"] in stacks:
                with suppress(logs.exceptions.ResourceAlreadyExistsException):
                    logs.create_log_stream(logGroupName=group["physical_id"], logStreamName=stream)
