"""Node files that come from S3, deployed by the real CDK CLI to the emulator."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import tarfile
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2

from cdk_cli import CdkCli, bootstrap
from cdk_gpu_clusters import ClusterNetwork, GpuFleet, MigLayout, NodeFile
from cdk_gpu_clusters.testing import Emulator

PLACE = cdk.Environment(account="123456789012", region="us-east-1")
FETCH = re.compile(r"GPU_SOFTWARE_BUCKET=(\S+)\s+GPU_SOFTWARE_KEY=(\S+)\s+GPU_SOFTWARE_SHA256=([0-9a-f]{64})\n")


class Lustre:
    """A file system that is there already."""

    dns_name, mount_name = "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com", "abcdbev"


@pytest.fixture(scope="module")
def account(new_account_of_file: Emulator) -> Emulator:
    return new_account_of_file


def assembly(app_factory: Any, text: str, synthesizer: cdk.IStackSynthesizer | None = None) -> str:
    """An app whose nodes have a late file of their own."""
    app = app_factory()
    stack = cdk.Stack(app, "Servers", env=PLACE, synthesizer=synthesizer)
    network = ClusterNetwork(stack, "Network", availability_zone="us-east-1a")
    GpuFleet(
        stack, "Fleet", vpc=network.vpc, vpc_subnets=ec2.SubnetSelection(subnets=[network.fleet_subnet]),
        instance_type="p4d.24xlarge", min_node_count=0, max_node_count=2, efa=False, mig=MigLayout(["1g.5gb"] * 7),
        mounts={"/fsx": Lustre()}, node_files=[NodeFile(path="/opt/app/table", text=text, early=False)],
    )  # fmt: skip
    return str(app.synth().directory)


def launched_with(account: Emulator) -> tuple[int, str]:
    """Number and user data of the launch template's newest version."""
    ec2_client = account.client("ec2")
    (template,) = ec2_client.describe_launch_templates()["LaunchTemplates"]
    (version,) = ec2_client.describe_launch_template_versions(
        LaunchTemplateId=template["LaunchTemplateId"], Versions=["$Latest"]
    )["LaunchTemplateVersions"]
    return version["VersionNumber"], base64.b64decode(version["LaunchTemplateData"]["UserData"]).decode()


def object_of(
    account: Emulator, user_data: str, *, bucket: str = "cdk-hnb659fds-assets-123456789012-us-east-1"
) -> bytes:
    """What the node would fetch and take."""
    found = FETCH.search(user_data)
    assert found, user_data[-2000:]
    named, key, digest = found.groups()
    assert named == bucket
    content: bytes = account.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    assert hashlib.sha256(content).hexdigest() == digest
    return content


def test_the_object_is_in_the_bucket_before_a_node_asks_for_it(
    account: Emulator, app_factory: Any, tmp_path: Path
) -> None:
    cdk_cli = CdkCli(account, tmp_path)
    first, second = (assembly(app_factory, text) for text in ("first", "second"))
    bootstrap(account)
    cdk_cli(first, "deploy", "--all", "--require-approval", "never")
    number, before = launched_with(account)
    assert (number, len(before) <= 16_384) == (1, True)
    content = object_of(account, before)
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        tar.extraction_filter = getattr(tarfile, "tar_filter", None)  # none before Python 3.11.4
        tar.extractall(tmp_path / "node")  # noqa: S202 - made by the test
    program = tmp_path / "node/usr/local/bin/gpunode"
    assert program.read_text().startswith("#!/usr/bin/env bash\n")
    assert program.stat().st_mode & 0o777 == 0o755

    cdk_cli(second, "deploy", "--all", "--require-approval", "never")
    number, after = launched_with(account)
    assert number == 2, "other files, another version: nodes that start from now on get them"
    assert object_of(account, after) != content
    assert object_of(account, before) == content, "nodes of the version before still find theirs"


def test_a_bucket_of_ones_own_serves_an_account_that_is_not_bootstrapped(
    new_account: Emulator, app_factory: Any, tmp_path: Path
) -> None:
    new_account.client("s3").create_bucket(Bucket="my-assets")
    synthesizer: Any = cdk.CliCredentialsStackSynthesizer(file_assets_bucket_name="my-assets")
    cdk_cli = CdkCli(new_account, tmp_path)
    cdk_cli(assembly(app_factory, "own", synthesizer), "deploy", "--all", "--require-approval", "never")
    _, text = launched_with(new_account)
    assert object_of(new_account, text, bucket="my-assets")
