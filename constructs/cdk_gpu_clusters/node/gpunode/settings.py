"""What the user data says about this node."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from . import paths

_PREFIX = "GPU_"


@dataclass(frozen=True)
class Settings:
    """The settings of `/etc/gpu-cluster/node.env`, by their names without the prefix `GPU_`, in lower case."""

    values: Mapping[str, str] = field(default_factory=dict)

    def text(self, name: str, default: str = "") -> str:
        """A setting as text; the default where it is missing or empty."""
        return self.values.get(name) or default

    def number(self, name: str, default: int = 0) -> int:
        """A setting as a number; the default where it is missing, empty or no number."""
        try:
            return int(self.text(name) or default)
        except ValueError:
            return default

    def words(self, name: str) -> list[str]:
        """A setting that lists words with blanks between them."""
        return self.text(name).split()


def read_settings() -> Settings:
    """Read the settings as a shell would; lines that no shell would take are left out."""
    values = {}
    for line in paths.read_text(paths.settings_file()).splitlines():
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            continue
        if len(words) == 1 and "=" in words[0]:
            name, _, value = words[0].partition("=")
            values[name[len(_PREFIX) :].lower() if name.startswith(_PREFIX) else name] = value
    return Settings(values)
