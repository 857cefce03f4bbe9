"""Home directories as resources: what is made, what stays, who may mount, and what is refused."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms

from cdk_gpu_clusters import (
    ConfigError,
    EfsHomes,
    GpuFleet,
    HomeQuota,
    HomeService,
    HomeStore,
    LustreStore,
    OpenZfsDeploymentType,
    OpenZfsHomes,
)
from stack_fixtures import Site, SiteFactory, of_type, only

FSX, EFS, TARGET = "AWS::FSx::FileSystem", "AWS::EFS::FileSystem", "AWS::EFS::MountTarget"
INGRESS, EGRESS = "AWS::EC2::SecurityGroupIngress", "AWS::EC2::SecurityGroupEgress"
PORTS = {(way, *ports) for way in ("tcp", "udp") for ports in ((111, 111), (2049, 2049), (20001, 20003))}


def group_of(site: Site, name: str = "Clients") -> ec2.SecurityGroup:
    return ec2.SecurityGroup(site.stack, name, vpc=site.vpc)


def opened(template: dict[str, Any], kind: str) -> set[tuple[str, int, int]]:
    rules = of_type(template, kind).values()
    return {
        (one["Properties"]["IpProtocol"], one["Properties"]["FromPort"], one["Properties"]["ToPort"]) for one in rules
    }


def test_openzfs_by_default(site: Site) -> None:
    homes = HomeStore(
        site.stack, "Homes", vpc=site.vpc, subnets=[site.vpc.private_subnets[0]], client_security_group=group_of(site)
    )
    template = site.resources()
    (made,) = of_type(template, FSX).values()
    properties = made["Properties"]
    assert (made["DeletionPolicy"], made["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")
    assert (properties["FileSystemType"], properties["StorageCapacity"], properties["StorageType"]) == (
        "OPENZFS",
        1024,
        "SSD",
    )
    configuration = properties["OpenZFSConfiguration"]
    assert configuration["DeploymentType"] == "SINGLE_AZ_HA_2"
    assert configuration["ThroughputCapacity"] == 320
    assert configuration["AutomaticBackupRetentionDays"] == 30
    volume = configuration["RootVolumeConfiguration"]
    assert (volume["DataCompressionType"], volume["RecordSizeKiB"]) == ("ZSTD", 128)
    assert "UserAndGroupQuotas" not in volume
    ((client,),) = [one["ClientConfigurations"] for one in volume["NfsExports"]]
    # The network is imported without its range: the security group decides alone.
    assert client["Clients"] == "*"
    assert client["Options"] == ["rw", "crossmnt", "no_root_squash"]
    assert only(template, "AWS::KMS::Key")["EnableKeyRotation"] is True
    assert opened(template, INGRESS) == opened(template, EGRESS) == PORTS
    assert (homes.export_path, homes.service) == ("/fsx", HomeService.OPENZFS)
    assert homes.mount_command("/home").startswith("sudo mount -t nfs -o nfsvers=4.2,hard")


def test_the_export_is_for_the_blocks_that_are_given(site: Site) -> None:
    HomeStore(
        site.stack,
        "Homes",
        vpc=site.vpc,
        subnets=[site.vpc.private_subnets[0]],
        export_to=["10.0.0.0/16", "10.1.0.0/16"],
    )
    volume = only(site.resources(), FSX)["OpenZFSConfiguration"]["RootVolumeConfiguration"]
    assert [one["Clients"] for one in volume["NfsExports"][0]["ClientConfigurations"]] == ["10.0.0.0/16", "10.1.0.0/16"]


def test_quotas_and_all_other_values(site: Site) -> None:
    storage = OpenZfsHomes(
        storage_capacity_gib=64,
        throughput_mb_per_s=64,
        deployment_type=OpenZfsDeploymentType.SINGLE_AZ_1,
        quotas=(HomeQuota.user(2001, 100), HomeQuota.group(3000, 1000)),
        backup_retention_days=0,
    )
    key = kms.Key(site.stack, "Own")
    homes = HomeStore(
        site.stack,
        "Homes",
        vpc=site.vpc,
        subnets=[site.vpc.private_subnets[0]],
        storage=storage,
        encryption_key=key,
        weekly_maintenance_start_time="1:05:00",
        free_space_alarm=False,
    )
    template = site.resources()
    configuration = only(template, FSX)["OpenZFSConfiguration"]
    assert configuration["RootVolumeConfiguration"]["UserAndGroupQuotas"] == [
        {"Type": "USER", "Id": 2001, "StorageCapacityQuotaGiB": 100},
        {"Type": "GROUP", "Id": 3000, "StorageCapacityQuotaGiB": 1000},
    ]
    assert configuration["WeeklyMaintenanceStartTime"] == "1:05:00"
    # Security Hub, FSx.1.
    assert configuration["CopyTagsToBackups"] is configuration["CopyTagsToVolumes"] is True
    assert (homes.encryption_key, homes.free_space_alarm) == (key, None)
    assert not of_type(template, "AWS::CloudWatch::Alarm")


def test_efs_has_a_mount_target_in_each_zone(site: Site) -> None:
    subnets = [
        ec2.Subnet.from_subnet_attributes(
            site.stack, f"Subnet{zone}", subnet_id=f"subnet-0{zone * 16}", availability_zone=f"us-east-1{zone}"
        )
        for zone in "ab"
    ]
    homes = HomeStore(
        site.stack, "Homes", vpc=site.vpc, subnets=subnets, storage=EfsHomes(), client_security_group=group_of(site)
    )
    template = site.resources()
    properties = only(template, EFS)
    assert (properties["Encrypted"], properties["ThroughputMode"]) == (True, "elastic")
    assert properties["BackupPolicy"] == {"Status": "ENABLED"}
    targets = of_type(template, TARGET)
    assert {one["Properties"]["SubnetId"] for one in targets.values()} == {f"subnet-0{zone * 16}" for zone in "ab"}
    assert {one["DeletionPolicy"] for one in targets.values()} == {"RetainExceptOnCreate"}
    assert opened(template, INGRESS) == {("tcp", 2049, 2049)}
    assert not of_type(template, "AWS::CloudWatch::Alarm"), "an elastic file system has no capacity"
    assert homes.export_path == "/"
    assert [one.id for one in homes.check_client(subnets=subnets)] == []
    with pytest.raises(ValueError, match="no storage capacity"):
        homes.metric_used_percent()


def test_logical_ids_of_what_holds_data_are_public(site: Site) -> None:
    HomeStore(site.stack, "Homes", vpc=site.vpc, subnets=[site.vpc.private_subnets[0]])
    HomeStore(site.stack, "Tools", vpc=site.vpc, subnets=[site.vpc.private_subnets[0]], storage=EfsHomes())
    template = site.resources()
    stateful = {
        key: one["Type"] for kind in (FSX, EFS, "AWS::KMS::Key") for key, one in of_type(template, kind).items()
    }
    assert stateful == {
        "Homes77C01188": FSX,
        "HomesKey264F8140": "AWS::KMS::Key",
        "ToolsFileSystem3A9E02ED": EFS,
        "ToolsKeyF2682AAD": "AWS::KMS::Key",
    }


def test_all_faults_are_reported_at_once(site: Site) -> None:
    with pytest.raises(ConfigError) as raised:
        HomeStore(
            site.stack,
            "Homes",
            vpc=site.vpc,
            subnets=[],
            storage=OpenZfsHomes(storage_capacity_gib=1, throughput_mb_per_s=1),
        )
    assert [one.id for one in raised.value.findings] == ["GPU-HOM-002", "GPU-HOM-003", "GPU-HOM-008"]


def test_tokens_are_carried_and_not_checked(site: Site) -> None:
    size = cdk.CfnParameter(site.stack, "Size", type="Number").value_as_number
    storage = OpenZfsHomes(storage_capacity_gib=size)  # type: ignore[arg-type]
    HomeStore(site.stack, "Homes", vpc=site.vpc, subnets=[site.vpc.private_subnets[0]], storage=storage)
    assert only(site.resources(), FSX)["StorageCapacity"] == {"Ref": "Size"}


def test_clients_are_admitted_once(site: Site) -> None:
    homes = HomeStore(site.stack, "Homes", vpc=site.vpc, subnets=[site.vpc.private_subnets[0]])
    clients = group_of(site)
    homes.allow_clients(clients)
    homes.allow_clients(clients)
    assert len(of_type(site.resources(), INGRESS)) == len(PORTS)


def test_a_fleet_mounts_homes_beside_lustre(site: Site) -> None:
    homes = HomeStore(site.stack, "Homes", vpc=site.vpc, subnets=[site.vpc.private_subnets[0]])
    corpus = LustreStore(
        site.stack,
        "Corpus",
        vpc=site.vpc,
        subnet=site.vpc.private_subnets[0],
        storage_capacity_gib=1200,
        throughput_mb_per_s_per_tib=125,
    )
    GpuFleet(
        site.stack,
        "Fleet",
        vpc=site.vpc,
        vpc_subnets=site.one_subnet,
        instance_type="g6.xlarge",
        node_count=1,
        mounts={"/home": homes, "/fsx": corpus},
    )
    template = site.resources()
    text = str(only(template, "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]["UserData"])
    assert "/etc/gpu-cluster/nfs-mounts" in text
    assert "Homes77C01188" in text
    assert ":/fsx nfsvers=4.2,hard" in text
    assert "GPU_NFS_MOUNTS=1" in text
    assert "GPU_MOUNTS=1" in text
    assert "gpu-scratch gpu-nfs gpu-lustre" in text
    assert opened(template, INGRESS) >= PORTS


def test_an_existing_file_system(make_site: SiteFactory) -> None:
    site = make_site(env=cdk.Environment(account="111122223333", region="us-east-1"))
    group = group_of(site, "Servers")
    openzfs = HomeStore.from_home_store_attributes(
        site.stack, "A", service=HomeService.OPENZFS, file_system_id="fs-0123456789abcdef0", security_group=group
    )
    assert openzfs.dns_name == f"fs-0123456789abcdef0.fsx.us-east-1.{site.stack.url_suffix}"
    efs = HomeStore.from_home_store_attributes(
        site.stack,
        "B",
        service=HomeService.EFS,
        file_system_id="fs-0123456789abcdef0",
        security_group=group,
        export_path="/teams",
        availability_zones=["us-east-1b"],
    )
    assert (efs.dns_name, efs.export_path) == (f"fs-0123456789abcdef0.efs.us-east-1.{site.stack.url_suffix}", "/teams")
    there = ec2.Subnet.from_subnet_attributes(
        site.stack, "There", subnet_id="subnet-0aaaaaaaaaaaaaaaa", availability_zone="us-east-1a"
    )
    assert [one.id for one in efs.check_client(subnets=[there])] == ["GPU-HOM-009"]
    assert openzfs.check_client(subnets=[there]) == []
    assert efs.metric_client_connections().namespace == "AWS/EFS"
    assert openzfs.metric_throughput().label == "Bytes of home directories per second"
