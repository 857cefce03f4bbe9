"""What Argo Rollouts asks of the metrics of a new version, answered by Prometheus' own engine."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from cdk_gpu_clusters.kubernetes.canary import Canary, with_canary
from cdk_gpu_clusters.kubernetes.queue_scaling import PrometheusWorkspace

CANARY = Canary(workspace=PrometheusWorkspace(workspace_id="ws-0123abcd", region="us-east-1"))
HASHES = {"new": "6bd7f9c5d4", "present": "7d9f6c5b8d", "idle": "5c8d7f9b6d", "unknown": "0"}
OWN = 'namespace="default"'


def queries(new: str = "new", present: str = "present") -> dict[str, str]:
    """The queries by their metric, with what the controller writes for its arguments."""
    deployment = {"kind": "Deployment", "metadata": {"name": "chat", "namespace": "default"}, "spec": {}}
    template, _ = with_canary([deployment], CANARY)
    hashes = {"new": HASHES[new], "present": HASHES[present]}
    found = {}
    for metric in template["spec"]["metrics"]:
        query = metric["provider"]["prometheus"]["query"]
        for name, value in hashes.items():
            query = query.replace(f"{{{{args.{name}}}}}", value)
        assert "args" not in query
        found[metric["name"]] = query
    return found


def requests(version: str, status: str, values: str, *, method: str = "POST", of: str = OWN) -> dict[str, str]:
    """A counter of requests, with the labels that vLLM's middleware gives it."""
    labels = f'{of},pod="chat-{HASHES[version]}-x2v9k",handler="/v1/completions",method="{method}",status="{status}"'
    return {f"http_requests_total{{{labels}}}": values}


def first_tokens(version: str, **buckets: str) -> dict[str, str]:
    """A histogram of vLLM's, with three of its buckets."""
    bounds = {"one": "1.0", "two": "2.5", "all": "+Inf"}
    labels = f'{OWN},pod="chat-{HASHES[version]}-x2v9k",model_name="Qwen/Qwen3-8B",engine="0"'
    return {
        f'vllm:time_to_first_token_seconds_bucket{{{labels},le="{bounds[name]}"}}': values
        for name, values in buckets.items()
    }


def test_versions_are_judged_by_their_own_requests_and_nothing_is_judged_without_requests(
    promtool: str, tmp_path: Path
) -> None:
    given = {
        **requests("new", "2xx", "0+90x20"),
        **requests("new", "5xx", "0+10x20"),
        # None of these are requests of clients to the new version.
        **requests("new", "2xx", "0+9000x20", method="GET"),
        **requests("new", "5xx", "0+9000x20", of='namespace="research"'),
        **requests("present", "2xx", "0+100x20"),
        **requests("idle", "2xx", "5x20"),
        **first_tokens("new", one="0+0x20", two="0+100x20", all="0+100x20"),
        **first_tokens("present", one="0+100x20", two="0+100x20", all="0+100x20"),
        **first_tokens("idle", one="0x20", two="5x20", all="5x20"),
    }
    # 10 of 100 requests; 1 + 0.95 x 1.5 seconds against 0.95 x 1, which is 255.26 percent.
    good = queries(new="present")
    expected: list[tuple[str, float | None]] = [
        (queries()["errors"], 10),
        (queries()["first-token"], 255.26),
        (good["errors"], 0),  # no series of errors is no error
        (good["first-token"], 100),
        *((query, None) for query in queries(new="idle").values()),
        *((query, None) for query in queries(new="unknown").values()),
        (queries(present="idle")["first-token"], None),
        # A present version that never ran cannot hold up the one that repairs it.
        (queries(present="unknown")["first-token"], 0),
        (queries(new="unknown", present="unknown")["first-token"], None),
        (queries(new="idle", present="unknown")["first-token"], None),
    ]
    ask(promtool, tmp_path, given, [(query, "10m", value) for query, value in expected])


def test_errors_between_two_scrapes_are_seen_until_the_window_has_passed(promtool: str, tmp_path: Path) -> None:
    # The first errors of a server make the counter: 50 of them at minute 9, among 10 good answers a minute.
    given = {**requests("new", "2xx", "0+10x20"), **requests("new", "5xx", "_x9 50x11")}
    query = queries()["errors"]
    burst = round(100 * 50 / (50 + 4 * 10), 2)
    ask(promtool, tmp_path, given, [(query, "8m", 0), (query, "9m", burst), (query, "12m", burst), (query, "13m", 0)])


def test_errors_of_a_server_that_started_again_are_not_below_zero(promtool: str, tmp_path: Path) -> None:
    given = {**requests("new", "2xx", "0+10x20"), **requests("new", "5xx", "100x9 1x11")}
    ask(promtool, tmp_path, given, [(queries()["errors"], "11m", 0)])


def ask(promtool: str, folder: Path, given: dict[str, str], expected: Sequence[tuple[str, str, float | None]]) -> None:
    """Have Prometheus answer queries at their times, and compare: None is no answer."""
    answers: list[dict[str, Any]] = [
        {
            "expr": f"round({query}, 0.01)",
            "eval_time": time,
            "exp_samples": [] if value is None else [{"labels": "{}", "value": value}],
        }
        for query, time, value in expected
    ]
    series = [{"series": key, "values": values} for key, values in given.items()]
    case = {
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": answers}],
    }
    file = folder / "test.yaml"
    file.write_text(yaml.safe_dump(case))
    done = subprocess.run(
        [promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout
