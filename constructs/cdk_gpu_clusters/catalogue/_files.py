"""Read the catalogue's data files, each at most once and only when first asked for."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"


@cache
def read_json(name: str) -> dict[str, Any]:
    """The content of one JSON data file; treat it as read-only, it is shared."""
    content: dict[str, Any] = json.loads((DATA / name).read_text(encoding="utf-8"))
    return content
