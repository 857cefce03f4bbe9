"""Fleets that mount Lustre, and use their local disks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_fsx as fsx
from constructs import Construct

from cdk_gpu_clusters import (
    ConfigError,
    EfaSecurityGroup,
    GpuFleet,
    LustreStore,
    LustreVersion,
    MountableFileSystem,
    NodeImage,
    checkpoint_environment,
)
from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.errors import Finding, Rule
from stack_fixtures import Site, only

TEMPLATE = "AWS::EC2::LaunchTemplate"
NO_CLIENT = Rule("GPU-TST-001", "a store of the tests refuses a client", "the tests")


class Store(Construct):
    """A store that opens itself to clients and checks them."""

    def __init__(self, scope: Construct, name: str, fault: Finding | None = None) -> None:
        super().__init__(scope, name)
        self.dns_name = cdk.Fn.import_value(f"{name}-dns")
        self.mount_name = cdk.Fn.import_value(f"{name}-mount")
        self.fault = fault
        self.groups: list[ec2.ISecurityGroup] = []
        self.asked: list[tuple[int, str, int | None, bool | None]] = []
        self.systems: list[tuple[str | None, str | None]] = []

    def allow_clients(self, security_group: ec2.ISecurityGroup) -> None:
        self.groups.append(security_group)

    def check_client(
        self,
        *,
        subnets: Sequence[ec2.ISubnet] = (),
        instance_type: InstanceType | None = None,
        operating_system: str | None = None,
        kernel: str | None = None,
        node_count: int | None = None,
        efa: bool | None = None,
    ) -> list[Finding]:
        self.asked.append((len(subnets), instance_type.name if instance_type else "", node_count, efa))
        self.systems.append((operating_system, kernel))
        return [self.fault] if self.fault else []


def fleet(site: Site, **options: Any) -> GpuFleet:
    given: dict[str, Any] = {
        "vpc": site.vpc, "vpc_subnets": site.one_subnet, "instance_type": "p5.48xlarge", "node_count": 2,
    }  # fmt: skip
    return GpuFleet(site.stack, "Trainers", **(given | options))


def user_data(site: Site) -> list[str]:
    """The lines of the user data, with references as JSON."""
    encoded = only(site.resources(), TEMPLATE)["LaunchTemplateData"]["UserData"]["Fn::Base64"]
    parts = [encoded] if isinstance(encoded, str) else encoded["Fn::Join"][1]
    return "".join(part if isinstance(part, str) else json.dumps(part) for part in parts).splitlines()


def test_mounts_reach_the_node_as_references_in_plain_text(site: Site) -> None:
    fleet(site, mounts={"/fsx": Store(site.stack, "Corpus"), "/models": Store(site.stack, "Models")})
    lines = user_data(site)
    at = lines.index("- path: /etc/gpu-cluster/mounts")
    assert lines[at + 2 : at + 4] == [
        '    /fsx {"Fn::ImportValue": "Corpus-dns"} {"Fn::ImportValue": "Corpus-mount"} relatime,flock',
        '    /models {"Fn::ImportValue": "Models-dns"} {"Fn::ImportValue": "Models-mount"} relatime,flock',
    ]
    assert "    GPU_MOUNTS=2" in lines


def test_store_is_opened_to_the_group_of_the_fabric_and_asked_about_the_nodes(site: Site) -> None:
    store = Store(site.stack, "Corpus")
    fabric = EfaSecurityGroup(site.stack, "Fabric", vpc=site.vpc)
    fleet(site, mounts={"/fsx": store}, fabric=fabric)
    assert [group.security_group_id for group in store.groups] == [fabric.security_group_id]
    assert store.asked == [(1, "p5.48xlarge", 2, None)]


def test_nodes_without_efa_mount_over_tcp(site: Site) -> None:
    store = Store(site.stack, "Corpus")
    trainers = fleet(site, mounts={"/fsx": store}, instance_type="g5.2xlarge")
    assert store.asked == [(1, "g5.2xlarge", 2, False)]
    assert store.groups == trainers.launch_template.security_groups


@pytest.mark.parametrize(
    ("image", "system"),
    [
        (None, ("al2023", "6.1")),
        (NodeImage.latest("ubuntu-22.04"), ("ubuntu-22.04", None)),
        (NodeImage.from_parameter("/images/own", operating_system="ubuntu-24.04"), ("ubuntu-24.04", None)),
    ],
)
def test_store_is_told_what_the_nodes_boot(site: Site, image: NodeImage | None, system: tuple[str, str | None]) -> None:
    store = Store(site.stack, "Corpus")
    fleet(site, mounts={"/fsx": store}, image=image)
    assert store.systems == [system]


def test_file_system_that_the_image_has_no_client_for_is_refused(site: Site) -> None:
    store = LustreStore.from_lustre_store_attributes(
        site.stack, "Old", file_system_id="fs-0123456789abcdef0", mount_name="abcdefgh",
        security_group=ec2.SecurityGroup.from_security_group_id(site.stack, "Servers", "sg-0123456789abcdef0"),
        lustre_version=LustreVersion.V2_10,
    )  # fmt: skip
    with pytest.raises(ConfigError, match=r"GPU-LUS-020: Site/Trainers: al2023 has no Lustre client"):
        fleet(site, mounts={"/fsx": store})


@pytest.mark.parametrize(
    ("efa", "fleet_has_efa", "line", "settings"),
    [
        (True, True, " relatime,flock efa", ["GPU_LUSTRE_EFA=8", "GPU_LUSTRE_EFA_DRIVER=2.12.1"]),
        (True, False, " relatime,flock", []),
        (False, True, " relatime,flock", []),
    ],
)
def test_nodes_mount_over_efa_where_they_and_the_file_system_have_it(
    site: Site, efa: bool, fleet_has_efa: bool, line: str, settings: list[str]
) -> None:
    corpus = Store(site.stack, "Corpus")
    corpus.efa = efa  # type: ignore[attr-defined] # as a `LustreStore` has it
    kind = {} if fleet_has_efa else {"instance_type": "g6.xlarge"}
    fleet(site, mounts={"/fsx": corpus}, **kind)
    lines = user_data(site)
    assert lines[lines.index("- path: /etc/gpu-cluster/mounts") + 2].endswith(f'"Corpus-mount"}}{line}')
    assert [text.strip() for text in lines if "LUSTRE_EFA" in text] == settings


def mounted(site: Site, *, over_efa: bool, **options: Any) -> list[str]:
    """The mounts of a type with EFA that Lustre does not take."""
    store = LustreStore(
        site.stack,
        "Corpus",
        vpc=site.vpc,
        subnet=site.vpc.private_subnets[0],
        storage_capacity_gib=38_400,
        throughput_mb_per_s_per_tib=250,
        efa=over_efa,
    )
    fleet(site, mounts={"/fsx": store}, instance_type="p4d.24xlarge", **options)
    return [line.strip() for line in user_data(site) if line.strip().startswith("/fsx ")]


def test_type_that_lustre_takes_no_efa_of_is_refused(site: Site) -> None:
    with pytest.raises(ConfigError, match=r"GPU-LUS-022.*file system made without efa.*with efa=False mount this"):
        mounted(site, over_efa=True)


@pytest.mark.parametrize(("over_efa", "options"), [(False, {}), (True, {"efa": False})])
def test_type_that_lustre_takes_no_efa_of_mounts_as_the_finding_says(
    site: Site, over_efa: bool, options: dict[str, bool]
) -> None:
    [line] = mounted(site, over_efa=over_efa, **options)
    assert line.endswith(" relatime,flock")


def test_large_fleets_leave_the_file_system_room_for_all_their_nodes(site: Site) -> None:
    """It takes 1,024 connections, one for each EFA interface."""
    corpus = Store(site.stack, "Corpus")
    corpus.efa = True  # type: ignore[attr-defined] # as a `LustreStore` has it
    fleet(site, mounts={"/fsx": corpus}, instance_type="p6-b300.48xlarge", node_count=200)
    found = [text.strip() for text in user_data(site) if "LUSTRE_EFA" in text]
    assert found == ["GPU_LUSTRE_EFA=5", "GPU_LUSTRE_EFA_DRIVER=2.12.1", "GPU_LUSTRE_EFA_LND=1.1.1"]


def test_preprocessing_on_graviton_needs_no_accelerator_and_no_efa(site: Site) -> None:
    store = Store(site.stack, "Corpus")
    made = fleet(site, mounts={"/fsx": store}, instance_type="m8g.4xlarge")
    assert made.fabric is None
    assert store.asked == [(1, "m8g.4xlarge", 2, False)], "it mounts over TCP"
    assert store.groups == made.launch_template.security_groups
    template = site.template()
    data = only(template["Resources"], TEMPLATE)["LaunchTemplateData"]
    assert template["Parameters"][data["ImageId"]["Ref"]]["Default"].endswith("-arm64")
    assert [each["InterfaceType"] for each in data["NetworkInterfaces"]] == ["interface"]
    lines = [line.strip() for line in user_data(site)]
    assert {"GPU_ACCELERATOR=''", "GPU_EFA_COUNT=0", "GPU_MOUNTS=1"} <= set(lines)


def test_fault_that_a_store_finds_is_the_fleets(site: Site) -> None:
    store = Store(site.stack, "Corpus", NO_CLIENT.finding(cause="these nodes cannot mount it"))
    with pytest.raises(ConfigError, match=r"GPU-TST-001: Site/Trainers: these nodes cannot mount it"):
        fleet(site, mounts={"/fsx": store})


def test_cdks_own_file_system_can_be_mounted(site: Site) -> None:
    own = fsx.LustreFileSystem(
        site.stack, "Own", vpc=site.vpc, vpc_subnet=site.vpc.private_subnets[0], storage_capacity_gib=1200,
        lustre_configuration=fsx.LustreConfiguration(deployment_type=fsx.LustreDeploymentType.SCRATCH_2),
    )  # fmt: skip
    mounts: dict[str, MountableFileSystem] = {"/fsx": own}
    fleet(site, mounts=mounts)
    [line] = [line for line in user_data(site) if line.startswith("    /fsx ")]
    assert "LustreMountName" in line


def test_wrong_mount_points_are_named_at_the_fleet(site: Site) -> None:
    stores = {point: Store(site.stack, point.replace("/", "-")) for point in ("/usr/fsx", "/a", "/a/b")}
    with pytest.raises(ConfigError) as raised:
        fleet(site, mounts=stores)
    assert [finding.id for finding in raised.value.findings] == ["GPU-MNT-001", "GPU-MNT-002"]
    assert all(finding.path.startswith("Site/Trainers.mounts") for finding in raised.value.findings)


@pytest.mark.parametrize(
    ("instance_type", "scratch", "disks"),
    [
        ("p5.48xlarge", True, "8"),
        ("g5.2xlarge", True, "1"),
        ("p5.48xlarge", False, None),
        ("trn1.32xlarge", True, "4"),
    ],
)
def test_local_disks_become_scratch_where_there_are_some(
    site: Site, instance_type: str, scratch: bool, disks: str | None
) -> None:
    fleet(site, instance_type=instance_type, scratch=scratch)
    lines = [line.strip() for line in user_data(site)]
    assert [line for line in lines if line.startswith("GPU_SCRATCH_DISKS=")] == (
        [f"GPU_SCRATCH_DISKS={disks}"] if disks else []
    )
    assert ("export SCRATCH_DIR=/scratch" in lines) is (disks is not None)


def test_type_without_local_disks_has_no_scratch(site: Site) -> None:
    fleet(site, instance_type="g5g.xlarge")
    assert not any("SCRATCH" in line for line in user_data(site))


def test_place_of_checkpoints_is_checked_against_the_mounts(site: Site) -> None:
    trainers = fleet(
        site,
        mounts={"/fsx": Store(site.stack, "Corpus")},
        environment=checkpoint_environment("/scratch/checkpoints"),
    )
    warnings = [str(entry.data) for entry in trainers.node.metadata if entry.type.endswith("warning")]
    assert any("GPU-MNT-005" in warning for warning in warnings)
    assert "    export CHECKPOINT_DIR=/scratch/checkpoints" in user_data(site)
