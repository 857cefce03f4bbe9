"""A managed node group of EKS: what it says, what it leaves to EKS, and what is refused."""

from __future__ import annotations

import json
import re
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns

from cdk_gpu_clusters import (
    Capacity,
    CapacityReservation,
    ConfigError,
    HomeStore,
    LustreStore,
    MigLayout,
    MigStrategy,
    NodeRepair,
    NodeTaint,
    PlacementStrategy,
    RepairAction,
    RepairOverride,
    RootVolume,
    UpdatePolicy,
)
from cdk_gpu_clusters.catalogue import instance_types
from cdk_gpu_clusters.kubernetes.node_pool import LustreVolume, NfsVolume
from cdk_gpu_clusters.rules.node_group import CAPACITY_TYPES, UpdateStrategy
from node_groups import CLUSTER_GROUP, VERSION, existing_cluster, node_group
from stack_fixtures import ZONE, Resources, Site, SiteFactory, of_type, only
from user_data import node_files, user_data

GROUP, TEMPLATE = "AWS::EKS::Nodegroup", "AWS::EC2::LaunchTemplate"
STARTS, ENDS = "2026-12-01T11:30Z", "2026-12-15T11:30Z"
BLOCK = Capacity.capacity_block("cr-0123456789abcdef0", starts_at=STARTS, ends_at=ENDS)
CAPACITIES = {
    "on demand": Capacity.on_demand(),
    "spot": Capacity.spot(),
    "reservation": Capacity.from_reservation_id("cr-0123456789abcdef0"),
    "reservation group": Capacity.from_reservation_group_arn(
        "arn:aws:resource-groups:us-east-1:111122223333:group/gpus"
    ),
    "block": BLOCK,
}


def launched(resources: Resources) -> dict[str, Any]:
    data: dict[str, Any] = only(resources, TEMPLATE)["LaunchTemplateData"]
    return data


def test_what_is_given_is_synthesized(site: Site) -> None:
    node_group(site, capacity=BLOCK, node_count=16)
    resources = site.resources()
    group = only(resources, GROUP)
    [template] = of_type(resources, TEMPLATE)
    [role] = [name for name in of_type(resources, "AWS::IAM::Role") if name.startswith("TrainersRole")]
    assert group == {
        "ClusterName": "research",
        "NodeRole": {"Fn::GetAtt": [role, "Arn"]},
        "Subnets": ["subnet-0123456789abcdef0"],
        "AmiType": "AL2023_x86_64_NVIDIA",
        "CapacityType": "CAPACITY_BLOCK",
        "LaunchTemplate": {
            "Id": {"Ref": template},
            "Version": {"Fn::GetAtt": [template, "DefaultVersionNumber"]},
        },
        "ScalingConfig": {"MinSize": 0, "MaxSize": 16, "DesiredSize": 16},
        "UpdateConfig": {"MaxUnavailable": 1, "UpdateStrategy": "MINIMAL"},
        "NodeRepairConfig": {
            "Enabled": True,
            "NodeRepairConfigOverrides": [
                {
                    "NodeMonitoringCondition": "AcceleratedHardwareReady",
                    "NodeUnhealthyReason": f"NvidiaXID{code}Error",
                    "MinRepairWaitTimeMins": 10,
                    "RepairAction": "NoAction",
                }
                for code in (13, 31, 94)
            ],
        },
        "Labels": {
            "gpu-cluster/fleet": "Trainers",
            "gpu-cluster/accelerator": "gpu",
            "gpu-cluster/gpu": "H100",
            "gpu-cluster/gpu-count": "8",
            "gpu-cluster/gpu-memory-mib": "81920",
            "gpu-cluster/efa-count": "32",
            "gpu-cluster/mig-strategy": "none",
            "nvidia.com/device-plugin.config": "mig-none",
        },
        "Taints": [{"Key": "nvidia.com/gpu", "Value": "true", "Effect": "NO_SCHEDULE"}],
    }


