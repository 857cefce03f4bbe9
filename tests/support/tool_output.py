"""What real tools printed: the samples below `tests/fixtures/tool_output`, and the figures of a run over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

FOLDER = Path(__file__).parents[1] / "fixtures" / "tool_output"
#: What a person makes of a sample, for the node.
VERDICTS = ("healthy", "wait", "monitor", "reset", "reboot", "replace", "unknown")


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One output.

    Attributes:
        tool: Folder of the sample.
        file: Its file there.
        command: What printed it.
        version: Of the driver or the tool, if the source has it.
        machine: Where, as far as the source has it.
        source: Address of the file or thread that has it.
        stream: `stdout`, `stderr` or `kernel`.
        status: Exit status of the command, if known.
        verdict: What a person makes of it, one of VERDICTS.
        means: The same in a sentence.
        values: What a program has to find in it.
        changed: What was changed of it, such as an address.
    """

    tool: str
    file: str
    command: str
    version: str | None
    machine: str | None
    source: str
    stream: str
    status: int | None
    verdict: str
    means: str
    values: dict[str, Any]
    changed: str | None

    @property
    def text(self) -> str:
        """What was printed."""
        return (FOLDER / self.tool / self.file).read_text(encoding="utf-8")

    @property
    def repository(self) -> str:
        """The repository that it comes from, `owner/name`; the host for other addresses."""
        address = urlsplit(self.source)
        return "/".join(address.path.split("/")[1:3]) if address.netloc == "github.com" else address.netloc


def tools() -> list[str]:
    """The folders that have samples."""
    return sorted(index.parent.name for index in FOLDER.glob("*/samples.yaml"))


@cache
def samples(tool: str) -> tuple[Sample, ...]:
    """The samples of a tool, in the order of its index."""
    rows = yaml.load((FOLDER / tool / "samples.yaml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    return tuple(Sample(tool=tool, **row) for row in rows)


#: Property of a test that read one sample: its tool and repository. The figures of a run come from it.
READ_SAMPLE = "read_sample"


def read_by(record_property: Callable[[str, object], None], sample: Sample) -> None:
    """Count a sample as read, in the figures at the end of the run.

    Args:
        record_property: pytest's fixture of this name.
        sample: Which one.
    """
    record_property(READ_SAMPLE, f"{sample.tool} {sample.repository}")


def figures(found: Iterable[tuple[str, str]]) -> list[str]:
    """Lines that count samples.

    Args:
        found: Tool and repository of each.
    """
    counted = list(found)
    by_tool = Counter(tool for tool, _ in counted)
    by_source = Counter(source for _, source in counted)
    return [
        f"{len(counted)} samples of {len(by_source)} sources read as people read them",
        "by tool: " + ", ".join(f"{tool} {count}" for tool, count in by_tool.most_common()),
        "by source: " + ", ".join(f"{source} {count}" for source, count in by_source.most_common()),
    ]
