"""The files of a job: a folder as a tar.gz, the same bytes for the same files."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

from cdk_gpu_clusters.node.gpunode.fleet_jobs.request import MOST_FILE_BYTES

_CACHES = {".git", ".venv", "venv", "__pycache__", "node_modules", ".tox", ".mypy_cache", ".ruff_cache"}
_SECRETS = {".env", ".aws", ".ssh", ".netrc", ".pypirc", ".docker"}
#: Files and folders that no job needs, and those that usually hold secrets.
LEFT_OUT = frozenset(_CACHES | _SECRETS)


class FilesError(Exception):
    """The folder cannot be sent; the text is the reason, and what to do."""


def pack(folder: Path) -> bytes:
    """Pack a folder, without version control, environments, caches and `.env`. Links are left out.

    Raises:
        FilesError: If there is no such folder, or it is too large.
    """
    if not folder.is_dir():
        raise FilesError(f"{folder} is no folder")
    buffer = io.BytesIO()
    size = 0
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for file in _files(folder):
            size += file.stat().st_size
            if size > MOST_FILE_BYTES * 20:
                raise FilesError(_too_large(folder, f"more than {MOST_FILE_BYTES * 20 // 1_000_000} MB"))
            member = tarfile.TarInfo(file.relative_to(folder).as_posix())
            member.size = file.stat().st_size
            member.mode = 0o755 if file.stat().st_mode & 0o100 else 0o644
            with file.open("rb") as content:
                tar.addfile(member, content)
    packed = gzip.compress(buffer.getvalue(), 9, mtime=0)
    if len(packed) > MOST_FILE_BYTES:
        raise FilesError(_too_large(folder, f"{len(packed) / 1e6:.1f} MB compressed"))
    return packed


def _too_large(folder: Path, what: str) -> str:
    return (
        f"{folder} has {what}, and a job takes {MOST_FILE_BYTES // 1_000_000} MB: keep data and weights in S3 or on a "
        "file system of the fleet, and send a folder with the scripts only"
    )


def _files(folder: Path) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if entry.is_symlink() or entry.name in LEFT_OUT:
            continue
        if entry.is_dir():
            yield from _files(entry)
        elif entry.is_file():
            yield entry