def test_everything_that_a_user_can_say_is_said(site: Site) -> None:
    made = node_group(
        site,
        labels={"team": "speech"},
        taints=[NodeTaint(key="dedicated", value="speech", effect="NoExecute")],
        release_version="1.34.1-20260709",
        update_policy=UpdatePolicy.ROLLING,
        max_unavailable=4,
        update_strategy=UpdateStrategy.DEFAULT,
        node_repair=NodeRepair(
            max_unhealthy_percentage=50,
            max_parallel_count=2,
            overrides=(
                RepairOverride(
                    condition="AcceleratedHardwareReady",
                    reason="DCGMError",
                    action=RepairAction.REPLACE,
                    wait_minutes=30,
                ),
            ),
        ),
        min_node_count=1,
        max_node_count=8,
        node_count=None,
    )
    resources = site.resources()
    group = only(resources, GROUP)
    [template] = of_type(resources, TEMPLATE)
    assert group["LaunchTemplate"]["Version"] == {"Fn::GetAtt": [template, "LatestVersionNumber"]}
    assert (group["Version"], group["ReleaseVersion"]) == (VERSION, "1.34.1-20260709")
    assert group["ScalingConfig"] == {"MinSize": 1, "MaxSize": 8, "DesiredSize": 1}
    assert group["UpdateConfig"] == {"MaxUnavailable": 4, "UpdateStrategy": "DEFAULT"}
    assert group["NodeRepairConfig"] == {
        "Enabled": True,
        "MaxUnhealthyNodeThresholdPercentage": 50,
        "MaxParallelNodesRepairedCount": 2,
        "NodeRepairConfigOverrides": [
            {
                "NodeMonitoringCondition": "AcceleratedHardwareReady",
                "NodeUnhealthyReason": "DCGMError",
                "MinRepairWaitTimeMins": 30,
                "RepairAction": "Replace",
            }
        ],
    }
    assert group["Labels"]["team"] == made.labels["team"] == "speech"
    assert group["Taints"] == [{"Key": "dedicated", "Value": "speech", "Effect": "NO_EXECUTE"}]


def test_repair_can_be_switched_off_and_taints_left_out(site: Site) -> None:
    node_group(site, node_repair=NodeRepair(enabled=False), taints=[], labels={"gpu-cluster/fleet": "a"})
    group = only(site.resources(), GROUP)
    assert group["NodeRepairConfig"] == {"Enabled": False}
    assert "Taints" not in group
    assert group["Labels"]["gpu-cluster/fleet"] == "a"


# AWS EKS refuses these in the launch template (user guide, "Customize managed nodes with launch templates").
_LEFT_TO_EKS = {
    "IamInstanceProfile",
    "InstanceInitiatedShutdownBehavior",
    "HibernationOptions",
    "InstanceRequirements",
    "ImageId",
    "KeyName",
    "SecurityGroupIds",
}
_SHAPES = ("p4d.24xlarge", "p5.48xlarge", "p6-b300.48xlarge", "g6e.24xlarge", "trn2.48xlarge", "g6.xlarge")


