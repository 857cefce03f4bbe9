"""The watchdog as a service of a booted node, under the systemd that starts it. docs/reliability.md lists what is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nodebox.disks import local_disks
from nodebox.lab import Lab, fleet
from nodebox.node import Node

UNIT = "gpu-node-watch"
# systemd waits a minute for it by default.
IMPATIENT = "[Service]\nWatchdogSec=6\nRestartSec=1\n"
# The image's own comes later on the path.
STUCK_ON_DEMAND = """\
#!/bin/sh
[ -e /run/stuck ] && echo stuck >>/scratch/stuck
exec /usr/local/bin/nvidia-smi "$@"
"""


@contextmanager
def watched(lab: Lab) -> Iterator[Node]:
    """A node in service, under its watchdog, with a disk of its own."""
    with (
        local_disks(lab.directory()) as disks,
        lab.node(fleet("g6.xlarge", scratch=True), binds=disks, gpu="L4", gpu_count=1) as node,
    ):
        node.write(f"/etc/systemd/system/{UNIT}.service.d/impatient.conf", IMPATIENT)
        node.write("/usr/local/sbin/nvidia-smi", STUCK_ON_DEMAND, 0o755)
        node.power_on()
        node.ready()
        node.in_service()
        node.eventually(lambda: node.unit(UNIT, "ActiveState") == "active")
        yield node


def lives(node: Node) -> None:
    """systemd hears of several polls."""
    heard = {node.unit(UNIT, "WatchdogTimestampMonotonic")}

    def hear() -> bool:
        heard.add(node.unit(UNIT, "WatchdogTimestampMonotonic"))
        return len(heard) > 3

    node.eventually(hear)


def test_a_frozen_watchdog_is_started_again_and_the_node_stays_in_service(lab: Lab) -> None:
    with watched(lab) as node:
        assert node.unit(UNIT, "NRestarts") == "0"
        frozen = node.unit(UNIT, "MainPID")
        node.run(f"kill -STOP {frozen}")
        node.eventually(lambda: node.unit(UNIT, "MainPID") not in ("0", frozen))
        assert node.unit(UNIT, "NRestarts") == "1"
        said = " ".join(entry.text for entry in node.journal() if UNIT in entry.text)
        assert "Failed with result 'watchdog'" in said
        node.eventually(lambda: node.unit(UNIT, "ActiveState") == "active")
        lives(node)
        assert [stage for stage, _, _ in node.events(UNIT) if stage == "action"] == []
        assert list(node.fleet.states().values()) == ["InService"]


def test_a_child_in_uninterruptible_sleep_does_not_stop_the_watchdog(lab: Lab) -> None:
    with watched(lab) as node:
        node.run("touch /run/stuck; fsfreeze --freeze /scratch")
        try:
            node.eventually(lambda: node.run("ps -eo stat,args | grep '^D.*nvidia-smi'", check=False).stdout)
            lives(node)
            assert node.unit(UNIT, "NRestarts") == "0"
        finally:
            # Nothing can end a process in this state, a machine without power neither.
            node.run("fsfreeze --unfreeze /scratch")
