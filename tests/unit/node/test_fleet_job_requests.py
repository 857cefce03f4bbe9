"""Requests of jobs and their files, as users write them and nodes read them."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from cdk_gpu_clusters.node.gpunode.fleet_jobs.ranks import StartError, unpack
from cdk_gpu_clusters.node.gpunode.fleet_jobs.request import (
    LONGEST_REQUEST,
    NO_REQUEST,
    JobRequest,
    RequestError,
    as_text,
    pieces_of,
    read_files,
    read_request,
    with_files,
)

JOB = "20261123-120000-a1b2"
REQUEST = JobRequest(job_id=JOB, command=("torchrun", "train.py", "--lr", "3e-4"), nodes=16)


def changed(**fields: object) -> str:
    return json.dumps({**json.loads(as_text(REQUEST)), **fields})


def test_a_node_reads_what_a_user_wrote() -> None:
    written = JobRequest(
        job_id=JOB,
        command=("torchrun", "train.py", "--name", "ünï \" ' $x"),
        nodes=16,
        image="123456789012.dkr.ecr.us-east-1.amazonaws.com/llama:v3",
        environment={"WANDB_MODE": "offline"},
        max_restarts=7,
        checkpoint_directory="/fsx/llama",
        is_stopped=True,
    )
    assert read_request(as_text(written)) == written
    assert len(as_text(written)) < LONGEST_REQUEST


def test_a_parameter_without_a_request_has_none() -> None:
    assert read_request(NO_REQUEST) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        changed(version=2),
        changed(job_id="../../etc"),
        changed(command=[]),
        changed(command=["a\0b"]),
        changed(command=[1]),
        changed(nodes=0),
        changed(nodes="2"),
        changed(max_restarts=-1),
        # An option of docker, not an image.
        changed(image="--privileged"),
        changed(image="--volume=/:/host"),
        changed(environment={"A=B": "c"}),
        changed(environment={"A": "b\nLD_PRELOAD=/tmp/evil.so"}),
        changed(environment={"A": 1}),
    ],
)
def test_a_request_that_is_damaged_or_harmful_is_refused(text: str) -> None:
    with pytest.raises(RequestError):
        read_request(text)


def test_files_travel_in_pieces_and_arrive_in_any_order_with_strangers_among_them() -> None:
    files = bytes(range(256)) * 3000
    request = with_files(REQUEST, files)
    messages = pieces_of(files)
    assert len(messages) == request.pieces > 3
    assert all(len(one.encode()) < 256 * 1024 for one in messages)
    assert read_files(request, ["not json", '{"piece": "x"}', *reversed(messages)]) == files
    assert read_files(request, messages[:-1]) is None


def test_files_with_another_digest_are_refused() -> None:
    request = with_files(REQUEST, b"print(1)")
    with pytest.raises(RequestError, match="digest"):
        read_files(request, pieces_of(b"print(2)"))


def archive(*members: tarfile.TarInfo, content: bytes = b"x") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for member in members:
            member.size = len(content) if member.isfile() else 0
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def test_files_are_unpacked_below_their_folder(tmp_path: Path) -> None:
    script = tarfile.TarInfo("src/train.sh")
    script.mode = 0o4775
    unpack(archive(script), tmp_path)
    assert (tmp_path / "src/train.sh").read_bytes() == b"x"
    assert (tmp_path / "src/train.sh").stat().st_mode & 0o7777 == 0o755


def link(name: str, target: str) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = tarfile.SYMTYPE, target
    return made


@pytest.mark.parametrize(
    "member",
    [
        tarfile.TarInfo("../evil"),
        tarfile.TarInfo("/etc/evil"),
        tarfile.TarInfo("a/../../evil"),
        link("evil", "/etc/passwd"),
    ],
)
def test_files_outside_of_the_folder_and_links_are_refused(tmp_path: Path, member: tarfile.TarInfo) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    with pytest.raises(StartError, match="no file below its folder"):
        unpack(archive(member), folder)
    assert not (tmp_path / "evil").exists()


# Ids of their own: an archive has the time in it, and processes that collect at different times must find the same tests.
@pytest.mark.parametrize("files", [b"no archive", archive(tarfile.TarInfo("a"))[:60]], ids=["none", "cut off"])
def test_a_damaged_archive_is_an_error_and_no_traceback(tmp_path: Path, files: bytes) -> None:
    with pytest.raises(StartError, match="damaged"):
        unpack(files, tmp_path)
