"""Facts of file systems for home directories against what AWS publishes: API models and CloudFormation schemas."""

from __future__ import annotations

import re
from typing import Any

import botocore.session
import pytest

from cdk_gpu_clusters.catalogue.homes import (
    EfsThroughputMode,
    HomeService,
    OpenZfsCompression,
    OpenZfsDeploymentType,
    QuotaType,
    home_fact,
    home_provenance,
    nfs_export,
    nfs_options,
    nfs_ports,
    openzfs_throughputs,
)
from gpu_clusters_emulator.schemas import resource_schema

FSX: Any = botocore.session.get_session().get_service_model("fsx")
EFS: Any = botocore.session.get_session().get_service_model("efs")


def text(shape: str, member: str) -> str:
    return re.sub(r"<[^>]+>|\s+", " ", FSX.shape_for(shape).members[member].documentation)


def enum(shape: str) -> set[str]:
    return set(FSX.shape_for(shape).enum)


def test_the_throughput_steps_are_those_that_the_api_lists() -> None:
    words = text("CreateFileSystemOpenZFSConfiguration", "ThroughputCapacity")
    listed = {
        name: tuple(map(int, re.findall(r"\d+", re.sub(r"_\d", "", found[1]))))
        for name in ("SINGLE_AZ_2", "SINGLE_AZ_1")
        if (found := re.search(rf"{name} ?, valid values are ([\d, or]+)", words))
    }
    assert listed == {name: openzfs_throughputs()[name] for name in ("SINGLE_AZ_2", "SINGLE_AZ_1")}


def test_the_types_with_a_standby_have_the_range_that_the_api_states() -> None:
    words = text("CreateFileSystemOpenZFSConfiguration", "DeploymentType")
    for name, steps in openzfs_throughputs().items():
        least, most = re.search(rf"{name} ?- [^.]*?capacities of ([\d,]+) - ([\d,]+) MB", words).groups()  # type: ignore[union-attr]
        assert (steps[0], steps[-1]) == (int(least), int(most.replace(",", "")))


def test_every_deployment_type_is_offered_but_the_one_in_several_zones() -> None:
    offered = {one.value for one in OpenZfsDeploymentType}
    assert offered == set(openzfs_throughputs()) == enum("OpenZFSDeploymentType") - {"MULTI_AZ_1"}


def test_sizes_quotas_and_backups_are_those_of_the_api() -> None:
    sizes = text("CreateFileSystemRequest", "StorageCapacity")
    least, most = re.search(r"OpenZFS file systems .*? from (\d+) GiB up to ([\d,]+) GiB", sizes).groups()  # type: ignore[union-attr]
    assert (home_fact("openzfs", "smallest_gib"), home_fact("openzfs", "largest_gib")) == (
        int(least),
        int(most.replace(",", "")),
    )
    records = text("OpenZFSCreateRootVolumeConfiguration", "RecordSizeKiB")
    listed = re.search(r"Valid values are ([\d, or]+) KiB", records)
    assert listed
    assert home_fact("openzfs", "record_sizes_kib") == list(map(int, re.findall(r"\d+", listed[1])))
    volume = FSX.shape_for("OpenZFSCreateRootVolumeConfiguration").members
    assert home_fact("openzfs", "most_quotas") == volume["UserAndGroupQuotas"].metadata["max"]
    quota = FSX.shape_for("OpenZFSUserOrGroupQuota").members
    assert home_fact("openzfs", "largest_id") == quota["Id"].metadata["max"]
    made = FSX.shape_for("CreateFileSystemOpenZFSConfiguration").members
    assert home_fact("openzfs", "longest_backup_days") == made["AutomaticBackupRetentionDays"].metadata["max"]


def test_the_words_are_those_of_the_api() -> None:
    assert {one.value for one in OpenZfsCompression} == enum("OpenZFSDataCompressionType")
    assert {one.value for one in QuotaType} == enum("OpenZFSQuotaType")
    assert {one.value for one in EfsThroughputMode} == set(EFS.shape_for("ThroughputMode").enum)
    rate = re.sub(
        r"\s+", " ", EFS.shape_for("CreateFileSystemRequest").members["ProvisionedThroughputInMibps"].documentation
    )
    assert "Valid values are 1-3414 MiBps" in rate
    assert [home_fact("efs", f"{which}_provisioned_mib_per_s") for which in ("least", "most")] == [1, 3414]


def test_what_never_changes_is_what_the_update_does_not_take() -> None:
    """The registry names only properties of the file system itself; CloudFormation's page names DeploymentType too."""
    schema = resource_schema("AWS::FSx::FileSystem", "us-east-1")
    assert schema
    assert {"SubnetIds", "SecurityGroupIds", "KmsKeyId"} <= set(schema.create_only_names)
    update: Any = FSX.shape_for("UpdateFileSystemOpenZFSConfiguration").members
    assert "DeploymentType" not in update
    assert {"ThroughputCapacity", "AutomaticBackupRetentionDays"} <= set(update)


@pytest.mark.parametrize("group", ["deployment_types", "openzfs", "efs", "ports", "mount_options"])
def test_every_group_names_dated_sources(group: str) -> None:
    for one in home_provenance(group):
        assert one.sources
        assert one.verified or one.note, "what is not verified says so"


def test_mounts_keep_data_when_a_server_is_away() -> None:
    for service in HomeService:
        options = nfs_options(service).split(",")
        assert "hard" in options, "a soft mount loses writes"
        assert {"rsize=1048576", "wsize=1048576", "timeo=600", "retrans=2"} <= set(options)
    # Amazon EFS user guide, "Recommended NFS mount options".
    assert {"nfsvers=4.1", "noresvport"} <= set(nfs_options(HomeService.EFS).split(","))
    assert (nfs_export(HomeService.OPENZFS), nfs_export(HomeService.EFS)) == ("/fsx", "/")


def test_ports() -> None:
    openzfs = {(one.protocol, one.first, one.last) for one in nfs_ports(HomeService.OPENZFS)}
    # FSx for OpenZFS user guide, "File system access control with Amazon VPC".
    assert openzfs == {(way, *ports) for way in ("tcp", "udp") for ports in ((111, 111), (2049, 2049), (20001, 20003))}
    assert [(one.protocol, one.first, one.last) for one in nfs_ports(HomeService.EFS)] == [("tcp", 2049, 2049)]
