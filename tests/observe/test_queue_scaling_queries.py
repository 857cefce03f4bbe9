"""What KEDA asks of the metrics of vLLM servers, answered by Prometheus' own engine."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml

from cdk_gpu_clusters.kubernetes.queue_scaling import PrometheusWorkspace, QueueScaling, scaled_model

SCALING = QueueScaling(
    workspace=PrometheusWorkspace(workspace_id="ws-0123abcd", region="us-east-1"), tokens_per_second_per_server=2000
)
#: Two pods of `chat`, one of another Deployment whose name begins alike, and one of another namespace.
CHAT = ('namespace="default",pod="chat-7d9f6c5b8d-x2v9k"', 'namespace="default",pod="chat-7d9f6c5b8d-4m7qz"')
OTHERS = ('namespace="default",pod="chat-large-5c8d7f9b6d-h5t2w"', 'namespace="research",pod="chat-7d9f6c5b8d-x2v9k"')


def queries() -> list[str]:
    _, scaled = scaled_model("chat", SCALING, 4)
    return [trigger["metadata"]["query"] for trigger in scaled["spec"]["triggers"]]


def series(name: str, values: str, of_others: str) -> dict[str, str]:
    """A metric of every pod, with vLLM's own labels."""
    own = 'model_name="Qwen/Qwen3-8B",engine="0"'
    given = {**dict.fromkeys(CHAT, values), **dict.fromkeys(OTHERS, of_others)}
    return {f"{name}{{{labels},{own}}}": one for labels, one in given.items()}


def test_each_query_has_one_answer_over_the_servers_of_the_model(promtool: str, tmp_path: Path) -> None:
    given = {
        **series("vllm:num_requests_waiting", "3x20", "500x20"),
        **series("vllm:kv_cache_usage_perc", "0.8x20", "1x20"),
        **series("vllm:generation_tokens_total", "0+90000x20", "0+1x20"),
    }
    # 6 requests; 160 percent of a cache; 2 x 90,000 tokens a minute.
    expected = dict(zip(queries(), (6, 160, 3000), strict=True))
    answers: list[dict[str, Any]] = [
        {"expr": query, "eval_time": "10m", "exp_samples": [{"labels": "{}", "value": value}]}
        for query, value in expected.items()
    ]
    # Without servers there is no answer, which KEDA takes as an error: the number of servers stays.
    answers += [{"expr": query.replace("chat-", "gone-"), "eval_time": "10m", "exp_samples": []} for query in expected]
    case = {
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": key, "values": values} for key, values in given.items()],
                "promql_expr_test": answers,
            }
        ],
    }
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump(case))
    done = subprocess.run(
        [promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout
