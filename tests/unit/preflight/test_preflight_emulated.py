"""Preflight over an account that moto emulates: its own resources, made through the same APIs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from moto import mock_aws

from cdk_gpu_clusters_stacks.preflight import Account, Preflight, boto3_clients, every_check, run_preflight
from preflight_account import NOW, ON_HYPERPOD, healthy, spec_of

REGION = "us-east-1"
ACCOUNT = "123456789012"
# moto 5.2.5 has no answer to these: DescribeCapacityReservations, and all quotas but those of `vpc`.
NOT_EMULATED = {"GPU-PRE-031", "GPU-PRE-033", "GPU-PRE-045", "GPU-PRE-133", "GPU-PRE-171"}

CLUSTER = """
version: 1
name: emulated
region: us-east-1
account: "123456789012"
network:
  vpc_id: {vpc}
  subnet_ids: [{fleet}]
  availability_zone: us-east-1a
  service_subnets: {{ us-east-1a: {private_a}, us-east-1b: {private_b} }}
data:
  checkpoints:
    existing_checkpoints: {{ bucket_name: emulated-checkpoints, encryption_key_arn: "{key}" }}
training:
  fleets:
    trainers:
      instance_type: g5.48xlarge
      nodes: 2
      image: {{ id: {image}, os: al2023 }}
      root_volume: {{ size_gib: 300 }}
      checkpoints: checkpoints
inference:
  fleets:
    chat:
      instance_type: g5.2xlarge
      nodes: 2
      image: {{ id: {image}, os: al2023 }}
      server:
        image: 123456789012.dkr.ecr.us-east-1.amazonaws.com/chat@{digest}
        secrets: {{ HUB_TOKEN: {{ arn: "{secret}" }} }}
      load_balancer: {{ plain_http: true, clients: [{clients}] }}