@pytest.mark.parametrize("capacity", CAPACITIES)
@pytest.mark.parametrize("kind", _SHAPES)
def test_the_template_leaves_to_eks_what_is_eks_own(site: Site, kind: str, capacity: str) -> None:
    record = instance_types()[kind]
    if capacity == "block" and not record.supports_capacity_block:
        kind = "p5.48xlarge"
    made = node_group(site, instance_type=kind, capacity=CAPACITIES[capacity])
    resources = site.resources()
    data, group = launched(resources), only(resources, GROUP)
    assert not _LEFT_TO_EKS & data.keys()
    assert not {"DiskSize", "RemoteAccess", "InstanceTypes", "NodegroupName"} & group.keys()
    assert data["InstanceType"] == kind
    market = data.get("InstanceMarketOptions", {}).get("MarketType")
    assert (market == "capacity-block") == (group["CapacityType"] == "CAPACITY_BLOCK")
    assert market in (None, "capacity-block"), "spot is asked of the group alone"
    assert group["CapacityType"] == CAPACITY_TYPES[made.plan.terms.kind].value
    assert set(group["ScalingConfig"]) == {"MinSize", "MaxSize", "DesiredSize"}, "all sizes or none"
    reserved = capacity in ("block", "reservation", "reservation group")
    first_out = reserved or instance_types()[kind].supports_capacity_block
    assert group["UpdateConfig"]["UpdateStrategy"] == ("MINIMAL" if first_out else "DEFAULT")
    assert ("Placement" in data) == (made.placement_group is not None)
    assert capacity != "block" or "Placement" not in data
    for interface in data["NetworkInterfaces"]:
        assert "SubnetId" not in interface
        has_ip = interface["InterfaceType"] != "efa-only"
        assert (CLUSTER_GROUP in interface["Groups"]) == has_ip, "the cluster's group where there is IP"
    assert len(group["Subnets"]) == 1


def test_the_fabric_is_on_every_interface(site: Site) -> None:
    node_group(site)
    resources = site.resources()
    [fabric] = of_type(resources, "AWS::EC2::SecurityGroup")
    for interface in launched(resources)["NetworkInterfaces"]:
        assert {"Fn::GetAtt": [fabric, "GroupId"]} in interface["Groups"]


def test_without_a_fabric_the_nodes_have_a_group_of_their_own(site: Site) -> None:
    further = ec2.SecurityGroup.from_security_group_id(site.stack, "Further", "sg-0aaaaaaaaaaaaaaaa")
    node_group(site, instance_type="g6.xlarge", efa=False, security_groups=[further])
    resources = site.resources()
    [own] = of_type(resources, "AWS::EC2::SecurityGroup")
    [interface] = launched(resources)["NetworkInterfaces"]
    assert interface["Groups"] == [
        {"Fn::GetAtt": [own, "GroupId"]},
        CLUSTER_GROUP,
        "sg-0aaaaaaaaaaaaaaaa",
    ]


def test_pods_cannot_take_the_role_of_their_node(site: Site) -> None:
    node_group(site)
    assert launched(site.resources())["MetadataOptions"] == {
        "HttpEndpoint": "enabled",
        "HttpTokens": "required",
        "HttpPutResponseHopLimit": 1,
    }


def test_pods_reach_the_metadata_service_on_request(site: Site) -> None:
    node_group(site, metadata_hop_limit=2)
    assert launched(site.resources())["MetadataOptions"]["HttpPutResponseHopLimit"] == 2


def test_nodes_join_the_groups_of_the_present_nodes_of_a_cluster(site: Site) -> None:
    # terraform-aws-modules/terraform-aws-eks @ bef29c4, node_groups.tf: nodes are in a group of their own alone.
    node_group(site, cluster=existing_cluster(site, node_security_group_ids=["sg-0bbbbbbbbbbbbbbbb"]))
    first = launched(site.resources())["NetworkInterfaces"][0]
    assert {CLUSTER_GROUP, "sg-0bbbbbbbbbbbbbbbb"} <= set(map(str, first["Groups"]))


def test_the_network_plugin_of_a_cluster_without_a_role_for_it_takes_that_of_the_nodes(site: Site) -> None:
    node_group(site, cluster=existing_cluster(site, cni_from_node_role=True))
    assert "policy/AmazonEKS_CNI_Policy" in json.dumps(of_type(site.resources(), "AWS::IAM::Role"))


def documents(text: str) -> list[dict[str, Any]]:
    marker = "Content-Type: application/node.eks.aws\n\n"
    return [json.loads(part.split("\n--gpu-cluster-node")[0]) for part in text.split(marker)[1:]]


