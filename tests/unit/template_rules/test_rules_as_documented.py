"""What rules say where AWS's pages allow more, or less, than one would think."""

from __future__ import annotations

from typing import Any

import pytest

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.template_rules.engine import judge
from cdk_gpu_clusters.template_rules.registry import every_rule
from cdk_gpu_clusters.template_rules.rule import Outcome, Verdict
from cdk_gpu_clusters.template_rules.template import Template

P5 = "p5.48xlarge"
LATEST = {"Fn::GetAtt": ["Nodes", "LatestVersionNumber"]}
BY_ID = {"LaunchTemplateId": {"Ref": "Nodes"}, "Version": LATEST}
BLOCK = {
    "InstanceMarketOptions": {"MarketType": "capacity-block"},
    "CapacityReservationSpecification": {
        "CapacityReservationTarget": {"CapacityReservationId": "cr-0123456789abcdef0"}
    },
}


def verdicts(rule: str, **resources: Any) -> list[Verdict]:
    rules = [one for one in every_rule() if one.id == rule]
    return judge(Template.of({"Resources": resources}), rules)


def outcomes(rule: str, **resources: Any) -> set[Outcome]:
    return {verdict.outcome for verdict in verdicts(rule, **resources)}


def resource(kind: str, **properties: Any) -> dict[str, Any]:
    return {"Type": kind, "Properties": properties}


def nodes(**data: Any) -> dict[str, Any]:
    return resource("AWS::EC2::LaunchTemplate", LaunchTemplateData=data)


def group(**properties: Any) -> dict[str, Any]:
    return resource("AWS::AutoScaling::AutoScalingGroup", MaxSize=4, **properties)


def mix(distribution: dict[str, Any] | None = None, **override: Any) -> dict[str, Any]:
    launch = {"LaunchTemplateSpecification": BY_ID, "Overrides": [{"InstanceType": P5, **override}]}
    return {"LaunchTemplate": launch, "InstancesDistribution": distribution or {}}


@pytest.mark.parametrize(
    ("policy", "outcome"),
    [
        (mix(), Outcome.NOT_APPLICABLE),
        (mix({"OnDemandPercentageAboveBaseCapacity": 100}), Outcome.NOT_APPLICABLE),
        (mix({"OnDemandPercentageAboveBaseCapacity": 50}), Outcome.NOT_COMPLIANT),
        (mix({"DistributionSegments": [{}]}), Outcome.NOT_COMPLIANT),
        (mix(WeightedCapacity="2"), Outcome.NOT_COMPLIANT),
    ],
)
def test_several_types_have_a_warm_pool_but_weights_spot_and_segments_have_none(
    policy: dict[str, Any], outcome: Outcome
) -> None:
    pool = resource("AWS::AutoScaling::WarmPool", AutoScalingGroupName={"Ref": "Group"})
    found = outcomes("GPU-CAP-032", Nodes=nodes(), Group=group(MixedInstancesPolicy=policy), Pool=pool)
    assert found == {outcome}


def test_a_reservation_may_be_named_without_the_placement_group_it_was_made_in() -> None:
    """EC2 launches into the reservation then, and so near the others, without attaching the node to the group."""
    target = {"CapacityReservationTarget": {"CapacityReservationId": {"Ref": "Reserved"}}}
    arn = {"Fn::Sub": "arn:aws:ec2:us-east-1:111122223333:placement-group/${Place}"}
    found = outcomes(
        "GPU-CAP-016",
        Nodes=nodes(InstanceType=P5, CapacityReservationSpecification=target),
        Place=resource("AWS::EC2::PlacementGroup", Strategy="cluster"),
        Reserved=resource("AWS::EC2::CapacityReservation", PlacementGroupArn=arn),
    )
    assert found == {Outcome.COMPLIANT}


def test_a_resource_group_holds_more_than_one_block() -> None:
    arn = "arn:aws:resource-groups:us-east-1:111122223333:group/blocks"
    several = {"CapacityReservationTarget": {"CapacityReservationResourceGroupArn": arn}}
    one, many = nodes(InstanceType=P5, **BLOCK), nodes(InstanceType=P5, **BLOCK)
    many["Properties"]["LaunchTemplateData"]["CapacityReservationSpecification"] = several
    large = resource("AWS::AutoScaling::AutoScalingGroup", MaxSize=100, LaunchTemplate=BY_ID)
    assert outcomes("GPU-CAP-013", Nodes=one, Group=large) == {Outcome.NOT_COMPLIANT}
    assert outcomes("GPU-CAP-013", Nodes=many, Group=large) == {Outcome.NOT_APPLICABLE}


