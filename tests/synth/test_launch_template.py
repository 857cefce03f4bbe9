"""Launch templates: every interface of every type, and every field as it was given."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam

from cdk_gpu_clusters import (
    Capacity,
    ClusterPlacementGroup,
    ConfigError,
    EfaSecurityGroup,
    GpuLaunchTemplate,
    NodeImage,
    Orchestrator,
    RootVolume,
)
from cdk_gpu_clusters.catalogue import instance_types
from cdk_gpu_clusters.compute.launch_template import launch_template_data
from cdk_gpu_clusters.rules.interfaces import NetworkInterface, check_interfaces
from stack_fixtures import Site, SiteFactory, of_type, only

TEMPLATE = "AWS::EC2::LaunchTemplate"
EFA_TYPES = sorted(name for name, record in instance_types().items() if record.network.efa and record.accelerator)


def data_of(site: Site) -> dict[str, Any]:
    data: dict[str, Any] = only(site.resources(), TEMPLATE)["LaunchTemplateData"]
    return data


@pytest.fixture(scope="module")
def layouts(app_factory: Any) -> dict[str, dict[str, Any]]:
    """The synthesized template data of every EFA type under the default policy."""
    site = Site(app_factory(), None)
    fabric = EfaSecurityGroup(site.stack, "Fabric", vpc=site.vpc)
    templates = {}
    for name in EFA_TYPES:
        capacity = (
            Capacity.ultraserver_block(
                "arn:aws:resource-groups:us-east-1:123456789012:group/rack", ends_at="2026-12-15T11:30Z"
            )
            if instance_types()[name].ultraservers
            else Capacity.on_demand()
        )
        image = NodeImage.from_id("ami-0123456789abcdef0")
        construct = GpuLaunchTemplate(
            site.stack,
            name.replace(".", "-"),
            instance_type=name,
            fabric=fabric,
            capacity=capacity,
            image=image,
        )
        templates[name] = site.stack.get_logical_id(construct.cfn_launch_template)
    resources = site.resources()
    return {name: resources[logical_id]["Properties"]["LaunchTemplateData"] for name, logical_id in templates.items()}


@pytest.mark.parametrize("name", EFA_TYPES)
def test_the_layout_is_the_recommended_one(name: str, layouts: dict[str, dict[str, Any]]) -> None:
    network = instance_types()[name].network
    assert network.efa is not None
    entries = layouts[name]["NetworkInterfaces"]
    efa = [entry for entry in entries if entry["InterfaceType"] != "interface"]
    assert [entry["NetworkCardIndex"] for entry in efa] == list(network.efa.recommended_cards)
    with_ip = [entry for entry in entries if entry["InterfaceType"] != "efa-only"]
    assert [(entry["NetworkCardIndex"], entry["DeviceIndex"]) for entry in with_ip] == [(0, 0)]


@pytest.mark.parametrize("name", EFA_TYPES)
def test_ec2_would_take_the_synthesized_interfaces(name: str, layouts: dict[str, dict[str, Any]]) -> None:
    interfaces = [
        NetworkInterface(entry["NetworkCardIndex"], entry["DeviceIndex"], entry["InterfaceType"])
        for entry in layouts[name]["NetworkInterfaces"]
    ]
    assert check_interfaces(instance_types()[name], interfaces) == []
    assert all(entry["Groups"] for entry in layouts[name]["NetworkInterfaces"])
    assert "SecurityGroupIds" not in layouts[name]


def test_p6_b300_has_no_efa_on_card_0(layouts: dict[str, dict[str, Any]]) -> None:
    entries = layouts["p6-b300.48xlarge"]["NetworkInterfaces"]
    assert [entry["InterfaceType"] for entry in entries if entry["NetworkCardIndex"] == 0] == ["interface"]
    assert len(entries) == 17


def test_p5_has_33_interfaces_and_one_address(site: Site) -> None:
    template = GpuLaunchTemplate(
        site.stack,
        "Template",
        instance_type=ec2.InstanceType("p5.48xlarge"),
        fabric=EfaSecurityGroup(site.stack, "Fabric", vpc=site.vpc),
    )
    assert template.interface_plan.efa_gbps == 3200
    assert template.interface_plan.ip_addresses_per_node == 1
    entries = data_of(site)["NetworkInterfaces"]
    assert len(entries) == 33
    assert not any("AssociatePublicIpAddress" in entry for entry in entries)


def test_what_is_given_is_what_is_synthesized(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """CDK drops unknown and snake_case keys without a word: compare the whole tree."""
    given: dict[str, Any] = {}

    def remember(parts: Any) -> dict[str, Any]:
        given.update(launch_template_data(parts))
        return launch_template_data(parts)

    monkeypatch.setattr("cdk_gpu_clusters.compute.launch_template.launch_template_data", remember)
    role = iam.Role(site.stack, "Role", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))
    GpuLaunchTemplate(
        site.stack,
        "Template",
        instance_type="p4d.24xlarge",
        fabric=EfaSecurityGroup(site.stack, "Fabric", vpc=site.vpc),
        capacity=Capacity.spot(max_price_usd_per_hour=12.5),
        placement_group=ClusterPlacementGroup(site.stack, "Placement"),
        instance_profile=iam.InstanceProfile(site.stack, "Profile", role=role),
        root_volume=RootVolume(size_gib=300, iops=4000, throughput_mib_per_s=500),
        user_data="#!/bin/sh\n",
    )
    synthesized = data_of(site)
    synthesized.pop("TagSpecifications", None)  # filled at synthesis, and tested with the defaults below
    assert given
    assert key_tree(synthesized) == pascal(key_tree(given))


def key_tree(value: Any) -> Any:
    """The shape of a value: its keys, with every leaf replaced."""
    if isinstance(value, dict) and not set(value) & {"Ref", "Fn::GetAtt", "Fn::Base64", "Fn::Join"}:
        return {key: key_tree(inner) for key, inner in value.items()}
    return [key_tree(inner) for inner in value] if isinstance(value, list) else "leaf"


def pascal(value: Any) -> Any:
    if isinstance(value, dict):
        return {key[0].upper() + key[1:]: pascal(inner) for key, inner in value.items()}
    return [pascal(inner) for inner in value] if isinstance(value, list) else value


@pytest.fixture
def fabric(site: Site) -> ec2.ISecurityGroup:
    return EfaSecurityGroup(site.stack, "Fabric", vpc=site.vpc)


@pytest.mark.parametrize(
    ("capacity", "options", "reservation"),
    [
        (Capacity.on_demand(), None, {"CapacityReservationPreference": "none"}),
        (
            Capacity.on_demand(uses_open_reservations=True),
            None,
            {"CapacityReservationPreference": "open"},
        ),
        (Capacity.spot(), {"MarketType": "spot"}, None),
        (
            Capacity.spot(max_price_usd_per_hour=0.0010000015),
            {"MarketType": "spot", "SpotOptions": {"MaxPrice": "0.0010000015"}},
            None,
        ),
        (
            Capacity.from_reservation_id("cr-0123456789abcdef0"),
            None,
            {"CapacityReservationTarget": {"CapacityReservationId": "cr-0123456789abcdef0"}},
        ),
        (
            Capacity.from_reservation_group_arn("arn:aws:resource-groups:us-east-1:123456789012:group/pool"),
            None,
            {
                "CapacityReservationTarget": {
                    "CapacityReservationResourceGroupArn": ("arn:aws:resource-groups:us-east-1:123456789012:group/pool")
                }
            },
        ),
        (
            Capacity.capacity_block("cr-0123456789abcdef0", ends_at="2026-12-15T11:30Z"),
            {"MarketType": "capacity-block"},
            {"CapacityReservationTarget": {"CapacityReservationId": "cr-0123456789abcdef0"}},
        ),
    ],
)
def test_market_and_reservation_of_each_capacity(
    site: Site,
    fabric: ec2.ISecurityGroup,
    capacity: Capacity,
    options: dict[str, Any] | None,
    reservation: dict[str, Any] | None,
) -> None:
    GpuLaunchTemplate(site.stack, "Template", instance_type="p5.48xlarge", fabric=fabric, capacity=capacity)
    data = data_of(site)
    assert data.get("InstanceMarketOptions") == options
    assert data.get("CapacityReservationSpecification") == reservation


def test_safe_defaults(site: Site) -> None:
    group = ec2.SecurityGroup(site.stack, "Host", vpc=site.vpc)
    cdk.Tags.of(site.app).add("project", "llama")
    GpuLaunchTemplate(site.stack, "Template", instance_type="g6.xlarge", security_groups=[group])
    data = data_of(site)
    assert data["MetadataOptions"] == {
        "HttpEndpoint": "enabled",
        "HttpTokens": "required",
        "HttpPutResponseHopLimit": 1,
    }
    ebs = data["BlockDeviceMappings"][0]["Ebs"]
    assert ebs["Encrypted"] is True
    assert (ebs["VolumeSize"], ebs["Iops"], ebs["Throughput"]) == (200, 3000, 250)
    (interface,) = data["NetworkInterfaces"]
    assert interface["AssociatePublicIpAddress"] is False
    tagged = {entry["ResourceType"]: entry["Tags"] for entry in data["TagSpecifications"]}
    assert set(tagged) == {"instance", "volume", "network-interface"}
    assert {"Key": "project", "Value": "llama"} in tagged["network-interface"]


def test_eks_managed_groups_forbid_what_they_choose_themselves(site: Site, fabric: ec2.ISecurityGroup) -> None:
    role = iam.Role(site.stack, "Role", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))
    GpuLaunchTemplate(
        site.stack,
        "Template",
        instance_type="p5.48xlarge",
        orchestrator=Orchestrator.EKS_MANAGED,
        fabric=fabric,
        capacity=Capacity.spot(),
        instance_profile=iam.InstanceProfile(site.stack, "Profile", role=role),
    )
    data = data_of(site)
    for forbidden in ("IamInstanceProfile", "InstanceMarketOptions", "ImageId"):
        assert forbidden not in data
    assert data["MetadataOptions"]["HttpPutResponseHopLimit"] == 1
    assert not any("SubnetId" in entry for entry in data["NetworkInterfaces"])


@pytest.mark.parametrize(
    ("size", "image", "fits"),
    [
        (13_312, None, True),
        (13_313, None, False),
        (13_313, "ami-0123456789abcdef0", True),
    ],
)
def test_user_data_leave_room_for_what_eks_adds_to_them(
    site: Site, fabric: ec2.ISecurityGroup, size: int, image: str | None, fits: bool
) -> None:
    """With an image of one's own EKS adds nothing."""
    refused = nullcontext() if fits else pytest.raises(ConfigError, match="3,072 of them for what is added")
    with refused:
        GpuLaunchTemplate(
            site.stack,
            "Template",
            instance_type="p5.48xlarge",
            orchestrator=Orchestrator.EKS_MANAGED,
            fabric=fabric,
            image=None if image is None else NodeImage.from_id(image),
            user_data="x" * size,
        )