def test_kubelet_gets_no_more_pods_than_there_are_addresses(site: Site) -> None:
    """EKS adds a number of its own to user data, which counts interfaces without addresses; a file of ours wins."""
    node_group(site, kubelet_config={"podPidsLimit": 4096})
    text = user_data(site.resources())
    said = {"maxPods": 51, "podPidsLimit": 4096}
    [document] = documents(text)
    assert document["spec"] == {
        "instance": {"localStorage": {"strategy": "RAID0"}},
        "kubelet": {"config": said},
    }
    files = node_files(text, _assembly(site))
    over_eks = json.loads(files["/etc/eks/nodeadm.d/50-gpu-cluster.json"])
    assert over_eks["kind"] == "NodeConfig"
    assert over_eks["spec"] == {"kubelet": {"config": said}}


def _assembly(site: Site) -> Any:
    from pathlib import Path

    return Path(site.app.outdir)


def test_prefixes_give_room_for_more_pods(site: Site) -> None:
    node_group(site, prefix_delegation=True)
    [document] = documents(user_data(site.resources()))
    assert document["spec"]["kubelet"]["config"]["maxPods"] == 250


def test_nodes_of_a_block_end_their_work_by_themselves(site: Site) -> None:
    node_group(site, capacity=BLOCK)
    text = user_data(site.resources())
    assert "GPU_DRAIN_AT=2026-12-15T10:50:00Z" in text
    assert "GPU_ORCHESTRATOR=eks" in text
    assert "Site/Trainers" in text, "its name in metrics"


def test_the_state_machine_may_size_groups_of_its_cluster_and_no_more(site: Site) -> None:
    """Not by a reference to the one group, which waits for this policy and outlives it."""
    node_group(site, capacity=BLOCK)
    resources = site.resources()
    statements = [
        statement
        for policy in of_type(resources, "AWS::IAM::ManagedPolicy").values()
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if "eks:" in json.dumps(statement["Action"])
    ]
    [statement] = statements
    assert statement["Action"] == ["eks:DescribeNodegroup", "eks:UpdateNodegroupConfig"]
    assert statement["Resource"]["Fn::Join"][1][-1].endswith(":nodegroup/research/*/*")
    assert not of_type(resources, "AWS::AutoScaling::ScheduledAction"), "EKS has its own"


SESSIONS = [f"ssmmessages:{verb}{channel}Channel" for verb in ("Create", "Open") for channel in ("Control", "Data")]


def test_the_nodes_may_join_pull_images_log_and_no_more(site: Site) -> None:
    node_group(site)
    resources = site.resources()
    [role] = [
        one["Properties"]
        for name, one in of_type(resources, "AWS::IAM::Role").items()
        if name.startswith("TrainersRole")
    ]
    policies = {json.dumps(one).split("policy/")[-1].split('"')[0] for one in role["ManagedPolicyArns"][1:]}
    assert role["ManagedPolicyArns"][0] == {"Ref": next(name for name in resources if "Sessions" in name)}
    assert policies == {
        "AmazonEKSWorkerNodePolicy",
        "AmazonEC2ContainerRegistryPullOnly",
    }
    statements = [
        statement
        for policy in of_type(resources, "AWS::IAM::ManagedPolicy").values()
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
    ]
    actions = {
        action
        for one in statements
        for action in (one["Action"] if isinstance(one["Action"], list) else [one["Action"]])
    }
    assert actions == {
        *SESSIONS,
        "ssm:UpdateInstanceInformation",
        "s3:GetObject",
        "logs:CreateLogStream",
        "logs:DescribeLogStreams",
        "logs:PutLogEvents",
        "ec2:TerminateInstances",
    }


def test_a_node_that_fails_its_first_boot_may_end_itself_alone(site: Site) -> None:
    made = node_group(site)
    resources = site.resources()
    [end] = [
        statement
        for policy in of_type(resources, "AWS::IAM::ManagedPolicy").values()
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if statement["Action"] == "ec2:TerminateInstances"
    ]
    [caller] = end["Condition"]["ArnEquals"].values()
    assert json.dumps(caller).endswith(':instance/${ec2:InstanceID}"]]}'), "no other node of its group"
    tags = end["Condition"]["StringEquals"]
    assert tags == {"aws:ResourceTag/eks:cluster-name": "research", "aws:ResourceTag/Name": made.fleet_path}
    # The launch template gives nodes that name, and EKS the name of the cluster.
    [instances] = [one for one in launched(resources)["TagSpecifications"] if one["ResourceType"] == "instance"]
    assert {"Key": "Name", "Value": made.fleet_path} in instances["Tags"]


