"""Whether Amazon EKS takes the cluster, or an existing one matches the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cdk_gpu_clusters.catalogue.quotas import quota
from cdk_gpu_clusters.errors import define_rule
from cdk_gpu_clusters_stacks.plan import KubernetesPlan
from cdk_gpu_clusters_stacks.spec.eks import ExistingEksSpec
from cdk_gpu_clusters_stacks.spec.views import PlannedFleet

from ..call import (
    ADD_ON_VERSIONS,
    CALLER,
    EKS_CLUSTER,
    EKS_CLUSTERS,
    EKS_VERSIONS,
    ROLE,
    USER,
    ZONES,
    Absent,
    NoAnswer,
)
from ..check import Check, Inquiry, Verdict, cannot_tell, failed, passed, warned
from ..cluster import Cluster, fleets_where, words
from ..quota import QUOTA_CALLS, weigh

_API = "Amazon EKS API reference"
_QUOTAS = 'Amazon EKS user guide, "View and manage Amazon EKS and Fargate service quotas"'

VERSION_OFFERED = define_rule(
    "GPU-PRE-161",
    "EKS offers the version of Kubernetes, in standard support",
    source=f"{_API}, DescribeClusterVersions",
)
ADD_ONS_OFFERED = define_rule(
    "GPU-PRE-162",
    "EKS offers every add-on for the version of Kubernetes",
    source=f"{_API}, DescribeAddonVersions",
)
ZONES_TAKE_CLUSTERS = define_rule(
    "GPU-PRE-163",
    "the zones of the control plane take one",
    source='Amazon EKS user guide, "View Amazon EKS networking requirements for VPC and subnets": not use1-az3, '
    "usw1-az2 and cac1-az3",
)
CLUSTER_COUNT = define_rule("GPU-PRE-164", "the quota of EKS clusters has room for one more", source=_QUOTAS)
NODE_COUNT = define_rule(
    "GPU-PRE-165", "the quota of nodes in a managed node group has room for each fleet", source=_QUOTAS
)
CLUSTER_THERE = define_rule(
    "GPU-PRE-166", "an existing EKS cluster is there, and active", source=f"{_API}, DescribeCluster"
)
CLUSTER_AS_SAID = define_rule(
    "GPU-PRE-167",
    "an existing EKS cluster matches the file: version, security group, services, VPC, access entries",
    source=f"{_API}, DescribeCluster",
)
ADMINS_THERE = define_rule(
    "GPU-PRE-168",
    "the principals that administer the EKS cluster are there",
    source=f"{_API}, CreateAccessEntry; IAM API reference, GetRole and GetUser",
)

_NO_EKS = "no fleet is on EKS"
_NONE_MADE = "no EKS cluster is made"
_NONE_EXISTS = "the file names no existing EKS cluster"
#: By id, since names differ from account to account.
_WITHOUT_CONTROL_PLANES = frozenset({"use1-az3", "usw1-az2", "cac1-az3"})


def _made(cluster: Cluster) -> Mapping[str, KubernetesPlan]:
    plan = cluster.plan.kubernetes
    return {} if plan is None or plan.stack_name is None else {"eks": plan}


def _existing(cluster: Cluster) -> Mapping[str, ExistingEksSpec]:
    found = cluster.spec.eks.existing
    return {} if found is None or cluster.plan.kubernetes is None else {"eks.existing": found}


def _version(plan: KubernetesPlan, inquiry: Inquiry) -> Iterator[Verdict]:
    found = inquiry.ask(EKS_VERSIONS, includeAll=True)["clusterVersions"]
    status = {one["clusterVersion"]: one.get("versionStatus") for one in found}
    standard = words(name for name, one in status.items() if one == "STANDARD_SUPPORT")
    fix = f"eks.kubernetes_version: one of {standard}"
    if status.get(plan.version) in (None, "UNSUPPORTED"):
        yield failed(f"EKS offers no Kubernetes {plan.version} in {inquiry.cluster.region}", fix=fix)
    elif status[plan.version] == "EXTENDED_SUPPORT":
        yield warned(f"Kubernetes {plan.version} is in extended support, which costs more", fix=fix)
    else:
        yield passed(f"Kubernetes {plan.version} is in standard support")


def _add_ons(plan: KubernetesPlan, inquiry: Inquiry) -> Iterator[Verdict]:
    found = inquiry.ask(ADD_ON_VERSIONS, kubernetesVersion=plan.version)["addons"]
    missing = sorted(set(plan.add_ons) - {one["addonName"] for one in found})
    if missing:
        yield failed(
            f"EKS has no {words(missing)} for Kubernetes {plan.version} in {inquiry.cluster.region}",
            fix="choose another eks.kubernetes_version, or another Region",
        )
    else:
        yield passed(f"{words(plan.add_ons)} for Kubernetes {plan.version}")


def _named_zones(cluster: Cluster) -> Mapping[str, tuple[str, ...]]:
    zones = cluster.plan.network.control_availability_zones
    where = "network.service_subnets" if cluster.existing_network else "network.control_availability_zones"
    return {where: zones} if zones and _made(cluster) else {}


def _zones(zones: tuple[str, ...], inquiry: Inquiry) -> Iterator[Verdict]:
    found = inquiry.ask(ZONES, AllAvailabilityZones=True)["AvailabilityZones"]
    ids = {one[key]: one["ZoneId"] for one in found for key in ("ZoneName", "ZoneId")}
    wrong = [zone for zone in zones if ids.get(zone) in _WITHOUT_CONTROL_PLANES]
    if wrong:
        yield failed(
            f"EKS places no control plane in {words(f'{one} ({ids[one]})' for one in wrong)}",
            fix="name other zones; fleets may stand there all the same",
        )
    else:
        yield passed(words(zones))


def _cluster_count(plan: KubernetesPlan, inquiry: Inquiry) -> Iterator[Verdict]:
    found = inquiry.ask(EKS_CLUSTERS)["clusters"]
    # As CDK names it after the path of its construct.
    own = f"{str(plan.stack_name).replace('-', '')}-Cluster-"
    if any(str(one).startswith(own) for one in found):
        yield passed("the cluster has one already")
    else:
        yield from weigh(quota("eks-clusters"), inquiry, used=lambda: len(found), least=1)


def _node_count(fleet: PlannedFleet, inquiry: Inquiry) -> Iterator[Verdict]:
    spec = fleet.spec
    limit = quota("eks-nodes-per-group")
    yield from weigh(limit, inquiry, used=lambda: 0, least=spec.minimum_nodes, most=spec.maximum_nodes)


def _described(existing: ExistingEksSpec, inquiry: Inquiry) -> Mapping[str, Any]:
    found: Mapping[str, Any] = inquiry.ask(EKS_CLUSTER, name=existing.cluster_name)["cluster"]
    return found


def _there(existing: ExistingEksSpec, inquiry: Inquiry) -> Iterator[Verdict]:
    try:
        found = _described(existing, inquiry)
    except Absent:
        yield failed(
            f"there is no EKS cluster {existing.cluster_name} in {inquiry.cluster.region}",
            fix="correct name, Region or profile",
        )
        return
    if found["status"] in ("ACTIVE", "UPDATING"):
        yield passed(f"{existing.cluster_name} is {found['status']}")
    else:
        yield failed(f"{existing.cluster_name} is {found['status']}", fix="wait, or name another cluster")


def _as_said(existing: ExistingEksSpec, inquiry: Inquiry) -> Iterator[Verdict]:
    try:
        found = _described(existing, inquiry)
    except Absent as absent:
        raise NoAnswer(f"there is no {existing.cluster_name}", fix="see GPU-PRE-166") from absent
    place, services = found.get("resourcesVpcConfig", {}), found.get("kubernetesNetworkConfig", {})
    network = inquiry.cluster.existing_network
    compared = [
        ("kubernetes_version", existing.kubernetes_version, found.get("version")),
        (
            "cluster_security_group_id",
            existing.cluster_security_group_id,
            place.get("clusterSecurityGroupId"),
        ),
        ("service_cidr", existing.service_cidr, services.get("serviceIpv4Cidr")),
        ("network.vpc_id", None if network is None else network.vpc_id, place.get("vpcId")),
    ]
    differing = [(key, said, real) for key, said, real in compared if real is not None and said != real]
    for key, said, real in differing:
        yield failed(f"{existing.cluster_name} has {real}, the file has {said or 'a new VPC'}", fix=f"{key}: {real}")
    mode = found.get("accessConfig", {}).get("authenticationMode")
    if mode == "CONFIG_MAP":
        yield warned(
            f"{existing.cluster_name} knows no access entries: its nodes join by the aws-auth ConfigMap alone",
            fix="aws eks update-cluster-config --access-config authenticationMode=API_AND_CONFIG_MAP",
        )


def _admins(cluster: Cluster) -> Mapping[str, str]:
    if not _made(cluster):
        return {}
    return {f"eks.admin_principal_arns.{index}": arn for index, arn in enumerate(cluster.spec.eks.admin_principal_arns)}


def _admin(arn: str, inquiry: Inquiry) -> Iterator[Verdict]:
    account, (kind, name) = arn.split(":")[4], _principal(arn)
    own = inquiry.ask(CALLER)["Account"]
    if account != own:
        yield cannot_tell(f"{arn} is of another account", fix="ask there whether it exists")
        return
    try:
        if kind == "role":
            inquiry.ask(ROLE, RoleName=name)
        else:
            inquiry.ask(USER, UserName=name)
    except Absent:
        yield failed(f"there is no {arn}: EKS refuses its access entry", fix="make it, or correct the ARN")
    else:
        yield passed(arn)


def _principal(arn: str) -> tuple[str, str]:
    """`role` or `user`, and its name without its path."""
    kind, _, path = arn.split(":", 5)[5].partition("/")
    return kind, path.rpartition("/")[2]


_on_eks: Callable[[Cluster], Mapping[str, PlannedFleet]] = fleets_where(lambda fleet: fleet.on_eks)

KUBERNETES_CHECKS = (
    Check(rule=VERSION_OFFERED, calls=(EKS_VERSIONS,), subjects=_made, judge=_version, unless=_NONE_MADE),
    Check(rule=ADD_ONS_OFFERED, calls=(ADD_ON_VERSIONS,), subjects=_made, judge=_add_ons, unless=_NONE_MADE),
    Check(
        rule=ZONES_TAKE_CLUSTERS,
        calls=(ZONES,),
        subjects=_named_zones,
        judge=_zones,
        unless="no EKS cluster is made in zones that the file names",
    ),
    Check(
        rule=CLUSTER_COUNT,
        calls=(*QUOTA_CALLS, EKS_CLUSTERS),
        subjects=_made,
        judge=_cluster_count,
        unless=_NONE_MADE,
    ),
    Check(rule=NODE_COUNT, calls=QUOTA_CALLS, subjects=_on_eks, judge=_node_count, unless=_NO_EKS),
    Check(rule=CLUSTER_THERE, calls=(EKS_CLUSTER,), subjects=_existing, judge=_there, unless=_NONE_EXISTS),
    Check(rule=CLUSTER_AS_SAID, calls=(EKS_CLUSTER,), subjects=_existing, judge=_as_said, unless=_NONE_EXISTS),
    Check(
        rule=ADMINS_THERE,
        calls=(CALLER, ROLE, USER),
        subjects=_admins,
        judge=_admin,
        unless="the file names no principal that administers an EKS cluster made here",
    ),
)
