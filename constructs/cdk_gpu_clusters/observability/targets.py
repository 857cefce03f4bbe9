"""Where metrics of a cluster are served, and the scrape configuration of Prometheus that reads them there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import yaml

from cdk_gpu_clusters.errors import raise_for
from cdk_gpu_clusters.node.exporters import EXPORTER_PORTS
from cdk_gpu_clusters.rules.scrape import JOB, METRICS_PORT, ScrapeTarget, check_targets

_SLURMCTLD_PORT = 6817
_SLURMCTLD_PATHS = ("jobs", "nodes", "partitions", "jobs-users-accts", "scheduler")
# One that is no token of CDK: Prometheus would take it for a reference to a group.
_OWN_DOLLAR = re.compile(r"\$(?!\{Token\[)")


class Exporter(Enum):
    """What serves metrics on a cluster.

    Sources: AWS PCS user guide, "Slurm metrics in AWS PCS" (port and paths of slurmctld); documentation of vLLM
    (`/metrics` at the port of the server, 8000) and Ray (`ray start --metrics-export-port=8080`).

    Attributes:
        GPUNODE: The watchdog of this library's nodes with `NodeWatch(metrics_port=9810)`.
        DCGM: NVIDIA's DCGM exporter.
        NODE: The node exporter of Prometheus.
        SLURMCTLD: The controller of Slurm 25.11 or later, which serves five paths.
        VLLM: A model server of vLLM.
        RAY: A node of Ray.
    """

    GPUNODE = (JOB, METRICS_PORT)
    DCGM = ("dcgm", EXPORTER_PORTS["dcgm"])
    NODE = ("node", EXPORTER_PORTS["node"])
    SLURMCTLD = ("slurmctld", _SLURMCTLD_PORT)
    VLLM = ("vllm", 8000)
    RAY = ("ray", 8080)

    @property
    def default_port(self) -> int:
        """The port where none is given."""
        return int(self.value[1])

    def at(
        self,
        *,
        dns_name: str | None = None,
        addresses: Sequence[str] = (),
        port: int | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> list[ScrapeTarget]:
        """The targets of this exporter at one DNS name or at addresses: one, and five of slurmctld.

        Args:
            dns_name: As in `ScrapeTarget`.
            addresses: As in `ScrapeTarget`.
            port: Its port; by default the usual one.
            labels: As in `ScrapeTarget`.

        Example:
            >>> [target.path for target in Exporter.SLURMCTLD.at(addresses=["10.0.0.9"])][:2]
            ['/metrics/jobs', '/metrics/nodes']
        """
        job = str(self.value[0])
        jobs = {f"{job}-{name}": f"/metrics/{name}" for name in _SLURMCTLD_PATHS}
        if self is not Exporter.SLURMCTLD:
            jobs = {job: "/metrics"}
        return [
            ScrapeTarget(
                job=name,
                path=path,
                port=self.default_port if port is None else port,
                dns_name=dns_name,
                addresses=addresses,
                labels=labels or {},
            )
            for name, path in jobs.items()
        ]


def scrape_configuration(
    targets: Sequence[ScrapeTarget], *, interval_seconds: int = 60, timeout_seconds: int = 10
) -> str:
    """A configuration of Prometheus that scrapes targets, with only what AWS's managed collectors support.

    Sources: Amazon CloudWatch user guide, "Scraper configuration" (supported sections); Prometheus documentation,
    scrape_config.

    Args:
        targets: What is scraped.
        interval_seconds: How often each target is scraped, 30 seconds or more. 60 by default, as nodes measure once a
            minute.
        timeout_seconds: How long that may take, at most the interval. 10 by default.

    Raises:
        ConfigError: GPU-SCR-001, GPU-SCR-002.

    Example:
        >>> text = scrape_configuration(Exporter.GPUNODE.at(dns_name="trainers.metrics.internal"))
        >>> print(text.partition("scrape_configs:")[2].strip())
        - job_name: gpunode
          metrics_path: /metrics
          scheme: http
          dns_sd_configs:
          - names:
            - trainers.metrics.internal
            type: A
            port: 9810
    """
    raise_for(check_targets(targets, interval_seconds=interval_seconds, timeout_seconds=timeout_seconds))
    by_job: dict[str, list[ScrapeTarget]] = {}
    for target in targets:
        by_job.setdefault(target.job, []).append(target)
    configuration = {
        "global": {"scrape_interval": f"{interval_seconds}s", "scrape_timeout": f"{timeout_seconds}s"},
        "scrape_configs": [_job(name, its) for name, its in by_job.items()],
    }
    # A line that is broken would break a token.
    return yaml.safe_dump(configuration, sort_keys=False, width=100_000)


def _job(name: str, targets: Sequence[ScrapeTarget]) -> dict[str, Any]:
    named = [target for target in targets if target.dns_name is not None]
    fixed = [target for target in targets if target.dns_name is None]
    parts = {
        "dns_sd_configs": [{"names": [one.dns_name], "type": "A", "port": one.port} for one in named],
        "static_configs": [_fixed(one) for one in fixed],
        "relabel_configs": [rule for one in named for rule in _relabelled(one)],
    }
    configuration: dict[str, Any] = {"job_name": name, "metrics_path": targets[0].path, "scheme": "http"}
    return {**configuration, **{key: value for key, value in parts.items() if value}}


def _fixed(target: ScrapeTarget) -> dict[str, Any]:
    found = {"targets": [f"{address}:{target.port}" for address in target.addresses]}
    return {**found, "labels": dict(target.labels)} if target.labels else found


def _relabelled(target: ScrapeTarget) -> list[dict[str, Any]]:
    """The rules that set the labels of what has a DNS name: its discovery takes none."""
    return [
        {
            "source_labels": ["__meta_dns_name"],
            "regex": re.escape(str(target.dns_name)),
            "target_label": label,
            "replacement": _OWN_DOLLAR.sub("$$", value),
        }
        for label, value in target.labels.items()
    ]
