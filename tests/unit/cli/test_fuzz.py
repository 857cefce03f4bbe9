"""Some seconds of `make fuzz`, and what it finds."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from random import Random

import pytest

from fuzzing.__main__ import fuzz
from fuzzing.engine import Target, run_case
from fuzzing.targets import TARGETS

_SECONDS = 4.0


@pytest.mark.parametrize("name", TARGETS)
def test_inputs_changed_at_random(name: str) -> None:
    cases, faults = fuzz({name: TARGETS[name]}, seconds=_SECONDS, first_seed=int(time.time()))
    assert cases[name]
    assert not faults, "\n".join(map(str, faults))


def _fails(_folder: Path, _random: Random) -> None:
    raise KeyError("member")


def _computes(_folder: Path, _random: Random) -> None:
    end = time.process_time() + 2.1
    while time.process_time() < end:
        pass


def _steers(_folder: Path, _random: Random) -> None:
    sys.stdout.write("\x1b[2J")


def _turns_text(_folder: Path, _random: Random) -> None:
    sys.stderr.write("\u202e")


def _reads_elsewhere(folder: Path, _random: Random) -> None:
    (folder / "link").symlink_to("/etc/hostname")
    os.close(os.open(folder / "link", os.O_RDONLY))


def _behaves(folder: Path, _random: Random) -> None:
    (folder / "file").write_text("text")
    sys.stdout.write((folder / "file").read_text())


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (_fails, "KeyError"),
        (_computes, "of the processor"),
        (_steers, "printed"),
        (_turns_text, "printed"),
        (_reads_elsewhere, "opened /etc/hostname"),
    ],
)
def test_the_fuzzer_finds(target: Target, words: str, tmp_path: Path) -> None:
    fault = run_case("planted", target, 1, tmp_path)
    assert fault is not None
    assert words in str(fault)


def test_the_fuzzer_finds_nothing_in_a_program_that_behaves(tmp_path: Path) -> None:
    assert run_case("planted", _behaves, 1, tmp_path) is None