"""


class Emulated:
    """Resources made in the emulated account."""

    def __init__(self) -> None:
        self.clients = cache(boto3_clients())
        self.ec2: Any = self.clients("ec2", REGION)
        self.names: dict[str, str] = {}
        self._network()
        self._rest()

    def _network(self) -> None:
        vpc = self.ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        self.ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": True})
        self.names["vpc"] = vpc
        for index, (name, zone) in enumerate({"fleet": "a", "private_a": "a", "private_b": "b", "public": "a"}.items()):
            made = self.ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{index}.0/24", AvailabilityZone=f"{REGION}{zone}")
            self.names[name] = made["Subnet"]["SubnetId"]
        address = self.ec2.allocate_address(Domain="vpc")["AllocationId"]
        nat = self.ec2.create_nat_gateway(SubnetId=self.names["public"], AllocationId=address)
        table = self.ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
        self.ec2.create_route(
            RouteTableId=table,
            DestinationCidrBlock="0.0.0.0/0",
            NatGatewayId=nat["NatGateway"]["NatGatewayId"],
        )
        for name in ("fleet", "private_a", "private_b"):
            self.ec2.associate_route_table(RouteTableId=table, SubnetId=self.names[name])
        self.ec2.create_vpc_endpoint(
            VpcId=vpc,
            ServiceName=f"com.amazonaws.{REGION}.s3",
            RouteTableIds=[table],
            VpcEndpointType="Gateway",
        )
        group = self.ec2.create_security_group(GroupName="clients", Description="clients", VpcId=vpc)
        self.names["clients"] = group["GroupId"]

    def _rest(self) -> None:
        def client(service: str) -> Any:
            return self.clients(service, REGION)

        system = [{"Name": "name", "Values": ["al2023-ami-2023.*-x86_64"]}]
        self.names["image"] = client("ec2").describe_images(Filters=system)["Images"][0]["ImageId"]
        self.names["key"] = client("kms").create_key()["KeyMetadata"]["Arn"]
        for bucket in ("emulated-checkpoints", f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"):
            client("s3").create_bucket(Bucket=bucket)
        client("ssm").put_parameter(Name="/cdk-bootstrap/hnb659fds/version", Value="21", Type="String")
        self.names["secret"] = client("secretsmanager").create_secret(Name="hub", SecretString="x")["ARN"]
        client("ecr").create_repository(repositoryName="chat")
        pushed = client("ecr").put_image(
            repositoryName="chat",
            imageManifest='{"schemaVersion": 2, "config": {"digest": "sha256:0"}, "layers": []}',
            imageManifestMediaType="application/vnd.docker.distribution.manifest.v2+json",
            imageTag="v1",
        )
        self.names["digest"] = pushed["image"]["imageId"]["imageDigest"]
        for role in ("AWSServiceRoleForAutoScaling", "AWSServiceRoleForElasticLoadBalancing"):
            client("iam").create_role(RoleName=role, AssumeRolePolicyDocument="{}")


@pytest.fixture(scope="module")
def emulated() -> Iterator[Emulated]:
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        yield Emulated()


def ask(account: Emulated) -> Preflight:
    spec = spec_of(CLUSTER.format(**account.names))
    with Account(account.clients, region=REGION) as asked:
        return run_preflight(spec, asked, now=NOW)


@pytest.fixture(scope="module")
def found(emulated: Emulated) -> Preflight:
    return ask(emulated)


def test_what_is_there_passes(found: Preflight) -> None:
    bad = {
        result.id: [f"{verdict.about}: {verdict.cause}" for verdict in result.verdicts]
        for result in found.results
        if result.outcome.value in ("fail", "warn")
    }
    assert list(bad) == ["GPU-PRE-103"]
    assert all("no ENA support" in cause for cause in bad["GPU-PRE-103"])  # moto leaves EnaSupport out
    assert sum(result.outcome.value == "pass" for result in found.results) >= 25


def test_what_is_not_emulated_cannot_be_told(found: Preflight) -> None:
    open_ones = {result.id: result.verdicts for result in found.results if result.outcome.value == "cannot tell"}
    assert set(open_ones) == NOT_EMULATED | {"GPU-PRE-106"}  # and what an image of our own carries
    assert all("not been implemented" in open_ones[one][0].cause for one in NOT_EMULATED)


def test_what_goes_is_missed(emulated: Emulated) -> None:
    with_all = {result.id: result.outcome.value for result in ask(emulated).results}
    emulated.clients("kms", REGION).disable_key(KeyId=emulated.names["key"].rpartition("/")[2])
    emulated.clients("ssm", REGION).delete_parameter(Name="/cdk-bootstrap/hnb659fds/version")
    emulated.clients("s3", REGION).delete_bucket(Bucket="emulated-checkpoints")
    emulated.clients("iam", REGION).delete_role(RoleName="AWSServiceRoleForAutoScaling")
    emulated.clients("ecr", REGION).delete_repository(repositoryName="chat", force=True)
    without = {result.id: result.outcome.value for result in ask(emulated).results}
    assert {one: outcome for one, outcome in without.items() if outcome != with_all[one]} == {
        "GPU-PRE-011": "fail",
        "GPU-PRE-121": "fail",
        "GPU-PRE-122": "cannot tell",
        "GPU-PRE-131": "fail",
        "GPU-PRE-141": "warn",
        "GPU-PRE-153": "fail",
    }


JOBS = """
version: 1
name: emulated
region: us-east-1
orchestrator: batch
network: {{ vpc_id: {vpc}, subnet_ids: [{fleet}], availability_zone: us-east-1a }}
training: {{ fleets: {{ trainers: {{ instance_type: g5.48xlarge, nodes: 2 }} }} }}
"""


def test_containers_talk_by_a_default_group_as_ec2_makes_it(emulated: Emulated) -> None:
    """Amazon VPC user guide, "Default security groups": members in, all traffic out. moto 5.2.5 makes only the latter."""
    vpc = emulated.ec2.create_vpc(CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"]
    own = [{"Name": "vpc-id", "Values": [vpc]}]
    [group] = emulated.ec2.describe_security_groups(Filters=own)["SecurityGroups"]
    spec = spec_of(JOBS.format(vpc=vpc, fleet=emulated.names["fleet"]))
    [check] = [one for one in every_check() if one.id == "GPU-PRE-094"]

    def outcome() -> str:
        with Account(emulated.clients, region=REGION) as account:
            return run_preflight(spec, account, now=NOW, checks=[check]).results[0].outcome.value

    assert outcome() == "fail"
    members = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group["GroupId"]}]}
    emulated.ec2.authorize_security_group_ingress(GroupId=group["GroupId"], IpPermissions=[members])
    assert outcome() == "pass"


def test_nodes_of_other_clusters_of_hyperpod_are_counted(emulated: Emulated) -> None:
    sagemaker: Any = emulated.clients("sagemaker", REGION)
    for name, tags, sizes in (("llama-hyperpod", {"gpu-cluster": "llama"}, (16, 2)), ("research", {}, (3, 4))):
        sagemaker.create_cluster(
            ClusterName=name,
            Tags=[{"Key": key, "Value": value} for key, value in tags.items()],
            InstanceGroups=[
                {
                    "InstanceGroupName": f"group-{index}",
                    "InstanceType": kind,
                    "InstanceCount": size,
                    "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-scripts", "OnCreate": "on_create.sh"},
                    "ExecutionRole": f"arn:aws:iam::{ACCOUNT}:role/nodes",
                    "ThreadsPerCore": 1,
                }
                for index, (kind, size) in enumerate(zip(("ml.p5.48xlarge", "ml.g5.xlarge"), sizes, strict=True))
            ],
        )
    canned = healthy().clients  # moto 5.2.5 lists only the quotas of `vpc`

    def clients(service: str, region: str) -> Any:
        return (canned if service == "service-quotas" else emulated.clients)(service, region)

    wanted = [one for one in every_check() if one.id in ("GPU-PRE-191", "GPU-PRE-193")]
    with Account(clients, region=REGION) as account:
        results = run_preflight(spec_of(ON_HYPERPOD), account, now=NOW, checks=wanted).results
    said = {verdict.about: verdict.cause.partition(", ")[2] for result in results for verdict in result.verdicts}
    assert said["training.fleets.trainers, training.fleets.more"] == "18 needed, 3 used by others"
    assert said["hyperpod.login"] == "2 needed, 0 used by others"
    assert said["hyperpod"] == "21 needed, 7 used by others"
