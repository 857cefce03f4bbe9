"""What exists in the emulated account: resources of every stack, seeds, and Auto Scaling groups at run time."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol

from .batch_state import Batch
from .clock import Clock, format_time, parse_time
from .faults import ApiError
from .reservations import Reservation, zone_name

Json = dict[str, Any]

IN_SERVICE = "InService"
PENDING = "Pending:Wait"
DEREGISTERING = "Terminating"
TERMINATING = "Terminating:Wait"


@dataclass(slots=True, kw_only=True)
class Instance:
    """One instance of a group.

    Attributes:
        addresses: Private addresses of its network interfaces.
        waits: Lifecycle hooks that hold it, each with the moment at which it times out.
        since: When it came into its present state.
        launched: When it was launched.
        is_healthy: False after a call of SetInstanceHealth.
        has_acted: Whether its program has done what it does in that state.
    """

    id: str
    instance_type: str
    availability_zone: str
    template_id: str
    template_version: str
    reservation_id: str
    subnet_id: str
    addresses: int
    lifecycle_state: str
    since: datetime
    launched: datetime
    waits: dict[str, datetime] = field(default_factory=dict)
    is_healthy: bool = True
    has_acted: bool = False

    @property
    def is_leaving(self) -> bool:
        """Whether it counts no more towards the desired capacity."""
        return self.lifecycle_state in (DEREGISTERING, TERMINATING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The programs on nodes.

    Attributes:
        boot: Time from the launch until a node is ready.
        drain: Time from the notice that it leaves until a node has drained.
        log_group: Log group, by name or logical id, in which it logs both; empty for none.
        is_running: Whether it runs whenever the clock moves, and not only while CloudFormation waits.
    """

    boot: timedelta = timedelta(minutes=5)
    drain: timedelta = timedelta(minutes=1)
    log_group: str = ""
    is_running: bool = False


@dataclass(slots=True, kw_only=True)
class Group:
    """The state of one group of instances that is not in its template.

    Attributes:
        given: What another service than Auto Scaling launches its instances by, in the properties of an Auto Scaling
            group; None for an Auto Scaling group, which has them in its resource.
        extra: Instances above the desired capacity, while an instance refresh launches first.
    """

    name: str
    minimum: int
    maximum: int
    desired: int
    created_at: datetime
    instances: list[Instance] = field(default_factory=list)
    activities: list[dict[str, Any]] = field(default_factory=list)
    suspended: set[str] = field(default_factory=set)
    sizes: list[tuple[datetime, int, int, int]] = field(default_factory=list)
    extra: int = 0
    tags: dict[str, str] = field(default_factory=dict)
    given: Json | None = None

    @property
    def staying(self) -> list[Instance]:
        """The instances that count towards the desired capacity."""
        return [one for one in self.instances if not one.is_leaving]

    def measure(self, world: World) -> None:
        """Put down the desired capacity, and the instances in service and pending, if they changed."""
        states = [one.lifecycle_state for one in self.instances]
        now = (self.desired, states.count(IN_SERVICE), states.count(PENDING))
        if not self.sizes or self.sizes[-1][1:] != now:
            self.sizes.append((world.clock.now(), *now))

    def note(self, world: World, status: str, description: str, message: str = "", cause: str = "") -> None:
        """Put an activity first in the list of `DescribeScalingActivities`; without a cause, the desired size."""
        now = world.clock.now()
        cause = cause or f"the group had a desired capacity of {self.desired}"
        activity: dict[str, Any] = {
            "ActivityId": world.new_id("", f"{self.name} activity", 32),
            "AutoScalingGroupName": self.name,
            "Description": description,
            "Cause": f"At {format_time(now)} {cause}.",
            "StartTime": now,
            "EndTime": now,
            "StatusCode": status,
            "StatusMessage": message,
            "Progress": 100,
        }
        self.activities.insert(0, activity)


