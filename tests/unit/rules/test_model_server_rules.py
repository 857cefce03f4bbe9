"""How many model servers a node runs, with which devices and ports, and what a user may say about them."""

from __future__ import annotations

from typing import Any

import pytest

from cdk_gpu_clusters.catalogue import AcceleratorKind, instance_types
from cdk_gpu_clusters.errors import ConfigError, Finding
from cdk_gpu_clusters.rules.model_servers import (
    DeviceKind,
    ServerSlots,
    check_container_image,
    check_health_path,
    check_secret_arn,
    check_variables,
    check_weights,
    plan_servers,
)

DIGEST = "@sha256:" + "0123456789abcdef" * 4


def ids(findings: list[Finding] | tuple[Finding, ...]) -> list[str]:
    return [finding.id for finding in findings]


@pytest.mark.parametrize(
    ("name", "slots", "kind", "count", "each"),
    [
        ("g5.2xlarge", None, DeviceKind.GPU, 1, 1),
        ("g6f.large", None, DeviceKind.GPU, 1, 1),  # an eighth of a GPU is one device
        ("g6e.48xlarge", ServerSlots.tensor_parallel(4), DeviceKind.GPU, 2, 4),
        ("p5.48xlarge", ServerSlots.tensor_parallel(8), DeviceKind.GPU, 1, 8),
        ("p4d.24xlarge", ServerSlots.per_mig_slice(56), DeviceKind.MIG_SLICE, 56, 1),
        ("p4d.24xlarge", ServerSlots.per_mig_slice(3), DeviceKind.MIG_SLICE, 3, 1),
        ("inf2.48xlarge", ServerSlots.per_accelerator(), DeviceKind.NEURON, 12, 1),
        ("trn1.32xlarge", ServerSlots.tensor_parallel(8), DeviceKind.NEURON, 2, 8),
    ],
)
def test_the_servers_of_a_node(name: str, slots: ServerSlots | None, kind: DeviceKind, count: int, each: int) -> None:
    plan = plan_servers(name, slots)
    assert (plan.kind, plan.server_count) == (kind, count)
    assert {len(devices) for devices in plan.devices} == {each}
    flat = [device for devices in plan.devices for device in devices]
    assert flat == list(range(count * each)), "every device serves once, in order"
    assert plan.server_ports == tuple(range(9000, 9000 + count))


def test_one_server_per_accelerator_uses_every_accelerator_of_every_type() -> None:
    seen = set()
    for name, record in instance_types().items():
        if record.accelerator is None:
            continue
        plan = plan_servers(name)
        assert plan.server_count == max(record.accelerator.count, record.accelerator.logical_count), name
        assert (plan.kind is DeviceKind.NEURON) == (record.accelerator.kind is AcceleratorKind.NEURON)
        seen.add(plan.kind)
    assert seen == {DeviceKind.GPU, DeviceKind.NEURON}


