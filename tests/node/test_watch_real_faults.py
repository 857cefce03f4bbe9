"""The watchdog against real faults of the system below it. docs/reliability.md lists them."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from nodebox.debian import need_root, program
from nodebox.imds import Metadata
from watch_program import OFF_THE_BUS, WatchProgram, wait_until
from watched_node import INSTANCE


@pytest.fixture
def watchdog(tmp_path: Path) -> Iterator[WatchProgram]:
    need_root()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        metadata = Metadata.of_instance(
            INSTANCE, user_data="", instance_type="p5.48xlarge", zone="us-east-2a", account="123456789012"
        )
        server = metadata.serve(listening)
        made = WatchProgram(tmp_path, address)
        yield made
        made.close()
        server.close()


@pytest.fixture
def undo() -> Iterator[ExitStack]:
    """What is taken back at the end, the last first."""
    with ExitStack() as stack:
        yield stack


@contextmanager
def running(watchdog: WatchProgram, undo: ExitStack) -> Iterator[None]:
    """The watchdog, from its first poll on."""
    child = watchdog.start()
    # A thread that sleeps in the kernel keeps the process until its disk goes on.
    undo.callback(child.communicate)
    try:
        assert watchdog.systemd.recv(100).startswith(b"READY=1")
        lives(watchdog)
        yield
        assert child.poll() is None, "it lives"
    finally:
        child.kill()


def lives(watchdog: WatchProgram) -> None:
    """systemd hears of more polls than those that it has not read yet."""
    while watchdog.hears_something(0):
        watchdog.systemd.recv(100)
    for _ in range(3):
        assert watchdog.systemd.recv(100) == b"WATCHDOG=1"


def acts(watchdog: WatchProgram) -> None:
    """A broken GPU is acted on, once."""
    assert watchdog.asked("set-instance-health") == []
    os.write(watchdog.kernel, OFF_THE_BUS)
    wait_until(lambda: watchdog.asked("set-instance-health"))
    [copy] = watchdog.asked("s3 cp")
    assert "s3://evidence/trainers/" in copy
    assert f"/{INSTANCE}/" in copy
    lives(watchdog)
    assert len(watchdog.asked("set-instance-health")) == 1


def mount(undo: ExitStack, place: Path, kind: str, options: str) -> None:
    place.mkdir(parents=True, exist_ok=True)
    subprocess.run([program("mount"), "-t", kind, "-o", options, kind, str(place)], check=True)
    undo.callback(subprocess.run, ["umount", "--lazy", str(place)], check=True)


def freezer(undo: ExitStack, folder: Path, place: Path) -> Callable[[], None]:
    """A real file system, and what freezes it: whoever writes to it then sleeps where no signal arrives."""
    image = folder / "image"
    with image.open("wb") as file:
        file.truncate(16 * 2**20)
    subprocess.run([program("mkfs.ext4", "e2fsprogs"), "-q", str(image)], check=True)
    place.mkdir(parents=True, exist_ok=True)
    subprocess.run([program("mount"), "-o", "loop", str(image), str(place)], check=True)
    undo.callback(subprocess.run, ["umount", "--lazy", str(place)], check=True)

    def freeze() -> None:
        subprocess.run([program("fsfreeze", "util-linux"), "--freeze", str(place)], check=True)
        undo.callback(subprocess.run, ["fsfreeze", "--unfreeze", str(place)], check=True)

    return freeze


def states_of(words: str) -> list[str]:
    """States of the processes whose command line holds some words, as ps shows them."""
    lines = subprocess.run(["ps", "-ewwo", "stat,args"], check=True, capture_output=True, text=True).stdout
    return [line.split()[0] for line in lines.splitlines() if words in line]


def test_full_disk(watchdog: WatchProgram, undo: ExitStack) -> None:
    state = watchdog.root / "var/lib/gpu-cluster"
    mount(undo, state, "tmpfs", "size=64k")
    with pytest.raises(OSError, match="No space left"):
        (state / "filling").write_bytes(bytes(2**20))
    with running(watchdog, undo):
        acts(watchdog)


def test_read_only_disk(watchdog: WatchProgram, undo: ExitStack) -> None:
    mount(undo, watchdog.root / "var/lib/gpu-cluster", "tmpfs", "ro")
    with running(watchdog, undo):
        acts(watchdog)


def test_disk_that_hangs(watchdog: WatchProgram, undo: ExitStack, tmp_path: Path) -> None:
    freeze = freezer(undo, tmp_path, watchdog.root / "var/lib/gpu-cluster")
    with running(watchdog, undo):
        freeze()
        acts(watchdog)


def test_child_in_uninterruptible_sleep(watchdog: WatchProgram, undo: ExitStack, tmp_path: Path) -> None:
    frozen = tmp_path / f"frozen-{secrets.token_hex(4)}"
    freezer(undo, tmp_path, frozen)()
    watchdog.tool("nvidia-smi", f"#!/bin/sh\n: {frozen}\necho >>{frozen}/file\n")
    # The real deadlines are made for real drivers, and slow tests.
    for file in ("watch/probes.py", "reporting.py"):
        source = watchdog.package / file
        text = source.read_text()
        assert "_TIMEOUT_SECONDS = 20" in text
        text = text.replace("_TIMEOUT_SECONDS = 20", "_TIMEOUT_SECONDS = 1")
        source.write_text(
            text.replace("_EVERY_SECONDS, _CONFIRMATIONS = 30, 3", "_EVERY_SECONDS, _CONFIRMATIONS = 3, 3")
        )
    watchdog.tool("systemctl", '#!/bin/sh\necho "$*" >>"$GPU_CLUSTER_ROOT/aws"\n[ "$1" = --no-block ]\n')
    watchdog.set(accelerator_count="0")
    with running(watchdog, undo):
        wait_until(lambda: "D" in {state[0] for state in states_of(str(watchdog.tools / "nvidia-smi"))})
        lives(watchdog)
        wait_until(lambda: watchdog.asked("--no-block reboot"))
        [copy] = watchdog.asked("s3 cp")
        assert INSTANCE in copy
        lives(watchdog)
    assert len(watchdog.asked("--no-block reboot")) == 1
    assert watchdog.asked("set-instance-health") == [], "a reboot may help"


def test_memory_that_takes_no_file(watchdog: WatchProgram, undo: ExitStack) -> None:
    mount(undo, watchdog.root / "run/gpu-cluster", "tmpfs", "ro")
    with running(watchdog, undo):
        os.write(watchdog.kernel, OFF_THE_BUS)
        wait_until(lambda: watchdog.asked("set-instance-health"))
        lives(watchdog)
    assert len(watchdog.asked("set-instance-health")) == 1
