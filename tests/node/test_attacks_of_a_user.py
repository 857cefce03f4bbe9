"""What a user without rights puts into the node's way, or tries to read. The node software runs as root."""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdk_gpu_clusters.node.gpunode import jobs, lustre
from cdk_gpu_clusters.node.gpunode.node import Aws, Metadata, Node, Settings
from cdk_gpu_clusters.node.gpunode.reporting import keep_evidence
from deadline import ends_within
from fakes import lnet
from nodebox.debian import need_root
from unprivileged import as_nobody

_SLOW_SECONDS = 2.0


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A root of the node that every user may enter, unlike those of pytest."""
    need_root()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        monkeypatch.setenv("GPU_CLUSTER_ROOT", folder)
        boot_id = Path(folder, "proc/sys/kernel/random/boot_id")
        boot_id.parent.mkdir(parents=True)
        boot_id.write_text("0123456789abcdef\n")
        yield Path(folder)


def test_evidence_is_not_read(root: Path) -> None:
    assert keep_evidence(Node(Settings(), Metadata(), "i-1", Aws("us-east-1")), "a fault") == ""
    bundle = root / "run/gpu-cluster/evidence.tar.gz"
    assert bundle.read_bytes()
    assert as_nobody(bundle.read_bytes) != 0
    assert as_nobody(bundle.stat) == 0, "the folder can be entered: only the file's own mode protects it"


def test_fifo_in_place_of_a_job_does_not_stop_the_drain(root: Path) -> None:
    folder = jobs.make_folder()
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    try:
        assert as_nobody(lambda: os.mkfifo(folder / str(pid))) == 0
        with ends_within(_SLOW_SECONDS):
            assert jobs.running() == []
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


@pytest.fixture
def file_system(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file system with EFA that every user may write to."""
    (root / "tools").mkdir()
    lnet.install(root / "tools").change(
        nets=[{"network": name, "device": "d0", "sent": 0, "up": True} for name in ("tcp", "efa")]
    )
    # The real one writes.
    (root / "tools/dd").unlink()
    monkeypatch.setenv("PATH", str(root / "tools"), prepend=":")
    shared = root / "fsx"
    shared.mkdir()
    shared.chmod(0o1777)
    return shared


@pytest.mark.parametrize("name", ["01234567", "guessed"])
def test_probe_of_lustre_writes_through_no_link(
    root: Path, file_system: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Not if its name can be foreseen, either."""
    if name == "guessed":
        monkeypatch.setattr(secrets, "token_hex", lambda _: name)
    target = root / "only-of-root"
    target.write_text("precious")
    target.chmod(0o600)
    assert as_nobody(lambda: (file_system / f".gpu-cluster.{name}.efa").symlink_to(target)) == 0
    measured = lustre.measure("/fsx")
    assert target.read_text() == "precious"
    assert ("File exists" in measured.words) == (name == "guessed"), measured.words
