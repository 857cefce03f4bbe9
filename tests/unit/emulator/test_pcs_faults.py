"""Every fault that the emulator finds in AWS PCS beyond the schemas, one change of a good resource each."""

from __future__ import annotations

import base64
import copy
from datetime import timedelta
from typing import Any

import pytest

from gpu_clusters_emulator import pcs, provisioning
from gpu_clusters_emulator.faults import Refused
from gpu_clusters_emulator.models import pcs_clusters, pcs_settings
from gpu_clusters_emulator.models.registry import change_faults, creation_faults
from gpu_clusters_emulator.seeds import plant
from gpu_clusters_emulator.world import Resource, Type, World
from mutations import Mutation, drop, put
from plain_pcs import USER_DATA

Json = dict[str, Any]

A, B, LOCAL = "subnet-0aaaaaaaaaaaaaaaa", "subnet-0bbbbbbbbbbbbbbbb", "subnet-0cccccccccccccccc"
GROUP = "sg-0123456789abcdef0"
PROFILE = "arn:aws:iam::123456789012:instance-profile/AWSPCS-nodes"
ODCR, BLOCK, ENDED = "cr-0123456789abcdef0", "cr-0fedcba9876543210", "cr-00000000000000dea"
RACK = "arn:aws:resource-groups:us-east-1:123456789012:group/rack"
SEED: Json = {
    "now": "2026-11-21T08:00Z",
    "subnets": {A: "us-east-1a", B: "us-east-1b", LOCAL: "us-east-1-dfw-2a"},
    "security_groups": [GROUP],
    "reservations": [
        {"id": ODCR, "instance_type": "p5.48xlarge", "availability_zone": "us-east-1a", "count": 4},
        {
            "id": BLOCK, "instance_type": "p5.48xlarge", "availability_zone": "us-east-1a", "count": 4,
            "kind": "capacity-block", "starts_at": "2026-12-01T11:30Z", "ends_at": "2026-12-08T11:30Z",
        },
        {
            "id": ENDED, "instance_type": "p5.48xlarge", "availability_zone": "us-east-1a", "count": 4,
            "kind": "capacity-block", "ends_at": "2026-11-01T11:30Z",
        },
    ],
    "reservation_groups": {"rack": [ODCR]},
}  # fmt: skip
CLUSTER: Json = {
    "Name": "train",
    "Size": "SMALL",
    "Scheduler": {"Type": "SLURM", "Version": "25.11"},
    "Networking": {"SubnetIds": [A], "SecurityGroupIds": [GROUP]},
}
DATA: Json = {"SecurityGroupIds": [GROUP], "UserData": USER_DATA}


def settings(*pairs: tuple[str, str]) -> list[Json]:
    return [{"ParameterName": name, "ParameterValue": value} for name, value in pairs]


@pytest.fixture
def world() -> World:
    """A cluster that is there, and no group in it."""
    made = World()
    plant(made, SEED)
    cluster = provisioning.create(made, Type.PCS_CLUSTER, "Cluster", CLUSTER, "stack")
    made.clock.set(pcs.ready_at(cluster))
    return made


def template(world: World, data: Json) -> str:
    created = provisioning.create(world, Type.LAUNCH_TEMPLATE, "Template", {"LaunchTemplateData": data}, "stack")
    return created.physical_id


def group(world: World, data: Json | None = None) -> Json:
    return {
        "ClusterId": "train",
        "AmiId": "ami-0123456789abcdef0",
        "IamInstanceProfileArn": PROFILE,
        "InstanceConfigs": [{"InstanceType": "p5.48xlarge"}],
        "ScalingConfiguration": {"MinInstanceCount": 2, "MaxInstanceCount": 2},
        "SubnetIds": [A],
        "CustomLaunchTemplate": {"TemplateId": template(world, data or DATA), "Version": "1"},
    }


def messages(type_name: str, properties: Json, world: World) -> list[str]:
    return [str(one) for one in creation_faults(type_name, properties, world)]


def found(type_name: str, properties: Json, world: World, text: str) -> bool:
    return any(text in one for one in messages(type_name, properties, world))


def test_good_resources_have_no_faults(world: World) -> None:
    assert messages(Type.PCS_CLUSTER, {**CLUSTER, "Name": "other"}, world) == []
    assert messages(Type.PCS_NODE_GROUP, group(world), world) == []
    assert messages(Type.PCS_NODE_GROUP, on_block(world), world) == []


