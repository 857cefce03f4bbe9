"""AWS ParallelCluster of the lock file, in a folder of its own: it pins version 1 of the CDK."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from nodebox.rootfs import kept

_LOCK = Path(__file__).resolve().parents[3] / "requirements" / "pcluster.txt"
_LOAD_ALL = Path(__file__).with_name("load_all.py")
_ACCOUNT = Path(__file__).with_name("account.py")


_KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
# moto reads it when it is loaded.
_MOTO = {**_KEYS, "MOTO_IAM_LOAD_MANAGED_POLICIES": "true"}


def parallelcluster_folder() -> Path:
    """A folder for PYTHONPATH: made once for its lock file."""
    return kept("parallelcluster", _LOCK.read_text(), _build)


def _build(folder: Path) -> None:
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", "--no-deps", "--require-hashes")
    done = subprocess.run(
        [*pip, "--target", str(folder), "-r", str(_LOCK)], check=False, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-2000:]


def run_in_parallelcluster(
    *arguments: str | Path, stdin: str = "", environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Python with ParallelCluster, without the packages of this project.

    Args:
        arguments: A script and its arguments, or `-m` and a module.
        stdin: What it reads.
        environment: Variables beside the caller's.
    """
    own = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    own |= {"PYTHONPATH": str(parallelcluster_folder()), "AWS_DEFAULT_REGION": "us-east-1", **(environment or {})}
    # Not the .venv: what lies there would come before the folder's versions of what both have.
    return subprocess.run(
        [_base_python(), "-s", *map(str, arguments)],
        input=stdin, env=own, check=False, capture_output=True, text=True, timeout=300,
    )  # fmt: skip


def _base_python() -> str:
    return str(Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}"))


def schema_faults(configurations: Iterable[str]) -> list[dict[str, Any]]:
    """What ParallelCluster's schema says of each configuration file; nothing of one that it takes.

    One process reads all files, without AWS.

    Args:
        configurations: Texts of YAML files.
    """
    done = run_in_parallelcluster(_LOAD_ALL, stdin=json.dumps(list(configurations)))
    assert done.returncode == 0, done.stderr[-2000:]
    return cast("list[dict[str, Any]]", json.loads(done.stdout))


@contextmanager
def account() -> Iterator[dict[str, str]]:
    """An account in moto, by the ids of what it has; `url` is its address, for `AWS_ENDPOINT_URL`."""
    version = re.search(r"^aws-parallelcluster==(\S+)", _LOCK.read_text(), re.MULTILINE)
    assert version is not None
    with subprocess.Popen(
        [sys.executable, _ACCOUNT, version[1]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **_MOTO},
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.stdin.close()


def dry_run(configuration: Path, *, url: str) -> list[dict[str, str]]:
    """What ParallelCluster's validators say of a configuration: its level, the validator and the message of each.

    Args:
        configuration: The file.
        url: Address of the account.
    """
    options = ("--cluster-name", "cluster", "--cluster-configuration", configuration, "--region", "us-east-1")
    done = run_in_parallelcluster(
        "-m", "pcluster.cli.entrypoint", "create-cluster", "--dryrun", "true", *options,
        environment={"AWS_ENDPOINT_URL": url, "HOME": str(configuration.parent), **_KEYS},
    )  # fmt: skip
    answer = json.loads(done.stdout)
    assert "configurationValidationErrors" in answer or "would have succeeded" in answer["message"], answer
    found: list[dict[str, str]] = answer.get("configurationValidationErrors", []) or answer.get(
        "validationMessages", []
    )
    return found
