"""How nodes reach what is outside: routes and endpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cdk_gpu_clusters.errors import define_rule
from cdk_gpu_clusters.rules.endpoints import GATEWAY_ENDPOINTS, check_endpoints, endpoints_for

from ..call import ENDPOINT_SERVICES, ENDPOINTS, ROUTE_TABLES
from ..check import Check, Inquiry, Verdict, cannot_tell, failed, passed, warned
from ..cluster import Cluster, words

_ROUTES = 'Amazon VPC user guide, "Configure route tables"'

WAY_OUT = define_rule(
    "GPU-PRE-081",
    "private subnets have a way to the AWS services that nodes call: a NAT gateway or the like, or endpoints",
    source=f"{_ROUTES}; this library's list of services that nodes call",
)
PUBLIC_AS_SAID = define_rule(
    "GPU-PRE-082",
    "public subnets lead to an internet gateway, and private ones do not",
    source=f"{_ROUTES}: without a public address nothing answers through an internet gateway",
)
S3_GATEWAY = define_rule(
    "GPU-PRE-083",
    "S3 is reached through a gateway endpoint",
    source='Amazon VPC user guide, "Gateway endpoints for Amazon S3": no fee, as a NAT gateway takes for each GB',
)
ENDPOINTS_SOLD = define_rule(
    "GPU-PRE-084",
    "the endpoints of a closed network are available in its zones",
    source="EC2 API reference, DescribeVpcEndpointServices",
)

_ANYWHERE = "0.0.0.0/0"
_EXISTS = "the network is made here"


def _private(cluster: Cluster) -> Mapping[str, str]:
    """Subnets in which nodes without public addresses stand."""
    network = cluster.existing_network
    public = network is not None and network.public
    return {
        where: subnet
        for where, (subnet, _) in cluster.subnets.items()
        if not where.startswith("network.public_subnets")
        and not (public and where.startswith("network.subnet_ids"))
    }


def _table(subnet_id: str, inquiry: Inquiry) -> Mapping[str, Any]:
    """The route table of a subnet: its own, or the VPC's main one."""
    network = inquiry.cluster.existing_network
    wanted = [{"Name": "vpc-id", "Values": [network.vpc_id if network else ""]}]
    main: Mapping[str, Any] = {}
    for table in inquiry.ask(ROUTE_TABLES, Filters=wanted)["RouteTables"]:
        for association in table.get("Associations", ()):
            if association.get("SubnetId") == subnet_id:
                return dict(table)
            if association.get("Main"):
                main = table
    return main


