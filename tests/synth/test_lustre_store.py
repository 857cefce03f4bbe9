"""Lustre stores: the file system, its ports, its links, and what stays when the stack goes."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Annotations, Match

from cdk_gpu_clusters import (
    ColdFileRelease,
    ConfigError,
    DataRepositoryEvent,
    EfaSecurityGroup,
    LustreDeploymentType,
    LustreStorageType,
    LustreStore,
    LustreVersion,
    ReadCacheMode,
)
from cdk_gpu_clusters.catalogue import instance_type
from cdk_gpu_clusters.errors import Severity
from stack_fixtures import Resources, Site, SiteFactory, of_type, only

FILE_SYSTEM = "AWS::FSx::FileSystem"
LINK = "AWS::FSx::DataRepositoryAssociation"
INGRESS = "AWS::EC2::SecurityGroupIngress"
EGRESS = "AWS::EC2::SecurityGroupEgress"
ALARM = "AWS::CloudWatch::Alarm"
NEW, CHANGED, DELETED = DataRepositoryEvent


def store(site: Site, name: str = "Corpus", **options: Any) -> LustreStore:
    given: dict[str, Any] = {
        "vpc": site.vpc,
        "subnet": site.vpc.private_subnets[0],
        "storage_capacity_gib": 38_400,
        "throughput_mb_per_s_per_tib": 250,
    }
    return LustreStore(site.stack, name, **(given | options))


def test_its_logs_take_a_key_that_cloudwatch_logs_may_use(site: Site) -> None:
    store(site, encryption_key=kms.Key(site.stack, "DataKey"), log_encryption_key=kms.Key(site.stack, "LogKey"))
    resources = site.resources()
    name = only(resources, "AWS::Logs::LogGroup")["KmsKeyId"]["Fn::GetAtt"][0]
    assert name.startswith("LogKey")
    services = [json.dumps(one["Principal"]) for one in resources[name]["Properties"]["KeyPolicy"]["Statement"]]
    assert any("logs." in one for one in services)


def rules(resources: Resources) -> set[tuple[str, str, str, str, Any, Any]]:
    """Each rule as kind, group, peer, protocol, first and last port."""
    found = set()
    for kind, peer in ((INGRESS, "SourceSecurityGroupId"), (EGRESS, "DestinationSecurityGroupId")):
        for rule in of_type(resources, kind).values():
            of = rule["Properties"]
            names = tuple(
                value if isinstance(value, str) else value["Fn::GetAtt"][0] for value in (of["GroupId"], of[peer])
            )
            found.add((kind[-7:], *names, of["IpProtocol"], of.get("FromPort"), of.get("ToPort")))
    return found


def test_the_file_system_says_everything_that_matters(site: Site) -> None:
    store(site, efa=True)
    resources = site.resources()
    properties = only(resources, FILE_SYSTEM)
    (key,) = of_type(resources, "AWS::KMS::Key")
    lustre = properties["LustreConfiguration"]
    log = lustre.pop("LogConfiguration")
    assert lustre == {
        "DeploymentType": "PERSISTENT_2",
        "PerUnitStorageThroughput": 250,
        "EfaEnabled": True,
        "MetadataConfiguration": {"Mode": "AUTOMATIC"},
        "DataCompressionType": "LZ4",
        "AutomaticBackupRetentionDays": 0,
    }
    assert properties["FileSystemTypeVersion"] == "2.15"
    assert (properties["StorageType"], properties["StorageCapacity"]) == ("SSD", 38_400)
    assert properties["KmsKeyId"] == {"Fn::GetAtt": [key, "Arn"]}
    assert resources[key]["Properties"]["EnableKeyRotation"] is True
    assert properties["SubnetIds"] == ["subnet-0123456789abcdef0"]
    assert log["Level"] == "WARN_ERROR"
    assert not json.dumps(log).endswith(':*"]]}}'), "FSx takes the ARN without a stream"
    assert only(resources, "AWS::Logs::LogGroup")["LogGroupName"].startswith("/aws/fsx/")
    assert "KmsKeyId" not in only(resources, "AWS::Logs::LogGroup")


def test_efa_is_off_unless_said_and_advised_where_possible(site: Site) -> None:
    store(site)
    annotations = Annotations.from_stack(site.stack)
    annotations.has_info("/Site/Corpus", Match.string_like_regexp("GPU-LUS-011.*efa=True"))
    annotations.has_no_error("*", Match.any_value())
    assert only(site.resources(), FILE_SYSTEM)["LustreConfiguration"]["EfaEnabled"] is False


def test_no_advice_where_efa_is_on_or_impossible(site: Site) -> None:
    store(site, "On", efa=True)
    store(site, "Small", storage_capacity_gib=2400)
    Annotations.from_stack(site.stack).has_no_info("*", Match.string_like_regexp("GPU-LUS-011"))


def test_ports_without_efa(site: Site) -> None:
    clients = ec2.SecurityGroup(site.stack, "Nodes", vpc=site.vpc)
    store(site, client_security_group=clients)
    resources = site.resources()
    server, client = (site.stack.get_logical_id(group) for group in servers_and(site, clients))
    ranges = ((988, 988), (1018, 1023))
    assert rules(resources) == {
        (kind, group, peer, "tcp", first, last)
        for kind in ("Ingress", "pEgress")
        for group, peer in ((server, server), (server, client), (client, server))
        for first, last in ranges
    }


def test_ports_with_efa(site: Site) -> None:
    fabric = EfaSecurityGroup(site.stack, "Fabric", vpc=site.vpc)
    store(site, client_security_group=fabric, efa=True)
    resources = site.resources()
    server, client = (site.stack.get_logical_id(group) for group in servers_and(site, fabric))
    assert rules(resources) == {
        (kind, group, peer, "-1", None, None)
        for kind in ("Ingress", "pEgress")
        for group, peer in ((server, server), (server, client), (client, server), (client, client))
    }


def servers_and(site: Site, clients: ec2.SecurityGroup) -> tuple[cdk.CfnElement, cdk.CfnElement]:
    made = site.stack.node.find_child("Corpus").node.find_child("Servers")
    return tuple(group.node.default_child for group in (made, clients))  # type: ignore[return-value]


def test_the_servers_start_with_all_their_rules(site: Site) -> None:
    """FSx gives the rules of its creation to the servers."""
    clients = ec2.SecurityGroup.from_security_group_id(site.stack, "Given", "sg-0123456789abcdef0")
    made = store(site)
    made.allow_clients(clients)
    made.allow_clients(clients)
    resources = site.resources()
    (file_system,) = of_type(resources, FILE_SYSTEM).values()
    every_rule = {*of_type(resources, INGRESS), *of_type(resources, EGRESS)}
    assert len(every_rule) == 12
    assert every_rule <= set(file_system["DependsOn"])


def test_clients_of_another_stack_carry_the_rules_themselves(site: Site) -> None:
    nodes = cdk.Stack(site.app, "Nodes")
    fabric = EfaSecurityGroup(nodes, "Fabric", vpc=site.vpc)
    store(site, efa=True, client_security_groups=[fabric])
    assembly = site.app.synth()
    data, compute = (assembly.get_stack_by_name(name) for name in ("Site", "Nodes"))
    assert [one.id for one in compute.dependencies if one.id == "Site"] == ["Site"]
    assert "Nodes" not in [one.id for one in data.dependencies]
    assert len(of_type(data.template["Resources"], INGRESS)) == 1
    assert len(of_type(compute.template["Resources"], INGRESS)) == 3


def test_what_holds_data_stays_and_keeps_its_logical_id(site: Site) -> None:
    """A change of these ids is a major version: CloudFormation would make an empty file system."""
    made = store(site, efa=True)
    made.add_data_repository("/data", s3_uri="s3://corpus/tokens/")
    made.add_data_repository("/data2/deep", s3_uri="s3://corpus/more/")
    resources = site.resources()
    stays = {
        name: resource["Type"]
        for name, resource in resources.items()
        if (resource.get("DeletionPolicy"), resource.get("UpdateReplacePolicy")) == ("RetainExceptOnCreate", "Retain")
    }
    assert stays == {
        "Corpus21BA1D5B": FILE_SYSTEM,
        "CorpusKey5E0AEA79": "AWS::KMS::Key",
        "CorpusServers0C50ABAB": "AWS::EC2::SecurityGroup",
        "CorpusAmongServersServersInAll595F4C03": INGRESS,
        "CorpusAmongServersServersOutAllDFD7DD70": EGRESS,
    }
    links = of_type(resources, LINK)
    assert set(links) == {"CorpusRepositorydata0AB2F8E3", "CorpusRepositorydata2deepA813B548"}
    for link in links.values():
        assert link["DeletionPolicy"] == "RetainExceptOnCreate", "a file system that stays keeps its links"
        assert link["UpdateReplacePolicy"] == "Delete", "two links of one directory cannot stand side by side"


# What CloudFormation replaces a file system for (schema of AWS::FSx::FileSystem), and what FSx never changes.
CREATE_ONLY = ("KmsKeyId", "SecurityGroupIds", "FileSystemType", "SubnetIds", "BackupId", "StorageType")
NEVER_CHANGED = ("DeploymentType", "EfaEnabled")


@pytest.mark.parametrize(
    "edit",
    [
        {"storage_capacity_gib": 57_600},
        {"throughput_mb_per_s_per_tib": 500},
        {"metadata_iops": 24_000},
        {"compression": False},
        {"logging": False},
        {"free_space_alarm": False},
        {"weekly_maintenance_start_time": "7:03:00"},
        {"backup_retention_days": 7},
        {"links": True},
        {"tags": True},
        {"clients": True},
    ],
    ids=str,
)
def test_no_edit_replaces_the_file_system(make_site: SiteFactory, edit: dict[str, Any]) -> None:
    def template(links: bool = False, tags: bool = False, clients: bool = False, **options: Any) -> Resources:
        site = make_site()
        made = store(site, **options)
        if links:
            made.add_data_repository("/data", s3_uri="s3://corpus")
        if tags:
            cdk.Tags.of(site.stack).add("project", "llama")
        if clients:
            made.allow_clients(ec2.SecurityGroup(site.stack, "Nodes", vpc=site.vpc))
        return site.resources()

    before, after = (of_type(resources, FILE_SYSTEM) for resources in (template(), template(**edit)))
    assert before.keys() == after.keys()
    for old, new in zip(before.values(), after.values(), strict=True):
        for name in CREATE_ONLY:
            assert old["Properties"].get(name) == new["Properties"].get(name)
        for name in NEVER_CHANGED:
            assert old["Properties"]["LustreConfiguration"][name] == new["Properties"]["LustreConfiguration"][name]


def test_links_to_an_own_bucket(site: Site) -> None:
    bucket = s3.Bucket(site.stack, "Bucket", encryption=s3.BucketEncryption.KMS, bucket_key_enabled=True)
    made = store(site)
    made.add_data_repository(
        "/data/",
        bucket=bucket,
        prefix="tokens",
        auto_import=[DELETED, NEW, NEW],
        auto_export=[CHANGED],
        imported_file_chunk_mib=2048,
    )
    resources = site.resources()
    (link,) = of_type(resources, LINK).values()
    (bucket_id,) = of_type(resources, "AWS::S3::Bucket")
    assert link["Properties"] == {
        "FileSystemId": {"Ref": "Corpus21BA1D5B"},
        "FileSystemPath": "/data",
        "DataRepositoryPath": {"Fn::Join": ["", ["s3://", {"Ref": bucket_id}, "/tokens/"]]},
        "BatchImportMetaDataOnCreate": True,
        "ImportedFileChunkSize": 2048,
        "S3": {
            "AutoImportPolicy": {"Events": ["NEW", "DELETED"]},
            "AutoExportPolicy": {"Events": ["CHANGED"]},
        },
    }
    (policy_id,) = of_type(resources, "AWS::S3::BucketPolicy")
    (key_id,) = (name for name in of_type(resources, "AWS::KMS::Key") if name.startswith("Bucket"))
    assert {policy_id, key_id} <= set(link["DependsOn"]), "FSx looks at both when the link is made"
    (statement,) = only(resources, "AWS::S3::BucketPolicy")["PolicyDocument"]["Statement"]
    assert "AWSServiceRoleForFSxS3Access_fs-*" in json.dumps(statement["Condition"])
    assert statement["Principal"] != {"AWS": "*"}, "S3 would refuse a public policy"
    key = resources[key_id]["Properties"]["KeyPolicy"]["Statement"][-1]
    assert set(key["Condition"]["StringEquals"]) == {"kms:CallerAccount", "kms:ViaService"}
    assert "kms:GenerateDataKey*" in key["Action"]


def test_a_bucket_that_is_linked_twice_says_it_once(site: Site) -> None:
    bucket = s3.Bucket(site.stack, "Bucket", encryption=s3.BucketEncryption.KMS)
    first, second = store(site, "First"), store(site, "Second")
    for made in (first, second):
        for prefix in ("a", "b"):
            made.add_data_repository(f"/{prefix}", bucket=bucket, prefix=prefix)
    resources = site.resources()
    assert len(of_type(resources, LINK)) == 4
    assert len(only(resources, "AWS::S3::BucketPolicy")["PolicyDocument"]["Statement"]) == 1
    (key,) = (row for name, row in of_type(resources, "AWS::KMS::Key").items() if name.startswith("Bucket"))
    assert len(key["Properties"]["KeyPolicy"]["Statement"]) == 2


def test_imported_buckets_of_one_own_key_have_statements_that_stand_side_by_side(site: Site) -> None:
    key = kms.Key(site.stack, "Key")
    made = store(site)
    for name in ("tokens", "images"):
        bucket = s3.Bucket.from_bucket_attributes(site.stack, name, bucket_name=f"corpus-{name}", encryption_key=key)
        made.add_data_repository(f"/{name}", bucket=bucket)
    (policy,) = (row for name, row in of_type(site.resources(), "AWS::KMS::Key").items() if name.startswith("Key"))
    statements = policy["Properties"]["KeyPolicy"]["Statement"]
    assert len(statements) == 3
    assert all("Sid" not in statement for statement in statements), "equal Sids would be refused"


def test_imported_buckets_get_their_statements_printed(make_site: SiteFactory) -> None:
    site = make_site(env=cdk.Environment(account="123456789012", region="eu-north-1"))
    made = store(site)
    by_name = made.add_data_repository("/name", s3_uri="s3://corpus/tokens")
    by_bucket = made.add_data_repository(
        "/bucket", bucket=s3.Bucket.from_bucket_name(site.stack, "Bucket", "results"), auto_export=[NEW]
    )
    assert by_name.policies_by_hand
    assert by_bucket.policies_by_hand
    role = "role/aws-service-role/s3.data-source.lustre.fsx.amazonaws.com/AWSServiceRoleForFSxS3Access_fs-*"
    statement = by_bucket.required_bucket_policy
    assert "s3:PutBucketNotification" in statement["Action"]
    assert f":iam::123456789012:{role}" in json.dumps(statement["Condition"])
    assert ":s3:::results" in json.dumps(statement["Resource"])
    key = by_name.required_key_policy
    assert "s3.eu-north-1." in json.dumps(key["Condition"]["StringEquals"]["kms:ViaService"])
    assert ":s3:::corpus/*" in json.dumps(key["Condition"]["StringLike"])
    annotations = Annotations.from_stack(site.stack)
    for path in ("/name", "/bucket"):
        annotations.has_info("*", Match.string_like_regexp(f"GPU-DRA-020.*{path} .*s3:PutBucketNotification"))
    outputs = site.template()["Outputs"]
    assert len([name for name in outputs if name.endswith("RequiredPolicies" + name[-8:])]) == 2


def test_printed_policies_can_be_pasted(site: Site) -> None:
    """References are resolved by CloudFormation, not printed as they stand in the template."""
    store(site).add_data_repository("/data", s3_uri="s3://corpus/", auto_export=[NEW])
    outputs = site.template()["Outputs"]
    (value,) = [output["Value"] for name, output in outputs.items() if "RequiredPolicies" in name]
    _, parts = value["Fn::Join"]
    pasted = json.loads("".join(part if isinstance(part, str) else "x" for part in parts))
    assert "s3:PutBucketNotification" in pasted["bucket"]["Action"]
    assert {"Ref": "AWS::AccountId"} in parts
    assert "Ref" not in json.dumps(pasted)


def test_links_need_same_region_for_import_only(make_site: SiteFactory) -> None:
    site = make_site(env=cdk.Environment(account="123456789012", region="us-east-1"))
    elsewhere = s3.Bucket.from_bucket_attributes(site.stack, "There", bucket_name="there", region="us-west-2")
    made = store(site)
    with pytest.raises(ConfigError, match="GPU-DRA-006"):
        made.add_data_repository("/data", bucket=elsewhere, auto_import=[NEW])
    with pytest.raises(ConfigError, match="GPU-DRA-006"):
        made.add_data_repository("/data", s3_uri="s3://there", bucket_region="us-west-2", auto_import=[NEW])
    made.add_data_repository("/data", bucket=elsewhere, auto_export=[NEW])
    assert len(of_type(site.resources(), LINK)) == 1


def test_wrong_links_are_refused_and_leave_nothing_behind(site: Site) -> None:
    made = store(site)
    own = s3.Bucket(site.stack, "Own")
    for number in range(8):
        made.add_data_repository(f"/data{number}", bucket=own, prefix=f"data{number}/")
    wrong: list[tuple[str, str, dict[str, Any]]] = [
        ("GPU-DRA-001", "/ninth", {"s3_uri": "s3://other"}),
        ("GPU-DRA-003", "/data1/inner", {"s3_uri": "s3://other"}),
        ("GPU-DRA-003", "/", {"s3_uri": "s3://other"}),
        ("GPU-DRA-005", "/more", {"bucket": own}),
        ("GPU-DRA-002", "relative", {"s3_uri": "s3://other"}),
        ("GPU-DRA-002", cdk.Fn.import_value("path"), {"s3_uri": "s3://other"}),
        ("GPU-DRA-004", "/more", {}),
        ("GPU-DRA-004", "/more", {"bucket": own, "s3_uri": "s3://other"}),
        ("GPU-DRA-004", "/more", {"s3_uri": "s3://other", "prefix": "tokens"}),
        ("GPU-DRA-004", "/more", {"s3_uri": "s3://other/file.tar"}),
        ("GPU-DRA-009", "/more", {"s3_uri": "s3://other", "imported_file_chunk_mib": 0}),
    ]
    for rule, path, options in wrong:
        with pytest.raises(ConfigError) as error:
            made.add_data_repository(path, **options)
        assert rule in [finding.id for finding in error.value.findings]
        assert all(finding.path.startswith("Site/Corpus") for finding in error.value.findings)
    assert len(of_type(site.resources(), LINK)) == 8


def test_backups_and_intelligent_tiering_exclude_links(site: Site) -> None:
    kept = store(site, "Kept", backup_retention_days=14)
    with pytest.raises(ConfigError, match="GPU-DRA-008"):
        kept.add_data_repository("/data", s3_uri="s3://corpus")
    elastic = store(
        site,
        "Elastic",
        storage_type=LustreStorageType.INTELLIGENT_TIERING,
        storage_capacity_gib=None,
        throughput_mb_per_s_per_tib=None,
        throughput_capacity_mb_per_s=8000,
        read_cache=ReadCacheMode.PROPORTIONAL,
        metadata_iops=6000,
        efa=True,
    )
    with pytest.raises(ConfigError, match="GPU-DRA-007"):
        elastic.add_data_repository("/data", s3_uri="s3://corpus")
    assert elastic.free_space_alarm is None
    properties = {name: row["Properties"] for name, row in of_type(site.resources(), FILE_SYSTEM).items()}
    lustre = {name[:4]: row["LustreConfiguration"] for name, row in properties.items()}
    assert (lustre["Kept"]["AutomaticBackupRetentionDays"], lustre["Kept"]["CopyTagsToBackups"]) == (14, True)
    assert lustre["Elas"]["ThroughputCapacity"] == 8000
    assert lustre["Elas"]["DataReadCacheConfiguration"] == {"SizingMode": "PROPORTIONAL_TO_THROUGHPUT_CAPACITY"}
    assert lustre["Elas"]["MetadataConfiguration"] == {"Mode": "USER_PROVISIONED", "Iops": 6000}
    assert "PerUnitStorageThroughput" not in lustre["Elas"]


def test_scratch_says_nothing_that_it_does_not_take(site: Site) -> None:
    scratch: dict[str, Any] = {
        "deployment_type": LustreDeploymentType.SCRATCH_2,
        "throughput_mb_per_s_per_tib": None,
        "storage_capacity_gib": 1200,
    }
    store(site, logging=False, compression=False, **scratch)
    assert site.stack.node.find_child("Corpus").node.try_find_child("Key") is None
    with pytest.raises(ConfigError, match="GPU-LUS-016"):
        store(site, "Keyed", encryption_key=kms.Key(site.stack, "Key"), **scratch)
    with pytest.raises(ConfigError, match="GPU-LUS-015"):
        store(site, "Kept", backup_retention_days=1, **scratch)
    properties = of_type(site.resources(), FILE_SYSTEM)["Corpus21BA1D5B"]["Properties"]
    assert "KmsKeyId" not in properties
    assert properties["LustreConfiguration"] == {
        "DeploymentType": "SCRATCH_2",
        "DataCompressionType": "NONE",
        "LogConfiguration": {"Level": "DISABLED"},
    }


def test_a_wrong_store_names_its_path_and_every_fault(site: Site) -> None:
    with pytest.raises(ConfigError) as error:
        store(site, storage_capacity_gib=20_000, efa=True, metadata_iops=7, backup_retention_days=100)
    assert [finding.id for finding in error.value.findings] == ["GPU-LUS-005", "GPU-LUS-007", "GPU-LUS-015"]
    assert {finding.path for finding in error.value.findings} == {"Site/Corpus"}


def test_sizes_that_only_a_deployment_knows(site: Site) -> None:
    made = LustreStore(
        site.stack,
        "Corpus",
        vpc=site.vpc,
        subnet=site.vpc.private_subnets[0],
        storage_capacity_gib=cdk.Token.as_number({"Ref": "Gib"}),  # type: ignore[arg-type]
        throughput_mb_per_s_per_tib=cdk.Token.as_number({"Ref": "Rate"}),  # type: ignore[arg-type]
        metadata_iops=cdk.Token.as_number({"Ref": "Iops"}),  # type: ignore[arg-type]
        backup_retention_days=cdk.Token.as_number({"Ref": "Days"}),  # type: ignore[arg-type]
    )
    assert made.free_space_alarm is None
    for name in ("Gib", "Rate", "Iops", "Days"):
        cdk.CfnParameter(site.stack, name, type="Number")
    made.add_data_repository("/data", s3_uri="s3://corpus/tokens")
    properties = only(site.resources(), FILE_SYSTEM)
    assert properties["StorageCapacity"] == {"Ref": "Gib"}
    assert properties["LustreConfiguration"]["PerUnitStorageThroughput"] == {"Ref": "Rate"}
    assert properties["LustreConfiguration"]["MetadataConfiguration"]["Iops"] == {"Ref": "Iops"}


def test_free_space_alarm(site: Site) -> None:
    made = store(site)
    made.add_free_space_alarm(threshold_percent=5, construct_id="VeryLittle")
    thresholds = {row["Properties"]["Threshold"] for row in of_type(site.resources(), ALARM).values()}
    assert thresholds == {38_400 * 1024**3 * share / 100 for share in (10, 5)}


def test_metrics(site: Site) -> None:
    made = store(site)
    free, metadata = made.metric_free_capacity(), made.metric_metadata_operations()
    assert (free.namespace, free.metric_name, free.statistic) == ("AWS/FSx", "FreeDataStorageCapacity", "Sum")
    # One data point for each target and minute: a longer period would count each target several times.
    assert free.period.to_seconds() == 60
    assert metadata.metric_name == "MetadataOperations"
    assert made.metric_free_capacity_of_fullest_target().statistic == "Minimum"
    assert set(made.metric_throughput().using_metrics) == {"read", "written"}


def test_existing_file_systems(make_site: SiteFactory) -> None:
    site = make_site(env=cdk.Environment(account="123456789012", region="us-east-1"))
    group = ec2.SecurityGroup.from_security_group_id(site.stack, "Group", "sg-0123456789abcdef0")
    existing = LustreStore.from_lustre_store_attributes(
        site.stack,
        "Existing",
        file_system_id="fs-0123456789abcdef0",
        mount_name="abcdefgh",
        security_group=group,
        lustre_version=LustreVersion.V2_10,
        availability_zone="us-east-1a",
        storage_capacity_gib=1200,
    )
    assert existing.mount_command("/fsx") == (
        "sudo mount -t lustre -o relatime,flock "
        f"fs-0123456789abcdef0.fsx.us-east-1.{site.stack.url_suffix}@tcp:/abcdefgh /fsx"
    )
    assert [f.id for f in existing.check_client(operating_system="al2023")] == ["GPU-LUS-020"]
    existing.add_free_space_alarm()
    existing.allow_clients(ec2.SecurityGroup(site.stack, "Nodes", vpc=site.vpc))
    existing.add_data_repository("/data", s3_uri="s3://corpus")
    resources = site.resources()
    assert not of_type(resources, FILE_SYSTEM)
    assert only(resources, LINK)["FileSystemId"] == "fs-0123456789abcdef0"
    assert len(of_type(resources, INGRESS)) == 4


def test_an_alarm_needs_a_known_capacity(site: Site) -> None:
    group = ec2.SecurityGroup.from_security_group_id(site.stack, "Group", "sg-0123456789abcdef0")
    existing = LustreStore.from_lustre_store_attributes(
        site.stack, "Existing", file_system_id="fs-0123456789abcdef0", mount_name="x", security_group=group
    )
    with pytest.raises(ValueError, match="storage_capacity_gib"):
        existing.add_free_space_alarm()


@pytest.mark.parametrize(
    ("zone", "efa", "found"),
    [
        (0, True, []),
        (1, True, [("GPU-LUS-021", Severity.ERROR)]),
        (1, False, [("GPU-LUS-021", Severity.WARNING)]),
    ],
)
def test_clients_stand_in_the_zone_of_the_store(
    site: Site, zone: int, efa: bool, found: list[tuple[str, Severity]]
) -> None:
    made = store(site, efa=True)
    findings = made.check_client(
        subnets=[site.vpc.private_subnets[zone]],
        instance_type=instance_type("p5.48xlarge"),
        operating_system="ubuntu-24.04",
        node_count=16,
        efa=efa,
    )
    assert [(finding.id, finding.severity) for finding in findings] == found


def test_efa_clients_have_addresses_of_one_block(site: Site) -> None:
    here, near, far = (
        ec2.Subnet.from_subnet_attributes(
            site.stack,
            f"Subnet{number}",
            subnet_id=f"subnet-0123456789abcdef{number}",
            availability_zone="us-east-1a",
            ipv4_cidr_block=cidr,
        )
        for number, cidr in enumerate(("10.0.0.0/20", "10.0.16.0/20", "10.1.0.0/20"), start=5)
    )
    made = store(site, efa=True, subnet=here)
    assert made.check_client(subnets=[here, near]) == []
    assert [finding.id for finding in made.check_client(subnets=[far])] == ["GPU-LUS-024"]


def test_names_and_ids_of_zones_are_not_compared(site: Site) -> None:
    by_id = ec2.Subnet.from_subnet_attributes(
        site.stack, "ById", subnet_id="subnet-0123456789abcdef9", availability_zone="use1-az4"
    )
    assert store(site, efa=True).check_client(subnets=[by_id]) == []


def test_cold_files_are_released_on_a_schedule(site: Site) -> None:
    made = store(site)
    assert "--type RELEASE_DATA_FROM_FILESYSTEM --paths data " in made.release_command("/data")
    assert "--paths" not in made.release_command()
    ColdFileRelease(site.stack, "Release", store=made, path="/data", unused_for_days=14)
    resources = site.resources()
    target = only(resources, "AWS::Scheduler::Schedule")["Target"]
    assert json.dumps(target["Arn"]).count("scheduler:::aws-sdk:fsx:createDataRepositoryTask") == 1
    call = "".join(part if isinstance(part, str) else "fs-1" for part in target["Input"]["Fn::Join"][1])
    assert json.loads(call) == {
        "FileSystemId": "fs-1",
        "Type": "RELEASE_DATA_FROM_FILESYSTEM",
        "Paths": ["data"],
        "Report": {"Enabled": False},
        "ReleaseConfiguration": {"DurationSinceLastAccess": {"Unit": "DAYS", "Value": 14}},
        "ClientRequestToken": "<aws.scheduler.execution-id>",
    }
    (statement,) = only(resources, "AWS::IAM::ManagedPolicy")["PolicyDocument"]["Statement"]
    assert "fsx:CreateDataRepositoryTask" in statement["Action"]


@pytest.mark.parametrize("region", ["us-gov-west-1", "cn-north-1", None])
def test_nothing_is_bound_to_one_partition(make_site: SiteFactory, region: str | None) -> None:
    env = None if region is None else cdk.Environment(account="123456789012", region=region)
    site = make_site(env=env)
    made = store(site, efa=True)
    bucket = s3.Bucket(site.stack, "Bucket", encryption=s3.BucketEncryption.KMS)
    made.add_data_repository("/data", bucket=bucket, auto_import=[NEW])
    made.add_data_repository("/more", s3_uri="s3://corpus")
    ColdFileRelease(site.stack, "Release", store=made)
    made.grant_data_repository_tasks(iam.Role(site.stack, "Role", assumed_by=iam.AccountRootPrincipal()))
    text = json.dumps(site.template())
    assert "arn:aws:" not in text
    # Service principals and roles of AWS services are spelled the same everywhere.
    for name in ("scheduler.amazonaws.com", "lustre.fsx.amazonaws.com"):
        text = text.replace(name, "")
    assert ".amazonaws.com" not in text
