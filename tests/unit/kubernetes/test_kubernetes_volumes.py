"""File systems and buckets as volumes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.kubernetes.volumes import (
    check_sub_path,
    claimed,
    lustre_volume,
    s3_volume,
    store_of,
    volume_mount,
)
from kubernetes_pools import CORPUS, check_everywhere, kinds, trainers


def test_a_file_system_is_a_retained_volume_with_a_claim_of_its_own() -> None:
    objects = lustre_volume(CORPUS, namespace="team")
    check_everywhere(objects)
    assert kinds(objects) == ["PersistentVolume", "PersistentVolumeClaim"]
    volume, claim = objects
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert volume["spec"]["csi"] == {
        "driver": "fsx.csi.aws.com",
        "volumeHandle": "fs-0123456789abcdef0",
        "volumeAttributes": {"dnsname": CORPUS.dns_name, "mountname": "abcdefgh"},
    }
    assert volume["spec"]["mountOptions"] == ["relatime", "flock"]
    assert volume["spec"]["accessModes"] == claim["spec"]["accessModes"] == ["ReadWriteMany"]
    # The two are for each other, and no class makes another file system.
    assert volume["spec"]["claimRef"] == {"namespace": "team", "name": "corpus"}
    assert claim["metadata"]["namespace"] == "team"
    assert claim["spec"]["volumeName"] == volume["metadata"]["name"] == "team-corpus"
    assert claim["spec"]["storageClassName"] == volume["spec"]["storageClassName"] == ""
    assert claim["spec"]["resources"]["requests"] == volume["spec"]["capacity"] == {"storage": "38400Gi"}


def test_a_file_system_of_unknown_size_still_binds() -> None:
    volume, claim = lustre_volume(replace(CORPUS, storage_capacity_gib=None))
    assert claim["spec"]["resources"]["requests"] == volume["spec"]["capacity"]


def test_one_file_system_serves_several_namespaces() -> None:
    names = {lustre_volume(CORPUS, namespace=name)[0]["metadata"]["name"] for name in ("default", "team")}
    assert names == {"default-corpus", "team-corpus"}


def test_a_container_mounts_a_file_system_or_a_folder_of_it() -> None:
    assert volume_mount(CORPUS, "/fsx") == {"name": "corpus", "mountPath": "/fsx"}
    assert volume_mount(CORPUS, "/data", sub_path="llama/data", read_only=True) == {
        "name": "corpus",
        "mountPath": "/data",
        "subPath": "llama/data",
        "readOnly": True,
    }
    assert len(claimed([CORPUS, CORPUS])) == 1


@pytest.mark.parametrize("path", ["/data", "../data", "a/../../b", "a b", "ä"])
def test_sub_paths_stay_inside(path: str) -> None:
    assert [finding.id for finding in check_sub_path(path)] == ["GPU-K8S-012"]
    with pytest.raises(ConfigError, match="GPU-K8S-012"):
        volume_mount(CORPUS, "/data", sub_path=path)


@pytest.mark.parametrize("path", ["", "data", "a/b.c-d_e"])
def test_relative_sub_paths_are_taken(path: str) -> None:
    assert check_sub_path(path) == []


def test_a_folder_lies_on_the_file_system_that_is_mounted_above_it() -> None:
    assert store_of(trainers(), "/fsx/a/b") == ("/fsx", CORPUS)
    assert store_of(trainers(), "/fsx") == ("/fsx", CORPUS)
    assert store_of(trainers(), "/fsx2") is None


def test_a_bucket_is_a_volume_that_is_only_read() -> None:
    objects = s3_volume("chat-weights", "s3://my-models/llama/8b/", namespace="team")
    check_everywhere(objects)
    volume, claim = objects
    assert volume["spec"]["csi"]["driver"] == "s3.csi.aws.com"
    assert volume["spec"]["csi"]["volumeAttributes"] == {"bucketName": "my-models"}
    assert volume["spec"]["mountOptions"] == ["read-only", "prefix llama/8b/"]
    assert volume["spec"]["accessModes"] == claim["spec"]["accessModes"] == ["ReadOnlyMany"]
    assert volume["spec"]["claimRef"] == {"namespace": "team", "name": "chat-weights"}
    assert s3_volume("w", "s3://my-models")[0]["spec"]["mountOptions"] == ["read-only"]


def test_names_and_addresses_of_volumes_are_checked() -> None:
    with pytest.raises(ConfigError, match="GPU-K8S-001"):
        lustre_volume(replace(CORPUS, name="My_Corpus"))
    with pytest.raises(ConfigError, match="GPU-K8S-001"):
        lustre_volume(CORPUS, namespace="a" * 60)
    with pytest.raises(ConfigError, match="GPU-INF-011"):
        s3_volume("w", "https://my-models")
