"""Described AWS resources in the shape of a CloudFormation template: which member of an answer is which property.

The members are those of botocore's service models, the properties those of the CloudFormation registry; tests hold the
table against both. Members that have another name than their property are in `_RENAMED`, values of another shape have
a function of their own. Everything else has the same spelling, apart from the first letter in the services of `small`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cdk_gpu_clusters_stacks.failures.calls import EKS_NODE_GROUP, GROUPS, PCS_NODE_GROUP
from cdk_gpu_clusters_stacks.preflight.call import (
    EKS_ADD_ON,
    EKS_CLUSTER,
    FILE_SYSTEMS,
    PCS_CLUSTER,
    PLACEMENT_GROUPS,
    RESERVATIONS,
    SUBNETS,
    Call,
    define_call,
)
from cdk_gpu_clusters_stacks.status.groups import COMPUTE_ENVIRONMENTS

Json = Mapping[str, Any]

TEMPLATES = define_call("ec2", "describe_launch_template_versions")
HOOKS = define_call("autoscaling", "describe_lifecycle_hooks")
LINKS = define_call("fsx", "describe_data_repository_associations")
PCS_QUEUE = define_call("pcs", "get_queue")


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member of an answer.

    Attributes:
        name: Path of the member, with dots.
        property: Path of the property.
        convert: Turns the member's value into the property's, where they differ by more than spelling.
        verbatim: Whether the keys below are the user's own, such as tags.
        may_be_unset: Whether a value that the template does not give is compared with `unset`.
        unset: The value that AWS answers where nothing is set, if it is not 0, false or empty.
    """

    name: str
    property: str
    convert: Callable[[Any], Any] | None = None
    verbatim: bool = False
    may_be_unset: bool = False
    unset: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How one type of resource is described.

    Attributes:
        type: Its CloudFormation type.
        call: The call that describes it.
        parameters: Physical id -> parameters of the call.
        answer: Where the description is in the answer; in a list it is the only item.
        members: Its members that are compared.
        small: Whether the service spells members with a small letter first.
        is_gone: Whether a description is that of a resource which no longer exists.
        unanswered: Properties inside others that the answer has nowhere: nothing is known about them.
    """

    type: str
    call: Call
    parameters: Callable[[str], dict[str, Any]]
    answer: str
    members: tuple[Member, ...]
    small: bool = False
    is_gone: Callable[[Json], bool] = lambda _: False
    unanswered: tuple[str, ...] = ()

    def properties(self, document: Json) -> dict[str, Any]:
        """The properties of a described resource; what the answer lacks is left out."""
        made: dict[str, Any] = {}
        for member in self.members:
            value = inside(document, member.name)
            if value is not None:
                _put(made, member.property, self._converted(member, value))
        return made

    def _converted(self, member: Member, value: Any) -> Any:
        if member.convert is not None:
            value = member.convert(value)
        if member.verbatim:
            return value
        return _spelled(value, small=self.small, renamed=_RENAMED.get(self.type, {}))


def inside(value: Any, path: str) -> Any:
    """What is at a path with dots; None for nothing."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _put(properties: dict[str, Any], path: str, value: Any) -> None:
    *above, last = path.split(".")
    for name in above:
        properties = properties.setdefault(name, {})
    properties[last] = value


#: Members below those of the table that have another name than their property, as properties spell them.
_RENAMED: Mapping[str, Mapping[str, str]] = {
    "AWS::PCS::ComputeNodeGroup": {"Id": "TemplateId"},
}
#: Keys below which names are no members: gres.conf has names of its own.
_FREE = ("GresCustomSettings",)


def _spelled(value: Any, *, small: bool, renamed: Mapping[str, str]) -> Any:
    """A value with its members spelled as properties."""
    if isinstance(value, list):
        return [_spelled(item, small=small, renamed=renamed) for item in value]
    if not isinstance(value, Mapping):
        return value
    made = {}
    for key, item in value.items():
        name = f"{key[:1].upper()}{key[1:]}" if small else key
        name = renamed.get(name, name)
        made[name] = item if name in _FREE else _spelled(item, small=small, renamed=renamed)
    return made


# Values of another shape.


