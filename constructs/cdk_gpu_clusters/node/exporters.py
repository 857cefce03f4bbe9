"""Exporters for Prometheus that a node installs and starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cdk_gpu_clusters.errors import Finding, define_rule

#: Exporters by the name that the node has for them, with their ports (NVIDIA/dcgm-exporter @ d5e5f51, pkg/cmd/app.go,
#: `--address`; prometheus/node_exporter @ a7dcc3a, README).
EXPORTER_PORTS: Mapping[str, int] = {"dcgm": 9400, "node": 9100}

EXPORTERS = define_rule(
    "GPU-UD-011",
    "A node installs an exporter at least, at a free port, and NVIDIA's only for GPUs; not on Amazon EKS",
    source="DCGM documentation, Install DCGM Exporter: it needs an NVIDIA GPU, and is a DaemonSet on Kubernetes",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeExporters:
    """Exporters for Prometheus that a node on plain EC2 or AWS PCS installs and starts after its boot checks.

    An exporter that the image has is started as it is there. Others come from the package repositories of the image:
    NVIDIA's `datacenter-gpu-manager-exporter` in the version that NVIDIA pairs with the node's DCGM, and the node
    exporter of Ubuntu or of the supplementary packages of Amazon Linux (SPAL). A node without its exporters takes work,
    and records the reason in its log stream. No security group admits clients by itself: a `MetricsScraper` is admitted
    to what it scrapes.

    Attributes:
        dcgm: NVIDIA's DCGM exporter at port 9400, with the counters of `exporter_rows`.
        node: Prometheus' node exporter at port 9100: processors, memory, disks and networks. It reads no counters of
            EFA, which `NodeWatch(metrics_port=...)` has.

    Example:
        >>> NodeExporters(node=False).environment()
        {'GPU_EXPORTERS': 'dcgm'}
    """

    dcgm: bool = True
    node: bool = True

    def environment(self) -> dict[str, str]:
        """The exporters as node settings."""
        return {"GPU_EXPORTERS": " ".join(name for name in EXPORTER_PORTS if getattr(self, name))}


def check_exporters(
    exporters: NodeExporters, *, accelerator: str | None, orchestrator: str | None, ports: Mapping[str, int]
) -> list[Finding]:
    """Find exporters that a node cannot run.

    Args:
        exporters: What is requested.
        accelerator: `gpu`, `neuron`, or None.
        orchestrator: As in `NodeSettings`.
        ports: Ports of the node that are taken, by the setting that takes them.
    """
    if orchestrator == "eks":
        fix = "leave exporters out, and install NVIDIA's chart of the exporter"
        return [EXPORTERS.finding(cause="on Amazon EKS exporters are pods", fix=fix, path="exporters")]
    findings = []
    if not (exporters.dcgm or exporters.node):
        fix = "leave exporters out, or choose one"
        findings.append(EXPORTERS.finding(cause="no exporter is chosen", got="none", fix=fix, path="exporters"))
    if exporters.dcgm and accelerator != "gpu":
        got = "Neuron devices" if accelerator == "neuron" else "no accelerators"
        fix = "write NodeExporters(dcgm=False)"
        cause = "NVIDIA's exporter measures NVIDIA GPUs, and the node has none"
        findings.append(EXPORTERS.finding(cause=cause, got=got, fix=fix, path="exporters.dcgm"))
    for setting, port in ports.items():
        for name, own in EXPORTER_PORTS.items():
            if port == own and getattr(exporters, name):
                findings.append(
                    EXPORTERS.finding(
                        cause=f"the exporter {name} has this port", got=str(port), fix="use another port", path=setting
                    )
                )
    return findings
