"""Every fault of EKS that the emulator's models find beyond the schemas, one mutation of a good resource each."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from gpu_clusters_emulator import node_groups, provisioning
from gpu_clusters_emulator.faults import ApiError
from gpu_clusters_emulator.models.registry import change_faults, creation_faults, deletion_faults
from gpu_clusters_emulator.seeds import plant
from gpu_clusters_emulator.world import Resource, World
from mutations import drop, put

Json = dict[str, Any]
Mutation = Callable[[Json], None]

CLUSTER, NODES = "AWS::EKS::Cluster", "AWS::EKS::Nodegroup"
ADD_ON, ENTRY, IDENTITY = "AWS::EKS::Addon", "AWS::EKS::AccessEntry", "AWS::EKS::PodIdentityAssociation"
TEMPLATE, ROLE = "AWS::EC2::LaunchTemplate", "AWS::IAM::Role"
SUBNETS = ["subnet-0aaaaaaaaaaaaaaaa", "subnet-0bbbbbbbbbbbbbbbb"]
GROUP, BLOCK, ODCR = "sg-0123456789abcdef0", "cr-0fedcba9876543210", "cr-0123456789abcdef0"
IAM = "arn:aws:iam::123456789012:role"
P5, PLAIN = "gpu-nodes", "plain-nodes"
SEED: Json = {
    "now": "2026-11-22T08:00Z",
    "reservations": [
        {
            "id": BLOCK,
            "instance_type": "p5.48xlarge",
            "availability_zone": "us-east-1a",
            "count": 4,
            "kind": "capacity-block",
            "starts_at": "2026-12-01T11:30Z",
            "ends_at": "2026-12-15T11:30Z",
        },
        {"id": ODCR, "instance_type": "p5.48xlarge", "availability_zone": "us-east-1a", "count": 2},
    ],
    "subnets": dict(zip(SUBNETS, ("us-east-1a", "us-east-1b"), strict=True)),
    "security_groups": [GROUP],
}
MIME = base64.b64encode(b'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="b"\n\n--b--\n').decode()


def role(name: str, *services: str) -> Resource:
    statement = [{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": one}} for one in services]
    return resource(ROLE, name, {"AssumeRolePolicyDocument": {"Statement": statement}}, Arn=f"{IAM}/{name}")


def resource(type_name: str, name: str, properties: Json, **attributes: str) -> Resource:
    return Resource(
        type=type_name,
        logical_id=name,
        physical_id=name,
        stack_name="before",
        region="us-east-1",
        properties=properties,
        attributes=attributes,
        answered_by="emulator",
    )


def cluster(**more: Any) -> Json:
    return {
        "Name": "train",
        "RoleArn": f"{IAM}/control-plane",
        "Version": "1.34",
        "ResourcesVpcConfig": {
            "SubnetIds": list(SUBNETS),
            "EndpointPrivateAccess": True,
            "EndpointPublicAccess": False,
        },
        "KubernetesNetworkConfig": {"ServiceIpv4Cidr": "172.20.0.0/16", "IpFamily": "ipv4"},
        "AccessConfig": {"AuthenticationMode": "API"},
        "EncryptionConfig": [
            {"Resources": ["secrets"], "Provider": {"KeyArn": "arn:aws:kms:us-east-1:123456789012:key/k"}}
        ],
        **more,
    }


def block_template() -> Json:
    return {
        "InstanceType": "p5.48xlarge",
        "UserData": MIME,
        "InstanceMarketOptions": {"MarketType": "capacity-block"},
        "CapacityReservationSpecification": {"CapacityReservationTarget": {"CapacityReservationId": BLOCK}},
    }


def on_a_block() -> Json:
    return {
        "ClusterName": "train",
        "NodegroupName": "trainers",
        "NodeRole": f"{IAM}/nodes",
        "Subnets": [SUBNETS[0]],
        "AmiType": "AL2023_x86_64_NVIDIA",
        "CapacityType": "CAPACITY_BLOCK",
        "LaunchTemplate": {"Name": P5, "Version": "1"},
        "ScalingConfig": {"MinSize": 0, "MaxSize": 4, "DesiredSize": 0},
        "UpdateConfig": {"MaxUnavailable": 1, "UpdateStrategy": "MINIMAL"},
        "Labels": {"gpu-cluster/gpu": "H100", "node.kubernetes.io/pool": "gpu"},
        "Taints": [{"Key": "nvidia.com/gpu", "Value": "true", "Effect": "NO_SCHEDULE"}],
    }


def system() -> Json:
    return {
        "ClusterName": "train",
        "NodegroupName": "system",
        "NodeRole": f"{IAM}/nodes",
        "Subnets": list(SUBNETS),
        "AmiType": "AL2023_ARM_64_STANDARD",
        "InstanceTypes": ["m8g.large"],
        "ScalingConfig": {"MinSize": 2, "MaxSize": 2, "DesiredSize": 2},
    }


def with_template() -> Json:
    made = system()
    del made["InstanceTypes"]
    return {**made, "AmiType": "AL2023_x86_64_STANDARD", "LaunchTemplate": {"Name": PLAIN}}


@pytest.fixture
def world() -> World:
    made = World()
    plant(made, SEED)
    for one in (
        role("control-plane", "eks.amazonaws.com"),
        role("nodes", "ec2.amazonaws.com"),
        role("pods", "pods.eks.amazonaws.com"),
    ):
        made.add(one)
    make(made, CLUSTER, cluster())
    template(made, P5, block_template())
    template(made, PLAIN, {"InstanceType": "m7i.large", "UserData": MIME})
    return made


def make(world: World, type_name: str, properties: Json) -> Resource:
    assert creation_faults(type_name, properties, world) == []
    return provisioning.create(world, type_name, f"Made{len(world.resources)}", copy.deepcopy(properties), "stack")


def template(world: World, name: str, data: Json) -> None:
    make(world, TEMPLATE, {"LaunchTemplateName": name, "LaunchTemplateData": data})


def messages(type_name: str, properties: Json, world: World) -> str:
    return "\n".join(str(fault) for fault in creation_faults(type_name, properties, world))


def another_name(properties: Json) -> Json:
    return {**properties, **({"Name": "other"} if "RoleArn" in properties else {"NodegroupName": "other"})}


GOOD: list[tuple[str, Callable[[], Json]]] = [
    (CLUSTER, lambda: cluster(Name="other")),
    (CLUSTER, lambda: {key: cluster()[key] for key in ("RoleArn", "ResourcesVpcConfig")}),
    (NODES, on_a_block),
    (NODES, system),
    (NODES, with_template),
]


@pytest.mark.parametrize(("type_name", "good"), GOOD)
def test_what_is_right_is_taken(type_name: str, good: Callable[[], Json], world: World) -> None:
    assert creation_faults(type_name, good(), world) == []


VPC, NETWORK = "ResourcesVpcConfig", "KubernetesNetworkConfig"
CLUSTER_FAULTS = [
    (put("Name", "-train"), "'-train' does not match"),
    (put(f"{VPC}.SubnetIds", SUBNETS[:1]), "Subnets specified must be in at least two different AZs, got us-east-1a"),
    (put(f"{VPC}.SubnetIds", [*SUBNETS, "subnet-gone"]), "the subnet 'subnet-gone' does not exist"),
    (put(f"{VPC}.SecurityGroupIds", ["sg-gone"]), "the security group 'sg-gone' does not exist"),
    (put("Version", "1.20"), "unsupported Kubernetes version '1.20'; offered: 1.31"),
    (put("Version", "1.99"), "unsupported Kubernetes version '1.99'"),
    (put("RoleArn", "control-plane"), "'control-plane' is not the ARN of an IAM role"),
    (put("RoleArn", f"{IAM}/nodes"), "Following required service principals [eks.amazonaws.com] were not found in the trust relationships of clusterRole"),
    (put(f"{VPC}.EndpointPrivateAccess", False), "Private and public endpoint access cannot be false"),
    (put(f"{VPC}.PublicAccessCidrs", ["203.0.113.0/24", "2001:db8::/32"]), "The following CIDRs are invalid in publicAccessCidrs: ['2001:db8::/32']"),
    (put(f"{VPC}.PublicAccessCidrs", ["203.0.113.7/24"]), "The following CIDRs are invalid in publicAccessCidrs"),
    (put(f"{NETWORK}.ServiceIpv4Cidr", "203.0.113.0/24"), "203.0.113.0/24 is not within 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16"),
    (put(f"{NETWORK}.ServiceIpv4Cidr", "10.0.0.0/8"), "the prefix is /12 to /24, got /8"),
    (put(f"{NETWORK}.ServiceIpv4Cidr", "10.0.0.0/25"), "the prefix is /12 to /24, got /25"),
    (put(f"{NETWORK}.ServiceIpv4Cidr", "ten"), "'ten' is no IPv4 range"),
    (put(f"{NETWORK}.IpFamily", "ipv6"), "an ipv6 cluster takes no ServiceIpv4Cidr"),
    (put("AccessConfig", {"AuthenticationMode": "CONFIG_MAP", "BootstrapClusterCreatorAdminPermissions": False}), "bootstrapClusterCreatorAdminPermissions must be true"),
    (put("EncryptionConfig.0.Resources", ["configmaps"]), "the only supported value is secrets"),
    (put("KubeSchedulerConfig", {"NodeResourcesFit": {"ScoringStrategy": {"Type": "MostAllocated", "Resources": [{"Name": "nvidia.com/mig-1g.5gb", "Weight": 1}]}}}), "got nvidia.com/mig-1g.5gb"),
    (put("Logging", {"ClusterLogging": {"EnabledTypes": [{"Type": "kubelet"}]}}), "'kubelet' is not one of"),
]  # fmt: skip


@pytest.mark.parametrize(("mutate", "message"), CLUSTER_FAULTS)
def test_a_wrong_cluster_is_refused(mutate: Mutation, message: str, world: World) -> None:
    properties = cluster(Name="other")
    mutate(properties)
    assert message in messages(CLUSTER, properties, world)


def test_services_and_nodes_have_addresses_of_their_own(world: World) -> None:
    vpc = resource("AWS::EC2::VPC", "vpc-1", {"CidrBlock": "10.20.0.0/16"})
    subnet = resource("AWS::EC2::Subnet", "subnet-1", {"VpcId": "vpc-1", "AvailabilityZone": "us-east-1a"})
    world.add(vpc)
    world.add(subnet)
    properties = cluster(Name="other")
    properties[VPC]["SubnetIds"] = ["subnet-1", SUBNETS[1]]
    put(f"{NETWORK}.ServiceIpv4Cidr", "10.20.128.0/20")(properties)
    assert "10.20.128.0/20 overlaps with 10.20.0.0/16 of vpc-1" in messages(CLUSTER, properties, world)


CLUSTER_CHANGES = [
    (put("Version", "1.36"), "updated by one minor version at a time, got 1.34 to 1.36"),
    (put("Version", "1.33"), "updated by one minor version at a time, got 1.34 to 1.33"),
    (put("AccessConfig.AuthenticationMode", "API_AND_CONFIG_MAP"), "goes from API to the next of"),
    (
        put(f"{VPC}.SubnetIds", SUBNETS[:1]),
        "in the same VPC and in the same Availability Zones as the first ones",
    ),
    (put("Version", "1.35"), "node groups that are not at 1.34 yet: train/behind"),
]


@pytest.mark.parametrize(("mutate", "message"), CLUSTER_CHANGES)
def test_a_wrong_change_of_a_cluster_is_refused(mutate: Mutation, message: str, world: World) -> None:
    make(world, NODES, {**system(), "NodegroupName": "behind"}).settings["Version"] = "1.33"
    new = cluster()
    mutate(new)
    assert message in "\n".join(map(str, change_faults(CLUSTER, "train", cluster(), new, world)))


def test_the_next_version_and_another_logging_are_changes_in_place(world: World) -> None:
    new = cluster(Version="1.35", Logging={"ClusterLogging": {"EnabledTypes": [{"Type": "audit"}]}})
    assert change_faults(CLUSTER, "train", cluster(), new, world) == []
    assert not provisioning.replaces(CLUSTER, cluster(), new)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (f"{NETWORK}.ServiceIpv4Cidr", "10.100.0.0/16"),
        (f"{NETWORK}.IpFamily", "ipv6"),
        ("AccessConfig.BootstrapClusterCreatorAdminPermissions", False),
        ("RoleArn", f"{IAM}/other"),
        ("EncryptionConfig", []),
        ("BootstrapSelfManagedAddons", False),
    ],
)
def test_what_a_cluster_is_made_with_replaces_it(path: str, value: Any) -> None:
    old = drop("Name")
    before, after = cluster(), cluster()
    old(before), old(after)
    put(path, value)(after)
    assert provisioning.replaces(CLUSTER, before, after)


SIZES, UPDATE = "ScalingConfig", "UpdateConfig"
NODE_FAULTS: list[tuple[Callable[[], Json], Mutation, str]] = [
    (system, put("ClusterName", "gone"), "No cluster found for name: gone."),
    (system, put("NodeRole", f"{IAM}/control-plane"), "Following required service principals [ec2.amazonaws.com] were not found in the trust relationships of nodeRole"),
    (system, put("NodeRole", "arn:aws:iam::123456789012:instance-profile/nodes"), "is not the ARN of an IAM role"),
    (system, put("Subnets", ["subnet-gone"]), "the subnet 'subnet-gone' does not exist"),
    (system, put("Version", "1.33"), "the version of the cluster, 1.34, is the only accepted value, got 1.33"),
    (system, put("AmiType", "AL2023_x86_64_STANDARD"), "['m8g.large'] is not a valid instance type for requested amiType AL2023_x86_64_STANDARD"),
    (system, put("AmiType", "AL2_ARM_64"), "AMI Type AL2_ARM_64 is only supported for kubernetes versions 1.32 or earlier"),
    (system, put("AmiType", "CUSTOM"), "AmiType CUSTOM needs a launch template"),
    (system, put("CapacityType", "CAPACITY_BLOCK"), "can only be created with custom launch templates"),
    (system, drop(SIZES), "the sizes that EKS chooses are not emulated"),
    (system, put(f"{SIZES}.DesiredSize", 1), "Minimum capacity 2 can't be greater than desired size 1"),
    (system, put(f"{SIZES}.DesiredSize", 3), "desiredSize can't be greater than maxSize: 3 and 2"),
    (system, put(SIZES, {"MinSize": 3, "MaxSize": 2}), "minSize can't be greater than maxSize: 3 and 2"),
    (system, put(UPDATE, {}), "exactly one of MaxUnavailable and MaxUnavailablePercentage is required"),
    (system, put(UPDATE, {"MaxUnavailable": 1, "MaxUnavailablePercentage": 10}), "exactly one of MaxUnavailable"),
    (system, put(UPDATE, {"MaxUnavailable": 101}), "the maximum number is 100, got 101"),
    (system, put("NodeRepairConfig", {"MaxParallelNodesRepairedCount": 1, "MaxParallelNodesRepairedPercentage": 1}), "MaxParallelNodesRepairedCount and MaxParallelNodesRepairedPercentage may not be given together"),
    (on_a_block, put("Labels", {"node-role.kubernetes.io/gpu": "true"}), "the kubelet gives its node no label node-role.kubernetes.io/gpu"),
    (on_a_block, put("Labels", {"eks.amazonaws.com/nodegroup": "x"}), "Label cannot contain reserved prefixes [eks.amazonaws.com/]"),
    (on_a_block, put("Labels", {"gpu_cluster/gpu": "H100"}), "the key 'gpu_cluster/gpu' does not have the form [prefix/]name"),
    (on_a_block, put("Labels", {"gpu": "NVIDIA H100"}), "Invalid value: 'NVIDIA H100'"),
    (on_a_block, put("Labels", {"g" * 64: "x"}), "does not have the form [prefix/]name"),
    (on_a_block, put("Taints.0.Key", "nvidia.com/"), "the key 'nvidia.com/' does not have the form"),
    (on_a_block, put("Taints.0.Value", "yes, please"), "Invalid value: 'yes, please'"),
    (on_a_block, put("Taints", [{"Key": "k"}]), "Effect is required"),
    (on_a_block, put("Taints", [{"Key": f"k{number}", "Effect": "NO_SCHEDULE"} for number in range(51)]), "a maximum of 50 taints are allowed per node group, got 51"),
    (on_a_block, put("Taints", [{"Key": "k", "Effect": "NO_SCHEDULE"}] * 2), "k with NO_SCHEDULE is given twice"),
    (on_a_block, put("Taints.0.Effect", "NoSchedule"), "'NoSchedule' is not one of"),
    (on_a_block, put("InstanceTypes", ["p5.48xlarge"]), "Cannot specify instance types in launch template and API request"),
    (on_a_block, put("DiskSize", 200), "Disk size must be specified within the launch template."),
    (on_a_block, put("RemoteAccess", {"Ec2SshKey": "me"}), "Remote access configuration cannot be specified with a launch template."),
    (on_a_block, put("LaunchTemplate.Id", "lt-1"), "either the launch template name or the launch template ID must be given"),
    (on_a_block, put("LaunchTemplate", {"Version": "1"}), "either the launch template name or the launch template ID must be given"),
    (on_a_block, put("LaunchTemplate.Version", "7"), "there is no launch template"),
    (on_a_block, put("CapacityType", "ON_DEMAND"), "MarketType capacity-block needs CapacityType CAPACITY_BLOCK, got ON_DEMAND"),
    (on_a_block, drop("CapacityType"), "MarketType capacity-block needs CapacityType CAPACITY_BLOCK, got ON_DEMAND"),
    (on_a_block, put("Subnets", [SUBNETS[1]]), f"{SUBNETS[1]} is in us-east-1b, the reservation {BLOCK} in us-east-1a"),
    (on_a_block, put("AmiType", "CUSTOM"), "AmiType CUSTOM needs an image id in the launch template"),
    (with_template, put("CapacityType", "CAPACITY_BLOCK"), "has no InstanceMarketOptions with MarketType capacity-block, no CapacityReservationTarget with CapacityReservationId"),
]  # fmt: skip


@pytest.mark.parametrize(("good", "mutate", "message"), NODE_FAULTS)
def test_a_wrong_node_group_is_refused(good: Callable[[], Json], mutate: Mutation, message: str, world: World) -> None:
    properties = good()
    mutate(properties)
    assert message in messages(NODES, properties, world)


INTERFACES = [{"DeviceIndex": 0, "SubnetId": SUBNETS[0]}]
TEMPLATE_FAULTS: list[tuple[Json, str]] = [
    ({"IamInstanceProfile": {"Name": "nodes"}}, "IamInstanceProfile is prohibited"),
    ({"InstanceInitiatedShutdownBehavior": "terminate"}, "InstanceInitiatedShutdownBehavior is prohibited"),
    ({"HibernationOptions": {"Configured": True}}, "HibernationOptions is prohibited"),
    ({"NetworkInterfaces": INTERFACES}, "SubnetId is prohibited in the network interfaces"),
    (
        {"InstanceMarketOptions": {"MarketType": "spot"}},
        "Spot market options are prohibited in the launch template",
    ),
    ({"ImageId": "ami-0123456789abcdef0"}, "You cannot specify an AMI type other than CUSTOM"),
    (
        {"UserData": base64.b64encode(b"#!/bin/bash\n").decode()},
        "User data was not in the MIME multipart format.",
    ),
    (
        {"SecurityGroupIds": [GROUP]},
        "NodeCreationFailure: Instances failed to join the kubernetes cluster: their security groups",
    ),
]


@pytest.mark.parametrize(("data", "message"), TEMPLATE_FAULTS)
def test_what_a_launch_template_may_not_say_is_refused(data: Json, message: str, world: World) -> None:
    template(world, "wrong", {"InstanceType": "m7i.large", **data})
    properties = {**with_template(), "LaunchTemplate": {"Name": "wrong"}}
    assert message in messages(NODES, properties, world)


def test_an_own_image_has_no_version_and_is_not_merged(world: World) -> None:
    data = {"ImageId": "ami-0123456789abcdef0", "UserData": base64.b64encode(b"#!/bin/bash\n").decode()}
    template(world, "own", {"InstanceType": "m7i.large", **data})
    properties = {**with_template(), "LaunchTemplate": {"Name": "own"}, "AmiType": "CUSTOM"}
    assert creation_faults(NODES, properties, world) == []
    for name in ("Version", "ReleaseVersion"):
        assert f"You cannot specify {name} when specifying an image id" in messages(
            NODES, {**properties, name: "1.34"}, world
        )


def test_a_block_needs_all_three_values_of_its_template(world: World) -> None:
    for number, name in enumerate(("InstanceType", "InstanceMarketOptions", "CapacityReservationSpecification")):
        data = block_template()
        del data[name]
        if name == "InstanceMarketOptions":
            data["CapacityReservationSpecification"]["CapacityReservationTarget"]["CapacityReservationId"] = ODCR
        elif name == "CapacityReservationSpecification":
            data["InstanceMarketOptions"] = {"MarketType": "spot"}
        template(world, f"part-{number}", data)
        found = messages(NODES, {**on_a_block(), "LaunchTemplate": {"Name": f"part-{number}"}}, world)
        assert "the launch template of a node group with a Capacity Block has no" in found, name


def test_nodes_join_through_a_rule_as_well_as_by_the_group_of_the_cluster(world: World) -> None:
    found = world.cluster("train")
    assert found is not None
    own = found.attributes["ClusterSecurityGroupId"]
    template(world, "both", {"InstanceType": "m7i.large", "SecurityGroupIds": [GROUP, own]})
    template(world, "alone", {"InstanceType": "m7i.large", "SecurityGroupIds": [GROUP]})
    both, alone = ({**with_template(), "LaunchTemplate": {"Name": name}} for name in ("both", "alone"))
    assert creation_faults(NODES, both, world) == []
    assert "do not reach the control plane" in messages(NODES, alone, world)
    rule = {
        "GroupId": own,
        "IpProtocol": "tcp",
        "FromPort": 443,
        "ToPort": 443,
        "SourceSecurityGroupId": GROUP,
    }
    make(world, "AWS::EC2::SecurityGroupIngress", rule)
    assert creation_faults(NODES, alone, world) == []


def test_nobody_checks_that_nodes_of_a_block_join_but_their_group_tells(world: World) -> None:
    """Amazon EKS user guide: no validation that instances of a Capacity Block register with their cluster."""
    template(world, "lost", {**block_template(), "SecurityGroupIds": [GROUP]})
    made = make(world, NODES, {**on_a_block(), "LaunchTemplate": {"Name": "lost"}})
    assert node_groups.issues(world, made) == [], "no node is lost yet"
    group = node_groups.group_behind(world, made)
    world.clock.set(world.seeded_reservations[BLOCK].starts_at or world.clock.now())
    node_groups.resize(world, made, {"DesiredSize": 2})
    (issue,) = node_groups.issues(world, made)
    assert issue["code"] == "NodeCreationFailure"
    assert issue["resourceIds"] == [one.id for one in group.instances]


def test_nodes_need_a_network_plugin_and_dns(world: World) -> None:
    make(world, CLUSTER, cluster(Name="bare", BootstrapSelfManagedAddons=False))
    on_bare = {**system(), "ClusterName": "bare"}
    assert "vpc-cni is not there yet" in messages(NODES, on_bare, world)
    make(world, ADD_ON, {"ClusterName": "bare", "AddonName": "vpc-cni"})
    assert creation_faults(NODES, on_bare, world) == []
    world.add(resource("AWS::EC2::VPC", "vpc-1", {"CidrBlock": "10.0.0.0/16", "EnableDnsHostnames": False}))
    world.add(resource("AWS::EC2::Subnet", "subnet-1", {"VpcId": "vpc-1", "AvailabilityZone": "us-east-1a"}))
    dark = cluster(Name="dark")
    dark[VPC]["SubnetIds"] = ["subnet-1", SUBNETS[1]]
    make(world, CLUSTER, dark)
    in_the_dark = {**system(), "ClusterName": "dark", "Subnets": ["subnet-1"]}
    assert "the VPC vpc-1 has no DNS hostnames or no DNS support" in messages(NODES, in_the_dark, world)
    assert "another VPC than the cluster's" not in messages(NODES, in_the_dark, world)


def test_nodes_stand_in_the_vpc_of_their_cluster(world: World) -> None:
    for name in ("one", "two"):
        world.add(resource("AWS::EC2::VPC", f"vpc-{name}", {"CidrBlock": "10.0.0.0/16", "EnableDnsHostnames": True}))
        for zone in ("a", "b"):
            given = {"VpcId": f"vpc-{name}", "AvailabilityZone": f"us-east-1{zone}"}
            world.add(resource("AWS::EC2::Subnet", f"subnet-{name}-{zone}", given))
    here = cluster(Name="here")
    here[VPC]["SubnetIds"] = ["subnet-one-a", "subnet-one-b"]
    make(world, CLUSTER, here)
    there = {**system(), "ClusterName": "here", "Subnets": ["subnet-two-a"]}
    assert "the subnets are in another VPC than the cluster's" in messages(NODES, there, world)
    here[VPC]["SubnetIds"] = ["subnet-one-a", "subnet-two-b"]
    assert "the subnets are in several VPCs" in messages(CLUSTER, {**here, "Name": "both"}, world)


def changed(world: World, before: Json, mutate: Mutation) -> str:
    after = copy.deepcopy(before)
    mutate(after)
    identifier = f"{before['ClusterName']}/{before['NodegroupName']}"
    return "\n".join(map(str, change_faults(NODES, identifier, before, after, world)))


def test_a_node_group_keeps_its_launch_template(world: World) -> None:
    make(world, NODES, with_template())
    assert "keeps the launch template that it was made with" in changed(
        world, with_template(), put("LaunchTemplate.Name", P5)
    )
    assert "keeps the launch template" in changed(world, with_template(), drop("LaunchTemplate"))


def test_a_call_names_sizes_that_fit_each_other(world: World) -> None:
    made = make(world, NODES, system())
    with pytest.raises(ApiError, match="desiredSize can't be greater than maxSize: 3 and 2"):
        node_groups.resize(world, made, {"DesiredSize": 3})
    with pytest.raises(ApiError, match="Minimum capacity 2 can't be greater than desired size 1"):
        node_groups.resize(world, made, {"DesiredSize": 1})
    node_groups.resize(world, made, {"MinSize": 3, "MaxSize": 4})
    assert node_groups.group_behind(world, made).desired == 3, "new bounds pull the size in"


def test_nodes_of_a_block_are_not_upgraded_under_way(world: World) -> None:
    made = make(world, NODES, on_a_block())
    world.clock.set(world.seeded_reservations[BLOCK].starts_at or world.clock.now())
    assert changed(world, on_a_block(), put("ReleaseVersion", "1.34.2-20261101")) == "", "there are no nodes yet"
    node_groups.resize(world, made, {"DesiredSize": 4})
    assert "upgraded at the desired size 0" in changed(world, on_a_block(), put("ReleaseVersion", "1.34.2-20261101"))
    assert changed(world, on_a_block(), put("Labels", {"a": "b"})) == "", "labels are no upgrade"


def test_an_update_that_launches_first_needs_room_in_the_reservation(world: World) -> None:
    data = block_template()
    del data["InstanceMarketOptions"]
    data["CapacityReservationSpecification"]["CapacityReservationTarget"]["CapacityReservationId"] = ODCR
    template(world, "reserved", data)
    given = {**on_a_block(), "CapacityType": "ON_DEMAND", "LaunchTemplate": {"Name": "reserved"}}
    given[SIZES] = {"MinSize": 2, "MaxSize": 2, "DesiredSize": 2}
    make(world, NODES, given)
    newer = put("ReleaseVersion", "1.34.2-20261101")
    assert changed(world, given, newer) == "", "MINIMAL ends nodes first"
    put(f"{UPDATE}.UpdateStrategy", "DEFAULT")(given)
    assert f"{ODCR} has no room for one" in changed(world, given, newer)


def served(servers: int, *, budget: Json, least: int | None = None, kind: str = "Deployment") -> str:
    """A Deployment or a Rollout of servers with one GPU each, its budget, and its autoscaler if `least` is given."""
    names, label = {"name": "model"}, {"app": "model"}
    part = {"name": "server", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    pod = {"metadata": {"labels": label}, "spec": {"nodeSelector": {"gpu-cluster/gpu": "H100"}, "containers": [part]}}
    objects = [
        {"kind": kind, "metadata": names, "spec": {"replicas": servers, "template": pod}},
        {"kind": "PodDisruptionBudget", "metadata": names, "spec": {"selector": {"matchLabels": label}, **budget}},
    ]
    if least is not None:
        scaled = {"scaleTargetRef": {"kind": kind, **names}, "minReplicas": least}
        objects.append({"kind": "HorizontalPodAutoscaler", "metadata": names, "spec": scaled})
    return json.dumps(objects)


@pytest.mark.parametrize("kind", ["Deployment", "Rollout"])
@pytest.mark.parametrize(
    ("servers", "least", "budget", "at_once", "fails"),
    [
        (16, None, {"maxUnavailable": "25%"}, 1, True),  # two full nodes: 4 of 8 pods may go, and fit nowhere
        (16, None, {"maxUnavailable": 8}, 1, False),
        (16, None, {"maxUnavailable": 8}, 2, True),
        (16, None, {"minAvailable": "50%"}, 1, False),
        (8, None, {"maxUnavailable": "25%"}, 1, False),  # the other node has room
        (8, None, {"maxUnavailable": 0}, 1, True),
        (16, 8, {"maxUnavailable": "25%"}, 1, False),
        (16, None, {"maxUnavailable": "50%"}, 1, False),
    ],
)
def test_full_nodes_are_drained_as_budgets_allow(
    world: World, servers: int, least: int | None, budget: Json, at_once: int, fails: bool, kind: str
) -> None:
    data = block_template()
    del data["InstanceMarketOptions"]
    data["CapacityReservationSpecification"]["CapacityReservationTarget"]["CapacityReservationId"] = ODCR
    template(world, "reserved", data)
    given = {**on_a_block(), "CapacityType": "ON_DEMAND", "LaunchTemplate": {"Name": "reserved"}}
    given[SIZES] = {"MinSize": 2, "MaxSize": 2, "DesiredSize": 2}
    given[UPDATE] = {"MaxUnavailable": at_once, "UpdateStrategy": "MINIMAL"}
    make(world, NODES, given)
    applied = Resource(type="Custom::AWSCDK-EKS-KubernetesResource", physical_id="model", region="us-east-1")
    applied.properties = {
        "ClusterName": given["ClusterName"],
        "Manifest": served(servers, budget=budget, least=least, kind=kind),
    }
    world.add(applied)
    found = changed(world, given, put("ReleaseVersion", "1.34.2-20261101"))
    assert ("PodEvictionFailure" in found) is fails, found


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("CapacityType", "SPOT"),
        ("NodeRole", f"{IAM}/other"),
        ("InstanceTypes", ["m8g.xlarge"]),
        ("AmiType", "BOTTLEROCKET_ARM_64"),
        ("Subnets", [SUBNETS[0]]),
        ("DiskSize", 100),
        ("NodegroupName", "other"),
    ],
)
def test_what_a_node_group_is_made_with_replaces_it(path: str, value: Any) -> None:
    after = system()
    put(path, value)(after)
    assert provisioning.replaces(NODES, system(), after)


def test_sizes_labels_taints_and_versions_are_changed_in_place() -> None:
    after = {
        **on_a_block(),
        SIZES: {"MinSize": 0, "MaxSize": 8},
        "Labels": {},
        "Taints": [],
        "ReleaseVersion": "x",
    }
    after["LaunchTemplate"] = {"Name": P5, "Version": "2"}
    assert not provisioning.replaces(NODES, on_a_block(), after)


def test_a_cluster_with_node_groups_stays(world: World) -> None:
    assert deletion_faults(CLUSTER, "train", world) == []
    made = make(world, NODES, system())
    assert "Cluster has nodegroups attached: train/system" in str(deletion_faults(CLUSTER, "train", world)[0])
    provisioning.delete(world, NODES, made.physical_id)
    assert deletion_faults(CLUSTER, "train", world) == []
    make(world, CLUSTER, cluster(Name="kept", DeletionProtection=True))
    assert "deletion protection is on for 'kept'" in str(deletion_faults(CLUSTER, "kept", world)[0])


def test_networks_of_clusters_and_nodes_stay(world: World) -> None:
    assert "train" in str(deletion_faults("AWS::EC2::Subnet", SUBNETS[0], world)[0])
    make(
        world,
        CLUSTER,
        cluster(Name="guarded", ResourcesVpcConfig={"SubnetIds": SUBNETS, "SecurityGroupIds": [GROUP]}),
    )
    assert "guarded" in str(deletion_faults("AWS::EC2::SecurityGroup", GROUP, world)[0])


ADD_ON_FAULTS: list[tuple[Json, str]] = [
    ({"ClusterName": "gone"}, "No cluster found for name: gone."),
    ({"AddonName": "vpc-cnii"}, "Addon 'vpc-cnii' specified is not supported; the emulator knows vpc-cni"),
    ({"AddonName": "coredns"}, "InsufficientNumberOfReplicas: coredns needs nodes without taints"),
    ({"ConfigurationValues": '{"env": '}, "ConfigurationValues cannot be read"),
    ({"ServiceAccountRoleArn": "nodes"}, "'nodes' is not the ARN of an IAM role"),
    (
        {"PodIdentityAssociations": [{"ServiceAccount": "aws-node", "RoleArn": f"{IAM}/nodes"}]},
        "Following required service principals [pods.eks.amazonaws.com] were not found",
    ),
]


@pytest.mark.parametrize(("more", "message"), ADD_ON_FAULTS)
def test_a_wrong_add_on_is_refused(more: Json, message: str, world: World) -> None:
    assert message in messages(ADD_ON, {"ClusterName": "train", "AddonName": "vpc-cni", **more}, world)


def test_an_add_on_of_replicas_comes_after_nodes_that_take_it(world: World) -> None:
    coredns = {"ClusterName": "train", "AddonName": "coredns"}
    tainted = {**system(), "Taints": [{"Key": "nvidia.com/gpu", "Effect": "NO_SCHEDULE"}]}
    make(world, NODES, tainted)
    assert "coredns needs nodes without taints" in messages(ADD_ON, coredns, world)
    make(world, NODES, another_name(system()))
    assert creation_faults(ADD_ON, coredns, world) == []


def entry() -> Json:
    return {
        "ClusterName": "train",
        "PrincipalArn": f"{IAM}/admins",
        "AccessPolicies": [
            {
                "PolicyArn": "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
                "AccessScope": {"Type": "cluster"},
            }
        ],
    }


ENTRY_FAULTS = [
    (put("ClusterName", "gone"), "No cluster found for name: gone."),
    (put("ClusterName", "old"), "authentication mode must be set to one of [API, API_AND_CONFIG_MAP]"),
    (put("PrincipalArn", "arn:aws:sts::123456789012:assumed-role/admins/me"), "The specified principalArn is invalid: invalid principal"),
    (put("PrincipalArn", f"{IAM}/aws-service-role/eks.amazonaws.com/X"), "principalArn value of a Service Linked Role"),
    (put("PrincipalArn", f"{IAM}/twice"), "The specified access entry resource is already in use on this cluster"),
    (put("PrincipalArn", f"{IAM}/nodes"), "The specified access entry resource is already in use on this cluster"),
    (put("Type", "EC2_LINUX"), "an entry of type EC2_LINUX takes no AccessPolicies"),
    (put("Type", "LINUX"), "'LINUX' is not one of STANDARD"),
    (put("Username", "system:admin"), "it can't start with system:"),
    (put("AccessPolicies.0.PolicyArn", "arn:aws:iam::aws:policy/AdministratorAccess"), "is not the ARN of an access policy of EKS"),
    (put("AccessPolicies.0.AccessScope.Type", "namespace"), "namespaces require the scope namespace"),
    (put("AccessPolicies.0.AccessScope.Namespaces", ["default"]), "namespaces require the scope namespace"),
]  # fmt: skip


@pytest.mark.parametrize(("mutate", "message"), ENTRY_FAULTS)
def test_a_wrong_access_entry_is_refused(mutate: Mutation, message: str, world: World) -> None:
    make(world, CLUSTER, {**cluster(Name="old"), "AccessConfig": {"AuthenticationMode": "CONFIG_MAP"}})
    make(world, NODES, system())
    make(world, ENTRY, {**entry(), "PrincipalArn": f"{IAM}/twice"})
    assert creation_faults(ENTRY, entry(), world) == []
    properties = entry()
    mutate(properties)
    assert message in messages(ENTRY, properties, world)


def test_nodes_elsewhere_get_no_entry(world: World) -> None:
    far = {
        "ClusterName": "train",
        "Type": "EC2_LINUX",
        "PrincipalArn": "arn:aws:iam::999999999999:role/nodes",
    }
    assert "is a role of the cluster's account" in messages(ENTRY, far, world)


def identity(**more: Any) -> Json:
    return {
        "ClusterName": "train",
        "Namespace": "kube-system",
        "ServiceAccount": "fsx-csi-controller-sa",
        "RoleArn": f"{IAM}/pods",
        **more,
    }


def test_a_wrong_pod_identity_is_refused(world: World) -> None:
    assert "No cluster found for name: gone." in messages(IDENTITY, identity(ClusterName="gone"), world)
    wrong = messages(IDENTITY, identity(RoleArn=f"{IAM}/nodes"), world)
    assert "Following required service principals [pods.eks.amazonaws.com] were not found" in wrong
    assert "a policy needs DisableSessionTags" in messages(IDENTITY, identity(Policy="{}"), world)
    make(world, IDENTITY, identity())
    assert "has an association already" in messages(IDENTITY, identity(), world)
    assert creation_faults(IDENTITY, identity(ServiceAccount="other"), world) == []
