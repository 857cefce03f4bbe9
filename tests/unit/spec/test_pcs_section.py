"""`orchestrator: pcs` and the section `pcs` of the cluster file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cdk_gpu_clusters import cluster_settings
from cdk_gpu_clusters_stacks.spec import load_cluster, read_cluster

HEAD = "version: 1\nname: demo\nregion: us-east-1\norchestrator: pcs\n"
NET = "network: { availability_zone: us-east-1a }\n"
FLEET = "training: { fleets: { gpu-one: { instance_type: p5.48xlarge, nodes: 2, capacity: spot } } }\n"
EXISTING = (
    "existing: { cluster_id: pcs_abc1234567, slurm_version: '25.11', security_group_ids: [sg-0123456789abcdef0] }"
)
HOME = "data: { home: { efs: {} }, ckpt: { checkpoints: {} } }\n"


def found(tmp_path: Path, text: str) -> list[str]:
    """Findings of a file, errors and warnings, as `line:column id severity`."""
    file = tmp_path / "cluster.yaml"
    file.write_text(text, encoding="utf-8")
    (tmp_path / "dev-tools.sh").write_text("#!/bin/sh\n", encoding="utf-8")
    findings = [one for one in read_cluster(file).findings if one.severity.value != "info"]
    return [f"{':'.join(one.path.split(':')[-2:])} {one.id} {one.severity.value}" for one in findings]


def errors(tmp_path: Path, text: str) -> list[str]:
    return [one.removesuffix(" error") for one in found(tmp_path, text) if one.endswith(" error")]


def test_a_small_cluster_with_accounting_and_a_login_node_is_made_unless_the_file_says_otherwise(
    tmp_path: Path,
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(HEAD + NET + FLEET, encoding="utf-8")
    spec = load_cluster(file).pcs
    assert (spec.size, spec.slurm_version, spec.accounting.enabled, spec.login.nodes) == ("small", None, True, 1)
    assert (spec.existing, spec.users, spec.directory, spec.queues) == (None, None, None, {})


def section(said: str) -> str:
    return f"{HEAD}{NET}pcs: {{ {said} }}\n{FLEET}"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("size: small", []),
        ("size: huge", ["6:14 GPU-SPEC-008"]),
        ("slurm_version: '25.11'", []),
        ("slurm_version: '19.05'", ["6:1 GPU-PCS-019", "6:23 GPU-PCS-017"]),
        ("accounting: { keep_days: 90 }", []),
        ("accounting: { keep_days: 0 }", ["6:33 GPU-PCS-022"]),
        ("scale_down_idle_minutes: 30", []),
        ("slurm_settings: { SchedulerParameters: bf_continue }", []),
        ("slurm_settings: { PrologFlags: X11 }", []),  # with those of the library
        ("slurm_settings: { PrologFlags: NoHold }", ["6:39 GPU-PCS-040"]),
        ("slurm_settings: { PreemptMode: REQUEUE, PreemptType: preempt/qos }", []),
        ("slurm_settings: { PreemptType: preempt/qos }", ["6:39 GPU-PCS-040"]),
        ("login: { instance_type: m7i.xlarge }", []),
        ("login: { instance_type: g6.xlarge }", ["6:32 GPU-SPEC-047"]),
        ("login: { instance_type: m99.large }", ["6:32 GPU-INST-001"]),
        ("login: { mounts: { /home: nowhere } }", ["6:34 GPU-SPEC-047"]),
        ("node_settings: { gpu-one: { Weight: '1' } }", []),
        ("node_settings: { gpu-two: { Weight: '1' } }", ["6:25 GPU-SPEC-048"]),
        ("queues: { work: { fleets: [gpu-one] } }", []),
        ("queues: { work: { fleets: [gpu-two] } }", ["6:35 GPU-SPEC-048"]),
        ("queues: { w: { fleets: [gpu-one] } }", ["6:18 GPU-PCS-018"]),
        (EXISTING, []),
        (f"{EXISTING}, size: large", ["6:1 GPU-SPEC-045"]),
        (f"{EXISTING}, login: {{ nodes: 0 }}", []),
    ],
)
def test_each_rule_of_the_section_is_located(said: str, expected: list[str], tmp_path: Path) -> None:
    assert errors(tmp_path, section(said)) == expected


def test_settings_of_an_existing_cluster_are_compared(tmp_path: Path) -> None:
    def warned(settings: dict[str, str]) -> list[str]:
        said = EXISTING.removesuffix(" }") + f", slurm_settings: {json.dumps(settings)} }}"
        return [one for one in found(tmp_path, section(said)) if "GPU-PCS-069" in one]

    assert warned(cluster_settings()) == []
    assert warned(cluster_settings() | {"PrologFlags": "alloc,contain"}) == []
    assert len(warned(cluster_settings() | {"Prolog": "/etc/GPU-cluster/prolog.d/*"})) == 1
    assert warned(cluster_settings() | {"PrologFlags": "Contain"}) == ["6:116 GPU-PCS-069 warning"]
    assert len(warned({})) == len(cluster_settings())


def test_a_setting_that_the_guide_does_not_list_is_warned_of(tmp_path: Path) -> None:
    setting = "slurm_settings: { SlurmctldPort: '1' }"
    assert "6:41 GPU-PCS-020 warning" in found(tmp_path, section(setting))


def test_all_faults_of_the_section_are_told_at_once(tmp_path: Path) -> None:
    said = "slurm_version: '19.05', login: { instance_type: g6.xlarge }, queues: { work: { fleets: [gpu-two] } }"
    ids = {one.split()[1] for one in errors(tmp_path, section(said))}
    assert ids == {"GPU-PCS-017", "GPU-PCS-019", "GPU-SPEC-047", "GPU-SPEC-048"}


def test_the_section_is_for_slurm(tmp_path: Path) -> None:
    text = section("size: medium")
    assert "6:1 GPU-SPEC-044 warning" in found(tmp_path, text.replace("orchestrator: pcs", "orchestrator: ec2"))
    assert "GPU-SPEC-044" not in " ".join(found(tmp_path, text))


def test_a_fleet_in_no_queue_is_warned_of(tmp_path: Path) -> None:
    two = FLEET.replace("} } }", "}, other: { instance_type: g6.xlarge, nodes: 1 } } }")
    queue = "pcs: { queues: { work: { fleets: [gpu-one] } } }\n"
    assert "GPU-SPEC-048 warning" in " ".join(found(tmp_path, HEAD + NET + queue + two))
    assert "GPU-SPEC-048" not in " ".join(found(tmp_path, HEAD + NET + two))


def test_model_servers_are_refused_where_jobs_run(tmp_path: Path) -> None:
    chat = "inference: { fleets: { chat: { instance_type: g6e.12xlarge, nodes: 2, server: { image: a/b:1 } } } }\n"
    assert errors(tmp_path, HEAD + NET + FLEET + chat) == ["7:24 GPU-SPEC-046"]
    assert "GPU-SPEC-046" not in " ".join(errors(tmp_path, HEAD.replace("pcs", "ec2") + NET + FLEET + chat))


@pytest.mark.parametrize(
    ("capacity", "expected"),
    [
        ("on_demand", []),
        ("{ reservation: cr-0123456789abcdef0 }", []),
        ("{ reservation_group: 'arn:aws:resource-groups:us-east-1:111122223333:group/p5' }", []),
        ("{ new_reservation: { unlimited: true } }", []),
        ("{ spot: { max_price_usd_per_hour: 20 } }", ["GPU-PCS-061"]),
        ("{ capacity_block: cr-0123456789abcdef0, ends_at: 2026-12-15T11:30Z }", []),
        (
            (
                "{ capacity_blocks: [{ capacity_block: cr-0123456789abcdef0, ends_at: 2026-12-15T11:30Z }, "
                "{ capacity_block: cr-0123456789abcdef1, starts_at: 2026-12-15T11:30Z, ends_at: 2026-12-29T11:30Z }] }"
            ),
            ["GPU-PCS-061"],
        ),
    ],
)
def test_capacity_that_a_node_group_cannot_take_is_refused_with_its_fix(
    capacity: str, expected: list[str], tmp_path: Path
) -> None:
    text = HEAD + NET + FLEET.replace("capacity: spot", f"capacity: {capacity}")
    assert [one.split()[1] for one in errors(tmp_path, text)] == expected
    findings = [one for one in read_cluster(tmp_path / "cluster.yaml").findings if one.severity.value == "error"]
    assert all("Capacity." not in one.fix and one.fix for one in findings)


def test_a_range_starts_at_no_node(tmp_path: Path) -> None:
    some = FLEET.replace("nodes: 2", "min_nodes: 1, max_nodes: 4")
    assert [one.split()[1] for one in errors(tmp_path, HEAD + NET + some)] == ["GPU-PCS-060"]
    assert errors(tmp_path, HEAD + NET + some.replace("min_nodes: 1", "min_nodes: 0")) == []


def test_a_bucket_is_not_mounted_on_login_nodes(tmp_path: Path) -> None:
    text = HEAD + NET + HOME + "pcs: { login: { mounts: { /home: home } } }\n" + FLEET
    assert errors(tmp_path, text) == []
    assert errors(tmp_path, text.replace("/home: home", "/home: ckpt")) == ["7:34 GPU-SPEC-047"]


def test_the_controller_of_nodes_in_a_local_zone_is_in_the_region(tmp_path: Path) -> None:
    local = NET.replace("us-east-1a", "us-east-1-dfw-2a")
    old = (
        "network: { vpc_id: vpc-0123456789abcdef0, subnet_ids: [subnet-0123456789abcdef0], "
        "availability_zone: us-east-1-dfw-2a }\n"
    )
    services = "{ us-east-1a: subnet-0123456789abcdef1, us-east-1b: subnet-0123456789abcdef2 }"
    fleet = FLEET.replace("p5.48xlarge", "g6.xlarge")
    assert errors(tmp_path, HEAD + local + fleet) == []
    assert errors(tmp_path, HEAD + old + fleet) == ["5:1 GPU-PCS-027"]
    assert errors(tmp_path, HEAD + old.replace(" }\n", f", service_subnets: {services} }}\n") + fleet) == []


USERS = "groups: { research: 3000 }\nusers: [{ name: alice, uid: 2001, groups: [research] }]\n"


@pytest.mark.parametrize(
    ("users", "expected"),
    [
        (USERS, None),
        (USERS.replace("2001", "0"), "GPU-USR-001"),
        (USERS.replace("[research]", "[nobody]"), "GPU-USR-002"),
        (USERS.replace("uid: 2001", "uid: 2001, ssh_keys: ['-----BEGIN OPENSSH PRIVATE KEY-----']"), "GPU-USR-003"),
        ("users: {", "GPU-SPEC-002"),
        ("- alice\n", "GPU-SPEC-003"),
        ("", "GPU-SPEC-003"),
        ("people: []\n", "GPU-USR-001"),
    ],
)
def test_the_list_of_users_is_read_and_its_faults_are_placed(users: str, expected: str | None, tmp_path: Path) -> None:
    (tmp_path / "users.yaml").write_text(users, encoding="utf-8")
    faults = errors(tmp_path, section("users: users.yaml"))
    assert faults == ([] if expected is None else [f"6:15 {expected}"])
    causes = [one.cause for one in read_cluster(tmp_path / "cluster.yaml").findings if one.severity.value == "error"]
    assert all("users.yaml:" in one for one in causes)
    assert "OPENSSH" not in " ".join(causes)


def test_a_list_of_users_is_a_file_beside_the_cluster_file(tmp_path: Path) -> None:
    assert errors(tmp_path, section("users: nowhere.yaml")) == ["6:15 GPU-SPEC-049"]
    assert errors(tmp_path, section("users: ../users.yaml")) == ["6:15 GPU-SPEC-013"]
    (tmp_path / "big.yaml").write_text("#" * 70_000, encoding="utf-8")
    assert errors(tmp_path, section("users: big.yaml")) == ["6:15 GPU-SPEC-049"]


def test_a_directory_is_reached_over_tls(tmp_path: Path) -> None:
    directory = (
        "directory: { uris: ['ldaps://ad.example.com'], search_base: 'dc=example,dc=com', "
        "bind_dn: 'cn=reader,dc=example,dc=com', password_secret: ldap-reader }"
    )
    assert errors(tmp_path, section(directory)) == []
    assert errors(tmp_path, section(directory.replace("ldaps:", "ldap:"))) == ["6:28 GPU-USR-004"]
