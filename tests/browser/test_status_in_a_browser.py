"""The page of `gpu-clusters status` in a real, headless Chromium: everyone can read it, without script or network."""

from __future__ import annotations

from pathlib import Path

import pytest
from selenium.webdriver import Chrome

from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from cdk_gpu_clusters_stacks.cost import Live
from cdk_gpu_clusters_stacks.preflight.unread import Unread
from cdk_gpu_clusters_stacks.report_page import status_html
from cdk_gpu_clusters_stacks.status import Alarm, Capacity, Fleet, Node, NodeState, Status
from chromium import accessibility_faults, asked, messages, show

AT = "2026-12-15T08:35Z"
NODES = [
    Node(instance_id="i-283b5508178b4db4c", state=NodeState.BOOTING, lifecycle="Pending:Wait"),
    Node(instance_id="i-30e137b16f5b94faf", state=NodeState.IN_SERVICE, lifecycle="InService", severity=Severity.OK),
    Node(
        instance_id="i-712baa67b45995302",
        state=NodeState.FAILING,
        lifecycle="InService",
        severity=Severity.REPLACE,
        reason="its watchdog asks for: <replace>",
    ),
]
STATUS = Status(
    cluster="llama",
    region="us-east-1",
    account="111122223333",
    at=AT,
    fleets=[Fleet(name="training.fleets.trainers", group="nodes", least=4, most=4, nodes=NODES, problems=["x" * 90])],
    capacity=[Capacity(fleet="training.fleets.trainers", reservation_id="cr-1", kind="capacity-block", ends_at=AT)],
    alarms=[
        Alarm(name="a", about="training.fleets.trainers", what="FleetAlarmsXid9D0010EA", since=AT, reason="an Xid")
    ],
    alarm_count=9,
    cost=Live(cluster="llama", region="us-east-1", account="", at=AT, is_partial=True, cannot_tell={"EC2": "denied"}),
    unread=[Unread(call="logs:FilterLogEvents", about="", cause="logs:FilterLogEvents is not allowed", fix="allow it")],
    absent=["llama-network"],
)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    file = tmp_path / "status.html"
    file.write_text(status_html(STATUS), "utf-8")
    return file


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1600])
def test_nothing_overflows_and_everyone_can_read_it(browser: Chrome, page: Path, width: int, scheme: str) -> None:
    show(browser, page, width=width, scheme=scheme)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert accessibility_faults(browser) == []


def test_it_needs_no_network_and_no_script_and_shows_every_node(browser: Chrome, page: Path) -> None:
    asked(browser)
    messages(browser)
    show(browser, page)
    assert asked(browser) == {page.as_uri()}
    assert messages(browser) == []
    assert "<script" not in page.read_text("utf-8")
    text = browser.execute_script("return document.body.innerText")
    for node in NODES:
        assert node.instance_id in text
    assert "its watchdog asks for: <replace>" in text
