"""Nodes that mount FSx for Lustre file systems."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_network
from itertools import combinations
from pathlib import PurePosixPath

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.node.storage import OVERLAP
from cdk_gpu_clusters.rules.lustre_clients import CLIENT_NETWORK, CLIENT_ZONE, check_lustre_client
from cdk_gpu_clusters.template_rules.case import Resource, Value, target_of
from cdk_gpu_clusters.template_rules.lookups.file_systems import FILE_SYSTEM, lustre_only, lustre_version, mounted_by
from cdk_gpu_clusters.template_rules.lookups.launches import (
    LAUNCHES,
    Launch,
    launch_of,
    lustre_lines_of_fstab,
    user_data_of,
)
from cdk_gpu_clusters.template_rules.lookups.network import (
    SUBNET,
    exchange_all,
    groups_at,
    groups_of_launch,
    is_same_zone,
    known_zone_of,
    missing_ports,
    subnets_of_launch,
)
from cdk_gpu_clusters.template_rules.rule import (
    Fault,
    NotApplicable,
    applicable,
    define_template_rule,
    faults_of,
    template_rule,
)


@template_rule(
    CLIENT_ZONE,
    severity=Severity.WARNING,
    cause="mounts from another Availability Zone are slower, are billed by the gigabyte, and never use EFA",
    fix="put the nodes and the file system into one subnet or zone",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/efa-file-systems.html",
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/UserData", "AWS::FSx::FileSystem/SubnetIds", "AWS::EC2::Subnet/AvailabilityZone"),
)
def client_zone(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    pairs = [
        (node, subnet)
        for file_system in mounted_by(launch)
        for subnet in file_system.get("SubnetIds").items()
        for node in subnets_of_launch(launch)
    ]
    for node, subnet in applicable(pairs):
        if node.identity() != subnet.identity() and not is_same_zone(known_zone_of(subnet), known_zone_of(node)):
            zone, other = known_zone_of(node).text() or "", known_zone_of(subnet).text()
            findings = check_lustre_client(zones=[zone], file_system_zone=other)
            yield from faults_of(CLIENT_ZONE, findings, node, own_cause=True, own_fix=True)


@template_rule(
    CLIENT_NETWORK,
    cause="nodes that mount over EFA have addresses of another /16 block than the file system",
    fix="put the nodes and the file system into subnets of one /16 block",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/efa-file-systems.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/UserData",
        "LaunchTemplateData/NetworkInterfaces/*/InterfaceType",
        "AWS::FSx::FileSystem/SubnetIds",
        "AWS::EC2::Subnet/CidrBlock",
    ),
)
def client_network(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    for file_system in _mounted_over_efa(launch):
        for own in file_system.get("SubnetIds").items():
            for node in subnets_of_launch(launch):
                if node.identity() != own.identity():
                    blocks = _block_of(node), _block_of(own)
                    findings = check_lustre_client(cidrs=blocks[:1], file_system_cidr=blocks[1], efa=True)
                    yield from faults_of(CLIENT_NETWORK, findings, node, own_cause=True, own_fix=True)


def _mounted_over_efa(launch: Launch) -> list[Resource]:
    """The file systems that a launch mounts over EFA; without EFA on both sides, nodes mount them over TCP.

    Raises:
        NotApplicable: If it mounts none at all.
    """
    mounted = applicable(mounted_by(launch))
    return [one for one in mounted if launch.has_efa() and one.get("LustreConfiguration", "EfaEnabled").flag()]


def _block_of(value: Value) -> str:
    """The IPv4 block of a subnet."""
    subnet = target_of(value, SUBNET)
    block = None if subnet is None else subnet.get("CidrBlock").text()
    if block is None:
        raise value.undecidable("the block of this subnet is not in the template")
    try:
        return str(ip_network(block))
    except ValueError:
        raise value.undecidable(f"{block!r} is no block of addresses") from None


@define_template_rule(
    "GPU-LUS-044",
    "nodes and the Lustre file system that they mount reach each other at TCP 988 and 1018-1023",
    source='FSx for Lustre user guide, "File system access control with Amazon VPC" (stored copy of 2026)',
    cause="the mount hangs, or the client is evicted: servers call their clients back",
    fix="let the groups of the nodes and of the file system reach each other at TCP 988 and TCP 1018-1023, both ways",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/UserData",
        "LaunchTemplateData/NetworkInterfaces/*/Groups",
        "LaunchTemplateData/SecurityGroupIds",
        "AWS::FSx::FileSystem/SecurityGroupIds",
        "AWS::EC2::SecurityGroupIngress",
        "AWS::EC2::SecurityGroupEgress",
    ),
)
def client_ports(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    for file_system in applicable(mounted_by(launch)):
        value = file_system.get("SecurityGroupIds")
        servers, clients = groups_at(value), groups_of_launch(launch)
        ways = ((clients, servers, "from the nodes"), (servers, clients, "to the nodes"))
        for sources, targets, way in ways:
            for missing in missing_ports(sources, targets, at=value):
                got = f"{file_system.logical_id}: nothing that lets {missing} {way}"
                yield Fault(at=resource, got=got, allowed="TCP 988, TCP 1018-1023")


@define_template_rule(
    "GPU-LUS-046",
    "nodes and the Lustre file system that they mount over EFA allow all traffic with each other",
    source='FSx for Lustre user guide, "File system access control with Amazon VPC", EFA-enabled security groups',
    cause="the nodes cannot reach the file system over EFA: rules about ports or addresses do not count for it",
    fix="in both groups, allow all traffic (IpProtocol -1) from and to the id of the other group",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/UserData",
        "LaunchTemplateData/NetworkInterfaces/*/Groups",
        "AWS::FSx::FileSystem/LustreConfiguration/EfaEnabled",
        "AWS::FSx::FileSystem/SecurityGroupIds",
        "AWS::EC2::SecurityGroupIngress",
        "AWS::EC2::SecurityGroupEgress",
    ),
)
def client_efa_traffic(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    for file_system in _mounted_over_efa(launch):
        value = file_system.get("SecurityGroupIds")
        servers, clients = groups_at(value), groups_of_launch(launch)
        for owners, peers, whose in (
            (clients, servers, "the nodes"),
            (servers, clients, file_system.logical_id),
        ):
            if not exchange_all(owners, peers, at=value):
                got = f"the group of {whose} has no rules for all traffic with the other"
                yield Fault(at=resource, got=got, allowed="IpProtocol -1, both ways, by the ids of the groups")


@define_template_rule(
    "GPU-LUS-047",
    "a Lustre file system has version 2.12 or 2.15, which the images of GPU nodes can mount",
    source='FSx for Lustre user guide, "Lustre file system and client kernel compatibility"; AWS::FSx::FileSystem '
    "reference, FileSystemTypeVersion: 2.10 by default; amazonlinux/amazon-linux-2023 723",
    severity=Severity.WARNING,
    cause="clients of Amazon Linux 2023, Ubuntu 24.04 and RHEL 9 have Lustre 2.15, and do not mount 2.10",
    fix='set FileSystemTypeVersion to "2.15"',
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/lustre-client-matrix.html",
    on=(FILE_SYSTEM,),
    looks_at=(
        "FileSystemTypeVersion",
        "LustreConfiguration/DeploymentType",
        "LustreConfiguration/MetadataConfiguration",
    ),
)
def mountable_version(resource: Resource) -> Iterator[Fault]:
    if lustre_only(resource).get("BackupId").exists:
        raise NotApplicable  # it has the version of the file system that the backup is of
    named = resource.get("FileSystemTypeVersion")
    if lustre_version(resource) == "2.10":
        yield Fault(at=named, got="2.10" if named.exists else "2.10, by default", allowed="2.15, 2.12")


_SHARED = r"(?:lustre|nfs4?|efs)"

# It begins where a word does: otherwise each letter of a long word, such as a script in base64, is tried in vain.
_FSTAB = re.compile(rf"(?<![^\s\"'#])(?P<source>[^\s\"'#]+)[ \t]+(?P<point>/\S*)[ \t]+{_SHARED}[ \t]")

_COMMAND = re.compile(rf"\bmount\b[^\n;&|]*?-t[ \t]+{_SHARED}\b(?P<rest>[^\n;&|]*)")

_OPTIONS = re.compile(r"(?<!\S)(?:-o[ \t]+\S+|-\w+)")


@template_rule(
    OVERLAP,
    severity=Severity.WARNING,
    cause="the mount that comes later hides the files of the other, or hangs with it",
    fix="mount them side by side, such as /fsx and /home",
    url="https://man7.org/linux/man-pages/man8/mount.8.html",
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/UserData: lines of /etc/fstab, and mount -t lustre, nfs or efs",),
)
def mounts_apart(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    user_data = user_data_of(launch)
    mounts = sorted(set(_mounts(user_data.text)))
    if not (mounts or mounted_by(launch)):
        raise NotApplicable
    for (one, source), (other, another) in combinations(mounts, 2):
        if source != another and PurePosixPath(other).is_relative_to(one):
            yield Fault(at=user_data.value, got=f"{source} at {one}, {another} at {other}", allowed="apart")


def _mounts(text: str) -> Iterator[tuple[str, str]]:
    """Mount points, with what is mounted there."""
    for line in _FSTAB.finditer(text):
        yield line["point"], line["source"]
    for command in _COMMAND.finditer(text):
        words = [word.strip("\"'") for word in _OPTIONS.sub(" ", command["rest"]).split()]
        if len(words) == 2 and words[1].startswith("/"):  # not a variable of the script
            yield words[1], words[0]


_MOUNT = re.compile(r"\bmount\b[^\n]*\blustre\b")

# What mounts at later boots: Lustre in fstab, a unit, or a part of user data that runs at every boot.
_LATER = re.compile(r"lustre.*/etc/fstab|\.mount\b|/etc/systemd/|bootcmd:|boothook|scripts-user, *always|mounts:")

_NETWORK = ("_netdev", "x-systemd.requires", "x-systemd.after")


@define_template_rule(
    "GPU-MNT-010",
    "a Lustre mount comes back when a node boots again, after its network",
    source='FSx for Lustre user guide, "Mounting your Amazon FSx file system automatically"',
    severity=Severity.WARNING,
    cause="user data runs at the first boot only: after a reboot, jobs write to an empty directory",
    fix="mount by a line of /etc/fstab with _netdev, or by a systemd unit",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/mount-fs-auto-mount-onreboot.html",
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/UserData",),
)
def mount_at_boot(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    user_data = user_data_of(launch)
    once = _MOUNT.search(user_data.text)
    if not once and not mounted_by(launch):
        raise NotApplicable
    lines = lustre_lines_of_fstab(user_data)
    if once and not (lines or _LATER.search(user_data.text)):
        yield Fault(at=user_data.value, got=once[0].strip(), allowed="a line of /etc/fstab, or a systemd unit")
    for options in lines:
        if not any(option in options for option in _NETWORK):
            yield Fault(
                at=user_data.value,
                got=f"a line of /etc/fstab with {options}",
                allowed="_netdev among its options",
                cause="the mount is tried before the network is up, and the boot may stop there",
            )


_SERVICE = "configure-efa-fsx-lustre-client.service"


@define_template_rule(
    "GPU-MNT-011",
    "a Lustre mount over EFA waits for the service that sets EFA up",
    source='FSx for Lustre user guide, "Mounting your Amazon FSx file system automatically"; '
    "awslabs/awsome-distributed-ai 1208",
    severity=Severity.WARNING,
    cause="the mount may come before EFA is set up, and then runs over TCP, without a message",
    fix=f"add x-systemd.automount, and x-systemd.requires and x-systemd.after with {_SERVICE}",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/mount-fs-auto-mount-onreboot.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/UserData: lines of /etc/fstab",
        "LaunchTemplateData/NetworkInterfaces/*/InterfaceType",
        "AWS::FSx::FileSystem/LustreConfiguration/EfaEnabled",
    ),
)
def mount_after_efa(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    user_data = user_data_of(launch)
    if not _mounted_over_efa(launch):
        return
    for options in lustre_lines_of_fstab(user_data):
        if _SERVICE not in options:
            yield Fault(
                at=user_data.value,
                got=f"a line of /etc/fstab with {options}",
                allowed=f"x-systemd.requires={_SERVICE},x-systemd.after={_SERVICE} among its options",
            )
