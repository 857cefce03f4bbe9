"""Launch templates and Auto Scaling groups of an account -> plain EC2. Answers are checked by botocore's models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from moto import mock_aws

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters_stacks import preflight
from cdk_gpu_clusters_stacks.cli.main import main
from cdk_gpu_clusters_stacks.importing import Imported, Place, import_account
from cdk_gpu_clusters_stacks.importing.draft import Change
from cdk_gpu_clusters_stacks.spec import load_cluster
from fake_aws import FakeAws, Refusal

Values = dict[str, Any]
TEMPLATE, GROUP = "lt-0a1b2c3d4e5f60718", "trainers"
SUBNET, TRAFFIC = "subnet-0a1b2c3d4e5f60718", "sg-0a1b2c3d4e5f60718"
BLOCK = {"CapacityReservationTarget": {"CapacityReservationId": "cr-0a1b2c3d4e5f60718"}}

_GROUP: Values = {
    "AutoScalingGroupName": GROUP,
    "MinSize": 0,
    "MaxSize": 300,
    "DesiredCapacity": 2,
    "DefaultCooldown": 300,
    "AvailabilityZones": ["us-east-1a"],
    "HealthCheckType": "EC2",
    "CreatedTime": datetime(2026, 1, 1, tzinfo=UTC),
    "LaunchTemplate": {"LaunchTemplateId": TEMPLATE, "Version": "3"},
    "VPCZoneIdentifier": SUBNET,
    "Tags": [{"Key": "team", "Value": "research"}, {"Key": "aws:cloudformation:stack-name", "Value": "x"}],
}


def _launch(**changes: object) -> Values:
    interfaces = [
        {"DeviceIndex": min(card, 1), "NetworkCardIndex": card, "InterfaceType": "efa", "Groups": [TRAFFIC]}
        for card in range(32)
    ]
    return {
        "InstanceType": "p5.48xlarge",
        "ImageId": "ami-0a1b2c3d4e5f60718",
        "NetworkInterfaces": interfaces,
        "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 300, "VolumeType": "gp2"}}],
        "Placement": {"GroupName": "rack"},
        "UserData": "IyEvYmluL3No",
        "KeyName": "mine",
        **changes,
    }


def _account_with_group(launch: Values | None = None, **changes: object) -> FakeAws:
    """An account whose group has other values; None removes one."""
    group = {key: value for key, value in {**_GROUP, **changes}.items() if value is not None}
    return _account(launch, autoscaling__describe_auto_scaling_groups={"AutoScalingGroups": [group]})


def _account(launch: Values | None = None, **answers: object) -> FakeAws:
    version = {
        "LaunchTemplateId": TEMPLATE,
        "VersionNumber": 3,
        "LaunchTemplateData": _launch() if launch is None else launch,
    }
    subnet = {
        "SubnetId": SUBNET,
        "VpcId": "vpc-0a1b2c3d4e5f60718",
        "AvailabilityZone": "us-east-1a",
        "CidrBlock": "10.0.0.0/20",
        "MapPublicIpOnLaunch": False,
    }
    rule = {
        "SecurityGroupRuleId": "sgr-0a1b2c3d4e5f60718",
        "GroupId": TRAFFIC,
        "IsEgress": False,
        "IpProtocol": "-1",
        "ReferencedGroupInfo": {"GroupId": TRAFFIC},
    }
    anywhere = {**rule, "IsEgress": True, "CidrIpv4": "0.0.0.0/0"}
    del anywhere["ReferencedGroupInfo"]
    fake = FakeAws(
        {
            "ec2.describe_launch_template_versions": {"LaunchTemplateVersions": [version]},
            "autoscaling.describe_auto_scaling_groups": {"AutoScalingGroups": [_GROUP]},
            "ec2.describe_subnets": {"Subnets": [subnet]},
            "ec2.describe_security_group_rules": {"SecurityGroupRules": [rule, anywhere]},
            "ec2.describe_placement_groups": {"PlacementGroups": [{"GroupName": "rack", "Strategy": "cluster"}]},
            "ec2.describe_images": {"Images": [{"Name": "Deep Learning Base AMI (Ubuntu 24.04)"}]},
            "ec2.describe_capacity_reservations": {"CapacityReservations": []},
        }
    )
    return fake.but(**answers)


def _import(fake: FakeAws, **names: str) -> Imported:
    with preflight.Account(fake.clients, region="us-east-1") as account:
        return import_account(account, Place(name=""), target=Path("cluster.yaml"), **(names or {"group": GROUP}))


def _cluster(made: Imported) -> Any:
    assert made.text is not None, made.findings
    return yaml.safe_load(made.text)


def test_a_group_becomes_a_fleet_of_plain_ec2_with_nothing_to_fill_in() -> None:
    made = _import(_account())
    assert made.text is not None
    assert "CHANGE" not in made.text
    assert _cluster(made) == {
        "version": 1,
        "name": "trainers",
        "region": "us-east-1",
        "orchestrator": "ec2",
        "network": {
            "vpc_id": "vpc-0a1b2c3d4e5f60718",
            "subnet_ids": [SUBNET],
            "availability_zone": "us-east-1a",
            "cidr": "10.0.0.0/20",
        },
        "training": {
            "fleets": {
                "trainers": {
                    "instance_type": "p5.48xlarge",
                    "min_nodes": 0,
                    "max_nodes": 300,
                    "placement": "cluster",
                    "efa": True,
                    "root_volume": {"size_gib": 300},
                    "image": {"id": "ami-0a1b2c3d4e5f60718", "os": "ubuntu-24.04"},
                    "tags": {"team": "research"},
                }
            }
        },
    }


def test_the_rules_judge_what_is_deployed() -> None:
    """32 addresses a node, egress that EFA does not cover, a gp2 volume in clear text, metadata without tokens."""
    found = {one.id: one for one in _import(_account()).broken}
    assert {"GPU-IP-003", "GPU-EFA-031", "GPU-COST-004", "GPU-LT-012", "GPU-LT-010"} <= {*found}
    assert "300 nodes x 32" in found["GPU-IP-003"].cause
    assert "GPU-EFA-030" not in found
    assert found["GPU-LT-012"].path.startswith("trainers LaunchTemplateData.BlockDeviceMappings")


def test_what_is_not_taken_over_is_lost() -> None:
    lost = {note.what for note in _import(_account()).notes if note.change is Change.LOST}
    assert {
        "LaunchTemplateData.UserData",
        "LaunchTemplateData.KeyName",
        "AutoScalingGroup.DesiredCapacity",
        "AutoScalingGroup.HealthCheckType",
    } <= lost


@pytest.mark.parametrize(
    ("root", "size"), [("/dev/sda1", 200), ("/dev/sdf", 4000), (None, 200), ("/dev/nvme0n1", None)]
)
def test_the_root_volume_is_that_of_the_root_device_of_the_image(root: str | None, size: int | None) -> None:
    mappings: list[dict[str, Any]] = [
        {"DeviceName": "/dev/sdf", "Ebs": {"VolumeSize": 4000, "VolumeType": "gp3"}},
        {"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 200, "VolumeType": "gp3"}},
    ]
    images = {"Images": [{"Name": "Ubuntu 24.04", **({"RootDeviceName": root} if root else {})}]}
    made = _import(_account(_launch(BlockDeviceMappings=mappings), ec2__describe_images=images))
    assert _cluster(made)["training"]["fleets"]["trainers"].get("root_volume", {}).get("size_gib") == size
    lost = {note.what for note in made.notes if note.change is Change.LOST}
    rest = {f"LaunchTemplateData.BlockDeviceMappings[{index}]" for index, one in enumerate(mappings)
            if one["Ebs"]["VolumeSize"] != size}  # fmt: skip
    assert {name for name in lost if "BlockDevice" in name} == (
        rest if size else {"LaunchTemplateData.BlockDeviceMappings"}
    )


def test_the_times_of_a_block_are_those_of_the_account() -> None:
    launch = _launch(InstanceMarketOptions={"MarketType": "capacity-block"}, CapacityReservationSpecification=BLOCK)
    del launch["Placement"]
    block = {
        "CapacityReservationId": "cr-0a1b2c3d4e5f60718",
        "StartDate": datetime(2026, 12, 1, 11, 30, tzinfo=UTC),
        "EndDate": datetime(2026, 12, 15, 11, 30, tzinfo=UTC),
    }
    fake = _account(launch, ec2__describe_capacity_reservations={"CapacityReservations": [block]})
    made = _import(fake)
    assert made.text is not None
    assert "CHANGE" not in made.text
    fleet = _cluster(made)["training"]["fleets"]["trainers"]
    assert fleet["nodes"] == 2
    assert fleet["capacity"] == {
        "capacity_block": "cr-0a1b2c3d4e5f60718",
        "starts_at": "2026-12-01T11:30Z",
        "ends_at": "2026-12-15T11:30Z",
    }


def test_what_only_helps_may_be_denied_and_is_filled_in() -> None:
    launch = _launch(InstanceMarketOptions={"MarketType": "capacity-block"}, CapacityReservationSpecification=BLOCK)
    denied = Refusal("UnauthorizedOperation", "You are not authorized to perform this operation")
    made = _import(
        _account(
            launch,
            ec2__describe_capacity_reservations=denied,
            ec2__describe_images=denied,
            ec2__describe_subnets=denied,
            ec2__describe_placement_groups=denied,
            ec2__describe_security_group_rules=denied,
        )
    )
    filled = {note.what.rpartition(".")[2] for note in made.notes if note.change is Change.FILLED}
    assert filled == {"vpc_id", "availability_zone", "starts_at", "ends_at", "os"}
    assert len([one for one in made.findings if one.id == "GPU-IMP-008" and one.severity is Severity.WARNING]) == 5


def test_a_launch_template_alone_has_no_number_of_nodes() -> None:
    fake = _account()
    made = _import(fake, launch_template=f"{TEMPLATE}:3")
    assert "autoscaling.describe_auto_scaling_groups" not in fake.names()
    assert made.text is not None
    assert "nodes: 1 # CHANGE: the number of nodes" in made.text


def test_a_price_limit_of_spot_stays_on_plain_ec2() -> None:
    launch = _launch(InstanceMarketOptions={"MarketType": "spot", "SpotOptions": {"MaxPrice": "9.5"}})
    assert _cluster(_import(_account(launch)))["training"]["fleets"]["trainers"]["capacity"] == {
        "spot": {"max_price_usd_per_hour": 9.5}
    }


_ARN = "arn:aws:resource-groups:us-east-1:111122223333:group/mine"


@pytest.mark.parametrize(
    ("target", "capacity"),
    [
        ({"CapacityReservationIds": ["cr-0a1b2c3d4e5f60718"]}, {"reservation": "cr-0a1b2c3d4e5f60718"}),
        ({"CapacityReservationResourceGroupArns": [_ARN]}, {"reservation_group": _ARN}),
    ],
)
def test_a_reservation_of_the_group_stays(target: Values, capacity: Values) -> None:
    fake = _account_with_group(
        CapacityReservationSpecification={
            "CapacityReservationPreference": "capacity-reservations-only",
            "CapacityReservationTarget": target,
        }
    )
    fleet = _cluster(_import(fake))["training"]["fleets"]["trainers"]
    assert fleet["capacity"] == {**capacity, "placement_group": "rack"}
    assert ("ec2.describe_capacity_reservations" in fake.names()) is ("reservation" in capacity)


def test_a_second_reservation_of_the_group_is_lost() -> None:
    target = {"CapacityReservationIds": ["cr-0a1b2c3d4e5f60718", "cr-0a1b2c3d4e5f60719"]}
    made = _import(_account_with_group(CapacityReservationSpecification={"CapacityReservationTarget": target}))
    lost = {note.what for note in made.notes if note.change is Change.LOST}
    where = "AutoScalingGroup.CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationIds"
    assert f"{where}[1]" in lost
    assert f"{where}[0]" not in lost


def test_what_a_fleet_has_not_is_named_as_lost() -> None:
    arn = "arn:aws:vpc-lattice:us-east-1:111122223333:targetgroup/tg-0a1b2c3d4e5f60718"
    fake = _account_with_group(
        LoadBalancerNames=["classic"],
        TrafficSources=[{"Identifier": arn, "Type": "vpc-lattice"}],
        WarmPoolConfiguration={"MinSize": 1},
        CapacityReservationSpecification={"CapacityReservationPreference": "default"},
    )
    lost = {note.what: note.text for note in _import(fake).notes if note.change is Change.LOST}
    for name in ("LoadBalancerNames", "TrafficSources"):
        assert "load balancer" in lost[f"AutoScalingGroup.{name}"]
    assert "warm pool" in lost["AutoScalingGroup.WarmPoolConfiguration"]
    assert not any("CapacityReservation" in name for name in lost)


@pytest.mark.parametrize(
    ("launch", "of_group"),
    [({"GroupId": "pg-0a1b2c3d4e5f60718"}, {}), ({}, {"PlacementGroup": "rack"}), ({"GroupName": "rack"}, {})],
)
def test_a_placement_group_by_its_id_or_of_the_group_is_read(launch: Values, of_group: Values) -> None:
    fake = _account_with_group(_launch(Placement=launch, CapacityReservationSpecification=BLOCK), **of_group)
    made = _import(fake)
    assert _cluster(made)["training"]["fleets"]["trainers"]["capacity"]["placement_group"] == "rack"
    (asked,) = [one.parameters for one in fake.asked if one.name == "ec2.describe_placement_groups"]
    assert asked == ({"GroupIds": ["pg-0a1b2c3d4e5f60718"]} if "GroupId" in launch else {"GroupNames": ["rack"]})


def test_the_id_of_a_placement_group_that_may_not_be_read_is_lost() -> None:
    denied = Refusal("UnauthorizedOperation", "You are not authorized to perform this operation")
    launch = _launch(Placement={"GroupId": "pg-0a1b2c3d4e5f60718"}, CapacityReservationSpecification=BLOCK)
    made = _import(_account(launch, ec2__describe_placement_groups=denied))
    assert _cluster(made)["training"]["fleets"]["trainers"]["capacity"] == {"reservation": "cr-0a1b2c3d4e5f60718"}
    lost = {note.what for note in made.notes if note.change is Change.LOST}
    assert "LaunchTemplateData.Placement.GroupId" in lost


def test_the_rules_judge_the_placement_group_and_the_reservation_of_the_group() -> None:
    """EC2 does not launch a Capacity Block into a placement group."""
    launch = _launch(InstanceMarketOptions={"MarketType": "capacity-block"})
    del launch["Placement"]
    target = {"CapacityReservationTarget": {"CapacityReservationIds": ["cr-0a1b2c3d4e5f60718"]}}
    alone = {one.id for one in _import(_account_with_group(launch)).broken}
    assert {"GPU-CAP-002", "GPU-CAP-030"} & alone == {"GPU-CAP-030"}
    fake = _account_with_group(launch, CapacityReservationSpecification=target, PlacementGroup="rack")
    assert {"GPU-CAP-002", "GPU-CAP-030"} & {one.id for one in _import(fake).broken} == {"GPU-CAP-002"}


def _of_policy(**shares: object) -> Imported:
    policy = {
        "LaunchTemplate": {
            "LaunchTemplateSpecification": {"LaunchTemplateId": TEMPLATE, "Version": "3"},
            "Overrides": [{"InstanceType": "g6e.12xlarge"}, {"InstanceType": "g6e.24xlarge"}],
        },
        "InstancesDistribution": shares,
    }
    launch = _launch(NetworkInterfaces=[{"DeviceIndex": 0, "Groups": [TRAFFIC]}])
    del launch["Placement"]
    return _import(_account_with_group(launch, LaunchTemplate=None, MixedInstancesPolicy=policy))


def test_a_group_of_spot_instances_by_its_policy_is_spot() -> None:
    made = _of_policy(OnDemandPercentageAboveBaseCapacity=0, SpotMaxPrice="5.0")
    fleet = _cluster(made)["training"]["fleets"]["trainers"]
    assert fleet["instance_type"] == "g6e.12xlarge"
    assert fleet["capacity"] == {"spot": {"max_price_usd_per_hour": 5.0}}


@pytest.mark.parametrize(
    ("shares", "is_mix"),
    [
        ({}, False),
        ({"OnDemandBaseCapacity": 0, "OnDemandPercentageAboveBaseCapacity": 100}, False),
        ({"OnDemandBaseCapacity": 2, "OnDemandPercentageAboveBaseCapacity": 0}, True),
    ],
)
def test_a_mix_of_a_policy_is_on_demand_and_named(shares: Values, is_mix: bool) -> None:
    made = _of_policy(**shares)
    assert "capacity" not in _cluster(made)["training"]["fleets"]["trainers"]
    assert any("this mix becomes On-Demand" in note.text for note in made.notes) is is_mix


@pytest.mark.parametrize(
    ("answers", "rule", "words"),
    [
        ({"autoscaling__describe_auto_scaling_groups": {"AutoScalingGroups": []}}, "GPU-IMP-008", "there is no Auto"),
        ({"ec2__describe_launch_template_versions": Refusal("InvalidLaunchTemplateId.NotFound", "no such")},
         "GPU-IMP-008", "no such"),
        ({"autoscaling__describe_auto_scaling_groups": Refusal("AccessDenied", "no")}, "GPU-IMP-008", "is not allowed"),
    ],
)  # fmt: skip
def test_what_cannot_be_read(answers: Values, rule: str, words: str) -> None:
    made = _import(_account(**answers))
    assert made.text is None
    assert [one.id for one in made.findings] == [rule]
    assert words in made.findings[0].cause


def test_a_group_without_accelerators_is_a_fault() -> None:
    made = _import(_account(_launch(InstanceType="m5.large")))
    assert [one.id for one in made.findings] == ["GPU-IMP-004"]


def test_every_call_only_reads() -> None:
    from cdk_gpu_clusters_stacks.importing.deployed import policy_to_import

    fake = _account(_launch(CapacityReservationSpecification=BLOCK))
    _import(fake)
    (statement,) = policy_to_import()["Statement"]
    asked = {f"{name.partition('.')[0]}:{''.join(map(str.capitalize, name.partition('.')[2].split('_')))}"
             for name in fake.names()}  # fmt: skip
    assert asked == set(statement["Action"])
    assert all(action.partition(":")[2].startswith("Describe") for action in statement["Action"])


# The command, over moto's account.


@pytest.fixture
def moto_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A VPC, a launch template and a group that moto took."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.chdir(tmp_path)
    with mock_aws():
        ec2: Any = boto3.client("ec2", region_name="us-east-1")
        scaling: Any = boto3.client("autoscaling", region_name="us-east-1")
        vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/20", AvailabilityZone="us-east-1a")["Subnet"]
        group = ec2.create_security_group(GroupName="efa", Description="efa", VpcId=vpc)["GroupId"]
        interface = {"DeviceIndex": 0, "NetworkCardIndex": 0, "InterfaceType": "efa", "Groups": [group]}
        data = {
            "InstanceType": "g6.8xlarge",
            "ImageId": ec2.describe_images()["Images"][0]["ImageId"],
            "NetworkInterfaces": [interface],
        }
        template = ec2.create_launch_template(LaunchTemplateName="gpu", LaunchTemplateData=data)["LaunchTemplate"]
        scaling.create_auto_scaling_group(
            AutoScalingGroupName="workers",
            MinSize=0,
            MaxSize=4,
            LaunchTemplate={"LaunchTemplateId": template["LaunchTemplateId"], "Version": "$Latest"},
            VPCZoneIdentifier=subnet["SubnetId"],
        )
        yield


@pytest.mark.usefixtures("moto_account")
def test_the_command_reads_a_group_of_an_account(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "--auto-scaling-group", "workers", "--region", "us-east-1"]) == 0
    made = load_cluster("cluster.yaml")
    (fleet,) = made.training.fleets.values()
    assert (made.orchestrator, fleet.instance_type, fleet.maximum_nodes, fleet.efa) == ("ec2", "g6.8xlarge", 4, True)
    assert made.network.availability_zone == "us-east-1a"
    out = capsys.readouterr().out
    assert out.startswith("workers in us-east-1 (Amazon EC2) -> cluster.yaml\n")
    assert "GPU-LT-010" in out
    assert ":1:1" not in out


def test_the_policy_is_printed_without_asking(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "--print-policy"]) == 0
    assert json.loads(capsys.readouterr().out)["Statement"][0]["Sid"] == "GpuClustersImport"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give one of FILE"),
        (["file.yaml", "--launch-template", TEMPLATE], "give one of FILE"),
        (["--launch-template", TEMPLATE], "give the Region"),
    ],
)
def test_the_command_needs_one_source(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["import", *arguments]) == 2
    assert words in capsys.readouterr().err
