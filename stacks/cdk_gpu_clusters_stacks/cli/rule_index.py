"""Every rule of the library by its id."""

from __future__ import annotations

import json
from pathlib import Path

#: Title, area and source of each rule; `tools/write_rule_index.py` writes it.
INDEX_FILE = Path(__file__).with_name("rules.json")


def rule_index() -> dict[str, dict[str, str]]:
    """All rules by id, each with title, area and source."""
    index: dict[str, dict[str, str]] = json.loads(INDEX_FILE.read_text("utf-8"))
    return index
