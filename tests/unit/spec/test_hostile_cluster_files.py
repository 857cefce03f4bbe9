"""A cluster file that a stranger sends, as with a pull request, cannot hang its reader, nor show or take others' files."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from cdk_gpu_clusters_stacks.spec import Reading, format_findings, read_cluster
from cdk_gpu_clusters_stacks.spec._document import MAX_BYTES
from deadline import ends_within

HEAD = "version: 1\nname: demo\nregion: us-east-1\nnetwork: { availability_zone: us-east-1a }\ntraining:\n  fleets:\n"
SECRET = "root:$6$salt$hash"
MOST_SECONDS = 2.0


def read(folder: Path, text: str) -> Reading:
    (folder / "cluster.yaml").write_text(text, encoding="utf-8")
    return read_in_time(folder / "cluster.yaml")


def read_in_time(file: Path) -> Reading:
    """Of the processor's time: other programs may be running."""
    before = time.process_time()
    with ends_within(10 * MOST_SECONDS):
        reading = read_cluster(file)
    assert time.process_time() - before < MOST_SECONDS
    return reading


def with_script(path: str) -> str:
    return f"{HEAD}    a: {{ instance_type: g6.xlarge, nodes: 1, user_data: '{path}' }}\n"


def levels(line: str, count: int) -> str:
    """Lines of which each repeats the one before."""
    return "".join(line.format(this=f"a{number}", last=f"*a{number - 1}") for number in range(1, count))


@pytest.mark.parametrize(
    "bomb",
    [
        "a0: &a0 { k: 1 }\n" + levels("{this}: &{this} {{ <<: [" + ", ".join(["{last}"] * 9) + "] }}\n", 9),
        "a0: &a0 { k: 1 }\n" + levels("{this}: &{this} {{ <<: {last}, x: {last}, y: {last} }}\n", 30),
        "a0: &a0 [x]\n" + levels("{this}: &{this} [" + ", ".join(["{last}"] * 9) + "]\n", 9),
    ],
    ids=["merges", "merges and aliases", "aliases"],
)
def test_bomb_of_merges_and_aliases_is_refused_at_once(tmp_path: Path, bomb: str) -> None:
    reading = read(tmp_path, bomb)
    assert "aliases repeat too many values" in [finding.cause for finding in reading.findings]


@pytest.mark.parametrize("path", ["/dev/zero", "fifo", "link-to-zero"])
def test_cluster_file_that_is_no_file_is_refused_at_once(tmp_path: Path, path: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link-to-zero").symlink_to("/dev/zero")
    [finding] = read_in_time(tmp_path / path).findings
    assert finding.id == "GPU-SPEC-001"
    assert "it is no regular file" in finding.cause


def test_largest_cluster_file_is_read_in_time_and_a_larger_one_is_refused(tmp_path: Path) -> None:
    text = HEAD + "".join(f"    # {number}\n" for number in range(MAX_BYTES))
    assert read(tmp_path, text[:MAX_BYTES]).findings[0].id != "GPU-SPEC-001"
    [finding] = read(tmp_path, text[: MAX_BYTES + 1]).findings
    assert finding.cause == f"the file cannot be read: it is larger than {MAX_BYTES} bytes"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a cluster file, beside somebody's secret."""
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    (tmp_path / "own").mkdir()
    return tmp_path / "own"


@pytest.mark.parametrize("path", ["../secret", "{secret}", "link", "folder/secret", "x/../../secret"])
def test_script_outside_the_folder_is_neither_read_nor_shown(folder: Path, path: str) -> None:
    secret = folder.parent / "secret"
    (folder / "link").symlink_to(secret)
    (folder / "folder").symlink_to(folder.parent)
    reading = read(folder, with_script(path.format(secret=secret)))
    assert [finding.id for finding in reading.findings] == ["GPU-SPEC-013"]
    assert "not in the folder of the cluster file" in reading.findings[0].cause
    assert "$6$" not in format_findings(reading.findings)


def test_script_that_is_refused_is_not_quoted(folder: Path) -> None:
    (folder / "own.sh").write_text(f"{SECRET}\n")
    reading = read(folder, with_script("own.sh"))
    assert [finding.id for finding in reading.findings] == ["GPU-UD-005"]
    assert "$6$" not in format_findings(reading.findings)


@pytest.mark.parametrize("kind", ["fifo", "folder", "long"])
def test_script_that_is_no_file_or_too_long_is_refused_at_once(folder: Path, kind: str) -> None:
    os.mkfifo(folder / "fifo")
    (folder / "folder").mkdir()
    (folder / "long").write_text("#!/bin/sh\n" + "#\n" * 40_000)
    [finding] = read(folder, with_script(kind)).findings
    assert finding.id == "GPU-SPEC-013"
    assert finding.cause.startswith("training.fleets.a.user_data: the script cannot be read: ")


@pytest.mark.parametrize("hostile", ["\\x1b[2J", "\\u202e", "\\x9b2J", "\\a", "\\r\\nno faults"])
def test_finding_obeys_no_terminal(tmp_path: Path, hostile: str) -> None:
    reading = read(tmp_path, f'{HEAD}    a: {{ instance_type: g6.xlarge, nodes: 1, "{hostile}": "{hostile}" }}\n')
    text = format_findings(reading.findings)
    assert all(letter.isprintable() or letter == "\n" for letter in text)
    assert "no faults" not in text.splitlines()
