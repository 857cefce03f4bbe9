"""Import what only the optional extra `testing` brings."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any


def optional_module(name: str) -> Any:
    """Import `name`, which comes with the extra `testing`.

    The module is typed `Any`: the packages of this extra carry no type information of their own.

    Raises:
        ImportError: If the package is not installed; the message names the extra.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0]
        if error.name != package:  # the package is there, and misses something itself
            raise
        raise _missing(package) from error


def package_folder(name: str) -> Path:
    """Where a package of the extra is installed; it is not imported.

    Raises:
        ImportError: If it is not installed; the message names the extra.
    """
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        raise _missing(name)
    return Path(found.origin).parent


def require_emulator() -> None:
    """Check that what the emulator is made of is installed.

    Raises:
        ImportError: If a package is not installed; the message names the extra.
    """
    for package in ("ministack", "cfnlint", "jsonschema", "boto3"):
        package_folder(package)


def _missing(package: str) -> ImportError:
    return ImportError(
        f"cdk_gpu_clusters.testing needs the package {package!r}; "
        "install it with: pip install 'cdk-gpu-clusters[testing]'"
    )
