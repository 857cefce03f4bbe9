"""Home directories in cluster files: located errors, what a change does, the plan, and the volumes of pods."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdk_gpu_clusters.kubernetes.node_pool import NfsVolume
from cdk_gpu_clusters.kubernetes.volumes import nfs_volume
from cdk_gpu_clusters_stacks.manifests.cluster import volumes
from cdk_gpu_clusters_stacks.plan import compare_clusters, plan_cluster
from cdk_gpu_clusters_stacks.plan.text import plan_text
from cdk_gpu_clusters_stacks.spec import ClusterSpec, load_cluster, read_cluster
from cdk_gpu_clusters_stacks.spec._check_data import check_change_of
from kubernetes_pools import check_everywhere

HEAD = "version: 1\nname: demo\nregion: us-east-1\n"
NET = "network: { availability_zone: us-east-1a }\n"
FLEET = "training: { fleets: { a: { instance_type: g6.xlarge, nodes: 2, mounts: { /home: s } } } }\n"
SUBNETS = "subnet_ids: [subnet-0123456789abcdef0, subnet-0123456789abcdef1]"
TWO = f"network: {{ availability_zone: us-east-1a, vpc_id: vpc-0123456789abcdef0, {SUBNETS} }}\n"


def data(text: str, *, net: str = NET, fleet: str = FLEET) -> str:
    return HEAD + f"data: {{ s: {{ {text} }} }}\n" + net + fleet


def load(tmp_path: Path, text: str) -> ClusterSpec:
    file = tmp_path / "cluster.yaml"
    file.write_text(text, encoding="utf-8")
    return load_cluster(file)


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        (data("openzfs: {}"), ""),
        (data("efs: {}"), ""),
        (data("openzfs: { throughput_mb_per_s: 64, deployment_type: SINGLE_AZ_1 }"), ""),
        (data("openzfs: { storage_capacity_gib: 10, throughput_mb_per_s: 100 }"), "GPU-HOM-002 GPU-HOM-003"),
        (data("openzfs: { deployment_type: MULTI_AZ_1 }"), "GPU-SPEC-008"),
        (data("openzfs: { record_size_kib: 3, backup_retention_days: 91 }"), "GPU-HOM-004 GPU-HOM-006"),
        (data("openzfs: { quotas: [{ id: 1, storage_gib: 1 }, { id: 1, storage_gib: 2 }] }"), "GPU-HOM-005"),
        (data("openzfs: { quotas: [{ kind: group, id: 1, storage_gib: 1 }, { id: 1, storage_gib: 2 }] }"), ""),
        (data("efs: { throughput_mode: provisioned }"), "GPU-HOM-007"),
        (data("efs: { quotas: [] }"), "GPU-SPEC-005"),
        (data("openzfs: {}, efs: {}"), "GPU-SPEC-009"),
        (data("openzfs: {}", net=TWO), "GPU-SPEC-022"),
        (data("openzfs: { subnet_id: subnet-0123456789abcdef0 }", net=TWO), ""),
        (data("openzfs: {}", fleet=FLEET.replace("/home", "/usr/lib")), "GPU-MNT-001"),
        (
            data("lustre: { storage_capacity_gib: 1200, throughput_mb_per_s_per_tib: 125 }"),
            "GPU-MNT-001",  # only NFS is mounted at /home
        ),
    ],
)
def test_errors_name_the_key(tmp_path: Path, text: str, errors: str) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(text, encoding="utf-8")
    found = [one.id for one in read_cluster(file).findings if one.severity == "error"]
    assert found == errors.split()


def test_a_quota_is_found_at_its_line_and_column(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(data("openzfs: { quotas: [{ id: -5, storage_gib: 1 }] }"), encoding="utf-8")
    (finding,) = read_cluster(file).findings
    assert finding.cause.startswith("data.s.openzfs.quotas[0].id: ")
    assert finding.path.endswith(":4:40")


@pytest.mark.parametrize(
    ("before", "after", "effect"),
    [
        ("openzfs: {}", "openzfs: { storage_capacity_gib: 2048 }", "updated"),
        ("openzfs: {}", "openzfs: { quotas: [{ id: 1, storage_gib: 1 }] }", "updated"),
        ("openzfs: {}", "openzfs: { deployment_type: SINGLE_AZ_2 }", "replaced"),
        ("efs: {}", "efs: { throughput_mode: bursting }", "updated"),
    ],
)
def test_plan_against_tells_what_is_replaced(tmp_path: Path, before: str, after: str, effect: str) -> None:
    comparison = compare_clusters(load(tmp_path, data(before)), load(tmp_path, data(after)))
    changes = [one for one in comparison.changes if one.resource in ("AWS::FSx::FileSystem", "AWS::EFS::FileSystem")]
    assert [one.effect.value for one in changes] == [effect]
    refused = [one.id for one in check_change_of(load(tmp_path, data(before)), load(tmp_path, data(after)))]
    assert refused == (["GPU-HOM-010"] if effect == "replaced" else [])


def test_the_plan_shows_them(tmp_path: Path) -> None:
    text = plan_text(plan_cluster(load(tmp_path, data("openzfs: { quotas: [{ id: 1, storage_gib: 1 }] }"))))
    assert "Store s (FSx for OpenZFS, stack demo-data-s, which outlives the fleets)" in text
    assert "1,024 GiB, SINGLE_AZ_HA_2, 320 MB/s in all, ZSTD compression, 1 quota, backups for 30 days" in text
    assert "gives 160 MB/s for each node" in text
    assert "no source gives the price of FSx for OpenZFS" in text
    text = plan_text(plan_cluster(load(tmp_path, data("efs: {}"))))
    assert "elastic size, elastic throughput, no quotas, backups by AWS Backup" in text


def test_pods_mount_them_by_nfs(tmp_path: Path) -> None:
    (volume,) = volumes(load(tmp_path, data("openzfs: {}"))).values()
    assert isinstance(volume, NfsVolume)
    objects = nfs_volume(volume, namespace="team")
    check_everywhere(objects)
    spec = objects[0]["spec"]
    assert spec["nfs"] == {"server": "${S_DNS_NAME}", "path": "/fsx"}
    assert spec["persistentVolumeReclaimPolicy"] == "Retain"
    assert spec["capacity"] == {"storage": "1024Gi"}
    assert "nconnect=16" in spec["mountOptions"]
    (elastic,) = volumes(load(tmp_path, data("efs: {}"))).values()
    assert nfs_volume(elastic)[0]["spec"]["capacity"] == {"storage": "1Gi"}  # type: ignore[arg-type]
