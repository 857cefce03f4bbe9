"""Changes that people make by hand to a deployed cluster: each a call of AWS, and the one finding that it must give."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

Json = dict[str, Any]


class Account:
    """The calls of an account in the words of the changes below."""

    def __init__(
        self, client: Callable[[str], Any], resources: Callable[[], list[Json]], now: Callable[[], datetime]
    ) -> None:
        self.client, self._resources, self._now = client, resources, now
        self._reported: list[str] = []
        self._changed: dict[str, Json] = {}

    def resource(self, kind: str, stack: str = "", logical_id: str = "") -> Json:
        """The first resource of a type, whose stack and logical id have these parts."""
        found = (one for one in self._resources() if one["type"] == kind and one["stack"])
        return next(one for one in found if stack in one["stack"] and logical_id in one["logical_id"])

    def id(self, kind: str, stack: str = "", logical_id: str = "") -> str:
        return str(self.resource(kind, stack, logical_id)["physical_id"])

    # Plain EC2.

    def group(self, stack: str) -> str:
        return self.id("AWS::AutoScaling::AutoScalingGroup", stack)

    def version(self, stack: str, change: Callable[[Json], Any]) -> tuple[str, str]:
        """A new version of a launch template, with a change to the latest one."""
        template = self.id("AWS::EC2::LaunchTemplate", stack)
        ec2 = self.client("ec2")
        (latest,) = ec2.describe_launch_template_versions(LaunchTemplateId=template, Versions=["$Latest"])[
            "LaunchTemplateVersions"
        ]
        data = latest["LaunchTemplateData"]
        change(data)
        made = ec2.create_launch_template_version(LaunchTemplateId=template, LaunchTemplateData=data)
        return template, str(made["LaunchTemplateVersion"]["VersionNumber"])

    def relaunch(self, stack: str, change: Callable[[Json], Any]) -> None:
        """A new version that the Auto Scaling group uses from then on."""
        template, version = self.version(stack, change)
        self.update_group(stack, LaunchTemplate={"LaunchTemplateId": template, "Version": version})

    def update_group(self, stack: str, **changes: Any) -> None:
        self.client("autoscaling").update_auto_scaling_group(AutoScalingGroupName=self.group(stack), **changes)

    def security_group(self, stack: str) -> str:
        return self.id("AWS::EC2::SecurityGroup", stack)

    def revoke(self, stack: str, *, egress: bool, logical_id: str = "") -> None:
        kind = "AWS::EC2::SecurityGroupEgress" if egress else "AWS::EC2::SecurityGroupIngress"
        rule = self.resource(kind, stack, logical_id)
        ec2 = self.client("ec2")
        (described,) = ec2.describe_security_group_rules(SecurityGroupRuleIds=[rule["physical_id"]])[
            "SecurityGroupRules"
        ]
        call = ec2.revoke_security_group_egress if egress else ec2.revoke_security_group_ingress
        call(GroupId=described["GroupId"], SecurityGroupRuleIds=[rule["physical_id"]])

    def lustre(self, **changes: Any) -> None:
        system = self.id("AWS::FSx::FileSystem")
        self.client("fsx").update_file_system(FileSystemId=system, LustreConfiguration=changes)

    def link(self, path: str) -> str:
        found = self.client("fsx").describe_data_repository_associations()["Associations"]
        return next(str(one["AssociationId"]) for one in found if one["FileSystemPath"] == path)

    # EKS and PCS.

    def node_group(self, stack: str) -> Json:
        given = self.resource("AWS::EKS::Nodegroup", stack)
        cluster, name = given["physical_id"].split("/")
        return {"clusterName": cluster, "nodegroupName": name}

    def configure(self, stack: str, **changes: Any) -> None:
        self.client("eks").update_nodegroup_config(**self.node_group(stack), **changes)

    def pcs(self, kind: str, stack: str = "") -> Json:
        """Parameters that name a part of AWS PCS."""
        parts = self.id(f"AWS::PCS::{kind}", stack).split("/")
        keys = {"ComputeNodeGroup": "computeNodeGroupIdentifier", "Queue": "queueIdentifier"}
        named = {"clusterIdentifier": parts[1]}
        return named | {keys[kind]: parts[-1]} if kind in keys else named

    def set_slurm(self, change: Callable[[list[Json]], list[Json]]) -> None:
        """Change the settings of Slurm's controller."""
        client, named = self.client("pcs"), self.pcs("Cluster")
        rows = client.get_cluster(**named)["cluster"]["slurmConfiguration"]["slurmCustomSettings"]
        client.update_cluster(**named, slurmConfiguration={"slurmCustomSettings": change(rows)})

    # What nodes report.

    def nodes(self, stack: str) -> list[str]:
        """The instances of the group of a stack."""
        own = [one for one in self._resources() if stack in one["stack"]]
        by_type = {one["type"]: one["physical_id"] for one in own}
        if group := by_type.get("AWS::PCS::ComputeNodeGroup"):
            tag = {"Name": "tag:aws:pcs:compute-node-group-id", "Values": [group.rpartition("/")[2]]}
            rows = self.client("ec2").describe_instances(Filters=[tag])["Reservations"]
            return sorted(one["InstanceId"] for row in rows for one in row["Instances"])
        name = by_type.get(_GROUP)
        if name is None:
            described = self.client("eks").describe_nodegroup(**self.node_group(stack))["nodegroup"]
            name = described["resources"]["autoScalingGroups"][0]["name"]
        found = self.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=[name])
        return sorted(one["InstanceId"] for one in found["AutoScalingGroups"][0]["Instances"])

    def report(self, stack: str, *instances: str, **changes: Any) -> None:
        """Facts of nodes of a stack, as gpunode writes them: healthy ones with changes; None leaves a fact out."""
        healthy = {**_ALWAYS, "software": self.software(stack), **_FACTS[stack]}
        facts = {name: value for name, value in {**healthy, **changes}.items() if value is not None}
        group = next(
            one["physical_id"]
            for one in self._resources()
            if one["type"] == "AWS::Logs::LogGroup"
            and stack in one["stack"]
            and "StateMachine" not in one["logical_id"]
        )
        rows = self.client("ec2").describe_instances(InstanceIds=list(instances))["Reservations"]
        logs = self.client("logs")
        for one in (one for row in rows for one in row["Instances"]):
            instance = one["InstanceId"]
            where = {"logGroupName": group, "logStreamName": f"{instance}/{one['PrivateIpAddress']}"}
            if instance not in self._reported:
                logs.create_log_stream(**where)
            self._reported.append(instance)
            moment = int(self._now().timestamp() * 1000) - 60_000 + len(self._reported)
            record = {"stage": "facts", "state": "ok", "instance_id": instance, "facts": facts}
            logs.put_log_events(**where, logEvents=[{"timestamp": moment, "message": json.dumps(record)}])

    def software(self, stack: str) -> str:
        """First digits of the digest of the software in the user data of a stack."""
        template = self.id("AWS::EC2::LaunchTemplate", stack)
        (version,) = self.client("ec2").describe_launch_template_versions(LaunchTemplateId=template, Versions=["1"])[
            "LaunchTemplateVersions"
        ]
        text = base64.b64decode(version["LaunchTemplateData"]["UserData"]).decode()
        return text.partition("GPU_SOFTWARE_SHA256=")[2][:12]

    def report_all(self) -> None:
        """Healthy facts of all nodes that have reported nothing so far."""
        for stack in _FACTS:
            if any(stack in one["stack"] for one in self._resources()):
                new = [one for one in self.nodes(stack) if one not in self._reported]
                if new:
                    self.report(stack, *new)

    def report_first(self, stack: str, **changes: Any) -> None:
        """Other facts of one node, beside those that were changed before."""
        known = self._changed.setdefault(stack, {})
        known.update(changes)
        self.report(stack, self.nodes(stack)[0], **known)

    def update_nodes(self, stack: str, **changes: Any) -> None:
        self.client("pcs").update_compute_node_group(**self.pcs("ComputeNodeGroup", stack), **changes)


