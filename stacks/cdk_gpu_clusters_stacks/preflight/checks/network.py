"""Existing subnets, routes and security groups that the cluster file names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from cdk_gpu_clusters.catalogue.lustre import lustre_ports
from cdk_gpu_clusters.catalogue.quotas import quota
from cdk_gpu_clusters.rules.eks_cluster import group_exchanges_efa
from cdk_gpu_clusters.rules.endpoints import check_endpoints, endpoints_for, gateways_for
from cdk_gpu_clusters.rules.fabric import EFA_IN, EFA_OUT
from cdk_gpu_clusters_stacks.plan.model import SubnetUse
from cdk_gpu_clusters_stacks.spec import ExistingLustreOptions, ExistingLustreSpec, FleetSpec

from ..call import (
    ENDPOINT_SERVICES,
    ENDPOINTS,
    INTERFACES,
    ROUTE_TABLES,
    SECURITY_GROUP_RULES,
    SECURITY_GROUPS,
    SUBNETS,
    VPC_ATTRIBUTE,
    VPCS,
    NoAnswer,
)
from ..check import Inquiry, Verdict, cannot_tell, define_check, failed, passed, warned
from ..cluster import Cluster, words
from ..quota import QUOTA_CALLS, weigh

_CIDR_BLOCKS = 'Amazon VPC user guide, "Subnet CIDR blocks"'
_NO_VPC = "the network is made here"


def _vpc(cluster: Cluster) -> Mapping[str, str]:
    network = cluster.existing_network
    return {} if network is None else {"network.vpc_id": network.vpc_id}


def _named(key: str, *values: str) -> list[dict[str, Any]]:
    """A filter of EC2."""
    return [{"Name": key, "Values": list(values)}]


@define_check(
    "GPU-PRE-071",
    "the VPC is there and available",
    source="EC2 API reference, DescribeVpcs",
    calls=(VPCS,),
    subjects=_vpc,
    unless=_NO_VPC,
)
def _vpc_there(vpc_id: str, inquiry: Inquiry) -> Verdict:
    found = next((vpc for vpc in inquiry.ask(VPCS)["Vpcs"] if vpc["VpcId"] == vpc_id), None)
    if found is None:
        return failed(f"there is no {vpc_id} in {inquiry.cluster.region}", fix="correct id, Region or profile")
    if found.get("State") != "available":
        return failed(f"{vpc_id} is {found.get('State')}", fix="wait until it is available")
    return passed(f"{vpc_id}: {found.get('CidrBlock')}")


@define_check(
    "GPU-PRE-072",
    "the VPC resolves names and gives host names",
    source='Amazon VPC user guide, "DNS attributes for your VPC"; FSx and interface endpoints are reached by name',
    calls=(VPC_ATTRIBUTE,),
    subjects=_vpc,
    unless=_NO_VPC,
)
def _vpc_names(vpc_id: str, inquiry: Inquiry) -> Iterator[Verdict]:
    attributes = {
        "enableDnsSupport": ("EnableDnsSupport", "--enable-dns-support"),
        "enableDnsHostnames": ("EnableDnsHostnames", "--enable-dns-hostnames"),
    }
    for attribute in attributes:
        inquiry.start(VPC_ATTRIBUTE, VpcId=vpc_id, Attribute=attribute)
    for attribute, (key, option) in attributes.items():
        answer = inquiry.ask(VPC_ATTRIBUTE, VpcId=vpc_id, Attribute=attribute)
        if not answer[key].get("Value"):
            yield failed(
                f"{attribute} of {vpc_id} is off",
                fix=f"aws ec2 modify-vpc-attribute --vpc-id {vpc_id} {option} '{{\"Value\":true}}'",
            )


def found_subnets(inquiry: Inquiry) -> Mapping[str, Mapping[str, Any]]:
    """The subnets of the Region by id; one answer serves all checks."""
    return {subnet["SubnetId"]: subnet for subnet in inquiry.ask(SUBNETS)["Subnets"]}


def _found_subnet(subnet_id: str, inquiry: Inquiry) -> Mapping[str, Any]:
    """One subnet.

    Raises:
        NoAnswer: If it is not there.
    """
    found = found_subnets(inquiry).get(subnet_id)
    if found is None:
        raise NoAnswer(f"{subnet_id} is not there", fix="see GPU-PRE-073")
    return found


@define_check(
    "GPU-PRE-073",
    "the subnets are there, in the VPC of the file",
    source="EC2 API reference, DescribeSubnets",
    calls=(SUBNETS,),
    subjects=lambda cluster: cluster.subnets,
    unless=_NO_VPC,
)
def _subnet_there(named: tuple[str, str], inquiry: Inquiry) -> Verdict | None:
    subnet_id, _ = named
    network, found = inquiry.cluster.existing_network, found_subnets(inquiry).get(subnet_id)
    if found is None:
        return failed(f"there is no {subnet_id} in {inquiry.cluster.region}", fix="correct id, Region or profile")
    if network is not None and found["VpcId"] != network.vpc_id:
        return failed(f"{subnet_id} is in {found['VpcId']}, not in {network.vpc_id}", fix="name subnets of one VPC")
    if found.get("State") != "available":
        return failed(f"{subnet_id} is {found.get('State')}", fix="choose an available subnet")
    return None


@define_check(
    "GPU-PRE-074",
    "the subnets are in the zones that the file gives",
    source="EC2 API reference, DescribeSubnets",
    calls=(SUBNETS,),
    subjects=lambda cluster: cluster.subnets,
    unless=_NO_VPC,
)
def _subnet_zone(named: tuple[str, str], inquiry: Inquiry) -> Verdict:
    subnet_id, zone = named
    found = _found_subnet(subnet_id, inquiry)
    here = f"{found.get('AvailabilityZone')} ({found.get('AvailabilityZoneId')})"
    if inquiry.cluster.is_zone(zone, found):
        return passed(f"{subnet_id} in {here}")
    return failed(f"{subnet_id} lies in {here}, not in {zone}", fix="correct the zone or the subnet")


def _ranged(cluster: Cluster) -> Mapping[str, tuple[str, str]]:
    network = cluster.existing_network
    if network is None or network.cidr is None:
        return {}
    return {"network.cidr": (network.subnet_ids[0], network.cidr)}


@define_check(
    "GPU-PRE-075",
    "the subnet has the range that the file gives",
    source=_CIDR_BLOCKS,
    calls=(SUBNETS,),
    subjects=_ranged,
    unless="the file names no range of an existing subnet",
)
def _subnet_range(named: tuple[str, str], inquiry: Inquiry) -> Verdict | None:
    subnet_id, said = named
    found = _found_subnet(subnet_id, inquiry)["CidrBlock"]
    return None if found == said else failed(f"{subnet_id} has {found}, the file has {said}", fix=f"cidr: {found}")


def _used(cluster: Cluster, role: str, key: str) -> Mapping[str, SubnetUse]:
    """Existing subnets of a role that contain something, by their keys in the file."""
    return {
        f"network.{key}" if role == "fleet" else f"network.{key}.{one.availability_zone}": one
        for one in cluster.plan.network.subnets
        if one.role == role and one.subnet_ids and one.uses
    }


def _service_subnets(cluster: Cluster) -> Mapping[str, SubnetUse]:
    private, public = _used(cluster, "load-balancer", "service_subnets"), _used(cluster, "public", "public_subnets")
    return {**private, **public}


def _addresses(use: SubnetUse, inquiry: Inquiry) -> Verdict:
    most = use.used_addresses
    free = sum(_found_subnet(one, inquiry)["AvailableIpAddressCount"] for one in use.subnet_ids)
    if free < most:
        free += _own_addresses(use.subnet_ids, inquiry)
    said, fix = f"{free} free addresses, {most} needed at most", "free addresses, or choose a larger subnet"
    if free < _least(use, inquiry.cluster):
        return failed(said, fix=fix)
    if free < most:
        return warned(f"{said}: enough for the least number of nodes", fix=fix)
    return passed(said)


def _least(use: SubnetUse, cluster: Cluster) -> float:
    """Addresses with every fleet at its least number of nodes."""
    sizes = {fleet.name: fleet.spec for fleet in cluster.fleets.values()}
    return sum(
        one.addresses * sizes[one.of].minimum_nodes / sizes[one.of].maximum_nodes
        if one.kind == "nodes"
        else one.addresses
        for one in use.uses
    )


def _own_addresses(subnet_ids: Sequence[str], inquiry: Inquiry) -> int:
    """Addresses that nodes of the cluster have already."""
    return sum(
        len(interface.get("PrivateIpAddresses", ()))
        for interface in inquiry.ask(INTERFACES)["NetworkInterfaces"]
        if interface.get("SubnetId") in subnet_ids and inquiry.cluster.owns(interface)
    )


_fleet_addresses = define_check(
    "GPU-PRE-076",
    "the fleets' subnets have a free address for every interface that takes one",
    source=_CIDR_BLOCKS,
    calls=(SUBNETS, INTERFACES),
    subjects=lambda cluster: _used(cluster, "fleet", "subnet_ids"),
    unless=_NO_VPC,
)(_addresses)
_service_addresses = define_check(
    "GPU-PRE-077",
    "the subnets of load balancers have free addresses for them and for the nodes there",
    source='Application Load Balancers user guide, "Subnets for your load balancer": eight free addresses in each',
    calls=(SUBNETS, INTERFACES),
    subjects=_service_subnets,
    unless="nothing uses existing service subnets",
)(_addresses)


# How nodes reach what is outside: routes and endpoints.

_ROUTES = 'Amazon VPC user guide, "Configure route tables"'
_ANYWHERE = "0.0.0.0/0"


def _private(cluster: Cluster) -> Mapping[str, str]:
    """Subnets of nodes without public addresses."""
    network = cluster.existing_network
    public = network is not None and network.public
    return {
        where: subnet
        for where, (subnet, _) in cluster.subnets.items()
        if not where.startswith("network.public_subnets") and not (public and where.startswith("network.subnet_ids"))
    }


def _in_vpc(inquiry: Inquiry) -> list[dict[str, Any]]:
    network = inquiry.cluster.existing_network
    return _named("vpc-id", network.vpc_id if network else "")


def _table(subnet_id: str, inquiry: Inquiry) -> Mapping[str, Any]:
    """The route table of a subnet: its own, or the VPC's main one."""
    main: Mapping[str, Any] = {}
    for table in inquiry.ask(ROUTE_TABLES, Filters=_in_vpc(inquiry))["RouteTables"]:
        for association in table.get("Associations", ()):
            if association.get("SubnetId") == subnet_id:
                return dict(table)
            if association.get("Main"):
                main = table
    return main


