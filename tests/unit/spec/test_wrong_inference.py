"""Wrong inference fleets and MIG layouts in cluster files: the findings that name their faults, at line and column."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdk_gpu_clusters_stacks.spec import read_cluster

HEAD = "version: 1\nname: demo\nregion: us-east-1\n"
NET = "network: { availability_zone: us-east-1a }"
NAMED = "network: { availability_zone: us-east-1a, control_availability_zones: [us-east-1a, us-east-1b] }"
VPC = "network: { availability_zone: us-east-1a, vpc_id: vpc-0123456789abcdef0, subnet_ids: [subnet-0123456789abcdef0]"
ONE, TWO = "subnet-0123456789abcdef1", "subnet-0123456789abcdef2"
IMAGE = "image: vllm/vllm-openai:v0.11.0"
SECRET = "arn:aws:secretsmanager:us-east-1:111122223333:secret:hub-AbCdEf"
CERTIFICATE = "arn:aws:acm:us-east-1:111122223333:certificate/a-1"
RESERVED = "capacity: { reservation: cr-0123456789abcdef0 }"
BLOCK = "capacity: { capacity_block: cr-0123456789abcdef0, ends_at: 2026-12-15T11:30Z }"
SEVENTHS = "1g.5gb,1g.5gb,1g.5gb,1g.5gb,1g.5gb,1g.5gb,1g.5gb"


def chat(
    *more: str,
    type_: str = "g6.12xlarge",
    nodes: str = "nodes: 2",
    server: str = f"{{ {IMAGE} }}",
    balancer: str = "{ plain_http: true }",
    net: str = NET,
) -> str:
    """A file whose network stands in line 4, and whose one fleet in lines 8 to 11 and, with `more`, from 12 on."""
    lines = (
        net,
        "inference:",
        "  fleets:",
        "    chat:",
        f"      instance_type: {type_}",
        f"      {nodes}",
        f"      server: {server}",
        f"      load_balancer: {balancer}",
        *(f"      {line}" for line in more),
    )
    return HEAD + "\n".join(lines) + "\n"


def serves(text: str) -> str:
    """A server with an image and these keys, from column 50 on."""
    return f"{{ {IMAGE}, {text} }}"


def train(text: str) -> str:
    """A file with the one training fleet `a` in line 7, in flow style from column 8 on."""
    return f"{HEAD}{NET}\ntraining:\n  fleets:\n    a: {{ {text} }}\n"


WRONG_SHAPES = [
    ("no fleet at all", f"{HEAD}{NET}\n", "1:1 GPU-SPEC-026"),
    ("empty kinds", f"{HEAD}{NET}\ninference: {{ fleets: {{}} }}\ntraining: {{}}\n", "6:1 GPU-SPEC-026"),
    ("misspelt kind", chat().replace("inference:", "inferense:"), "5:1 GPU-SPEC-005"),
    ("no server", chat().replace(f"      server: {{ {IMAGE} }}\n", ""), "7:5 GPU-SPEC-006"),
    ("server without an image", chat(server="{ port: 0 }"), "10:7 GPU-SPEC-006, 10:23 GPU-INF-020"),
    (
        "misspelt keys",
        chat(server=serves("helth_path: x"), balancer="{ plain_htp: true }"),
        "10:50 GPU-SPEC-005, 11:24 GPU-SPEC-005",
    ),
    ("key of a training fleet", chat("efa: true", "user_data: a.sh"), "12:7 GPU-SPEC-005, 13:7 GPU-SPEC-005"),
    ("placement of a training fleet", chat("placement: cluster"), "12:18 GPU-SPEC-008"),
    (
        "port as text, and another fault",
        chat(server=serves('port: "80", health_path: x')),
        "10:56 GPU-SPEC-007, 10:75 GPU-INF-005",
    ),
    ("argument that is a number", chat(server=serves("command: [--port, 8000]")), "10:68 GPU-SPEC-007"),
    ("argument of two lines", chat(server=serves('command: ["a\\nb"]')), "10:60 GPU-SPEC-008"),
    ("variable name", chat(server=serves("environment: { A-B: x }")), "10:65 GPU-SPEC-008"),
    (
        "secret's variable name",
        chat(server=serves(f"secrets: {{ A-B: {{ arn: '{SECRET}' }} }}")),
        "10:61 GPU-SPEC-008",
    ),
    ("secret as text", chat(server=serves("secrets: { A: hunter2 }")), "10:64 GPU-SPEC-007"),
    (
        "clients",
        chat(balancer="{ plain_http: true, clients: [10.0.0.1/16, sg-1, all] }"),
        "11:52 GPU-SPEC-008, 11:65 GPU-SPEC-008, 11:71 GPU-SPEC-008",
    ),
    ("certificate", chat(balancer="{ certificate_arn: my-certificate }"), "11:41 GPU-SPEC-008"),
    ("log bucket", chat(balancer="{ plain_http: true, access_log_bucket: a..b }"), "11:61 GPU-CKP-004"),
    ("layout that is a mapping", chat("mig: { a: b }"), "12:7 GPU-SPEC-007"),
    ("layouts that are empty", chat('mig: ""', type_="p4d.24xlarge"), "12:7 GPU-SPEC-008"),
    ("list of no layouts", chat("mig: []", type_="p4d.24xlarge"), "12:7 GPU-SPEC-008"),
    ("fabric manager", chat("fabric_manager_order: never"), "12:29 GPU-SPEC-008"),
]
WRONG_FLEETS = [
    ("unknown type", chat(type_="g6.13xlarge"), "8:22 GPU-INST-001"),
    ("type without accelerators", chat(type_="m8g.4xlarge"), "8:22 GPU-INF-002"),
    ("no number of nodes", chat(nodes="min_nodes: 1"), "7:5 GPU-SPEC-012"),
    ("groups that do not divide", chat("devices_per_server: 3"), "12:27 GPU-INF-001"),
    ("no devices", chat("devices_per_server: 0"), "12:27 GPU-INF-001"),
    ("more servers than there are", chat("min_servers_per_node: 5"), "12:29 GPU-INF-018"),
    ("no servers", chat("min_servers_per_node: 0"), "12:29 GPU-INF-018"),
    ("image", chat(server="{ image: 'https://example.com/x' }"), "10:24 GPU-INF-006"),
    ("image and tag in capitals", chat(server="{ image: Vllm/OpenAI:v1 }"), "10:24 GPU-INF-006"),
    (
        "ports and paths",
        chat(server=serves("port: 70000, health_path: health")),
        "10:56 GPU-INF-020, 10:76 GPU-INF-005",
    ),
    (
        "variable that the node sets",
        chat(server=serves("environment: { MODEL_SERVER_INDEX: a }")),
        "10:65 GPU-INF-008",
    ),
    (
        "variable twice",
        chat(server=serves(f"environment: {{ A: b }}, secrets: {{ A: {{ arn: '{SECRET}' }} }}")),
        "10:84 GPU-INF-008",
    ),
    (
        "access key",
        chat(server=serves("environment: { KEY: " + "AKIA" + "ABCDEFGHIJKLMNOP }")),
        "10:70 GPU-UD-002",
    ),
    (
        "access key as an argument",
        chat(server=serves("command: [--key, " + "AKIA" + "ABCDEFGHIJKLMNOP]")),
        "10:67 GPU-UD-002",
    ),
    (
        "secret that is no ARN",
        chat(server=serves("secrets: { A: { arn: hunter2 } }, registry_login: { arn: me }")),
        "10:71 GPU-INF-009, 10:107 GPU-INF-009",
    ),
    (
        "secrets of another Region and partition",
        chat(
            server=serves(
                f"secrets: {{ A: {{ arn: '{SECRET.replace('us-east-1', 'us-west-2')}' }} }}, "
                f"registry_login: {{ arn: '{SECRET.replace('arn:aws', 'arn:aws-cn')}' }}"
            )
        ),
        "10:71 GPU-SPEC-030, 10:165 GPU-SPEC-030",
    ),
    ("weights nowhere", chat(server=serves("weights: {}")), "10:50 GPU-SPEC-006"),
    ("weights beside the node", chat(server=serves("weights: { path: models }")), "10:67 GPU-INF-011"),
    (
        "weights from no bucket",
        chat(server=serves("weights: { s3_uri: 's3://My_Models/llama', path: /a/../b }")),
        "10:69 GPU-INF-011, 10:99 GPU-INF-011",
    ),
    (
        "counts",
        chat(
            "requests_per_minute_per_node: 0.5",
            nodes="min_nodes: 1\n      max_nodes: 2",
            server=serves("shared_memory_gib: 0, max_concurrent_requests: -1"),
        ),
        "11:69 GPU-INF-019, 11:97 GPU-INF-019, 13:37 GPU-INF-019",
    ),
    ("clear text", chat(balancer="{}"), "11:7 GPU-INF-012"),
    (
        "clear text, and no word of it",
        chat().replace("      load_balancer: { plain_http: true }\n", ""),
        "7:5 GPU-INF-012",
    ),
    (
        "clear text on the internet",
        chat(
            balancer="{ plain_http: true, internet_facing: true }",
            net=f"{VPC}, service_subnets: {{ us-east-1a: {ONE}, us-east-1b: {TWO} }}, public_subnets: {{ us-east-1a: {ONE}, us-east-1b: {TWO} }} }}",
        ),
        "11:36 GPU-INF-012",
    ),
    (
        "certificate and clear text",
        chat(balancer=f"{{ certificate_arn: '{CERTIFICATE}', plain_http: true }}"),
        "11:107 GPU-INF-012",
    ),
    (
        "certificate of another Region",
        chat(balancer=f"{{ certificate_arn: '{CERTIFICATE.replace('us-east-1', 'us-east-2')}' }}"),
        "11:41 GPU-SPEC-030",
    ),
    (
        "time-outs",
        chat(
            "ready_timeout_seconds: 7201",
            balancer="{ plain_http: true, idle_timeout_seconds: 4001, drain_timeout_seconds: 0 }",
        ),
        "11:64 GPU-INF-013, 11:93 GPU-INF-017, 12:30 GPU-FLT-005",
    ),
    (
        "drain longer than a block gives",
        chat(BLOCK, type_="p5.48xlarge", balancer="{ plain_http: true, drain_timeout_seconds: 511 }", net=NAMED),
        "11:65 GPU-FLT-007",
    ),
    ("scaling without room", chat("requests_per_minute_per_node: 60"), "12:37 GPU-INF-016"),
    (
        "scaling on a block",
        chat(
            "requests_per_minute_per_node: 60",
            BLOCK,
            type_="p5.48xlarge",
            nodes="min_nodes: 1\n      max_nodes: 2",
            net=NAMED,
        ),
        "10:18 GPU-SPEC-018, 13:37 GPU-INF-016",
    ),
    ("spread of too many", chat("placement: spread", nodes="nodes: 15"), "12:18 GPU-PLC-003"),
    ("spread of reserved capacity", chat("placement: spread", RESERVED, net=NAMED), "12:18 GPU-CAP-016"),
    ("block of a type without blocks", chat(BLOCK, net=NAMED), "12:7 GPU-CAP-003"),
    ("UltraServer type on demand", chat(type_="p6e-gb200.36xlarge"), "7:5 GPU-CAP-005, 8:22 GPU-NET-106"),
    (
        "spot where there is none",
        chat("capacity: spot", type_="trn2u.48xlarge"),
        "12:17 GPU-CAP-005, 12:17 GPU-CAP-010",
    ),
    ("no image for the type", chat(type_="inf1.xlarge"), "8:22 GPU-AMI-003"),
    (
        "no image of the system for the type",
        chat("image: { os: al2023 }", type_="g7.2xlarge"),
        "12:20 GPU-AMI-003",
    ),
    ("volume", chat("root_volume: { size_gib: 8, iops: 5000 }"), "12:41 GPU-LT-002"),
    ("tags", chat("tags: { aws:x: y }"), "12:15 GPU-SPEC-014"),
    (
        "store that is not there",
        chat("mounts: { /fsx: corpus, usr: corpus }"),
        "12:23 GPU-SPEC-021, 12:31 GPU-MNT-001, 12:36 GPU-SPEC-021",
    ),
    (
        "mount over scratch",
        chat("mounts: { /scratch/a: s }", "scratch: true")
        + "data: { s: { lustre: { storage_capacity_gib: 2400, throughput_mb_per_s_per_tib: 125 } } }\n",
        "12:7 GPU-MNT-002",
    ),
    (
        "weights on disks that are not there",
        chat(
            type_="inf2.48xlarge",
            server=serves("weights: { s3_uri: s3://models/llama, path: /scratch/llama }"),
        ),
        "10:94 GPU-INF-023",
    ),
    (
        "weights on disks that are left alone",
        chat("scratch: false", server=serves("weights: { s3_uri: s3://models/llama, path: /scratch/llama }")),
        "12:16 GPU-INF-023",
    ),
    (
        "model that its GPUs do not hold",
        chat("devices_per_server: 2", server=serves("command: [--model, a/llama-3.3-70b, -tp, '2']")),
        "10:50 GPU-INF-027",
    ),
    (
        "cache that is not on local disks",
        chat(server=serves("cache_path: /root/.cache")),
        "10:62 GPU-INF-028",
    ),
    (
        "cache on disks that are left alone",
        chat("scratch: false", server=serves("cache_path: /scratch/cache")),
        "10:62 GPU-INF-028",
    ),
    (
        "cache among the weights",
        chat(server=serves("weights: { s3_uri: s3://b-1/m, path: /scratch/m }, cache_path: /scratch/m/cache")),
        "10:113 GPU-INF-028",
    ),
    (
        "key of weights that come from no bucket",
        chat(server=serves("weights: { path: /a, encryption_key_arn: 'arn:aws:kms:us-east-1:111122223333:key/a' }")),
        "10:91 GPU-SPEC-006",
    ),
    (
        "two fleets of one name",
        chat() + "training: { fleets: { chat: { instance_type: g6.xlarge, nodes: 1 } } }\n",
        "7:5 GPU-SPEC-027",
    ),
    ("user data too long", chat(server=serves(f"environment: {{ A: {'x' * 16_000} }}")), "10:7 GPU-UD-001"),
]
WRONG_LAYOUTS = [
    ("GPU without MIG", chat("mig: 1g.5gb"), "12:12 GPU-MIG-001"),
    ("profile of another GPU", chat("mig: 1g.12gb", type_="p4d.24xlarge"), "12:12 GPU-MIG-002"),
    (
        "layout that does not fit",
        chat("mig: 3g.20gb,3g.20gb,1g.5gb", type_="p4d.24xlarge"),
        "12:12 GPU-MIG-003",
    ),
    ("layouts that are too few", chat("mig: [3g.20gb, 3g.20gb]", type_="p4d.24xlarge"), "12:7 GPU-MIG-004"),
    (
        "one wrong layout of eight",
        chat(f"mig: [{', '.join(['9'] * 7)}, 3g.80gb]", type_="p4d.24xlarge"),
        "12:34 GPU-MIG-002",
    ),
    ("media engines", chat("mig: 1g.5gb+me,1g.5gb+me", type_="p4d.24xlarge"), "12:12 GPU-MIG-005"),
    ("nothing split", chat("mig: off", type_="p4d.24xlarge"), "12:12 GPU-MIG-008"),
    (
        "whole GPUs beside slices",
        chat(f"mig: [off, {', '.join(['9'] * 7)}]", "scratch: false", type_="p4d.24xlarge"),
        "12:7 GPU-INF-022",
    ),
    (
        "slices and groups",
        chat("mig: 3g.20gb,3g.20gb", "devices_per_server: 2", "scratch: false", type_="p4d.24xlarge"),
        "13:27 GPU-INF-022",
    ),
    (
        "more servers than slices",
        chat("mig: 3g.20gb,3g.20gb", "min_servers_per_node: 17", "scratch: false", type_="p4d.24xlarge"),
        "13:29 GPU-INF-018",
    ),
    (
        "EFA",
        train(f"instance_type: p4d.24xlarge, nodes: 2, capacity: spot, mig: '{SEVENTHS}'"),
        "7:70 GPU-MIG-006",
    ),
    (
        "EFA, said",
        train("instance_type: p4d.24xlarge, nodes: 2, capacity: spot, mig: '9,9', efa: true"),
        "7:70 GPU-MIG-006",
    ),
    ("training GPU without MIG", train("instance_type: g6.xlarge, nodes: 2, mig: '0'"), "7:51 GPU-MIG-001"),
]
WRONG_NETWORKS = [
    (
        "one control zone",
        chat(net=NET.replace(" }", ", control_availability_zones: [us-east-1a] }")),
        "4:43 GPU-NET-143",
    ),
    (
        "control zone twice",
        chat(net=NET.replace(" }", ", control_availability_zones: [us-east-1a, us-east-1a] }")),
        "4:84 GPU-NET-143",
    ),
    (
        "control zones of two kinds",
        chat(net=NET.replace(" }", ", control_availability_zones: [us-east-1a, us-west-2b, use1] }")),
        "4:84 GPU-NET-104, 4:96 GPU-NET-143, 4:96 GPU-NET-103",
    ),
    (
        "Local Zone as a control zone",
        chat(net=NET.replace(" }", ", control_availability_zones: [us-east-1a, us-east-1-dfw-2a] }")),
        "4:84 GPU-NET-143",
    ),
    ("reserved, and the zones not named", chat(RESERVED), "4:1 GPU-INF-026"),
    (
        "reserved outside the zones",
        chat(RESERVED, net=NAMED.replace("zone: us-east-1a", "zone: us-east-1c")),
        "4:43 GPU-INF-026",
    ),
    (
        "no public subnets here",
        chat(balancer=f"{{ certificate_arn: '{CERTIFICATE}', internet_facing: true }}"),
        "11:112 GPU-SPEC-028",
    ),
    ("no service subnets", chat(net=f"{VPC} }}"), "4:1 GPU-INF-014"),
    (
        "service subnet of one zone",
        chat(net=f"{VPC}, service_subnets: {{ us-east-1a: {ONE} }} }}"),
        "4:114 GPU-INF-014",
    ),
    (
        "service subnet twice",
        chat(net=f"{VPC}, service_subnets: {{ us-east-1a: {ONE}, us-east-1b: {ONE} }} }}"),
        "4:183 GPU-SPEC-019",
    ),
    (
        "service subnets as a list",
        chat(net=f"{VPC}, service_subnets: [{ONE}, {TWO}] }}"),
        "4:114 GPU-SPEC-007",
    ),
    (
        "zone and id of service subnets",
        chat(net=f"{VPC}, service_subnets: {{ us-west-2a: {ONE}, us-east-1b: sn-1 }} }}"),
        "4:183 GPU-SPEC-008",
    ),
    (
        "zone of another Region",
        chat(net=f"{VPC}, service_subnets: {{ us-west-2a: {ONE}, us-east-1b: {TWO} }} }}"),
        "4:133 GPU-NET-104",
    ),
    (
        "reserved outside the service subnets",
        chat(RESERVED, net=f"{VPC}, service_subnets: {{ us-east-1b: {ONE}, us-east-1c: {TWO} }} }}"),
        "4:114 GPU-INF-026",
    ),
    (
        "no public subnets",
        chat(
            balancer=f"{{ certificate_arn: '{CERTIFICATE}', internet_facing: true }}",
            net=f"{VPC}, service_subnets: {{ us-east-1a: {ONE}, us-east-1b: {TWO} }} }}",
        ),
        "4:1 GPU-INF-014",
    ),
    (
        "public subnets alone",
        chat(
            balancer=f"{{ certificate_arn: '{CERTIFICATE}', internet_facing: true }}",
            net=f"{VPC}, public_subnets: {{ us-east-1a: {ONE}, us-east-1b: {TWO} }} }}",
        ),
        "4:1 GPU-SPEC-031",
    ),
    (
        "public subnets in other zones",
        chat(
            balancer=f"{{ certificate_arn: '{CERTIFICATE}', internet_facing: true }}",
            net=f"{VPC}, service_subnets: {{ us-east-1a: {ONE}, us-east-1b: {TWO} }}, public_subnets: {{ us-east-1a: {ONE}, us-east-1c: {TWO} }} }}",
        ),
        "4:211 GPU-INF-026",
    ),
    (
        "no room for the nodes",
        chat(nodes="nodes: 104", net=NET.replace(" }", ", cidr: 10.0.0.0/20 }")),
        "4:49 GPU-IP-003",
    ),
    (
        "no room in the fleets' subnet",
        chat(RESERVED, nodes="nodes: 12", net=NAMED.replace(" }", ", fleet_subnet_prefix: 28 }")),
        "4:118 GPU-IP-003",
    ),
    (
        "image that a closed network does not reach",
        chat(net=NET.replace(" }", ", egress: closed }")),
        "10:24 GPU-SPEC-029",
    ),
    (
        "image of another Region in a closed network",
        chat(
            server="{ image: '111122223333.dkr.ecr.us-west-2.amazonaws.com/server:v1' }",
            net=NET.replace(" }", ", egress: closed }"),
        ),
        "10:24 GPU-SPEC-029",
    ),
    (
        "Region and everything in it misspelt",
        chat("placement: spread", nodes="nodes: 20").replace("us-east-1", "us-est-1"),
        "3:9 GPU-RGN-001, 12:18 GPU-PLC-003",
    ),
]
ALL = [*WRONG_SHAPES, *WRONG_FLEETS, *WRONG_LAYOUTS, *WRONG_NETWORKS]


@pytest.mark.parametrize(("text", "expected"), [pytest.param(text, found, id=name) for name, text, found in ALL])
def test_a_wrong_file_gives_its_findings(text: str, expected: str, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(text, encoding="utf-8")
    errors = [one for one in read_cluster(file).findings if one.severity.value == "error"]
    found = [f"{one.path.removeprefix(f'{file}:')} {one.id}" for one in errors]
    assert ", ".join(found) == expected, "\n".join(map(str, errors))
    assert all(one.cause and one.fix for one in errors)


def test_there_are_enough_wrong_files() -> None:
    assert len({name for name, _, _ in ALL}) == len(ALL) >= 40
