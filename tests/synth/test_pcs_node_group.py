"""A compute node group of AWS PCS: what it says, what it leaves to PCS, and what is refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
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
    ExecutionPolicy,
    GresMode,
    LifecycleScript,
    LifecycleStage,
    LustreStore,
    MigLayout,
    NodeImage,
    OnError,
    PlacementStrategy,
    RootVolume,
    UpdatePolicy,
)
from cdk_gpu_clusters.node.users import read_users
from cdk_gpu_clusters.rules.capacity import BlockTerms, parse_instant
from slurm_clusters import CLUSTER_ID, CONTROLLER_GROUP, existing_slurm, slurm_nodes
from stack_fixtures import ZONE, Resources, Site, of_type, only
from user_data import node_files, user_data

GROUP, TEMPLATE = "AWS::PCS::ComputeNodeGroup", "AWS::EC2::LaunchTemplate"
ENDS = "2026-12-15T11:30Z"
BLOCK = Capacity.capacity_block("cr-0123456789abcdef0", ends_at=ENDS)


def launched(resources: Resources) -> dict[str, Any]:
    data: dict[str, Any] = only(resources, TEMPLATE)["LaunchTemplateData"]
    return data


def settings_of(resources: Resources) -> dict[str, str]:
    listed = only(resources, GROUP)["SlurmConfiguration"]["SlurmCustomSettings"]
    return {one["ParameterName"]: one["ParameterValue"] for one in listed}


def statements_of(resources: Resources, action: str) -> list[dict[str, Any]]:
    return [
        one
        for policy in of_type(resources, "AWS::IAM::ManagedPolicy").values()
        for one in policy["Properties"]["PolicyDocument"]["Statement"]
        if action in json.dumps(one["Action"])
    ]


def test_what_is_given_is_synthesized(site: Site) -> None:
    slurm_nodes(site, capacity=BLOCK, node_count=16)
    resources = site.resources()
    group = dict(only(resources, GROUP))
    [template] = of_type(resources, TEMPLATE)
    [profile] = of_type(resources, "AWS::IAM::InstanceProfile")
    del group["NodeLifecycleActions"]
    assert group == {
        "ClusterId": CLUSTER_ID,
        "Name": "Trainers-dd42",
        "CustomLaunchTemplate": {
            "TemplateId": {"Ref": template},
            "Version": {"Fn::GetAtt": [template, "LatestVersionNumber"]},
        },
        "IamInstanceProfileArn": {"Fn::GetAtt": [profile, "Arn"]},
        "InstanceConfigs": [{"InstanceType": "p5.48xlarge"}],
        "ScalingConfiguration": {"MinInstanceCount": 16, "MaxInstanceCount": 16},
        "PurchaseOption": "CAPACITY_BLOCK",
        "SlurmConfiguration": {
            "SlurmCustomSettings": [{"ParameterName": "Features", "ParameterValue": "p5.48xlarge,efa,gpu"}]
        },
        "SubnetIds": ["subnet-0123456789abcdef0"],
    }


@pytest.mark.parametrize(
    ("capacity", "option", "market"),
    [
        (Capacity.on_demand(), "ONDEMAND", None),
        (Capacity.spot(), "SPOT", None),
        (Capacity.from_reservation_id("cr-0123456789abcdef0"), "ONDEMAND", None),
        (BLOCK, "CAPACITY_BLOCK", "capacity-block"),
    ],
)
def test_the_capacity_decides_how_pcs_buys(site: Site, capacity: Capacity, option: str, market: str | None) -> None:
    made = slurm_nodes(site, capacity=capacity)
    resources = site.resources()
    group, data = only(resources, GROUP), launched(resources)
    assert group["PurchaseOption"] == option
    assert group["ScalingConfiguration"] == {"MinInstanceCount": 2, "MaxInstanceCount": 2}
    assert ("SpotOptions" in group) == (option == "SPOT")
    assert data.get("InstanceMarketOptions", {}).get("MarketType") == market
    # AWS PCS user guide: a block must be named with its type, everything else takes the group's.
    assert ("InstanceType" in data) == (market is not None)
    assert ("Placement" in data) == (made.placement_group is not None)
    assert market is None or "Placement" not in data


def test_a_group_that_scales_begins_at_zero(site: Site) -> None:
    slurm_nodes(site, node_count=None, min_node_count=0, max_node_count=8, scale_down_idle_time=cdk.Duration.minutes(5))
    group = only(site.resources(), GROUP)
    assert group["ScalingConfiguration"] == {"MinInstanceCount": 0, "MaxInstanceCount": 8}
    assert group["SlurmConfiguration"]["ScaleDownIdleTimeInSeconds"] == 300
    assert "GPU_SCALES=1" in user_data(site.resources())


# AWS PCS user guide, overview of launch templates: ignored, or refused.
_LEFT_TO_PCS = {
    "IamInstanceProfile",
    "HibernationOptions",
    "InstanceRequirements",
    "DisableApiTermination",
    "DisableApiStop",
    "SecurityGroups",
    "SecurityGroupIds",
}


@pytest.mark.parametrize("kind", ["p4d.24xlarge", "p5.48xlarge", "p6-b300.48xlarge", "g6e.24xlarge", "g6.xlarge"])
def test_the_template_leaves_to_pcs_what_is_its_own(site: Site, kind: str) -> None:
    slurm_nodes(site, instance_type=kind)
    resources = site.resources()
    data, group = launched(resources), only(resources, GROUP)
    assert not _LEFT_TO_PCS & data.keys()
    assert "AmiId" not in group, "it would win over the template's image"
    assert data["MetadataOptions"]["HttpPutResponseHopLimit"] == 1
    for interface in data["NetworkInterfaces"]:
        assert interface["SubnetId"] == "subnet-0123456789abcdef0"
        assert CONTROLLER_GROUP in interface["Groups"], "every interface has an address"
        assert interface["InterfaceType"] in ("interface", "efa"), "efa-only is not documented"


def test_nodes_boot_the_image_that_is_ready_for_pcs(site: Site) -> None:
    slurm_nodes(site)
    template = site.template()
    data = launched(template["Resources"])
    parameter = template["Parameters"][data["ImageId"]["Ref"]]
    assert parameter["Default"] == "/aws/service/pcs/ami/dlami-base-ubuntu2404/x86_64/latest/ami-id"
    [volume] = data["BlockDeviceMappings"]
    assert volume["DeviceName"] == "/dev/sda1", "the root device of Ubuntu"
    assert volume["Ebs"]["VolumeSize"] == 300


def test_an_image_and_a_root_volume_of_the_user(site: Site) -> None:
    slurm_nodes(
        site,
        image=NodeImage.from_id("ami-0123456789abcdef0", operating_system="al2023"),
        root_volume=RootVolume(size_gib=500),
    )
    data = launched(site.resources())
    assert data["ImageId"] == "ami-0123456789abcdef0"
    [volume] = data["BlockDeviceMappings"]
    assert (volume["DeviceName"], volume["Ebs"]["VolumeSize"]) == ("/dev/xvda", 500)


def test_pcs_may_use_the_key_of_the_root_volume(site: Site) -> None:
    key = kms.Key(site.stack, "Key")
    slurm_nodes(site, root_volume=RootVolume(encryption_key=key))
    policy = json.dumps(only(site.resources(), "AWS::KMS::Key")["KeyPolicy"])
    assert "aws-service-role/pcs.amazonaws.com/AWSServiceRoleForPCS" in policy
    assert "AWSServiceRoleForAutoScaling" not in policy


def test_nodes_in_several_subnets_name_none(site: Site) -> None:
    slurm_nodes(site, instance_type="g6.xlarge", efa=False, vpc_subnets=None)
    resources = site.resources()
    assert len(only(resources, GROUP)["SubnetIds"]) == 2
    [interface] = launched(resources)["NetworkInterfaces"]
    assert "SubnetId" not in interface
    assert interface["AssociatePublicIpAddress"] is False


def test_nodes_in_public_subnets_have_public_addresses(site: Site) -> None:
    public = ec2.SubnetSelection(subnet_type=ec2.SubnetType.PUBLIC)
    slurm_nodes(site, instance_type="g6.xlarge", efa=False, vpc_subnets=public)
    [interface] = launched(site.resources())["NetworkInterfaces"]
    assert interface["AssociatePublicIpAddress"] is True


def test_slices_are_resources_of_slurm(site: Site) -> None:
    slurm_nodes(
        site, instance_type="p4d.24xlarge", efa=False, mig=MigLayout(["1g.5gb"] * 7), weight=5, features=["mig"]
    )
    resources = site.resources()
    assert settings_of(resources) == {"Features": "p4d.24xlarge,gpu,mig", "Weight": "5", "Gres": "gpu:1g.5gb:56"}
    assert only(resources, GROUP)["SlurmConfiguration"]["GresCustomSettings"] == [{"AutoDetect": "nvml"}]
    assert "MIG_PARTITION" in user_data(resources)


def test_settings_of_the_user_win(site: Site) -> None:
    slurm_nodes(site, slurm_settings={"Features": "mine", "RealMemory": "1000000"})
    assert settings_of(site.resources()) == {"Features": "mine", "RealMemory": "1000000"}


def test_explicit_records_of_slices_need_ids_that_nobody_knows_before(site: Site) -> None:
    with pytest.raises(ConfigError, match="GPU-GRES-002"):
        slurm_nodes(
            site,
            instance_type="p4d.24xlarge",
            efa=False,
            mig=MigLayout(["1g.5gb"] * 7),
            gres_mode=GresMode.EXPLICIT,
        )


def scripts_of(resources: Resources) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = only(resources, GROUP)["NodeLifecycleActions"]["Stages"]
    return found


def test_scripts_are_pinned_to_their_bytes_and_nodes_may_read_them(site: Site) -> None:
    own = LifecycleScript(
        name="motd",
        stage=LifecycleStage.NODE_READY,
        content="#!/bin/sh\nuptime\n",
        arguments=("a",),
        on_error=OnError.STOP_SEQUENCE,
        execution=ExecutionPolicy.FIRST_BOOT_ONLY,
    )
    slurm_nodes(site, lifecycle_scripts=[own])
    resources = site.resources()
    assert only(resources, GROUP)["NodeLifecycleActions"]["ScriptCachingPolicy"] == "CACHE_ONCE"
    stages = scripts_of(resources)
    assert [one["Name"] for one in stages["NodeBootstrapped"]] == ["gpu-node-boot"]
    assert [one["Name"] for one in stages["NodeReady"]] == ["gpu-node-ready", "motd"]
    assert stages["NodeBootstrapped"][0]["OnError"] == "TERMINATE"
    last = stages["NodeReady"][-1]
    assert last["ScriptSource"]["Checksum"] == hashlib.sha256(own.content.encode()).hexdigest()
    assert (last["Arguments"], last["OnError"], last["ExecutionPolicy"]) == (["a"], "STOP_SEQUENCE", "FIRST_BOOT_ONLY")
    staged = {
        hashlib.sha256(file.read_bytes()).hexdigest() for file in Path(site.app.outdir).glob("asset.*.pcs-script")
    }
    named = [one["ScriptSource"] for scripts in stages.values() for one in scripts]
    assert staged == {one["Checksum"] for one in named}, "the bytes that go to S3"
    [reads] = statements_of(resources, "s3:GetObject")
    keys = [json.dumps(one["ScriptLocation"]).rpartition("/")[2] for one in named]
    readable = json.dumps(reads["Resource"])
    assert all(key.split(".")[0] in readable for key in keys)
    assert "*" not in readable
    assert len(reads["Resource"]) == 1 + len(named), "the software and the scripts, and nothing else"


def test_an_older_agent_gets_no_scripts(site: Site) -> None:
    slurm_nodes(site, lifecycle_actions=False)
    resources = site.resources()
    assert "NodeLifecycleActions" not in only(resources, GROUP)
    files = node_files(user_data(resources), Path(site.app.outdir))
    assert any("RequiredBy=slurmd.service" in text for text in files.values()), "it takes no jobs all the same"


def test_the_role_joins_its_cluster_and_no_other(site: Site) -> None:
    slurm_nodes(site)
    resources = site.resources()
    [role] = [one["Properties"] for name, one in of_type(resources, "AWS::IAM::Role").items() if "Trainers" in name]
    assert role["Path"] == "/aws-pcs/"
    assert only(resources, "AWS::IAM::InstanceProfile")["Path"] == "/aws-pcs/"
    [joins] = statements_of(resources, "pcs:RegisterComputeNodeGroupInstance")
    assert json.dumps(joins["Resource"]).endswith(f':cluster/{CLUSTER_ID}"]]}}')
    [sessions] = role["ManagedPolicyArns"]
    assert "Sessions" in sessions["Ref"], "no managed policy of AWS, which reads every parameter"
    assert not statements_of(resources, "ssm:GetParameter")


def test_a_role_of_the_user_gets_what_the_group_needs(site: Site) -> None:
    role = iam.Role.from_role_name(site.stack, "Theirs", "AWSPCS-nodes")
    slurm_nodes(site, role=role)
    resources = site.resources()
    assert not [name for name in of_type(resources, "AWS::IAM::Role") if "TrainersRole" in name]
    assert only(resources, "AWS::IAM::InstanceProfile")["Roles"] == ["AWSPCS-nodes"]
    attached = [policy["Properties"]["Roles"] for policy in of_type(resources, "AWS::IAM::ManagedPolicy").values()]
    assert attached == [["AWSPCS-nodes"]]


def test_a_node_starts_after_all_that_its_first_boot_needs(site: Site) -> None:
    slurm_nodes(site, capacity=BLOCK)
    resources = site.resources()
    [group] = of_type(resources, GROUP).values()
    assert {resources[name]["Type"] for name in group["DependsOn"]} == {"AWS::IAM::ManagedPolicy"}


def test_users_of_a_node_do_not_reach_its_role(site: Site) -> None:
    slurm_nodes(site)
    assert "GPU_METADATA_USERS=root" in user_data(site.resources())


def test_users_of_the_list_reach_it_by_their_numbers(site: Site) -> None:
    # Their names are not there yet: the stage `users` comes after the limit (gpu-metadata), which fails for them.
    users = read_users({"users": [{"name": "alice", "uid": 2001}]})
    slurm_nodes(site, users=users, metadata_users=["alice", "ubuntu"])
    assert "GPU_METADATA_USERS='root 2001 ubuntu'" in user_data(site.resources())


def test_nodes_drain_themselves_at_every_end(site: Site) -> None:
    slurm_nodes(site, capacity=Capacity.from_reservation_id("cr-0123456789abcdef0", ends_at=ENDS))
    text = user_data(site.resources())
    assert "GPU_DRAIN_AT=2026-12-15T11:15:00Z" in text
    assert "GPU_SLURM_BIN=/opt/aws/pcs/scheduler/slurm-26.05/bin" in text


def test_a_reservation_made_here_is_used_by_a_resource_group(site: Site) -> None:
    reservation = CapacityReservation(
        site.stack,
        "Reservation",
        instance_type="p5.48xlarge",
        instance_count=2,
        availability_zone=ZONE,
        unlimited=True,
    )
    slurm_nodes(site, capacity=Capacity.reservation(reservation))
    resources = site.resources()
    [made] = of_type(resources, "AWS::EC2::CapacityReservation")
    target = launched(resources)["CapacityReservationSpecification"]["CapacityReservationTarget"]
    [pool] = of_type(resources, "AWS::ResourceGroups::Group")
    assert target == {"CapacityReservationResourceGroupArn": {"Fn::GetAtt": [pool, "Arn"]}}
    [member] = only(resources, "AWS::ResourceGroups::Group")["Resources"]
    assert json.dumps(member).endswith(f':capacity-reservation/", {{"Fn::GetAtt": ["{made}", "Id"]}}]]}}')


def test_a_group_of_reservations_is_named_by_its_arn(site: Site) -> None:
    arn = "arn:aws:resource-groups:us-east-1:111122223333:group/gpus"
    slurm_nodes(site, capacity=Capacity.from_reservation_group_arn(arn))
    target = launched(site.resources())["CapacityReservationSpecification"]["CapacityReservationTarget"]
    assert target == {"CapacityReservationResourceGroupArn": arn}
    assert not of_type(site.resources(), "AWS::ResourceGroups::Group")


def test_nothing_is_said_of_topology_on_ultraservers(site: Site) -> None:
    arn = "arn:aws:resource-groups:us-east-1:111122223333:group/ultra"
    slurm_nodes(
        site,
        instance_type="p6e-gb200.36xlarge",
        node_count=18,
        capacity=Capacity.ultraserver_block(arn, ends_at=ENDS),
    )
    resources = site.resources()
    assert only(resources, GROUP)["PurchaseOption"] == "CAPACITY_BLOCK"
    assert "opology" not in json.dumps(only(resources, GROUP))
    assert "GPU_DRAIN_AT=2026-12-15T10:20:00Z" in user_data(resources)


def test_a_store_lets_the_nodes_in(site: Site) -> None:
    store = LustreStore(
        site.stack,
        "Corpus",
        vpc=site.vpc,
        subnet=site.vpc.private_subnets[0],
        storage_capacity_gib=38_400,
        throughput_mb_per_s_per_tib=250,
    )
    slurm_nodes(site, mounts={"/fsx": store})
    resources = site.resources()
    assert "/etc/gpu-cluster/mounts" in user_data(resources)
    assert [
        one
        for one in of_type(resources, "AWS::EC2::SecurityGroupIngress").values()
        if one["Properties"].get("FromPort") == 988
    ]


def test_grants_metrics_alarms_and_sessions_are_those_of_every_fleet(site: Site) -> None:
    made = slurm_nodes(site)
    made.grant_read(s3.Bucket.from_bucket_name(site.stack, "Data", "corpus"), prefix="en/")
    made.connections.allow_from(ec2.Peer.ipv4("10.0.0.0/16"), ec2.Port.tcp(8080))
    assert made.metric_gpu_utilization().dimensions == {"Fleet": "Site/Trainers"}
    assert made.alarms is not None
    made.alarms.add_topic(sns.Topic(site.stack, "Topic"))
    assert "aws:pcs:compute-node-group-id" in made.session_command
    resources = site.resources()
    alarms = of_type(resources, "AWS::CloudWatch::Alarm")
    assert all("AlarmActions" in one["Properties"] for one in alarms.values())


def test_alarms_can_be_left_out(site: Site) -> None:
    assert slurm_nodes(site, alarms=None).alarms is None
    assert not of_type(site.resources(), "AWS::CloudWatch::Alarm")


def test_another_type_is_another_name(make_site: Any) -> None:
    names = []
    for kind in ("p5.48xlarge", "p5en.48xlarge"):
        site = make_site()
        slurm_nodes(site, instance_type=kind)
        [logical_id] = of_type(site.resources(), GROUP)
        names.append((logical_id, only(site.resources(), GROUP)["Name"]))
    assert names[0][0] == names[1][0]
    assert names[0][1] != names[1][1], "PCS makes the new group before it deletes the old one"


def two_blocks() -> Capacity:
    first, second = (parse_instant(f"2026-12-{day}T11:30Z", name="ends_at") for day in (15, 29))
    return Capacity.capacity_blocks(
        [
            BlockTerms(reservation_id="cr-0123456789abcdef0", ends_at=first),
            BlockTerms(reservation_id="cr-0aaaaaaaaaaaaaaaa", starts_at=first, ends_at=second),
        ]
    )


@pytest.mark.parametrize(
    ("options", "rule", "words"),
    [
        ({"node_count": None, "min_node_count": 1, "max_node_count": 4}, "GPU-PCS-060", "0 to 4"),
        ({"capacity": two_blocks()}, "GPU-PCS-061", "a node group for each block"),
        ({"capacity": Capacity.spot(max_price_usd_per_hour=9.5)}, "GPU-PCS-061", "9.5"),
        ({"update_policy": UpdatePolicy.NEVER_REPLACE}, "GPU-PCS-062", "ROLLING"),
        ({"node_group_name": "p"}, "GPU-PCS-018", "3 to 25"),
        ({"slurm_settings": {"MaxTime": "1"}}, "GPU-PCS-020", "queue"),
        ({"slurm_settings": {"Gres": "gpu:h100:9"}}, "GPU-GRES-003", "h100"),
        ({"scale_down_idle_time": cdk.Duration.days(200)}, "GPU-PCS-022", "10000000"),
        (
            {
                "lifecycle_scripts": [
                    LifecycleScript(name="gpu-node-boot", stage=LifecycleStage.NODE_BOOTSTRAPPED, content="x")
                ]
            },
            "GPU-PCS-023",
            "gpu-node-boot",
        ),
        ({"instance_type": "p9.48xlarge"}, "GPU-INST-001", "p9.48xlarge"),
        ({"instance_type": "trn2.48xlarge"}, "GPU-AMI-001", "own image"),
        ({"mig": MigLayout(["1g.10gb"] * 7)}, "GPU-MIG", "EFA"),
        ({"gres_mode": "guess"}, "GPU-ARG-001", "GresMode.AUTODETECT"),
        ({"placement": PlacementStrategy.SPREAD, "node_count": 9}, "GPU-", "spread"),
    ],
)
def test_what_pcs_or_ec2_would_refuse_is_refused_at_the_construct(
    site: Site, options: dict[str, Any], rule: str, words: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        slurm_nodes(site, **options)
    found = [one for one in refused.value.findings if one.id.startswith(rule) and words in str(one)]
    assert found, [str(one) for one in refused.value.findings]
    assert found[0].path.startswith("Site/Trainers")


def test_unknown_keywords_are_refused(site: Site) -> None:
    with pytest.raises(TypeError, match="release_version"):
        slurm_nodes(site, release_version="1")


def test_slices_on_a_group_that_scales_are_a_warning(site: Site) -> None:
    from aws_cdk.assertions import Annotations, Match

    slurm_nodes(
        site,
        instance_type="p4d.24xlarge",
        efa=False,
        mig=MigLayout(["1g.5gb"] * 7),
        node_count=None,
        min_node_count=0,
        max_node_count=2,
    )
    Annotations.from_stack(site.stack).has_warning("/Site/Trainers", Match.string_like_regexp("GPU-PCS-034"))


def test_an_older_slurm_has_no_idle_time_of_a_group(site: Site) -> None:
    with pytest.raises(ConfigError, match="GPU-PCS-019"):
        slurm_nodes(
            site,
            cluster=existing_slurm(site, slurm_version="25.05"),
            scale_down_idle_time=cdk.Duration.minutes(5),
        )


def test_tokens_are_carried_and_not_compared(site: Site) -> None:
    name = cdk.CfnParameter(site.stack, "Name").value_as_string
    version = cdk.CfnParameter(site.stack, "Version").value_as_string
    memory = cdk.CfnParameter(site.stack, "Memory").value_as_string
    cluster = existing_slurm(site, slurm_version=version)
    slurm_nodes(site, cluster=cluster, node_group_name=name, slurm_settings={"RealMemory": memory})
    resources = site.resources()
    assert only(resources, GROUP)["Name"] == {"Ref": "Name"}
    assert json.dumps(settings_of(resources)["RealMemory"]) == '{"Ref": "Memory"}'
    assert 'GPU_SLURM_BIN=/opt/aws/pcs/scheduler/slurm-{"Ref": "Version"}/bin' in user_data(resources).replace("'", "")
