"""Measure what a user installs: seconds and MB of the command alone, and of the library with CDK.

Both distributions are built, then installed by pip into fresh virtual environments without a cache. What they need
comes from the index that pip is configured with, so the time holds for this network only.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from page import PAGE, cores_and_memory, write_block

REPOSITORY = Path(__file__).resolve().parents[1]
INSTALLS = ("gpu-clusters", "gpu-clusters[live]", "cdk-gpu-clusters", "cdk-gpu-clusters[live,nag,testing]")


def build(folder: Path) -> None:
    """Build both wheels."""
    for source in (REPOSITORY, REPOSITORY / "distributions" / "cdk-gpu-clusters"):
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
            cwd=source,
            check=True,
            capture_output=True,
        )


def install(what: str, wheels: Path, folder: Path) -> tuple[float, float]:
    """Install a distribution.

    Returns:
        Seconds, and MB on disk without pip.
    """
    venv.create(folder, with_pip=False)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet"]
    started = time.monotonic()
    subprocess.run([*pip, "--no-cache-dir", "--find-links", str(wheels), what], check=True)
    seconds = time.monotonic() - started
    return seconds, sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def table(wheels: Path, folder: Path) -> Iterator[str]:
    """Install everything once, and give a row of each."""
    yield "| `pip install` | Seconds | MB |"
    yield "| --- | ---: | ---: |"
    for number, what in enumerate(INSTALLS):
        seconds, megabytes = install(what, wheels, folder / str(number))
        yield f"| `{what}` | {seconds:.1f} | {megabytes:,.0f} |"


def main() -> None:
    """Measure, print the table, and write it down if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.name}")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        wheels = Path(folder, "wheels")
        build(wheels)
        rows = list(table(wheels, Path(folder)))
    where = f"{cores_and_memory()}, Python {platform.python_version()}"
    busy = f"other work on the machine: a load of {load:.1f} when it began"
    lines = [f"{datetime.now(UTC):%Y-%m-%d}; {where}; bytecode included; {busy}.", "", *rows]
    print("\n".join(lines))
    if options.write:
        write_block("install", lines)


if __name__ == "__main__":
    main()