def test_pcs_takes_efa_per_card_and_the_subnet(site: Site, fabric: ec2.ISecurityGroup) -> None:
    GpuLaunchTemplate(
        site.stack,
        "Template",
        instance_type="p4d.24xlarge",
        orchestrator=Orchestrator.PCS,
        fabric=fabric,
        subnet=site.vpc.private_subnets[0],
    )
    data = data_of(site)
    assert [entry["InterfaceType"] for entry in data["NetworkInterfaces"]] == ["efa"] * 4
    assert [entry["DeviceIndex"] for entry in data["NetworkInterfaces"]] == [0, 1, 1, 1]
    assert {entry["SubnetId"] for entry in data["NetworkInterfaces"]} == {"subnet-0123456789abcdef0"}
    assert "InstanceType" not in data


def test_ubuntu_has_its_own_root_device(site: Site, fabric: ec2.ISecurityGroup) -> None:
    GpuLaunchTemplate(
        site.stack,
        "Template",
        instance_type="p5.48xlarge",
        fabric=fabric,
        image=NodeImage.latest("ubuntu-24.04"),
    )
    assert data_of(site)["BlockDeviceMappings"][0]["DeviceName"] == "/dev/sda1"


@pytest.mark.parametrize(
    "image",
    [NodeImage.latest("al2023", framework="pytorch"), NodeImage.recommended(framework="pytorch")],
    ids=["latest", "recommended"],
)
def test_an_image_with_pytorch_is_read_from_its_parameter(
    image: NodeImage, site: Site, fabric: ec2.ISecurityGroup
) -> None:
    GpuLaunchTemplate(site.stack, "Template", instance_type="p5.48xlarge", fabric=fabric, image=image)
    values = [one.get("Default", "") for one in site.template()["Parameters"].values()]
    assert [one for one in values if "deeplearning" in one] == [
        "/aws/service/deeplearning/ami/x86_64/oss-nvidia-driver-gpu-pytorch-2.13-amazon-linux-2023/latest/ami-id"
    ]


