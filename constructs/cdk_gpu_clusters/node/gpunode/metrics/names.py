"""Every metric that nodes send, in one place: for the node, for the constructs that read it, and for the docs."""

from __future__ import annotations

import re
from dataclasses import dataclass

NAMESPACE = "GpuCluster"
#: Dimensions: every metric exists for the entire fleet and for each node. Never for a GPU: each value of a dimension is
#: a metric of its own, and is billed as one.
FLEET, INSTANCE = "Fleet", "InstanceId"


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes:
        name: Its name in CloudWatch, with the unit if CloudWatch has none for it.
        unit: Unit of CloudWatch.
        per: What has a value of its own in each minute. CloudWatch's statistics cover all of them.
        meaning: What it measures.
        source: Where the node reads it.
    """

    name: str
    unit: str
    per: str
    meaning: str
    source: str

    @property
    def prometheus_name(self) -> str:
        """Its name in the text that Prometheus reads: the prefix `gpu_cluster_`, snake case, and the unit at the end.

        A metric of events is a counter, so its name ends in `_total`.

        Source: Prometheus, "Metric and label naming".

        Example:
            >>> GPU_MEMORY_USED.prometheus_name, EFA_RECEIVED.prometheus_name, XIDS.prometheus_name
            ('gpu_cluster_gpu_memory_used_bytes', 'gpu_cluster_efa_received_bytes_per_second', 'gpu_cluster_xids_total')
        """
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.name).lower()
        unit = "_total" if self.per == "event" else _SUFFIXES.get(self.unit, "")
        return f"gpu_cluster_{words}{'' if words.endswith(unit) else unit}"


_SUFFIXES = {"Percent": "_percent", "Bytes": "_bytes", "Seconds": "_seconds"}
_SMI = "nvidia-smi --query-gpu="
_EFA = "hw_counters of the device in sysfs: "
_LUSTRE = "lctl get_param llite.*.stats: "

GPU_UTILIZATION = Metric(
    "GpuUtilization",
    "Percent",
    "GPU",
    "share of the last sample period, 1/6 s to 1 s, in which a kernel ran; none under MIG",
    f"{_SMI}utilization.gpu",
)
GPU_MEMORY_USED = Metric("GpuMemoryUsed", "Bytes", "GPU", "device memory in use", f"{_SMI}memory.used")
GPU_MEMORY_USED_PERCENT = Metric(
    "GpuMemoryUsedPercent",
    "Percent",
    "GPU",
    "share of the device memory in use",
    f"{_SMI}memory.used,memory.total",
)
GPU_POWER_DRAW_WATTS = Metric(
    "GpuPowerDrawWatts", "None", "GPU", "power drawn by the board, in watts", f"{_SMI}power.draw"
)
GPU_TEMPERATURE_CELSIUS = Metric(
    "GpuTemperatureCelsius", "None", "GPU", "temperature of the GPU's core", f"{_SMI}temperature.gpu"
)
MIG_MEMORY_USED = Metric(
    "MigMemoryUsed", "Bytes", "MIG device", "memory in use", "nvidia-smi -q -x: mig_device/fb_memory_usage"
)
MIG_MEMORY_USED_PERCENT = Metric(
    "MigMemoryUsedPercent",
    "Percent",
    "MIG device",
    "share of its memory in use",
    "nvidia-smi -q -x: mig_device/fb_memory_usage",
)
MIG_DEVICES_IN_USE = Metric(
    "MigDevicesInUse",
    "Count",
    "node",
    "MIG devices on which a process runs",
    "nvidia-smi -q -x: process_info/gpu_instance_id, compute_instance_id",
)
IDLE_SECONDS = Metric(
    "IdleSeconds",
    "Seconds",
    "node",
    "since a GPU was last active: utilization above 0, or, under MIG, a process on a MIG device",
    "one measurement a minute",
)
EFA_RECEIVED = Metric("EfaReceivedBytesPerSecond", "Bytes/Second", "EFA device", "received", f"{_EFA}rx_bytes")
EFA_TRANSMITTED = Metric("EfaTransmittedBytesPerSecond", "Bytes/Second", "EFA device", "transmitted", f"{_EFA}tx_bytes")
EFA_RETRANSMITTED = Metric(
    "EfaRetransmittedPacketsPerSecond",
    "Count/Second",
    "EFA device",
    "packets sent again",
    f"{_EFA}retrans_pkts",
)
EFA_RECEIVE_DROPS = Metric(
    "EfaReceiveDropsPerSecond",
    "Count/Second",
    "EFA device",
    "packets received and dropped",
    f"{_EFA}rx_drops",
)
LUSTRE_READ = Metric("LustreReadBytesPerSecond", "Bytes/Second", "mount", "read by this client", f"{_LUSTRE}read_bytes")
LUSTRE_WRITTEN = Metric(
    "LustreWrittenBytesPerSecond", "Bytes/Second", "mount", "written by this client", f"{_LUSTRE}write_bytes"
)
NODE_SEVERITY = Metric(
    "NodeSeverity",
    "None",
    "node",
    "the action that the worst finding of the watchdog requires: 0 nothing, 1 undetermined, 2 watch it, "
    "3 reset the GPU, 4 reboot the node, 5 replace the node",
    "gpunode watch",
)
UNHEALTHY_NODES = Metric(
    "UnhealthyNodes",
    "Count",
    "node",
    "1 if NodeSeverity is 3 or more, or the watchdog is silent for three minutes while it should run, else 0",
    "gpunode watch",
)
XIDS = Metric(
    "Xids",
    "Count",
    "event",
    "Xids that require a reset of the GPU, a reboot or another node; not those of applications",
    "kernel log, as gpunode watch reads it",
)
BOOT_FAILURES = Metric(
    "BootFailures", "Count", "event", "boots that failed, as the node itself reported", "gpunode boot"
)

METRICS = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
