"""The life of a node group of EKS on a Capacity Block, in a cluster that exists, with a clock that is moved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk.assertions import Template

from cdk_gpu_clusters import Capacity, RootVolume
from cdk_gpu_clusters.orchestration.eks.cluster import EksGpuCluster
from cdk_gpu_clusters.orchestration.eks.node_group import EksGpuNodeGroup
from cdk_gpu_clusters.testing import DeployFailed, InProcessEmulator, assert_fleet_size

BLOCK, NEXT_BLOCK = "cr-0123456789abcdef0", "cr-0fedcba9876543210"
START, END = "2026-12-01T11:30Z", "2026-12-15T11:30Z"
NEXT_START, NEXT_END = "2027-01-05T11:30Z", "2027-01-12T11:30Z"
BEFORE, DURING, AFTER = "2026-11-22T08:00Z", "2026-12-05T00:00Z", "2026-12-16T00:00Z"
VPC, GROUP = "vpc-0123456789abcdef0", "sg-0123456789abcdef0"
SUBNETS = {"subnet-0aaaaaaaaaaaaaaaa": "us-east-1a", "subnet-0bbbbbbbbbbbbbbbb": "us-east-1b"}
NODES = 4
NAMES = {"clusterName": "research"}

Stack = Callable[..., dict[str, Any]]


@pytest.fixture
def account() -> Iterator[InProcessEmulator]:
    block = {
        "id": BLOCK,
        "instance_type": "p5.48xlarge",
        "availability_zone": "us-east-1a",
        "count": NODES,
        "kind": "capacity-block",
        "starts_at": START,
        "ends_at": END,
    }
    cluster = {"version": "1.34", "security_group": GROUP, "subnets": list(SUBNETS)}
    seed = {
        "now": BEFORE,
        "reservations": [block],
        "vpcs": [VPC],
        "subnets": SUBNETS,
        "security_groups": [GROUP],
        "clusters": {"research": cluster},
    }
    with InProcessEmulator(seed=seed) as made:
        yield made


VARIANTS: dict[str, dict[str, Any]] = {
    "first": {},
    "edited": {"root_volume": RootVolume(size_gib=300), "labels": {"team": "speech"}},
    "labelled": {"labels": {"team": "speech"}},
    "next block": {"capacity": Capacity.capacity_block(NEXT_BLOCK, starts_at=NEXT_START, ends_at=NEXT_END)},
    "newer image": {"release_version": "1.34.2-20261101"},
}


@pytest.fixture(scope="module")
def stack(app_factory: Any) -> Stack:
    """Trainers in the cluster, as the variant of that name has them; each is synthesized once."""

    @cache
    def make(variant: str = "first") -> dict[str, Any]:
        made = cdk.Stack(app_factory(), "Training")
        vpc = ec2.Vpc.from_vpc_attributes(
            made,
            "Vpc",
            vpc_id=VPC,
            availability_zones=list(SUBNETS.values()),
            private_subnet_ids=list(SUBNETS),
            private_subnet_route_table_ids=["rtb-0123456789abcdef0", "rtb-0123456789abcdef1"],
        )
        cluster = EksGpuCluster.from_eks_gpu_cluster_attributes(
            made,
            "Research",
            vpc=vpc,
            cluster_name="research",
            cluster_security_group_id=GROUP,
            kubernetes_version="1.34",
        )
        EksGpuNodeGroup(
            made,
            "Trainers",
            cluster=cluster,
            vpc_subnets=ec2.SubnetSelection(subnets=[vpc.private_subnets[0]]),
            instance_type="p5.48xlarge",
            node_count=NODES,
            **{
                "capacity": Capacity.capacity_block(BLOCK, starts_at=START, ends_at=END),
                **VARIANTS[variant],
            },
        )
        return dict(Template.from_stack(made).to_json())

    return make


def node_group(account: InProcessEmulator) -> dict[str, Any]:
    eks = account.client("eks")
    (name,) = eks.list_nodegroups(**NAMES)["nodegroups"]
    found: dict[str, Any] = eks.describe_nodegroup(**NAMES, nodegroupName=name)["nodegroup"]
    return found


def size(account: InProcessEmulator) -> int:
    desired: int = node_group(account)["scalingConfig"]["desiredSize"]
    return desired


def interfaces(account: InProcessEmulator) -> list[dict[str, Any]]:
    """Those of the template with which the group behind the node group launches."""
    (name,) = (one["name"] for one in node_group(account)["resources"]["autoScalingGroups"])
    scaling = account.client("autoscaling")
    (group,) = scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"]
    assert len(group["Instances"]) == group["DesiredCapacity"] == size(account)
    given = group["LaunchTemplate"]
    (version,) = account.client("ec2").describe_launch_template_versions(
        LaunchTemplateId=given["LaunchTemplateId"], Versions=[given["Version"]]
    )["LaunchTemplateVersions"]
    found: list[dict[str, Any]] = version["LaunchTemplateData"]["NetworkInterfaces"]
    return found


def test_a_node_group_grows_with_its_block_and_eks_empties_it_before_the_end(
    account: InProcessEmulator, stack: Stack
) -> None:
    account.deploy(stack())
    account.move_clock("2026-11-22T08:10Z")
    assert size(account) == 0
    account.move_clock(START)
    assert size(account) == NODES
    assert_fleet_size(account, NODES, fleet=node_group(account)["nodegroupName"])
    assert node_group(account)["health"]["issues"] == [], "the nodes reach their cluster"
    assert sum(one["InterfaceType"] == "efa-only" for one in interfaces(account)) == 32
    (reservation,) = account.client("ec2").describe_capacity_reservations()["CapacityReservations"]
    assert reservation["AvailableInstanceCount"] == 0, "the nodes stand in the block"
    account.move_clock("2026-12-15T10:49Z")
    assert size(account) == NODES
    account.move_clock("2026-12-15T10:51Z")
    assert size(account) == 0, "EKS scales down 40 minutes before the end"
    executions = account.history()["executions"]
    assert {one["status"] for one in executions} == {"SUCCEEDED"}
    calls = [call["operation"] for one in executions for call in one["calls"]]
    counting = {"DescribeAutoScalingGroups", "PutMetricData"}
    assert set(calls) == {"DescribeNodegroup", "UpdateNodegroupConfig"} | counting


@pytest.mark.parametrize(("moment", "nodes"), [(DURING, NODES), (AFTER, 0)])
def test_a_node_group_that_comes_late_has_the_size_of_the_moment(
    account: InProcessEmulator, stack: Stack, moment: str, nodes: int
) -> None:
    account.move_clock(moment)
    account.deploy(stack())
    assert size(account) == nodes


@pytest.mark.parametrize(("moment", "nodes"), [(BEFORE, 0), (DURING, NODES), (AFTER, 0)])
def test_a_redeploy_keeps_size_and_nodes(account: InProcessEmulator, stack: Stack, moment: str, nodes: int) -> None:
    account.deploy(stack())
    if moment != BEFORE:
        account.move_clock(moment)
    arn, before = node_group(account)["nodegroupArn"], instances(account)
    account.deploy(stack("edited"))
    after = node_group(account)
    assert (after["nodegroupArn"], after["labels"]["team"], size(account)) == (arn, "speech", nodes)
    assert instances(account) == before, "a new version of the template replaces no node"


@pytest.mark.parametrize("writes_back", [False, True])
@pytest.mark.parametrize(("moment", "nodes"), [(BEFORE, 0), (DURING, NODES), (AFTER, 0)])
def test_no_reading_of_an_update_leaves_a_wrong_size(
    account: InProcessEmulator, stack: Stack, moment: str, nodes: int, writes_back: bool
) -> None:
    """Before and after the block, sizes that come back are corrected by the run that every update starts."""
    account.seed({"writes_sizes_back": writes_back})
    account.deploy(stack())
    if moment != BEFORE:
        account.move_clock(moment)
    before = instances(account)
    account.deploy(stack("labelled"))
    assert (size(account), instances(account)) == (nodes, before)


def test_an_operators_own_size_outlives_an_update(account: InProcessEmulator, stack: Stack) -> None:
    account.deploy(stack())
    account.move_clock(DURING)
    found = node_group(account)
    eks = account.client("eks")
    eks.tag_resource(resourceArn=found["nodegroupArn"], tags={"gpu-clusters:size": "manual"})
    eks.update_nodegroup_config(**NAMES, nodegroupName=found["nodegroupName"], scalingConfig={"desiredSize": 3})
    account.deploy(stack("labelled"))
    assert size(account) == 3


def instances(account: InProcessEmulator) -> list[str]:
    (group,) = account.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    return [one["InstanceId"] for one in group["Instances"]]


def test_a_size_that_others_set_is_set_back(account: InProcessEmulator, stack: Stack) -> None:
    account.deploy(stack())
    account.move_clock(DURING)
    found = node_group(account)
    account.client("eks").update_nodegroup_config(
        **NAMES, nodegroupName=found["nodegroupName"], scalingConfig={"desiredSize": 3}
    )
    assert size(account) == 3
    account.move_clock("2026-12-05T00:06Z")
    assert size(account) == NODES


def test_nodes_of_a_block_are_not_replaced_while_it_runs(account: InProcessEmulator, stack: Stack) -> None:
    account.deploy(stack())
    account.move_clock(DURING)
    with pytest.raises(DeployFailed, match="upgraded at the desired size 0"):
        account.deploy(stack("newer image"))
    assert size(account) == NODES


def test_the_stack_leaves_nothing_behind(account: InProcessEmulator, stack: Stack) -> None:
    account.deploy(stack())
    account.move_clock(DURING)
    account.destroy()
    assert account.client("eks").list_nodegroups(**NAMES)["nodegroups"] == []
    assert account.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"] == []
    left = {one["type"] for one in account.resources()}
    assert left <= {"AWS::EKS::Cluster", "AWS::Logs::LogGroup"}


def test_the_next_run_stands_in_for_lost_events(account: InProcessEmulator, stack: Stack) -> None:
    account.seed({"block_event_names": ["Lost", "Lost too"]})
    account.deploy(stack())
    account.move_clock("2026-12-01T11:36Z")
    assert size(account) == NODES


def test_the_next_block_gets_a_group_of_its_own(account: InProcessEmulator, stack: Stack) -> None:
    next_block = {
        "id": NEXT_BLOCK,
        "instance_type": "p5.48xlarge",
        "availability_zone": "us-east-1a",
        "count": NODES,
        "kind": "capacity-block",
        "starts_at": NEXT_START,
        "ends_at": NEXT_END,
    }
    account.seed({"reservations": [next_block]})
    account.deploy(stack())
    first = node_group(account)["nodegroupArn"]
    account.move_clock(AFTER)
    account.deploy(stack("next block"))
    assert node_group(account)["nodegroupArn"] != first
    assert size(account) == 0
    account.move_clock(NEXT_START)
    assert size(account) == NODES


def missing_nodes(account: InProcessEmulator) -> str:
    """The state of the alarm on nodes that are paid for and not in service."""
    events = [one["detail"] for one in account.history()["events"] if "alarmName" in one.get("detail", {})]
    states = [one["state"]["value"] for one in events if "MissingNodes" in one["alarmName"]]
    return states[-1] if states else "INSUFFICIENT_DATA"


def test_nodes_that_are_paid_for_and_not_in_service_are_told(account: InProcessEmulator, stack: Stack) -> None:
    account.deploy(stack())
    account.move_clock(START)
    account.move_clock("2026-12-01T13:00Z")
    assert missing_nodes(account) in ("OK", "INSUFFICIENT_DATA")
    found, eks = node_group(account), account.client("eks")
    eks.tag_resource(resourceArn=found["nodegroupArn"], tags={"gpu-clusters:size": "manual"})
    eks.update_nodegroup_config(**NAMES, nodegroupName=found["nodegroupName"], scalingConfig={"desiredSize": 3})
    account.move_clock("2026-12-01T13:15Z")
    assert missing_nodes(account) in ("OK", "INSUFFICIENT_DATA")
    account.move_clock("2026-12-01T14:30Z")
    assert missing_nodes(account) == "ALARM"
