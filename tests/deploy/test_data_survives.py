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
from store_edits import CLUSTER, HARMLESS, edited

FILE_SYSTEM, BUCKET, KEY = "AWS::FSx::FileSystem", "AWS::S3::Bucket", "AWS::KMS::Key"
DIRECTORY_BUCKET = "AWS::S3Express::DirectoryBucket"
HOLDS_DATA = (FILE_SYSTEM, BUCKET, KEY, DIRECTORY_BUCKET)

Deploy = Callable[[str], list[str]]


@pytest.fixture
def account() -> Iterator[InProcessEmulator]:
    with InProcessEmulator() as made:
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
                account.deploy(template, stack_name=stack.stack_name)
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
    stays = (*HOLDS_DATA, "AWS::S3::BucketPolicy")  # a bucket keeps its TLS-only policy
    left = {one["stack"] for one in account.resources() if one["type"] not in stays}
    assert left <= {*names} - {*others}
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
    for name in names:
        if "-data-" in name:  # termination protection taken off first, as a person would have to
            account.destroy(name)
    assert held(account) == before


def test_updates_keep_every_store(account: InProcessEmulator, deploy: Deploy) -> None:
    deploy(CLUSTER)
    before = held(account)
    text = CLUSTER
    for name in ("more storage", "tags", "checkpoints kept longer", "fleet removed"):
        text = text.replace(*HARMLESS[name], 1)
        assert text != CLUSTER
        deploy(text)
        assert held(account) == before, name


def test_a_store_removed_from_the_file_stays(account: InProcessEmulator, deploy: Deploy) -> None:
    deploy(CLUSTER)
    before = held(account)
    deploy(edited(*HARMLESS["store removed"]))
    assert held(account) == before
