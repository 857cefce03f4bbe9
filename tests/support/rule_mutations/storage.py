"""Faults in storage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recorded_templates import Json
from rule_mutation import RuleMutation, first, without

FILE_SYSTEM = "AWS::FSx::FileSystem"
ASSOCIATION = "AWS::FSx::DataRepositoryAssociation"
TEMPLATE = "AWS::EC2::LaunchTemplate"
CORPUS = "p5en-express-preprocessing/moe-train-data-corpus"
OF_BASE_POD = "p4de-base-pod/base-pod-data-corpus"
WITH_EFA = "p5-lustre/llama-lustre-data-corpus"
#: The one record with a file system and the nodes that mount it.
SERVING = "inference_everywhere/everything_on"


def dropped_with_its_stack(template: Json) -> None:
    first(template, FILE_SYSTEM)["DeletionPolicy"] = "Delete"


def as_scratch(**values: Any) -> Callable[[Json], None]:
    """The file system becomes one of SCRATCH_2, with nothing that it cannot have."""

    def change(properties: Json) -> None:
        del properties["KmsKeyId"]
        properties["LustreConfiguration"] = {"DeploymentType": "SCRATCH_2", **values.pop("lustre", {})}
        properties.update(values)

    return change


def as_tiering(**values: Any) -> Callable[[Json], None]:
    """The file system becomes one of Intelligent-Tiering."""

    def change(properties: Json) -> None:
        del properties["StorageCapacity"]
        properties["StorageType"] = "INTELLIGENT_TIERING"
        properties["LustreConfiguration"] = {
            "DeploymentType": "PERSISTENT_2",
            "ThroughputCapacity": 8000,
            "DataReadCacheConfiguration": {"SizingMode": "NO_CACHE"},
            "MetadataConfiguration": {"Mode": "USER_PROVISIONED", "Iops": 6000},
            "AutomaticBackupRetentionDays": 0,
            **values,
        }

    return change


def linked_too_often(template: Json) -> None:
    one = first(template, ASSOCIATION)["Properties"]
    for number in range(8):
        path = {"FileSystemPath": f"/more{number}", "DataRepositoryPath": f"s3://more/{number}/"}
        template["Resources"][f"More{number}"] = {"Type": ASSOCIATION, "Properties": {**one, **path}}


def linked_inside(template: Json) -> None:
    one, other = (
        resource["Properties"] for resource in template["Resources"].values() if resource["Type"] == ASSOCIATION
    )
    other["FileSystemPath"] = f"{one['FileSystemPath']}/inside"


def prefix_inside(template: Json) -> None:
    one, other = (
        resource["Properties"] for resource in template["Resources"].values() if resource["Type"] == ASSOCIATION
    )
    one["DataRepositoryPath"], other["DataRepositoryPath"] = "s3://corpus/a/", "s3://corpus/a/inside/"


def described(kind: str, words: str) -> Callable[[Json], None]:
    """Leave out the rules of security groups with some words in their descriptions."""
    return without(f"AWS::EC2::SecurityGroup{kind}", lambda properties: words in properties.get("Description", ""))


def in_another_zone(template: Json) -> None:
    for name, zone in (("Near", "us-east-1a"), ("Far", "us-east-1b")):
        template["Resources"][name] = {
            "Type": "AWS::EC2::Subnet",
            "Properties": {"VpcId": "vpc-0", "CidrBlock": "10.0.0.0/16", "AvailabilityZone": zone},
        }
    first(template, FILE_SYSTEM)["Properties"]["SubnetIds"] = [{"Ref": "Near"}]
    group = first(template, "AWS::AutoScaling::AutoScalingGroup", lambda properties: properties["MaxSize"] == "3")
    group["Properties"]["VPCZoneIdentifier"] = [{"Ref": "Far"}]


def mounted_once(template: Json) -> None:
    launch = first(
        template,
        TEMPLATE,
        lambda properties: properties["LaunchTemplateData"]["InstanceType"] == "g6e.48xlarge",
    )
    launch["Properties"]["LaunchTemplateData"]["UserData"] = {
        "Fn::Base64": "#!/bin/sh\nmount -t lustre fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com@tcp:/fsx /fsx\n"
    }


def mounted_inside(template: Json) -> None:
    launch = first(
        template,
        TEMPLATE,
        lambda properties: properties["LaunchTemplateData"]["InstanceType"] == "g6e.48xlarge",
    )
    launch["Properties"]["LaunchTemplateData"]["UserData"] = {
        "Fn::Base64": "#!/bin/sh\n"
        "echo 'fs-01.fsx.us-east-1.amazonaws.com@tcp:/abcd /fsx lustre relatime,_netdev 0 0' >>/etc/fstab\n"
        "mount -t lustre -o relatime fs-02.fsx.us-east-1.amazonaws.com@tcp:/efgh /fsx/other\n"
    }


def on_file_system(rule: str, change: Callable[[Json], None], *also: str, template: str = OF_BASE_POD) -> RuleMutation:
    """A fault in the properties of a file system."""
    return RuleMutation(rule=rule, template=template, at=FILE_SYSTEM, change=change, also=also)


MUTATIONS = (
    on_file_system("GPU-LUS-002", as_scratch(StorageType="HDD")),
    on_file_system("GPU-LUS-006", as_scratch(lustre={"EfaEnabled": True}), "GPU-LUS-043", template=SERVING),
    on_file_system("GPU-LUS-012", as_tiering(ThroughputCapacity=6000), template=SERVING),
    on_file_system("GPU-LUS-013", as_tiering(DataReadCacheConfiguration={}), template=SERVING),
    on_file_system(
        "GPU-LUS-016",
        lambda properties: as_scratch(KmsKeyId=properties["KmsKeyId"])(properties),
        template=SERVING,
    ),
    RuleMutation(rule="GPU-LUS-040", template=CORPUS, change_template=dropped_with_its_stack),
    RuleMutation(
        rule="GPU-LUS-042",
        template=OF_BASE_POD,
        change_template=described("Ingress", "988-988 from other servers"),
    ),
    RuleMutation(
        rule="GPU-LUS-045",
        template=OF_BASE_POD,
        change_template=described("Ingress", "1018-1023 from other servers"),
    ),
    RuleMutation(
        rule="GPU-LUS-043",
        template=WITH_EFA,
        change_template=described("Egress", "to other servers"),
        also=("GPU-LUS-042", "GPU-LUS-045"),
    ),
    RuleMutation(
        rule="GPU-LUS-044",
        template=SERVING,
        change_template=described("Ingress", "988-988 from the file system"),
    ),
    RuleMutation(rule="GPU-LUS-024", template=SERVING, example=True),
    on_file_system("GPU-LUS-047", as_scratch(FileSystemTypeVersion="2.10"), template=SERVING),
    RuleMutation(rule="GPU-LUS-046", template=SERVING, example=True),
    RuleMutation(rule="GPU-LUS-021", template=SERVING, change_template=in_another_zone),
    RuleMutation(rule="GPU-DRA-001", template=CORPUS, change_template=linked_too_often),
    RuleMutation(rule="GPU-DRA-003", template=CORPUS, change_template=linked_inside),
    RuleMutation(rule="GPU-DRA-005", template=CORPUS, change_template=prefix_inside),
    on_file_system("GPU-DRA-007", as_tiering(), template=CORPUS),
    RuleMutation(rule="GPU-MNT-002", template=SERVING, change_template=mounted_inside),
    RuleMutation(rule="GPU-MNT-010", template=SERVING, change_template=mounted_once),
    RuleMutation(rule="GPU-MNT-011", template=SERVING, example=True),
)