@pytest.mark.parametrize(
    ("mutate", "text"),
    [
        (put("Name", "train"), "ConflictException: a cluster with the same name already exists: train"),
        (put("Name", "2many"), "does not have the form"),
        (put("Name", "pcs_mine"), "does not have the form"),
        (put("Name", "ab"), "at least 3 characters, got 2"),
        (put("Name", "a" * 41), "at most 40 characters, got 41"),
        (put("Size", "HUGE"), "is not one of"),
        (put("Scheduler.Version", "22.05"), "one of 23.11, 24.05, 24.11, 25.05, 25.11, 26.05"),
        (put("Networking.SubnetIds", [A, B]), "currently supports only 1 subnet in this list, got 2"),
        (put("Networking.SubnetIds", []), "should be non-empty"),
        (put("Networking.SubnetIds", [LOCAL]), "us-east-1-dfw-2a: subnets can't be in Outposts, Wavelength or a Local"),
        (put("Networking.SubnetIds", ["subnet-0dddddddddddddddd"]), "does not exist"),
        (put("Networking.SecurityGroupIds", ["sg-0dddddddddddddddd"]), "does not exist"),
        (put("SlurmConfiguration", {"SlurmCustomSettings": []}), "SlurmCustomSettings is empty"),
        (put("SlurmConfiguration", {"CgroupCustomSettings": []}), "CgroupCustomSettings is empty"),
        (put("SlurmConfiguration", {"ScaleDownIdleTimeInSeconds": 0}), "minimum of 1"),
        (put("SlurmConfiguration.Accounting", {"Mode": "STANDARD", "DefaultPurgeTimeInDays": 0}), "0 isn't a valid"),
        (put("SlurmConfiguration.Accounting", {"Mode": "STANDARD", "DefaultPurgeTimeInDays": 10_001}), "maximum of 10000"),
        (put("SlurmConfiguration.SlurmCustomSettings", settings(("SlurmUser", "root"))), "SlurmUser is not supported"),
        (
            put("SlurmConfiguration.SlurmCustomSettings", settings(("Prolog", "/a"), ("prolog", "/b"))),
            "prolog is given 2 times",
        ),
        (put("SlurmConfiguration.SlurmCustomSettings", settings(("MinJobAge", "4"))), "MinJobAge is at least 5 seconds"),
    ],
)  # fmt: skip
def test_faults_of_a_cluster(world: World, mutate: Mutation, text: str) -> None:
    given = {**copy.deepcopy(CLUSTER), "Name": "other"}
    mutate(given)
    assert found(Type.PCS_CLUSTER, given, world, text), messages(Type.PCS_CLUSTER, given, world)


@pytest.mark.parametrize(
    ("version", "slurm", "text"),
    [
        ("25.05", {"SlurmCustomSettings": settings(("MetricsType", "metrics/openmetrics"))}, "MetricsType="),
        ("25.05", {"SlurmCustomSettings": settings(("SelectTypeParameters", "CR_Socket"))}, "SelectTypeParameters="),
        ("24.11", {"SlurmRest": {"Mode": "STANDARD"}}, "the Slurm REST API needs Slurm 25.05"),
    ],
)
def test_what_needs_a_newer_version(world: World, version: str, slurm: Json, text: str) -> None:
    given = {**CLUSTER, "Name": "other", "SlurmConfiguration": slurm}
    assert messages(Type.PCS_CLUSTER, given, world) == []
    given["Scheduler"] = {"Type": "SLURM", "Version": version}
    assert found(Type.PCS_CLUSTER, given, world, text)


def test_a_new_cluster_takes_no_version_that_is_only_kept(world: World) -> None:
    """API model: the lists of CreateCluster and of a described cluster differ."""
    given = {**CLUSTER, "Name": "other", "Scheduler": {"Type": "SLURM", "Version": "24.05"}}
    assert messages(Type.PCS_CLUSTER, given, world) == [], "a cluster may still have it"
    with pytest.raises(Refused, match=r"a new cluster takes Slurm 24\.11, 25\.05, 25\.11, 26\.05, got '24\.05'"):
        provisioning.create(world, Type.PCS_CLUSTER, "Other", given, "stack")