def test_a_node_is_ready_before_eks_gives_up_on_its_group(site: Site) -> None:
    # Amazon EKS user guide, troubleshooting: NodeCreationFailure after 15 minutes.
    node_group(site)
    text = user_data(site.resources())
    (deadline,) = re.findall(r"GPU_BOOT_DEADLINE=(\d+)", text)
    assert int(deadline) <= 14 * 60
    assert "GPU_REPLACEMENTS=3" in text


def test_a_role_of_the_user_gets_what_the_group_needs(site: Site) -> None:
    role = iam.Role.from_role_name(site.stack, "Theirs", "nodes")
    node_group(site, role=role)
    resources = site.resources()
    assert not [name for name in of_type(resources, "AWS::IAM::Role") if "TrainersRole" in name]
    attached = [policy["Properties"]["Roles"] for policy in of_type(resources, "AWS::IAM::ManagedPolicy").values()]
    assert attached == [["nodes"]] * 3
    assert json.dumps(only(resources, GROUP)["NodeRole"]).endswith(':role/nodes"]]}')


def test_a_node_starts_after_all_that_its_first_boot_needs(site: Site) -> None:
    node_group(site, capacity=BLOCK)
    resources = site.resources()
    [group] = of_type(resources, GROUP).values()
    kinds = sorted(resources[name]["Type"] for name in group["DependsOn"])
    assert set(kinds) == {"AWS::Events::Rule", "AWS::IAM::ManagedPolicy"}
    assert kinds.count("AWS::Events::Rule") == 1, "the one that reports the group itself"


def test_a_reservation_made_here_is_used_in_its_own_placement_group(site: Site) -> None:
    reservation = CapacityReservation(
        site.stack,
        "Reservation",
        instance_type="p5.48xlarge",
        instance_count=2,
        availability_zone=ZONE,
        unlimited=True,
    )
    node_group(site, capacity=Capacity.reservation(reservation))
    resources = site.resources()
    data = launched(resources)
    [made] = of_type(resources, "AWS::EC2::CapacityReservation")
    target = data["CapacityReservationSpecification"]["CapacityReservationTarget"]
    assert target == {"CapacityReservationId": {"Fn::GetAtt": [made, "Id"]}}
    assert "InstanceMarketOptions" not in data
    assert only(resources, GROUP)["CapacityType"] == "ON_DEMAND"


def test_slices_are_told_by_labels(site: Site) -> None:
    made = node_group(site, instance_type="p4d.24xlarge", efa=False, mig=MigLayout(["1g.5gb"] * 7))
    assert made.labels["gpu-cluster/mig-strategy"] == "mixed"
    assert dict(made.node_pool.resources) == {"nvidia.com/mig-1g.5gb": 56}


def test_a_store_lets_the_nodes_in_and_pods_know_it(site: Site) -> None:
    store = LustreStore(
        site.stack,
        "Corpus",
        vpc=site.vpc,
        subnet=site.vpc.private_subnets[0],
        storage_capacity_gib=38_400,
        throughput_mb_per_s_per_tib=250,
    )
    made = node_group(site, mounts={"/fsx/corpus": store})
    volume = made.node_pool.mounts["/fsx/corpus"]
    assert isinstance(volume, LustreVolume)
    assert (volume.name, volume.file_system_id) == ("fsx-corpus", store.file_system_id)
    rules = json.dumps(of_type(site.resources(), "AWS::EC2::SecurityGroupIngress"))
    assert "TrainersFabric" in rules
    assert "988" in rules


