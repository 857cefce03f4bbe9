"""Quotas of instances, volumes, interfaces, networks and load balancers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from cdk_gpu_clusters.catalogue import instance_type, instance_type_names
from cdk_gpu_clusters.catalogue.quotas import Purchase, VcpuQuota, quota, vcpu_quota
from cdk_gpu_clusters.rules.capacity import CapacityKind
from cdk_gpu_clusters.rules.node_group import UpdateStrategy, surge_nodes
from cdk_gpu_clusters_stacks.spec import NewReservation
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet

from ..call import (
    ADDRESSES,
    INSTANCES,
    INTERFACES,
    INTERNET_GATEWAYS,
    LOAD_BALANCERS,
    NAT_GATEWAYS,
    RESERVATIONS,
    SUBNETS,
    VOLUMES,
    VPCS,
    Call,
)
from ..check import Inquiry, Judge, Verdict, cannot_tell, define_check, passed, whole
from ..cluster import Cluster, words
from ..quota import QUOTA_CALLS, weigh

_QUOTAS = 'AWS documentation, "Amazon EC2 instance type quotas"'
_RUNNING = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]


@dataclass(frozen=True, slots=True, kw_only=True)
class VcpuNeed:
    """Fleets whose vCPUs one quota counts, and the vCPUs of other nodes that it counts with them.

    Attributes:
        service_vcpus: vCPUs of the system nodes of EKS, and of the head node and the login nodes of Slurm.
        service_surge_vcpus: vCPUs that an update of them adds for the time that it takes.
    """

    purchase: Purchase
    family: str
    vcpus: VcpuQuota
    fleets: tuple[PlannedFleet, ...]
    service_vcpus: int = 0
    service_surge_vcpus: int = 0


def _needs(purchase: Purchase, cluster: Cluster) -> Mapping[str, VcpuNeed]:
    groups: dict[str, dict[str, PlannedFleet]] = {}
    for where, fleet in cluster.fleets.items():
        if _purchase(fleet) == purchase:
            found = vcpu_quota(fleet.plan.instance_type.family, purchase).quota
            groups.setdefault(fleet.plan.instance_type.family if found is None else found.key, {})[where] = fleet
    needs: dict[str, VcpuNeed] = {}
    for fleets in groups.values():
        families = sorted({fleet.plan.instance_type.family for fleet in fleets.values()})
        known = [vcpu_quota(family, purchase) for family in families]
        needs[", ".join(fleets)] = VcpuNeed(
            purchase=purchase,
            family=words(families),
            vcpus=VcpuQuota(quota=known[0].quota, verified=all(one.verified for one in known)),
            fleets=tuple(fleets.values()),
        )
    return needs if purchase == "spot" else _with_service_nodes(needs, cluster)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ServiceNodes:
    """Nodes beside the fleets, on demand, and how many an update adds."""

    where: str
    instance_type: str
    count: int
    surge: int = 0


def _service_nodes(cluster: Cluster) -> Iterator[_ServiceNodes]:
    """The system nodes of an EKS cluster made here; head node and login nodes of Slurm."""
    plan = cluster.plan
    nodes = None if plan.kubernetes is None else plan.kubernetes.system_nodes
    if nodes is not None:
        surge = surge_nodes(UpdateStrategy.DEFAULT, zones=len(nodes.subnets), max_unavailable=1)
        yield _ServiceNodes(
            where="eks.system_nodes", instance_type=nodes.instance_type, count=nodes.node_count, surge=surge
        )
    slurm, parallel = plan.slurm, plan.parallelcluster
    people = {
        "pcs.login": None if slurm is None else slurm.login,
        "parallelcluster.head_node": None if parallel is None else parallel.head_node,
        "parallelcluster.login": None if parallel is None else parallel.login,
    }
    for where, login in people.items():
        if login is not None:
            yield _ServiceNodes(where=where, instance_type=login.instance_type, count=login.node_count)


def _with_service_nodes(needs: dict[str, VcpuNeed], cluster: Cluster) -> dict[str, VcpuNeed]:
    """The needs, with what nodes beside the fleets add."""
    for nodes in _service_nodes(cluster):
        record = instance_type(nodes.instance_type)
        found = vcpu_quota(record.family, "on-demand")
        where = next((where for where, need in needs.items() if need.vcpus.quota == found.quota), nodes.where)
        need = needs.get(where) or VcpuNeed(purchase="on-demand", family=record.family, vcpus=found, fleets=())
        needs[where] = replace(
            need,
            service_vcpus=need.service_vcpus + record.vcpus * nodes.count,
            service_surge_vcpus=need.service_surge_vcpus + record.vcpus * nodes.surge,
        )
    return needs


def _purchase(fleet: PlannedFleet) -> Purchase | None:
    """Which quota of EC2 the fleet's own instances count against; None where something reserved covers them.

    Nodes of HyperPod count against quotas of SageMaker.
    """
    if fleet.profile.joins_hyperpod:
        return None
    kind = fleet.plan.terms.kind
    if kind is CapacityKind.SPOT:
        return "spot"
    if kind is CapacityKind.ON_DEMAND or isinstance(fleet.spec.capacity, NewReservation):
        return "on-demand"
    return None


def _vcpus(need: VcpuNeed, inquiry: Inquiry) -> Iterator[Verdict]:
    if need.vcpus.quota is None:
        yield cannot_tell(
            f"it is unknown which {need.purchase} quota counts {need.family}",
            fix="look at the EC2 quotas in the Service Quotas console",
        )
        return
    if not need.vcpus.verified:
        yield cannot_tell(
            f"that {need.vcpus.quota.name} counts {need.family} is read from its name, no source confirms it",
            fix="compare with the EC2 quotas in the Service Quotas console",
        )
    least = need.service_vcpus
    most = least + need.service_surge_vcpus
    for fleet in need.fleets:
        is_reserved = isinstance(fleet.spec.capacity, NewReservation)
        least += (
            fleet.spec.maximum_nodes if is_reserved else fleet.spec.minimum_nodes
        ) * fleet.plan.instance_type.vcpus
        most += (fleet.spec.maximum_nodes + fleet.surge_nodes) * fleet.plan.instance_type.vcpus
    yield weigh(need.vcpus.quota, inquiry, used=partial(_used_vcpus, need, inquiry), least=least, most=most)


def _used_vcpus(need: VcpuNeed, inquiry: Inquiry) -> float:
    """VCPUs that others run, and that others have reserved without running them."""
    inquiry.start(RESERVATIONS)
    lifecycle = "spot" if need.purchase == "spot" else None
    used = sum(
        _size(instance)
        for reservation in inquiry.ask(INSTANCES, Filters=_RUNNING)["Reservations"]
        for instance in reservation["Instances"]
        if instance.get("InstanceLifecycle") == lifecycle and _counts(need, instance, inquiry)
    )
    if need.purchase == "spot":
        return used
    return used + sum(
        int(reservation["AvailableInstanceCount"]) * _size(reservation)
        for reservation in inquiry.ask(RESERVATIONS)["CapacityReservations"]
        if reservation["State"] == "active"
        and reservation.get("ReservationType", "default") == "default"
        and _counts(need, reservation, inquiry)
    )


def _counts(need: VcpuNeed, found: Mapping[str, Any], inquiry: Inquiry) -> bool:
    """Whether the quota counts an instance or a reservation of others."""
    family = str(found["InstanceType"]).partition(".")[0]
    return vcpu_quota(family, need.purchase).quota == need.vcpus.quota and not inquiry.cluster.owns(found)


def _size(found: Mapping[str, Any]) -> int:
    """VCPUs of one instance."""
    name = str(found["InstanceType"])
    if name in instance_type_names():
        return instance_type(name).vcpus
    options = found.get("CpuOptions", {})
    return int(options.get("CoreCount", 1)) * int(options.get("ThreadsPerCore", 1))


_on_demand_vcpus = define_check(
    "GPU-PRE-031",
    "the On-Demand vCPU quota has room for fleets without a reservation, reservations made here, and nodes beside them",
    source=f'{_QUOTAS}; AWS EC2 user guide, "On-Demand Capacity Reservations": reservations count, blocks do not',
    calls=(*QUOTA_CALLS, INSTANCES, RESERVATIONS),
    subjects=partial(_needs, "on-demand"),
    unless="reservations, blocks or spot cover every fleet",
)(_vcpus)
_spot_vcpus = define_check(
    "GPU-PRE-032",
    "the Spot vCPU quota has room for spot fleets",
    source=_QUOTAS,
    calls=(*QUOTA_CALLS, INSTANCES, RESERVATIONS),
    subjects=partial(_needs, "spot"),
    unless="no fleet is spot",
)(_vcpus)


def _range(sizes: Iterable[tuple[PlannedFleet, float]]) -> dict[str, float]:
    """What all nodes need together, from what a node of each fleet needs."""
    each = list(sizes)
    return {
        "least": sum(fleet.spec.minimum_nodes * size for fleet, size in each),
        "most": sum((fleet.spec.maximum_nodes + fleet.surge_nodes) * size for fleet, size in each),
    }


def _launched_here(cluster: Cluster) -> list[PlannedFleet]:
    """The fleets whose nodes are instances of the account; those of HyperPod are of one of SageMaker."""
    return [fleet for fleet in cluster.fleets.values() if not fleet.profile.joins_hyperpod]


@define_check(
    "GPU-PRE-033",
    "the gp3 storage quota has room for the root volumes of all nodes",
    source='Amazon EBS user guide, "Quotas for Amazon EBS"',
    calls=(*QUOTA_CALLS, VOLUMES),
    subjects=lambda cluster: {"": cluster} if _launched_here(cluster) else {},
    unless="SageMaker launches the nodes, with their volumes, in an account of its own",
)
def _volume_storage(cluster: Cluster, inquiry: Inquiry) -> Verdict:
    def used() -> float:
        found = inquiry.ask(VOLUMES, Filters=[{"Name": "volume-type", "Values": ["gp3"]}])["Volumes"]
        return float(sum(volume["Size"] for volume in found if not cluster.owns(volume))) / 1024

    tib = _range((fleet, fleet.root_volume_gib / 1024) for fleet in _launched_here(cluster))
    return weigh(quota("gp3-storage"), inquiry, used=used, **tib)


@define_check(
    "GPU-PRE-034",
    "the quota of network interfaces has room for those of all nodes",
    source='Amazon VPC user guide, "Amazon VPC quotas"; a p5.48xlarge with EFA has 33',
    calls=(*QUOTA_CALLS, INTERFACES),
    subjects=whole,
)
def _interface_count(cluster: Cluster, inquiry: Inquiry) -> Verdict:
    def used() -> float:
        found = inquiry.ask(INTERFACES)["NetworkInterfaces"]
        return sum(not cluster.owns(interface) for interface in found)

    interfaces = _range(
        (fleet, len(fleet.plan.interfaces.interfaces) + fleet.profile.container_addresses)
        for fleet in cluster.fleets.values()
    )
    return weigh(quota("network-interfaces"), inquiry, used=used, **interfaces)


# Quotas that a network made here, and load balancers, count against.

_VPC_QUOTAS = 'Amazon VPC user guide, "Amazon VPC quotas"'
_NO_NAT = "no NAT gateway is made"
# What a NAT gateway is until it is gone: those count.
_LIVE = [{"Name": "state", "Values": ["pending", "available", "deleting"]}]


def _new(cluster: Cluster) -> Mapping[str, Cluster]:
    return {} if cluster.new_network is None else {"network": cluster}


def _with_nat(cluster: Cluster) -> Mapping[str, Cluster]:
    network = cluster.new_network
    return {"network": cluster} if network is not None and network.egress == "nat" else {}


def _one_more(key: str, call: Call, items: str) -> Judge[Cluster]:
    """Whether one more of something fits the quota of the Region, unless the cluster has it already."""

    def judge(cluster: Cluster, inquiry: Inquiry) -> Verdict:
        found = inquiry.ask(call)[items]
        if any(cluster.owns(one) for one in found):
            return passed("the cluster has it already")
        return weigh(quota(key), inquiry, used=lambda: len(found), least=1)

    return judge


_vpc_count = define_check(
    "GPU-PRE-041",
    "the VPC quota has room for the cluster's",
    source=_VPC_QUOTAS,
    calls=(*QUOTA_CALLS, VPCS),
    subjects=_new,
    unless="the network exists",
)(_one_more("vpcs", VPCS, "Vpcs"))
_elastic_ips = define_check(
    "GPU-PRE-042",
    "the Elastic IP quota has room for that of the NAT gateway",
    source='AWS EC2 user guide, "Elastic IP addresses": 5 in a Region by default',
    calls=(*QUOTA_CALLS, ADDRESSES),
    subjects=_with_nat,
    unless=_NO_NAT,
)(_one_more("elastic-ips", ADDRESSES, "Addresses"))
_internet_gateway_count = define_check(
    "GPU-PRE-043",
    "the quota of internet gateways has room for the network's",
    source=_VPC_QUOTAS,
    calls=(*QUOTA_CALLS, INTERNET_GATEWAYS),
    subjects=_with_nat,
    unless=_NO_NAT,
)(_one_more("internet-gateways", INTERNET_GATEWAYS, "InternetGateways"))


@define_check(
    "GPU-PRE-044",
    "the quota of NAT gateways in the zone has room for the network's",
    source=_VPC_QUOTAS,
    calls=(*QUOTA_CALLS, NAT_GATEWAYS, SUBNETS),
    subjects=_with_nat,
    unless=_NO_NAT,
)
def _nat_gateway_count(cluster: Cluster, inquiry: Inquiry) -> Verdict:
    """Those of the fleets' zone: a gateway is in the zone of its subnet."""
    inquiry.start(SUBNETS)
    found = inquiry.ask(NAT_GATEWAYS, Filter=_LIVE)["NatGateways"]
    if any(cluster.owns(one) for one in found):
        return passed("the cluster has it already")
    zone = cluster.spec.network.availability_zone
    here = {subnet["SubnetId"] for subnet in inquiry.ask(SUBNETS)["Subnets"] if cluster.is_zone(zone, subnet)}
    used = sum(one.get("SubnetId") in here for one in found)
    return weigh(quota("nat-gateways"), inquiry, used=lambda: used, least=1)


@define_check(
    "GPU-PRE-045",
    "the quota of Application Load Balancers has room for those of the inference fleets",
    source='Elastic Load Balancing user guide, "Quotas for your Application Load Balancers"',
    calls=(*QUOTA_CALLS, LOAD_BALANCERS),
    subjects=lambda cluster: {"inference": cluster} if cluster.balanced else {},
    unless="no load balancer is made",
)
def _balancer_count(cluster: Cluster, inquiry: Inquiry) -> Verdict:
    def used() -> float:
        found = inquiry.ask(LOAD_BALANCERS)["LoadBalancers"]
        return float(sum(one.get("Type") == "application" for one in found))

    return weigh(quota("load-balancers"), inquiry, used=used, least=len(cluster.balanced))
