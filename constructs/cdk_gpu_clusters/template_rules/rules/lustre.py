"""FSx for Lustre file systems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cdk_gpu_clusters.catalogue.lustre import lustre_ports
from cdk_gpu_clusters.errors import Finding, Severity
from cdk_gpu_clusters.rules import lustre
from cdk_gpu_clusters.template_rules.case import Case, Resource, Value
from cdk_gpu_clusters.template_rules.lookups.file_systems import FILE_SYSTEM, lustre_only, lustre_sizing
from cdk_gpu_clusters.template_rules.lookups.network import exchange_all, groups_at, missing_ports, tcp_text
from cdk_gpu_clusters.template_rules.rule import (
    Fault,
    NotApplicable,
    SharedCheck,
    TemplateRule,
    applicable,
    define_template_rule,
    faults_of,
    template_rule,
)


def _closed_among_servers(resource: Resource, ranges: Sequence[tuple[int, int]]) -> Iterator[Fault]:
    """A fault for each range of TCP ports, and way, that the groups of a file system do not open for each other."""
    value = lustre_only(resource).get("SecurityGroupIds")
    if not value.exists:
        raise NotApplicable
    groups = groups_at(value)
    allowed = ", ".join(tcp_text(*ports) for ports in lustre_ports())
    for missing in missing_ports(groups, groups, at=value, ranges=ranges):
        yield Fault(at=value, got=f"nothing that lets {missing} among the servers", allowed=allowed)


def _sizing_findings(resource: Resource) -> list[tuple[Value, list[Finding]]]:
    return [(resource.properties, lustre.check_lustre(lustre_sizing(resource)))]


_sizing = SharedCheck(
    find=_sizing_findings,
    url="https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-fsx-filesystem-lustreconfiguration.html",
    on=(FILE_SYSTEM,),
    looks_at=(
        "StorageCapacity",
        "StorageType",
        "FileSystemTypeVersion",
        "LustreConfiguration/DeploymentType",
        "LustreConfiguration/PerUnitStorageThroughput",
        "LustreConfiguration/ThroughputCapacity",
        "LustreConfiguration/DataReadCacheConfiguration",
        "LustreConfiguration/MetadataConfiguration",
        "LustreConfiguration/EfaEnabled",
    ),
    own_fix=True,
)


@template_rule(
    lustre.DEPLOYMENT,
    severity=Severity.WARNING,
    cause="this class is older and slower, and takes neither EFA nor metadata operations",
    fix="use PERSISTENT_2, or SCRATCH_2 for data that may be lost",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/using-fsx-lustre.html",
    on=(FILE_SYSTEM,),
    looks_at=("LustreConfiguration/DeploymentType",),
)
def older_class(resource: Resource) -> Iterator[Fault]:
    if _is_for_some_regions(resource.case):
        raise NotApplicable
    deployment_type = lustre_only(resource).get("LustreConfiguration", "DeploymentType")
    named = deployment_type.text() or "SCRATCH_1"  # FSx's own default
    findings = lustre.check_lustre(lustre.LustreSizing(deployment_type=named))
    yield from faults_of(lustre.DEPLOYMENT, findings, deployment_type, got=named, own_cause=True, own_fix=True)


def _is_for_some_regions(case: Case) -> bool:
    """Whether the template makes a difference for the Region here: not every Region has PERSISTENT_2."""
    return any(
        ("AWS::Region" in name or "AWS::Partition" in name) and choice.value not in (None, "false")
        for name, choice in case.choices.items()
    )


storage_class: TemplateRule = _sizing.rule(
    lustre.STORAGE_TYPE,
    cause="FSx refuses the storage class",
    fix="use SSD; INTELLIGENT_TIERING only with PERSISTENT_2, and without SSD properties",
    at="StorageType",
    allowed="SSD, or INTELLIGENT_TIERING with PERSISTENT_2",
)


@template_rule(
    lustre.CAPACITY,
    cause="FSx refuses the size",
    fix="use 1200 GiB, 2400 GiB or a multiple of 2400 GiB",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/getting-started.html",
    on=(FILE_SYSTEM,),
    looks_at=(
        "StorageCapacity",
        "StorageType",
        "LustreConfiguration/DeploymentType",
        "LustreConfiguration/PerUnitStorageThroughput",
        "LustreConfiguration/EfaEnabled",
    ),
)
def lustre_capacity(resource: Resource) -> Iterator[Fault]:
    yield from faults_of(lustre.CAPACITY, lustre.check_lustre(lustre_sizing(resource)), resource.get("StorageCapacity"))


throughput_tier: TemplateRule = _sizing.rule(
    lustre.THROUGHPUT,
    cause="FSx refuses the throughput tier",
    fix="use a tier of the deployment type, or leave it out for SCRATCH_2",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/managing-throughput-capacity.html",
    at="LustreConfiguration/PerUnitStorageThroughput",
)
efa_capacity: TemplateRule = _sizing.rule(
    lustre.EFA_CAPACITY,
    cause="FSx refuses the size: with EFA a file system consists of complete servers",
    fix="use a multiple of 38400, 19200, 9600 or 4800 GiB at 125, 250, 500 or 1000 MB/s/TiB",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/getting-started.html",
    at="StorageCapacity",
)
efa_class: TemplateRule = _sizing.rule(
    lustre.EFA_CLASS,
    cause="FSx refuses EFA on this class",
    fix="use PERSISTENT_2 with a MetadataConfiguration, or leave EfaEnabled out",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/efa-file-systems.html",
    at="LustreConfiguration/EfaEnabled",
    allowed="PERSISTENT_2",
)
metadata_iops: TemplateRule = _sizing.rule(
    lustre.METADATA,
    cause="FSx refuses this number of metadata operations",
    fix="use 1500, 3000, 6000 or a multiple of 12000 up to 192000; 6000 or 12000 with Intelligent-Tiering",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/managing-metadata-performance.html",
    at="LustreConfiguration/MetadataConfiguration/Iops",
)
metadata_mode: TemplateRule = _sizing.rule(
    lustre.METADATA_MODE,
    cause="FSx refuses the metadata configuration",
    fix="use AUTOMATIC without Iops, or USER_PROVISIONED with them; EFA needs one of the two, SCRATCH_2 has none",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/managing-metadata-performance.html",
    at="LustreConfiguration/MetadataConfiguration",
    allowed="Mode AUTOMATIC without Iops, or USER_PROVISIONED with",
)
lustre_version: TemplateRule = _sizing.rule(
    lustre.VERSION,
    cause="FSx refuses the version",
    fix="set FileSystemTypeVersion to 2.15",
    at="FileSystemTypeVersion",
)
tiering_throughput: TemplateRule = _sizing.rule(
    lustre.TIERING_THROUGHPUT,
    cause="FSx refuses the throughput capacity",
    fix="set ThroughputCapacity to a multiple of 4000 MB/s, and leave StorageCapacity and PerUnitStorageThroughput out",
    at="LustreConfiguration/ThroughputCapacity",
    allowed="multiples of 4000 MB/s, and no size",
)
read_cache: TemplateRule = _sizing.rule(
    lustre.READ_CACHE,
    cause="FSx refuses the read cache",
    fix="set SizingMode: PROPORTIONAL_TO_THROUGHPUT_CAPACITY or NO_CACHE, or USER_PROVISIONED with a SizeGiB",
    url="https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-fsx-filesystem-datareadcacheconfiguration.html",
    at="LustreConfiguration/DataReadCacheConfiguration",
    allowed="NO_CACHE, PROPORTIONAL_TO_THROUGHPUT_CAPACITY",
)


@template_rule(
    lustre.RETENTION,
    cause="FSx refuses to keep backups for this time",
    fix="set AutomaticBackupRetentionDays to 0 to 90; to 0 on SCRATCH_2, or use PERSISTENT_2",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/using-backups-fsx.html",
    on=(FILE_SYSTEM,),
    looks_at=("LustreConfiguration/AutomaticBackupRetentionDays", "LustreConfiguration/DeploymentType"),
)
def backup_days(resource: Resource) -> Iterator[Fault]:
    sizing = lustre_sizing(resource)
    days = resource.get("LustreConfiguration", "AutomaticBackupRetentionDays")
    yield from faults_of(lustre.RETENTION, lustre.check_backups(sizing, applicable(days.integer())), days, own_fix=True)


@template_rule(
    lustre.KEY,
    cause="SCRATCH_2 is encrypted with a key of FSx, and takes no other",
    fix="leave KmsKeyId out, or use PERSISTENT_2",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/encryption-at-rest.html",
    on=(FILE_SYSTEM,),
    looks_at=("KmsKeyId", "LustreConfiguration/DeploymentType"),
)
def scratch_key(resource: Resource) -> Iterator[Fault]:
    key = resource.get("KmsKeyId")
    findings = lustre.check_encryption_key(lustre_sizing(resource), given=key.exists)
    yield from faults_of(lustre.KEY, findings, key, got="KmsKeyId", own_cause=True, own_fix=True)


@define_template_rule(
    "GPU-LUS-040",
    "a persistent Lustre file system is retained when its stack is deleted, and when it is replaced",
    source='CloudFormation user guide, "DeletionPolicy attribute" and "UpdateReplacePolicy attribute"',
    severity=Severity.WARNING,
    cause="the data is lost with the stack, or with a change that replaces the file system, such as another subnet",
    fix="set DeletionPolicy to RetainExceptOnCreate, and UpdateReplacePolicy to Retain",
    url="https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-attribute-deletionpolicy.html",
    on=(FILE_SYSTEM,),
    looks_at=("DeletionPolicy", "UpdateReplacePolicy", "LustreConfiguration/DeploymentType"),
)
def keep_file_system(resource: Resource) -> Iterator[Fault]:
    deployment_type = lustre_only(resource).get("LustreConfiguration", "DeploymentType").text()
    if not (deployment_type or "").startswith("PERSISTENT"):
        raise NotApplicable
    for name in ("DeletionPolicy", "UpdateReplacePolicy"):
        policy = resource.attribute(name).text()
        if policy not in ("Retain", "RetainExceptOnCreate"):
            yield Fault(at=resource.attribute(name), got=f"{name} {policy or 'Delete, by default'}", allowed="Retain")


@define_template_rule(
    "GPU-LUS-041",
    "a Lustre file system is in exactly one subnet",
    source="botocore 1.44.5, fsx service model: CreateFileSystem, SubnetIds",
    cause="FSx refuses a Lustre file system in several subnets, or in none",
    fix="name one subnet, in the zone of the nodes",
    url="https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-fsx-filesystem.html",
    on=(FILE_SYSTEM,),
    looks_at=("SubnetIds",),
)
def one_subnet(resource: Resource) -> Iterator[Fault]:
    subnets = lustre_only(resource).get("SubnetIds")
    count = len(subnets.items())
    if count != 1:
        yield Fault(at=subnets, got=f"{count} subnets", allowed="1")


@define_template_rule(
    "GPU-LUS-042",
    "the servers of a Lustre file system reach each other at TCP 988",
    source='FSx for Lustre user guide, "File system access control with Amazon VPC" (stored copy of 2026)',
    cause="FSx refuses a file system whose group stops Lustre traffic",
    fix="let the group of the file system reach itself at TCP 988 and TCP 1018-1023, in and out",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html",
    on=(FILE_SYSTEM,),
    looks_at=("SecurityGroupIds", "AWS::EC2::SecurityGroupIngress", "AWS::EC2::SecurityGroupEgress"),
)
def server_ports(resource: Resource) -> Iterator[Fault]:
    yield from _closed_among_servers(resource, lustre_ports()[:1])


@define_template_rule(
    "GPU-LUS-043",
    "the group of a Lustre file system with EFA allows all traffic with itself, in and out",
    source='FSx for Lustre user guide, "File system access control with Amazon VPC", EFA-enabled security groups',
    cause="FSx refuses a file system with EFA whose group does not allow it: addresses do not count for EFA",
    fix="add SecurityGroupIngress and SecurityGroupEgress with IpProtocol -1 and the same group at both ends",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html",
    on=(FILE_SYSTEM,),
    looks_at=(
        "LustreConfiguration/EfaEnabled",
        "SecurityGroupIds",
        "AWS::EC2::SecurityGroupIngress",
        "AWS::EC2::SecurityGroupEgress",
    ),
)
def server_efa_traffic(resource: Resource) -> Iterator[Fault]:
    if not lustre_only(resource).get("LustreConfiguration", "EfaEnabled").flag():
        raise NotApplicable
    value = resource.get("SecurityGroupIds")
    groups = groups_at(value)
    if not exchange_all(groups, groups, at=value):
        yield Fault(at=value, got="no rules for all traffic within the same group", allowed="IpProtocol -1, both ways")


@define_template_rule(
    "GPU-LUS-045",
    "the servers of a Lustre file system reach each other at TCP 1018-1023, too",
    source='FSx for Lustre user guide, "File system access control with Amazon VPC" (stored copy of 2026); '
    "templates that AWS publishes open 1021-1023, or 988 alone, so that FSx does not seem to check it",
    severity=Severity.WARNING,
    cause="FSx documents that the servers need this range besides 988",
    fix="let the group of the file system reach itself at TCP 1018-1023, in and out",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html",
    on=(FILE_SYSTEM,),
    looks_at=("SecurityGroupIds", "AWS::EC2::SecurityGroupIngress", "AWS::EC2::SecurityGroupEgress"),
)
def server_range(resource: Resource) -> Iterator[Fault]:
    yield from _closed_among_servers(resource, lustre_ports()[1:])