def test_pods_mount_home_directories_by_nfs(site: Site) -> None:
    homes = HomeStore(site.stack, "Homes", vpc=site.vpc, subnets=[site.vpc.private_subnets[0]])
    made = node_group(site, mounts={"/home": homes}, read_only_mounts=["/home"])
    volume = made.node_pool.mounts["/home"]
    assert isinstance(volume, NfsVolume)
    assert (volume.name, volume.dns_name, volume.export_path) == ("home", homes.dns_name, "/fsx")
    assert (volume.options, volume.read_only) == (homes.nfs_options, True)
    rules = json.dumps(of_type(site.resources(), "AWS::EC2::SecurityGroupIngress"))
    assert "2049" in rules


def test_metrics_and_alarms_are_of_the_nodes(site: Site) -> None:
    made = node_group(site)
    assert made.alarms is not None
    assert sorted(made.alarms.names) == ["BootFailure", "Idle", "UnhealthyNode", "Xid"]
    made.alarms.add_topic(sns.Topic(site.stack, "Operators"))
    metric = made.metric_gpu_utilization()
    assert metric.dimensions == {"Fleet": made.fleet_path}
    assert "eks:nodegroup-name" in made.session_command
    resources = site.resources()
    assert len(of_type(resources, "AWS::CloudWatch::Alarm")) == 4
    assert not of_type(resources, "AWS::StepFunctions::StateMachine"), "launches of EKS's own group are EKS's"


def test_a_group_without_alarms(site: Site) -> None:
    assert node_group(site, alarms=None, instance_type="m8g.4xlarge").alarms is None
    assert not of_type(site.resources(), "AWS::CloudWatch::Alarm")


def test_evidence_keys_and_sessions(site: Site) -> None:
    bucket = s3.Bucket.from_bucket_name(site.stack, "Evidence", "my-logs")
    key = kms.Key(site.stack, "Key")
    node_group(
        site,
        evidence_bucket=bucket,
        root_volume=RootVolume(encryption_key=key),
        log_encryption_key=key,
    )
    resources = site.resources()
    assert "AWSServiceRoleForAutoScaling" in json.dumps(only(resources, "AWS::KMS::Key")["KeyPolicy"])
    assert "s3:PutObject" in json.dumps(of_type(resources, "AWS::IAM::ManagedPolicy"))


def test_an_ultraserver_block_is_launched_into_by_its_id_and_emptied_70_minutes_before_its_end(site: Site) -> None:
    node_group(
        site,
        instance_type="p6e-gb200.36xlarge",
        node_count=9,
        capacity=Capacity.ultraserver_block(
            "arn:aws:resource-groups:us-east-1:111122223333:group/rack",
            reservation_id="cr-0123456789abcdef0",
            ends_at="2026-12-15T11:30Z",
        ),
    )
    resources = site.resources()
    data = only(resources, "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    assert data["CapacityReservationSpecification"] == {
        "CapacityReservationTarget": {"CapacityReservationId": "cr-0123456789abcdef0"}
    }
    assert data["InstanceMarketOptions"] == {"MarketType": "capacity-block"}
    assert only(resources, "AWS::EKS::Nodegroup")["CapacityType"] == "CAPACITY_BLOCK"
    # Before EKS's own scale-down, 40 minutes before the end.
    assert "2026-12-15T10:20" in json.dumps(only(resources, "AWS::StepFunctions::StateMachine"))


