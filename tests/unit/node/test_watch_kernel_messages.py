"""What messages of the kernel mean."""

from __future__ import annotations

import pytest

from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from cdk_gpu_clusters.node.gpunode.watch.kernel import Record, XidTable, symptom_of
from cdk_gpu_clusters.node.gpunode.watch.probes import Symptom

TABLE = XidTable(
    {
        "13": {"class": "monitor"},
        "79": {"class": "replace", "name": "GPU fallen off the bus"},
        "95": {"class": "reboot"},
        "144": {"class": "reset"},
        "154": {"class": "message", "messages": {"Node Reboot Required": "reboot", "None": "monitor"}},
    }
)


def meaning(text: str) -> Symptom | None:
    return symptom_of(Record(1, text), TABLE)


@pytest.mark.parametrize(
    ("text", "key", "severity"),
    [
        (
            "NVRM: Xid (PCI:0000:10:1c): 79, pid=1896, GPU has fallen off the bus.",
            "xid-79-0000:10:1c",
            "REPLACE",
        ),
        (
            "NVRM: Xid (PCI:0008:01:00): 95, pid='<unknown>', name=<unknown>, Uncontained",
            "xid-95-0008:01:00",
            "REBOOT",
        ),
        (
            "NVRM: Xid (PCI:0000:07:00 GPU-I:05): 13, pid=2, Graphics Exception",
            "xid-13-0000:07:00",
            "MONITOR",
        ),
        ("NVRM: Xid (0000:01:00): 144, old format", "xid-144-0000:01:00", "RESET"),
        ("NVRM: Xid (PCI:0000:01:00): 9999, unheard of", "xid-9999-0000:01:00", "MONITOR"),
        (
            "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
            "xid-154-0000:01:00",
            "REBOOT",
        ),
        (
            "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 24007, Fatal, Link 30 sourcetrack timeout error",
            "sxid-24007-0000:c3:00.0",
            "REBOOT",
        ),
        (
            "nvidia-nvswitch4: SXid (PCI:0000:c6:00.0): 19084, Non-fatal, Link 29 AN1 Heartbeat Timeout Error (First)",
            "sxid-19084-0000:c6:00.0",
            "MONITOR",
        ),
        (
            "LustreError: 167-0: fsx-OST0001-osc-ff: This client was evicted by fsx-OST0001; in progress operations",
            "evicted-fsx-OST0001",
            "MONITOR",
        ),
        (
            "Lustre: fsx-OST0001-osc-ff88: Connection to fsx-OST0001 (at 10.0.0.9@tcp) was lost; in progress operations",
            "cut-off-fsx-OST0001",
            "MONITOR",
        ),
        ("INFO: task nvidia-smi:4711 blocked for more than 122 seconds.", "hung-nvidia-smi", "MONITOR"),
    ],
)
def test_message_says_what_it_asks_for(text: str, key: str, severity: str) -> None:
    symptom = meaning(text)
    assert symptom is not None
    assert (symptom.key, symptom.severity.name, symptom.lasting, symptom.confirmations) == (
        key,
        severity,
        False,
        1,
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05",
        "NVRM: Xid (PCI:0000:66:00): abc, pid=2280636",
        "nvidia-nvswitch2: SXid (PCI:0000:c4:00.0): 10002, Severity 5 Engine instance 00 Sub-engine instance 00",
        "audit: user wrote Xid 79 into a log",
        "audit: a user wrote NVRM: Xid (PCI:0000:10:1c): 79, off the bus",
    ],
)
def test_other_messages_say_nothing(text: str) -> None:
    assert meaning(text) is None


def test_reason_names_the_xid_and_fits_a_line() -> None:
    symptom = meaning("NVRM: Xid (PCI:0000:10:1c): 79, " + "x" * 5000)
    assert symptom is not None
    assert symptom.reason.startswith("Xid 79 (GPU fallen off the bus) on 0000:10:1c: xxx")
    assert len(symptom.reason) == 300


def test_without_a_table_every_xid_is_only_watched() -> None:
    symptom = symptom_of(Record(1, "NVRM: Xid (PCI:0000:10:1c): 79, off the bus"), XidTable({}))
    assert symptom is not None
    assert symptom.severity is Severity.MONITOR
