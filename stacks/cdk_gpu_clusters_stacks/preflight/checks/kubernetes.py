"""Whether Amazon EKS takes the cluster, or an existing one matches the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cdk_gpu_clusters.catalogue.quotas import quota
from cdk_gpu_clusters.fleet.profile import EKS_MANAGED
from cdk_gpu_clusters_stacks.plan.model import KubernetesPlan
from cdk_gpu_clusters_stacks.spec.eks import ExistingEksSpec
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet

from ..call import (
    ADD_ON_VERSIONS,
    CALLER,
    EKS_ADD_ON,
    EKS_CLUSTER,
    EKS_CLUSTERS,
    EKS_VERSIONS,
    INSTANCES,
    POD_IDENTITIES,
    ROLE,
    USER,
    ZONES,
    NoAnswer,
)
from ..check import Inquiry, Verdict, cannot_tell, define_check, failed, passed, warned
from ..cluster import Cluster, fleets_where, words
from ..quota import QUOTA_CALLS, weigh

_API = "Amazon EKS API reference"
_QUOTAS = 'Amazon EKS user guide, "View and manage Amazon EKS and Fargate service quotas"'

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


@define_check(
    "GPU-PRE-161",
    "EKS offers the version of Kubernetes, in standard support",
    source=f"{_API}, DescribeClusterVersions",
    calls=(EKS_VERSIONS,),
    subjects=_made,
    unless=_NONE_MADE,
)
def _version_offered(plan: KubernetesPlan, inquiry: Inquiry) -> Verdict:
    found = inquiry.ask(EKS_VERSIONS, includeAll=True)["clusterVersions"]
    status = {one["clusterVersion"]: one.get("versionStatus") for one in found}
    standard = words(name for name, one in status.items() if one == "STANDARD_SUPPORT")
    fix = f"eks.kubernetes_version: one of {standard}"
    if status.get(plan.version) in (None, "UNSUPPORTED"):
        return failed(f"EKS offers no Kubernetes {plan.version} in {inquiry.cluster.region}", fix=fix)
    if status[plan.version] == "EXTENDED_SUPPORT":
        return warned(f"Kubernetes {plan.version} is in extended support, which costs more", fix=fix)
    return passed(f"Kubernetes {plan.version} is in standard support")


@define_check(
    "GPU-PRE-162",
    "EKS offers every add-on for the version of Kubernetes",
    source=f"{_API}, DescribeAddonVersions",
    calls=(ADD_ON_VERSIONS,),
    subjects=_made,
    unless=_NONE_MADE,
)
def _add_ons_offered(plan: KubernetesPlan, inquiry: Inquiry) -> Verdict:
    found = inquiry.ask(ADD_ON_VERSIONS, kubernetesVersion=plan.version)["addons"]
    missing = sorted(set(plan.add_ons) - {one["addonName"] for one in found})
    if missing:
        return failed(
            f"EKS has no {words(missing)} for Kubernetes {plan.version} in {inquiry.cluster.region}",
            fix="choose another eks.kubernetes_version, or another Region",
        )
    return passed(f"{words(plan.add_ons)} for Kubernetes {plan.version}")


def _named_zones(cluster: Cluster) -> Mapping[str, tuple[str, ...]]:
    zones = cluster.plan.network.control_availability_zones
    where = "network.service_subnets" if cluster.existing_network else "network.control_availability_zones"
    return {where: zones} if zones and _made(cluster) else {}


@define_check(
    "GPU-PRE-163",
    "the zones of the control plane take one",
    source='Amazon EKS user guide, "View Amazon EKS networking requirements for VPC and subnets": not use1-az3, '
    "usw1-az2 and cac1-az3",
    calls=(ZONES,),
    subjects=_named_zones,
    unless="no EKS cluster is made in zones that the file names",
)
def _zones_take_clusters(zones: tuple[str, ...], inquiry: Inquiry) -> Verdict:
    found = inquiry.ask(ZONES, AllAvailabilityZones=True)["AvailabilityZones"]
    ids = {one[key]: one["ZoneId"] for one in found for key in ("ZoneName", "ZoneId")}
    wrong = [zone for zone in zones if ids.get(zone) in _WITHOUT_CONTROL_PLANES]
    if wrong:
        return failed(
            f"EKS places no control plane in {words(f'{one} ({ids[one]})' for one in wrong)}",
            fix="name other zones; fleets may stay in this one",
        )
    return passed(words(zones))


@define_check(
    "GPU-PRE-164",
    "the quota of EKS clusters has room for one more",
    source=_QUOTAS,
    calls=(*QUOTA_CALLS, EKS_CLUSTERS),
    subjects=_made,
    unless=_NONE_MADE,
)
def _cluster_count(plan: KubernetesPlan, inquiry: Inquiry) -> Verdict:
    found = inquiry.ask(EKS_CLUSTERS)["clusters"]
    # As CDK names it after the path of its construct.
    own = f"{str(plan.stack_name).replace('-', '')}-Cluster-"
    if any(str(one).startswith(own) for one in found):
        return passed("the cluster has one already")
    return weigh(quota("eks-clusters"), inquiry, used=lambda: len(found), least=1)


@define_check(
    "GPU-PRE-165",
    "the quota of nodes in a managed node group has room for each fleet",
    source=_QUOTAS,
    calls=QUOTA_CALLS,
    subjects=fleets_where(lambda fleet: fleet.plan.request.profile is EKS_MANAGED),
    unless="no fleet is on EKS",
)
def _node_count(fleet: PlannedFleet, inquiry: Inquiry) -> Verdict:
    spec, limit = fleet.spec, quota("eks-nodes-per-group")
    return weigh(limit, inquiry, used=lambda: 0, least=spec.minimum_nodes, most=spec.maximum_nodes)


@define_check(
    "GPU-PRE-166",
    "an existing EKS cluster is there, and active",
    source=f"{_API}, DescribeCluster",
    calls=(EKS_CLUSTER,),
    subjects=_existing,
    unless=_NONE_EXISTS,
)
def _cluster_there(existing: ExistingEksSpec, inquiry: Inquiry) -> Verdict:
    found = inquiry.find(EKS_CLUSTER, name=existing.cluster_name)
    if found is None:
        return failed(
            f"there is no EKS cluster {existing.cluster_name} in {inquiry.cluster.region}",
            fix="correct name, Region or profile",
        )
    status = found["cluster"]["status"]
    if status in ("ACTIVE", "UPDATING"):
        return passed(f"{existing.cluster_name} is {status}")
    return failed(f"{existing.cluster_name} is {status}", fix="wait, or name another cluster")


@define_check(
    "GPU-PRE-167",
    "an existing EKS cluster matches the file: version, security group, services, VPC, access entries",
    source=f"{_API}, DescribeCluster",
    calls=(EKS_CLUSTER,),
    subjects=_existing,
    unless=_NONE_EXISTS,
)
def _cluster_as_said(existing: ExistingEksSpec, inquiry: Inquiry) -> Iterator[Verdict]:
    answer = inquiry.find(EKS_CLUSTER, name=existing.cluster_name)
    if answer is None:
        raise NoAnswer(f"there is no {existing.cluster_name}", fix="see GPU-PRE-166")
    found = answer["cluster"]
    place, services = found.get("resourcesVpcConfig", {}), found.get("kubernetesNetworkConfig", {})
    network = inquiry.cluster.existing_network
    compared = (
        ("kubernetes_version", existing.kubernetes_version, found.get("version")),
        ("cluster_security_group_id", existing.cluster_security_group_id, place.get("clusterSecurityGroupId")),
        ("service_cidr", existing.service_cidr, services.get("serviceIpv4Cidr")),
        ("network.vpc_id", None if network is None else network.vpc_id, place.get("vpcId")),
    )
    for key, said, real in compared:
        if real is not None and said != real:
            cause = f"{existing.cluster_name} has {real}, the file has {said or 'a new VPC'}"
            yield failed(cause, fix=f"{key}: {real}")
    mode = found.get("accessConfig", {}).get("authenticationMode")
    if mode == "CONFIG_MAP":
        yield warned(
            f"{existing.cluster_name} knows no access entries: its nodes join by the aws-auth ConfigMap alone",
            fix="aws eks update-cluster-config --access-config authenticationMode=API_AND_CONFIG_MAP",
        )


@define_check(
    "GPU-PRE-169",
    "the VPC CNI of an existing EKS cluster has the permissions that the file states",
    source='Amazon EKS user guide, "Amazon EKS node IAM role" and "Configure Amazon VPC CNI plugin to use IRSA"; '
    f"{_API}, ListPodIdentityAssociations and DescribeAddon",
    calls=(POD_IDENTITIES, EKS_ADD_ON),
    subjects=_existing,
    unless=_NONE_EXISTS,
)
def _cni_has_a_role(existing: ExistingEksSpec, inquiry: Inquiry) -> Verdict:
    account = {"namespace": "kube-system", "serviceAccount": "aws-node"}
    found = inquiry.find(POD_IDENTITIES, clusterName=existing.cluster_name, **account)
    if found is None:
        raise NoAnswer(f"there is no {existing.cluster_name}", fix="see GPU-PRE-166")
    add_on = inquiry.find(EKS_ADD_ON, clusterName=existing.cluster_name, addonName="vpc-cni")
    role = None if add_on is None else add_on["addon"].get("serviceAccountRoleArn")
    if found["associations"] or role:
        return passed("the VPC CNI has a role of its own")
    if existing.cni_from_node_role:
        return passed("the VPC CNI takes the role of the nodes, which may do what it does")
    fix = "cni_from_node_role: true, or give the service account aws-node a role by Pod Identity"
    cause = f"the VPC CNI of {existing.cluster_name} has no role of its own: new nodes never become Ready"
    if add_on is None:
        return warned(f"unless its service account is annotated with a role, {cause}", fix=fix)
    return failed(cause, fix=fix)


@define_check(
    "GPU-PRE-170",
    "new nodes are in the security groups of the present nodes of an existing EKS cluster",
    source='Amazon EKS user guide, "View Amazon EKS security group requirements for clusters" and "Organize Amazon EKS '
    'resources with tags"; '
    "terraform-aws-modules/terraform-aws-eks @ bef29c4, node_groups.tf: a group of the nodes' own by default",
    calls=(INSTANCES,),
    subjects=_existing,
    unless=_NONE_EXISTS,
)
def _same_groups(existing: ExistingEksSpec, inquiry: Inquiry) -> Verdict:
    running = [
        {"Name": "tag:aws:eks:cluster-name", "Values": [existing.cluster_name]},
        {"Name": "instance-state-name", "Values": ["running"]},
    ]
    answer = inquiry.ask(INSTANCES, Filters=running)["Reservations"]
    nodes = [{one["GroupId"] for one in node["SecurityGroups"]} for found in answer for node in found["Instances"]]
    if not nodes:
        return passed(f"{existing.cluster_name} has no running nodes of managed groups")
    given = {existing.cluster_security_group_id, *existing.node_security_group_ids}
    if any(not groups & given for groups in nodes):
        common = sorted(set.intersection(*nodes)) or sorted(set.union(*nodes))
        return warned(
            f"nodes of {existing.cluster_name} are in {words(common)}, and in no group that new nodes join: pods, and "
            "DNS, may not reach each other",
            fix=f"node_security_group_ids: [{', '.join(common)}]",
        )
    return passed(f"{existing.cluster_name} has nodes in {words(sorted(given))}")


def _principals(cluster: Cluster) -> Mapping[str, str]:
    if not _made(cluster):
        return {}
    eks = cluster.spec.eks
    named = {
        "eks.admin_principal_arns": eks.admin_principal_arns,
        **{f"eks.teams.{name}.principal_arns": team.principal_arns for name, team in eks.teams.items()},
    }
    return {f"{key}.{index}": arn for key, arns in named.items() for index, arn in enumerate(arns)}


@define_check(
    "GPU-PRE-168",
    "the principals that administer the EKS cluster, and those of its teams, are there",
    source=f"{_API}, CreateAccessEntry; IAM API reference, GetRole and GetUser",
    calls=(CALLER, ROLE, USER),
    subjects=_principals,
    unless="the file names no principal of an EKS cluster made here",
)
def _principal_there(arn: str, inquiry: Inquiry) -> Verdict:
    _, _, _, _, account, principal = arn.split(":", 5)
    if account != inquiry.ask(CALLER)["Account"]:
        return cannot_tell(f"{arn} is of another account", fix="ask there whether it exists")
    kind, name = principal.partition("/")[0], principal.rpartition("/")[2]
    found = inquiry.find(ROLE, RoleName=name) if kind == "role" else inquiry.find(USER, UserName=name)
    if found is None:
        return failed(f"there is no {arn}: EKS refuses its access entry", fix="make it, or correct the ARN")
    return passed(arn)
