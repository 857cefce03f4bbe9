"""Banned words are found in text that a user reads, and in nothing else."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from types import ModuleType

import pytest

TOOLS = Path(__file__).parents[3] / "tools"
BANNED = """\
# a comment
said = stated
said aloud = explicit
he = you

[allowed]
as the manual said
"""


@pytest.fixture(name="tool")
def _tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(TOOLS))
    import check_words

    return check_words


def found(tool: ModuleType, file: str, content: str) -> list[tuple[int, str]]:
    words = tool.Words.read(BANNED)
    return [
        (start + line, word)
        for start, text in tool.texts(PurePosixPath(file), content)
        for line, word in words.found(text)
    ]


def test_a_word_is_found_in_any_case_and_over_the_end_of_a_line(tool: ModuleType) -> None:
    text = "# Title\n\nHe did. It is said\naloud.\nWhat was said.\n"
    assert found(tool, "docs/a.md", text) == [(3, "he"), (3, "said aloud"), (5, "said")]


@pytest.mark.parametrize(
    "text",
    [
        "The `said` key.\n",
        "``he said``\n",
        "```\nhe said\n```\n",
        "    ```yaml\n    he: said\n    ```\n",
        "Unsaid, the, she, he-said.\n",
        "It is as the manual\nsaid.\n",
    ],
)
def test_code_other_words_and_quotes_are_left_alone(tool: ModuleType, text: str) -> None:
    assert found(tool, "docs/a.md", text) == []


def test_docstrings_and_messages_of_python_are_read(tool: ModuleType) -> None:
    code = '"""What he is."""\n# he\nKEY = "said"\ntext = f"{KEY} is said"\nnone = ">>> he"\n'
    assert found(tool, "constructs/a.py", code) == [(1, "he"), (4, "said")]


def test_comments_of_examples_and_words_of_drawings_are_read(tool: ModuleType) -> None:
    assert found(tool, "examples/a.yaml", "he: said\nname: a  # he\n") == [(2, "he")]
    assert found(tool, "docs/drawings/a.svg", '<svg he="said">\n<text>said</text></svg>') == [(2, "said")]


def test_the_list_has_a_replacement_for_each_word(tool: ModuleType) -> None:
    words = tool.Words.read((TOOLS / "banned_words.txt").read_text(encoding="utf-8"))
    assert len(words.instead) > 20
    assert all(words.instead.values())