class Type(StrEnum):
    """The resource types that the models know by name; the values are CloudFormation's."""

    LAUNCH_TEMPLATE = "AWS::EC2::LaunchTemplate"
    CAPACITY_RESERVATION = "AWS::EC2::CapacityReservation"
    PLACEMENT_GROUP = "AWS::EC2::PlacementGroup"
    SECURITY_GROUP = "AWS::EC2::SecurityGroup"
    SUBNET = "AWS::EC2::Subnet"
    AUTO_SCALING_GROUP = "AWS::AutoScaling::AutoScalingGroup"
    LIFECYCLE_HOOK = "AWS::AutoScaling::LifecycleHook"
    SCHEDULED_ACTION = "AWS::AutoScaling::ScheduledAction"
    SCALING_POLICY = "AWS::AutoScaling::ScalingPolicy"
    ALARM = "AWS::CloudWatch::Alarm"
    HOSTED_ZONE = "AWS::Route53::HostedZone"
    EVENTS_RULE = "AWS::Events::Rule"
    STATE_MACHINE = "AWS::StepFunctions::StateMachine"
    FILE_SYSTEM = "AWS::FSx::FileSystem"
    DATA_REPOSITORY = "AWS::FSx::DataRepositoryAssociation"
    EFS = "AWS::EFS::FileSystem"
    MOUNT_TARGET = "AWS::EFS::MountTarget"
    LOAD_BALANCER = "AWS::ElasticLoadBalancingV2::LoadBalancer"
    LISTENER = "AWS::ElasticLoadBalancingV2::Listener"
    LISTENER_RULE = "AWS::ElasticLoadBalancingV2::ListenerRule"
    TARGET_GROUP = "AWS::ElasticLoadBalancingV2::TargetGroup"
    BUCKET = "AWS::S3::Bucket"
    DIRECTORY_BUCKET = "AWS::S3Express::DirectoryBucket"
    CERTIFICATE = "AWS::CertificateManager::Certificate"
    CLUSTER = "AWS::EKS::Cluster"
    NODE_GROUP = "AWS::EKS::Nodegroup"
    ADD_ON = "AWS::EKS::Addon"
    ACCESS_ENTRY = "AWS::EKS::AccessEntry"
    POD_IDENTITY = "AWS::EKS::PodIdentityAssociation"
    PCS_CLUSTER = "AWS::PCS::Cluster"
    PCS_NODE_GROUP = "AWS::PCS::ComputeNodeGroup"
    PCS_QUEUE = "AWS::PCS::Queue"
    COMPUTE_ENVIRONMENT = "AWS::Batch::ComputeEnvironment"
    JOB_QUEUE = "AWS::Batch::JobQueue"
    JOB_DEFINITION = "AWS::Batch::JobDefinition"
    HYPERPOD_CLUSTER = "AWS::SageMaker::Cluster"
    COMPUTE_QUOTA = "AWS::SageMaker::ComputeQuota"
    DELIVERY = "AWS::Logs::Delivery"
    DELIVERY_DESTINATION = "AWS::Logs::DeliveryDestination"
    DELIVERY_SOURCE = "AWS::Logs::DeliverySource"
    LOG_GROUP = "AWS::Logs::LogGroup"


