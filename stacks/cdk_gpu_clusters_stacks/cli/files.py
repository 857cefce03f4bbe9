"""Files that commands write: never over what a person wrote or changed, and never half."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from cdk_gpu_clusters_stacks.three_way import merge

from . import output

#: `--force`, the same in every command that writes.
Force = Annotated[
    bool, typer.Option("--force", help="Write over files that are not the command's own, or were edited.")
]
#: The folder below that of the manifests that holds them as they were last written.
RECORD = ".gpu-clusters"
_EXECUTABLE = 0o755
_PLAIN = 0o644
_MARK = re.compile(r"\n<!-- written by gpu-clusters, sha256:([0-9a-f]{64}) -->\n\Z")


def write_text(file: Path, text: str) -> None:
    """Write a complete file or nothing, and leave with 2 if it cannot be written."""
    try:
        _replace(file, text)
    except OSError as fault:
        cannot_write(file, fault)


def cannot_write(file: Path, fault: OSError) -> NoReturn:
    """Leave with 2: one line names the file that cannot be written, and the reason."""
    output.refuse(f"cannot write {file}: {fault.strerror}")


def _replace(file: Path, text: str) -> None:
    """Write beside the file, then take its place; a link, a device or a pipe is written through."""
    if file.is_symlink() or (file.exists() and not file.is_file()):
        file.write_text(text, encoding="utf-8")
        return
    mode = _EXECUTABLE if text.startswith("#!") else file.stat().st_mode & 0o777 if file.exists() else _PLAIN
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    draft = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
        draft.chmod(mode)
        draft.replace(file)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def write_new(file: Path, text: str, *, force: bool) -> None:
    """Write a file that becomes a person's own: nothing that exists is replaced without `--force`."""
    if os.path.lexists(file) and not force:
        output.refuse(f"{file} exists; --force writes over it")
    write_text(file, text)


# A page that is drawn again and again: it carries the digest of what was written.


def write_page(page: Path, html: str, *, force: bool) -> None:
    """Write an HTML page over nothing but an earlier, unchanged one."""
    if os.path.lexists(page) and not force and not _is_unchanged_page(page):
        output.refuse(
            f"{page} is not a report of gpu-clusters, or has changed since; give another --output, or --force"
        )
    text = html if html.endswith("\n") else f"{html}\n"
    write_text(page, f"{text}\n<!-- written by gpu-clusters, sha256:{_digest(text)} -->\n")


def _is_unchanged_page(page: Path) -> bool:
    try:
        text = _text(page) or ""
    except (OSError, UnicodeDecodeError):
        return False
    mark = _MARK.search(text)
    return mark is not None and _digest(text[: mark.start()]) == mark[1]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


# A folder of files that people change, written again when the cluster changes.


@dataclass(slots=True)
class Changes:
    """What writing a folder again does, by path.

    Attributes:
        texts: What every file holds afterwards.
        written: New and unchanged files.
        merged: Files with the changes of a person and ours.
        kept: Files of a person that our changes do not concern.
        conflicts: Files where both changed the same lines. They stay, and ours is written as `FILE.new`.
        foreign: Files that were there before, and are not ours.
        left: Files of an earlier run that the cluster no longer has.
    """

    texts: dict[str, str] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)
    merged: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def changes_of(folder: Path, files: Mapping[str, str], *, force: bool) -> Changes:
    """Decide what becomes of every file of a folder; nothing is written.

    Raises:
        OSError: A file cannot be read.
        UnicodeDecodeError: A file is no text.
    """
    made = Changes()
    for path, ours in files.items():
        base, present = _text(folder / RECORD / path), _text(folder / path)
        if present is None or force or present in (base, ours):
            made.texts[path] = ours
            made.written.append(path)
        elif base is None:
            made.foreign.append(path)
        elif ours == base:
            (made.conflicts if (folder / f"{path}.new").exists() else made.kept).append(path)
        elif (merged := merge(base, present, ours)) is not None:
            made.texts[path] = merged
            made.merged.append(path)
        else:
            made.texts[f"{path}.new"] = ours
            made.conflicts.append(path)
    record = folder / RECORD
    earlier = (file.relative_to(record).as_posix() for file in sorted(record.rglob("*")) if file.is_file())
    made.left += [path for path in earlier if path not in files and (folder / path).exists()]
    return made


def write_folder(folder: Path, files: Mapping[str, str], *, force: bool) -> Changes:
    """Write files into a folder again: the changes of a person stay, and ours are added.

    Nothing is written if a file is there that we did not write. The record is written last, so that a run that was
    interrupted can be repeated.
    """
    try:
        made = changes_of(folder, files, force=force)
    except UnicodeDecodeError:
        output.refuse(f"{folder}: a file there is no text in UTF-8; give another folder, or --force")
    except OSError as fault:
        output.refuse(f"cannot read {fault.filename}: {fault.strerror}")
    if made.foreign:
        names = ", ".join(str(folder / path) for path in made.foreign)
        output.refuse(f"these files are not of gpu-clusters: {names}; give another folder, or --force to replace them")
    for target, text in [
        *((folder / path, text) for path, text in made.texts.items()),
        *((folder / RECORD / path, text) for path, text in files.items()),
    ]:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as fault:
            cannot_write(target, fault)
        write_text(target, text)
    return made


def _text(file: Path) -> str | None:
    """What a file holds, None if it is not there. Git and editors on Windows may have changed nothing but line ends."""
    try:
        return file.read_bytes().decode("utf-8").replace("\r\n", "\n")
    except FileNotFoundError:
        return None


def tell(folder: Path, made: Changes) -> None:
    """Print what writing a folder did, a line for each file."""
    output.write("".join(f"{folder / path}\n" for path in made.written))
    for paths, what in (
        (made.merged, "has your changes and the new ones"),
        (made.kept, "stays as you changed it"),
        (made.left, "belongs to nothing in the cluster file any more; delete it if you do not need it"),
    ):
        output.write("".join(f"{folder / path}: {what}\n" for path in paths))
    for path in made.conflicts:
        new = folder / f"{path}.new"
        output.write(
            f"{folder / path}: stays as you changed it; the new text changes the same lines. Take what you need from "
            f"{new}, then delete that file\n",
            stderr=True,
        )
