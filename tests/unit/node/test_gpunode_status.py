"""`gpunode status`: one screen that needs neither root nor a driver, nor a disk, nor a watchdog."""

from __future__ import annotations

import json
from typing import Any

import pytest

GPUS = "0, NVIDIA H100, GPU-aaaa, 12, 81559, 97, 40\n1, NVIDIA H100, GPU-bbbb, [GPU is lost], , , "


@pytest.fixture
def installed(gpu_node: Any, gpu_settings: Any) -> Any:
    gpu_node.install(**gpu_settings)
    gpu_node.tool("nvidia-smi", f"#!/bin/sh\necho called >>{gpu_node.root}/calls\ncat <<'END'\n{GPUS}\nEND\n")
    gpu_node.tool("journalctl", "#!/bin/sh\nexit 1\n")
    return gpu_node


def watched(node: Any, severity: int = 0, *, late: bool = False, **more: Any) -> None:
    # The node's clock is the fake one of its /proc: 100 s.
    cases = [{"probe": "k", "symptom": {"key": "xid-79", "severity": "REPLACE", "reason": "Xid 79 \x1b[2J"}}]
    state = {"at": 0 if late else 100, "severity": severity, "open": cases if severity else [], "handled": [], **more}
    node.write("run/gpu-cluster/watch.json", json.dumps({"boot_id": "boot-1", **state}))


def status(node: Any, *options: str) -> tuple[int, dict[str, Any]]:
    done = node.gpunode("status", "--json", *options)
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout)


def test_healthy_node_on_one_screen(installed: Any) -> None:
    watched(installed)
    boot = {"boot_id": "boot-1", "state": "ready", "reason": "", "fix": "", "instance_id": "i-0123456789abcdef0"}
    installed.write("run/gpu-cluster/boot.json", json.dumps(boot))
    done = installed.gpunode("status")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 210
    for words in ("i-0123456789abcdef0, fleet trainers", "ready", "ok, severity ok", "97 %", "does not answer: 1,"):
        assert words in done.stdout
    assert (installed.root / "calls").read_text() == "called\n"


@pytest.mark.parametrize("severity", [2, 3, 4, 5])
def test_exit_status_is_that_of_the_worst_symptom(installed: Any, severity: int) -> None:
    watched(installed, severity)
    returned, found = status(installed)
    assert returned == severity
    assert found["reasons"] == ["Xid 79"]
    assert "\x1b" not in installed.gpunode("status").stdout


@pytest.mark.parametrize("late", [True, False])
def test_node_without_a_watchdog_is_unknown(installed: Any, late: bool) -> None:
    if late:
        watched(installed, late=True)
    returned, found = status(installed)
    assert (returned, found["state"]) == (1, "late" if late else "starting")
    assert "systemctl status gpu-node-watch" in installed.gpunode("status").stdout


def test_node_with_nothing_at_all_has_a_status(node: Any) -> None:
    node.install()
    node.tool("journalctl", "#!/bin/sh\nexit 1\n")
    for folder in ("run", "var/lib"):
        (node.root / folder).parent.mkdir(parents=True, exist_ok=True)
        (node.root / folder).write_text("no folder")
    done = node.gpunode("status")
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    assert "no result of this boot" in done.stdout


def test_driver_that_holds_its_callers_is_not_asked(installed: Any) -> None:
    case = {"probe": "n", "symptom": {"key": "nvidia-smi-stuck", "reason": "nvidia-smi is stuck in the kernel"}}
    watched(installed, 4, open=[case])
    assert status(installed)[1]["gpus"] == ["not asked: the driver does not return"]
    assert not (installed.root / "calls").exists()


def test_missing_driver_is_a_line(installed: Any) -> None:
    watched(installed)
    installed.tool("nvidia-smi", "#!/bin/sh\necho 'No devices were found'\nexit 6\n")
    assert status(installed)[1]["gpus"] == ["nvidia-smi: No devices were found"]


def test_last_action_end_and_records_are_shown(installed: Any) -> None:
    watched(installed, 5)
    event = {"time": "2026-11-23T10:00:00Z", "stage": "action", "state": "held", "reason": "two are gone"}
    other = {"stage": "watch", "state": "seen"}
    lines = "\n".join(["no JSON", json.dumps(event), json.dumps(other), "[1]"])
    installed.tool("journalctl", f"#!/bin/sh\ncat <<'END'\n{lines}\nEND\n")
    installed.write("run/gpu-cluster/ending", "spot-interruption\n")
    installed.write("run/gpu-cluster/shipped.json", '{"boot_id": "boot-1", "at": 5, "records": 3}')
    installed.write("etc/gpu-cluster/maintenance", "new driver\n")
    screen = installed.gpunode("status").stdout
    for words in ("action held: two are gone", "about to end: spot-interruption", "3 sent", "suspended: new driver"):
        assert words in screen


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"boot_id": "boot-1"}', '{"boot_id": "boot-1", "at": []}', "[" * 9999]
)
@pytest.mark.parametrize("file", ["watch", "boot", "shipped"])
def test_broken_files_break_nothing(installed: Any, file: str, text: str) -> None:
    installed.write(f"run/gpu-cluster/{file}.json", text)
    installed.write("var/lib/gpu-cluster/repairs.json", text)
    returned, found = status(installed)
    assert returned == 1
    assert found["instance_id"] == "i-0123456789abcdef0"


def test_repairs_are_listed_for_a_person(installed: Any) -> None:
    past = {"at": 1_700_000_000, "rung": "reset", "step": "release", "end": "ok", "reason": "Xid 95"}
    current = {**past, "rung": "reboot", "step": "wait", "end": None, "reason": "Xid 95 again"}
    repairs = {"instance_id": "i-0123456789abcdef0", "version": 7, "past": [past], "current": current}
    installed.write("var/lib/gpu-cluster/repairs.json", json.dumps(repairs))
    screen = installed.gpunode("status").stdout
    assert "reset of 2023-11-14T22:13:20Z, ok: Xid 95\n" in screen
    assert "reboot of 2023-11-14T22:13:20Z, wait: Xid 95 again\n" in screen