@pytest.mark.parametrize("choose", [NodeImage.latest, NodeImage.pinned, NodeImage.recommended])
def test_an_unknown_framework_is_named_where_it_is_given(choose: Callable[..., NodeImage]) -> None:
    with pytest.raises(ConfigError, match=r"GPU-AMI-010.*'tensorflow'.*'pytorch'"):
        choose(framework="tensorflow")


def test_a_pinned_image_comes_from_the_context(make_site: SiteFactory) -> None:
    from cdk_gpu_clusters.rules.images import choose_image, image_context_key

    key = image_context_key("us-east-1", choose_image("g6.xlarge").parameter)
    env = cdk.Environment(region="us-east-1")
    site = make_site(env=env, context={key: "ami-0fedcba9876543210"})
    group = ec2.SecurityGroup(site.stack, "Host", vpc=site.vpc)
    GpuLaunchTemplate(
        site.stack,
        "Template",
        instance_type="g6.xlarge",
        security_groups=[group],
        image=NodeImage.pinned(),
    )
    assert data_of(site)["ImageId"] == "ami-0fedcba9876543210"


def test_a_pinned_image_that_was_never_looked_up_names_the_command(site: Site) -> None:
    group = ec2.SecurityGroup(site.stack, "Host", vpc=site.vpc)
    with pytest.raises(ConfigError, match=r"GPU-AMI-101.*pin-image"):
        GpuLaunchTemplate(
            site.stack,
            "Template",
            instance_type="g6.xlarge",
            security_groups=[group],
            image=NodeImage.pinned(),
        )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"instance_type": "p5.47xlarge"}, "GPU-INST-001"),
        ({"instance_type": "p6e-gb300.36xlarge"}, "GPU-INST-002"),
        ({"instance_type": "p5.48xlarge"}, "GPU-LT-004"),
        ({"instance_type": "g6.xlarge"}, "GPU-LT-005"),
        ({"instance_type": "p5.48xlarge", "user_data": "x" * 16_385}, "GPU-UD-001"),
    ],
)
def test_faults_name_the_construct(site: Site, options: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError, match=rf"{expected}: Site/Template") as caught:
        GpuLaunchTemplate(site.stack, "Template", **options)
    assert expected in {finding.id for finding in caught.value.findings}


