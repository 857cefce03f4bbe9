"""The source roots must never become packages (docs/decisions/0001)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = {
    "constructs": "cdk_gpu_clusters",
    "emulator": "gpu_clusters_emulator",
    "stacks": "cdk_gpu_clusters_stacks",
}
SOURCE_ROOTS = tuple(PACKAGES)


def files_of(folder: str, pattern: str) -> list[Path]:
    return sorted((REPOSITORY / folder).rglob(pattern))


@pytest.mark.parametrize("root", SOURCE_ROOTS)
def test_source_roots_hold_no_module(root: str) -> None:
    assert sorted((REPOSITORY / root).glob("*.py*")) == []


@pytest.mark.parametrize("root", SOURCE_ROOTS)
def test_source_roots_hold_one_package_each(root: str) -> None:
    packages = [path.name for path in (REPOSITORY / root).iterdir() if (path / "__init__.py").exists()]
    assert packages == [PACKAGES[root]]


def test_every_folder_of_modules_is_a_package() -> None:
    modules = [path for root in SOURCE_ROOTS for path in files_of(root, "*.py")]
    assert sorted({path.parent for path in modules if not (path.parent / "__init__.py").exists()}) == []


def test_test_folders_are_not_packages() -> None:
    assert files_of("tests", "__init__.py") == []


def test_no_test_folder_shadows_constructs() -> None:
    assert [path for path in files_of("tests", "constructs") if path.is_dir()] == []


def test_test_files_have_names_of_their_own() -> None:
    names = [path.name for path in files_of("tests", "test_*.py")]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_constructs_is_the_installed_package() -> None:
    """From the repository root, where a folder of that name stands."""
    program = "import constructs; print(constructs.__file__)"
    done = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()).parts[-3:] == ("site-packages", "constructs", "__init__.py")


@pytest.mark.parametrize(
    "lock",
    [
        "requirements/bootstrap.txt",
        "requirements/dev.txt",
        "requirements/runtime.txt",
        "tools/cli/package-lock.json",
    ],
)
def test_locks_name_no_address(lock: str) -> None:
    """Whoever installs chooses where packages come from; the digests say what they must be."""
    text = (REPOSITORY / lock).read_text(encoding="utf-8")
    assert "://" not in text
    assert "sha512-" in text if lock.endswith(".json") else "--hash=sha256:" in text