@pytest.mark.parametrize(
    ("user", "outcome"),
    [
        (
            resource(
                "AWS::EC2::EC2Fleet",
                LaunchTemplateConfigs=[{"LaunchTemplateSpecification": BY_ID, "Overrides": [{"InstanceType": P5}]}],
            ),
            Outcome.NOT_APPLICABLE,
        ),
        (resource("AWS::EC2::Instance", InstanceType=P5, LaunchTemplate=BY_ID), Outcome.NOT_APPLICABLE),
        (
            resource(
                "AWS::EKS::Nodegroup",
                InstanceTypes=[P5],
                LaunchTemplate={"Id": {"Ref": "Nodes"}, "Version": LATEST},
            ),
            Outcome.NOT_COMPLIANT,
        ),
        (group(LaunchTemplate=BY_ID), Outcome.NOT_COMPLIANT),
    ],
)
def test_a_fleet_may_name_the_type_of_a_block_itself(user: dict[str, Any], outcome: Outcome) -> None:
    found = {
        verdict.outcome
        for verdict in verdicts("GPU-CAP-035", Nodes=nodes(**BLOCK), User=user)
        if verdict.resource == "Nodes"
    }
    assert found == {outcome}


@pytest.mark.parametrize(
    ("fleet", "faults"),
    [
        ({"Type": "instant", "DefaultTargetCapacityType": "capacity-block"}, 0),
        ({"DefaultTargetCapacityType": "capacity-block"}, 1),
        ({"Type": "instant"}, 1),
        ({"Type": "instant", "DefaultTargetCapacityType": "capacity-block", "OnDemandTargetCapacity": 2}, 1),
        ({"Type": "maintain", "DefaultTargetCapacityType": "spot", "SpotTargetCapacity": 2}, 3),
    ],
)
def test_a_fleet_takes_a_block_at_once_and_nothing_else(fleet: dict[str, Any], faults: int) -> None:
    kind = fleet.pop("Type", None)
    properties = {
        **({"Type": kind} if kind else {}),
        "LaunchTemplateConfigs": [{"LaunchTemplateSpecification": BY_ID}],
        "TargetCapacitySpecification": {"TotalTargetCapacity": 4, **fleet},
    }
    found = verdicts(
        "GPU-CAP-037",
        Nodes=nodes(InstanceType=P5, **BLOCK),
        Fleet=resource("AWS::EC2::EC2Fleet", **properties),
    )
    assert sum(verdict.outcome is Outcome.NOT_COMPLIANT for verdict in found) == faults


_ORDERED = {
    "ReservationTypes": ["on-demand-capacity-reservation", "capacity-block"],
    "AllocationStrategy": "prioritized",
}
_RESERVED = {"TotalTargetCapacity": 4, "DefaultTargetCapacityType": "reserved-capacity"}


@pytest.mark.parametrize(
    ("fleet", "faults"),
    [
        ({"Type": "instant", "TargetCapacitySpecification": _RESERVED, "ReservedCapacityOptions": _ORDERED}, []),
        ({"Type": "instant", "TargetCapacitySpecification": _RESERVED}, []),
        ({"TargetCapacitySpecification": _RESERVED, "ReservedCapacityOptions": _ORDERED}, ["maintain, by default"]),
        (
            {
                "Type": "instant",
                "TargetCapacitySpecification": {"TotalTargetCapacity": 4},
                "ReservedCapacityOptions": _ORDERED,
            },
            ["ReservedCapacityOptions beside on-demand, by default"],
        ),
        (
            {
                "Type": "instant",
                "TargetCapacitySpecification": _RESERVED,
                "ReservedCapacityOptions": {"ReservationTypes": ["interruptible-capacity-reservation"]},
            },
            ["interruptible-capacity-reservation"],
        ),
        (
            {
                "Type": "instant",
                "TargetCapacitySpecification": _RESERVED,
                "ReservedCapacityOptions": {
                    "CapacityReservationTarget": {
                        "CapacityReservationIds": ["cr-0123456789abcdef0"],
                        "CapacityReservationResourceGroupArns": [
                            "arn:aws:resource-groups:us-east-1:111122223333:group/a"
                        ],
                    }
                },
            },
            ["ids and groups of reservations"],
        ),
    ],
)
def test_a_fleet_takes_several_types_of_reservation_in_order(fleet: dict[str, Any], faults: list[str]) -> None:
    """EC2 API reference, ReservedCapacityOptionsRequest and FleetCapacityReservationTargetRequest."""
    both = [{"LaunchTemplateSpecification": {**BY_ID, "LaunchTemplateId": {"Ref": name}}} for name in "AB"]
    found = verdicts(
        "GPU-CAP-037",
        A=nodes(InstanceType=P5, **BLOCK),
        B=nodes(InstanceType=P5),
        Fleet=resource("AWS::EC2::EC2Fleet", LaunchTemplateConfigs=both, **fleet),
    )
    assert [verdict.finding.got for verdict in found if verdict.finding] == faults


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("ml.g7.2xlarge", Outcome.COMPLIANT),
        ("ml.p6e-gb200.36xlarge", Outcome.COMPLIANT),
        ("ml.c8a.16xlarge", Outcome.COMPLIANT),
        ("ml.trn9.48xlarge", Outcome.COMPLIANT),
        ("ml.trn2u.48xlarge", Outcome.NOT_COMPLIANT),
        ("ml.inf2.48xlarge", Outcome.NOT_COMPLIANT),
        ("ml.p5.49xlarge", Outcome.NOT_COMPLIANT),
    ],
)
def test_hyperpod_has_other_types_than_ec2(name: str, outcome: Outcome) -> None:
    """SageMaker service model, ClusterInstanceType; a family that the catalogue does not know may be newer than both."""
    groups = [{"InstanceGroupName": "workers", "InstanceType": name}]
    assert outcomes("GPU-HYP-001", Cluster=resource("AWS::SageMaker::Cluster", InstanceGroups=groups)) == {outcome}