FAULTS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "an UltraServer block": (
        {
            "instance_type": "p6e-gb200.36xlarge",
            "capacity": Capacity.ultraserver_block(
                "arn:aws:resource-groups:us-east-1:111122223333:group/rack", ends_at=ENDS
            ),
        },
        {"GPU-EKS-040", "GPU-CAP-008"},
    ),
    "a price": ({"capacity": Capacity.spot(max_price_usd_per_hour=10)}, {"GPU-EKS-041"}),
    "two zones": ({"vpc_subnets": ec2.SubnetSelection()}, {"GPU-FAB-003", "GPU-FAB-004"}),
    "everything at once": (
        {
            "node_count": 0,
            "mig_strategy": MigStrategy.SINGLE,
            "labels": {"gpu-cluster/gpu": "none", "kubernetes.io/role": "x"},
            "taints": [NodeTaint(key="a"), NodeTaint(key="a"), NodeTaint(key="-")],
            "kubelet_config": {"maxPods": float("nan")},
            "release_version": "1.33.1-20260101",
            "max_unavailable": 0,
            "node_repair": NodeRepair(max_parallel_count=0),
        },
        {
            "GPU-FLT-001",
            "GPU-MIG-015",
            "GPU-EKS-003",
            "GPU-EKS-004",
            "GPU-EKS-043",
            "GPU-EKS-044",
            "GPU-EKS-045",
            "GPU-EKS-046",
            "GPU-EKS-047",
        },
    ),
    "a size, a time-out and a wish": (
        {
            "node_count": 0,
            "ready_timeout": cdk.Duration.seconds(10),
            "instance_type": "g6.xlarge",
            "efa": True,
        },
        {"GPU-FLT-001", "GPU-FLT-005", "GPU-EFA-025"},
    ),
    "a block that rolls": (
        {"capacity": BLOCK, "update_policy": UpdatePolicy.ROLLING},
        {"GPU-EKS-048"},
    ),
    "a block in a placement group": (
        {"capacity": BLOCK, "placement": PlacementStrategy.CLUSTER},
        {"GPU-CAP-002"},
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_told_at_once(site: Site, fault: str) -> None:
    options, expected = FAULTS[fault]
    with pytest.raises(ConfigError) as caught:
        node_group(site, **options)
    assert {finding.id for finding in caught.value.findings} == expected
    assert all(finding.path.startswith("Site/Trainers") for finding in caught.value.findings)


def test_what_only_the_deployment_knows_is_taken_as_it_is(site: Site) -> None:
    version = cdk.CfnParameter(site.stack, "Version").value_as_string
    release = cdk.CfnParameter(site.stack, "Release").value_as_string
    reservation = cdk.CfnParameter(site.stack, "ReservationId").value_as_string
    node_group(
        site,
        cluster=existing_cluster(site, kubernetes_version=version),
        release_version=release,
        update_policy=UpdatePolicy.ROLLING,
        capacity=Capacity.from_reservation_id(reservation),
    )
    group = only(site.resources(), GROUP)
    assert (group["Version"], group["ReleaseVersion"]) == ({"Ref": "Version"}, {"Ref": "Release"})


def test_a_size_that_only_the_deployment_knows_is_refused(site: Site) -> None:
    size = cdk.CfnParameter(site.stack, "Size", type="Number").value_as_number
    with pytest.raises(ConfigError, match="GPU-FLT-001"):
        node_group(site, node_count=size)


@pytest.mark.parametrize("partition", [("us-gov-west-1", "aws-us-gov"), ("cn-north-1", "aws-cn")])
def test_no_other_partition_is_written_down(make_site: SiteFactory, partition: tuple[str, str]) -> None:
    region, name = partition
    site = make_site(env=cdk.Environment(account="111122223333", region=region))
    node_group(site, instance_type="p4d.24xlarge")
    text = json.dumps(site.template())
    assert "arn:aws:" not in text
    assert f"arn:{name}:" in text or "AWS::Partition" in text


@pytest.mark.parametrize(("region", "told"), [("us-east-1", True), ("cn-north-1", False)])
def test_manifests_ask_for_the_network_only_where_ec2_tells_of_it(
    make_site: SiteFactory, region: str, told: bool
) -> None:
    site = make_site(env=cdk.Environment(account="111122223333", region=region))
    group = node_group(site, instance_type="p4d.24xlarge")
    assert group.node_pool.network_topology is told


def test_a_group_is_as_recorded(site: Site, snapshot_json: Any) -> None:
    from stack_fixtures import readable

    node_group(site, capacity=BLOCK, node_count=16)
    assert readable(site.template()) == snapshot_json
