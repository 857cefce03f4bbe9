"""Evidence and state of a node: who may read them, what is in them, and what happens if they cannot be written."""

from __future__ import annotations

import io
import json
import os
import stat
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode import jobs, paths, reporting, spool, state
from cdk_gpu_clusters.node.gpunode.events import Events
from cdk_gpu_clusters.node.gpunode.node import Aws, Metadata, Node, Settings, this_node

SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A node whose programs run without a umask."""
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}/tools:{os.environ['PATH']}")
    (tmp_path / "tools").mkdir()
    before = os.umask(0)
    yield tmp_path
    os.umask(before)


def tool(root: Path, name: str, script: str) -> None:
    (root / "tools" / name).write_text(f"#!/bin/sh\n{script}\n")
    (root / "tools" / name).chmod(0o755)


def bundle(root: Path) -> dict[str, str]:
    node = Node(Settings(), Metadata(), "i-0123456789abcdef0", Aws("us-east-2"))
    assert reporting.keep_evidence(node, f"it failed with password={SECRET}") == ""
    with tarfile.open(root / "run/gpu-cluster/evidence.tar.gz") as archive:
        assert {member.mode for member in archive} == {0o600}
        return {name: (archive.extractfile(name) or io.BytesIO()).read().decode() for name in archive.getnames()}


def only_evidence_of(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    monkeypatch.setattr(reporting, "_PROGRAMS", {f"{name}.txt": (name,) for name in ("nvidia-smi", *names)})
    monkeypatch.setattr(reporting, "_checks", lambda *_: "")


def test_only_root_may_read_evidence_from_its_first_byte_on(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_evidence_of(monkeypatch, "nvidia-smi")
    old = root / "run/gpu-cluster/evidence.tar.gz"
    old.parent.mkdir(parents=True)
    old.write_text("of an earlier version")
    old.chmod(0o644)
    modes = []
    write = reporting._write

    def look(stream: Any, parts: Any) -> None:
        modes.append(stat.S_IMODE(os.fstat(stream.fileno()).st_mode))
        write(stream, parts)

    monkeypatch.setattr(reporting, "_write", look)
    bundle(root)
    assert modes == [0o600]
    assert stat.S_IMODE(old.stat().st_mode) == 0o600
    assert [file.name for file in old.parent.iterdir()] == ["evidence.tar.gz"]


def test_evidence_is_without_secrets(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_evidence_of(monkeypatch, "nvidia-smi", "ps")
    tool(root, "nvidia-smi", f"echo Xid 79; echo AWS_SECRET_ACCESS_KEY={SECRET} >&2")
    tool(root, "ps", f"echo '17 python train.py --hf-token {SECRET} --lr 1'")
    (root / "etc/gpu-cluster").mkdir(parents=True)
    (root / "etc/gpu-cluster/node.env").write_text(f"GPU_FLEET=trainers\nWANDB_API_KEY='{SECRET}'\n")
    parts = bundle(root)
    assert SECRET not in json.dumps(parts)
    assert "Xid 79" in parts["nvidia-smi.txt"]
    assert "--lr 1" in parts["ps.txt"]
    assert "GPU_FLEET=trainers" in parts["node.env"]


def test_secret_is_not_cut_in_half(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_evidence_of(monkeypatch, "ps")
    monkeypatch.setattr(reporting, "_LONGEST_PART_BYTES", 100)
    tool(root, "ps", f"echo HF_TOKEN={SECRET}{'x' * 80}; echo the last line")
    assert bundle(root)["ps.txt"] == "the last line\n"


def test_endless_tool_and_huge_files_fill_neither_memory_nor_disk(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_evidence_of(monkeypatch, "first", "second")
    monkeypatch.setattr(reporting, "_TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr(reporting, "_LONGEST_PART_BYTES", 10_000)
    monkeypatch.setattr(reporting, "_LONGEST_BUNDLE_BYTES", 15_000)
    for name in ("first", "second"):
        tool(root, name, "exec yes a line of output")
    log = root / "var/log/cloud-init-output.log"
    log.parent.mkdir(parents=True)
    with log.open("w") as stream:
        stream.truncate(20 * 1024**3)
    parts = bundle(root)
    assert sum(map(len, parts.values())) <= 15_000
    assert len(parts["first.txt"]) > 9_000


def test_fifo_in_place_of_a_log_does_not_block(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_evidence_of(monkeypatch, "ps")
    (root / "var/log").mkdir(parents=True)
    os.mkfifo(root / "var/log/cloud-init-output.log")
    assert bundle(root)["cloud-init-output.log"] == ""


def test_nobody_else_may_write_or_read_what_is_not_theirs(root: Path) -> None:
    Events("i-1").write("watch", "seen", "Xid 79")
    state.remember("watch", {"at": 1})
    state.announce("spot")
    jobs.make_folder()
    jobs.register()
    private = [file for file in root.rglob("*") if "spool" in file.relative_to(root).parts]
    assert {stat.S_IMODE(file.stat().st_mode) for file in private if file.is_dir()} == {0o700}
    others = [file for folder in ("run", "var") for file in (root / folder).rglob("*")]
    writable = {file.name for file in others if file.stat().st_mode & stat.S_IWOTH and "spool" not in str(file)}
    # parents=True creates folders above the node's own with the umask: they exist on every node.
    assert writable - {"lib"} == {"jobs"}


def test_link_in_place_of_a_file_is_replaced_not_followed(root: Path) -> None:
    precious = root / "precious"
    precious.write_text("mine")
    paths.run_folder().joinpath("watch.json").symlink_to(precious)
    state.remember("watch", {"at": 1})
    assert precious.read_text() == "mine"
    assert state.recall("watch")["at"] == 1


@pytest.mark.parametrize("folders", [("run",), ("var",), ("run", "var")])
def test_node_whose_folders_cannot_be_written_goes_on(
    root: Path, folders: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    for name in folders:
        (root / name).write_text("no folder")
    event = Events("i-1").write("watch", "seen", "Xid 79")
    assert json.loads(capsys.readouterr().out) == event
    kept = spool.take("events")
    assert len(kept) == (0 if len(folders) == 2 else 1)
    try:
        state.remember("watch", {"at": 7})
    except OSError:
        assert "run" in folders
    assert state.latest("watch")["at"] == 7


def test_event_quotes_what_tools_print(root: Path) -> None:
    event = Events("i-1").write("watch", "seen", f"\x1b[2Jlost\n\udc80 token={SECRET}" + "x" * 10_000, symptom="a\nb")
    assert event["reason"].startswith("lost token=[redacted]")
    assert event["symptom"] == "a b"
    assert len(Events("i-1").write("watch", "seen", "y " * 10_000)["reason"]) == 1_000


@pytest.mark.parametrize("answer", ["<html>a proxy</html>", "../../etc/passwd", "i-1\ni-2", "x" * 1_000])
def test_answer_that_is_no_instance_id_is_not_used_as_one(
    root: Path, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find: Callable[..., str] = lambda *_, **__: answer  # noqa: E731
    monkeypatch.setattr(Metadata, "wait_for", find)
    assert this_node().instance_id == ""
