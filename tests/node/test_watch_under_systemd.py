"""The watchdog as a service of a booted node: systemd sees it freeze, and starts it again. docs/reliability.md lists it."""

from __future__ import annotations

from nodebox.lab import Lab, fleet
from nodebox.node import Node

UNIT = "gpu-node-watch"
# systemd waits a minute for it by default.
IMPATIENT = "[Service]\nWatchdogSec=4\nRestartSec=1\n"


def shown(node: Node, name: str) -> str:
    return node.run(f"systemctl show --value --property={name} {UNIT}").stdout.strip()


def test_a_frozen_watchdog_is_started_again_and_the_node_stays_in_service(lab: Lab) -> None:
    with lab.node(fleet("g6.xlarge"), gpu="L4", gpu_count=1) as node:
        node.write(f"/etc/systemd/system/{UNIT}.service.d/impatient.conf", IMPATIENT)
        node.power_on()
        node.ready()
        node.in_service()
        node.eventually(lambda: shown(node, "ActiveState") == "active")
        assert shown(node, "NRestarts") == "0"
        frozen = shown(node, "MainPID")
        node.run(f"kill -STOP {frozen}")
        node.eventually(lambda: shown(node, "MainPID") not in ("0", frozen))
        assert shown(node, "NRestarts") == "1"
        said = " ".join(entry.text for entry in node.journal() if UNIT in entry.text)
        assert "Failed with result 'watchdog'" in said
        node.eventually(lambda: shown(node, "ActiveState") == "active")
        assert [stage for stage, _, _ in node.events(UNIT) if stage == "action"] == []
        assert list(node.fleet.states().values()) == ["InService"]
