"""The DNS record of a fleet that a collector scrapes, deployed: the emulator runs the schedule and the state machine."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk.assertions import Template

from cdk_gpu_clusters import (
    ClusterNetwork,
    ClusterSize,
    GpuFleet,
    MetricsScraper,
    NodeWatch,
    PcsCluster,
    ScrapedFleet,
    ScrapedNodeGroup,
)
from cdk_gpu_clusters.testing import InProcessEmulator

ZONES = ["us-east-1a", "us-east-1b"]
RECORD = "trainers.lab.metrics.internal."


@pytest.fixture(scope="module")
def account() -> Iterator[InProcessEmulator]:
    with InProcessEmulator() as made:
        yield made


@pytest.fixture(scope="module")
def template(app_factory: Any) -> dict[str, Any]:
    made = cdk.Stack(app_factory(), "Training")
    network = ClusterNetwork(made, "Network", availability_zone=ZONES[0], control_availability_zones=ZONES)
    fleet = GpuFleet(
        made,
        "Trainers",
        vpc=network.vpc,
        vpc_subnets=ec2.SubnetSelection(subnets=[network.fleet_subnet]),
        instance_type="g6.xlarge",
        min_node_count=0,
        max_node_count=3,
        watch=NodeWatch(metrics_port=9810),
    )
    MetricsScraper(
        made,
        "Scraper",
        vpc=network.vpc,
        vpc_subnets=ec2.SubnetSelection(subnets=network.load_balancer_subnets),
        zone_name="lab.metrics.internal",
        fleets=[ScrapedFleet(name="trainers", fleet=fleet)],
    )
    return dict(Template.from_stack(made).to_json())


def resize(account: InProcessEmulator, nodes: int) -> set[str]:
    """Set the size of the group and wait for the next run; the addresses of its nodes in service."""
    scaling = account.client("autoscaling")
    (group,) = scaling.describe_auto_scaling_groups()["AutoScalingGroups"]
    scaling.set_desired_capacity(AutoScalingGroupName=group["AutoScalingGroupName"], DesiredCapacity=nodes)
    account.make_nodes_ready()
    account.move_clock(datetime.fromisoformat(account.now) + timedelta(minutes=3, seconds=1))
    (group,) = scaling.describe_auto_scaling_groups()["AutoScalingGroups"]
    serving = [one["InstanceId"] for one in group["Instances"] if one["LifecycleState"] == "InService"]
    assert len(serving) == nodes
    found = account.client("ec2").describe_instances(InstanceIds=[*serving, "i-0"])["Reservations"]
    return {one["PrivateIpAddress"] for each in found for one in each["Instances"]}


def record(account: InProcessEmulator) -> set[str]:
    """The addresses that the record has; empty if there is none."""
    (zone,) = account.resources("AWS::Route53::HostedZone")
    records = {one["Name"]: one for one in zone["properties"].get("Records", [])}
    assert set(records) <= {RECORD}
    return {value["Value"] for one in records.values() for value in one["ResourceRecords"]}


def test_the_record_follows_the_nodes_in_service(account: InProcessEmulator, template: dict[str, Any]) -> None:
    account.deploy(template)
    for nodes in (0, 3, 2, 0, 1):
        addresses = resize(account, nodes)
        assert record(account) == addresses
    history = account.history()
    assert history["denied"] == []
    runs = [one for one in history["executions"] if "name" in str(one["input"])]
    assert {one["status"] for one in runs} == {"SUCCEEDED"}


def test_the_record_of_a_controller_has_its_address(app_factory: Any) -> None:
    stack = cdk.Stack(app_factory(), "Slurm")
    network = ClusterNetwork(stack, "Network", availability_zone=ZONES[0], control_availability_zones=ZONES)
    subnets = ec2.SubnetSelection(subnets=network.load_balancer_subnets)
    cluster = PcsCluster(
        stack, "Cluster", vpc=network.vpc, subnet=network.fleet_subnet, size=ClusterSize.SMALL, metrics=True
    )
    scraped = {"trainers": cluster}
    name = "lab.metrics.internal"
    MetricsScraper(stack, "Scraper", vpc=network.vpc, vpc_subnets=subnets, zone_name=name, slurm_clusters=scraped)
    with InProcessEmulator() as account:
        account.deploy(dict(Template.from_stack(stack).to_json()))
        account.move_clock(datetime.fromisoformat(account.now) + timedelta(minutes=20))
        client = account.client("pcs")
        (found,) = client.list_clusters()["clusters"]
        endpoints = client.get_cluster(clusterIdentifier=found["id"])["cluster"]["endpoints"]
        assert record(account) == {one["privateIpAddress"] for one in endpoints if one["type"] == "SLURMCTLD"}
        assert account.history()["denied"] == []


def test_the_record_of_compute_nodes_has_those_that_had_time_to_boot(app_factory: Any) -> None:
    stack = cdk.Stack(app_factory(), "Slurm")
    network = ClusterNetwork(stack, "Network", availability_zone=ZONES[0], control_availability_zones=ZONES)
    cluster = PcsCluster(stack, "Cluster", vpc=network.vpc, subnet=network.fleet_subnet, size=ClusterSize.SMALL)
    watch = NodeWatch(metrics_port=9810)
    nodes, _others = (
        cluster.add_gpu_node_group(name, instance_type="g6.xlarge", node_count=count, watch=watch)
        for name, count in (("Nodes", 2), ("Others", 1))
    )
    scraped = ScrapedNodeGroup(
        name="trainers", cluster=cluster, node_group_id=nodes.node_group_id, fleet_path=nodes.fleet_path
    )
    MetricsScraper(
        stack,
        "Scraper",
        vpc=network.vpc,
        vpc_subnets=ec2.SubnetSelection(subnets=network.load_balancer_subnets),
        zone_name="lab.metrics.internal",
        node_groups=[scraped],
    )
    with InProcessEmulator() as account:
        account.deploy(dict(Template.from_stack(stack).to_json()))
        client = account.client("pcs")
        (slurm,) = client.list_clusters()["clusters"]
        groups = client.list_compute_node_groups(clusterIdentifier=slurm["id"])["computeNodeGroups"]
        (group,) = [one["id"] for one in groups if "others" not in one["name"].lower()]
        seen = [after_a_run(account, group)]
        client.update_compute_node_group(
            clusterIdentifier=slurm["id"],
            computeNodeGroupIdentifier=group,
            scalingConfiguration={"minInstanceCount": 3, "maxInstanceCount": 3},
        )
        seen += [after_a_run(account, group) for _ in range(6)]
        assert account.history()["denied"] == []
    assert (seen[0], seen[-1]) == ((2, 2), (3, 3))
    assert (2, 3) in seen, "a new node is not in the record at once"


def after_a_run(account: InProcessEmulator, group: str) -> tuple[int, int]:
    """Nodes in the record after its next run, and nodes of the group."""
    account.move_clock(datetime.fromisoformat(account.now) + timedelta(minutes=3, seconds=1))
    tag = {"Name": "tag:aws:pcs:compute-node-group-id", "Values": [group]}
    found = account.client("ec2").describe_instances(Filters=[tag])["Reservations"]
    addresses = {one["PrivateIpAddress"] for each in found for one in each["Instances"]}
    assert record(account) <= addresses
    return len(record(account)), len(addresses)
