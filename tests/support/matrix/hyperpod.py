"""Instance groups of SageMaker HyperPod of every accelerated type that it has, and what must hold of them.

What SageMaker takes is read from botocore's service model, and EFA from EC2's recorded data: not through the library.
Sources of the checks: botocore, sagemaker: CreateCluster and its shapes; Amazon SageMaker AI developer guide,
"Prerequisites for using SageMaker HyperPod", "SageMaker HyperPod references", "Getting started with SageMaker HyperPod
using the AWS CLI" and "Continuous provisioning for enhanced cluster operations with Slurm"; AWS EC2 user guide, "EFA
limitations".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import aws_cdk as cdk
import botocore.session
from aws_cdk import aws_ec2 as ec2
from aws_cdk.assertions import Template

from cdk_gpu_clusters import (
    Capacity,
    EksGpuCluster,
    HyperPodCluster,
    InterfacePolicy,
    LustreStore,
    TrainingPlan,
)
from matrix.hardware import hardware_types

CLUSTER = "AWS::SageMaker::Cluster"
PLAN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/research"
#: The security group that Amazon EKS made for the cluster.
OF_EKS = "sg-0123456789abcdef0"
Json = dict[str, Any]
#: Groups of a cluster: SageMaker takes up to 100.
_GROUPS = 20


@dataclass(frozen=True, slots=True)
class Asked:
    """An instance group as it is asked for."""

    name: str
    instance_type: str
    nodes: int
    purchase: str
    interfaces: InterfacePolicy | None


@dataclass(frozen=True, slots=True)
class Group:
    """An instance group of a template, with what was asked for, and the resources around it."""

    asked: Asked
    properties: Json
    cluster: Json
    resources: dict[str, Json]

    @property
    def is_eks(self) -> bool:
        """Whether its cluster is on Amazon EKS."""
        return "Eks" in self.cluster["Orchestrator"]

    @property
    def has_efa(self) -> bool:
        """Whether EC2 has EFA on the type."""
        return any("efa" in card.takes for card in hardware_types()[self.asked.instance_type].cards)


@cache
def enum_of(shape: str) -> frozenset[str]:
    """The values of a shape of SageMaker."""
    model = botocore.session.get_session().get_service_model("sagemaker")
    return frozenset(model.shape_for(shape).metadata["enum"])


def types() -> list[str]:
    """The types with accelerators of the recorded data that HyperPod has."""
    names = (name.removeprefix("ml.") for name in sorted(enum_of("ClusterInstanceType")))
    return [name for name in names if name in hardware_types() and hardware_types()[name].accelerator is not None]


def asked() -> Iterator[Asked]:
    """Every type in every purchase, and on demand with every kind of interface that it has."""
    for name in types():
        efa = any("efa" in card.takes for card in hardware_types()[name].cards)
        purchases = ["on-demand", "spot"]
        if f"ml.{name}" in enum_of("ReservedCapacityInstanceType"):
            purchases.append("training plan")
        for purchase in purchases:
            for policy in (None, InterfacePolicy.EFA_PER_CARD) if efa and purchase == "on-demand" else (None,):
                words = (name, purchase, policy or "default")
                yield Asked("-".join(words).replace(".", "-").replace(" ", "-"), name, len(purchase), purchase, policy)


def synthesize() -> list[Group]:
    """All groups, in clusters on Slurm and on Amazon EKS by turns, in one app with one stack."""
    stack = cdk.Stack(cdk.App(analytics_reporting=False), "HyperPod")
    vpc = ec2.Vpc.from_vpc_attributes(
        stack,
        "Vpc",
        vpc_id="vpc-0123456789abcdef0",
        availability_zones=["us-east-1a"],
        private_subnet_ids=["subnet-0123456789abcdef0"],
        private_subnet_route_table_ids=["rtb-0123456789abcdef0"],
    )
    store = LustreStore.from_lustre_store_attributes(
        stack,
        "Store",
        file_system_id="fs-0123456789abcdef0",
        mount_name="abcdefgh",
        security_group=ec2.SecurityGroup.from_security_group_id(stack, "OfStore", "sg-0123456789abcdef2"),
    )
    kubernetes = EksGpuCluster.from_eks_gpu_cluster_attributes(
        stack,
        "Kubernetes",
        vpc=vpc,
        cluster_name="research",
        cluster_security_group_id=OF_EKS,
        kubernetes_version="1.34",
    )
    wanted: dict[str, Asked] = {}
    every = list(asked())
    for index in range((len(every) - 1) // _GROUPS + 1):
        groups = every[index * _GROUPS : (index + 1) * _GROUPS]
        eks = index % 2 == 1
        cluster = (
            HyperPodCluster(stack, f"C{index}", vpc=vpc)
            if not eks
            else HyperPodCluster(stack, f"C{index}", eks_cluster=kubernetes)
        )
        for one in groups:
            wanted[one.name] = one
            cluster.add_instance_group(
                one.name,
                instance_type=one.instance_type,
                node_count=one.nodes,
                capacity=_capacity(one.purchase),
                interface_policy=one.interfaces,
                mounts={} if eks else {"/fsx": store},
            )
    resources: dict[str, Json] = Template.from_stack(stack).to_json()["Resources"]
    return [
        Group(wanted[group["InstanceGroupName"]], group, one["Properties"], resources)
        for one in resources.values()
        if one["Type"] == CLUSTER
        for group in one["Properties"]["InstanceGroups"]
        if group["InstanceGroupName"] in wanted
    ]


def _capacity(purchase: str) -> Capacity | TrainingPlan | None:
    if purchase == "training plan":
        return TrainingPlan.from_arn(PLAN)
    return Capacity.spot() if purchase == "spot" else None


# What must hold of a group.


def type_and_size(group: Group) -> Iterator[str]:
    """SageMaker has the type, and the group has the nodes that were asked for."""
    if group.properties.get("InstanceType") != f"ml.{group.asked.instance_type}":
        yield f"type {group.properties.get('InstanceType')}"
    if group.properties.get("InstanceType") not in enum_of("ClusterInstanceType"):
        yield "SageMaker does not have the type"
    if group.properties.get("InstanceCount") != group.asked.nodes:
        yield f"{group.properties.get('InstanceCount')} nodes"


def purchase(group: Group) -> Iterator[str]:
    """A group is bought on demand, as Spot, or from the plan, and from one of them only."""
    plan, spot = group.properties.get("TrainingPlanArn"), group.properties.get("CapacityRequirements", {})
    found = "training plan" if plan else "spot" if "Spot" in spot else "on-demand"
    if found != group.asked.purchase or (plan and "Spot" in spot):
        yield f"{found} with {plan} and {spot}"
    if plan and group.properties["InstanceType"] not in enum_of("ReservedCapacityInstanceType"):
        yield "no plan is sold for the type"


def interfaces(group: Group) -> Iterator[str]:
    """Interfaces are those that were asked for, and only types with EFA have any."""
    kind = group.properties.get("NetworkInterface", {}).get("InterfaceType")
    wanted = "efa" if group.asked.interfaces is InterfacePolicy.EFA_PER_CARD else "efa-only"
    if kind != (wanted if group.has_efa else None):
        yield f"interfaces {kind}"
    if kind is not None and kind not in enum_of("ClusterInterfaceType"):
        yield f"SageMaker has no interface {kind}"


def traffic(group: Group) -> Iterator[str]:
    """Every security group of nodes with EFA exchanges all traffic with itself, both ways.

    Amazon EKS gives the group of a cluster these rules (EKS user guide, "View Amazon EKS security group requirements for
    clusters": inbound from itself, and outbound to itself for EFA).
    """
    if not group.has_efa:
        return
    networks = [group.cluster.get("VpcConfig"), group.properties.get("OverrideVpcConfig")]
    for one in [member for given in networks if given for member in given["SecurityGroupIds"] if member != OF_EKS]:
        for direction, other in (("Ingress", "SourceSecurityGroupId"), ("Egress", "DestinationSecurityGroupId")):
            rules = (
                rule["Properties"]
                for rule in group.resources.values()
                if rule["Type"] == f"AWS::EC2::SecurityGroup{direction}"
            )
            if not any(
                rule["GroupId"] == one and rule.get(other) == one and rule["IpProtocol"] == "-1" for rule in rules
            ):
                yield f"{one} has no {direction} rule with itself"


def network(group: Group) -> Iterator[str]:
    """A group with EFA is in one subnet."""
    chosen = group.properties.get("OverrideVpcConfig") or group.cluster.get("VpcConfig") or {}
    if group.has_efa and len(chosen.get("Subnets", ())) != 1:
        yield f"subnets {chosen.get('Subnets')}"


def storage(group: Group) -> Iterator[str]:
    """Nodes of Slurm mount the file system that was asked for; those of Amazon EKS have none to mount."""
    entries = group.properties.get("InstanceStorageConfigs", [])
    mounted = [one["FsxLustreConfig"] for one in entries if "FsxLustreConfig" in one]
    wanted = [] if group.is_eks else [("abcdefgh", "/fsx")]
    if [(one["MountName"], one["MountPath"]) for one in mounted] != wanted:
        yield f"mounts {mounted}"


def script(group: Group) -> Iterator[str]:
    """On Amazon EKS every group has OnCreate; on Slurm the script follows the set-up by the image."""
    given = group.properties.get("LifeCycleConfig", {})
    event = "OnCreate" if group.is_eks else "OnInitComplete"
    if set(given) != {"SourceS3Uri", event}:
        yield f"script {given}"


def slurm(group: Group) -> Iterator[str]:
    """Compute nodes have one partition, and no strategy comes with continuous provisioning."""
    if group.is_eks:
        return
    config = group.properties.get("SlurmConfig", {})
    if config != {"NodeType": "Compute", "PartitionNames": [group.asked.name]}:
        yield f"nodes of Slurm {config}"
    orchestrator = group.cluster["Orchestrator"]["Slurm"]
    if group.cluster.get("NodeProvisioningMode") != "Continuous" or "SlurmConfigStrategy" in orchestrator:
        yield f"Slurm {orchestrator}"


CHECKS: tuple[Callable[[Group], Iterator[str]], ...] = (
    type_and_size,
    purchase,
    interfaces,
    traffic,
    network,
    storage,
    script,
    slurm,
)
