"""What messages of the kernel mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdk_gpu_clusters.catalogue.xids import node_xids
from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from cdk_gpu_clusters.node.gpunode.watch.kernel import Hardware, Record, XidTable, symptom_of
from cdk_gpu_clusters.node.gpunode.watch.probes import Symptom

TABLE = XidTable.from_text(node_xids())


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
            "RESET",
        ),
        (
            "NVRM: Xid (PCI:0000:07:00 GPU-I:05): 13, pid=2, Graphics Exception",
            "xid-13-0000:07:00",
            "MONITOR",
        ),
        ("NVRM: Xid (0000:01:00): 95, old format", "xid-95-0000:01:00", "RESET"),
        (
            "NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 09 (0x025525c6 0x0",
            "xid-149-0018:01:00",
            "RESET",
        ),
        # Reason 38, a link that a person took down, for which NVIDIA resets nothing.
        (
            "NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 09 (0x026525c6 0x0",
            "xid-149-0018:01:00",
            "MONITOR",
        ),
        (
            "NVRM: Xid (PCI:0018:01:00): 145, RLW_CTRL Nonfatal XC0 i0 Link 00 (0x3 0x80000000",
            "xid-145-0018:01:00",
            "MONITOR",
        ),
        ("NVRM: Xid (PCI:0018:01:00): 145, RLW_", "xid-145-0018:01:00", "UNKNOWN"),
        ("NVRM: Xid (PCI:0000:01:00): 154 (", "xid-154-0000:01:00", "UNKNOWN"),
        # open-gpu-kernel-modules issues 1307 and 1353: other words of driver 610.
        (
            "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (OS Reboot)",
            "xid-154-0000:01:00",
            "REBOOT",
        ),
        (
            "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (PF FLR)",
            "xid-154-0000:01:00",
            "RESET",
        ),
        (
            "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x2a (New)",
            "xid-154-0000:01:00",
            "RESET",
        ),
        (
            "NVRM: Xid (PCI:0000:01:00): 119, pid=4711, name=nvidia-smi, Timeout after 6s of waiting for RPC",
            "xid-119-0000:01:00",
            "RESET",
        ),
        (
            "NVRM: nvGpuOpsReportFatalError: uvm encountered global fatal error 0x60, requiring os reboot to recover.",
            "uvm-fatal-0x60",
            "REBOOT",
        ),
        ("NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x62:0x40:2477)", "gpu-not-started-0000:3b:00.0", "RESET"),
        ("watchdog: BUG: soft lockup - CPU#6 stuck for 23s! [VM Thread:4054]", "soft-lockup-6", "MONITOR"),
        (
            "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 12028, Non-fatal, Link 28 egress",
            "sxid-12028-0000:c3:00.0",
            "REBOOT",
        ),
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
            "RESET",
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
        "audit: a user wrote NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR there",
        "audit: a user wrote Kernel panic - not syncing: no",
        "traps: event severity: fatal[4711] general protection",
        "audit: comm='CPU 0: Machine Check Exception: 7'",
        "audit: exe='infiniband rdmap0: The device didn't send any completion for admin cmd'",
        "audit: exe='md/raid0md0: Disk failure on nvme1n1'",
        "audit: unit='x 0000:3b:00.0: AER: device recovery failed'",
    ],
)
def test_other_messages_say_nothing(text: str) -> None:
    assert meaning(text) is None


def test_reason_names_the_xid_and_fits_a_line() -> None:
    symptom = meaning("NVRM: Xid (PCI:0000:10:1c): 79, " + "x" * 5000)
    assert symptom is not None
    assert symptom.reason.startswith("Xid 79 (GPU has fallen off the bus) on 0000:10:1c: xxx")
    assert len(symptom.reason) == 400


def test_without_a_table_every_xid_is_only_watched() -> None:
    symptom = symptom_of(Record(1, "NVRM: Xid (PCI:0000:10:1c): 79, off the bus"), XidTable({}))
    assert symptom is not None
    assert symptom.severity is Severity.MONITOR


XID_79 = "NVRM: Xid (PCI:0000:10:1c): 79, pid=1896, GPU has fallen off the bus."


def severity(text: str, hardware: Hardware) -> Severity | None:
    symptom = symptom_of(Record(1, text), TABLE, hardware)
    return symptom.severity if symptom else None


@pytest.fixture
def devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The PCI devices of a node: one, 0000:10:1c.0."""
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path))
    folder = tmp_path / "sys/bus/pci/devices"
    (folder / "0000:10:1c.0").mkdir(parents=True)
    return folder


@pytest.mark.parametrize("address", ["0000:10:1c", "0000:10:1C.0", "00000000:10:1c"])
def test_message_about_a_device_of_the_node_is_acted_on(devices: Path, address: str) -> None:
    assert severity(XID_79.replace("0000:10:1c", address), Hardware("gpu")) is Severity.REPLACE


def test_message_about_a_device_that_the_node_lacks_is_only_reported(devices: Path) -> None:
    symptom = symptom_of(Record(1, XID_79.replace(":10:", ":11:")), TABLE, Hardware("gpu"))
    assert symptom is not None
    assert symptom.severity is Severity.MONITOR
    assert symptom.reason.startswith("not acted on, since this node has no device 0000:11:1c: Xid 79")


def test_message_about_a_device_that_left_the_bus_is_acted_on(devices: Path) -> None:
    hardware = Hardware("gpu")
    assert severity(XID_79.replace(":10:", ":11:"), hardware) is Severity.MONITOR
    (devices / "0000:10:1c.0").rmdir()
    assert severity(XID_79, hardware) is Severity.REPLACE


def test_message_without_a_device_is_acted_on(devices: Path) -> None:
    text = "NVRM: krcRcAndNotifyAllChannels_IMPL: RC all channels for critical error 79."
    assert severity(text, Hardware("gpu")) is Severity.REPLACE


@pytest.mark.parametrize(
    "text", [XID_79, "Kernel panic - not syncing: x", "{1}[Hardware Error]: event severity: fatal"]
)
def test_no_message_takes_a_neuron_node_out(devices: Path, text: str) -> None:
    """The driver prints what the user of a device asks it to print."""
    assert severity(text, Hardware("gpu")) in (Severity.REPLACE, Severity.REBOOT)
    assert severity(text, Hardware("neuron")) is Severity.MONITOR


@pytest.mark.parametrize("kind", ["SRAM", "HBM", "NC"])
def test_message_of_the_neuron_runtime_is_only_reported(kind: str) -> None:
    symptom = meaning(f"NEURON_HW_ERR={kind}_UNCORRECTABLE_ERROR instance-id=i-1 nd-id=0 action=TERMINATE_INSTANCE")
    assert symptom is not None
    assert symptom.severity is Severity.MONITOR
