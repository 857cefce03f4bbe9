"""Templates of CloudFormation in a commit of a git repository, read from its objects: no checkout is needed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ENDINGS = (".yaml", ".yml", ".json", ".template", ".cfn")
# What every template holds: the section, and the type of a resource. Jinja and Helm files that hold it are looked at,
# too, and said to be unusable.
_SECTION = re.compile(rb"""^[ \t]{0,4}["']?Resources["']?[ \t]*:""", re.MULTILINE)
_TYPE = re.compile(rb"""["']?Type["']?[ \t]*:[ \t]*["']?AWS::\w+::\w+""")


class GitError(Exception):
    """A repository cannot be read: one line that says why."""


@dataclass(frozen=True, slots=True)
class TemplateFile:
    """A file that looks like a template.

    Attributes:
        path: From the root of the repository.
        blob: Git's name of its content: the same for copies.
        content: What it holds.
    """

    path: str
    blob: str
    content: bytes


def templates_of(repository: Path, commit: str) -> Iterator[TemplateFile]:
    """The templates of a commit, by path.

    Args:
        repository: A checkout, or a git directory.
        commit: The full name of the commit.

    Raises:
        GitError: If there is no such repository, or it lacks the commit or a file of it.
    """
    listing = _git(repository, "ls-tree", "-r", "-z", "--full-tree", commit).decode("utf-8", "surrogateescape")
    entries = [entry.split("\t", 1) for entry in listing.split("\0") if entry]
    files = [(path, meta.split()) for meta, path in entries if path.endswith(ENDINGS)]
    blobs = [(path, fields[2]) for path, fields in files if fields[0] in ("100644", "100755")]
    for (path, blob), content in zip(blobs, _contents(repository, [blob for _, blob in blobs]), strict=True):
        if _SECTION.search(content) and _TYPE.search(content):
            yield TemplateFile(path, blob, content)


def _contents(repository: Path, blobs: list[str]) -> Iterator[bytes]:
    answer = _git(repository, "cat-file", "--batch", given="\n".join(blobs).encode())
    position = 0
    for blob in blobs:
        end = answer.index(b"\n", position)
        header = answer[position:end].split()
        if header[-1] == b"missing":
            raise GitError(f"{repository}: the content {blob} is missing")
        size = int(header[-1])
        yield answer[end + 1 : end + 1 + size]
        position = end + size + 2


def _git(repository: Path, *arguments: str, given: bytes = b"") -> bytes:
    try:
        done = subprocess.run(["git", "-C", str(repository), *arguments], input=given, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as fault:
        said = getattr(fault, "stderr", b"") or str(fault).encode()
        raise GitError(f"{repository}: {said.decode(errors='replace').strip().splitlines()[-1]}") from None
    return done.stdout
