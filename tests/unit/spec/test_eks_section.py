"""`orchestrator: eks` and the section `eks` of the cluster file."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdk_gpu_clusters_stacks.spec import ClusterSpec, load_cluster, read_cluster

HEAD = "version: 1\nname: demo\nregion: us-east-1\norchestrator: eks\n"
NEW = "network: { availability_zone: us-east-1a }\n"
OLD = "network: { vpc_id: vpc-0123456789abcdef0, subnet_ids: [subnet-0123456789abcdef0], availability_zone: us-east-1a"
TWO_ZONES = ", service_subnets: { us-east-1a: subnet-0123456789abcdef1, us-east-1b: subnet-0123456789abcdef2 }"
OF_P5 = ["6 GPU-CAP-009 warning"]
ONE = "training: { fleets: { a: { instance_type: p5.48xlarge, nodes: 2 } } }\n"
EXISTING = "existing: { cluster_name: c, cluster_security_group_id: sg-0123456789abcdef0, kubernetes_version: '1.34'"
SERVING = (
    "inference: { fleets: { a: { instance_type: g6e.12xlarge, nodes: 2, server: { image: vllm/vllm-openai:v0.11.0 }"
)


def found(tmp_path: Path, text: str) -> list[str]:
    """Findings of a file as `line id severity`."""
    file = tmp_path / "cluster.yaml"
    file.write_text(text, encoding="utf-8")
    findings = read_cluster(file).findings
    return [f"{one.path.split(':')[-2]} {one.id} {one.severity.value}" for one in findings]


def test_changing_the_word_is_enough(tmp_path: Path) -> None:
    for orchestrator in ("ec2", "eks"):
        text = HEAD.replace("eks", orchestrator) + NEW + ONE
        assert "error" not in " ".join(found(tmp_path, text))


def test_a_cluster_is_made_private_with_two_small_nodes_unless_the_file_says_otherwise(
    tmp_path: Path,
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(HEAD + NEW + ONE)
    eks = load_cluster(file).eks

    assert eks.existing is None
    assert eks.public_access_cidrs == ()
    assert eks.admin_principal_arns == ()
    assert (eks.system_nodes.instance_type, eks.system_nodes.nodes) == ("m7i.large", 2)
    assert (eks.software.apply, eks.software.trainer, eks.software.mirror) == (False, False, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            HEAD.replace("eks", "ec2") + "eks: { kubernetes_version: '1.34' }\n" + NEW + ONE,
            "5 GPU-SPEC-033 warning",
        ),
        (
            HEAD + f"eks: {{ {EXISTING} }}, kubernetes_version: '1.34' }}\n" + NEW + ONE,
            "5 GPU-SPEC-034 error",
        ),
        (
            HEAD + f"eks: {{ {EXISTING} }}, software: {{ apply: true }} }}\n" + NEW + ONE,
            "5 GPU-SPEC-034 error",
        ),
        (HEAD + OLD + " }\n" + ONE, "5 GPU-SPEC-035 error"),
        (
            HEAD + NEW + ONE.replace("nodes: 2", "nodes: 2, image: { id: ami-0123456789abcdef0 }"),
            "6 GPU-SPEC-036 error",
        ),
        (
            HEAD + NEW + ONE.replace("nodes: 2", "nodes: 2, image: { os: al2023, framework: pytorch }"),
            "6 GPU-SPEC-036 error",
        ),
    ],
)
def test_what_does_not_go_together_is_named(text: str, expected: str, tmp_path: Path) -> None:
    assert expected in found(tmp_path, text)


def test_an_existing_network_with_subnets_in_two_zones_holds_a_cluster(tmp_path: Path) -> None:
    assert not [one for one in found(tmp_path, HEAD + OLD + TWO_ZONES + " }\n" + ONE) if "error" in one]


def test_an_existing_cluster_needs_no_subnets_of_its_own(tmp_path: Path) -> None:
    text = HEAD + f"eks: {{ {EXISTING} }} }}\n" + OLD + " }\n" + ONE
    assert not [one for one in found(tmp_path, text) if "error" in one]


def test_a_fleet_of_model_servers_needs_no_load_balancer_and_is_told_what_takes_its_place(
    tmp_path: Path,
) -> None:
    assert found(tmp_path, HEAD + NEW + SERVING + " } } }\n") == []
    told = found(tmp_path, HEAD + NEW + SERVING + ", load_balancer: { plain_http: true } } } }\n")
    assert told == ["6 GPU-SPEC-037 info"]


def test_pods_have_roles_of_their_own_in_place_of_users_of_the_node(tmp_path: Path) -> None:
    told = found(tmp_path, HEAD + NEW + ONE.replace("nodes: 2", "nodes: 2, metadata_users: [ubuntu]"))
    assert "6 GPU-SPEC-037 info" in told


def test_a_closed_network_takes_images_and_charts_from_ecr_of_its_region(tmp_path: Path) -> None:
    closed = HEAD + "network: { availability_zone: us-east-1a, egress: closed }\n" + ONE
    mirror = "eks: { software: { mirror: 111122223333.dkr.ecr.us-east-1.amazonaws.com/mirror } }\n"

    assert found(tmp_path, closed) == ["5 GPU-SPEC-039 warning", *OF_P5]
    assert found(tmp_path, closed + mirror) == OF_P5
    assert "7 GPU-SPEC-039 warning" in found(tmp_path, closed + mirror.replace("us-east-1", "eu-west-1"))
    assert "5 GPU-SPEC-039 error" in found(tmp_path, closed + "eks: { software: { apply: true } }\n")


RACK = (
    "training: { fleets: { rack: { instance_type: p6e-gb200.36xlarge, nodes: 9, capacity: { ultraserver_block: "
    "arn:aws:resource-groups:us-east-1:111122223333:group/rack, reservation: cr-0123456789abcdef0, "
    "ends_at: 2026-12-15T11:30Z } } } }\n"
)
DALLAS = NEW.replace("us-east-1a", "us-east-1-dfw-2a")


def test_domains_need_a_fleet_in_ultraservers_and_a_version_that_knows_claims(tmp_path: Path) -> None:
    def imex(text: str) -> list[str]:
        return [one for one in found(tmp_path, text) if "IMEX" in one]

    domains = "eks: { software: { compute_domains: true } }\n"
    assert imex(HEAD + DALLAS + domains + RACK) == []
    assert imex(HEAD + NEW + domains + ONE) == ["6 GPU-IMEX-001 warning"]
    old = domains.replace("eks: {", "eks: { kubernetes_version: '1.33',")
    assert imex(HEAD + DALLAS + old + RACK) == ["6 GPU-IMEX-003 error"]
    assert imex(HEAD + DALLAS + old.replace("true", "false") + RACK) == []
    # What is wrong with a type hides whether it is in UltraServers.
    assert imex(HEAD + NEW + domains + ONE.replace("p5.48xlarge", "p55.48xlarge")) == []


LARGE = (
    RACK.replace("training", "inference")
    .replace("rack: {", "large: {")
    .replace(
        "ends_at: 2026-12-15T11:30Z }", "ends_at: 2026-12-15T11:30Z }, server: { image: vllm/vllm-openai:v0.21.0 }"
    )
)
WITH_DOMAINS = HEAD + DALLAS + "eks: { software: { compute_domains: true } }\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (WITH_DOMAINS + LARGE.replace("nodes: 9", "nodes: 9, nodes_per_server: 9"), []),
        (WITH_DOMAINS + LARGE.replace("nodes: 9", "nodes: 18, nodes_per_server: 10"), []),
        (WITH_DOMAINS + LARGE.replace("nodes: 9", "nodes: 18, nodes_per_server: 9"), ["7 GPU-IMEX-004 error"]),
        (WITH_DOMAINS + LARGE.replace("nodes: 9", "nodes: 36, nodes_per_server: 19"), ["7 GPU-IMEX-002 error"]),
        (
            WITH_DOMAINS + LARGE.replace("nodes: 9", "nodes: 9, nodes_per_server: 10"),
            ["7 GPU-K8S-002 error", "7 GPU-IMEX-002 error"],
        ),
        (HEAD + DALLAS + LARGE.replace("nodes: 9", "nodes: 9, nodes_per_server: 9"), ["6 GPU-SPEC-079 error"]),
        (
            WITH_DOMAINS + LARGE.replace("nodes: 9", "nodes: 9, nodes_per_server: 9, canary: {}"),
            ["7 GPU-SRV-034 error"],
        ),
        (
            WITH_DOMAINS + LARGE.replace("nodes: 9", "nodes: 9, nodes_per_server: 9, devices_per_server: 4"),
            ["7 GPU-SPEC-078 error"],
        ),
        (
            WITH_DOMAINS
            + LARGE.replace("nodes: 9", "nodes: 9, nodes_per_server: 9").replace("vllm/vllm-openai", "tgi"),
            ["7 GPU-SPEC-078 error"],
        ),
        (
            HEAD
            + NEW
            + SERVING.replace("g6e.12xlarge, nodes: 2", "p5.48xlarge, nodes: 4, nodes_per_server: 3")
            + "}}}",
            ["6 GPU-SPEC-079 error", "6 GPU-IMEX-001 error"],
        ),
        (
            (HEAD + NEW + SERVING.replace("nodes: 2", "nodes: 4, nodes_per_server: 3") + "}}}").replace("eks", "ec2"),
            ["6 GPU-SPEC-078 error"],
        ),
        (
            HEAD
            + NEW
            + "eks: { software: { compute_domains: true } }\n"
            + SERVING.replace("nodes: 2", "max_nodes: 4, nodes_per_server: 3")
            + "}}}",
            ["7 GPU-SPEC-078 error", "7 GPU-IMEX-001 error"],
        ),
    ],
)
def test_a_model_over_several_nodes_is_one_vllm_server_in_one_ultraserver(
    text: str, expected: list[str], tmp_path: Path
) -> None:
    about = ("GPU-SPEC-07", "GPU-SRV", "GPU-IMEX", "GPU-K8S", "GPU-INF-026")
    assert [
        one for one in found(tmp_path, text) if any(rule in one for rule in about) and "warning" not in one
    ] == expected


@pytest.mark.parametrize(
    ("nodes", "fix"),
    [(18, "write nodes_per_server: 10 or more, or make a fleet for each server"), (36, "make a fleet for each server")],
)
def test_a_fix_of_several_servers_is_one_that_an_ultraserver_has(nodes: int, fix: str, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(WITH_DOMAINS + LARGE.replace("nodes: 9", f"nodes: {nodes}, nodes_per_server: {nodes // 2}"))
    assert [one.fix for one in read_cluster(file).findings if one.id == "GPU-IMEX-004"] == [fix]


def test_nodes_of_reserved_capacity_are_in_the_zones_of_a_gateway_if_there_is_one(tmp_path: Path) -> None:
    """Without a gateway no load balancer has to reach them."""
    domains = "software: { compute_domains: true }"
    gateway = f"{domains}, gateway: {{ plain_http: true, clients: [10.0.0.0/16] }}"
    text = WITH_DOMAINS + LARGE.replace("nodes: 9", "nodes: 9, nodes_per_server: 9")
    assert not [one for one in found(tmp_path, text) if "error" in one]
    assert [one for one in found(tmp_path, text.replace(domains, gateway)) if "error" in one] == ["5 GPU-INF-026 error"]


def test_claims_on_efa_are_for_managed_groups_of_a_fixed_size_on_versions_that_know_them(tmp_path: Path) -> None:
    def efa(text: str, more: str = "") -> list[str]:
        section = f"eks: {{ software: {{ efa: dra-driver{more} }} }}\n"
        return [
            one for one in found(tmp_path, HEAD + NEW + section + text) if "GPU-SPEC-065" in one or "K8S-020" in one
        ]

    applied = ", apply: true"
    pool, scaled = ONE.replace("nodes: 2", "nodes: 2, managed_by: karpenter"), ONE.replace("nodes: 2", "max_nodes: 2")
    assert efa(ONE) == []
    assert efa(pool, applied) == ["7 GPU-SPEC-065 error"]
    assert efa(scaled, f"{applied}, cluster_autoscaler: true") == ["7 GPU-SPEC-065 error"]
    assert efa(ONE, ", slurm: {}") == ["6 GPU-SPEC-065 error"]
    # Without EFA there is nothing to claim.
    assert efa(pool.replace("p5.48xlarge", "g6.xlarge"), applied) == []
    old = HEAD + NEW + "eks: { kubernetes_version: '1.33', software: { efa: dra-driver } }\n"
    assert "6 GPU-K8S-020 error" in found(tmp_path, old + ONE)
    assert "6 GPU-K8S-020 error" not in found(tmp_path, old.replace("dra-driver", "device-plugin") + ONE)


def test_an_ultraserver_block_of_a_managed_group_has_its_id(tmp_path: Path) -> None:
    text = HEAD + DALLAS + RACK
    assert not [one for one in found(tmp_path, text) if "error" in one]
    assert "6 GPU-EKS-040 error" in found(tmp_path, text.replace("reservation: cr-0123456789abcdef0, ", ""))


MODELS = HEAD + NEW + SERVING + " } } }\n"
WORKSPACE = "monitoring: { metrics: { destination: workspace } }\n"
GATEWAY = "hostname: models.example.org, plain_http: true, clients: [10.0.0.0/8]"
ZONE = "hosted_zone: { zone_id: Z0123456789ABCDEFGHIJ, zone_name: example.org }"
CERTIFICATE = "certificate_arn: arn:aws:acm:us-east-1:111122223333:certificate/1234abcd-12ab-34cd-56ef-1234567890ab"
TLS = GATEWAY.replace("plain_http: true", CERTIFICATE)


def test_a_gateway_and_a_scaler_go_with_what_they_need(tmp_path: Path) -> None:
    text = MODELS + WORKSPACE + f"eks: {{ gateway: {{ {GATEWAY}, {ZONE} }}, software: {{ keda: true }} }}\n"
    assert found(tmp_path, text) == []
    assert found(tmp_path, MODELS + f"eks: {{ gateway: {{ {TLS} }} }}\n") == []


def test_system_nodes_hold_the_proxies_and_pickers_of_the_inference_extension(tmp_path: Path) -> None:
    gateway = f"gateway: {{ {TLS}, inference_extension: true }}"
    assert found(tmp_path, MODELS + f"eks: {{ {gateway}, system_nodes: {{ nodes: 3 }} }}\n") == []
    small = MODELS + f"eks:\n  {gateway}\n  system_nodes:\n    instance_type: m7i.large\n"
    assert found(tmp_path, small) == ["10 GPU-EKS-030 warning"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (MODELS + "eks: { gateway: { plain_http: true } }\n", ["7 GPU-SRV-020 error"]),
        (MODELS + "eks: { gateway: { clients: [10.0.0.0/8] } }\n", ["7 GPU-INF-012 error"]),
        (MODELS + f"eks: {{ gateway: {{ {GATEWAY}, {CERTIFICATE} }} }}\n", ["7 GPU-INF-012 error"]),
        (
            MODELS + f"eks: {{ gateway: {{ {TLS.replace('us-east-1', 'eu-west-1')} }} }}\n",
            ["7 GPU-SPEC-030 error"],
        ),
        (
            MODELS + f"eks: {{ gateway: {{ {GATEWAY.replace('example.org', 'example.com')}, {ZONE} }} }}\n",
            ["7 GPU-SRV-020 error"],
        ),
        (
            MODELS + f"eks: {{ gateway: {{ {GATEWAY.replace('hostname: models.example.org, ', '')}, {ZONE} }} }}\n",
            ["7 GPU-SRV-020 error"],
        ),
        (HEAD + NEW + ONE + f"eks: {{ gateway: {{ {GATEWAY} }} }}\n", ["7 GPU-SRV-020 error", *OF_P5]),
        (
            MODELS.replace("vllm", "tgi")
            + f"eks: {{ gateway: {{ {GATEWAY}, inference_extension: true }}, system_nodes: {{ nodes: 3 }} }}\n",
            ["6 GPU-SRV-040 error"],
        ),
        (MODELS + "eks: { software: { keda: true } }\n", ["7 GPU-SRV-022 error"]),
        (MODELS + "monitoring: { metrics: {} }\neks: { software: { keda: true } }\n", ["8 GPU-SRV-022 error"]),
    ],
)
def test_a_gateway_or_a_scaler_without_what_it_needs_is_refused_at_its_place(
    text: str, expected: list[str], tmp_path: Path
) -> None:
    assert sorted(found(tmp_path, text)) == sorted(expected)


def test_what_serves_models_needs_more_than_a_closed_network_has(tmp_path: Path) -> None:
    closed = (MODELS + WORKSPACE).replace("us-east-1a }", "us-east-1a, egress: closed }")
    text = closed + f"eks: {{ gateway: {{ {GATEWAY} }}, software: {{ keda: true }} }}\n"
    assert found(tmp_path, text).count("8 GPU-SRV-021 error") == 2


def test_a_fault_of_monitoring_is_told_once(tmp_path: Path) -> None:
    text = MODELS + "monitoring: { metrics: { destination: nowhere } }\neks: { software: { keda: true } }\n"
    assert not [one for one in found(tmp_path, text) if "SRV" in one]


def test_neuron_devices_need_a_plugin_that_is_not_installed(tmp_path: Path) -> None:
    text = HEAD + NEW + ONE.replace("p5.48xlarge", "trn1.32xlarge")
    assert "6 GPU-SPEC-038 warning" in found(tmp_path, text)
    assert not [one for one in found(tmp_path, text.replace("eks", "ec2")) if "SPEC-038" in one]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("kubernetes_version: '1.29'", "6 GPU-EKS-020 error"),
        ("kubernetes_version: '1.99'", "6 GPU-EKS-020 warning"),
        ("public_access_cidrs: [0.0.0.0/0]", "6 GPU-EKS-021 error"),
        ("public_access_cidrs: [10.0.0.0/8]", "6 GPU-EKS-021 error"),
        ("system_nodes: { instance_type: g5.xlarge }", "6 GPU-EKS-024 error"),
        ("system_nodes: { instance_type: t3.medium }", "6 GPU-EKS-030 warning"),
        ("system_nodes: { instance_type: m99.large }", "6 GPU-INST-001 error"),
    ],
)
def test_what_the_cluster_itself_would_refuse_is_said_with_its_line(said: str, expected: str, tmp_path: Path) -> None:
    assert expected in found(tmp_path, HEAD + NEW + f"eks: {{ {said} }}\n" + ONE)


@pytest.mark.parametrize(
    ("nodes", "warns"),
    [("{ nodes: 2 }", True), ("{ nodes: 3 }", True), ("{ nodes: 4 }", False), ("{ instance_type: m7i.xlarge }", False)],
)
def test_system_nodes_have_room_for_the_head_of_ray_while_one_is_away(nodes: str, warns: bool, tmp_path: Path) -> None:
    for ray, counts in (("true", warns), ("false", False)):
        eks = f"eks: {{ system_nodes: {nodes}, software: {{ ray: {ray} }} }}\n"
        assert ("6 GPU-EKS-030 warning" in found(tmp_path, HEAD + NEW + eks + ONE)) is counts


@pytest.mark.parametrize(
    ("weights", "fleet", "is_fault"),
    [
        ("path: /opt/models", "", True),
        ("path: /fsx-2/llama", "mounts: { /fsx: corpus }, ", True),
        ("path: /fsx/llama", "mounts: { /fsx: corpus }, ", False),
        ("path: /opt/models, s3_uri: 's3://my-models/llama'", "", False),
    ],
)
def test_weights_lie_where_pods_see_them(weights: str, fleet: str, is_fault: bool, tmp_path: Path) -> None:
    store = "data: { corpus: { lustre: { storage_capacity_gib: 1200, throughput_mb_per_s_per_tib: 250 } } }\n"
    server = f"server: {{ image: 'a/b:1', weights: {{ {weights} }} }}"
    text = f"inference: {{ fleets: {{ a: {{ instance_type: g6e.12xlarge, nodes: 2, {fleet}{server} }} }} }}\n"
    assert ("7 GPU-SPEC-041 error" in found(tmp_path, HEAD + NEW + store + text)) is is_fault
    assert "041" not in " ".join(found(tmp_path, HEAD.replace("eks", "ec2") + NEW + store + text))


@pytest.mark.parametrize(
    ("other", "name", "is_fault"),
    [
        ("training: { fleets: { a: { instance_type: g5.xlarge, nodes: 1 } } }", "a-job", True),
        ("training: { fleets: { a: { instance_type: g5.xlarge, nodes: 1 } } }", "a-all", False),
        (
            "training: { fleets: { a: { instance_type: p4d.24xlarge, efa: false, mig: 1g.5gb, nodes: 1 } } }",
            "a-all",
            True,
        ),
        (
            "training: { fleets: { a: { instance_type: p4d.24xlarge, efa: false, mig: 1g.5gb, nodes: 1 } } }",
            "a-mig-1g-5gb",
            True,
        ),
    ],
)
def test_no_service_finds_the_pods_of_another_fleet(other: str, name: str, is_fault: bool, tmp_path: Path) -> None:
    serving = SERVING.replace(" a: ", f" {name}: ") + " } } }\n"
    assert ("7 GPU-SPEC-040 error" in found(tmp_path, HEAD + NEW + other + "\n" + serving)) is is_fault


SLURM = (
    "training: { fleets: { a: { instance_type: p5.48xlarge, nodes: 2 }, m: { instance_type: p4d.24xlarge, nodes: 1, "
    "efa: false, mig: 1g.5gb }, s: { instance_type: m7i.large, min_nodes: 0, max_nodes: 4 } } }\n"
)
IDS = "gpu_instance_ids: { m: [[7],[7],[7],[7],[7],[7],[7],[7]] }"


@pytest.mark.parametrize(
    ("slurm", "expected"),
    [
        ("{ fleets: [a] }", []),
        (f"{{ fleets: [a, m], {IDS} }}", []),
        ("{ fleets: [a, m], nvml_image: 'mine/slurmd:nvml' }", []),
        ("{ fleets: [a], accounting: { host: Db.lab.internal, secret_name: db.password } }", []),
        ("{ fleets: [a, b] }", ["6 GPU-SPEC-061 error"]),
        ("{ fleets: [a, a] }", ["6 GPU-SPEC-061 error"]),
        ("{ fleets: [] }", ["6 GPU-SPEC-061 error"]),
        ("{ fleets: [a, s] }", ["7 GPU-SPEC-062 warning"]),
        ("{ fleets: [a, m] }", ["7 GPU-GRES-006 error"]),
        ("{}", ["7 GPU-GRES-006 error", "7 GPU-SPEC-062 warning"]),
        ("{ fleets: [a, m], gpu_instance_ids: { m: [[7]] } }", ["6 GPU-GRES-002 error"]),
        (f"{{ fleets: [a], {IDS} }}", ["6 GPU-SLK-003 error"]),
        ("{ fleets: [a], accounting: { host: 'db:3306', secret_name: db } }", ["6 GPU-SLK-004 error"]),
        ("{ fleets: [a], accounting: { host: db, secret_name: Db } }", ["6 GPU-SLK-004 error"]),
        ("{ fleets: [a], settings: { ReturnToService: '2' } }", []),
        ("{ fleets: [a], settings: { ReturnToService: '0' } }", ["6 GPU-SLK-005 error"]),
        ("{ fleets: [a], storage_class: of_mine }", ["6 GPU-SLK-004 error"]),
        ("{ fleets: [a], sssd_secret: of_mine }", ["6 GPU-SLK-004 error"]),
        ("{ fleets: [a], accounting: { host: db, secret_name: db, port: 0 } }", ["6 GPU-SPEC-008 error"]),
        ("{ fleets: [A] }", ["6 GPU-SPEC-011 error"]),
        ("{ values: {} }", ["6 GPU-SPEC-005 error"]),
    ],
)
def test_slurm_runs_on_training_fleets_of_the_file(slurm: str, expected: list[str], tmp_path: Path) -> None:
    text = HEAD + NEW + f"eks: {{ software: {{ slurm: {slurm} }} }}\n" + SLURM
    assert [one for one in found(tmp_path, text) if "GPU-CAP" not in one] == expected
    on_ec2 = found(tmp_path, text.replace("orchestrator: eks", "orchestrator: ec2"))
    assert not [one for one in on_ec2 if "SLK" in one or "GRES" in one or "SPEC-06" in one]


@pytest.mark.parametrize(
    ("slurm", "update", "warns"),
    [
        ("{ fleets: [a] }", "update: rolling", True),
        ("{ fleets: [a] }", "update: never", False),
        ("{ fleets: [a] }", "update: rolling, managed_by: karpenter", False),
        ("{ fleets: [c] }", "update: rolling", False),
    ],
)
def test_updates_of_nodes_that_wait_for_jobs_of_slurm_are_warned_of(
    slurm: str, update: str, warns: bool, tmp_path: Path
) -> None:
    fleets = f"a: {{ instance_type: p5.48xlarge, nodes: 2, {update} }}, c: {{ instance_type: m7i.large, nodes: 1 }}"
    section = f"eks: {{ software: {{ apply: true, slurm: {slurm} }} }}\n"
    told = found(tmp_path, f"{HEAD}{NEW}{section}training: {{ fleets: {{ {fleets} }} }}\n")
    assert ("7 GPU-SPEC-064 warning" in told) is warns
    assert not [one for one in told if one.endswith("error")]


@pytest.mark.parametrize(
    ("fleet", "rule"),
    [("default", "GPU-SLK-001"), ("a" * 40, "GPU-K8S-001"), ("a" * 39, None)],
)
def test_names_of_fleets_are_those_of_partitions(fleet: str, rule: str | None, tmp_path: Path) -> None:
    text = HEAD + NEW + "eks: { software: { slurm: {} } }\n" + ONE.replace(" a: ", f" {fleet}: ")
    told = [one for one in found(tmp_path, text) if "GPU-CAP" not in one]
    assert told == ([] if rule is None else [f"{6 if rule == 'GPU-SLK-001' else 7} {rule} error"])


def test_model_servers_are_no_nodes_of_slurm(tmp_path: Path) -> None:
    text = HEAD + NEW + "eks: { software: { slurm: { fleets: [a] } } }\n" + SERVING + " } } }\n"
    assert found(tmp_path, text) == ["6 GPU-SPEC-061 error"]
    assert found(tmp_path, text.replace("fleets: [a]", "")) == ["6 GPU-SPEC-061 error"]


def test_faults_of_a_fleet_hide_no_others_and_make_none(tmp_path: Path) -> None:
    text = HEAD + NEW + "eks: { software: { slurm: { fleets: [a], storage_class: of_mine } } }\n"
    told = found(tmp_path, text + ONE.replace("nodes: 2", "nodes: none"))
    assert [one for one in told if "GPU-CAP" not in one] == ["7 GPU-SPEC-007 error"]


def test_a_section_survives_a_round_trip(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(
        HEAD + "eks: { kubernetes_version: '1.34', software: { mirror: mirror.example/eks } }\n" + NEW + ONE
    )
    cluster = load_cluster(file)
    assert ClusterSpec.model_validate(cluster.model_dump()) == cluster


TEAMS = """\
eks:
  teams:
    research:
      quotas:
        - { fleet: a, nominal: 8, borrowing_limit: 8 }
    product: { quotas: [{ fleet: a, nominal: 8, lending_limit: 8 }] }
