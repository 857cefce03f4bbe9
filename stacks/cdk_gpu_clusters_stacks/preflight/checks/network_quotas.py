"""Quotas that a network made here, and load balancers, count against."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from cdk_gpu_clusters.catalogue.quotas import quota
from cdk_gpu_clusters.errors import Rule, define_rule

from ..call import ADDRESSES, INTERNET_GATEWAYS, LOAD_BALANCERS, NAT_GATEWAYS, SUBNETS, VPCS, Call
from ..check import Check, Inquiry, Verdict, passed
from ..cluster import Cluster
from ..quota import QUOTA_CALLS, weigh

_VPC_QUOTAS = 'Amazon VPC user guide, "Amazon VPC quotas"'

VPC_COUNT = define_rule("GPU-PRE-041", "the VPC quota has room for the cluster's", source=_VPC_QUOTAS)
ELASTIC_IPS = define_rule(
    "GPU-PRE-042",
    "the Elastic IP quota has room for that of the NAT gateway",
    source='AWS EC2 user guide, "Elastic IP addresses": 5 in a Region by default',
)
INTERNET_GATEWAY_COUNT = define_rule(
    "GPU-PRE-043", "the quota of internet gateways has room for the network's", source=_VPC_QUOTAS
)
NAT_GATEWAY_COUNT = define_rule(
    "GPU-PRE-044", "the quota of NAT gateways in the zone has room for the network's", source=_VPC_QUOTAS
)
BALANCER_COUNT = define_rule(
    "GPU-PRE-045",
    "the quota of Application Load Balancers has room for those of the inference fleets",
    source='Elastic Load Balancing user guide, "Quotas for your Application Load Balancers"',
)

# What a NAT gateway is until it is gone: those count.
_LIVE = [{"Name": "state", "Values": ["pending", "available", "deleting"]}]


def _new(cluster: Cluster) -> Mapping[str, Cluster]:
    return {} if cluster.new_network is None else {"network": cluster}


def _with_nat(cluster: Cluster) -> Mapping[str, Cluster]:
    network = cluster.new_network
    return {"network": cluster} if network is not None and network.egress == "nat" else {}


def _counted(
    rule: Rule,
    key: str,
    call: Call,
    items: str,
    *,
    subjects: Callable[[Cluster], Mapping[str, Cluster]] = _with_nat,
    unless: str = "no NAT gateway is made",
) -> Check[Cluster]:
    """A check that one more of something fits the quota of the Region, unless the cluster has it already."""

    def judge(cluster: Cluster, inquiry: Inquiry) -> Iterator[Verdict]:
        found = inquiry.ask(call)[items]
        if any(cluster.owns(one) for one in found):
            yield passed("the cluster has it already")
        else:
            yield from weigh(quota(key), inquiry, used=lambda: len(found), least=1)

    return Check(rule=rule, calls=(*QUOTA_CALLS, call), subjects=subjects, judge=judge, unless=unless)


def _nat_gateways(cluster: Cluster, inquiry: Inquiry) -> Iterator[Verdict]:
    """Those of the fleets' zone: a gateway is in the zone of its subnet."""
    inquiry.start(SUBNETS)
    found = inquiry.ask(NAT_GATEWAYS, Filter=_LIVE)["NatGateways"]
    if any(cluster.owns(one) for one in found):
        yield passed("the cluster has it already")
        return
    zone = cluster.spec.network.availability_zone
    here = {subnet["SubnetId"] for subnet in inquiry.ask(SUBNETS)["Subnets"] if cluster.is_zone(zone, subnet)}
    yield from weigh(
        quota("nat-gateways"),
        inquiry,
        used=lambda: sum(one.get("SubnetId") in here for one in found),
        least=1,
    )


def _serving(cluster: Cluster) -> Mapping[str, Cluster]:
    return {"inference": cluster} if cluster.balanced else {}


def _balancers(cluster: Cluster, inquiry: Inquiry) -> Iterator[Verdict]:
    def used() -> float:
        found = inquiry.ask(LOAD_BALANCERS)["LoadBalancers"]
        return float(sum(one.get("Type") == "application" for one in found))

    yield from weigh(quota("load-balancers"), inquiry, used=used, least=len(cluster.balanced))


CHECKS = (
    _counted(VPC_COUNT, "vpcs", VPCS, "Vpcs", subjects=_new, unless="the network exists"),
    _counted(ELASTIC_IPS, "elastic-ips", ADDRESSES, "Addresses"),
    _counted(INTERNET_GATEWAY_COUNT, "internet-gateways", INTERNET_GATEWAYS, "InternetGateways"),
    Check(
        rule=NAT_GATEWAY_COUNT,
        calls=(*QUOTA_CALLS, NAT_GATEWAYS, SUBNETS),
        subjects=_with_nat,
        judge=_nat_gateways,
        unless="no NAT gateway is made",
    ),
    Check(
        rule=BALANCER_COUNT,
        calls=(*QUOTA_CALLS, LOAD_BALANCERS),
        subjects=_serving,
        judge=_balancers,
        unless="no load balancer is made",
    ),
)
