"""The account that nodes see: stacks synthesized from the library's constructs, deployed to the emulator."""

from __future__ import annotations

import base64
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aws_cdk as cdk

from cdk_gpu_clusters.testing import Emulator
from stack_fixtures import ZONE, Site

ACCOUNT, REGION = "123456789012", "us-east-1"
#: The cluster of EKS, and the security group that EKS made for it.
CLUSTER, CLUSTER_GROUP = "training", "sg-0123456789abcdef9"
_AUTO_SCALING_GROUP, _NODE_GROUP = "AWS::AutoScaling::AutoScalingGroup", "AWS::EKS::Nodegroup"
Build = Callable[[Site], Any]


class Cloud:
    """An emulated account in which fleets are deployed, with a cluster of EKS for node groups.

    Args:
        app_factory: Makes apps: the fixture of that name.
    """

    def __init__(self, app_factory: Any) -> None:
        self._app_factory = app_factory
        self.account = Emulator(account=ACCOUNT, region=REGION)
        self._stacks = 0

    def start(self) -> None:
        """Start the emulator, with the network that `stack_fixtures.Site` takes for granted."""
        self.account.start()
        subnets = {"subnet-0123456789abcdef0": ZONE, "subnet-0123456789abcdef1": "us-east-1b"}
        cluster = {"version": "1.35", "security_group": CLUSTER_GROUP, "subnets": list(subnets)}
        self.account.seed(
            {
                "vpcs": ["vpc-0123456789abcdef0"],
                "subnets": subnets,
                "security_groups": [CLUSTER_GROUP],
                "clusters": {CLUSTER: cluster},
            }
        )

    def stop(self) -> None:
        self.account.stop()

    @property
    def endpoint(self) -> tuple[str, int]:
        """Where the account answers."""
        host, _, port = self.account.endpoint_url.removeprefix("http://").rpartition(":")
        return host, int(port)

    def deploy(self, build: Build, *, stack_name: str = "") -> Fleet:
        """Deploy a stack with one fleet.

        Args:
            build: Adds the fleet to a site.
            stack_name: An earlier stack to update; a new one if left out.
        """
        self._stacks += 1
        # A bucket for each: tests delete and overwrite what is in it.
        synthesizer = cdk.DefaultStackSynthesizer(
            generate_bootstrap_version_rule=False, file_assets_bucket_name=f"assets-{self._stacks}"
        )
        site = Site(
            self._app_factory(default_stack_synthesizer=synthesizer),
            cdk.Environment(account=ACCOUNT, region=REGION),
        )
        build(site)
        template = site.template()
        assets = self._upload(Path(site.app.outdir))
        stack_name = stack_name or f"fleet-{self._stacks}"
        self.account.deploy(template, stack_name=stack_name)
        return Fleet(self.account, stack_name, assets)

    def _upload(self, assembly: Path) -> list[dict[str, str]]:
        """Put the file assets of a synthesized app into their buckets, as `cdk deploy` does."""
        s3, places = self.account.client("s3"), []
        for manifest in assembly.glob("*.assets.json"):
            for asset in json.loads(manifest.read_text())["files"].values():
                content = (assembly / asset["source"]["path"]).read_bytes()
                for destination in asset["destinations"].values():
                    place = {"Bucket": destination["bucketName"], "Key": destination["objectKey"]}
                    s3.create_bucket(Bucket=place["Bucket"])
                    s3.put_object(**place, Body=content)
                    places.append(place)
        return places


class Fleet:
    """A deployed stack with one Auto Scaling group, or with one node group, behind which EKS has one.

    Args:
        account: Account that it is in.
        stack_name: Its stack.
        assets: Bucket and key of each of its files in S3.

    Attributes:
        booted: Its instances that are nodes.
    """

    def __init__(self, account: Emulator, stack_name: str, assets: list[dict[str, str]]) -> None:
        self._account, self.stack_name = account, stack_name
        self._assets = assets
        self.booted: set[str] = set()
        self._scaling = account.client("autoscaling")

    def launching(self) -> str:
        """The instance that waits for its launching hook, which no node group has; of several, one that is no node."""
        awaited = "InService" if self.node_group() else "Pending:Wait"
        waiting = [key for key, state in self.states().items() if state == awaited]
        if len(waiting) > 1:
            waiting = [key for key in waiting if key not in self.booted][:1]
        (instance,) = waiting
        return instance

    def node_group(self) -> dict[str, Any]:
        """The stack's node group of EKS, as EKS describes it; empty where it has none."""
        if not (found := self._ids(_NODE_GROUP)):
            return {}
        _, name = found[0].split("/")
        eks = self._account.client("eks")
        return dict(eks.describe_nodegroup(clusterName=CLUSTER, nodegroupName=name)["nodegroup"])

    def states(self) -> dict[str, str]:
        """Lifecycle states by instance."""
        return {one["InstanceId"]: one["LifecycleState"] for one in self._group()["Instances"]}

    def health(self) -> dict[str, str]:
        """What the group holds of the health of its instances."""
        return {one["InstanceId"]: one["HealthStatus"] for one in self._group()["Instances"]}

    def keep_unhealthy(self) -> None:
        """Let the group replace no instance for its health, so that what was said of it can be read."""
        group = self._group()["AutoScalingGroupName"]
        self._scaling.suspend_processes(AutoScalingGroupName=group, ScalingProcesses=["ReplaceUnhealthy"])

    def launches(self) -> bool:
        """Whether the group may launch instances."""
        return "Launch" not in [one["ProcessName"] for one in self._group()["SuspendedProcesses"]]

    def states_of_alarm(self, name: str) -> list[str]:
        """States that an alarm of the fleet has told of, the last one last."""
        found = self._account.client("cloudformation").describe_stack_resources(StackName=self.stack_name)
        (alarm,) = [
            row["PhysicalResourceId"]
            for row in found["StackResources"]
            if row["ResourceType"] == "AWS::CloudWatch::Alarm" and name in row["LogicalResourceId"]
        ]
        return [
            event["detail"]["state"]["value"]
            for event in self._account.history()["events"]
            if event["detail-type"] == "CloudWatch Alarm State Change" and event["detail"]["alarmName"] == alarm
        ]

    def resume_launches(self) -> None:
        """What a person does once the fault is gone."""
        group = self._group()["AutoScalingGroupName"]
        self._scaling.resume_processes(AutoScalingGroupName=group, ScalingProcesses=["Launch"])

    def abandon(self) -> None:
        """What a node does whose boot fails, without booting it."""
        self._complete("node-ready", self.launching(), "ABANDON")

    @property
    def group_name(self) -> str:
        """Name of its Auto Scaling group."""
        return str(self._group()["AutoScalingGroupName"])

    def lose(self, instance_id: str) -> None:
        """Let the group replace an instance whose host is gone: nobody completes its hook before the time-out."""
        self._scaling.terminate_instance_in_auto_scaling_group(
            InstanceId=instance_id, ShouldDecrementDesiredCapacity=False
        )
        self.release(instance_id)

    def release(self, instance_id: str) -> None:
        """Complete the terminating hook of an instance that cannot do it any more, as its time-out would."""
        self._complete("node-drain", instance_id, "CONTINUE")

    def take_commands(self, instance_id: str, reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What the agent of Systems Manager on an instance does: report, and take what is to run."""
        return self._account.take_commands(instance_id, reports)

    def _complete(self, hook: str, instance_id: str, result: str) -> None:
        self._scaling.complete_lifecycle_action(
            AutoScalingGroupName=self._group()["AutoScalingGroupName"],
            LifecycleHookName=hook,
            InstanceId=instance_id,
            LifecycleActionResult=result,
        )

    def user_data(self) -> str:
        """What the next instance is launched with."""
        return base64.b64decode(self._launch_template()["UserData"]).decode()

    def instance_type(self) -> str:
        """Type of the next instance."""
        return str(self._launch_template()["InstanceType"])

    def efa_count(self) -> int:
        """EFA interfaces of the next instance."""
        interfaces = self._launch_template().get("NetworkInterfaces", [])
        return sum(one.get("InterfaceType") in ("efa", "efa-only") for one in interfaces)

    def logged(self, instance_id: str) -> list[dict[str, Any]]:
        """The events that a node has put into the fleet's log group; state machines have one of their own."""
        logs, groups = self._account.client("logs"), self._ids("AWS::Logs::LogGroup")
        (group,) = (one for one in groups if not one.startswith("/aws/vendedlogs/"))
        streams = logs.describe_log_streams(logGroupName=group, logStreamNamePrefix=f"{instance_id}/")["logStreams"]
        if not streams:
            return []
        events = next(one["logStreamName"] for one in streams if not one["logStreamName"].endswith("/metrics"))
        found = logs.get_log_events(logGroupName=group, logStreamName=events)["events"]
        return [json.loads(one["message"]) for one in found]

    def evidence(self) -> dict[str, dict[str, str]]:
        """The bundles in the stack's bucket by their keys, each as its files and their texts."""
        s3, bucket = self._account.client("s3"), self._id("AWS::S3::Bucket")
        keys = [one["Key"] for one in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]
        return {key: _texts(s3.get_object(Bucket=bucket, Key=key)["Body"].read()) for key in keys}

    def replace_all(self) -> None:
        """End all instances, and let the group launch one."""
        group = self._group()["AutoScalingGroupName"]
        for nodes in (0, 1):
            self._scaling.update_auto_scaling_group(AutoScalingGroupName=group, MinSize=0, DesiredCapacity=nodes)

    def overwrite_assets(self, content: bytes | None) -> None:
        """Put other bytes in the place of its files in S3; None deletes them."""
        s3 = self._account.client("s3")
        for place in self._assets:
            if content is None:
                s3.delete_object(**place)
            else:
                s3.put_object(**place, Body=content)

    def _launch_template(self) -> dict[str, Any]:
        (version,) = self._account.client("ec2").describe_launch_template_versions(
            LaunchTemplateId=self._id("AWS::EC2::LaunchTemplate"), Versions=["$Latest"]
        )["LaunchTemplateVersions"]
        return dict(version["LaunchTemplateData"])

    def _group(self) -> dict[str, Any]:
        behind = self.node_group().get("resources", {}).get("autoScalingGroups")
        name = behind[0]["name"] if behind else self._id(_AUTO_SCALING_GROUP)
        (group,) = self._scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"]
        return dict(group)

    def _id(self, resource_type: str) -> str:
        """Physical id of the stack's one resource of a type."""
        (one,) = self._ids(resource_type)
        return one

    def _ids(self, resource_type: str) -> list[str]:
        found = self._account.client("cloudformation").describe_stack_resources(StackName=self.stack_name)
        return [
            str(row["PhysicalResourceId"]) for row in found["StackResources"] if row["ResourceType"] == resource_type
        ]


def _texts(archive: bytes) -> dict[str, str]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as bundle:
        files = ((member.name, bundle.extractfile(member)) for member in bundle if member.isfile())
        return {name: file.read().decode() for name, file in files if file is not None}
