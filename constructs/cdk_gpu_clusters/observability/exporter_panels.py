"""Rows of a dashboard of Prometheus about what others than this library serve.

Sources of the names:
- DCGM exporter, etc/dcp-metrics-included.csv, whose help texts have the units; for NVLink dcgm_fields.h of DCGM, fields
  1011 and 1012, which it describes as those of PCIe beside them: their unit is taken to be the same.
- Slurm 25.11, src/plugins/metrics/openmetrics/openmetrics.c.
- vLLM, vllm/v1/metrics/loggers.py.
- Ray documentation, "System metrics".
"""

from __future__ import annotations

from collections.abc import Collection

from cdk_gpu_clusters.observability.panels import Panel, Query, Row
from cdk_gpu_clusters.observability.targets import Exporter

# Targets of `MetricsScraper` have the label. With all fleets chosen, those without it match as well.
_CHOSEN = '{fleet=~"$fleet"}'


def exporter_rows(exporters: Collection[Exporter]) -> tuple[Row, ...]:
    """The rows of exporters that Prometheus scrapes; put them behind those of `plan_prometheus_dashboard`.

    The DCGM exporter needs the counters of its file `dcp-metrics-included.csv`, and for NVLink two that this file does
    not have: `DCGM_FI_PROF_NVLINK_TX_BYTES` and `DCGM_FI_PROF_NVLINK_RX_BYTES`. The watchdog of the nodes and the node
    exporter have no row here.

    Args:
        exporters: What is scraped.

    Example:
        >>> [row.title for row in exporter_rows([Exporter.DCGM, Exporter.VLLM])]
        ['GPU engines', 'Model servers']
    """
    rows = {Exporter.DCGM: _DCGM, Exporter.SLURMCTLD: _SLURM, Exporter.VLLM: _VLLM, Exporter.RAY: _RAY}
    return tuple(row for exporter, row in rows.items() if exporter in exporters)


def _share(metric: str) -> tuple[Query, ...]:
    """The average and the least share of all GPUs or MIG devices of a fleet, in percent."""
    return tuple(
        Query(legend=f"{{{{fleet}}}} {what}", expression=f"100 * {operation} by (fleet) ({metric}{_CHOSEN})")
        for operation, what in (("avg", "average"), ("min", "minimum"))
    )


def _traffic(title: str, link: str, meaning: str) -> Panel:
    """What the average GPU of a fleet transmits and receives over a link."""
    return Panel(
        title=title,
        unit="bytes per second",
        meaning=meaning,
        queries=tuple(
            Query(
                legend=f"{{{{fleet}}}} {what}",
                expression=f"avg by (fleet) (DCGM_FI_PROF_{link}_{way}_BYTES{_CHOSEN})",
            )
            for way, what in (("TX", "transmitted"), ("RX", "received"))
        ),
    )


_DCGM = Row(
    title="GPU engines",
    notes=(),
    panels=(
        Panel(
            title="GPU engine active",
            unit="percent",
            meaning="Share of time in which the graphics or compute engine was active, of GPUs or MIG devices.",
            queries=_share("DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
        ),
        Panel(
            title="Tensor cores active",
            unit="percent",
            meaning="Share of cycles in which the tensor cores were active.",
            queries=_share("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"),
        ),
        Panel(
            title="Memory interface active",
            unit="percent",
            meaning="Share of cycles in which the device memory sent or received data.",
            queries=_share("DCGM_FI_PROF_DRAM_ACTIVE"),
        ),
        _traffic("PCIe traffic", "PCIE", "Bytes that the average GPU transmits and receives over PCIe."),
        _traffic(
            "NVLink traffic",
            "NVLINK",
            "Bytes that the average GPU transmits and receives over NVLink.",
        ),
    ),
)
_SLURM = Row(
    title="Slurm",
    notes=(),
    panels=(
        Panel(
            title="Jobs",
            unit="jobs",
            meaning="Jobs that wait, and jobs that run.",
            queries=tuple(
                Query(legend=state, expression=f"sum(slurm_jobs_{state})") for state in ("pending", "running")
            ),
        ),
        Panel(
            title="Pending jobs of partitions",
            unit="jobs",
            meaning="Jobs that wait in each partition.",
            queries=(Query(legend="{{partition}}", expression="sum by (partition) (slurm_partition_jobs_pending)"),),
        ),
        Panel(
            title="Slurm nodes",
            unit="nodes",
            meaning="Nodes by state: all or some of their CPUs allocated, idle, down, or drained.",
            queries=tuple(
                Query(legend=legend, expression=f"sum(slurm_nodes_{state})")
                for state, legend in (
                    ("alloc", "allocated"),
                    ("mixed", "mixed"),
                    ("idle", "idle"),
                    ("down", "down"),
                    ("drain", "drain"),
                )
            ),
        ),
    ),
)
_VLLM = Row(
    title="Model servers",
    notes=(),
    panels=(
        Panel(
            title="Requests",
            unit="requests",
            meaning="Requests that run, and requests that wait.",
            queries=tuple(
                Query(
                    legend=f"{{{{model_name}}}} {state}",
                    expression=f"sum by (model_name) (vllm:num_requests_{state}{_CHOSEN})",
                )
                for state in ("running", "waiting")
            ),
        ),
        Panel(
            title="Time to first token",
            unit="seconds",
            meaning="Time within which half of the requests, and 95 of 100, have their first token.",
            queries=tuple(
                Query(
                    legend=f"{{{{model_name}}}} {quantile}",
                    expression=f"histogram_quantile({quantile}, sum by (le, model_name) "
                    f"(rate(vllm:time_to_first_token_seconds_bucket{_CHOSEN}[5m])))",
                )
                for quantile in (0.5, 0.95)
            ),
        ),
        Panel(
            title="Generated tokens",
            unit="tokens per second",
            meaning="Tokens that all servers of a model generate.",
            queries=(
                Query(
                    legend="{{model_name}}",
                    expression=f"sum by (model_name) (rate(vllm:generation_tokens_total{_CHOSEN}[5m]))",
                ),
            ),
        ),
    ),
)
_RAY = Row(
    title="Ray",
    notes=(),
    panels=tuple(
        Panel(
            title=f"Ray {what}",
            unit=what,
            meaning=f"{what.capitalize()} of Ray in each state.",
            queries=(Query(legend="{{State}}", expression=f"sum by (State) (ray_{what}{_CHOSEN})"),),
        )
        for what in ("tasks", "actors")
    ),
)
