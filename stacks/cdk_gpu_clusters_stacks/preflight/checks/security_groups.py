"""Existing security groups that the file names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cdk_gpu_clusters.catalogue.lustre import lustre_ports
from cdk_gpu_clusters.catalogue.quotas import quota
from cdk_gpu_clusters.errors import define_rule
from cdk_gpu_clusters_stacks.spec import ExistingLustreOptions, ExistingLustreSpec, FleetSpec

from ..call import SECURITY_GROUP_RULES, SECURITY_GROUPS
from ..check import Check, Inquiry, Verdict, failed, passed
from ..cluster import Cluster
from ..quota import QUOTA_CALLS, weigh

GROUP_THERE = define_rule(
    "GPU-PRE-091",
    "the security groups are there, in the VPC of the file",
    source="EC2 API reference, DescribeSecurityGroups",
)
SERVERS_TALK = define_rule(
    "GPU-PRE-092",
    "the group of an existing file system lets its servers talk to each other, all traffic with EFA",
    source='FSx for Lustre user guide, "File system access control with Amazon VPC" and "Working with EFA-enabled '
    'file systems": no CIDR rule covers EFA',
)
RULE_COUNT = define_rule(
    "GPU-PRE-093",
    "the group of an existing file system has room for the rules that let the fleets in",
    source='Amazon VPC user guide, "Amazon VPC quotas": 60 rules in each direction by default',
)

_ALL = "-1"


def _named(cluster: Cluster) -> Mapping[str, str]:
    return cluster.security_groups


def _there(group_id: str, inquiry: Inquiry) -> Iterator[Verdict]:
    wanted = [{"Name": "group-id", "Values": sorted(set(inquiry.cluster.security_groups.values()))}]
    groups = inquiry.ask(SECURITY_GROUPS, Filters=wanted)["SecurityGroups"]
    found = next((one for one in groups if one["GroupId"] == group_id), None)
    network = inquiry.cluster.existing_network
    if found is None:
        yield failed(
            f"there is no {group_id} in {inquiry.cluster.region}", fix="correct id, Region or profile"
        )
    elif network is not None and found["VpcId"] != network.vpc_id:
        yield failed(
            f"{group_id} is in {found['VpcId']}, not in {network.vpc_id}",
            fix="name a group of the VPC; across a peering let address ranges in",
        )
    else:
        yield passed(f"{group_id} in {found['VpcId']}")


def _file_systems(cluster: Cluster) -> Mapping[str, ExistingLustreOptions]:
    return {
        f"{where}.existing_lustre": store.existing_lustre
        for where, store in cluster.stores(ExistingLustreSpec).items()
    }


def _rules(group_id: str, inquiry: Inquiry) -> list[Mapping[str, Any]]:
    wanted = [{"Name": "group-id", "Values": [group_id]}]
    return list(inquiry.ask(SECURITY_GROUP_RULES, Filters=wanted)["SecurityGroupRules"])


def _servers_talk(store: ExistingLustreOptions, inquiry: Inquiry) -> Iterator[Verdict]:
    group_id = store.security_group_id
    rules = _rules(group_id, inquiry)
    for egress, direction in ((False, "in"), (True, "out")):
        given = [rule for rule in rules if rule["IsEgress"] is egress and _is_own(rule, group_id)]
        if not store.efa:  # an address rule serves TCP, and EFA not
            given += [rule for rule in rules if rule["IsEgress"] is egress and "CidrIpv4" in rule]
        ranges = [(None, None)] if store.efa else lustre_ports()
        if not all(any(_covers(rule, first, last) for rule in given) for first, last in ranges):
            what = "all traffic" if store.efa else "TCP 988 and 1018-1023"
            yield failed(
                f"{group_id} does not let {what} {direction} with itself as peer",
                fix=f"add a rule {direction} with {group_id} as peer",
            )


def _is_own(rule: Mapping[str, Any], group_id: str) -> bool:
    return bool(rule.get("ReferencedGroupInfo", {}).get("GroupId") == group_id)


def _covers(rule: Mapping[str, Any], first: int | None, last: int | None) -> bool:
    if rule["IpProtocol"] == _ALL:
        return True
    if first is None or last is None or rule["IpProtocol"] != "tcp":
        return False
    return bool(rule.get("FromPort", -1) <= first and last <= rule.get("ToPort", -1))


def _rule_count(store: ExistingLustreOptions, inquiry: Inquiry) -> Iterator[Verdict]:
    """Fleets on one EFA fabric share its rules; each other fleet has rules of its own."""
    cluster = inquiry.cluster
    named = {
        where.rpartition(".")[2]
        for where, one in cluster.stores(ExistingLustreSpec).items()
        if one.existing_lustre == store
    }
    clients = {
        fleet.spec.fabric if fleet.uses_efa and isinstance(fleet.spec, FleetSpec) else where
        for where, fleet in cluster.fleets.items()
        if named & set(fleet.spec.mounts.values())
    }
    needed = len(clients) * (1 if store.efa else len(lustre_ports()))
    rules = _rules(store.security_group_id, inquiry)
    fullest = max(sum(rule["IsEgress"] is egress for rule in rules) for egress in (False, True))
    yield from weigh(quota("security-group-rules"), inquiry, used=lambda: fullest, least=needed)


_NO_GROUP = "the file names no existing security group"
_NO_STORE = "the file names no existing file system"

CHECKS = (
    Check(rule=GROUP_THERE, calls=(SECURITY_GROUPS,), subjects=_named, judge=_there, unless=_NO_GROUP),
    Check(
        rule=SERVERS_TALK,
        calls=(SECURITY_GROUP_RULES,),
        subjects=_file_systems,
        judge=_servers_talk,
        unless=_NO_STORE,
    ),
    Check(
        rule=RULE_COUNT,
        calls=(*QUOTA_CALLS, SECURITY_GROUP_RULES),
        subjects=_file_systems,
        judge=_rule_count,
        unless=_NO_STORE,
    ),
)