def _split(text: str) -> list[str]:
    return [one for one in text.split(",") if one]


def _enabled_logs(logging: Any) -> list[dict[str, str]]:
    """EKS: the kinds of logs that are on."""
    rows = logging if isinstance(logging, list) else []
    return [{"Type": kind} for row in rows if row.get("enabled") for kind in row.get("types", ())]


def _pairs(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def _process_names(rows: list[Json]) -> list[str]:
    return [str(row.get("ProcessName", "")) for row in rows]


def _same(*names: str) -> tuple[Member, ...]:
    return tuple(Member(name=name, property=name) for name in names)


def _may_be_unset(*names: str) -> tuple[Member, ...]:
    """Members that AWS answers as 0, false or empty where nothing is set."""
    return tuple(Member(name=name, property=name, may_be_unset=True) for name in names)


def _small(*names: str) -> tuple[Member, ...]:
    return tuple(Member(name=f"{name[:1].lower()}{name[1:]}", property=name) for name in names)


# How resources are named in calls. Sources: the `Ref` of each type in the CloudFormation template reference.


def _eks_part(key: str) -> Callable[[str], dict[str, str]]:
    def parameters(physical_id: str) -> dict[str, str]:
        cluster, _, name = physical_id.replace("|", "/").partition("/")
        return {("name" if key == "name" else "clusterName"): cluster, **({} if key == "name" else {key: name})}

    return parameters


def _pcs(*keys: str) -> Callable[[str], dict[str, str]]:
    """A resource of AWS PCS by its ARN: the ids of the cluster, and of the part in it."""

    def parameters(physical_id: str) -> dict[str, str]:
        ids = re.findall(r"pcs_\w+", physical_id)
        return dict(zip(keys, ids, strict=False))

    return parameters


#: State of suspended processes of an Auto Scaling group, which no property has: a template means that none is.
SUSPENDED = "SuspendedProcesses"
#: A warm pool is a resource of its own to CloudFormation, so a template never gives it here.
WARM_POOL = "WarmPoolConfiguration"

KINDS: tuple[Kind, ...] = (
    Kind(
        type="AWS::EC2::LaunchTemplate",
        call=TEMPLATES,
        parameters=lambda name: {"LaunchTemplateId": name},
        answer="LaunchTemplateVersions",
        members=_same("LaunchTemplateData"),
    ),
    Kind(
        type="AWS::AutoScaling::AutoScalingGroup",
        call=GROUPS,
        parameters=lambda name: {"AutoScalingGroupNames": [name]},
        answer="AutoScalingGroups",
        members=(
            *_same(
                "MinSize",
                "MaxSize",
                "DesiredCapacity",
                "LaunchTemplate",
                "MixedInstancesPolicy",
                "HealthCheckType",
                "HealthCheckGracePeriod",
                "InstanceMaintenancePolicy",
                "InstanceLifecyclePolicy",
                "DefaultInstanceWarmup",
                "CapacityReservationSpecification",
                "LoadBalancerNames",
                "TargetGroupARNs",
                "TrafficSources",
                WARM_POOL,
                "TerminationPolicies",
                "Tags",
            ),
            Member(name="VPCZoneIdentifier", property="VPCZoneIdentifier", convert=_split),
            # EC2 Auto Scaling API reference, CreateAutoScalingGroup: `none` where no protection is given.
            Member(name="DeletionProtection", property="DeletionProtection", may_be_unset=True, unset="none"),
            *_may_be_unset(
                "CapacityRebalance", "MaxInstanceLifetime", "NewInstancesProtectedFromScaleIn", "PlacementGroup"
            ),
            Member(name=SUSPENDED, property=SUSPENDED, convert=_process_names, may_be_unset=True),
        ),
    ),
    Kind(
        type="AWS::EC2::PlacementGroup",
        call=PLACEMENT_GROUPS,
        parameters=lambda name: {"GroupNames": [name]},
        answer="PlacementGroups",
        members=_same("Strategy", "PartitionCount", "SpreadLevel"),
        is_gone=lambda found: found.get("State") in ("deleting", "deleted"),
    ),
    Kind(
        type="AWS::EC2::CapacityReservation",
        call=RESERVATIONS,
        parameters=lambda name: {"CapacityReservationIds": [name]},
        answer="CapacityReservations",
        members=(
            Member(name="TotalInstanceCount", property="InstanceCount"),
            *_same(
                "AvailabilityZone",
                "EndDate",
                "EndDateType",
                "InstanceMatchCriteria",
                "InstancePlatform",
                "InstanceType",
                "PlacementGroupArn",
                "Tenancy",
            ),
        ),
        # One that expired ended as planned, or its end date differs.
        is_gone=lambda found: found.get("State") in ("cancelled", "failed"),
    ),
    Kind(
        type="AWS::EC2::Subnet",
        call=SUBNETS,
        parameters=lambda name: {"SubnetIds": [name]},
        answer="Subnets",
        # What else a subnet has never changes.
        members=_may_be_unset("AssignIpv6AddressOnCreation", "MapPublicIpOnLaunch"),
    ),
    Kind(
        type="AWS::FSx::FileSystem",
        call=FILE_SYSTEMS,
        parameters=lambda name: {"FileSystemIds": [name]},
        answer="FileSystems",
        members=_same(
            "FileSystemType",
            "FileSystemTypeVersion",
            "KmsKeyId",
            "LustreConfiguration",
            "OpenZFSConfiguration",
            "StorageCapacity",
            "StorageType",
            "SubnetIds",
            "Tags",
        ),
        is_gone=lambda found: found.get("Lifecycle") == "DELETING",
        unanswered=(
            "LustreConfiguration.AutoImportPolicy",
            "LustreConfiguration.ExportPath",
            "LustreConfiguration.ImportPath",
            "LustreConfiguration.ImportedFileChunkSize",
            "OpenZFSConfiguration.Options",
            "OpenZFSConfiguration.RootVolumeConfiguration",
        ),
    ),
    Kind(
        type="AWS::FSx::DataRepositoryAssociation",
        call=LINKS,
        parameters=lambda name: {"AssociationIds": [name]},
        answer="Associations",
        members=_same("DataRepositoryPath", "FileSystemId", "FileSystemPath", "ImportedFileChunkSize", "S3"),
        is_gone=lambda found: found.get("Lifecycle") == "DELETING",
    ),
    Kind(
        type="AWS::EKS::Cluster",
        call=EKS_CLUSTER,
        parameters=_eks_part("name"),
        answer="cluster",
        small=True,
        members=(
            *_small(
                "AccessConfig",
                "ComputeConfig",
                "DeletionProtection",
                "EncryptionConfig",
                "KubernetesNetworkConfig",
                "ResourcesVpcConfig",
                "RoleArn",
                "StorageConfig",
                "UpgradePolicy",
                "Version",
            ),
            Member(
                name="logging.clusterLogging",
                property="Logging.ClusterLogging.EnabledTypes",
                convert=_enabled_logs,
            ),
            Member(name="tags", property="Tags", convert=_pairs, verbatim=True),
        ),
    ),
    Kind(
        type="AWS::EKS::Nodegroup",
        call=EKS_NODE_GROUP,
        parameters=_eks_part("nodegroupName"),
        answer="nodegroup",
        small=True,
        members=(
            *_small(
                "AmiType",
                "CapacityType",
                "DiskSize",
                "InstanceTypes",
                "LaunchTemplate",
                "NodeRepairConfig",
                "NodeRole",
                "ReleaseVersion",
                "ScalingConfig",
                "Subnets",
                "UpdateConfig",
                "Version",
            ),
            Member(name="taints", property="Taints", may_be_unset=True),
            Member(name="labels", property="Labels", verbatim=True, may_be_unset=True),
            Member(name="tags", property="Tags", verbatim=True),
        ),
    ),
    Kind(
        type="AWS::EKS::Addon",
        call=EKS_ADD_ON,
        parameters=_eks_part("addonName"),
        answer="addon",
        small=True,
        members=_small("AddonVersion", "ConfigurationValues", "ServiceAccountRoleArn"),
    ),
    Kind(
        type="AWS::PCS::Cluster",
        call=PCS_CLUSTER,
        parameters=_pcs("clusterIdentifier"),
        answer="cluster",
        small=True,
        members=_small("Networking", "Scheduler", "Size", "SlurmConfiguration"),
    ),
    Kind(
        type="AWS::PCS::ComputeNodeGroup",
        call=PCS_NODE_GROUP,
        parameters=_pcs("clusterIdentifier", "computeNodeGroupIdentifier"),
        answer="computeNodeGroup",
        small=True,
        members=_small(
            "AmiId",
            "CustomLaunchTemplate",
            "IamInstanceProfileArn",
            "InstanceConfigs",
            "NodeLifecycleActions",
            "PurchaseOption",
            "ScalingConfiguration",
            "SlurmConfiguration",
            "SpotOptions",
            "SubnetIds",
        ),
    ),
    Kind(
        type="AWS::Batch::ComputeEnvironment",
        call=COMPUTE_ENVIRONMENTS,
        parameters=lambda name: {"computeEnvironments": [name]},
        answer="computeEnvironments",
        small=True,
        members=_small("State", "ComputeResources"),
        unanswered=("ComputeResources.UpdateToLatestImageVersion",),
    ),
    Kind(
        type="AWS::PCS::Queue",
        call=PCS_QUEUE,
        parameters=_pcs("clusterIdentifier", "queueIdentifier"),
        answer="queue",
        small=True,
        members=_small("ComputeNodeGroupConfigurations", "SlurmConfiguration"),
    ),
)
_RESERVATION = next(kind for kind in KINDS if kind.call is RESERVATIONS)
#: Beside CloudFormation's types, our own function that makes reservations in placement groups: its properties are
#: those of the type.
BY_TYPE: Mapping[str, Kind] = {
    **{kind.type: kind for kind in KINDS},
    "Custom::EC2CapacityReservation": replace(_RESERVATION, type="Custom::EC2CapacityReservation"),
}

#: Lifecycle hooks have a call of their own; their members are those of the property's items.
HOOK_MEMBERS = (
    "DefaultResult",
    "HeartbeatTimeout",
    "LifecycleHookName",
    "LifecycleTransition",
    "NotificationMetadata",
    "NotificationTargetARN",
    "RoleARN",
)

SECURITY_GROUP = "AWS::EC2::SecurityGroup"
#: The lists of rules inside a group, by whether they are about egress; as types they are rules of their own.
DIRECTIONS = {False: "SecurityGroupIngress", True: "SecurityGroupEgress"}
RULE_TYPES = tuple(DIRECTIONS.values())
#: What does not decide which traffic a rule allows.
_NO_TRAFFIC = ("Description", "GroupId", "SourceSecurityGroupOwnerId")
#: A rule of a security group: member of the answer -> property of an ingress and of an egress rule.
RULE_MEMBERS: Mapping[str, tuple[str, str]] = {
    "IpProtocol": ("IpProtocol", "IpProtocol"),
    "FromPort": ("FromPort", "FromPort"),
    "ToPort": ("ToPort", "ToPort"),
    "CidrIpv4": ("CidrIp", "CidrIp"),
    "CidrIpv6": ("CidrIpv6", "CidrIpv6"),
    "PrefixListId": ("SourcePrefixListId", "DestinationPrefixListId"),
    "ReferencedGroupInfo.GroupId": ("SourceSecurityGroupId", "DestinationSecurityGroupId"),
}


def rule_properties(document: Json) -> dict[str, Any]:
    """A described rule of a security group as a template has it."""
    made = {}
    for member, names in RULE_MEMBERS.items():
        value = inside(document, member)
        if value is not None and not (value == -1 and member in ("FromPort", "ToPort")):
            made[names[bool(document.get("IsEgress"))]] = value
    return made


def traffic_of(rule: Json) -> dict[str, Any]:
    """The properties of a rule that decide which traffic it allows."""
    return {
        name: value
        for name, value in rule.items()
        if name not in _NO_TRAFFIC and not (name in ("FromPort", "ToPort") and value == -1)
    }


def described(kind: Kind, answer: Json) -> Json | None:
    """The one description in an answer; None if there is none, or the resource is gone."""
    found: Any = answer.get(kind.answer)
    if isinstance(found, list):
        found = found[0] if found else None
    return found if isinstance(found, Mapping) and not kind.is_gone(found) else None