def test_one_cluster_is_created_at_a_time(world: World) -> None:
    provisioning.create(world, Type.PCS_CLUSTER, "Second", {**CLUSTER, "Name": "second"}, "stack")
    with pytest.raises(Refused, match="in a Creating state: second"):
        provisioning.create(world, Type.PCS_CLUSTER, "Third", {**CLUSTER, "Name": "third"}, "stack")
    world.region = "us-west-2"
    provisioning.create(world, Type.PCS_CLUSTER, "Elsewhere", {**CLUSTER, "Name": "third"}, "stack")


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ("24.05", "25.11", ""),
        ("24.11", "26.05", ""),
        ("23.11", "25.05", ""),
        ("23.11", "25.11", "at most 3 major versions ahead"),
        ("25.11", "25.05", "to a newer version"),
        ("24.05", "23.11", "23.11 is not a version to update to"),
    ],
)
def test_steps_of_a_version(world: World, before: str, after: str, text: str) -> None:
    """AWS PCS user guide, "Version compatibility": 24.11 to 25.11 and 25.05; 23.11 as far as 25.05."""
    old, new = ({**CLUSTER, "Scheduler": {"Type": "SLURM", "Version": one}} for one in (before, after))
    cluster = world.pcs_cluster("train")
    assert cluster is not None
    faults = [str(one) for one in change_faults(Type.PCS_CLUSTER, cluster.physical_id, old, new, world)]
    assert (faults == []) if not text else (text in faults[0])


def test_a_cluster_is_updated_while_its_groups_rest(world: World) -> None:
    cluster = world.pcs_cluster("train")
    assert cluster is not None
    provisioning.create(world, Type.PCS_NODE_GROUP, "Nodes", group(world), "stack")
    (fault,) = change_faults(Type.PCS_CLUSTER, cluster.physical_id, CLUSTER, CLUSTER, world)
    assert "must be in ACTIVE state: Nodes-" in fault.message
    world.clock.set(world.clock.now() + timedelta(minutes=6))
    assert change_faults(Type.PCS_CLUSTER, cluster.physical_id, CLUSTER, CLUSTER, world) == []


@pytest.mark.parametrize(
    ("mutate", "text"),
    [
        (put("Name", "a" * 26), "at most 25 characters, got 26"),
        (put("ClusterId", "gone"), "ResourceNotFoundException: there is no cluster gone"),
        (put("ClusterId", "arn:aws:pcs:us-east-1:123456789012:cluster/pcs_1"), "give the Id or the name of the cluster"),
        (put("ScalingConfiguration", {"MinInstanceCount": 0, "MaxInstanceCount": 0}), "is greater than 0, got 0"),
        (put("ScalingConfiguration", {"MinInstanceCount": 1, "MaxInstanceCount": 2}), "a mix is not supported, got 1 and 2"),
        (put("ScalingConfiguration", {"MinInstanceCount": 3, "MaxInstanceCount": 2}), "a mix is not supported, got 3 and 2"),
        (put("ScalingConfiguration", {"MinInstanceCount": 0, "MaxInstanceCount": 33}), "size SMALL has at most 32"),
        (put("InstanceConfigs", []), "at least one instance type is needed"),
        (put("InstanceConfigs", [{"InstanceType": "p5.49xlarge"}]), "there is no instance type 'p5.49xlarge'"),
        (
            put("InstanceConfigs", [{"InstanceType": "p5.48xlarge"}, {"InstanceType": "p4d.24xlarge"}]),
            "all instance types have the same architecture, vCPUs and GPUs",
        ),
        (put("SubnetIds", ["subnet-0dddddddddddddddd"]), "does not exist"),
        (put("CustomLaunchTemplate.Version", "2"), "with version 2"),
        (put("CustomLaunchTemplate.Version", "$Latest"), "a specific version of the launch template is required"),
        (drop("CustomLaunchTemplate.Version"), "Version is required"),
        (drop("AmiId"), "AmiId or an ImageId in the launch template is required"),
        (put("PurchaseOption", "CAPACITY_BLOCK"), "CAPACITY_BLOCK and MarketType none of the launch template do not agree"),
        (put("SlurmConfiguration.ScaleDownIdleTimeInSeconds", 0), "minimum of 1"),
        (put("SlurmConfiguration.SlurmCustomSettings", settings(("Prolog", "/a"))), "Prolog is not supported for a compute"),
        (put("NodeLifecycleActions", {"Stages": {}}), "at least one stage with a script"),
    ],
)  # fmt: skip
def test_faults_of_a_compute_node_group(world: World, mutate: Mutation, text: str) -> None:
    given = group(world)
    mutate(given)
    assert found(Type.PCS_NODE_GROUP, given, world, text), messages(Type.PCS_NODE_GROUP, given, world)