class HandMade(NamedTuple):
    """A change by hand.

    Attributes:
        name: What it is.
        make: Makes it.
        type: Type of the resource of the one finding.
        property: Its property; empty for a resource that is gone.
        rule: A template rule that is broken then; empty for none in particular.
    """

    name: str
    make: Callable[[Account], Any]
    type: str
    property: str
    rule: str = ""


_TEMPLATE = "AWS::EC2::LaunchTemplate"
_GROUP = "AWS::AutoScaling::AutoScalingGroup"
_LUSTRE = "AWS::FSx::FileSystem"
_RESERVATION = "Custom::EC2CapacityReservation"
_TRAINERS, _CPU, _VISION = "fleet-trainers", "fleet-preprocessing", "fleet-vision"
_OTHER_SUBNET = "subnet-00000001"
_SLICES = "inference-slices"
_QUEUE, _LOGIN = "fleet-slices", "slices-login"
# What healthy nodes of the fleets report. EC2 user guide, "Elastic Fabric Adapter for AI/ML and HPC workloads", and EC2
# instance types, "Accelerated computing": network cards and GPUs of P4d and P5. NVIDIA MIG User Guide: 7 x 1g.5gb.
_ALWAYS: Json = {"efa_devices": 0, "huge_pages": 0, "clock_synchronized": True}
_P4D: Json = {"accelerators": 8, "driver": "570.133.20", "mig_devices": {}, "huge_pages": 5128}
_SPLIT: Json = {**_P4D, "mig_devices": {"1g.5gb": 8 * 7}}
_FACTS: dict[str, Json] = {
    _TRAINERS: {**_P4D, "efa_devices": 32, "lustre_over_efa": True},
    _CPU: {},
    _VISION: {**_P4D, "efa_devices": 4},
    "fleet-split": _SPLIT,
    _SLICES: {**_SPLIT, "efa_devices": 4},
    _QUEUE: _SPLIT,
    _LOGIN: {},
}


