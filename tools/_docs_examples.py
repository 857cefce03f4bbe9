"""An extension of griffe: "Example:" in a docstring begins an example, as "Examples:" does."""

from __future__ import annotations

import re
from typing import Any

import griffe

_TITLE = re.compile(r"^Example:$", re.MULTILINE)


class ExampleSections(griffe.Extension):
    """Griffe's Google style knows the plural only; the singular would be shown as prose."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rename the section before the docstring is parsed."""
        if obj.docstring:
            obj.docstring.value = _TITLE.sub("Examples:", obj.docstring.value)
