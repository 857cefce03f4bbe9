"""Slurm's commands, found by the settings of this node, and what `scontrol show` prints."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..command import Outcome, run
from ..node import Settings

_TIMEOUT_SECONDS = 15
_FIELD = re.compile(r"(?:^|\s)([A-Z][A-Za-z:/_]*)=")


class SlurmCommands:
    """Calls `scontrol` and others. GPU_SLURM_BIN is their folder, GPU_SLURM_CONF the configuration."""

    def __init__(self, settings: Settings) -> None:
        self._folder = settings.text("slurm_bin").rstrip("/")
        config = settings.text("slurm_conf")
        self._environment = {"SLURM_CONF": config} if config else {}

    def run(self, program: str, *arguments: str) -> Outcome:
        """Run a command to its end, or for 15 seconds."""
        path = f"{self._folder}/{program}" if self._folder else program
        return run(path, *arguments, timeout_seconds=_TIMEOUT_SECONDS, environment=self._environment)

    def nodes(self, names: str) -> list[dict[str, str]]:
        """The fields of nodes, as `scontrol show node` prints them; none if the controller does not answer.

        Args:
            names: A host list such as `gpu-[1-4]`.
        """
        outcome = self.run("scontrol", "--oneliner", "show", "node", names)
        return [fields_of(line) for line in outcome.output.splitlines() if line.strip()] if outcome.ok else []

    def job(self, job_id: str) -> dict[str, str]:
        """The fields of a job; empty if the controller does not answer."""
        outcome = self.run("scontrol", "--oneliner", "show", "job", job_id)
        return fields_of(outcome.output.partition("\n")[0]) if outcome.ok else {}

    def names(self, host_list: str) -> list[str]:
        """The single names of a host list; without a call of the controller."""
        outcome = self.run("scontrol", "show", "hostnames", host_list)
        return outcome.output.split() if outcome.ok else []


def fields_of(line: str) -> dict[str, str]:
    """The fields of a line of `scontrol --oneliner`. A value may have blanks, such as a reason.

    Example:
        >>> fields_of("NodeName=gpu-1 State=IDLE+DRAIN Reason=disk swap [root@now]")["Reason"]
        'disk swap [root@now]'
    """
    found = list(_FIELD.finditer(line))
    ends = [one.start() for one in found[1:]] + [len(line)]
    fields: dict[str, str] = {}
    for one, end in zip(found, ends):
        fields.setdefault(one[1], line[one.end() : end].strip())
    return fields


def is_set(fields: Mapping[str, str], name: str) -> str:
    """A field's value; empty for Slurm's words for none."""
    value = fields.get(name, "")
    return "" if value in ("(null)", "None", "N/A", "Unknown") else value
