"""What a vLLM server needs: GPUs that hold its model and the longest request, time to drain, and kept connections."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import prod

from cdk_gpu_clusters.catalogue.instances import InstanceType
from cdk_gpu_clusters.catalogue.models import longest_context, nearest_shape
from cdk_gpu_clusters.errors import Finding, Severity, check, define_rule
from cdk_gpu_clusters.rules.inference import keep_alive_seconds
from cdk_gpu_clusters.rules.model_sizing import ModelGpus, Precision, ServingJob, plan_serving

MODEL_FITS = define_rule(
    "GPU-INF-027",
    "the GPUs of a vLLM server hold the model's weights, and the key-value cache of one request of the greatest length",
    source="vllm-project/vllm v0.11.0, vllm/v1/core/kv_cache_utils.py, which otherwise raises `To serve at least one "
    "request with the models's max seq len`",
)
GPUS_MATCH = define_rule(
    "GPU-INF-029",
    "a vLLM server has as many GPUs as its parallel sizes use",
    source="vllm-project/vllm, vllm/config/parallel.py: more workers than GPUs end it with an error, or wait for GPUs "
    "of other nodes; GPUs without a worker are idle",
)

# vllm-project/vllm v0.11.0, vllm/config/cache.py: gpu_memory_utilization.
_MEMORY_UTILIZATION = 0.9
# What a suggested length leaves besides: activations, CUDA graphs and fragments. This library's choice.
_MARGIN = 0.1
# The longest context of most models of 2024 to 2026, for those that the catalogue does not have.
_USUAL_CONTEXT_TOKENS = 131_072
_SHORTEST_POWER, _LONGEST_POWER = 10, 20

#: With it, a server has no metrics of its queue, its cache and its latency (vllm/engine/arg_utils.py).
NO_STATISTICS = "--disable-log-stats"

_ALIASES = {
    "-tp": "--tensor-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-dp": "--data-parallel-size",
    "-ep": "--enable-expert-parallel",
    "-q": "--quantization",
}
#: With these, what the GPUs hold does not follow from the arguments.
_UNKNOWN_MEMORY = frozenset(
    {"--config", "--cpu-offload-gb", "--enable-expert-parallel", "--load-format", "--num-gpu-blocks-override"}
)
#: With these, workers run on other nodes, too, or their number does not follow from the three sizes.
_OTHER_WORKERS = frozenset(
    {
        "--config",
        "--data-parallel-backend",
        "--data-parallel-size-local",
        "--distributed-executor-backend",
        "--nnodes",
        "--prefill-context-parallel-size",
    }
)
# How names of models and of vLLM's quantization methods (v0.11.0, vllm/model_executor/layers/quantization/__init__.py)
# say how weights are stored: sizes before methods. gpt-oss is published in MXFP4 (its model card).
_STORED_AS = (
    *((word, Precision.INT4) for word in ("int4", "w4a", "4bit", "fp4", "nf4")),
    *((word, Precision.INT8) for word in ("fp8", "int8", "w8a8", "8bit")),
    *((word, Precision.INT4) for word in ("awq", "gptq", "bitsandbytes", "bnb", "gpt-oss")),
)
# Quantized, in a size that the name does not say.
_OTHER_QUANTIZATION = re.compile(r"gguf|hqq|auto-?round|exl2|[-_.]q\d")
_VERSION = re.compile(r"(?:^|/)vllm-openai:v(\d+)\.(\d+)\.\d+(?:$|[-@])")
_DRAINS_SINCE = (0, 18)
#: How long a server keeps an idle connection, in seconds: 5 by default (vllm-project/vllm, pull request 18472 and
#: vllm/envs.py; vllm/entrypoints/launcher.py gives it to uvicorn as `timeout_keep_alive`).
KEEP_ALIVE = "VLLM_HTTP_TIMEOUT_KEEP_ALIVE"
# For proxies inside a cluster, which keep idle connections for 90 s: those of agentgateway (agentgateway/agentgateway
# @ 163ea21, crates/agentgateway/src/lib.rs: pool_idle_timeout), and programs in Go (net/http, DefaultTransport). llm-d
# sets the same number for its own (llm-d/llm-d, pull request 1564).
_SHORTEST_KEEP_ALIVE_SECONDS = 120
# What is left of the time after SIGTERM for the process to end. This library's choice.
_EXIT_SECONDS = 5
_SIZE = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)b(?![a-z0-9])")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Server:
    """What the arguments of vLLM say.

    Attributes:
        parameters: Parameters of the model, as its name has them.
        is_known: Whether its family is in the catalogue, so that its shape is known, and not only its size.
        context_tokens: The greatest length of a request; None if only the model knows it.
        is_explicit: Whether the arguments set it.
        gpus: GPUs that hold one copy of the model.
        utilization: Part of each GPU's memory that vLLM takes.
        precision: How the weights are stored.
        cache_is_8_bit: Whether the key-value cache is.
    """

    parameters: int
    is_known: bool
    context_tokens: int | None
    is_explicit: bool
    gpus: int
    utilization: float
    precision: Precision
    cache_is_8_bit: bool


def is_vllm(image: str) -> bool:
    """Whether the reference of a container image names vLLM, outside of its tag.

    Example:
        >>> is_vllm("vllm/vllm-openai:v0.11.0"), is_vllm("registry.example/tgi:vllm")
        (True, False)
    """
    registry, _, last = image.rpartition("/")
    return "vllm" in f"{registry}/{last.partition('@')[0].partition(':')[0]}"


def vllm_drain_arguments(image: str, command: Sequence[str], drain_seconds: int) -> list[str]:
    """Arguments with which vLLM ends its running requests after SIGTERM, as it does not by default.

    The image of the vLLM project has the option since v0.18 (vllm-project/vllm, pull request 36666). Other images, and
    tags that are no such version, get nothing: an older server would not start.

    Example:
        >>> vllm_drain_arguments("vllm/vllm-openai:v0.21.0", ["--model", "m"], 300)
        ['--shutdown-timeout', '295']
        >>> vllm_drain_arguments("vllm/vllm-openai:v0.11.0", ["--model", "m"], 300)
        []
    """
    found = _VERSION.search(image)
    if found is None or (int(found[1]), int(found[2])) < _DRAINS_SINCE or "--shutdown-timeout" in _options(command)[0]:
        return []
    return ["--shutdown-timeout", str(max(1, drain_seconds - _EXIT_SECONDS))]


def vllm_keep_alive(image: str, idle_timeout_seconds: int) -> dict[str, str]:
    """The variable with which vLLM keeps an idle connection until whoever sends requests has closed it.

    By default vLLM closes it after 5 seconds. A load balancer or a proxy that sends a request at this moment answers
    its client with 502 or 503. Other servers get nothing.

    Args:
        image: Reference of the container image, which names vLLM.
        idle_timeout_seconds: How long a load balancer in front keeps an idle connection. 120 seconds at least are set,
            for proxies inside the cluster.

    Example:
        >>> vllm_keep_alive("vllm/vllm-openai:v0.21.0", 300), vllm_keep_alive("vllm/vllm-openai:v0.21.0", 60)
        ({'VLLM_HTTP_TIMEOUT_KEEP_ALIVE': '315'}, {'VLLM_HTTP_TIMEOUT_KEEP_ALIVE': '120'})
    """
    if not is_vllm(image):
        return {}
    return {KEEP_ALIVE: str(max(_SHORTEST_KEEP_ALIVE_SECONDS, keep_alive_seconds(idle_timeout_seconds)))}


@check
def check_vllm_server(
    image: str, command: Sequence[str], *, weights: str = "", instance_type: InstanceType, devices_per_server: int
) -> Iterator[Finding]:
    """Find a vLLM server that has not the GPUs that it uses, or whose GPUs do not hold the longest request.

    Activations are not counted: a model that is refused does not fit, and one that is accepted may still be too large.
    Nothing is found for other servers. Memory is left alone for a model whose name does not contain its number of
    parameters, and for weights that are quantized in a way that states no size. A model whose family is not in the
    catalogue is a warning: its shape is only that of a model of its size.

    Args:
        image: Reference of the container image.
        command: Arguments of the container.
        weights: Path or address of the weights, which may name the model.
        instance_type: Type of the nodes.
        devices_per_server: GPUs of a server.

    Example:
        >>> from cdk_gpu_clusters.catalogue import instance_type
        >>> found = check_vllm_server(
        ...     "vllm/vllm-openai:v0.11.0", ["--model", "meta-llama/Llama-3.3-70B-Instruct", "-tp", "4"],
        ...     instance_type=instance_type("g6e.48xlarge"), devices_per_server=4,
        ... )
        >>> found[0].fix
        'add --max-model-len 32768'
    """
    if not is_vllm(image) or ModelGpus.of(instance_type) is None:
        return
    options, positional = _options(command)
    workers = _workers(options)
    if workers is None:
        return
    if workers > devices_per_server:
        yield _gpus_differ(workers, devices_per_server)
        return
    server = _read(options, positional, weights)
    unfit = None if server is None else _unfit(server, instance_type)
    if unfit is not None:
        yield unfit
    elif workers < devices_per_server:
        yield _gpus_differ(workers, devices_per_server)


def _unfit(server: _Server, instance_type: InstanceType) -> Finding | None:
    """The finding about a model and a longest request that the GPUs do not hold."""
    tokens = server.context_tokens or _USUAL_CONTEXT_TOKENS
    needed = _smallest_group(server, instance_type, tokens)
    if needed and needed <= server.gpus:
        return None
    length = f"{tokens:,} tokens" if server.context_tokens else "the model's longest context"
    return MODEL_FITS.finding(
        cause="vLLM ends at its start if its GPUs do not hold the model and one request of the greatest length"
        if server.context_tokens
        else "without --max-model-len vLLM takes the model's longest context, which its GPUs may not hold",
        got=f"{length}, {server.parameters / 10**9:.3g}B parameters as {server.precision.value}, {server.gpus} of "
        f"{instance_type.name}'s GPUs",
        allowed="a length, a precision and a number of GPUs that fit together",
        fix=_fix(server, instance_type, needed),
        severity=Severity.ERROR if server.is_known else Severity.WARNING,
    )


def _workers(options: Mapping[str, str]) -> int | None:
    """Processes with a GPU each; None if the arguments do not tell."""
    if _OTHER_WORKERS & set(options):
        return None
    try:
        return prod(int(options.get(f"--{how}-parallel-size", "1")) for how in ("tensor", "pipeline", "data"))
    except ValueError:
        return None  # vLLM refuses it with words of its own


def _gpus_differ(workers: int, devices_per_server: int) -> Finding:
    is_short = workers > devices_per_server
    return GPUS_MATCH.finding(
        cause="vLLM ends at its start, or waits for GPUs of other nodes, if its container has fewer GPUs than it uses"
        if is_short
        else "vLLM uses one GPU for each worker, and leaves the others of its container idle",
        got=f"{workers} workers (tensor x pipeline x data parallel size), {devices_per_server} GPUs for each server",
        allowed="as many workers as GPUs",
        fix=f"set devices_per_server to {workers}, or add --tensor-parallel-size {devices_per_server}",
        severity=Severity.ERROR if is_short else Severity.WARNING,
    )


def _fix(server: _Server, instance_type: InstanceType, needed: int) -> str:
    lengths = (2**power for power in range(_LONGEST_POWER, _SHORTEST_POWER - 1, -1))
    for tokens in lengths:
        group = _smallest_group(server, instance_type, tokens, margin=_MARGIN)
        if group and group <= server.gpus:
            return f"{'use' if server.is_explicit else 'add'} --max-model-len {tokens}"
    if needed:
        return f"give each server {needed} GPUs, and add --tensor-parallel-size {needed}"
    return "choose a type with more GPU memory, or quantized weights"


def _smallest_group(server: _Server, instance_type: InstanceType, tokens: int, *, margin: float = 0) -> int:
    """GPUs that hold the model and one request; 0 if a node has not enough."""
    job = ServingJob(
        shape=nearest_shape(server.parameters),
        parameters=server.parameters,
        precision=server.precision,
        context_tokens=tokens // 2 if server.cache_is_8_bit else tokens,
        concurrent_requests=1,
        replicas=1,
        reserve=1 - server.utilization + margin,
    )
    plans = [plan for plan in plan_serving(job, instance_type) if plan.mig_profile is None]
    return plans[0].devices_per_replica if plans else 0


def _read(options: Mapping[str, str], positional: Sequence[str], weights: str) -> _Server | None:
    names = [options.get("--model", ""), *positional, weights, options.get("--served-model-name", "")]
    name = next((one for one in map(str.lower, names) if _SIZE.search(one)), "")
    found = _SIZE.search(name)
    if found is None or _UNKNOWN_MEMORY & set(options):
        return None
    given = options.get("--max-model-len")
    if given in ("auto", "-1"):  # later versions choose what fits
        return None
    try:
        gpus = [int(options.get(f"--{how}-parallel-size", "1")) for how in ("tensor", "pipeline")]
        utilization = float(options.get("--gpu-memory-utilization", _MEMORY_UTILIZATION))
        tokens = longest_context(name) if given is None else _tokens(given)
    except ValueError:
        return None  # vLLM refuses it with words of its own
    precision = _precision(name, options.get("--quantization", "").lower())
    if precision is None:
        return None
    return _Server(
        parameters=int(float(found[1]) * 10**9),
        is_known=longest_context(name) is not None,
        context_tokens=tokens,
        is_explicit=given is not None,
        gpus=gpus[0] * gpus[1],
        utilization=utilization,
        precision=precision,
        cache_is_8_bit=options.get("--kv-cache-dtype", "").startswith("fp8"),
    )


def _precision(name: str, quantization: str) -> Precision | None:
    """How the weights are stored; None if they are quantized in a way that states no size."""
    found = next((precision for word, precision in _STORED_AS if word in f"{name} {quantization}"), None)
    if found is None and not quantization and not _OTHER_QUANTIZATION.search(name):
        return Precision.FP16
    return found


def _options(command: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The options with their values, by their long names with dashes, and the other arguments."""
    options, positional = dict[str, str](), list[str]()
    waiting = ""
    for argument in command:
        if argument.startswith("-") and not argument[1:2].isdigit():
            name, _, value = argument.partition("=")
            waiting = _ALIASES.get(name, name.replace("_", "-"))
            options[waiting] = value
        elif waiting and not options[waiting]:
            options[waiting] = argument
        else:
            positional.append(argument)
    return options, positional


def _tokens(text: str) -> int:
    """Tokens as vLLM reads them: 16k is 16,000, and 16K is 16,384 (vllm/utils/argparse_utils.py)."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmM]?)", text.strip())
    if found is None:
        raise ValueError(text)
    return int(Decimal(found[1]) * {"": 1, "k": 10**3, "K": 2**10, "m": 10**6, "M": 2**20}[found[2]])
