"""EFA: network interfaces, network cards, security groups, subnets and zones."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator

from cdk_gpu_clusters.errors import Finding, Severity
from cdk_gpu_clusters.rules import interfaces
from cdk_gpu_clusters.rules.fabric import ISOLATED_TYPE, ONE_SUBNET, ONE_TYPE, ONE_ZONE, check_fabric
from cdk_gpu_clusters.rules.fleet import EFA_PUBLIC_SUBNET, NO_SECURITY_GROUP, check_public_subnet
from cdk_gpu_clusters.rules.ip_budget import ENOUGH_ADDRESSES, IpDemand, check_ip_budget
from cdk_gpu_clusters.rules.placement import PlacementStrategy
from cdk_gpu_clusters.template_rules.case import Resource, Value, known_target_of, target_of
from cdk_gpu_clusters.template_rules.choices import any_surely
from cdk_gpu_clusters.template_rules.lookups.capacity import strategies_of
from cdk_gpu_clusters.template_rules.lookups.groups import most_nodes_of, users_of
from cdk_gpu_clusters.template_rules.lookups.launches import (
    LAUNCHES,
    Launch,
    accelerated_launch,
    efa_launch,
    launch_of,
    launches,
    layout_of,
)
from cdk_gpu_clusters.template_rules.lookups.network import (
    SECURITY_GROUP,
    SUBNET,
    GroupRule,
    allows_itself,
    egress_rules,
    ingress_rules,
    leave_the_subnet,
    subnets_by_user,
    subnets_of,
    subnets_outside_zone,
)
from cdk_gpu_clusters.template_rules.rule import (
    Fault,
    NotApplicable,
    SharedCheck,
    TemplateRule,
    applicable,
    define_template_rule,
    faults_of,
    template_rule,
)

_GROUPS = ("LaunchTemplateData/NetworkInterfaces/*/Groups",)
_GROUPS_URL = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html"


def _group_faults(resource: Resource, rules_of: Callable[[Resource], list[GroupRule]], got: str) -> Iterator[Fault]:
    """A fault for each EFA interface without a group that allows all traffic with itself, in one direction."""
    checked: set[tuple[Hashable, ...]] = set()
    for interface in efa_launch(resource).interfaces():
        groups = tuple(value.identity() for value in interface.groups) if interface.is_efa else ()
        if groups and groups not in checked:
            checked.add(groups)  # every interface of a node has the same groups: once is enough
            # of a group of another template it is not known
            if not any_surely(interface.groups, lambda value: allows_itself(value, rules_of)):
                at = interface.value.get("Groups")
                yield Fault(at=at, got=got, allowed="IpProtocol -1, with the group itself")


_LAYOUT = (
    "LaunchTemplateData/NetworkInterfaces/*/NetworkCardIndex",
    "LaunchTemplateData/NetworkInterfaces/*/DeviceIndex",
    "LaunchTemplateData/NetworkInterfaces/*/InterfaceType",
    "LaunchTemplateData/InstanceType",
    "instance types of the resources that use the launch template",
)
_LAYOUT_URL = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html"


def _layout_findings(resource: Resource) -> list[tuple[Value, list[Finding]]]:
    launch = launch_of(resource)
    layout = layout_of(launch)
    if len(layout) < 2 and not launch.has_efa():
        raise NotApplicable
    at = launch.data.get("NetworkInterfaces")
    return [(at, interfaces.check_interfaces(record, layout)) for _, record in launch.records()]


_layout = SharedCheck(find=_layout_findings, url=_LAYOUT_URL, on=LAUNCHES, looks_at=_LAYOUT)

one_primary: TemplateRule = _layout.rule(
    interfaces.ONE_PRIMARY,
    cause="EC2 refuses a launch without a primary interface, or with two",
    fix="put one interface at network card 0, device 0",
)
primary_has_ip: TemplateRule = _layout.rule(
    interfaces.PRIMARY_HAS_IP,
    cause="EC2 refuses a launch whose primary interface takes no IP address",
    fix="make it interface, and put efa-only at device 1 where card 0 supports EFA",
)
one_efa_per_card: TemplateRule = _layout.rule(
    interfaces.ONE_EFA_PER_CARD,
    cause="EC2 refuses a launch with two EFA interfaces on one network card",
    fix="keep one; a plain interface may share the card",
)
efa_total: TemplateRule = _layout.rule(
    interfaces.EFA_TOTAL,
    cause="EC2 refuses a launch with more EFA interfaces than the type has",
    fix="remove EFA interfaces, or use a type with more",
)
type_on_card: TemplateRule = _layout.rule(
    interfaces.TYPE_ON_CARD,
    cause="EC2 refuses a launch with an EFA interface on a card that takes none, such as card 0 of p6-b300",
    fix="set InterfaceType to interface, or move the EFA to a card that takes one",
)
card_exists: TemplateRule = _layout.rule(
    interfaces.CARD_EXISTS,
    cause="EC2 refuses a launch with an interface on a network card that the type does not have",
    fix="move the interface to a card that exists, or remove it",
)
unique_device: TemplateRule = _layout.rule(
    interfaces.UNIQUE_DEVICE,
    cause="EC2 refuses a launch with two interfaces at one place",
    fix="give each interface on the card its own device index",
)
device_in_range: TemplateRule = _layout.rule(
    interfaces.DEVICE_IN_RANGE,
    cause="EC2 refuses a device index that the network card does not have",
    fix="use a lower device index",
)


@template_rule(
    interfaces.ONE_INTERFACE_FOR_PUBLIC_IP,
    cause="EC2 refuses to assign a public address to a launch with several interfaces",
    fix="use a private subnet with NAT or endpoints, or attach an Elastic IP address after launch",
    url=_LAYOUT_URL,
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/NetworkInterfaces/*/AssociatePublicIpAddress",),
)
def public_ip(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    if len(launch.interfaces()) < 2:
        raise NotApplicable
    for interface in launch.interfaces():
        asked = interface.value.get("AssociatePublicIpAddress")
        findings = interfaces.check_public_ip(layout_of(launch), public_ip=bool(asked.flag()))
        yield from faults_of(interfaces.ONE_INTERFACE_FOR_PUBLIC_IP, findings, asked)


_ADDRESSES = (
    "Ipv4PrefixCount",
    "Ipv4Prefixes",
    "Ipv6AddressCount",
    "Ipv6Addresses",
    "Ipv6PrefixCount",
    "Ipv6Prefixes",
    "PrivateIpAddress",
    "PrivateIpAddresses",
    "SecondaryPrivateIpAddressCount",
)


@template_rule(
    interfaces.NO_ADDRESS_ON_EFA_ONLY,
    cause="an efa-only interface has no IP device: a launch that gives it an address, or tracks its connections, fails",
    fix="remove the settings of addresses and of connection tracking from this interface",
    url=_LAYOUT_URL,
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/NetworkInterfaces/*/InterfaceType",
        "LaunchTemplateData/NetworkInterfaces/*/PrivateIpAddress, and the other settings of addresses and prefixes",
        "LaunchTemplateData/NetworkInterfaces/*/ConnectionTrackingSpecification",
    ),
)
def no_address_on_efa_only(resource: Resource) -> Iterator[Fault]:
    launch = efa_launch(resource)
    for interface, planned in zip(launch.interfaces(), layout_of(launch), strict=True):
        for name in _ADDRESSES:
            asked = interface.value.get(name)
            if asked.exists:
                yield from faults_of(interfaces.NO_ADDRESS_ON_EFA_ONLY, interfaces.check_addresses([planned]), asked)
        tracking = interface.value.get("ConnectionTrackingSpecification")
        if tracking.exists and planned.interface_type == "efa-only":
            yield Fault(at=tracking, got="ConnectionTrackingSpecification on an efa-only interface", allowed="nothing")


@define_template_rule(
    "GPU-EFA-030",
    "EFA interfaces have a security group that allows all traffic from itself",
    source='AWS EC2 user guide, "Get started with EFA and MPI", step 1; gardener/gardener-extension-provider-aws 1832',
    cause="the nodes drop the EFA packets of each other, and every collective operation hangs",
    fix="add a SecurityGroupIngress resource: IpProtocol -1, SourceSecurityGroupId the same group",
    url=_GROUPS_URL,
    on=LAUNCHES,
    looks_at=(*_GROUPS, "AWS::EC2::SecurityGroup/SecurityGroupIngress", "AWS::EC2::SecurityGroupIngress"),
)
def self_ingress(resource: Resource) -> Iterator[Fault]:
    return _group_faults(resource, ingress_rules, "no rule that allows all traffic from the same group")


@define_template_rule(
    "GPU-EFA-031",
    "EFA interfaces have a security group that allows all traffic to itself",
    source='AWS EC2 user guide, "Get started with EFA and MPI", step 1; gardener/gardener-extension-provider-aws 1832',
    cause="a rule for 0.0.0.0/0 does not cover EFA traffic, which is not IP traffic: every collective operation hangs",
    fix="add a SecurityGroupEgress resource: IpProtocol -1, DestinationSecurityGroupId the same group",
    url=_GROUPS_URL,
    on=LAUNCHES,
    looks_at=(*_GROUPS, "AWS::EC2::SecurityGroup/SecurityGroupEgress", "AWS::EC2::SecurityGroupEgress"),
)
def self_egress(resource: Resource) -> Iterator[Fault]:
    return _group_faults(resource, egress_rules, "no rule that allows all traffic to the same group")


@define_template_rule(
    "GPU-EFA-032",
    "a launch with EFA has an EFA interface for every network card that gives bandwidth",
    source="EC2 DescribeInstanceTypes, EfaInfo.MaximumEfaInterfaces; skypilot-org/skypilot 8391 (1 of 4 was used)",
    severity=Severity.WARNING,
    cause="the nodes use only some of the network cards that you pay for",
    fix="add an efa-only interface for each network card that supports EFA",
    url=_LAYOUT_URL,
    on=LAUNCHES,
    looks_at=_LAYOUT,
)
def every_efa(resource: Resource) -> Iterator[Fault]:
    launch = efa_launch(resource)
    count = sum(interface.is_efa for interface in launch.interfaces())
    for value, record in launch.records():
        planned = interfaces.plan_interfaces(record).efa_count
        if count < planned:
            at = launch.data.get("NetworkInterfaces")
            yield Fault(at=at, got=f"{count} on {value.text()}", allowed=str(planned))


@define_template_rule(
    "GPU-EFA-033",
    "a launch with network interfaces names its security groups in them, and nowhere else",
    source='EC2 API, RunInstances, "SecurityGroupIds"; AWS PCS user guide, "Create or update an EC2 launch template"',
    cause="EC2 refuses a launch with security groups beside network interfaces",
    fix="move the groups into each interface",
    url="https://docs.aws.amazon.com/pcs/latest/userguide/working-with_networking_efa_create-lt.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/SecurityGroupIds",
        "LaunchTemplateData/SecurityGroups",
        "LaunchTemplateData/NetworkInterfaces",
    ),
)
def groups_of_interfaces(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    if not launch.interfaces():
        raise NotApplicable
    for name in ("SecurityGroupIds", "SecurityGroups"):
        if (groups := launch.data.get(name)).exists:
            yield Fault(at=groups, got=f"{name} beside NetworkInterfaces", allowed="NetworkInterfaces/*/Groups")


@template_rule(
    interfaces.EFA_USED,
    severity=Severity.WARNING,
    cause="nodes that are placed close together to exchange data fast exchange it over TCP, without a message",
    fix="add efa-only interfaces, with a security group that allows all traffic with itself",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/NetworkInterfaces/*/InterfaceType",
        "LaunchTemplateData/Placement/GroupName",
        "AWS::EC2::PlacementGroup/Strategy",
    ),
)
def used_in_cluster(resource: Resource) -> Iterator[Fault]:
    launch = accelerated_launch(resource)
    if all(strategy is not PlacementStrategy.CLUSTER for _, strategy in strategies_of(launch)):
        raise NotApplicable
    if launch.has_efa():
        return
    for value, record in launch.records():
        if record.network.efa and record.accelerator:
            at = launch.data.get("NetworkInterfaces")
            yield Fault(at=at, got=f"no EFA on {value.text()}", allowed=f"{record.network.efa.max_interfaces}")


_RULES = (("SecurityGroupIngress", "Source"), ("SecurityGroupEgress", "Destination"))


@define_template_rule(
    "GPU-EFA-035",
    "a security group names itself in resources beside it, not in its own properties",
    source="AWS::EC2::SecurityGroup reference: embedded rules between groups make a circular dependency",
    cause="CloudFormation refuses the template: a security group that refers to itself is a circular dependency",
    fix="move the rule into a resource of type AWS::EC2::SecurityGroupIngress or AWS::EC2::SecurityGroupEgress",
    url="https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-securitygroup.html",
    on=(SECURITY_GROUP,),
    looks_at=("SecurityGroupIngress/*/SourceSecurityGroupId", "SecurityGroupEgress/*/DestinationSecurityGroupId"),
)
def own_group_beside(resource: Resource) -> Iterator[Fault]:
    rules = [(kind, end, rule) for kind, end in _RULES for rule in resource.get(kind).items()]
    for kind, end, rule in applicable(rules):
        peer = rule.get(f"{end}SecurityGroupId")
        if peer.exists and resource.is_target_of(peer):
            yield Fault(at=peer, got=f"{resource.logical_id} in its own {kind}", allowed=f"AWS::EC2::{kind}")


@template_rule(
    ISOLATED_TYPE,
    cause="P4d, P4de and DL1 cannot exchange EFA traffic with other instance types",
    fix="give them an EFA security group of their own, and run no job across both",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html",
    on=(SECURITY_GROUP,),
    looks_at=("LaunchTemplateData/NetworkInterfaces/*/Groups", "LaunchTemplateData/InstanceType"),
)
def isolated_types(resource: Resource) -> Iterator[Fault]:
    launches = map(launch_of, resource.case.resources_naming(resource, *LAUNCHES))
    types = [record for launch in launches if _carries(launch, resource) for _, record in launch.records()]
    yield from faults_of(ISOLATED_TYPE, check_fabric(applicable(types)), resource)


def _carries(launch: Launch, group: Resource) -> bool:
    return any(
        interface.is_efa and any(group.is_target_of(value) for value in interface.groups)
        for interface in launch.interfaces()
    )


@template_rule(
    ONE_ZONE,
    cause="EFA traffic cannot cross zones: nodes of one job that land in two of them cannot work together",
    fix="name subnets of one zone",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/NetworkInterfaces/*/InterfaceType",
        "subnets of the resources that use the launch template",
        "AWS::EC2::Subnet/AvailabilityZone",
    ),
)
def one_zone(resource: Resource) -> Iterator[Fault]:
    for subnet, zones in subnets_outside_zone(efa_launch(resource)):
        yield Fault(at=subnet, got=zones, allowed="one zone")


@template_rule(
    ONE_SUBNET,
    severity=Severity.INFO,
    cause="nodes of one job may land in different subnets: EC2 allows it in one zone, older guides and eksctl do not",
    fix="name one subnet, large enough for every node",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/NetworkInterfaces/*/InterfaceType",
        "subnets of the resources that use the launch template",
    ),
)
def one_subnet(resource: Resource) -> Iterator[Fault]:
    for subnet in leave_the_subnet(efa_launch(resource)):
        yield Fault(at=subnet, got="a second subnet", allowed="one subnet")


@template_rule(
    ONE_TYPE,
    cause="one list of interfaces has to fit every type, and a job runs at the pace of the slowest",
    fix="make one launch template and one group for each instance type",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/NetworkInterfaces/*/InterfaceType",
        "instance types of the resources that use the launch template",
    ),
)
def one_type(resource: Resource) -> Iterator[Fault]:
    types = efa_launch(resource).instance_types()
    for value in types[1:]:
        if not value.is_same_as(types[0]):
            yield Fault(at=value, got=f"{types[0].text()} and {value.text()}", allowed="one type")


@template_rule(
    EFA_PUBLIC_SUBNET,
    cause="EC2 gives a node with several interfaces no public address: in a public subnet it cannot reach the internet",
    fix="choose a private subnet with a NAT gateway or endpoints",
    url=_LAYOUT_URL,
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/NetworkInterfaces",
        "subnets of the resources that use the launch template",
        "AWS::EC2::Subnet/MapPublicIpOnLaunch",
    ),
)
def private_subnet(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    count = len(launch.interfaces())
    if count < 2:
        raise NotApplicable
    for value in (value for values in subnets_by_user(launch) for value in values):
        public = bool(known_target_of(value, SUBNET, "subnet").get("MapPublicIpOnLaunch").flag())
        yield from faults_of(EFA_PUBLIC_SUBNET, check_public_subnet(interface_count=count, public=public), value)


@template_rule(
    ENOUGH_ADDRESSES,
    cause="launches fail when the subnet is used up; an interface of type efa takes an address, efa-only takes none",
    fix="enlarge the subnet, or make all but the primary interface efa-only",
    url="https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html",
    on=(SUBNET,),
    looks_at=(
        "CidrBlock",
        "LaunchTemplateData/NetworkInterfaces/*/InterfaceType",
        "greatest size of the resources that use the launch template",
    ),
)
def enough_addresses(resource: Resource) -> Iterator[Fault]:
    demands = [
        IpDemand(
            nodes=most_nodes_of(user),
            addresses_per_node=sum(interface.has_ip for interface in layout_of(launch)),
            name=user.logical_id,
        )
        for launch in launches(resource.case)
        if launch.has_efa()
        for user in users_of(launch)
        if _stands_in(user, resource)
    ]
    cidr = resource.get("CidrBlock")
    yield from faults_of(ENOUGH_ADDRESSES, check_ip_budget(cidr.text() or "", applicable(demands)), cidr)


def _stands_in(user: Resource, subnet: Resource) -> bool:
    """Whether a subnet is the only one of a group."""
    subnets = subnets_of(user)
    return bool(subnets) and all(target_of(value) == subnet for value in subnets)


@template_rule(
    NO_SECURITY_GROUP,
    cause="the default group of the VPC sends no EFA traffic to itself, so that collective operations hang",
    fix="name a group in Groups of each interface, with rules for all traffic from itself and to itself",
    url=_GROUPS_URL,
    on=LAUNCHES,
    looks_at=_GROUPS,
)
def named_groups(resource: Resource) -> Iterator[Fault]:
    launch = efa_launch(resource)
    if launch.data.get("SecurityGroupIds").exists or launch.data.get("SecurityGroups").exists:
        return  # they are not missing, but in the wrong place: another rule's
    for interface in launch.interfaces():
        made_before = interface.value.get("NetworkInterfaceId").exists
        if interface.is_efa and not made_before and not interface.groups:
            yield Fault(at=interface.value, got="no Groups", allowed="a group that allows all traffic with itself")
