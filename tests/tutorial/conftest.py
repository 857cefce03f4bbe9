"""The tutorial's page, and the machines that run it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from nodebox.debian import need_root
from nodebox.lab import Lab
from tutorial.page import PAGE
from tutorial.reader import Terminal, reader_root
from tutorial.region import Region
from tutorial.roots import PyTorchNode
from tutorial.run import Tutorial

REPOSITORY = Path(__file__).resolve().parents[2]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="write what the commands print into docs/tutorial.md")


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both wheels of this checkout, as a release has them."""
    folder = tmp_path_factory.mktemp("wheels")
    folder.chmod(0o755)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    for source in (REPOSITORY, REPOSITORY / "distributions" / "cdk-gpu-clusters"):
        subprocess.run(build, cwd=source, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="session")
def versions(wheels: Path) -> Path:
    """The locked versions, and those of the wheels."""
    locked = re.findall(r"^([\w.-]+==[\w.!+-]+)", (REPOSITORY / "requirements" / "dev.txt").read_text(), re.MULTILINE)
    built = [wheel.name.split("-") for wheel in wheels.glob("*.whl")]
    file = wheels / "versions.txt"
    file.write_text("\n".join([*locked, *(f"{name}=={version}" for name, version, *_ in built)]) + "\n")
    return file


@pytest.fixture(scope="session")
def tutorial(
    app_factory: Any,
    tmp_path_factory: pytest.TempPathFactory,
    wheels: Path,
    versions: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Tutorial]:
    """The page, with a reader at its beginning."""
    need_root()
    folder = tmp_path_factory.mktemp("tutorial")
    with ThreadPoolExecutor(1) as pool:
        # The nodes' image takes minutes where it is not kept, and no instance boots before the reader has CDK.
        lab = pool.submit(Lab, app_factory, tmp_path_factory.mktemp("lab"), kind=PyTorchNode)
        reader_root()
        made = lab.result()
    with made, ExitStack() as opened:
        settings = made.cloud.account.settings
        terminals = []
        for name in ("reader", "second"):
            (folder / name).mkdir()
            terminals.append(Terminal(folder / name, wheels=wheels, versions=versions, settings=settings))
            opened.callback(terminals[-1].close)
        run = Tutorial(PAGE.read_text(encoding="utf-8"), terminals[0], terminals[1])
        run.region = opened.enter_context(Region(made))
        yield run
    if request.config.getoption("--update"):
        PAGE.write_text(run.updated(), encoding="utf-8")
