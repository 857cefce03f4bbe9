"""A cluster with stores in the emulator: data stay when everything else goes, and through updates."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.testing import DeployFailed, InProcessEmulator
from cdk_gpu_clusters_stacks.app import build_cluster
from cdk_gpu_clusters_stacks.spec import load_cluster
from cluster_files.store_edits import CLUSTER, HARMLESS, edited

FILE_SYSTEM, BUCKET, KEY = "AWS::FSx::FileSystem", "AWS::S3::Bucket", "AWS::KMS::Key"
DIRECTORY_BUCKET = "AWS::S3Express::DirectoryBucket"
HOLDS_DATA = (FILE_SYSTEM, BUCKET, KEY, DIRECTORY_BUCKET)

Deploy = Callable[[str], list[str]]


@pytest.fixture
def account() -> Iterator[InProcessEmulator]:
    with InProcessEmulator(seed={"buckets": {"my-corpus": "us-east-1", "my-results": "us-east-1"}}) as made:
        yield made


@pytest.fixture
def deploy(account: InProcessEmulator, app_factory: Any, tmp_path: Path) -> Deploy:
    """Deploy the stacks of a cluster file that changed, in their order; the names of all."""
    deployed: dict[str, Any] = {}

    def run(text: str) -> list[str]:
        file = tmp_path / "cluster.yaml"
        file.write_text(text, encoding="utf-8")
        app = app_factory()
        build_cluster(app, load_cluster(file))
        names = []
        for stack in app.synth().stacks:
            template = json.loads(Path(stack.template_full_path).read_text())
            if deployed.get(stack.stack_name) != template:
                account.deploy(
                    template,
                    stack_name=stack.stack_name,
                    termination_protection=bool(stack.termination_protection),
                )
            deployed[stack.stack_name] = template
            names.append(stack.stack_name)
        return names

    return run


def held(account: InProcessEmulator) -> dict[str, str]:
    """Physical id of everything that holds data, by stack and logical id."""
    return {
        f"{one['stack']}/{one['logical_id']}": one["physical_id"]
        for one in account.resources()
        if one["type"] in HOLDS_DATA
    }


def test_data_survive_the_destruction_of_everything_else(account: InProcessEmulator, deploy: Deploy) -> None:
    names = deploy(CLUSTER)
    before = held(account)
    stores = [name for name in before if "-data-" in name]
    assert len(stores) == 9  # three file systems, a bucket, a directory bucket, and a key for each store
    assert len(before) == 10  # and the bucket of a load balancer's access logs
    others = [name for name in reversed(names) if "-data-" not in name and name != "lab-network"]
    assert len(others) == 8
    for name in others:
        account.destroy(name)
    left = [one["type"] for one in account.resources() if one["stack"] in others]
    assert sorted(left) == [BUCKET, "AWS::S3::BucketPolicy"], "the access logs, over TLS only"
    assert held(account) == before


def test_the_network_of_a_file_system_cannot_be_deleted(account: InProcessEmulator, deploy: Deploy) -> None:
    names = deploy(CLUSTER)
    before = held(account)
    for fleet in reversed([name for name in names if "-data-" not in name and name != "lab-network"]):
        account.destroy(fleet)
    with pytest.raises(DeployFailed, match="dependencies"):
        account.destroy("lab-network")
    assert held(account) == before


def test_data_survive_their_own_stacks(account: InProcessEmulator, deploy: Deploy) -> None:
    names = deploy(CLUSTER)
    before = held(account)
    cloudformation = account.client("cloudformation")
    for name in [name for name in names if "-data-" in name]:
        with pytest.raises(DeployFailed, match="TerminationProtection is enabled"):
            account.destroy(name)
        cloudformation.update_termination_protection(StackName=name, EnableTerminationProtection=False)
        account.destroy(name)
    assert held(account) == before


def test_updates_keep_every_store(account: InProcessEmulator, deploy: Deploy) -> None:
    deploy(CLUSTER)
    before = held(account)
    text = CLUSTER
    for name in (
        "more storage",
        "more storage with EFA",
        "more elastic throughput",
        "association added",
        "tags",
        "checkpoints kept longer",
        "fleet removed",
    ):
        changed = text.replace(*HARMLESS[name], 1)
        assert changed != text, name
        deploy(changed)
        assert held(account) == before, name
        text = changed


def test_a_store_removed_from_the_file_stays(account: InProcessEmulator, deploy: Deploy) -> None:
    deploy(CLUSTER)
    before = held(account)
    deploy(edited(*HARMLESS["store removed"]))
    assert held(account) == before
