"""Ray of the lock file, as an image of a node has it at /opt/ray."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from nodebox.rootfs import kept

_LOCK = Path(__file__).resolve().parents[3] / "requirements" / "ray.txt"
_PROGRAM = '#!/bin/sh\nPYTHONPATH=/opt/ray/lib exec python3 {arguments} "$@"\n'
_PROGRAMS = {
    "python": _PROGRAM.format(arguments=""),
    "ray": _PROGRAM.format(arguments="-c 'from ray.scripts.scripts import main; main()'"),
}


def ray_folder() -> Path:
    """A folder to bind at /opt/ray: made once for its lock file."""
    return kept("ray", "\n".join([_LOCK.read_text(), *_PROGRAMS.values()]), _build)


def _build(folder: Path) -> None:
    (folder / "bin").mkdir(parents=True)
    # Compiled here: processes of another user could not keep what they compile.
    wheels = ("--only-binary", ":all:", "--python-version", "3.11", "--no-deps", "--require-hashes", "--compile")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", *wheels, "--target", str(folder / "lib"))
    done = subprocess.run([*pip, "-r", str(_LOCK)], check=False, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    for name, text in _PROGRAMS.items():
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