def test_a_block_takes_no_placement_group(site: Site, fabric: ec2.ISecurityGroup) -> None:
    with pytest.raises(ConfigError, match="GPU-CAP-002: Site/Template"):
        GpuLaunchTemplate(
            site.stack,
            "Template",
            instance_type="p5.48xlarge",
            fabric=fabric,
            capacity=Capacity.capacity_block("cr-0123456789abcdef0", ends_at="2026-12-15T11:30Z"),
            placement_group=ClusterPlacementGroup(site.stack, "Placement"),
        )


def test_a_subnet_goes_into_the_template_only_under_pcs(site: Site, fabric: ec2.ISecurityGroup) -> None:
    with pytest.raises(ConfigError, match="GPU-LT-006"):
        GpuLaunchTemplate(
            site.stack,
            "Template",
            instance_type="p5.48xlarge",
            fabric=fabric,
            subnet=site.vpc.private_subnets[0],
        )


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        ({"size_gib": 0}, {"GPU-LT-001"}),
        ({"size_gib": 10, "iops": 6000}, {"GPU-LT-002"}),
        ({"throughput_mib_per_s": 1000}, {"GPU-LT-003"}),
        (
            {"size_gib": 70_000, "iops": 1, "throughput_mib_per_s": 1},
            {"GPU-LT-001", "GPU-LT-002", "GPU-LT-003"},
        ),
    ],
)
def test_root_volumes_that_ec2_refuses(volume: dict[str, int], expected: set[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        RootVolume(**volume)  # type: ignore[arg-type]
    assert {finding.id for finding in caught.value.findings} == expected


def test_efa_group_has_both_self_rules_as_resources(site: Site, fabric: ec2.ISecurityGroup) -> None:
    resources = site.resources()
    (group_id,) = of_type(resources, "AWS::EC2::SecurityGroup")
    own = {"Fn::GetAtt": [group_id, "GroupId"]}
    ingress = only(resources, "AWS::EC2::SecurityGroupIngress")
    assert (ingress["GroupId"], ingress["SourceSecurityGroupId"], ingress["IpProtocol"]) == (own, own, "-1")
    egress = only(resources, "AWS::EC2::SecurityGroupEgress")
    assert (egress["GroupId"], egress["DestinationSecurityGroupId"], egress["IpProtocol"]) == (own, own, "-1")
    inline = resources[group_id]["Properties"]["SecurityGroupEgress"]
    assert [rule["CidrIp"] for rule in inline] == ["0.0.0.0/0"]
