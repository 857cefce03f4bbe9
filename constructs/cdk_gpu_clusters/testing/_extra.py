"""Import what only the optional extra `testing` brings."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

#: What the emulator is made of.
EMULATOR_PACKAGES = ("ministack", "cfnlint", "jsonschema", "boto3")


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


def require_packages(*names: str) -> None:
    """Check that packages of the extra are installed; they are not imported.

    Raises:
        ImportError: If one is not installed; the message names the extra.
    """
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise _missing(name)


def _missing(package: str) -> ImportError:
    return ImportError(
        f"cdk_gpu_clusters.testing needs the package {package!r}; "
        "install it with: pip install 'cdk-gpu-clusters[testing]'"
    )
