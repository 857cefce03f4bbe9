"""What vLLM refuses at its start: other GPUs than it uses, or a model and a longest request that do not fit."""

from __future__ import annotations

import pytest

from cdk_gpu_clusters.catalogue.instances import instance_type
from cdk_gpu_clusters.catalogue.models import longest_context
from cdk_gpu_clusters.errors import Finding, Severity
from cdk_gpu_clusters.rules.vllm import check_vllm_server, vllm_drain_arguments

LLAMA = "meta-llama/Llama-3.3-70B-Instruct"
ON_FOUR = ["--tensor-parallel-size", "4"]
GIB = 2**30


def check(*command: str, type_name: str = "g6e.48xlarge", devices: int = 4, **options: str) -> list[Finding]:
    image = options.pop("image", "vllm/vllm-openai:v0.11.0")
    record = instance_type(type_name)
    return check_vllm_server(image, command, instance_type=record, devices_per_server=devices, **options)


def test_the_arithmetic_of_vllm_itself() -> None:
    """A worker has 0.9 of its GPU; its weights and a fourth of the cache must fit (kv_cache_utils.py, v0.11.0)."""
    (found,) = check("--model", LLAMA, *ON_FOUR)
    weights, cache = 70e9 * 2, 2 * 2 * 80 * 8 * 128 * 131_072
    usable = 4 * 0.9 * 45_776 * 2**20
    assert (round(weights / GIB), round(cache / GIB)) == (130, 40)
    assert weights + cache > usable > weights + cache / 4
    assert (found.id, found.severity, found.fix) == ("GPU-INF-027", Severity.ERROR, "add --max-model-len 32768")


@pytest.mark.parametrize(
    "command",
    [
        ["--model", LLAMA, *ON_FOUR, "--max-model-len", "32768"],
        ["--model", LLAMA, *ON_FOUR, "--max_model_len=32K"],
        ["serve", LLAMA, "-tp", "4", "--max-model-len", "auto"],
        ["--model", LLAMA, *ON_FOUR, "--kv-cache-dtype", "fp8"],
        ["--model", "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", *ON_FOUR],
        ["--model", LLAMA, *ON_FOUR, "--cpu-offload-gb", "40"],
        ["--model", "meta-llama/Llama-3.1-8B-Instruct", *ON_FOUR],
        ["--model", "meta-llama/Llama-2-7b-chat-hf", *ON_FOUR],
        ["--model", "meta-llama/Llama-2-70b-chat-hf", *ON_FOUR],
        ["--model", "/fsx/assistant/v1", *ON_FOUR],
        ["--model", LLAMA, "--tensor-parallel-size", "four"],
        ON_FOUR,
    ],
)
def test_what_fits_or_cannot_be_known(command: list[str]) -> None:
    assert check(*command) == []


@pytest.mark.parametrize(
    ("command", "fix"),
    [
        (["--model", LLAMA, *ON_FOUR, "--max-model-len", "128k"], "use --max-model-len 32768"),
        (["serve", LLAMA, "-tp=2", "--max-model-len", "4096"], "give each server 4 GPUs, and add --tensor-parallel-size 4"),
        (["--model", LLAMA], "give each server 8 GPUs, and add --tensor-parallel-size 8"),
        (["--model", "meta-llama/Llama-3.1-405B", "-tp", "4"], "choose a type with more GPU memory, or quantized weights"),
    ],
)  # fmt: skip
def test_what_ends_at_its_start(command: list[str], fix: str) -> None:
    assert [(found.severity, found.fix) for found in check(*command)] == [(Severity.ERROR, fix)]


@pytest.mark.parametrize(
    ("command", "devices", "severity"),
    [
        (["--model", "m", "-tp", "8"], 4, Severity.ERROR),
        (["serve", "m", "--tensor-parallel-size=2", "-pp", "2", "-dp", "2"], 4, Severity.ERROR),
        (["--model", "m"], 4, Severity.WARNING),
        (["--model", "m", "-tp", "2", "-dp", "2"], 4, None),
        (["--model", "m", "-tp", "8", "--distributed-executor-backend", "ray"], 4, None),
        (["--model", "m", "-tp", "8", "--nnodes", "2"], 4, None),
        (["--config", "/etc/vllm.yaml"], 4, None),
        (["--model", "m", "-tp", "four"], 4, None),
    ],
)  # fmt: skip
def test_a_server_has_the_gpus_that_it_uses(command: list[str], devices: int, severity: Severity | None) -> None:
    found = check(*command, devices=devices)
    assert [(one.id, one.severity) for one in found] == ([("GPU-INF-029", severity)] if severity else [])


