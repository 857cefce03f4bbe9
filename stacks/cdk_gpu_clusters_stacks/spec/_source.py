"""Text of a cluster file from disk, or a finding that says why there is none."""

from __future__ import annotations

from pathlib import Path

from cdk_gpu_clusters.errors import Finding

from ._rules import READABLE

#: Far above any real cluster file (hundreds of fleets are some 100 KB); keeps a wrong path from eating the memory.
MAX_BYTES = 1 << 20

_FIX_PATH = "give the path of a cluster file, such as examples/p5-capacity-block.yaml"


def read_text(path: Path) -> str | Finding:
    """Read a cluster file.

    Returns:
        The text without byte-order mark, or the finding that explains what is wrong with the file.
    """
    where = f"{path}:1:1"
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return READABLE.finding(cause="there is no such file", got=str(path), fix=_FIX_PATH, path=where)
    except IsADirectoryError:
        return READABLE.finding(
            cause="this is a folder, not a file", got=str(path), fix=_FIX_PATH, path=where
        )
    except (OSError, ValueError) as fault:
        reason = (getattr(fault, "strerror", None) or str(fault)).lower()
        return READABLE.finding(
            cause=f"the file cannot be read: {reason}",
            got=str(path),
            fix="check its path and permissions",
            path=where,
        )
    if len(raw) > MAX_BYTES:
        return READABLE.finding(
            cause="the file is too large for a cluster file",
            allowed=f"at most {MAX_BYTES} bytes",
            fix=_FIX_PATH,
            path=where,
        )
    return _decode(raw, path)


def _decode(raw: bytes, path: Path) -> str | Finding:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        before = raw[: fault.start]
        line = before.count(b"\n") + 1
        column = len(before.rpartition(b"\n")[2].decode("utf-8", "replace").lstrip("\ufeff")) + 1
        return READABLE.finding(
            cause="the file is not UTF-8 text",
            got=f"byte 0x{raw[fault.start]:02x}",
            allowed="UTF-8",
            fix="save the file as UTF-8, or give the path of a cluster file if this is another kind of file",
            path=f"{path}:{line}:{column}",
        )