@pytest.mark.parametrize(
    ("settings", "faults"),
    [
        ({}, 0),
        ({"Interval": 60, "Timeout": 30, "InitializationGracePeriodSeconds": 600, "Path": "/healthz"}, 0),
        ({"Interval": 30, "Timeout": 31, "InitializationGracePeriodSeconds": -1, "Path": "healthz"}, 4),
    ],
)
def test_ec2_limits_the_times_of_a_status_check(settings: dict[str, Any], faults: int) -> None:
    check = resource("AWS::EC2::ApplicationStatusCheck", Protocol="http", Port=8000, **settings)
    assert sum(one.finding is not None for one in verdicts("GPU-FLT-020", Check=check)) == faults


@pytest.mark.parametrize(
    ("instance_type", "settings", "outcome"),
    [
        (P5, {}, Outcome.NOT_COMPLIANT),
        (P5, {"Aggregation": "included"}, Outcome.COMPLIANT),
        ("m7i.large", {}, Outcome.NOT_APPLICABLE),
    ],
)
def test_a_status_check_beside_gpus_says_whether_it_may_end_them(
    instance_type: str, settings: dict[str, Any], outcome: Outcome
) -> None:
    check = resource("AWS::EC2::ApplicationStatusCheck", Protocol="http", Port=8000, **settings)
    assert outcomes("GPU-FLT-021", Nodes=nodes(InstanceType=instance_type), Check=check) == {outcome}


def test_a_fleet_does_not_mix_a_block_with_other_capacity() -> None:
    both = [{"LaunchTemplateSpecification": {**BY_ID, "LaunchTemplateId": {"Ref": name}}} for name in "AB"]
    found = verdicts(
        "GPU-CAP-037",
        A=nodes(InstanceType=P5, **BLOCK),
        B=nodes(InstanceType=P5),
        Fleet=resource(
            "AWS::EC2::EC2Fleet",
            Type="instant",
            LaunchTemplateConfigs=both,
            TargetCapacitySpecification={"DefaultTargetCapacityType": "capacity-block"},
        ),
    )
    assert [verdict.finding.got for verdict in found if verdict.finding] == [
        "launch templates with capacity-block and no market type"
    ]


@pytest.mark.parametrize(
    ("policy", "outcome"),
    [
        ({}, Outcome.NOT_COMPLIANT),
        (
            {"AutoScalingScheduledAction": {"IgnoreUnmodifiedGroupSizeProperties": False}},
            Outcome.NOT_COMPLIANT,
        ),
        ({"AutoScalingScheduledAction": {"IgnoreUnmodifiedGroupSizeProperties": True}}, Outcome.COMPLIANT),
    ],
)
def test_cloudformation_can_be_told_to_leave_the_size_alone(policy: dict[str, Any], outcome: Outcome) -> None:
    sized = {**group(DesiredCapacity=2, LaunchTemplate=BY_ID), "UpdatePolicy": policy}
    action = resource("AWS::AutoScaling::ScheduledAction", AutoScalingGroupName={"Ref": "Group"})
    assert outcomes("GPU-FLT-008", Nodes=nodes(), Group=sized, Action=action) == {outcome}


