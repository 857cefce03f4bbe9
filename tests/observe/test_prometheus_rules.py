"""The rules for Prometheus, judged by Prometheus' own checker."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from cdk_gpu_clusters.node.gpunode.metrics.exposition import MEASURED_AT
from cdk_gpu_clusters.node.gpunode.metrics.names import METRICS
from cdk_gpu_clusters.observability.prometheus_rules import prometheus_rules

RUNBOOKS = (Path(__file__).parents[2] / "docs" / "alerts.md").read_text("utf-8")
ALERTS = {one["alert"]: one for one in yaml.safe_load(prometheus_rules())["groups"][0]["rules"]}
NODE = 'fleet="app/Trainers",instance_id="i-1"'
OTHER = 'fleet="app/Trainers",instance_id="i-2"'
OF_NODE = {"fleet": "app/Trainers", "instance_id": "i-1"}
TARGET = 'job="gpunode",instance="10.0.0.1:9810"'
UP, MEASURED = f"up{{{TARGET}}}", f"gpu_cluster_measured_timestamp_seconds{{{NODE},{TARGET}}}"
OF_TARGET = {"job": "gpunode", "instance": "10.0.0.1:9810"}

#: Alert, and what happens to it -> series as promtool takes them, minutes at which it is not raised, at which it is, and at which it has
#: cleared, and its labels.
DAYS: dict[str, tuple[dict[str, str], tuple[int, int, int], dict[str, str]]] = {
    "UnhealthyNode": (
        {f"gpu_cluster_unhealthy_nodes{{{NODE}}}": "0x9 1x9 0x9", f"gpu_cluster_unhealthy_nodes{{{OTHER}}}": "0x30"},
        (9, 10, 20),
        OF_NODE,
    ),
    "Xid": (
        {f"gpu_cluster_xids_total{{{NODE}}}": "0x9 1x40", f"gpu_cluster_xids_total{{{OTHER}}}": "2x50"},
        (9, 11, 26),
        OF_NODE,
    ),
    # One node that works keeps the fleet from being idle.
    "Idle": (
        {
            f"gpu_cluster_idle_seconds{{{NODE}}}": "0+60x100",
            f"gpu_cluster_idle_seconds{{{OTHER}}}": "0x10 60+60x70 0x20",
        },
        (69, 70, 82),
        {"fleet": "app/Trainers"},
    ),
    "NodeSilent, no answer": ({UP: "1x9 0x9 1x9", MEASURED: "1x9 stale _x9 1x9"}, (14, 15, 20), OF_TARGET),
    "NodeSilent, no values": ({UP: "1x29", MEASURED: "1x9 stale _x9 1x9"}, (14, 15, 20), OF_TARGET),
    "NodeSilent, no target": ({UP: "1x9 0x9 stale", MEASURED: "1x9 stale"}, (14, 15, 20), OF_TARGET),
}


def run(promtool: str, *arguments: str) -> str:
    done = subprocess.run([promtool, *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_rules_are_valid(promtool: str, tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(prometheus_rules())
    assert "16 rules found" in run(promtool, "check", "rules", "--lint-fatal", str(file))


def test_every_alert_has_a_day_and_a_runbook() -> None:
    assert set(ALERTS) == {day.partition(",")[0] for day in DAYS}
    for name, alert in ALERTS.items():
        page = "https://github.com/cdk-gpu-clusters/cdk-gpu-clusters/blob/main/docs/alerts.md"
        assert alert["annotations"]["runbook_url"] == f"{page}#{name.lower()}"
        assert f"\n## {name}\n" in RUNBOOKS


def test_rules_read_only_metrics_that_nodes_serve() -> None:
    served = {MEASURED_AT, *(metric.prometheus_name for metric in METRICS)}
    text = prometheus_rules()
    read = set(re.findall(r"(?<![:a-z_])gpu_cluster_[a-z_]+", text))
    assert read
    assert read <= served


@pytest.mark.parametrize("day", sorted(DAYS))
def test_an_alert_is_raised_and_clears(promtool: str, tmp_path: Path, day: str) -> None:
    series, (before, raised, cleared), labels = DAYS[day]
    name = day.partition(",")[0]
    (tmp_path / "rules.yaml").write_text(prometheus_rules())
    annotations = ALERTS[name]["annotations"]
    expected: list[tuple[int, list[dict[str, Any]]]] = [
        (before, []),
        (raised, [{"exp_labels": labels, "exp_annotations": annotations}]),
        (cleared, []),
    ]
    case = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": key, "values": values} for key, values in series.items()],
                "alert_rule_test": [
                    {"eval_time": f"{minute}m", "alertname": name, "exp_alerts": alerts} for minute, alerts in expected
                ],
            }
        ],
    }
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump(case))
    assert "SUCCESS" in run(promtool, "test", "rules", str(file))


@pytest.mark.parametrize(
    ("minute", "idle", "allocated_idle"), [(3, 0, 0), (29, 0, 0), (31, 2, 2), (70, 0, 0), (96, 0, 1)]
)
def test_gpus_are_counted(promtool: str, tmp_path: Path, minute: int, idle: int, allocated_idle: int) -> None:
    """Of two nodes with two GPUs one works. One device of a pod is not used, one comes late, one ends, and one is free."""
    used, active = "gpu_cluster_gpu_memory_used_bytes", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
    series = {
        **{f'{used}{{{node},gpu="{gpu}"}}': "1x100" for node in (NODE, OTHER) for gpu in "01"},
        f"gpu_cluster_idle_seconds{{{NODE}}}": "0+60x60 0x39",
        f"gpu_cluster_idle_seconds{{{OTHER}}}": "0x100",
        f'{active}{{cluster="lab",gpu="0",exported_pod="train"}}': "0.9x100",
        f'{active}{{cluster="lab",gpu="1",exported_pod="forgotten"}}': "0x60 0.06x40",
        f'{active}{{cluster="lab",gpu="2",exported_pod="late"}}': "_x60 0x40",
        f'{active}{{cluster="lab",gpu="3",exported_pod="ended"}}': "0x59 stale",
        f'{active}{{cluster="lab",gpu="3"}}': "0x100",
    }
    expected = {
        "fleet:gpus:count": ('fleet="app/Trainers"', 4),
        "fleet:idle_gpus:count": ('fleet="app/Trainers"', idle),
        "cluster:allocated_gpus:count": ('cluster="lab"', 3),
        "cluster:allocated_idle_gpus:count": ('cluster="lab"', allocated_idle),
    }
    case = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": [
                    {
                        "expr": name,
                        "eval_time": f"{minute}m",
                        "exp_samples": [{"labels": f"{name}{{{labels}}}", "value": value}],
                    }
                    for name, (labels, value) in expected.items()
                ],
            }
        ],
    }
    (tmp_path / "rules.yaml").write_text(prometheus_rules(idle_minutes=30))
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump(case))
    assert "SUCCESS" in run(promtool, "test", "rules", str(file))


def test_sums_are_those_of_a_fleet(promtool: str, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(prometheus_rules())
    name = "gpu_cluster_efa_received_bytes_per_second"
    case = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": f'{name}{{{NODE},device="rdmap0"}}', "values": "5x5"},
                    {"series": f'{name}{{{NODE},device="rdmap1"}}', "values": "6x5"},
                    {"series": f'{name}{{fleet="app/Other",instance_id="i-3",device="rdmap0"}}', "values": "100x5"},
                ],
                "promql_expr_test": [
                    {
                        "expr": f"fleet:{name}:sum",
                        "eval_time": "3m",
                        "exp_samples": [
                            {"labels": f'fleet:{name}:sum{{fleet="app/Other"}}', "value": 100},
                            {"labels": f'fleet:{name}:sum{{fleet="app/Trainers"}}', "value": 11},
                        ],
                    }
                ],
            }
        ],
    }
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump(case))
    assert "SUCCESS" in run(promtool, "test", "rules", str(file))