def _fact(name: str, stack: str, prop: str, **changes: Any) -> HandMade:
    return HandMade(name, lambda a: a.report_first(stack, **changes), "AWS::EC2::Instance", prop)


_NODES_OF_SLICES: tuple[tuple[str, str, Json], ...] = (
    ("a node lost its MIG layout", "MigDevices", {"mig_devices": {}}),
    ("a node has another driver", "Driver", {"driver": "535.230.02"}),
    ("a clock is off", "ClockSynchronized", {"clock_synchronized": False}),
    ("a node runs older software", "Software", {"software": "0" * 12}),
)


def _other_mig(data: Json) -> None:
    text = base64.b64decode(data["UserData"]).decode()
    assert "1g.5gb" in text
    data["UserData"] = base64.b64encode(text.replace("1g.5gb", "2g.10gb", 1).encode()).decode()


def _version(name: str, stack: str, prop: str, change: Callable[[Json], Any], rule: str = "") -> HandMade:
    return HandMade(name, lambda a: a.relaunch(stack, change), _TEMPLATE, f"LaunchTemplateData.{prop}", rule)


def _resized(name: str, stack: str, prop: str, **changes: Any) -> HandMade:
    return HandMade(name, lambda a: a.update_group(stack, **changes), _GROUP, prop)


def _root(data: Json) -> Json:
    root: Json = data["BlockDeviceMappings"][0]["Ebs"]
    return root