@pytest.mark.parametrize(
    "command",
    [
        ["--model", LLAMA, "--quantization", "bitsandbytes"],
        ["--model", LLAMA, "--quantization", "modelopt_fp4"],
        ["--model", LLAMA, "-q", "hqq"],
        ["--model", "unsloth/Llama-3.3-70B-Instruct-bnb-4bit"],
        ["--model", "nvidia/Llama-3.3-70B-Instruct-FP4"],
        ["--model", "my-org/Llama-3.3-70B-Instruct-AutoRound"],
        ["--model", "bartowski/Llama-3.3-70B-Instruct-Q4_K_M.gguf"],
    ],
)
def test_quantized_weights_are_not_taken_for_16_bits(command: list[str]) -> None:
    """Four bits of 70B parameters are 33 GiB, which one L40S holds (vLLM's guide, "BitsAndBytes")."""
    assert check(*command, "--max-model-len", "4096", type_name="g6e.2xlarge", devices=1) == []


def test_expert_parallel_weights_are_left_alone() -> None:
    command = ["--model", "my-org/Llama-3.3-70B-Instruct", "-tp", "1", "-dp", "4", "--enable-expert-parallel"]
    assert check(*command) == []


def test_a_model_of_unknown_context_is_a_warning() -> None:
    (found,) = check("--model", "my-org/answers-70b", *ON_FOUR)
    assert (found.severity, found.fix) == (Severity.WARNING, "add --max-model-len 32768")
    assert check("--model", "my-org/answers-70b", "-tp", "8", type_name="p5.48xlarge", devices=8) == []


@pytest.mark.parametrize(
    ("command", "severities"),
    [
        (["--model", "my-org/answers-70b", *ON_FOUR, "--max-model-len", "128K"], [Severity.WARNING]),
        (["--model", "my-org/answers-70b", *ON_FOUR, "--max-model-len", "32768"], []),
        (["--model", "openai/gpt-oss-120b", *ON_FOUR, "--max-model-len", "131072"], []),
        (["--model", "mistralai/Mixtral-8x7B-v0.1", *ON_FOUR], []),
    ],
)
def test_a_shape_that_is_only_guessed_refuses_nothing(command: list[str], severities: list[Severity]) -> None:
    assert [found.severity for found in check(*command)] == severities


def test_the_weights_name_the_model() -> None:
    (found,) = check("--model", "/scratch/llama", *ON_FOUR, weights="s3://my-models/llama-3.3-70b-instruct")
    assert found.severity is Severity.ERROR


@pytest.mark.parametrize("image", ["ghcr.io/huggingface/text-generation-inference:3.3.4", "registry.example/tgi:vllm"])
def test_other_servers_are_left_alone(image: str) -> None:
    assert check("--model", LLAMA, *ON_FOUR, image=image) == []


def test_types_without_complete_gpus_are_left_alone() -> None:
    assert check("--model", LLAMA, *ON_FOUR, type_name="inf2.48xlarge") == []
    assert check("--model", LLAMA, *ON_FOUR, type_name="g6f.large", devices=1) == []


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("meta-llama/Llama-2-7b-hf", 4096),
        ("meta-llama/Meta-Llama-3-8B", 8192),
        ("llama_3.1_8b", 131_072),
        ("s3://models/llama3.3-70b", 131_072),
        ("llama-70b", None),
        ("Qwen/Qwen2.5-72B", None),
    ],
)
def test_the_longest_context_of_a_family(name: str, tokens: int | None) -> None:
    assert longest_context(name) == tokens


@pytest.mark.parametrize(
    ("image", "command", "arguments"),
    [
        ("vllm/vllm-openai:v0.18.0", ["serve", "m"], ["--shutdown-timeout", "115"]),
        ("registry.example/mirror/vllm-openai:v1.2.0-cu130", ["serve", "m"], ["--shutdown-timeout", "115"]),
        ("vllm/vllm-openai:v0.21.0", ["serve", "m", "--shutdown-timeout=30"], []),
        ("vllm/vllm-openai:v0.17.1", ["serve", "m"], []),
        ("vllm/vllm-openai:latest", ["serve", "m"], []),
        ("registry.example/own-vllm:v2.0.0", ["serve", "m"], []),
    ],
)
def test_vllm_is_told_to_end_its_requests(image: str, command: list[str], arguments: list[str]) -> None:
    """Since v0.18; the default aborts them at SIGTERM."""
    assert vllm_drain_arguments(image, command, 120) == arguments