@pytest.mark.parametrize(
    ("role", "outcome"),
    [
        ("AWSPCS-nodes", Outcome.COMPLIANT),
        ("nodes", Outcome.UNDECIDABLE),  # its path is not in the template
        ({"Ref": "Role"}, Outcome.COMPLIANT),
    ],
)
def test_pcs_looks_for_its_folder_anywhere_in_the_path(role: Any, outcome: Outcome) -> None:
    found = outcomes(
        "GPU-PCS-014",
        Role=resource("AWS::IAM::Role", Path="/research/aws-pcs/"),
        Profile=resource("AWS::IAM::InstanceProfile", Roles=[role]),
        Group=resource("AWS::PCS::ComputeNodeGroup", IamInstanceProfileArn={"Fn::GetAtt": ["Profile", "Arn"]}),
    )
    assert found == {outcome}


@pytest.mark.parametrize(
    ("key", "outcome"),
    [("VpcConfig", Outcome.NOT_APPLICABLE), ("OverrideVpcConfig", Outcome.NOT_COMPLIANT)],
)
def test_hyperpod_chooses_one_of_the_subnets_of_its_cluster(key: str, outcome: Outcome) -> None:
    network = {"Subnets": [{"Ref": "Near"}, {"Ref": "Far"}]}
    instances = {
        "InstanceType": f"ml.{P5}",
        **({"OverrideVpcConfig": network} if key == "OverrideVpcConfig" else {}),
    }
    cluster = {"InstanceGroups": [instances], **({"VpcConfig": network} if key == "VpcConfig" else {})}
    found = outcomes(
        "GPU-HYP-006",
        Near=resource("AWS::EC2::Subnet", AvailabilityZone="us-east-1a"),
        Far=resource("AWS::EC2::Subnet", AvailabilityZone="us-east-1b"),
        Cluster=resource("AWS::SageMaker::Cluster", **cluster),
    )
    assert found == {outcome}


@pytest.mark.parametrize(
    ("image", "launch", "outcome"),
    [
        ({}, BY_ID, Outcome.NOT_COMPLIANT),
        ({"ImageId": "ami-0123456789abcdef0"}, BY_ID, Outcome.NOT_APPLICABLE),
        ({}, {**BY_ID, "Overrides": [{"LaunchTemplateId": "lt-0"}]}, Outcome.NOT_APPLICABLE),
    ],
)
def test_an_image_of_the_launch_template_counts_more_than_the_image_type_of_batch(
    image: dict[str, Any], launch: dict[str, Any], outcome: Outcome
) -> None:
    resources = {
        "InstanceTypes": [P5],
        "Ec2Configuration": [{"ImageType": "ECS_AL2023"}],
        "LaunchTemplate": launch,
    }
    environment = resource("AWS::Batch::ComputeEnvironment", ComputeResources=resources)
    assert outcomes("GPU-BAT-002", Nodes=nodes(**image), Environment=environment) == {outcome}


def test_eks_takes_no_instance_requirements() -> None:
    eks = resource("AWS::EKS::Nodegroup", LaunchTemplate={"Id": {"Ref": "Nodes"}, "Version": LATEST})
    launch = nodes(InstanceRequirements={"VCpuCount": {"Min": 8}})
    assert outcomes("GPU-EKS-011", Nodes=launch, Group=eks) == {Outcome.NOT_COMPLIANT}


def test_connections_of_an_efa_only_interface_are_not_tracked() -> None:
    tracked = {"ConnectionTrackingSpecification": {"TcpEstablishedTimeout": 350}}
    primary = {"DeviceIndex": 0, "InterfaceType": "interface"}
    fabric = {"DeviceIndex": 1, "InterfaceType": "efa-only"}
    assert outcomes(
        "GPU-EFA-012", Nodes=nodes(InstanceType=P5, NetworkInterfaces=[{**primary, **tracked}, fabric])
    ) == {Outcome.COMPLIANT}
    assert outcomes(
        "GPU-EFA-012", Nodes=nodes(InstanceType=P5, NetworkInterfaces=[primary, {**fabric, **tracked}])
    ) == {Outcome.NOT_COMPLIANT}


METADATA = {"MetadataConfiguration": {"Mode": "AUTOMATIC"}}


