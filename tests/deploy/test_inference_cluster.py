"""A cluster that trains and serves, as `make demo` has it: the real CLI, an edit, and a destroy that keeps the data."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLE = REPOSITORY / "examples" / "train-and-serve.yaml"
EDITS = [("nodes: 2", "nodes: 3"), ("/fsx/assistant/v1", "/fsx/assistant/v2")]
FILE_SYSTEM = re.compile(r"fs-[0-9a-f]{17}")


@pytest.fixture(scope="module")
def parts() -> dict[str, str]:
    """What the demonstration printed, by the title before it."""
    edits = [word for edit in EDITS for word in ("--edit", *edit)]
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "tools" / "demo.py"), str(EXAMPLE), *edits, "--destroy"],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    titled = re.split(r"^== (.*)$", "== start\n" + done.stdout, flags=re.MULTILINE)
    return dict(zip(titled[1::2], titled[2::2], strict=True))


def part(parts: dict[str, str], title: str) -> str:
    (found,) = [text for name, text in parts.items() if name.startswith(title)]
    return found


def test_the_service_has_healthy_nodes_in_two_zones_before_there_is_a_block(parts: dict[str, str]) -> None:
    shown = part(parts, "after the deploy")
    assert re.search(r"service https://internal-\S+:443 \[model\]: internal, in us-east-1d, us-east-1f", shown)
    assert "targets [model]: 2 healthy" in shown
    assert re.search(r"fleet assistant-fleet-trainers-.* desired 0; nodes: none", shown)


def test_the_trainers_come_with_the_block(parts: dict[str, str]) -> None:
    shown = part(parts, "when the block is delivered")
    assert re.search(r"fleet assistant-fleet-trainers-.* nodes: 4 InService of template version 1", shown)
    assert "0 of 4 x p5.48xlarge free" in shown


def test_the_diff_shows_the_edit_and_nothing_else(parts: dict[str, str]) -> None:
    shown = part(parts, "when the block is delivered")
    assert re.search(r"\[-\] … /assistant/v1.*\n.*\[\+\] … /assistant/v2", shown)
    assert re.search(r"MinSize\n +\[-\] 2\n +\[\+\] 3", shown)
    changed = re.findall(r"^ +stack (\S+)$", shown, flags=re.MULTILINE)
    assert changed == ["assistant-inference-servers"]


def test_the_edit_reaches_every_server_and_no_trainer(parts: dict[str, str]) -> None:
    shown = part(parts, "after the second deploy")
    fleets = re.findall(r"fleet assistant-(\w+-\w+)-.*nodes: (.*); zone", shown)
    assert sorted(fleets) == [
        ("fleet-trainers", "4 InService of template version 1"),
        ("inference-servers", "3 InService of template version 2"),
    ]
    assert "targets [model]: 3 healthy" in shown


def test_the_service_stays_when_the_block_is_over(parts: dict[str, str]) -> None:
    shown = part(parts, "after the block's warning")
    assert re.search(r"fleet assistant-fleet-trainers-.* nodes: none", shown)
    assert "targets [model]: 3 healthy" in shown


def test_the_destroy_is_refused_for_data_and_keeps_them(parts: dict[str, str]) -> None:
    shown = part(parts, "after the block's warning")
    assert "refused: assistant-data-models has termination protection" in shown
    kept = part(parts, "kept on purpose")
    stacks = dict(re.findall(r"^stack (\S+): \d+ resources, (.*)$", kept, re.MULTILINE))
    assert stacks == {
        "assistant-data-models": "termination protection",
        "assistant-network": "the data stand in it",
    }
    assert set(FILE_SYSTEM.findall(kept)) == set(FILE_SYSTEM.findall(part(parts, "after the deploy")))
    retained = re.findall(r"^of the deleted stack (\S+): DeletionPolicy Retain\n +(\S+)", kept, re.MULTILINE)
    assert retained == [("assistant-inference-servers", "AWS::S3::Bucket")]
