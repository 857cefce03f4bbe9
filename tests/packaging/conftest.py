"""Clean environments that hold the built wheels, their locked dependencies, and nothing else."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from distributions import distributions_of, link_distribution
from shared_folders import folder_of_run, made_once

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, kw_only=True, slots=True)
class CleanEnvironment:
    """A virtual environment beside the development one."""

    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    def run(self, *command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run a program as a user of this environment would, with nothing of the repository in reach."""
        # CDK_VALIDATION is off for most tests; a user has it on.
        foreign = {"CDK_VALIDATION", "PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV"}
        env = {name: value for name, value in os.environ.items() if name not in foreign}
        env["PATH"] = f"{self.folder / 'bin'}{os.pathsep}{env['PATH']}"
        words = [str(word) for word in command]
        return subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=600)


def site_packages(folder: Path) -> Path:
    """The folder of a virtual environment that packages are installed in."""
    return folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


def locked_runtime() -> list[str]:
    """Names of the distributions that the library needs at run time, from the lock file."""
    lines = (REPOSITORY / "requirements" / "runtime.txt").read_text(encoding="utf-8").splitlines()
    pinned = [Requirement(line.rstrip(" \\")) for line in lines if "==" in line and not line.startswith((" ", "#"))]
    return [one.name for one in pinned if one.marker is None or one.marker.evaluate()]


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the processes of a run share."""
    return folder_of_run(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def wheel(shared_folder: Path) -> Path:
    """The wheel `gpu-clusters` as a release would build it: by way of the sdist."""

    def build(folder: Path) -> None:
        subprocess.run([*_build(folder), "sdist"], cwd=REPOSITORY, check=True, capture_output=True)
        (archive,) = folder.glob("*.tar.gz")
        subprocess.run(["tar", "-xzf", str(archive)], cwd=folder, check=True)
        source = folder / archive.name.removesuffix(".tar.gz")
        subprocess.run([*_build(folder), "wheel"], cwd=source, check=True, capture_output=True)

    (built,) = made_once(shared_folder / "dist", build).glob("*.whl")
    return built


@pytest.fixture(scope="session")
def cdk_wheel(shared_folder: Path) -> Path:
    """The wheel `cdk-gpu-clusters`."""

    def build(folder: Path) -> None:
        source = REPOSITORY / "distributions" / "cdk-gpu-clusters"
        subprocess.run([*_build(folder), "wheel"], cwd=source, check=True, capture_output=True)

    (built,) = made_once(shared_folder / "cdk-dist", build).glob("*.whl")
    return built


def _build(folder: Path) -> list[str]:
    return [sys.executable, "-m", "hatchling", "build", "-d", str(folder), "-t"]


@pytest.fixture(scope="session")
def clean_environment(wheel: Path, cdk_wheel: Path) -> Iterator[CleanEnvironment]:
    """Both wheels, as `pip install cdk-gpu-clusters` installs them, with exactly their locked dependencies.

    The folder is always the same, so that mypy's cache of aws_cdk serves from run to run. Processes of one run share it;
    a run with another wheel waits until they have ended.
    """
    folder = REPOSITORY / "build" / "clean-environment"
    folder.parent.mkdir(exist_ok=True)
    stamp, wanted = (
        folder.with_suffix(".stamp"),
        digest_of(wheel, cdk_wheel, REPOSITORY / "requirements" / "runtime.txt"),
    )
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        if not is_stamped(stamp, wanted):
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not is_stamped(stamp, wanted):
                stamp.unlink(missing_ok=True)
                install_wheels(folder, locked_runtime(), wheel, cdk_wheel)
                stamp.write_text(wanted, encoding="utf-8")
            fcntl.flock(lock, fcntl.LOCK_SH)
        yield CleanEnvironment(folder=folder)


def digest_of(*files: Path) -> str:
    """One digest of several files."""
    return hashlib.sha256(b"".join(hashlib.sha256(file.read_bytes()).digest() for file in files)).hexdigest()


def is_stamped(stamp: Path, wanted: str) -> bool:
    """Whether the environment is the one that is wanted."""
    return stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted


@pytest.fixture(scope="session")
def command_environment(shared_folder: Path, wheel: Path) -> CleanEnvironment:
    """The wheel `gpu-clusters` alone, as `pip install gpu-clusters` installs it."""

    def install(_: Path) -> None:
        install_wheels(folder, distributions_of("gpu-clusters"), wheel)

    folder = REPOSITORY / "build" / "command-environment"
    made_once(shared_folder / "command-environment-is-there", install)  # programs of it name its path
    return CleanEnvironment(folder=folder)


def install_wheels(folder: Path, needs: Iterable[str], *wheels: Path) -> None:
    """Make a virtual environment with the wheels and what they need, and nothing else."""
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=False, symlinks=True)
    for name in needs:
        link_distribution(name, site_packages(folder))
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    install = [*pip, "install", "--quiet", "--no-deps", "--no-index", "--no-compile", *map(str, wheels)]
    subprocess.run(install, check=True, capture_output=True)
    # The wheels' own lists of dependencies must be satisfied by what was linked.
    subprocess.run([*pip, "check"], check=True, capture_output=True)
