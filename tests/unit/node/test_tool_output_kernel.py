"""Messages of real kernels mean to the watchdog what they mean to people."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from cdk_gpu_clusters.catalogue.xids import node_xids
from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from cdk_gpu_clusters.node.gpunode.watch.kernel import Record, XidTable, symptom_of
from cdk_gpu_clusters.node.gpunode.watch.probes import Symptom
from tool_output import Sample, read_by, samples

TABLE = XidTable.from_text(node_xids())
# How sources put lines into the journal, dmesg, a file or /dev/kmsg: everything before the message of the kernel itself.
_BEFORE = re.compile(
    r"^(?:kern\s*:\w+\s*: )?(?:\w{3} [ \d]\d [\d:]{8} \S+ )?(?:\d{4}-\d\d-\d\dT\S+ (?:\S+ (?=kernel))?)?(?:kernel: ?)?"
    r"(?:<\d+>)?(?:\d+,\d+,\d+,[^;]*;)?(?:\[[^\]]{6,40}\] ?)? *"
)


def symptoms(text: str) -> list[Symptom]:
    found = [symptom_of(Record(1, _BEFORE.sub("", line, count=1)), TABLE) for line in text.splitlines()]
    return [symptom for symptom in found if symptom]


def worst(text: str) -> Severity:
    return max((symptom.severity for symptom in symptoms(text)), default=Severity.OK)


@pytest.mark.parametrize("sample", samples("kernel"), ids=lambda sample: sample.file)
def test_message_of_a_real_kernel(sample: Sample, record_property: Callable[[str, object], None]) -> None:
    found = worst(sample.text)
    wanted = Severity.OK if sample.verdict in ("healthy", "wait") else Severity[sample.verdict.upper()]
    assert found is wanted, sample.means
    read_by(record_property, sample)


WITH_XID = [one for one in samples("kernel") if f"): {one.values.get('xid')}" in one.text]


@pytest.mark.parametrize("sample", WITH_XID, ids=lambda one: one.file)
def test_xid_is_read_with_its_device(sample: Sample) -> None:
    keys = [symptom.key for symptom in symptoms(sample.text)]
    assert any(key.startswith(f"xid-{sample.values['xid']}-") for key in keys), keys