def _default_route(table: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return next(
        (
            route
            for route in table.get("Routes", ())
            if route.get("DestinationCidrBlock") == _ANYWHERE and route.get("State") == "active"
        ),
        None,
    )


def _to_internet(route: Mapping[str, Any] | None) -> bool:
    return route is not None and str(route.get("GatewayId", "")).startswith("igw-")


def _endpoints(inquiry: Inquiry) -> list[Mapping[str, Any]]:
    network = inquiry.cluster.existing_network
    wanted = [{"Name": "vpc-id", "Values": [network.vpc_id if network else ""]}]
    return [
        one
        for one in inquiry.ask(ENDPOINTS, Filters=wanted)["VpcEndpoints"]
        if str(one.get("State", "")).lower() == "available"
    ]


def _service(name: str, region: str) -> str:
    """`ecr.api` of `com.amazonaws.us-east-1.ecr.api`."""
    return name.partition(f".{region}.")[2]


def _present(table: Mapping[str, Any], inquiry: Inquiry) -> set[str]:
    """Services with an endpoint that the subnet of a route table uses."""
    return {
        _service(one["ServiceName"], inquiry.cluster.region)
        for one in _endpoints(inquiry)
        if (one.get("VpcEndpointType") == "Interface" and one.get("PrivateDnsEnabled"))
        or table.get("RouteTableId") in one.get("RouteTableIds", ())
    }


def _way_out(subnet_id: str, inquiry: Inquiry) -> Iterator[Verdict]:
    network = inquiry.cluster.existing_network
    inquiry.start(ENDPOINTS, Filters=[{"Name": "vpc-id", "Values": [network.vpc_id if network else ""]}])
    table = _table(subnet_id, inquiry)
    route = _default_route(table)
    if route is not None and not _to_internet(route):
        through = next((str(route[key]) for key in sorted(route) if key.endswith("Id")), "a route")
        yield passed(f"{subnet_id} through {through}")
        return
    missing = check_endpoints(inquiry.cluster.spec.features, _present(table, inquiry))
    if not missing:
        yield passed(f"{subnet_id} through endpoints")
    else:
        yield failed(
            f"{subnet_id} has no default route to a NAT gateway or the like, and {len(missing)} endpoints are missing",
            fix=f"add the default route, or: {'; '.join(finding.fix for finding in missing)}",
        )


def _judged_public(cluster: Cluster) -> Mapping[str, tuple[str, bool]]:
    private = _private(cluster)
    return {where: (subnet, where not in private) for where, (subnet, _) in cluster.subnets.items()}


def _public(named: tuple[str, bool], inquiry: Inquiry) -> Iterator[Verdict]:
    subnet_id, public = named
    leads_out = _to_internet(_default_route(_table(subnet_id, inquiry)))
    if public and not leads_out:
        yield failed(
            f"{subnet_id} is named as public and has no default route to an internet gateway",
            fix="add the route, or name a public subnet",
        )
    elif leads_out and not public:
        yield failed(
            f"{subnet_id} leads to an internet gateway, and the nodes have no public address",
            fix="name a private subnet; say public: true only for nodes with one interface",
        )
    else:
        yield passed(f"{subnet_id} is {'public' if public else 'private'}")


def _gateway(subnet_id: str, inquiry: Inquiry) -> Iterator[Verdict]:
    network = inquiry.cluster.existing_network
    inquiry.start(ENDPOINTS, Filters=[{"Name": "vpc-id", "Values": [network.vpc_id if network else ""]}])
    table = _table(subnet_id, inquiry)
    if not set(GATEWAY_ENDPOINTS) <= _present(table, inquiry):
        yield warned(
            f"data in S3 goes from {subnet_id} through what its default route leads to, at a price for each GB",
            fix=f"add the gateway endpoint s3 to route table {table.get('RouteTableId', 'of the subnet')}",
        )


def _closed(cluster: Cluster) -> Mapping[str, Cluster]:
    network = cluster.new_network
    return {"network.egress": cluster} if network is not None and network.egress == "closed" else {}


def _sold(cluster: Cluster, inquiry: Inquiry) -> Iterator[Verdict]:
    names = [f"com.amazonaws.{cluster.region}.{service}" for service in endpoints_for(cluster.spec.features)]
    answer = inquiry.ask(ENDPOINT_SERVICES, Filters=[{"Name": "service-name", "Values": names}])
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
            yield failed(
                f"{name} is not in {words(lacking)}", fix=f"choose control zones of {words(sorted(offered))}"
            )


CHECKS = (
    Check(rule=WAY_OUT, calls=(ROUTE_TABLES, ENDPOINTS), subjects=_private, judge=_way_out, unless=_EXISTS),
    Check(rule=PUBLIC_AS_SAID, calls=(ROUTE_TABLES,), subjects=_judged_public, judge=_public, unless=_EXISTS),
    Check(
        rule=S3_GATEWAY, calls=(ROUTE_TABLES, ENDPOINTS), subjects=_private, judge=_gateway, unless=_EXISTS
    ),
    Check(
        rule=ENDPOINTS_SOLD,
        calls=(ENDPOINT_SERVICES,),
        subjects=_closed,
        judge=_sold,
        unless="no closed network is made",
    ),
)
