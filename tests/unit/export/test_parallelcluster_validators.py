"""Validators of AWS ParallelCluster over exported configurations: dry runs of `pcluster create-cluster` in moto."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml

from cdk_gpu_clusters_stacks.export import ExportOptions, export_parallelcluster
from cdk_gpu_clusters_stacks.spec import read_cluster
from parallelcluster.deployment import as_texts
from parallelcluster.installed import account, dry_run

#: A block, a reservation with its placement group, Spot nodes, a queue of two fleets, login nodes, and homes.
_CLUSTER = """
version: 1
name: cluster
region: us-east-1
orchestrator: pcs
network: {{ vpc_id: {vpc}, subnet_ids: [{subnet}], availability_zone: us-east-1a }}
data:
  homes: {{ existing_efs: {{ file_system_id: {file_system}, security_group_id: {group} }} }}
pcs:
  accounting: {{ enabled: false }}
  login: {{ mounts: {{ /home: homes }} }}
  queues: {{ every: {{ fleets: [block, reserved] }}, cheap: {{ fleets: [cheap] }} }}
training:
  fleets:
    block:
      instance_type: p5.48xlarge
      nodes: 3 # one more than the reservation has, so that one validator finds an error
      capacity: {{ capacity_block: {block}, ends_at: 2026-12-15T11:30Z }}
      mounts: {{ /home: homes }}
    reserved:
      instance_type: p4d.24xlarge
      nodes: 4
      capacity: {{ reservation: {reservation}, placement_group: reserved }}
      fabric: reserved
    cheap: {{ instance_type: g6.12xlarge, min_nodes: 0, max_nodes: 4, capacity: spot, efa: true }}
"""


#: The same with the orchestrator itself, whose stacks have the group of clients, the scripts and a policy.
_OF_THE_WORD = """
version: 1
name: cluster
region: us-east-1
orchestrator: parallelcluster
network: {{ vpc_id: {vpc}, subnet_ids: [{subnet}], availability_zone: us-east-1a }}
data:
  homes: {{ existing_efs: {{ file_system_id: {file_system}, security_group_id: {group} }} }}
  saves: {{ existing_checkpoints: {{ bucket_name: my-bucket }} }}
parallelcluster:
  login: {{ nodes: 1 }}
  queues: {{ every: {{ fleets: [block, reserved] }} }}
training:
  fleets:
    block:
      instance_type: p5.48xlarge
      nodes: 2
      capacity: {{ capacity_block: {block}, ends_at: 2099-12-15T11:30Z }}
      mounts: {{ /home: homes }}
      checkpoints: saves
    reserved:
      instance_type: p4d.24xlarge
      nodes: 4
      capacity: {{ reservation: {reservation}, placement_group: reserved }}
      fabric: reserved
    cheap: {{ instance_type: g6.12xlarge, min_nodes: 0, max_nodes: 4, capacity: spot, efa: true }}
"""
_SCRIPTS = ("HeadNodeScript", "NodeScriptBlock", "NodeScriptReserved", "NodeScriptCheap")


@pytest.fixture(scope="module")
def ids() -> Iterator[dict[str, str]]:
    """What is in the account."""
    with account() as found:
        yield found


def client(service: str, ids: dict[str, str]) -> Any:
    session: Any = boto3.Session(aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1")
    return session.client(service, endpoint_url=ids["url"])


def exported(text: str, options: ExportOptions, ids: dict[str, str], folder: Path) -> Path:
    """The configuration, with the scripts where they are to be copied."""
    reading = read_cluster("cluster.yaml", content=text.format(**ids).encode())
    assert reading.spec is not None, reading.findings
    made = export_parallelcluster(reading.spec, options)
    assert made.files, made.faults
    for path, content in made.files.items():
        client("s3", ids).put_object(Bucket="my-bucket", Key=f"cluster/{Path(path).name}", Body=content.encode())
    configuration = folder / "cluster-config.yaml"
    configuration.write_text(made.files[configuration.name])
    return configuration


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory, ids: dict[str, str]) -> list[dict[str, str]]:
    options = ExportOptions(scripts=("my-bucket", "cluster/"), security_group_ids=(ids["group"],))
    configuration = exported(_CLUSTER, options, ids, tmp_path_factory.mktemp("pcluster"))
    return dry_run(configuration, url=ids["url"])


def test_the_one_error_is_the_block_that_is_too_small(verdicts: list[dict[str, str]]) -> None:
    [error] = [one for one in verdicts if one["level"] == "ERROR"]
    assert error["type"] == "CapacityReservationSizeValidator"
    assert "3 is exceeding the total instances count" in error["message"]


def test_the_warnings_are_the_known_ones(verdicts: list[dict[str, str]]) -> None:
    # Sessions come through Systems Manager, without a key.
    assert {one["type"] for one in verdicts if one["level"] != "ERROR"} <= {"KeyPairValidator"}


def test_a_file_of_its_own_orchestrator_has_no_errors_as_a_custom_resource(ids: dict[str, str], tmp_path: Path) -> None:
    ec2, iam, s3 = (client(service, ids) for service in ("ec2", "iam", "s3"))
    # As the stack makes it: the servers admit it, and it admits nobody.
    clients = ec2.create_security_group(GroupName="nodes", Description="Clients", VpcId=ids["vpc"])["GroupId"]
    nfs = [{"IpProtocol": "tcp", "FromPort": 2049, "ToPort": 2049, "UserIdGroupPairs": [{"GroupId": clients}]}]
    ec2.authorize_security_group_ingress(GroupId=ids["group"], IpPermissions=nfs)
    statement = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::my-bucket/block/*"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    policy = iam.create_policy(PolicyName="checkpoints", PolicyDocument=document)["Policy"]["Arn"]
    for name in _SCRIPTS:
        s3.put_object(Bucket="my-bucket", Key=f"{name}.sh", Body=b"#!/bin/bash")
    outputs = {
        "ClientSecurityGroupId": clients,
        "CheckpointPolicyBlockArn": policy,
        **{f"{name}Url": f"s3://my-bucket/{name}.sh" for name in _SCRIPTS},
    }
    options = ExportOptions(outputs={"cluster-parallelcluster": outputs})
    configuration = exported(_OF_THE_WORD, options, ids, tmp_path)
    configuration.write_text(yaml.safe_dump(as_texts(yaml.safe_load(configuration.read_text()))))
    found = dry_run(configuration, url=ids["url"])
    assert [one for one in found if one["level"] == "ERROR"] == []
    assert {one["type"] for one in found} <= {"KeyPairValidator"}
