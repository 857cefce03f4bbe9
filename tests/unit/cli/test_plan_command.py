"""`gpu-clusters plan`: text, JSON, a file with faults, a comparison that refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cdk_gpu_clusters_stacks.cli.main import main

FILE = "examples/p5-lustre.yaml"


def test_the_text_is_plain_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", FILE]) == 0
    printed = capsys.readouterr()
    assert "\x1b" not in printed.out
    assert printed.out.startswith("Cluster llama-lustre\n")
    assert "cards 1-31  efa-only (device 0)" in printed.out


def test_json_has_the_whole_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--json", FILE]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["totals"]["accelerators"] == 128
    assert document["stores"][0]["readers"][0]["limited_by"] == "file system"
    assert "against" not in document


def test_a_file_with_faults_has_no_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(Path(FILE).read_text().replace("nodes: 16", "nodes: none"))
    assert main(["plan", str(file)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.search(r"cluster\.yaml:\d+:\d+: error GPU-SPEC-", printed.err)


@pytest.mark.parametrize(
    ("before", "after", "status", "told"),
    [
        ("nodes: 16", "nodes: 20", 0, "2 updated"),
        ("efa: true }", "efa: false }", 1, "GPU-LUS-030"),
        ("nodes: 16", "nodes: 16", 0, "nothing changes"),
    ],
)
def test_against_says_what_changes(
    before: str, after: str, status: int, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cluster.yaml"
    text = Path(FILE).read_text(encoding="utf-8")
    assert before in text
    file.write_text(text.replace(before, after), encoding="utf-8")
    assert main(["plan", str(file), "--against", FILE]) == status
    printed = capsys.readouterr().out
    assert told in printed[printed.index("Changes against the deployed file") :]
    assert main(["plan", "--json", str(file), "--against", FILE]) == status
    compared = json.loads(capsys.readouterr().out)["against"]
    assert bool(compared["refused"]) == bool(status)


def test_a_deployed_file_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", FILE, "--against", "nowhere.yaml"]) == 2
    assert "GPU-SPEC-001" in capsys.readouterr().err


def test_headings_are_coloured_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert main(["plan", FILE]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "\x1b[1;36mCluster llama-lustre\x1b[0m" in lines
    assert all(len(re.sub("\x1b\\[[0-9;]*m", "", line)) <= 100 or len(line.split()) <= 2 for line in lines)
