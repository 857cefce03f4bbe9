"""Wrong stores in cluster files: exactly the findings that name their faults, at their line and column."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdk_gpu_clusters_stacks.spec import read_cluster

HEAD = "version: 1\nname: demo\nregion: us-east-1\n"
NET = "network: { availability_zone: us-east-1a }\n"
ONE = "training: { fleets: { a: { instance_type: g6.xlarge, nodes: 1 } } }\n"
SMALL = "lustre: { storage_capacity_gib: 2400, throughput_mb_per_s_per_tib: 125 }"
HOMES = "existing_efs: { file_system_id: fs-0123456789abcdef0, security_group_id: sg-0123456789abcdef0"
EXISTING = "existing_lustre: { file_system_id: fs-0123456789abcdef0, mount_name: abcdefgh, security_group_id: sg-0123456789abcdef0"
VPC = "vpc_id: vpc-0123456789abcdef0, subnet_ids: [subnet-0123456789abcdef0"
#: A subnet with 11 addresses.
TIGHT = f"network: {{ availability_zone: us-east-1a, {VPC}], cidr: 10.0.0.0/28 }}\n"
TWO = f"network: {{ availability_zone: us-east-1a, {VPC}, subnet-0123456789abcdef1] }}\n"


def data(text: str, *, net: str = NET, fleet: str = "") -> str:
    """A file with the one store `s` in line 4, and the one fleet `a` in line 6; `fleet` is added to it."""
    return HEAD + f"data: {{ s: {{ {text} }} }}\n" + net + ONE.replace("nodes: 1", f"nodes: 1{fleet}")


WRONG_STORES = [
    ("store without a form", data(""), "4:9 GPU-SPEC-009"),
    ("store of two forms", data("lustre: {}, checkpoints: {}"), "4:9 GPU-SPEC-009"),
    ("store name", HEAD + "data: { My_data: { checkpoints: {} } }\n" + NET + ONE, "4:9 GPU-SPEC-011"),
    (
        "misspelt key of a file system",
        data("lustre: { storage_capacity: 2400, throughput_mb_per_s_per_tib: 125 }"),
        "4:24 GPU-SPEC-005",
    ),
    (
        "capacity as text",
        data('lustre: { storage_capacity_gib: "2400", throughput_mb_per_s_per_tib: 125 }'),
        "4:46 GPU-SPEC-007",
    ),
    ("class that is not offered", data("lustre: { deployment_type: PERSISTENT_1 }"), "4:41 GPU-SPEC-008"),
    (
        "capacity and rate at once",
        data("lustre: { storage_capacity_gib: 2500, throughput_mb_per_s_per_tib: 200 }"),
        "4:46 GPU-LUS-003, 4:81 GPU-LUS-004",
    ),
    (
        "capacity that EFA cannot have",
        data("lustre: { storage_capacity_gib: 4800, throughput_mb_per_s_per_tib: 250, efa: true }"),
        "4:46 GPU-LUS-005",
    ),
    (
        "scratch with EFA, backups and a key",
        data(
            "lustre: { storage_capacity_gib: 2400, deployment_type: SCRATCH_2, efa: true, backup_retention_days: 7, encryption_key_arn: 'arn:aws:kms:us-east-1:111122223333:key/a' }"
        ),
        "4:85 GPU-LUS-006, 4:114 GPU-LUS-015, 4:137 GPU-LUS-016",
    ),
    (
        "metadata",
        data("lustre: { storage_capacity_gib: 2400, throughput_mb_per_s_per_tib: 125, metadata_iops: 5000 }"),
        "4:101 GPU-LUS-007",
    ),
    (
        "tiering with links",
        data(
            "lustre: { storage_type: INTELLIGENT_TIERING, throughput_capacity_mb_per_s: 5000, read_cache: NO_CACHE, metadata_iops: 6000 }, repositories: [ { path: /d, bucket: one } ]"
        ),
        "4:89 GPU-LUS-012, 4:140 GPU-DRA-007",
    ),
    (
        "links that overlap",
        data(SMALL + ", repositories: [ { path: /d, bucket: one }, { path: /d/e, bucket: one, prefix: x/ } ]"),
        "4:139 GPU-DRA-003, 4:166 GPU-DRA-005",
    ),
    (
        "nine links, wrong paths",
        data(
            SMALL
            + ", repositories: [ "
            + ", ".join(f"{{ path: /d{i}, bucket: one, prefix: p{i} }}" for i in range(8))
            + ", { path: d, bucket: one, prefix: a.tar } ]"
        ),
        "4:88 GPU-DRA-001, 4:432 GPU-DRA-002, 4:456 GPU-DRA-004",
    ),
    (
        "import from another Region",
        data(SMALL + ", repositories: [ { path: /d, bucket: one, bucket_region: us-west-2, auto_import: [new] } ]"),
        "4:155 GPU-DRA-006",
    ),
    (
        "event",
        data(SMALL + ", repositories: [ { path: /d, bucket: One, auto_import: [renamed] } ]"),
        "4:124 GPU-SPEC-008, 4:143 GPU-SPEC-008",
    ),
    (
        "backups of a linked file system",
        data(
            "lustre: { storage_capacity_gib: 2400, throughput_mb_per_s_per_tib: 125, backup_retention_days: 7 }, repositories: [ { path: /d, bucket: one } ]"
        ),
        "4:114 GPU-DRA-008",
    ),
    ("one of several subnets", data(SMALL, net=TWO), "4:14 GPU-SPEC-022"),
    (
        "foreign subnet",
        data(
            "lustre: { storage_capacity_gib: 2400, throughput_mb_per_s_per_tib: 125, subnet_id: subnet-0123456789abcdef0 }"
        ),
        "4:97 GPU-SPEC-022",
    ),
    (
        "express by zone name",
        data("checkpoints: { express_zone_id: us-east-1a, express_base_name: A }"),
        "4:46 GPU-CKP-001, 4:77 GPU-CKP-002",
    ),
    ("express of another Region", data("checkpoints: { express_zone_id: usw2-az1 }"), "4:46 GPU-NET-104"),
    (
        "express in another zone",
        data("checkpoints: { express_zone_id: use1-az5 }", net="network: { availability_zone: use1-az4 }\n"),
        "4:46 GPU-SPEC-023",
    ),
    (
        "names of buckets",
        data("checkpoints: { bucket_name: 192.168.1.1 }"),
        "4:42 GPU-CKP-004",
    ),
    (
        "existing buckets in each other's place",
        data("existing_checkpoints: { bucket_name: llama--use1-az4--x-s3, express_bucket_name: my-checkpoints }"),
        "4:95 GPU-SPEC-008",
    ),
    (
        "existing directory bucket as the bucket",
        data("existing_checkpoints: { bucket_name: llama--use1-az4--x-s3 }"),
        "4:51 GPU-CKP-004",
    ),
    ("existing buckets without a name", data("existing_checkpoints: {}"), "4:14 GPU-SPEC-006"),
    (
        "misspelt key of existing buckets",
        data("existing_checkpoints: { bucket_name: abc, encryption_key: k }"),
        "4:56 GPU-SPEC-005",
    ),
    (
        "key of existing buckets that is no ARN",
        data("existing_checkpoints: { bucket_name: abc, encryption_key_arn: alias/mine }"),
        "4:76 GPU-SPEC-008",
    ),
    (
        "existing directory bucket by zone name",
        data("existing_checkpoints: { bucket_name: abc, express_bucket_name: a--us-east-1a--x-s3 }"),
        "4:77 GPU-CKP-001",
    ),
    (
        "existing directory bucket of another Region",
        data("existing_checkpoints: { bucket_name: abc, express_bucket_name: a--usw2-az1--x-s3 }"),
        "4:77 GPU-NET-104",
    ),
    (
        "existing directory bucket in another zone",
        data(
            "existing_checkpoints: { bucket_name: abc, express_bucket_name: a--use1-az5--x-s3 }",
            net="network: { availability_zone: use1-az4 }\n",
        ),
        "4:77 GPU-SPEC-023",
    ),
    (
        "existing buckets to mount",
        data("existing_checkpoints: { bucket_name: abc }", fleet=", mounts: { /fsx: s }"),
        "6:80 GPU-SPEC-021",
    ),
    (
        "express without its zone",
        data("checkpoints: { express_base_name: llama, expire_after_days: 0 }"),
        "4:74 GPU-SPEC-008",
    ),
    ("express name without its zone", data("checkpoints: { express_base_name: llama }"), "4:14 GPU-SPEC-023"),
    ("unknown checkpoints", data("checkpoints: {}", fleet=", checkpoints: t"), "6:77 GPU-SPEC-021"),
    ("checkpoints in a file system", data(SMALL, fleet=", checkpoints: s"), "6:77 GPU-SPEC-021"),
    (
        "no room for the servers",
        data(
            "lustre: { storage_capacity_gib: 96000, throughput_mb_per_s_per_tib: 1000 }",
            net=TIGHT,
        ),
        "5:120 GPU-IP-003",
    ),
    (
        "no room for a file server and its standby",
        data("openzfs: {}", net=TIGHT).replace("nodes: 1", "nodes: 10"),
        "5:120 GPU-IP-003",
    ),
    (
        "room for one file server",
        data("openzfs: { deployment_type: SINGLE_AZ_2 }", net=TIGHT).replace("nodes: 1", "nodes: 10"),
        "",
    ),
    ("room for a mount target", data("efs: {}", net=TIGHT).replace("nodes: 1", "nodes: 10"), ""),
    ("no room for a mount target", data("efs: {}", net=TIGHT).replace("nodes: 1", "nodes: 11"), "5:120 GPU-IP-003"),
    (
        "a faulty store says nothing about fleets",
        data("checkpoints: { versioned: 1 }", fleet=", checkpoints: s"),
        "4:40 GPU-SPEC-007",
    ),
    (
        "ids of an existing file system",
        data("existing_lustre: { file_system_id: fs-1, mount_name: a b, security_group_id: sg }"),
        "4:49 GPU-SPEC-008, 4:67 GPU-SPEC-008, 4:91 GPU-SPEC-008",
    ),
    ("unknown store to mount", data("checkpoints: {}", fleet=", mounts: { /fsx: t }"), "6:80 GPU-SPEC-021"),
    ("checkpoints to mount", data("checkpoints: {}", fleet=", mounts: { /fsx: s }"), "6:80 GPU-SPEC-021"),
    (
        "mount points that cannot be",
        data(SMALL, fleet=", mounts: { fsx: s, /usr/x: s, /a: s, /a/b: s }"),
        "6:64 GPU-MNT-002, 6:74 GPU-MNT-001, 6:82 GPU-MNT-001",
    ),
    ("name of a store that is not a name", data(SMALL, fleet=", mounts: { /fsx: S }"), "6:80 GPU-SPEC-011"),
    (
        "zone of an existing file system, over EFA",
        data(EXISTING + ", efa: true, availability_zone: us-east-1b }").replace(
            "g6.xlarge, nodes: 1", "p5.48xlarge, nodes: 1, capacity: spot, mounts: { /fsx: s }"
        ),
        "6:98 GPU-LUS-021",
    ),
    (
        "zones of an existing EFS",
        data(HOMES + ", availability_zones: [us-east-1b, use1-az1] }", fleet=", mounts: { /home: s }"),
        "",
    ),
    (
        "zone of an existing EFS",
        data(HOMES + ", availability_zones: [us-east-1b] }", fleet=", mounts: { /home: s }"),
        "6:81 GPU-HOM-009",
    ),
    (
        "directory and identity of existing homes",
        data("existing_openzfs: { file_system_id: fs-1, security_group_id: sg, export_path: 'home dirs' }"),
        "4:50 GPU-SPEC-008, 4:75 GPU-SPEC-008, 4:92 GPU-SPEC-008",
    ),
    (
        "version of an existing file system",
        data(EXISTING + ", lustre_version: '2.10' }", fleet=", mounts: { /fsx: s }"),
        "6:80 GPU-LUS-020",
    ),
    (
        "type that cannot mount over EFA",
        data("lustre: { storage_capacity_gib: 38400, throughput_mb_per_s_per_tib: 250, efa: true }").replace(
            "g6.xlarge, nodes: 1", "p4d.24xlarge, nodes: 1, capacity: spot, mounts: { /fsx: s }"
        ),
        "6:99 GPU-LUS-022",
    ),
]


@pytest.mark.parametrize(
    ("text", "expected"), [pytest.param(text, found, id=name) for name, text, found in WRONG_STORES]
)
def test_a_wrong_store_gives_its_findings(text: str, expected: str, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(text, encoding="utf-8")
    errors = [one for one in read_cluster(file).findings if one.severity.value == "error"]
    found = [f"{one.path.removeprefix(f'{file}:')} {one.id}" for one in errors]
    assert ", ".join(found) == expected, "\n".join(map(str, errors))
    assert all(one.cause and one.fix for one in errors)


@pytest.mark.parametrize(
    ("system", "expected"), [("al2023", ""), ("ubuntu-22.04", ""), ("ubuntu-24.04", "6:110 GPU-LUS-025")]
)
def test_a_kernel_without_a_lustre_client_is_warned_of(system: str, expected: str, tmp_path: Path) -> None:
    fleet = f", image: {{ os: {system} }}, mounts: {{ /fsx: s }}"
    file = tmp_path / "cluster.yaml"
    file.write_text(data(SMALL, fleet=fleet).replace("g6.xlarge", "g5g.xlarge"), encoding="utf-8")
    reading = read_cluster(file)
    assert reading.spec is not None
    found = [f"{one.path.removeprefix(f'{file}:')} {one.id}" for one in reading.findings if "LUS" in one.id]
    assert ", ".join(found) == expected
