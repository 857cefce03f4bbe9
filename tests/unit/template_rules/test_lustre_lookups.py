"""What rules find out about Lustre traffic, repositories and mounts, and what they leave open."""

from __future__ import annotations

import pytest

from cdk_gpu_clusters.template_rules.rule import Outcome
from templates import verdicts_of

FILE_SYSTEM = """
  Corpus:
    Type: AWS::FSx::FileSystem
    Properties:
      FileSystemType: LUSTRE
      StorageCapacity: 4800
      SubnetIds: [subnet-0123456789abcdef0]
      SecurityGroupIds: GROUPS
      LustreConfiguration: {DeploymentType: PERSISTENT_2, PerUnitStorageThroughput: 250}
"""
GROUP = """
  Servers:
    Type: AWS::EC2::SecurityGroup
    Properties:
      GroupDescription: servers
      VpcId: vpc-0123456789abcdef0
      SecurityGroupEgress: EGRESS
  In:
    Type: AWS::EC2::SecurityGroupIngress
    Properties: {GroupId: !GetAtt Servers.GroupId, PEER, IpProtocol: PROTOCOL, FromPort: 988, ToPort: 1023}
"""
ITSELF = "SourceSecurityGroupId: !GetAtt Servers.GroupId"
ANYWHERE = "[{IpProtocol: -1, CidrIp: 0.0.0.0/0}]"
NOWHERE = "[{IpProtocol: icmp, FromPort: 252, ToPort: 86, CidrIp: 255.255.255.255/32}]"


def outcomes(text: str, rule: str) -> list[Outcome]:
    return [verdict.outcome for verdict in verdicts_of(f"Resources:{text}", rule)]


def with_group(*, peer: str = ITSELF, protocol: str = "tcp", egress: str = ANYWHERE) -> str:
    group = GROUP.replace("PEER", peer).replace("PROTOCOL", protocol).replace("EGRESS", egress)
    return FILE_SYSTEM.replace("GROUPS", "[!GetAtt Servers.GroupId]") + group


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        (with_group(), Outcome.COMPLIANT),
        (with_group(protocol="-1"), Outcome.COMPLIANT),
        (with_group(peer="CidrIp: 0.0.0.0/0"), Outcome.COMPLIANT),
        (with_group(peer="CidrIp: 10.0.0.0/16"), Outcome.UNDECIDABLE),
        (with_group(peer="SourceSecurityGroupId: sg-0123456789abcdef0"), Outcome.UNDECIDABLE),
        (with_group(protocol="udp"), Outcome.NOT_COMPLIANT),
        (with_group(egress=NOWHERE), Outcome.NOT_COMPLIANT),
        (FILE_SYSTEM.replace("GROUPS", "[sg-0123456789abcdef0]"), Outcome.UNDECIDABLE),
        (FILE_SYSTEM.replace("      SecurityGroupIds: GROUPS\n", ""), Outcome.NOT_APPLICABLE),
    ],
    ids=[
        "itself",
        "all",
        "anywhere",
        "a range",
        "another group",
        "udp",
        "no way out",
        "unknown group",
        "no group",
    ],
)
def test_servers_reach_each_other(text: str, outcome: Outcome) -> None:
    assert set(outcomes(text, "GPU-LUS-042")) == {outcome}


def linked(*paths: str) -> str:
    links = "".join(
        f"""
  Link{index}:
    Type: AWS::FSx::DataRepositoryAssociation
    Properties: {{FileSystemId: !Ref Corpus, FileSystemPath: /d{index}, DataRepositoryPath: !Sub "{path}"}}
"""
        for index, path in enumerate(paths)
    )
    return FILE_SYSTEM.replace("      SecurityGroupIds: GROUPS\n", "") + links


@pytest.mark.parametrize(
    ("paths", "outcome"),
    [
        (("s3://one/a/", "s3://one/b/"), Outcome.COMPLIANT),
        (("s3://one/a/", "s3://two/a/"), Outcome.COMPLIANT),
        (("s3://one/", "s3://one/b/"), Outcome.NOT_COMPLIANT),
        (("s3://${AWS::StackName}/a/", "s3://${AWS::StackName}/a/b/"), Outcome.NOT_COMPLIANT),
        (("s3://one/${AWS::StackName}/", "s3://one/b/"), Outcome.UNDECIDABLE),
    ],
    ids=["apart", "two buckets", "inside", "inside a bucket of the deployment", "a prefix of the deployment"],
)
def test_prefixes_lie_apart(paths: tuple[str, ...], outcome: Outcome) -> None:
    assert outcomes(linked(*paths), "GPU-DRA-005") == [outcome]


def mounting(script: str) -> str:
    lines = "".join(f"            {line}\n" for line in script.splitlines())
    return f"""
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.xlarge
        UserData:
          Fn::Base64: |
{lines}
"""


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ("mount -t lustre fs@tcp:/fsx /fsx", Outcome.NOT_COMPLIANT),
        ("mount -t lustre fs@tcp:/fsx /fsx\nsystemctl enable docker", Outcome.NOT_COMPLIANT),
        (
            "echo 'fs@tcp:/fsx /fsx lustre noatime 0 0' >>/etc/fstab\nmount -t lustre /fsx",
            Outcome.NOT_COMPLIANT,
        ),
        ("echo 'fs@tcp:/fsx /fsx lustre _netdev 0 0' >>/etc/fstab\nmount -t lustre /fsx", Outcome.COMPLIANT),
        ("#cloud-config\nbootcmd:\n- mount -t lustre fs@tcp:/fsx /fsx", Outcome.COMPLIANT),
        ("mount /dev/nvme1n1 /scratch", Outcome.NOT_APPLICABLE),
    ],
    ids=["once", "once beside a service", "before the network", "fstab", "every boot", "no Lustre"],
)
def test_mounts_come_back(script: str, outcome: Outcome) -> None:
    assert outcomes(mounting(script), "GPU-MNT-010") == [outcome]
