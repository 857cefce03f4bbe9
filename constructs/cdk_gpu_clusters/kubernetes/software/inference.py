"""Charts of the inference extension of the Gateway API: a gateway that knows pools of servers, and their pickers.

An InferencePool is the servers of one model. The gateway asks the endpoint picker of the pool for each request, and the
picker knows the queue and the cache of each server, and which server has seen the beginning of a prompt.

Sources: kubernetes-sigs/gateway-api-inference-extension @ 992e5c2 (v1.6.0), README.md: the InferencePool stays there,
the endpoint picker has moved to llm-d/llm-d-router; llm-d/llm-d-router @ 71f4f09 (v0.10.0), config/charts, and
pkg/epp/framework/plugins/datalayer/extractor/metrics/factories.go (metrics of vLLM that it reads);
agentgateway/agentgateway @ 163ea21 (v1.4.1), controller/install/helm (read 2026-11-28).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

from cdk_gpu_clusters.catalogue.kubernetes import SystemPods, chart, inference_pool_crd
from cdk_gpu_clusters.errors import Finding, check, define_rule, raise_for
from cdk_gpu_clusters.kubernetes.model_server import ServerPod
from cdk_gpu_clusters.kubernetes.objects import DEFAULT_NAMESPACE, KubernetesObject, check_name, short_name
from cdk_gpu_clusters.kubernetes.software.release import ChartRelease, ImageMirror, SoftwareSource
from cdk_gpu_clusters.rules.inference import check_counts
from cdk_gpu_clusters.rules.model_servers import check_container_port
from cdk_gpu_clusters.rules.vllm import NO_STATISTICS, is_vllm

#: Where the controller of agentgateway is. Its proxies are where their gateways are.
AGENTGATEWAY_NAMESPACE = "agentgateway-system"
#: Label of the pods of a model, and those of the leaders of a LeaderWorkerSet, which alone answer requests
#: (kubernetes-sigs/lws v0.10.0, api/leaderworkerset/v1).
_NAME, _SET, _WORKER = (
    "app.kubernetes.io/name",
    "leaderworkerset.sigs.k8s.io/name",
    "leaderworkerset.sigs.k8s.io/worker-index",
)
_POOL = "-pool"
#: The chart cuts names of releases at 40 characters (routerlib/templates/_helpers.tpl), which two pools could share.
_LONGEST_MODEL = 40 - len(_POOL)
#: The chart of a pool and its endpoint picker.
POOL_CHART = "llm-d-router-gateway"
_OWN = "this library's choice"
#: The proxies of a gateway, and what each asks for: the controller of agentgateway sets nothing.
PROXIES = SystemPods(name="proxies of agentgateway", cpu_millicores=250, memory_mib=256, replicas=2, source=_OWN)
# The chart asks for 8 CPUs and 8 GiB, more than a system node has by default.
_PICKER = SystemPods(name="endpoint pickers", cpu_millicores=250, memory_mib=512, replicas=1, source=_OWN)

# The first three, which the picker has by default, know the requests that they choose by: of other paths, such as
# /tokenize, /rerank and /v1/audio/transcriptions, it would answer 400. The last one has no paths, and takes the rest
# (llm-d/llm-d-router v0.10.0, pkg/epp/config/loader/defaults.go: ensureParsers; pkg/epp/handlers/parsers.go).
_PARSERS = ("openai-parser", "anthropic-parser", "vllmhttp-parser", "passthrough-parser")

PICKED_METRICS = define_rule(
    "GPU-SRV-040",
    "the servers of an inference pool are of vLLM, with its statistics",
    source="llm-d/llm-d-router v0.10.0, pkg/epp/framework/plugins/datalayer/extractor/metrics/factories.go: "
    "vllm:num_requests_waiting, vllm:kv_cache_usage_perc; vllm-project/vllm, vllm/v1/engine/async_llm.py: "
    "disable_log_stats",
)


def inference_pool_definition() -> KubernetesObject:
    """The CustomResourceDefinition of InferencePool, v1, which comes before the pools. Its project publishes no chart.

    Example:
        >>> inference_pool_definition()["metadata"]["name"]
        'inferencepools.inference.networking.k8s.io'
    """
    return deepcopy(dict(inference_pool_crd()))


def agentgateway_charts(*, mirror: ImageMirror | None = None) -> tuple[ChartRelease, ...]:
    """The charts of agentgateway, which makes proxies of each gateway of its class: its CRDs, and its controller.

    The CRDs of the Gateway API come before: `LoadBalancerController` installs them. Helm keeps a release in a Secret of
    1 MiB at most (helm.sh, "Storage backends"): the one of the CRDs takes about 740 KB of it.

    Args:
        mirror: Registries of a closed network, which hold copies of charts and images.

    Example:
        >>> [one.name for one in agentgateway_charts()]
        ['agentgateway-crds', 'agentgateway']
    """
    source = SoftwareSource(mirror=mirror)
    values: dict[str, Any] = {
        "inferenceExtension": {"enabled": True},
        "controller": {"image": source.registry_and_path("agentgateway-controller")},
        "proxy": {"image": source.registry_and_path("agentgateway")},
    }
    return (
        source.release("agentgateway-crds", AGENTGATEWAY_NAMESPACE, {}),
        source.release("agentgateway", AGENTGATEWAY_NAMESPACE, values),
    )


def requested(pods: SystemPods, *, memory_limit: str) -> dict[str, Any]:
    """Resources of a container. It may use any CPU that is free.

    Args:
        pods: What each asks for.
        memory_limit: Most memory.
    """
    return {
        "requests": {"cpu": f"{pods.cpu_millicores}m", "memory": f"{pods.memory_mib}Mi"},
        "limits": {"memory": memory_limit},
    }


def inference_pool_name(model: str) -> str:
    """Name of the InferencePool of a model, and of the release that makes it: with a digest in place of a long end.

    Args:
        model: Name of the model.

    Example:
        >>> inference_pool_name("chat"), inference_pool_name("a" * 36)
        ('chat-pool', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaa-22c1d2-pool')
    """
    return f"{short_name(model, _LONGEST_MODEL)}{_POOL}"


def inference_pool_chart(
    model: str,
    server: ServerPod,
    *,
    nodes_per_server: int = 1,
    namespace: str = DEFAULT_NAMESPACE,
    mirror: ImageMirror | None = None,
) -> ChartRelease:
    """The InferencePool of a model and its endpoint picker, by the chart of llm-d, for vLLM servers.

    The picker prefers servers with a short queue, with room in the cache of keys and values, and with the beginning of
    the prompt in their cache. These are the weights of the chart. Requests of paths that it does not know, such as
    `/tokenize` and `/rerank`, go to a server by its queue and cache alone.

    Requests and answers pass through the picker, and there is one. While it is away, agentgateway 1.4.1 answers
    requests that have a body with 500, in spite of the chart's `FailOpen`. Answers that are under way when it ends are
    cut. An update of the chart ends it before the next one starts, and running answers get 130 seconds.

    Sources: agentgateway/agentgateway @ 163ea21, crates/agentgateway/src/http/ext_proc.rs and ext_proc/processing.rs
    (should_fail_open_on_disconnect), issue 3473, pull request 3542; llm-d/llm-d-router v0.10.0,
    config/charts/routerlib/templates/_deployment.yaml (Recreate, terminationGracePeriodSeconds).

    Args:
        model: Name of the model, as `model_deployment` or `multi_node_model` has it.
        server: Its server.
        nodes_per_server: Nodes of each server: with `multi_node_model`, requests go to the leaders.
        namespace: Namespace of the model and of its gateway.
        mirror: Registries of a closed network, which hold copies of chart and image.

    Raises:
        ConfigError: GPU-K8S-001, GPU-INF-019, GPU-SRV-040 and faults of the port, all at once.

    Example:
        >>> release = inference_pool_chart("chat", ServerPod(image="vllm/vllm-openai:v0.21.0"))
        >>> release.name, release.values["router"]["modelServers"]["matchLabels"]
        ('chat-pool', {'app.kubernetes.io/name': 'chat'})
    """
    raise_for(
        [
            *check_name(model, path="model"),
            *check_name(namespace, path="namespace"),
            *check_container_port(server.port),
            *check_counts(nodes_per_server=nodes_per_server),
            *check_picked_server(server.image, server.command),
        ]
    )
    source = SoftwareSource(mirror=mirror)
    pods = {_NAME: model} if nodes_per_server == 1 else {_SET: model, _WORKER: "0"}
    values: dict[str, Any] = {
        "router": {
            "epp": {
                "image": {**source.registry_and_path("llm-d-endpoint-picker"), "pullPolicy": "IfNotPresent"},
                "parsers": list(_PARSERS),
                "resources": requested(_PICKER, memory_limit="4Gi"),
            },
            "modelServers": {"type": "vllm", "targetPorts": [{"number": server.port}], "matchLabels": pods},
        }
    }
    release = source.release(POOL_CHART, namespace, values)
    return replace(release, name=inference_pool_name(model))


def inference_pods(models: int) -> tuple[SystemPods, ...]:
    """What the gateway with its proxies and the endpoint pickers ask of nodes without accelerators.

    Args:
        models: Number of pools.

    Example:
        >>> [(one.name, one.replicas) for one in inference_pods(3)]
        [('agentgateway', 1), ('proxies of agentgateway', 2), ('endpoint pickers', 3)]
    """
    of_chart = chart("agentgateway").source
    controller = SystemPods(name="agentgateway", cpu_millicores=100, memory_mib=128, replicas=1, source=of_chart)
    return controller, PROXIES, replace(_PICKER, replicas=models)


@check
def check_picked_server(image: str, command: Sequence[str]) -> Iterator[Finding]:
    """Find a server whose queue and cache an endpoint picker cannot read.

    Args:
        image: Reference of the container image, which names vLLM.
        command: Arguments of the container.

    Example:
        >>> [one.id for one in check_picked_server("vllm/vllm-openai:v0.21.0", ["--disable-log-stats"])]
        ['GPU-SRV-040']
    """
    is_silent = NO_STATISTICS in command
    if is_silent or not is_vllm(image):
        yield PICKED_METRICS.finding(
            cause="the endpoint picker reads metrics of vLLM, and would send requests blindly",
            got=NO_STATISTICS if is_silent else image,
            allowed="an image of vLLM, whose reference names it, with its statistics on",
            fix=f"take {NO_STATISTICS} out of the command" if is_silent else "use model_route for other servers",
            path="server.command" if is_silent else "server.image",
        )
