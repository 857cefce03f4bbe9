"""Validators of AWS ParallelCluster over an exported configuration: one dry run of `pcluster create-cluster` in moto."""

from __future__ import annotations

from pathlib import Path

import boto3
import pytest

from cdk_gpu_clusters_stacks.export import ExportOptions, export_parallelcluster
from cdk_gpu_clusters_stacks.spec import read_cluster
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


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    folder = tmp_path_factory.mktemp("pcluster")
    with account() as ids:
        reading = read_cluster("cluster.yaml", content=_CLUSTER.format(**ids).encode())
        assert reading.spec is not None, reading.findings
        options = ExportOptions(scripts=("my-bucket", "cluster/"), security_group_ids=(ids["group"],))
        files = export_parallelcluster(reading.spec, options).files
        s3 = boto3.client(
            "s3", endpoint_url=ids["url"], region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b"
        )
        for path, text in files.items():
            s3.put_object(Bucket="my-bucket", Key=f"cluster/{Path(path).name}", Body=text.encode())
        configuration = folder / "cluster-config.yaml"
        configuration.write_text(files[configuration.name])
        return dry_run(configuration, url=ids["url"])


def test_the_one_error_is_the_block_that_is_too_small(verdicts: list[dict[str, str]]) -> None:
    [error] = [one for one in verdicts if one["level"] == "ERROR"]
    assert error["type"] == "CapacityReservationSizeValidator"
    assert "3 is exceeding the total instances count" in error["message"]


def test_the_warnings_are_the_known_ones(verdicts: list[dict[str, str]]) -> None:
    # Sessions come through Systems Manager, without a key.
    assert {one["type"] for one in verdicts if one["level"] != "ERROR"} <= {"KeyPairValidator"}