"""
OF_TEAMS = ["12 GPU-CAP-009 warning"]


@pytest.mark.parametrize(
    ("right", "wrong", "expected"),
    [
        ("", "", []),
        ("fleet: a, nominal: 8, b", "fleet: b, nominal: 8, b", ["10 GPU-TEAM-002 error"]),
        ("nominal: 8, b", "resource: nvidia.com/mig-1g.5gb, nominal: 8, b", ["10 GPU-TEAM-002 error"]),
        ("lending_limit: 8", "lending_limit: 9", ["11 GPU-TEAM-004 error"]),
        ("borrowing_limit: 8", "borrowing_limit: 9", ["10 GPU-TEAM-005 error"]),
        ("nominal: 8, l", "nominal: 9, l", ["11 GPU-TEAM-003 error"]),
        ("product:", "default:", ["11 GPU-TEAM-001 error"]),
        ("product:", "Product:", ["11 GPU-SPEC-011 error"]),
        ("nominal: 8, l", "nominal: -8, l", ["11 GPU-SPEC-008 error"]),
        ("[{ fleet: a, nominal: 8, lending_limit: 8 }]", "[]", ["11 GPU-SPEC-008 error"]),
    ],
)
def test_faults_of_teams_are_at_their_line(right: str, wrong: str, expected: list[str], tmp_path: Path) -> None:
    text = HEAD + NEW + TEAMS.replace(right, wrong, 1) + ONE
    assert [one for one in found(tmp_path, text) if one not in OF_TEAMS] == expected


def test_teams_are_checked_once_their_fleets_are_right(tmp_path: Path) -> None:
    wrong = HEAD + NEW + TEAMS.replace("nominal: 8", "nominal: 80") + ONE
    assert "10 GPU-TEAM-003 error" in found(tmp_path, wrong)
    broken = found(tmp_path, wrong.replace("p5.48xlarge", "p5.47xlarge"))
    assert not [one for one in broken if "TEAM" in one]
    assert [one for one in broken if "error" in one]


@pytest.mark.parametrize(("fleet", "expected"), [("a", ["11 GPU-TEAM-002 error"]), ("b", [])])
def test_teams_have_no_quotas_of_fleets_that_are_slurms(fleet: str, expected: list[str], tmp_path: Path) -> None:
    quota = f"        - {{ fleet: {fleet}, nominal: 8 }}\n"
    teams = "  teams:\n    research:\n      quotas:\n" + quota
    fleets = ONE.replace(" a: ", " b: { instance_type: p5.48xlarge, nodes: 1 }, a: ")
    text = HEAD + NEW + "eks:\n  software: { slurm: { fleets: [a] } }\n" + teams + fleets
    assert [one for one in found(tmp_path, text) if "GPU-CAP" not in one] == expected
    without = text.replace("  software: { slurm: { fleets: [a] } }\n", "")
    assert [one for one in found(tmp_path, without) if "GPU-CAP" not in one] == []


def test_members_of_teams_are_of_a_cluster_that_is_made_here(tmp_path: Path) -> None:
    members = TEAMS.replace("    product: {", "    product: { principal_arns: ['arn:aws:iam::111122223333:role/p'],")
    assert found(tmp_path, HEAD + NEW + members + ONE) == OF_TEAMS
    existing = members.replace("eks:\n", f"eks:\n  {EXISTING} }}\n")
    file = tmp_path / "cluster.yaml"
    file.write_text(HEAD + NEW + existing + ONE)
    (told,) = [one for one in read_cluster(file).findings if one.severity.value == "error"]
    assert told.id == "GPU-SPEC-034"
    assert "group gpu-team:product" in told.fix


def test_teams_of_a_file_are_those_of_the_library(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(HEAD + NEW + TEAMS + ONE)
    research, product = load_cluster(file).eks.all_teams
    assert (research.name, research.weight, research.group) == ("research", 1, "gpu-team:research")
    assert [(one.pool, one.resource, one.borrowing_limit, one.lent) for one in research.quotas] == [
        ("a", "nvidia.com/gpu", 8, 8)
    ]
    assert (product.quotas[0].borrowing_limit, product.quotas[0].lent) == (None, 8)
