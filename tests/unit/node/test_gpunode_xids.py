"""What the node makes of an Xid of the kernel log."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from cdk_gpu_clusters.node.gpunode.watch.kernel import XidTable, read_xids

TABLE = XidTable(
    {
        "31": {"class": "monitor"},
        "79": {"class": "replace", "name": "GPU fallen off the bus"},
        "154": {"class": "recovery"},
    },
    recovery_actions={"0": "monitor", "1": "reset", "2": "reboot"},
)


def test_codes_and_their_names() -> None:
    assert TABLE.severity(79, "79, pid='<unknown>', GPU has fallen off the bus.") is Severity.REPLACE
    assert TABLE.severity(31, "") is Severity.MONITOR
    assert TABLE.name(79) == "GPU fallen off the bus"


def test_an_xid_that_nobody_knows_is_watched() -> None:
    assert TABLE.severity(999, "") is Severity.MONITOR
    assert TABLE.name(999) == ""


@pytest.mark.parametrize(
    ("message", "severity"),
    [
        ("154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", Severity.REBOOT),
        ("154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", Severity.RESET),
        ("154, GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)", Severity.MONITOR),
        ("154, GPU recovery action changed from 0x0 (None) to 0x9 (Something New)", Severity.RESET),
        ("154, in words of another driver", Severity.UNKNOWN),
    ],
)
def test_a_message_says_what_it_became(message: str, severity: Severity) -> None:
    assert TABLE.severity(154, message) is severity


@pytest.mark.parametrize("text", ["", "{", "[]", '{"79": 1}', "\x00"])
def test_without_a_table_nothing_is_acted_on(tmp_path: Path, text: str) -> None:
    file = tmp_path / "xids.json"
    assert read_xids(file).severity(79, "") is Severity.MONITOR
    file.write_text(text)
    assert read_xids(file).severity(79, "") is Severity.MONITOR
