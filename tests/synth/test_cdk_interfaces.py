"""Every construct with connections or a role is one that CDK accepts as a peer or a grantee, in a real synthesis."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from cdk_gpu_clusters import (
    CheckpointStore,
    EksGpuCluster,
    EksGpuNodeGroup,
    GpuFleet,
    IEksGpuCluster,
    IGpuFleet,
    ILustreStore,
    InferenceFleet,
    InferenceLoadBalancer,
    LustreStore,
    ModelServer,
)
from stack_fixtures import Resources, Site, SiteFactory, of_type

PORT = 7777
OWN_GROUP = "sg-0123456789abcdef0"


def imported_group(site: Site, number: int) -> ec2.ISecurityGroup:
    return ec2.SecurityGroup.from_security_group_id(site.stack, f"Group{number}", f"sg-0123456789abcdef{number}")


def fleet(site: Site) -> IGpuFleet:
    return GpuFleet(
        site.stack,
        "Fleet",
        vpc=site.vpc,
        vpc_subnets=site.one_subnet,
        instance_type="g6.xlarge",
        node_count=1,
        security_groups=[imported_group(site, 1)],
    )


def imported_fleet(site: Site) -> IGpuFleet:
    return GpuFleet.from_gpu_fleet_attributes(
        site.stack,
        "Fleet",
        fleet_name="trainers",
        role=iam.Role.from_role_arn(site.stack, "NodeRole", "arn:aws:iam::111122223333:role/trainers"),
        security_groups=[imported_group(site, 1)],
    )


def imported_cluster(site: Site) -> IEksGpuCluster:
    return EksGpuCluster.from_eks_gpu_cluster_attributes(
        site.stack,
        "Cluster",
        vpc=site.vpc,
        cluster_name="research",
        cluster_security_group_id="sg-0123456789abcdef1",
        kubernetes_version="1.35",
    )


def cluster(site: Site) -> IEksGpuCluster:
    return EksGpuCluster(site.stack, "Cluster", vpc=site.vpc)


def node_group(site: Site) -> IGpuFleet:
    return EksGpuNodeGroup(
        site.stack,
        "Fleet",
        cluster=imported_cluster(site),
        vpc_subnets=site.one_subnet,
        instance_type="g6.xlarge",
        node_count=1,
    )


def store(site: Site) -> ILustreStore:
    return LustreStore(
        site.stack,
        "Store",
        vpc=site.vpc,
        subnet=site.vpc.private_subnets[0],
        storage_capacity_gib=1200,
        throughput_mb_per_s_per_tib=250,
    )


def imported_store(site: Site) -> ILustreStore:
    return LustreStore.from_lustre_store_attributes(
        site.stack,
        "Store",
        file_system_id="fs-0123456789abcdef0",
        mount_name="abcdefgh",
        security_group=imported_group(site, 1),
    )


def service(site: Site) -> InferenceFleet:
    return InferenceFleet(
        site.stack,
        "Fleet",
        vpc=site.vpc,
        instance_type="g6.xlarge",
        min_node_count=2,
        server=ModelServer(image="vllm/vllm-openai:v0.11.0"),
        plain_http=True,
    )


def balancer(site: Site) -> InferenceLoadBalancer:
    return InferenceLoadBalancer(site.stack, "Balancer", vpc=site.vpc, node_port=8080, plain_http=True)


PEERS: list[Callable[[Site], ec2.IConnectable]] = [
    fleet,
    imported_fleet,
    node_group,
    cluster,
    imported_cluster,
    store,
    imported_store,
    service,
    balancer,
]
GRANTEES: list[Callable[[Site], iam.IGrantable]] = [fleet, imported_fleet, node_group, service]


def rules_on(port: int, resources: Resources) -> list[dict[str, Any]]:
    found = of_type(resources, "AWS::EC2::SecurityGroupIngress") | of_type(resources, "AWS::EC2::SecurityGroupEgress")
    return [one["Properties"] for one in found.values() if one["Properties"].get("FromPort") == port]


@pytest.mark.parametrize("make", PEERS)
def test_cdk_takes_it_as_a_peer_and_allows_its_traffic(
    make: Callable[[Site], ec2.IConnectable], make_site: SiteFactory
) -> None:
    site = make_site()
    peer = make(site)
    own = imported_group(site, 0)
    own.connections.allow_from(peer, ec2.Port.tcp(PORT), "as a peer")
    peer.connections.allow_from(own, ec2.Port.tcp(PORT + 1), "by its own connections")
    resources = site.resources()
    its_groups = [one["SourceSecurityGroupId"] for one in rules_on(PORT, resources) if one["GroupId"] == OWN_GROUP]
    opened = [one["GroupId"] for one in rules_on(PORT + 1, resources) if one.get("SourceSecurityGroupId") == OWN_GROUP]
    assert its_groups
    assert sorted(map(str, its_groups)) == sorted(map(str, opened))
    assert OWN_GROUP not in its_groups


@pytest.mark.parametrize("make", GRANTEES)
def test_cdk_grants_to_its_role(make: Callable[[Site], iam.IGrantable], make_site: SiteFactory) -> None:
    site = make_site()
    s3.Bucket(site.stack, "Corpus").grant_read(make(site))
    granted = [
        one["Properties"]
        for one in of_type(site.resources(), "AWS::IAM::Policy").values()
        if "s3:GetObject*" in json.dumps(one)
    ]
    (policy,) = granted
    (role,) = policy["Roles"]
    assert role == "trainers" or role["Ref"].startswith("FleetRole") or role["Ref"].startswith("FleetFleetRole")


def test_a_checkpoint_store_takes_a_fleet_as_a_grantee(make_site: SiteFactory) -> None:
    site = make_site()
    CheckpointStore(site.stack, "Checkpoints").grant_read_write(fleet(site))
    (policy,) = [
        one["Properties"]
        for one in of_type(site.resources(), "AWS::IAM::Policy").values()
        if "s3:PutObject" in json.dumps(one)
    ]
    assert policy["Roles"][0]["Ref"].startswith("FleetRole")


def test_connections_are_the_same_each_time(make_site: SiteFactory) -> None:
    site = make_site()
    trainers = fleet(site)
    assert trainers.connections is trainers.connections
