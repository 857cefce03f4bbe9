"""The samples of what real tools print are complete: each has its file, its source and its verdict."""

from __future__ import annotations

import pytest

from tool_output import FOLDER, VERDICTS, samples, tools

LEAST_SAMPLES, LEAST_SOURCES = 300, 12


@pytest.mark.parametrize("tool", tools())
def test_every_sample_has_a_file_a_named_source_and_a_verdict(tool: str) -> None:
    for sample in samples(tool):
        assert sample.text.strip() or sample.status, sample.file
        assert sample.verdict in VERDICTS, sample.file
        assert sample.source.startswith("https://"), sample.file
        assert sample.repository.count("/") == 1 or "." in sample.repository, sample.source
        assert sample.means.endswith("."), sample.file
        assert sample.stream in ("stdout", "stderr", "kernel"), sample.file


@pytest.mark.parametrize("tool", tools())
def test_every_file_is_in_the_index_once(tool: str) -> None:
    files = sorted(path.name for path in (FOLDER / tool).iterdir() if path.name != "samples.yaml")
    assert sorted(sample.file for sample in samples(tool)) == files


def test_samples_are_many_and_of_many_sources() -> None:
    every = [sample for tool in tools() for sample in samples(tool)]
    assert len(every) >= LEAST_SAMPLES
    assert len({sample.repository for sample in every}) >= LEAST_SOURCES