def _default_route(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """The active route to everywhere; empty if there is none."""
    routes = (one for one in table.get("Routes", ()) if one.get("State") == "active")
    return next((one for one in routes if one.get("DestinationCidrBlock") == _ANYWHERE), {})


def _to_internet(route: Mapping[str, Any]) -> bool:
    return str(route.get("GatewayId", "")).startswith("igw-")


def _present(table: Mapping[str, Any], inquiry: Inquiry) -> set[str]:
    """Services, such as `ecr.api`, with an endpoint that the subnet of a route table uses."""
    return {
        one["ServiceName"].partition(f".{inquiry.cluster.region}.")[2]
        for one in inquiry.ask(ENDPOINTS, Filters=_in_vpc(inquiry))["VpcEndpoints"]
        if str(one.get("State", "")).lower() == "available"
        and (
            (one.get("VpcEndpointType") == "Interface" and one.get("PrivateDnsEnabled"))
            or table.get("RouteTableId") in one.get("RouteTableIds", ())
        )
    }


@define_check(
    "GPU-PRE-081",
    "private subnets have a way to the AWS services that nodes call: a NAT gateway or the like, or endpoints",
    source=f"{_ROUTES}; this library's list of services that nodes call",
    calls=(ROUTE_TABLES, ENDPOINTS),
    subjects=_private,
    unless=_NO_VPC,
)
def _way_out(subnet_id: str, inquiry: Inquiry) -> Verdict:
    inquiry.start(ENDPOINTS, Filters=_in_vpc(inquiry))
    table = _table(subnet_id, inquiry)
    route = _default_route(table)
    if route and not _to_internet(route):
        through = next((str(route[key]) for key in sorted(route) if key.endswith("Id")), "a route")
        return passed(f"{subnet_id} through {through}")
    missing = check_endpoints(inquiry.cluster.spec.features, _present(table, inquiry))
    if not missing:
        return passed(f"{subnet_id} through endpoints")
    return failed(
        f"{subnet_id} has no default route to a NAT gateway or the like, and {len(missing)} endpoints are missing",
        fix=f"add the default route, or: {'; '.join(finding.fix for finding in missing)}",
    )


def _judged_public(cluster: Cluster) -> Mapping[str, tuple[str, bool]]:
    private = _private(cluster)
    return {where: (subnet, where not in private) for where, (subnet, _) in cluster.subnets.items()}


@define_check(
    "GPU-PRE-082",
    "public subnets lead to an internet gateway, and private ones do not",
    source=f"{_ROUTES}: without a public address nothing answers through an internet gateway",
    calls=(ROUTE_TABLES,),
    subjects=_judged_public,
    unless=_NO_VPC,
)
def _public_as_said(named: tuple[str, bool], inquiry: Inquiry) -> Verdict:
    subnet_id, public = named
    leads_out = _to_internet(_default_route(_table(subnet_id, inquiry)))
    if public and not leads_out:
        return failed(
            f"{subnet_id} is named as public and has no default route to an internet gateway",
            fix="add the route, or name a public subnet",
        )
    if leads_out and not public:
        return failed(
            f"{subnet_id} leads to an internet gateway, and the nodes have no public address",
            fix="name a private subnet; say public: true only for nodes with one interface",
        )
    return passed(f"{subnet_id} is {'public' if public else 'private'}")


@define_check(
    "GPU-PRE-083",
    "S3, and S3 Express if it is used, are reached through gateway endpoints",
    source='Amazon VPC user guide, "Gateway endpoints for Amazon S3": no fee, as a NAT gateway takes for each GB',
    calls=(ROUTE_TABLES, ENDPOINTS),
    subjects=_private,
    unless=_NO_VPC,
)
def _s3_gateway(subnet_id: str, inquiry: Inquiry) -> Verdict | None:
    inquiry.start(ENDPOINTS, Filters=_in_vpc(inquiry))
    table = _table(subnet_id, inquiry)
    present = _present(table, inquiry)
    missing = [service for service in gateways_for(inquiry.cluster.spec.features) if service not in present]
    if not missing:
        return None
    return warned(
        f"data in S3 goes from {subnet_id} through what its default route leads to, at a price for each GB",
        fix=f"add the gateway endpoint {' and '.join(missing)} to route table "
        f"{table.get('RouteTableId', 'of the subnet')}",
    )


def _closed(cluster: Cluster) -> Mapping[str, Cluster]:
    network = cluster.new_network
    return {"network.egress": cluster} if network is not None and network.egress == "closed" else {}


@define_check(
    "GPU-PRE-084",
    "the endpoints of a closed network are available in its zones",
    source="EC2 API reference, DescribeVpcEndpointServices",
    calls=(ENDPOINT_SERVICES,),
    subjects=_closed,
    unless="no closed network is made",
)
def _endpoints_sold(cluster: Cluster, inquiry: Inquiry) -> Iterator[Verdict]:
    names = [f"com.amazonaws.{cluster.region}.{service}" for service in endpoints_for(cluster.spec.features)]
    answer = inquiry.ask(ENDPOINT_SERVICES, Filters=_named("service-name", *names))
    zones = {one["ServiceName"]: set(one.get("AvailabilityZones", ())) for one in answer["ServiceDetails"]}
    missing = [name for name in names if name not in zones]
    if missing and not zones:
        yield cannot_tell("EC2 lists none of the services by its usual name in this partition")
        return
    if missing:
        yield failed(f"there is no endpoint service {words(missing)}", fix="use egress: nat")
    wanted = set((cluster.new_network and cluster.new_network.control_availability_zones) or ())
    for name, offered in zones.items():
        lacking = sorted(zone for zone in wanted - offered if zone.startswith(cluster.region))
        if lacking:
            yield failed(f"{name} is not in {words(lacking)}", fix=f"choose control zones of {words(sorted(offered))}")


# Existing security groups: those that the file names, and the default group of an existing VPC.

_NO_STORE = "the file names no existing file system"
#: Direction of a rule -> whether it is one of egress.
_DIRECTIONS = {"in": False, "out": True}
_Ranges: TypeAlias = Sequence[tuple[int | None, int | None]]


@define_check(
    "GPU-PRE-091",
    "the security groups are there, in the VPC of the file",
    source="EC2 API reference, DescribeSecurityGroups",
    calls=(SECURITY_GROUPS,),
    subjects=lambda cluster: cluster.security_groups,
    unless="the file names no existing security group",
)
def _group_there(group_id: str, inquiry: Inquiry) -> Verdict:
    wanted = _named("group-id", *sorted(set(inquiry.cluster.security_groups.values())))
    groups = inquiry.ask(SECURITY_GROUPS, Filters=wanted)["SecurityGroups"]
    found = next((one for one in groups if one["GroupId"] == group_id), None)
    network = inquiry.cluster.existing_network
    if found is None:
        return failed(f"there is no {group_id} in {inquiry.cluster.region}", fix="correct id, Region or profile")
    if network is not None and found["VpcId"] != network.vpc_id:
        return failed(
            f"{group_id} is in {found['VpcId']}, not in {network.vpc_id}",
            fix="name a group of the VPC; across a peering let address ranges in",
        )
    return passed(f"{group_id} in {found['VpcId']}")


def _rules(group_id: str, inquiry: Inquiry) -> list[Mapping[str, Any]]:
    return list(inquiry.ask(SECURITY_GROUP_RULES, Filters=_named("group-id", group_id))["SecurityGroupRules"])


@define_check(
    "GPU-PRE-092",
    "the group of an existing file system lets its servers talk to each other, all traffic with EFA",
    source='FSx for Lustre user guide, "File system access control with Amazon VPC" and "Working with EFA-enabled '
    'file systems": no CIDR rule covers EFA',
    calls=(SECURITY_GROUP_RULES,),
    subjects=lambda cluster: cluster.existing_lustre,
    unless=_NO_STORE,
)
def _servers_talk(store: ExistingLustreOptions, inquiry: Inquiry) -> Iterator[Verdict]:
    group_id = store.security_group_id
    ranges: _Ranges = [(None, None)] if store.efa else lustre_ports()
    what = "all traffic" if store.efa else "TCP 988 and 1018-1023"
    # An address rule serves TCP, and EFA not.
    yield from _members_talk(group_id, inquiry, ranges, what, by_address=not store.efa)


def _members_talk(
    group_id: str,
    inquiry: Inquiry,
    ranges: _Ranges,
    what: str,
    *,
    by_address: bool,
    directions: Collection[str] = tuple(_DIRECTIONS),
) -> Iterator[Verdict]:
    """Find directions in which a group does not let its members talk; a rule for addresses counts as one for them."""
    rules = _rules(group_id, inquiry)
    for direction in directions:
        egress = _DIRECTIONS[direction]
        given = [
            rule
            for rule in rules
            if rule["IsEgress"] is egress and (_is_own(rule, group_id) or (by_address and "CidrIpv4" in rule))
        ]
        if not all(any(_covers(rule, first, last) for rule in given) for first, last in ranges):
            yield failed(
                f"{group_id} does not let {what} {direction} with itself as peer",
                fix=f"add a rule {direction} with {group_id} as peer",
            )


def _is_own(rule: Mapping[str, Any], group_id: str) -> bool:
    return bool(rule.get("ReferencedGroupInfo", {}).get("GroupId") == group_id)


def _covers(rule: Mapping[str, Any], first: int | None, last: int | None) -> bool:
    if rule["IpProtocol"] == "-1":  # all
        return True
    if first is None or last is None or rule["IpProtocol"] != "tcp":
        return False
    return bool(rule.get("FromPort", -1) <= first and last <= rule.get("ToPort", -1))


@define_check(
    "GPU-PRE-093",
    "the group of an existing file system has room for the rules that let the fleets in",
    source='Amazon VPC user guide, "Amazon VPC quotas": 60 rules in each direction by default',
    calls=(*QUOTA_CALLS, SECURITY_GROUP_RULES),
    subjects=lambda cluster: cluster.existing_lustre,
    unless=_NO_STORE,
)
def _rule_count(store: ExistingLustreOptions, inquiry: Inquiry) -> Verdict:
    """Fleets on one EFA fabric share its rules; each other fleet has rules of its own."""
    cluster = inquiry.cluster
    named = {
        where.rpartition(".")[2]
        for where, one in cluster.stores(ExistingLustreSpec).items()
        if one.existing_lustre == store
    }
    clients = {
        fleet.spec.fabric if fleet.plan.efa and isinstance(fleet.spec, FleetSpec) else where
        for where, fleet in cluster.fleets.items()
        if named & set(fleet.spec.mounts.values())
    }
    needed = len(clients) * (1 if store.efa else len(lustre_ports()))
    rules = _rules(store.security_group_id, inquiry)
    fullest = max(sum(rule["IsEgress"] is egress for rule in rules) for egress in (False, True))
    return weigh(quota("security-group-rules"), inquiry, used=lambda: fullest, least=needed)


def _vpc_of_jobs(cluster: Cluster) -> Mapping[str, str]:
    """The existing VPC in which multi-node jobs of AWS Batch run."""
    plans = [fleet.plan for fleet in cluster.fleets.values()]
    runs_jobs = any(plan.request.profile.joins_batch and plan.maximum > 1 for plan in plans)
    return _vpc(cluster) if runs_jobs else {}


@define_check(
    "GPU-PRE-094",
    "the default group of the VPC lets the containers of multi-node jobs talk to each other",
    source='AWS Batch user guide, "Compute environment considerations for MNP": without groups of the environment, '
    "interfaces of containers have the default group of the VPC",
    calls=(SECURITY_GROUPS, SECURITY_GROUP_RULES),
    subjects=_vpc_of_jobs,
    unless="no multi-node jobs of AWS Batch run in an existing network",
)
def _containers_talk(vpc_id: str, inquiry: Inquiry) -> Iterator[Verdict]:
    named = [*_named("vpc-id", vpc_id), *_named("group-name", "default")]
    found = [one for one in inquiry.ask(SECURITY_GROUPS, Filters=named)["SecurityGroups"] if one["VpcId"] == vpc_id]
    if not found:
        yield cannot_tell(f"the account shows no default group of {vpc_id}, which another account may own")
    for group in found:
        yield from _members_talk(group["GroupId"], inquiry, [(1024, 65535)], "TCP 1024-65535", by_address=True)


class _GroupOfNodes(NamedTuple):
    """A group of HyperPod's nodes, and the directions in which the deployment lets EFA traffic through."""

    group_id: str
    added: tuple[str, ...]


def _groups_of_hyperpod(cluster: Cluster) -> Mapping[str, _GroupOfNodes]:
    existing = cluster.spec.eks.existing
    if existing is None or not any(
        fleet.profile.joins_hyperpod and fleet.plan.efa for fleet in cluster.fleets.values()
    ):
        return {}
    of_nodes = {
        f"eks.existing.node_security_group_ids.{index}": _GroupOfNodes(group_id, tuple(_DIRECTIONS))
        for index, group_id in enumerate(existing.node_security_group_ids)
    }
    added = () if group_exchanges_efa(existing.kubernetes_version) else ("out",)
    return {
        "eks.existing.cluster_security_group_id": _GroupOfNodes(existing.cluster_security_group_id, added),
        **of_nodes,
    }


@define_check(
    "GPU-PRE-095",
    "the security groups of an existing EKS cluster have the rules that nodes of HyperPod need for EFA, once",
    source="awslabs/awsome-distributed-ai pull request 259: HyperPod's EFA test asks every group of a node; "
    "EC2 API reference, AuthorizeSecurityGroupEgress: InvalidPermission.Duplicate",
    calls=(SECURITY_GROUP_RULES,),
    subjects=_groups_of_hyperpod,
    unless="no nodes of HyperPod with EFA join an existing EKS cluster",
)
def _hyperpod_exchanges_efa(group: _GroupOfNodes, inquiry: Inquiry) -> Iterator[Verdict]:
    there = [one for one in _DIRECTIONS if one not in group.added]
    yield from _members_talk(group.group_id, inquiry, [(None, None)], "all traffic", by_address=False, directions=there)
    for rule in _rules(group.group_id, inquiry):
        direction = "out" if rule["IsEgress"] else "in"
        is_ours = rule.get("Description") in (EFA_IN, EFA_OUT)
        if direction in group.added and _is_own(rule, group.group_id) and rule["IpProtocol"] == "-1" and not is_ours:
            yield failed(
                f"{group.group_id} lets all traffic {direction} with itself as peer, and the deployment adds "
                "this rule: EC2 refuses it twice",
                fix="remove the rule just before the first deployment",
            )
