"""The watchdog of a booted node, under the systemd that starts it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nodebox.disks import local_disks
from nodebox.lab import Lab, fleet
from nodebox.node import Node

UNIT = "gpu-node-watch"
# systemd's patience is a minute, as the library has it: too long for a test.
SHORT_OF_PATIENCE = "[Service]\nWatchdogSec=6\nRestartSec=1\n"
# The image's own is behind it on the path.
STUCK_ON_DEMAND = """\
#!/bin/sh
[ -e /run/stuck ] && echo stuck >>/scratch/stuck
exec /usr/local/bin/nvidia-smi "$@"
"""


@contextmanager
def watched(lab: Lab) -> Iterator[Node]:
    """A node in service, under its watchdog, with a disk of its own."""
    disk = local_disks(lab.directory())
    with disk as binds, lab.node(fleet("g6.xlarge", scratch=True), binds=binds, gpu="L4", gpu_count=1) as node:
        node.write(f"/etc/systemd/system/{UNIT}.service.d/patience.conf", SHORT_OF_PATIENCE)
        node.write("/usr/local/sbin/nvidia-smi", STUCK_ON_DEMAND, 0o755)
        node.power_on()
        node.ready()
        node.in_service()
        node.eventually(lambda: node.unit(UNIT, "ActiveState") == "active")
        yield node


def lives(node: Node) -> None:
    """systemd hears of several polls."""
    for _ in range(4):
        heard = node.unit(UNIT, "WatchdogTimestampMonotonic")
        node.eventually(lambda: node.unit(UNIT, "WatchdogTimestampMonotonic") != heard)  # noqa: B023 - called at once


def test_a_watchdog_that_is_frozen_is_started_again(lab: Lab) -> None:
    with watched(lab) as node:
        frozen = node.unit(UNIT, "MainPID")
        lives(node)
        assert node.unit(UNIT, "MainPID") == frozen
        node.run(f"kill -STOP {frozen}")
        node.eventually(lambda: node.unit(UNIT, "NRestarts") == "1" and node.unit(UNIT, "ActiveState") == "active")
        assert node.unit(UNIT, "MainPID") != frozen
        assert any("Watchdog timeout" in entry.text for entry in node.journal(UNIT))
        lives(node)
        assert node.fleet.states() == {node.instance_id: "InService"}


def test_a_child_in_uninterruptible_sleep_does_not_stop_the_watchdog(lab: Lab) -> None:
    with watched(lab) as node:
        node.run("touch /run/stuck; fsfreeze --freeze /scratch")
        try:
            node.eventually(lambda: node.run("ps -eo stat,args | grep '^D.*nvidia-smi'", check=False).stdout)
            lives(node)
            assert node.unit(UNIT, "NRestarts") == "0"
        finally:
            node.run("fsfreeze --unfreeze /scratch")