def card(index: int, device: int = 1, **more: Any) -> Json:
    return {
        "NetworkCardIndex": index, "DeviceIndex": device, "InterfaceType": "efa", "Groups": [GROUP], **more
    }  # fmt: skip


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"NetworkInterfaces": [card(0, 0, SubnetId=A), card(1, SubnetId=A)]}, ""),
        ({"NetworkInterfaces": [card(0, 0), card(1, 0)]}, ""),  # as AWS's own template for p6-b300
        ({"NetworkInterfaces": [card(0, 0, SubnetId=B)]}, f"the subnet of each network interface must be the group's, got {B}"),
        ({"NetworkInterfaces": [card(0, 0), card(0, 1)]}, "must have a unique NetworkCardIndex; 2 are on card 0"),
        ({"NetworkInterfaces": [card(0, 0, Groups=[])]}, "card 0 has none"),
        ({"NetworkInterfaces": [card(0, 0), card(32)]}, "p5.48xlarge has no network card 32"),
        ({"UserData": base64.b64encode(b"#!/bin/bash\n").decode()}, "user data must be multi-part encoded"),
        ({"SecurityGroups": ["default"]}, "a list of security group names can't be set"),
        ({"SecurityGroupIds": ["sg-0dddddddddddddddd"]}, "does not exist"),
        (
            {"CapacityReservationSpecification": {"CapacityReservationTarget": {"CapacityReservationId": ODCR}}},
            "cannot reference a specific CapacityReservationId with PurchaseOption ONDEMAND",
        ),
        (
            {"CapacityReservationSpecification": {"CapacityReservationTarget": {"CapacityReservationResourceGroupArn": RACK}}},
            "",
        ),
        ({"InstanceMarketOptions": {"MarketType": "capacity-block"}}, "ONDEMAND and MarketType capacity-block"),
        ({"InstanceType": "m7i.large", "DisableApiTermination": True, "HibernationOptions": {"Configured": True}}, ""),
    ],
)  # fmt: skip
def test_faults_of_a_launch_template(world: World, data: Json, text: str) -> None:
    given = group(world, {"UserData": USER_DATA, **data})
    shown = messages(Type.PCS_NODE_GROUP, given, world)
    assert shown == [] if not text else any(text in one for one in shown), shown


def on_block(world: World, block: str = BLOCK, **data: Any) -> Json:
    target = {"CapacityReservationTarget": {"CapacityReservationId": block}}
    made = {
        **DATA,
        "InstanceType": "p5.48xlarge",
        "InstanceMarketOptions": {"MarketType": "capacity-block"},
        "CapacityReservationSpecification": target,
        **data,
    }
    return {**group(world, made), "PurchaseOption": "CAPACITY_BLOCK"}


@pytest.mark.parametrize(
    ("block", "data", "properties", "text"),
    [
        (BLOCK, {"InstanceType": "p4d.24xlarge"}, {}, "must include its InstanceType p5.48xlarge, got p4d.24xlarge"),
        (BLOCK, {}, {"InstanceConfigs": [{"InstanceType": "p4d.24xlarge"}]}, "is for that type alone, got p4d.24xlarge"),
        (ENDED, {}, {}, "must be in a scheduled or active state, and is expired"),
        (
            BLOCK, {}, {"ScalingConfiguration": {"MinInstanceCount": 0, "MaxInstanceCount": 5}},
            "MaxInstanceCount 5 must not exceed the size of the Capacity Block, 4",
        ),
        (BLOCK, {}, {"SubnetIds": [B]}, "is in us-east-1a, and the subnets in us-east-1b"),
        (BLOCK, {"CapacityReservationSpecification": {}}, {}, "needs a CapacityReservationId"),
        (ODCR, {}, {}, "is an On-Demand Capacity Reservation, not a Capacity Block"),
        (BLOCK, {"Placement": {"GroupName": "rack"}}, {}, "Capacity Blocks do not support placement groups"),
    ],
)  # fmt: skip
def test_faults_of_a_group_on_a_block(world: World, block: str, data: Json, properties: Json, text: str) -> None:
    given = {**on_block(world, block, **data), **properties}
    assert found(Type.PCS_NODE_GROUP, given, world, text), messages(Type.PCS_NODE_GROUP, given, world)