@pytest.mark.parametrize(
    ("name", "slots", "options", "expected"),
    [
        ("g6e.48xlarge", ServerSlots.tensor_parallel(3), {}, ["GPU-INF-001"]),
        ("g6e.48xlarge", ServerSlots.tensor_parallel(16), {}, ["GPU-INF-001"]),
        ("g6e.48xlarge", ServerSlots.tensor_parallel(0), {}, ["GPU-INF-001"]),
        ("m8g.4xlarge", None, {}, ["GPU-INF-002"]),
        ("g5.2xlarge", ServerSlots.per_mig_slice(1), {}, ["GPU-INF-002"]),
        ("inf2.48xlarge", ServerSlots.per_mig_slice(1), {}, ["GPU-INF-002"]),
        ("p4d.24xlarge", ServerSlots.per_mig_slice(57), {}, ["GPU-INF-003"]),
        ("p4d.24xlarge", ServerSlots.per_mig_slice(0), {}, ["GPU-INF-003"]),
        ("g5.2xlarge", None, {"port": 80}, ["GPU-INF-004"]),
        ("g5.2xlarge", None, {"first_server_port": 40_000}, ["GPU-INF-004"]),
        ("p4d.24xlarge", ServerSlots.per_mig_slice(56), {"first_server_port": 32_760}, ["GPU-INF-004"]),
        ("p4d.24xlarge", ServerSlots.per_mig_slice(56), {"port": 9055}, ["GPU-INF-004"]),
        ("g5.2xlarge", None, {"port": 9000}, ["GPU-INF-004"]),
        ("g5.2xlarge", None, {"stats_port": 8080}, ["GPU-INF-004"]),
        ("g6e.48xlarge", ServerSlots.tensor_parallel(3), {"port": 0}, ["GPU-INF-001", "GPU-INF-004"]),
    ],
)
def test_what_a_node_cannot_run(
    name: str, slots: ServerSlots | None, options: dict[str, Any], expected: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        plan_servers(name, slots, **options)
    assert ids(caught.value.findings) == expected
    assert all(finding.got and finding.allowed and finding.fix for finding in caught.value.findings)


def test_a_refused_group_names_the_sizes_that_work() -> None:
    with pytest.raises(ConfigError, match="1, 2, 3, 4, 6, 12"):
        plan_servers("inf2.48xlarge", ServerSlots.tensor_parallel(5))


@pytest.mark.parametrize(
    ("name", "size", "expected"),
    [("g6e.48xlarge", 2, ["GPU-INF-010"]), ("g6e.48xlarge", 1, []), ("p5.48xlarge", 8, [])],
)
def test_groups_without_nvlink_are_pointed_out(name: str, size: int, expected: list[str]) -> None:
    assert ids(plan_servers(name, ServerSlots.tensor_parallel(size)).findings) == expected


@pytest.mark.parametrize(
    ("path", "good"),
    [
        ("/health", True),
        ("/v2/health/ready", True),
        ("/ping?deep=1", True),
        ("health", False),
        ("", False),
        ("/a b", False),
        ("/a\n    server evil 10.0.0.1:80", False),
        ("/a#b", False),
        ('/a"b', False),
        ("/é", False),
    ],
)
def test_health_paths(path: str, good: bool) -> None:
    assert ids(check_health_path(path)) == ([] if good else ["GPU-INF-005"])


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("vllm/vllm-openai:v0.11.0", []),
        ("123456789012.dkr.ecr.us-east-1.amazonaws.com/team/server:2026-11-01", []),
        ("registry.example.com:5000/server" + DIGEST, []),
        ("server:1" + DIGEST, []),
        ("localhost:5000/server:1", []),
        ("vllm/vllm-openai", ["GPU-INF-007"]),
        ("vllm/vllm-openai:latest", ["GPU-INF-007"]),
        ("https://registry.example.com/server:1", ["GPU-INF-006"]),
        ("Server:1", ["GPU-INF-006"]),
        ("server:", ["GPU-INF-006"]),
        ("server:1 --privileged", ["GPU-INF-006"]),
        ("server@sha256:abc", ["GPU-INF-006"]),
        ("--privileged", ["GPU-INF-006"]),
        ("", ["GPU-INF-006"]),
    ],
)
def test_images(image: str, expected: list[str]) -> None:
    assert ids(check_container_image(image)) == expected


@pytest.mark.parametrize(
    ("environment", "secrets", "count"),
    [
        ({"MAX_MODEL_LEN": "8192", "EMPTY": ""}, ["HF_TOKEN"], 0),
        ({"MAX-LEN": "1"}, [], 1),
        ({"A": "1\nB=2"}, [], 1),
        ({"A": "1"}, ["A"], 1),
        ({"MODEL_SERVER_INDEX": "1"}, [], 1),
        ({}, ["1ST"], 1),
    ],
)
def test_variables(environment: dict[str, str], secrets: list[str], count: int) -> None:
    assert ids(check_variables(environment, secrets)) == ["GPU-INF-008"] * count


@pytest.mark.parametrize(
    ("arn", "good"),
    [
        ("arn:aws:secretsmanager:us-east-1:123456789012:secret:hub-AbCdEf", True),
        ("arn:aws-cn:ssm:cn-north-1:123456789012:parameter/models/token", True),
        ("arn:aws-us-gov:secretsmanager:us-gov-west-1:123456789012:secret:a/b-AbCdEf", True),
        ("hf_abcdefgh", False),
        ("arn:aws:s3:::bucket", False),
        ("arn:aws:ssm:us-east-1:123456789012:document/x", False),
    ],
)
def test_secret_arns(arn: str, good: bool) -> None:
    assert ids(check_secret_arn(arn)) == ([] if good else ["GPU-INF-009"])


@pytest.mark.parametrize(
    ("path", "uri", "count"),
    [
        ("/fsx/models/llama-3", None, 0),
        ("/opt/models", "s3://bucket/llama/", 0),
        ("models", None, 1),
        ("/", None, 1),
        ("/fsx/../etc", None, 1),
        ("/fsx/a:b", None, 1),
        ("/opt/models", "https://bucket.s3.amazonaws.com", 1),
    ],
)
def test_weights(path: str, uri: str | None, count: int) -> None:
    assert ids(check_weights(path, uri)) == ["GPU-INF-011"] * count