@pytest.mark.parametrize(
    ("version", "lustre", "outcome"),
    [
        (None, {"DeploymentType": "SCRATCH_2"}, Outcome.NOT_COMPLIANT),
        (None, {"DeploymentType": "PERSISTENT_1"}, Outcome.NOT_COMPLIANT),
        (None, {}, Outcome.NOT_COMPLIANT),
        (None, {"DeploymentType": "PERSISTENT_2"}, Outcome.COMPLIANT),  # 2.12 by default
        (None, {"DeploymentType": "PERSISTENT_2", **METADATA}, Outcome.COMPLIANT),  # 2.15 by default
        ("2.15", {"DeploymentType": "SCRATCH_2"}, Outcome.COMPLIANT),
        ("2.10", {"DeploymentType": "SCRATCH_2"}, Outcome.NOT_COMPLIANT),
    ],
)
def test_the_version_of_a_file_system_has_a_default_of_its_class(
    version: str | None, lustre: dict[str, Any], outcome: Outcome
) -> None:
    named = {"FileSystemTypeVersion": version} if version else {}
    file_system = resource("AWS::FSx::FileSystem", FileSystemType="LUSTRE", LustreConfiguration=lustre, **named)
    assert outcomes("GPU-LUS-047", Corpus=file_system) == {outcome}


def test_a_file_system_of_a_backup_has_the_version_of_the_backup() -> None:
    file_system = resource(
        "AWS::FSx::FileSystem",
        FileSystemType="LUSTRE",
        BackupId="backup-0123456789abcdef0",
        LustreConfiguration={"DeploymentType": "PERSISTENT_1"},
    )
    assert outcomes("GPU-LUS-047", Corpus=file_system) == {Outcome.NOT_APPLICABLE}


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        (
            "echo 'fs-01@tcp:/a /fsx lustre _netdev 0 0' >>/etc/fstab\nmount -t lustre fs-01@tcp:/a /fsx",
            Outcome.COMPLIANT,
        ),
        ("mount -t lustre fs-01@tcp:/a /fsx && mount -t nfs4 fs-02:/ /fsx", Outcome.NOT_COMPLIANT),
        ("mount -t efs -o tls fs-02:/ /fsx/home; mount -t lustre fs-01@tcp:/a /fsx", Outcome.NOT_COMPLIANT),
        ("mount -t lustre fs-01@tcp:/a /fsx\nmount -t lustre fs-02@tcp:/b /fsx2", Outcome.COMPLIANT),
        ("mount -t lustre $SOURCE $POINT", Outcome.NOT_APPLICABLE),
        ("echo nothing", Outcome.NOT_APPLICABLE),
    ],
)
def test_mounts_hide_each_other(script: str, outcome: Outcome) -> None:
    launch = nodes(InstanceType="g6e.xlarge", UserData={"Fn::Base64": f"#!/bin/sh\n{script}\n"})
    assert outcomes("GPU-MNT-002", Nodes=launch) == {outcome}


@pytest.mark.parametrize(
    "script",
    [
        "export AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE",
        "echo '-----BEGIN RSA PRIVATE KEY-----' >key",
        "export DB_PASSWORD=hunter2",
    ],
)
def test_secrets_by_value_and_by_name_are_errors(script: str) -> None:
    launch = nodes(InstanceType="g6e.xlarge", UserData={"Fn::Base64": f"#!/bin/sh\n{script}\n"})
    assert [verdict.severity for verdict in verdicts("GPU-UD-002", Nodes=launch)] == [Severity.ERROR]


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        ("eth0", Outcome.NOT_COMPLIANT),
        ('"=eth0"', Outcome.NOT_COMPLIANT),
        ("^docker,lo,veth", Outcome.COMPLIANT),
        ("en", Outcome.COMPLIANT),
    ],
)
def test_nccl_is_not_bound_to_an_interface_that_nodes_do_not_have(value: str, outcome: Outcome) -> None:
    script = f"#!/bin/sh\nexport NCCL_SOCKET_IFNAME={value}\n"
    launch = nodes(InstanceType="g6e.xlarge", UserData={"Fn::Base64": script})
    assert outcomes("GPU-UD-004", Nodes=launch) == {outcome}


@pytest.mark.parametrize(("price", "outcome"), [("0.001", Outcome.NOT_COMPLIANT), ("0.002", Outcome.COMPLIANT)])
def test_a_spot_price_limit_is_not_too_low(price: str, outcome: Outcome) -> None:
    market = {"MarketType": "spot", "SpotOptions": {"MaxPrice": price}}
    assert outcomes("GPU-CAP-020", Nodes=nodes(InstanceType=P5, InstanceMarketOptions=market)) == {outcome}