GPU = {"Name": "gpu", "Type": "h100", "File": "/dev/nvidia[0-7]"}


@pytest.mark.parametrize(
    ("gres", "records", "text"),
    [
        ("gpu:h100:8", [GPU], ""),
        ("gpu:h100:4", [GPU], ""),
        ("gpu:1g.10gb:56", [{"AutoDetect": "nvml"}], ""),
        ("gpu:1g.10gb:24,gpu:3g.40gb:8", [{"Name": "gpu", "AutoDetect": "full"}], ""),
        ("gpu:h100:8,shard:64", [GPU, {"Name": "shard", "Count": "64"}], ""),
        ("gpu:h100:9", [GPU], "Gres has 9 of gpu, and the gres.conf records declare 8"),
        ("gpu:a100:8", [GPU], "Gres has the GPU type a100, and the gres.conf record has h100"),
        ("gpu:8", [], "Gres names gpu, and no gres.conf record declares it"),
        ("gpu:h100:8,fpga:1", [GPU], "Gres names fpga, and no gres.conf record declares it"),
        ("", [GPU, {**GPU, "Type": "1g.10gb"}], "at most one GPU record for a compute node group, got 2"),
        ("", [{"AutoDetect": "off"}], "either a Name or an active AutoDetect value"),
        ("", [{"Name": "gpu", "Type": "h100"}], "a GPU record specifies File or MultipleFiles"),
        ("", [{**GPU, "NodeName": "a"}], "gres.conf takes AutoDetect, Cores"),
        ("gpu:1g.10gb:2", [{**GPU, "Type": "1g.10gb", "MultipleFiles": "/dev/a,/dev/b"}], "records declare 1"),
    ],
)  # fmt: skip
def test_gres_agrees_with_its_records(world: World, gres: str, records: list[Json], text: str) -> None:
    """AWS PCS user guide, "Constraints between gres.conf and the Gres setting"."""
    slurm = {"SlurmCustomSettings": settings(("Gres", gres)) if gres else settings(("Weight", "1"))}
    slurm |= {"GresCustomSettings": records} if records else {}
    given = {**group(world), "SlurmConfiguration": slurm}
    shown = messages(Type.PCS_NODE_GROUP, given, world)
    assert shown == [] if not text else any(text in one for one in shown), shown


def test_groups_share_the_nodes_of_their_cluster(world: World) -> None:
    first = {**group(world), "Name": "first", "ScalingConfiguration": {"MinInstanceCount": 0, "MaxInstanceCount": 30}}
    provisioning.create(world, Type.PCS_NODE_GROUP, "First", first, "stack")
    assert messages(Type.PCS_NODE_GROUP, {**group(world), "Name": "other"}, world) == []
    third = {"MinInstanceCount": 3, "MaxInstanceCount": 3}
    assert found(
        Type.PCS_NODE_GROUP,
        {**group(world), "ScalingConfiguration": third},
        world,
        "ServiceQuotaExceededException: the maximums of all compute node groups make 33 nodes",
    )
    assert found(Type.PCS_NODE_GROUP, {**group(world), "Name": "first"}, world, "first already exists in the cluster")