@dataclass(slots=True, kw_only=True)
class Resource:
    """One resource of one stack.

    Attributes:
        type: CloudFormation type name.
        physical_id: What `Ref` gives.
        properties: The properties as CloudFormation gave them, after intrinsics.
        attributes: What `Fn::GetAtt` gives.
        answered_by: `emulator` where the engine made it, `model` where this library's model did, `seed` where it was
            there before.
        versions: Earlier and present `LaunchTemplateData`, oldest first; launch templates only.
        settings: What stays from an earlier template: attributes of a load balancer or target group, the Kubernetes
            version of a node group, the name and the state of what AWS PCS made.
        update_policy: The template's `UpdatePolicy`, where it has one.
        parts: Ids of what a service keeps behind it, by type: the launch template and the Auto Scaling group of a node
            group of EKS.
    """

    type: str
    physical_id: str
    region: str
    logical_id: str = ""
    stack_name: str = ""
    properties: Json = field(default_factory=dict)
    attributes: Json = field(default_factory=dict)
    answered_by: str = "model"
    versions: list[Json] = field(default_factory=list)
    settings: Json = field(default_factory=dict)
    update_policy: Json = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)

    def document(self) -> Json:
        """The resource as JSON."""
        names = ("type", "logical_id", "physical_id", "region", "answered_by", "properties", "attributes")
        return {"stack": self.stack_name, **{name: getattr(self, name) for name in names}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who makes an API call: a role, in a session that has a name, such as the id of an instance."""

    role: str
    session: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What IAM is asked: may this principal perform this action on this resource, with these condition keys?"""

    principal: str
    action: str
    resource: str
    context: Mapping[str, Any] = field(default_factory=dict)


class ApiCall(Protocol):
    """An API call that a state machine makes with its role."""

    def __call__(self, world: World, service: str, operation: str, params: Json, caller: Caller, /) -> Json: ...


class Decision(Protocol):
    """IAM's evaluation of policy documents."""

    def __call__(self, question: Question, documents: Iterable[Json], /) -> bool: ...


class ReadObject(Protocol):
    """An object of Amazon S3, or one version of it; None if there is none."""

    def __call__(self, bucket: str, key: str, version: str, /) -> bytes | None: ...


def _no_object(_bucket: str, _key: str, _version: str, /) -> bytes | None:
    return None


def _no_api(_world: World, service: str, operation: str, _params: Json, _caller: Caller, /) -> Json:
    raise ApiError("NotEmulated", f"no model answers {service}:{operation}")


class World:
    """The emulated account: resources, seeds, clock, fleets and what happened.

    Args:
        api: Answers the API calls of state machines.
        decide: Evaluates policies; without it, every role may do everything.
        read_object: Reads the objects of buckets.
    """

    def __init__(
        self, api: ApiCall = _no_api, decide: Decision | None = None, read_object: ReadObject = _no_object
    ) -> None:
        self.api = api
        self.decide = decide
        self.read_object = read_object
        self.ahead = timedelta()  # what the waits of the state machine that runs now would have taken
        self.sessions: dict[str, Caller] = {}
        self.denied: list[Json] = []
        self.failing_calls: list[Json] = []
        self.lost_events: list[Json] = []
        self.program = Program()
        self.waits_for_in_service = False
        self.patterns_as_published = False
        self.writes_sizes_back = False
        self.logged: list[Json] = []
        self.lost: list[Json] = []
        self.outages: list[Json] = []
        self.commands: list[Json] = []
        self.clock = Clock()
        self.account = "123456789012"
        self.region = "us-east-1"
        self.resources: dict[str, Resource] = {}
        self.seeded_reservations: dict[str, Reservation] = {}
        self.seeded_subnets: dict[str, str] = {}
        self.seeded_security_groups: set[str] = set()
        self.seeded_placement_groups: dict[str, str] = {}
        self.seeded_reservation_groups: dict[str, tuple[str, ...]] = {}
        self.seeded_vpcs: set[str] = set()
        self.seeded_buckets: dict[str, str] = {}
        self.seeded_certificates: set[str] = set()
        self.failing_instances: set[str] = set()
        self.groups: dict[str, Group] = {}
        self.batch = Batch()
        self.events: list[Json] = []
        self.deliveries: list[Json] = []
        self.executions: list[Json] = []
        self.triggered: list[tuple[datetime, str]] = []
        self.alarm_states: dict[str, str] = {}
        self.spent: dict[str, str] = {}
        self.metric_data: dict[tuple[str, ...], list[tuple[datetime, float]]] = {}
        self.block_event_names: tuple[str, str] = (
            "Capacity Block Delivered",
            "Capacity Block Expiration Warning",
        )
        self._serials: defaultdict[str, int] = defaultdict(int)

    def new_id(self, prefix: str, seed: str, length: int = 17) -> str:
        """A made-up id that is the same in every run: a digest of `seed` and its use count."""
        self._serials[seed] += 1
        digest = hashlib.sha256(f"{seed}#{self._serials[seed]}".encode()).hexdigest()
        return prefix + digest[:length]

    def of_type(self, type_name: str) -> Iterator[Resource]:
        """Resources of one type, in order of creation."""
        return (found for found in list(self.resources.values()) if found.type == type_name)

    def find(self, type_name: str, physical_id: str) -> Resource | None:
        """The resource of that type and id."""
        return self.resources.get(f"{type_name} {physical_id}")

    def add(self, resource: Resource) -> None:
        """Record a resource."""
        self.resources[f"{resource.type} {resource.physical_id}"] = resource

    def remove(self, type_name: str, physical_id: str) -> None:
        """Forget a resource."""
        self.resources.pop(f"{type_name} {physical_id}", None)

    @contextmanager
    def without(self, resource: Resource) -> Iterator[None]:
        """The world as it is beside one resource, for the checks of an update of it."""
        everything = self.resources
        key = f"{resource.type} {resource.physical_id}"
        self.resources = {name: one for name, one in everything.items() if name != key}
        try:
            yield
        finally:
            self.resources = everything

    @property
    def url_suffix(self) -> str:
        """Domain of the Region's addresses."""
        return "amazonaws.com.cn" if self.region.startswith("cn-") else "amazonaws.com"

    def arn(self, service: str, path: str, region: str | None = None) -> str:
        """An ARN in this account."""
        region = region or self.region
        partition = "aws-cn" if region.startswith("cn-") else "aws-us-gov" if "-gov-" in region else "aws"
        return f"arn:{partition}:{service}:{region}:{self.account}:{path}"

    def reservations(self) -> dict[str, Reservation]:
        """Every capacity reservation: seeded ones and those that stacks made."""
        made = {found.physical_id: reservation_of(found) for found in self.of_type(Type.CAPACITY_RESERVATION)}
        return {**self.seeded_reservations, **made}

    def reservations_in_group(self, arn: str) -> list[Reservation] | None:
        """The reservations of a resource group; None where no such group exists."""
        name = arn.rsplit("/", 1)[-1]
        known = self.reservations()
        if name in self.seeded_reservation_groups:
            return [known[member] for member in self.seeded_reservation_groups[name] if member in known]
        group = self.reservation_group(arn)
        if group is None:
            return None
        members = [str(member).rsplit("/", 1)[-1] for member in group.properties.get("Resources", [])]
        return [known[member] for member in members if member in known]

    def reservation_group(self, arn: str) -> Resource | None:
        """The resource group of reservations that a stack made, by ARN or name."""
        name = arn.rsplit("/", 1)[-1]
        for group in self.of_type("AWS::ResourceGroups::Group"):
            if group.attributes.get("Arn") == arn or name in (group.properties.get("Name"), group.physical_id):
                return group
        return None

    def instances(self) -> list[Instance]:
        """The instances of every group."""
        return [one for group in self.groups.values() for one in group.instances]

    def placement_strategy(self, name: str) -> str | None:
        """The strategy of a placement group; None if there is none of that name."""
        group = self.find(Type.PLACEMENT_GROUP, name)
        return group.properties.get("Strategy", "cluster") if group else self.seeded_placement_groups.get(name)

    def zone_of_subnet(self, subnet_id: str) -> str | None:
        """The name of a subnet's zone; None where there is no such subnet, `""` where AWS would choose."""
        if subnet_id in self.seeded_subnets:
            return zone_name(self.seeded_subnets[subnet_id])
        subnet = self.find(Type.SUBNET, subnet_id)
        if subnet is None:
            return None
        given = subnet.properties.get("AvailabilityZone") or subnet.properties.get("AvailabilityZoneId")
        return zone_name(str(given or subnet.attributes.get("AvailabilityZone") or ""))

    def vpc_of_subnet(self, subnet_id: str) -> str | None:
        """The VPC of a subnet that a stack made; None for others."""
        subnet = self.find(Type.SUBNET, subnet_id)
        return None if subnet is None else str(subnet.properties["VpcId"])

    def has_vpc(self, vpc_id: str) -> bool:
        """Whether a VPC exists."""
        return vpc_id in self.seeded_vpcs or self.find("AWS::EC2::VPC", vpc_id) is not None

    def region_of_bucket(self, name: str) -> str | None:
        """The Region of a bucket; None where there is none of that name."""
        bucket = self.find(Type.BUCKET, name)
        return bucket.region if bucket else self.seeded_buckets.get(name)

    def has_certificate(self, arn: str) -> bool:
        """Whether a certificate exists."""
        return arn in self.seeded_certificates or self.find(Type.CERTIFICATE, arn) is not None

    def has_security_group(self, group_id: str) -> bool:
        """Whether a security group exists; the default group of a VPC and the group of an EKS cluster count."""
        if group_id in self.seeded_security_groups or self.find(Type.SECURITY_GROUP, group_id):
            return True
        made = {found.attributes.get("DefaultSecurityGroup") for found in self.of_type("AWS::EC2::VPC")}
        return group_id in made | {found.attributes["ClusterSecurityGroupId"] for found in self.of_type(Type.CLUSTER)}

    def properties_of(self, type_name: str, physical_id: str) -> Json:
        """The properties of a resource; empty if there is none."""
        found = self.find(type_name, physical_id)
        return found.properties if found else {}

    def cluster(self, name: str) -> Resource | None:
        """The EKS cluster of that name."""
        return self.find(Type.CLUSTER, name)

    def node_groups(self, cluster: str) -> list[Resource]:
        """The managed node groups of an EKS cluster."""
        return [one for one in self.of_type(Type.NODE_GROUP) if one.properties["ClusterName"] == cluster]

    def launch_template(self, specification: Json) -> Resource | None:
        """The launch template that a specification names, by id or by name."""
        wanted = specification.get("LaunchTemplateId") or specification.get("LaunchTemplateName")
        for found in self.of_type(Type.LAUNCH_TEMPLATE):
            if wanted in (found.physical_id, found.attributes.get("LaunchTemplateName")):
                return found
        return None

    def launch_template_data(self, specification: Json) -> Json | None:
        """The data of the version that a specification names; None where there is none."""
        template = self.launch_template(specification)
        if template is None:
            return None
        version = str(specification.get("Version", "$Default"))
        number = {
            "$Default": template.attributes["DefaultVersionNumber"],
            "$Latest": str(len(template.versions)),
        }.get(version, version)
        if not number.isdigit() or not 1 <= int(number) <= len(template.versions):
            return None
        data: Json = template.versions[int(number) - 1]["LaunchTemplateData"]
        return data

    def group_properties(self, name: str) -> Json:
        """What the instances of a group are launched by; empty if there is no such group."""
        group = self.groups.get(name)
        given = group.given if group else None
        return self.properties_of(Type.AUTO_SCALING_GROUP, name) if given is None else given

    def data_of_group(self, name: str) -> Json | None:
        """The launch template data of a group; None where there is no such group or template."""
        specification = template_specification(self.group_properties(name))
        return self.launch_template_data(specification) if specification else None

    def auto_scaling_groups(self) -> dict[str, Group]:
        """The groups of Auto Scaling by name, without those of other services."""
        return {name: group for name, group in self.groups.items() if group.given is None}

    def pcs_cluster(self, identifier: str) -> Resource | None:
        """The cluster of AWS PCS with that id or name in the Region."""
        for found in self.of_type(Type.PCS_CLUSTER):
            names = (found.attributes["Id"], found.settings["Name"])
            if found.region == self.region and identifier in names:
                return found
        return None

    def pcs_parts(self, type_name: str, cluster: Resource) -> list[Resource]:
        """The compute node groups or the queues of a cluster of AWS PCS."""
        names = (cluster.attributes["Id"], cluster.settings["Name"])
        return [
            one
            for one in self.of_type(type_name)
            if one.region == cluster.region and one.properties["ClusterId"] in names
        ]


def template_specification(properties: Json) -> Json | None:
    """The launch template of an Auto Scaling group's properties, also inside a mixed instances policy."""
    mixed = properties.get("MixedInstancesPolicy", {}).get("LaunchTemplate", {}).get("LaunchTemplateSpecification")
    found: Json | None = properties.get("LaunchTemplate") or mixed
    return found


def reservation_of(resource: Resource) -> Reservation:
    """The reservation that a stack made."""
    given = resource.properties
    return Reservation(
        id=resource.physical_id,
        instance_type=given["InstanceType"],
        availability_zone=zone_name(given.get("AvailabilityZone") or given.get("AvailabilityZoneId") or ""),
        count=int(given["InstanceCount"]),
        ends_at=parse_time(given["EndDate"]) if given.get("EndDate") else None,
        placement_group=str(given.get("PlacementGroupArn", "")).rsplit("/", 1)[-1],
        match_criteria=given.get("InstanceMatchCriteria", "open"),
        platform=given["InstancePlatform"],
    )


# Versions of launch templates. Source: CloudFormation template reference, AWS::EC2::LaunchTemplate (a change makes a
# version and leaves the default).


def first_version(world: World, resource: Resource) -> None:
    """Give a new launch template its name and its version 1."""
    name = resource.properties.get("LaunchTemplateName") or world.new_id(f"{resource.stack_name}-", resource.logical_id)
    resource.attributes |= {
        "LaunchTemplateName": name,
        "DefaultVersionNumber": "1",
        "LatestVersionNumber": "1",
    }
    resource.versions = [_version(world, resource, 1)]


def add_version(world: World, resource: Resource) -> None:
    """Add a version where the data of a launch template changed."""
    if resource.properties["LaunchTemplateData"] == resource.versions[-1]["LaunchTemplateData"]:
        return
    number = len(resource.versions) + 1
    resource.versions.append(_version(world, resource, number))
    resource.attributes["LatestVersionNumber"] = str(number)


def _version(world: World, resource: Resource, number: int) -> Json:
    return {
        "LaunchTemplateId": resource.physical_id,
        "LaunchTemplateName": resource.attributes["LaunchTemplateName"],
        "VersionNumber": number,
        "VersionDescription": resource.properties.get("VersionDescription", ""),
        "DefaultVersion": number == 1,
        "CreateTime": world.clock.now(),
        "LaunchTemplateData": resource.properties["LaunchTemplateData"],
    }