ON_EC2: tuple[HandMade, ...] = (
    # Facts of nodes.
    _fact("a node has lost an EFA device", _TRAINERS, "EfaDevices", efa_devices=31),
    _fact("a node has lost a GPU", _TRAINERS, "Accelerators", accelerators=7),
    _fact("a node's Lustre takes TCP", _TRAINERS, "LustreOverEfa", lustre_over_efa=False),
    _fact("a node has fewer huge pages", _TRAINERS, "HugePages", huge_pages=0),
    _fact("a node has another driver", _TRAINERS, "Driver", driver="535.230.02"),
    _fact("a clock is off", _CPU, "ClockSynchronized", clock_synchronized=False),
    _fact("a node runs older software", _CPU, "Software", software="0" * 12),
    _fact("a node lost a MIG device", "fleet-split", "MigDevices", mig_devices={"1g.5gb": 55}),
    # Versions of launch templates that the group uses.
    _version(
        "an EFA interface is missing",
        _TRAINERS,
        "NetworkInterfaces.NetworkCardIndex 31, DeviceIndex 0",
        lambda d: d["NetworkInterfaces"].pop(),
    ),
    _version(
        "an EFA interface is a plain one",
        _TRAINERS,
        "NetworkInterfaces.NetworkCardIndex 30, DeviceIndex 0.InterfaceType",
        lambda d: d["NetworkInterfaces"][-1].update(InterfaceType="interface"),
    ),
    _version(
        "an interface left the fabric's security group",
        _TRAINERS,
        "NetworkInterfaces.NetworkCardIndex 5, DeviceIndex 0.Groups",
        lambda d: d["NetworkInterfaces"][6].update(Groups=["sg-00000001"]),
    ),
    _version("another instance type", _CPU, "InstanceType", lambda d: d.update(InstanceType="m8g.2xlarge")),
    _version("another image", _TRAINERS, "ImageId", lambda d: d.update(ImageId="ami-0123456789abcdef0")),
    _version("another MIG layout in the user data", "fleet-split", "UserData", _other_mig),
    _version(
        "IMDSv1 is allowed",
        _TRAINERS,
        "MetadataOptions.HttpTokens",
        lambda d: d["MetadataOptions"].update(HttpTokens="optional"),
    ),
    _version(
        "a larger root volume",
        _CPU,
        "BlockDeviceMappings./dev/xvda.Ebs.VolumeSize",
        lambda d: _root(d).update(VolumeSize=500),
    ),
    _version(
        "a plain root volume",
        _CPU,
        "BlockDeviceMappings./dev/xvda.Ebs.Encrypted",
        lambda d: _root(d).update(Encrypted=False),
    ),
    _version(
        "another reservation",
        _TRAINERS,
        "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId",
        lambda d: d["CapacityReservationSpecification"]["CapacityReservationTarget"].update(
            CapacityReservationId="cr-0fedcba9876543210"
        ),
    ),
    _version(
        "no longer bought from the block", _TRAINERS, "InstanceMarketOptions", lambda d: d.pop("InstanceMarketOptions")
    ),
    _version("no instance profile", _CPU, "IamInstanceProfile", lambda d: d.pop("IamInstanceProfile")),
    _version("detailed monitoring is off", _CPU, "Monitoring.Enabled", lambda d: d["Monitoring"].update(Enabled=False)),
    _version(
        "a public address",
        _CPU,
        "NetworkInterfaces.NetworkCardIndex 0, DeviceIndex 0.AssociatePublicIpAddress",
        lambda d: d["NetworkInterfaces"][0].update(AssociatePublicIpAddress=True),
    ),
    _version("the placement group is left out", _VISION, "Placement", lambda d: d.pop("Placement")),
    _version("a key pair", _CPU, "KeyName", lambda d: d.update(KeyName="mine")),
    HandMade(
        "a newer version that nobody uses",
        lambda a: a.version(_VISION, lambda d: d.update(InstanceType="p4de.24xlarge")),
        _TEMPLATE,
        "LatestVersionNumber",
    ),
    # Auto Scaling groups.
    HandMade(
        "the size of a block fleet is set by hand",
        lambda a: a.client("autoscaling").set_desired_capacity(
            AutoScalingGroupName=a.group(_TRAINERS), DesiredCapacity=12
        ),
        _GROUP,
        "DesiredCapacity",
    ),
    _resized("a larger bound", _CPU, "MaxSize", MaxSize=9),
    _resized("a smaller bound", _CPU, "MinSize", MinSize=1),
    HandMade(
        "another subnet",
        lambda a: a.update_group(_CPU, VPCZoneIdentifier=_OTHER_SUBNET),
        _GROUP,
        "VPCZoneIdentifier",
    ),
    _resized("another health check", _CPU, "HealthCheckType", HealthCheckType="ELB"),
    _resized("a shorter grace period", _TRAINERS, "HealthCheckGracePeriod", HealthCheckGracePeriod=10),
    _resized(
        "replacements launch first",
        _TRAINERS,
        "InstanceMaintenancePolicy.MinHealthyPercentage",
        InstanceMaintenancePolicy={"MinHealthyPercentage": 100, "MaxHealthyPercentage": 100},
    ),
    _resized("no protection from deletion", _TRAINERS, "DeletionProtection", DeletionProtection="none"),
    _resized("nodes are replaced after a week", _CPU, "MaxInstanceLifetime", MaxInstanceLifetime=604800),
    _resized(
        "nodes are protected from scale-in",
        _TRAINERS,
        "NewInstancesProtectedFromScaleIn",
        NewInstancesProtectedFromScaleIn=True,
    ),
    HandMade(
        "launches are suspended",
        lambda a: a.client("autoscaling").suspend_processes(
            AutoScalingGroupName=a.group(_TRAINERS), ScalingProcesses=["Launch"]
        ),
        _GROUP,
        "SuspendedProcesses",
    ),
    HandMade(
        "a lifecycle hook is gone",
        lambda a: a.client("autoscaling").delete_lifecycle_hook(
            AutoScalingGroupName=a.group(_TRAINERS), LifecycleHookName="node-drain"
        ),
        _GROUP,
        "LifecycleHookSpecificationList.node-drain",
    ),
    HandMade(
        "a lifecycle hook waits less",
        lambda a: a.client("autoscaling").put_lifecycle_hook(
            AutoScalingGroupName=a.group(_CPU), LifecycleHookName="node-ready", HeartbeatTimeout=60
        ),
        _GROUP,
        "LifecycleHookSpecificationList.node-ready.HeartbeatTimeout",
    ),
    HandMade(
        "the cluster's tag is gone",
        lambda a: a.client("autoscaling").delete_tags(
            Tags=[{"ResourceId": a.group(_CPU), "ResourceType": "auto-scaling-group", "Key": "gpu-cluster"}]
        ),
        _GROUP,
        "Tags.gpu-cluster",
    ),
    HandMade(
        "whichever version is the latest",
        lambda a: a.update_group(
            _CPU,
            LaunchTemplate={"LaunchTemplateId": a.id(_TEMPLATE, _CPU), "Version": "$Latest"},
        ),
        _GROUP,
        "LaunchTemplate.Version",
    ),
    # Security groups.
    HandMade(
        "the fabric's egress to itself is gone",
        lambda a: a.revoke("fabric-default", egress=True),
        "AWS::EC2::SecurityGroupEgress",
        "",
        "GPU-EFA",
    ),
    HandMade(
        "the fabric's ingress from itself is gone",
        lambda a: a.revoke("fabric-default", egress=False),
        "AWS::EC2::SecurityGroupIngress",
        "",
        "GPU-EFA",
    ),
    HandMade(
        "SSH from everywhere",
        lambda a: a.client("ec2").authorize_security_group_ingress(
            GroupId=a.security_group("fabric-default"),
            IpPermissions=[{"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}],
        ),
        "AWS::EC2::SecurityGroup",
        "SecurityGroupIngress",
    ),
    HandMade(
        "nodes reach no address",
        lambda a: a.client("ec2").revoke_security_group_egress(
            GroupId=a.security_group("fabric-default"),
            IpPermissions=[{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}],
        ),
        "AWS::EC2::SecurityGroup",
        "SecurityGroupEgress",
    ),
    HandMade(
        "Lustre's servers hear no clients",
        lambda a: a.revoke("link-corpus-default", egress=False, logical_id="Servers"),
        "AWS::EC2::SecurityGroupIngress",
        "",
    ),
    # Storage.
    HandMade(
        "less throughput",
        lambda a: a.lustre(PerUnitStorageThroughput=125),
        _LUSTRE,
        "LustreConfiguration.PerUnitStorageThroughput",
    ),
    HandMade(
        "no compression",
        lambda a: a.lustre(DataCompressionType="NONE"),
        _LUSTRE,
        "LustreConfiguration.DataCompressionType",
    ),
    HandMade(
        "backups",
        lambda a: a.lustre(AutomaticBackupRetentionDays=7),
        _LUSTRE,
        "LustreConfiguration.AutomaticBackupRetentionDays",
    ),
    HandMade(
        "more storage",
        lambda a: a.client("fsx").update_file_system(FileSystemId=a.id(_LUSTRE), StorageCapacity=76800),
        _LUSTRE,
        "StorageCapacity",
    ),
    HandMade(
        "a link imports less",
        lambda a: a.client("fsx").update_data_repository_association(
            AssociationId=a.link("/data"), S3={"AutoImportPolicy": {"Events": ["NEW"]}}
        ),
        "AWS::FSx::DataRepositoryAssociation",
        "S3.AutoImportPolicy.Events",
    ),
    HandMade(
        "a link is gone",
        lambda a: a.client("fsx").delete_data_repository_association(AssociationId=a.link("/results")),
        "AWS::FSx::DataRepositoryAssociation",
        "",
    ),
    # Capacity and network.
    HandMade(
        "a smaller reservation",
        lambda a: a.client("ec2").modify_capacity_reservation(
            CapacityReservationId=a.id(_RESERVATION), InstanceCount=2
        ),
        _RESERVATION,
        "InstanceCount",
    ),
    HandMade(
        "a reservation that ends later",
        lambda a: a.client("ec2").modify_capacity_reservation(
            CapacityReservationId=a.id(_RESERVATION), EndDate="2027-02-28T00:00:00Z"
        ),
        _RESERVATION,
        "EndDate",
    ),
    HandMade(
        "public addresses in a subnet",
        lambda a: a.client("ec2").modify_subnet_attribute(
            SubnetId=a.id("AWS::EC2::Subnet", "network", "Control"), MapPublicIpOnLaunch={"Value": True}
        ),
        "AWS::EC2::Subnet",
        "MapPublicIpOnLaunch",
    ),
    HandMade(
        "the placement group is gone",
        lambda a: a.client("ec2").delete_placement_group(GroupName=a.id("AWS::EC2::PlacementGroup")),
        "AWS::EC2::PlacementGroup",
        "",
    ),
)


_NODES, _CLUSTER = "AWS::EKS::Nodegroup", "AWS::EKS::Cluster"

ON_EKS: tuple[HandMade, ...] = (
    *(_fact(name, _SLICES, prop, **changes) for name, prop, changes in _NODES_OF_SLICES),
    HandMade(
        "a larger bound", lambda a: a.configure(_SLICES, scalingConfig={"maxSize": 5}), _NODES, "ScalingConfig.MaxSize"
    ),
    HandMade(
        "more nodes",
        lambda a: a.configure(_SLICES, scalingConfig={"desiredSize": 3}),
        _NODES,
        "ScalingConfig.DesiredSize",
    ),
    HandMade(
        "a smaller bound", lambda a: a.configure(_SLICES, scalingConfig={"minSize": 0}), _NODES, "ScalingConfig.MinSize"
    ),
    HandMade(
        "another label",
        lambda a: a.configure(_SLICES, labels={"addOrUpdateLabels": {"gpu-cluster/mig-strategy": "none"}}),
        _NODES,
        "Labels.gpu-cluster/mig-strategy",
    ),
    HandMade(
        "the taint is gone",
        lambda a: a.configure(
            _SLICES, taints={"removeTaints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}]}
        ),
        _NODES,
        "Taints.Key nvidia.com/gpu, Effect NO_SCHEDULE",
    ),
    HandMade(
        "updates replace more nodes at a time",
        lambda a: a.configure(_SLICES, updateConfig={"maxUnavailable": 2}),
        _NODES,
        "UpdateConfig.MaxUnavailable",
    ),
    HandMade(
        "nodes are not repaired",
        lambda a: a.configure(_SLICES, nodeRepairConfig={"enabled": False}),
        _NODES,
        "NodeRepairConfig.Enabled",
    ),
    HandMade(
        "a launch template version with a larger root volume",
        lambda a: a.client("eks").update_nodegroup_version(
            **a.node_group(_SLICES),
            launchTemplate={"version": a.version(_SLICES, lambda d: _root(d).update(VolumeSize=999))[1]},
        ),
        _TEMPLATE,
        "LaunchTemplateData.BlockDeviceMappings./dev/xvda.Ebs.VolumeSize",
    ),
    HandMade(
        "a public API server",
        lambda a: a.client("eks").update_cluster_config(
            name=a.id(_CLUSTER), resourcesVpcConfig={"endpointPublicAccess": True}
        ),
        _CLUSTER,
        "ResourcesVpcConfig.EndpointPublicAccess",
    ),
    HandMade(
        "no audit log",
        lambda a: a.client("eks").update_cluster_config(
            name=a.id(_CLUSTER), logging={"clusterLogging": [{"types": ["audit"], "enabled": False}]}
        ),
        _CLUSTER,
        "Logging.ClusterLogging.EnabledTypes",
    ),
    HandMade(
        "the cluster is protected",
        lambda a: a.client("eks").update_cluster_config(name=a.id(_CLUSTER), deletionProtection=True),
        _CLUSTER,
        "DeletionProtection",
    ),
    HandMade(
        "another configuration of an add-on",
        lambda a: a.client("eks").update_addon(
            clusterName=a.id(_CLUSTER), addonName="vpc-cni", configurationValues='{"enableNetworkPolicy": "false"}'
        ),
        "AWS::EKS::Addon",
        "ConfigurationValues",
    ),
    HandMade(
        "an add-on is gone",
        lambda a: a.client("eks").delete_addon(clusterName=a.id(_CLUSTER), addonName="aws-fsx-csi-driver"),
        "AWS::EKS::Addon",
        "",
    ),
)


_PCS_NODES = "AWS::PCS::ComputeNodeGroup"
_POOL = "fleet-slices"

ON_PCS: tuple[HandMade, ...] = (
    *(_fact(name, _QUEUE, prop, **changes) for name, prop, changes in _NODES_OF_SLICES),
    HandMade(
        "fewer nodes",
        lambda a: a.update_nodes("login", scalingConfiguration={"minInstanceCount": 0, "maxInstanceCount": 1}),
        _PCS_NODES,
        "ScalingConfiguration.MinInstanceCount",
    ),
    HandMade(
        "a launch template version with a larger root volume",
        lambda a: a.update_nodes(
            _POOL,
            customLaunchTemplate=dict(
                zip(("id", "version"), a.version(_POOL, lambda d: _root(d).update(VolumeSize=999)), strict=True)
            ),
        ),
        _TEMPLATE,
        "LaunchTemplateData.BlockDeviceMappings./dev/sda1.Ebs.VolumeSize",
    ),
    HandMade("another subnet", lambda a: a.update_nodes(_POOL, subnetIds=[_OTHER_SUBNET]), _PCS_NODES, "SubnetIds"),
    HandMade(
        "other rights",
        lambda a: a.update_nodes(_POOL, iamInstanceProfileArn="arn:aws:iam::123456789012:instance-profile/AWSPCS-mine"),
        _PCS_NODES,
        "IamInstanceProfileArn",
    ),
    HandMade(
        "other GPUs for Slurm",
        lambda a: a.update_nodes(
            _POOL,
            slurmConfiguration={
                "slurmCustomSettings": [
                    {"parameterName": "Features", "parameterValue": "p4d.24xlarge,gpu"},
                    {"parameterName": "Gres", "parameterValue": "gpu:8"},
                ]
            },
        ),
        _PCS_NODES,
        "SlurmConfiguration.SlurmCustomSettings.Gres.ParameterValue",
    ),
    HandMade(
        "no epilog",
        lambda a: a.set_slurm(lambda rows: [one for one in rows if one["parameterName"] != "Epilog"]),
        "AWS::PCS::Cluster",
        "SlurmConfiguration.SlurmCustomSettings.Epilog",
    ),
    HandMade(
        "jobs see all GPUs",
        lambda a: a.client("pcs").update_cluster(
            **a.pcs("Cluster"),
            slurmConfiguration={
                "cgroupCustomSettings": [{"parameterName": "ConstrainDevices", "parameterValue": "no"}]
            },
        ),
        "AWS::PCS::Cluster",
        "SlurmConfiguration.CgroupCustomSettings.ConstrainDevices.ParameterValue",
    ),
    HandMade(
        "the cluster's group hears nobody",
        lambda a: a.revoke("slurm", egress=False),
        "AWS::EC2::SecurityGroupIngress",
        "",
    ),
    HandMade(
        "a queue without nodes",
        lambda a: a.client("pcs").update_queue(**a.pcs("Queue"), computeNodeGroupConfigurations=[]),
        "AWS::PCS::Queue",
        "ComputeNodeGroupConfigurations",
    ),
    HandMade(
        "the queue is gone",
        lambda a: a.client("pcs").delete_queue(**a.pcs("Queue")),
        "AWS::PCS::Queue",
        "",
    ),
)