@pytest.mark.parametrize(
    ("name", "role", "text"),
    [
        ("AWSPCS-nodes", {}, ""),
        ("nodes", {"Path": "/aws-pcs/"}, ""),
        ("nodes", {}, "the role name must start with AWSPCS or must have the path /aws-pcs/, got /nodes"),
        ("AWSPCS-nodes", {"Service": "pcs.amazonaws.com"}, "ec2.amazonaws.com may not assume the role AWSPCS-nodes"),
    ],
)
def test_the_role_of_nodes(world: World, name: str, role: Json, text: str) -> None:
    service = role.get("Service", "ec2.amazonaws.com")
    trust = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    document = {"Statement": [trust]}
    properties = {"Path": role.get("Path", "/"), "AssumeRolePolicyDocument": document}
    region = world.region
    world.add(Resource(type="AWS::IAM::Role", physical_id=name, region=region, properties=properties))
    world.add(
        Resource(
            type="AWS::IAM::InstanceProfile",
            physical_id="AWSPCS-nodes",
            region=region,
            properties={"Roles": [name]},
            attributes={"Arn": PROFILE},
        )
    )
    shown = messages(Type.PCS_NODE_GROUP, group(world), world)
    assert shown == [] if not text else any(text in one for one in shown), shown


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ({"Name": "a" * 65}, "is too long"),
        ({"Arguments": ["x"] * 21}, "is too long"),
        ({"Arguments": ["x" * 257]}, "is too long"),
        ({"OnError": "RETRY"}, "is not one of"),
        ({"ScriptSource": {"ScriptLocation": "ftp://a/b"}}, "does not match"),
        ({"ScriptSource": {"ScriptLocation": "https://a.example/b", "Checksum": "ab"}}, "is too short"),
        ({"ScriptSource": {"ScriptLocation": "https://a.example/b", "S3VersionId": "1"}}, "only valid with an S3 URI"),
    ],
)
def test_faults_of_a_script(world: World, script: Json, text: str) -> None:
    good = {"Name": "verify", "ScriptSource": {"ScriptLocation": "https://a.example/b"}}
    given = {**group(world), "NodeLifecycleActions": {"Stages": {"NodeReady": [good]}}}
    assert messages(Type.PCS_NODE_GROUP, given, world) == []
    given["NodeLifecycleActions"] = {"Stages": {"NodeReady": [{**good, **script}]}}
    assert found(Type.PCS_NODE_GROUP, given, world, text), messages(Type.PCS_NODE_GROUP, given, world)


def test_scripts_of_one_name_are_refused(world: World) -> None:
    good = {"Name": "verify", "ScriptSource": {"ScriptLocation": "https://a.example/b"}}
    stages = {"NodeBootstrapped": [good], "NodeReady": [good]}
    given = {**group(world), "NodeLifecycleActions": {"Stages": stages}}
    assert found(Type.PCS_NODE_GROUP, given, world, "the name of a script is unique; 'verify' is given 2 times")


@pytest.mark.parametrize(
    ("mutate", "text"),
    [
        (put("Name", "a" * 26), "at most 25 characters"),
        (put("Name", "jobs"), "a queue jobs already exists in the cluster"),
        (drop("ComputeNodeGroupConfigurations"), "1 or more compute node groups"),
        (put("ComputeNodeGroupConfigurations.0.ComputeNodeGroupId", "pcs_gone"), "no compute node group with the Id"),
        (put("SlurmConfiguration.SlurmCustomSettings", settings(("Weight", "1"))), "Weight is not supported for a queue"),
        (put("ClusterId", "gone"), "there is no cluster gone"),
    ],
)  # fmt: skip
def test_faults_of_a_queue(world: World, mutate: Mutation, text: str) -> None:
    nodes = provisioning.create(world, Type.PCS_NODE_GROUP, "Nodes", group(world), "stack")
    given: Json = {
        "ClusterId": "train",
        "Name": "other",
        "ComputeNodeGroupConfigurations": [{"ComputeNodeGroupId": nodes.attributes["Id"]}],
    }
    assert found(Type.PCS_QUEUE, given, world, "is not ACTIVE, but CREATING")
    world.clock.set(pcs.ready_at(nodes))
    assert messages(Type.PCS_QUEUE, given, world) == []
    provisioning.create(world, Type.PCS_QUEUE, "Queue", {**given, "Name": "jobs"}, "stack")
    mutate(given)
    assert found(Type.PCS_QUEUE, given, world, text), messages(Type.PCS_QUEUE, given, world)


def test_sizes_and_versions_are_read_from_the_api_model() -> None:
    """If AWS words its documentation otherwise, nothing would be checked: this notices."""
    assert pcs_clusters.node_limits() == {"SMALL": 32, "MEDIUM": 512, "LARGE": 2048}
    assert pcs_settings.version_of("25.11") == (25, 11)
    assert pcs_settings.version_of("latest") == (0, 0)
