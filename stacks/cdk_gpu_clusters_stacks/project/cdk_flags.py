"""The feature flags that `aws-cdk-lib` recommends to new apps: as `cdk init` writes them."""

from __future__ import annotations

import json
import tarfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

#: What `tools/write_feature_flags.py` recorded.
FLAGS_FILE = Path(__file__).with_name("feature_flags.json")
#: The name of the list in the library; the CDK CLI reads it under the same name.
_MEMBER = "package/recommended-feature-flags.json"


def feature_flags() -> dict[str, Any]:
    """The flags of the `aws-cdk-lib` that is installed; without one, those of the version in our lock file."""
    flags = flags_of_library()
    return recorded_flags() if flags is None else flags


def flags_of_library() -> dict[str, Any] | None:
    """The flags that the installed `aws-cdk-lib` recommends, read without Node; None without the library."""
    spec = find_spec("aws_cdk")
    for folder in (spec and spec.submodule_search_locations) or ():
        for archive in Path(folder, "_jsii").glob("aws-cdk-lib@*.jsii.tgz"):
            with tarfile.open(archive) as package:
                member = package.extractfile(_MEMBER)
                if member is not None:
                    flags: dict[str, Any] = json.load(member)
                    return dict(sorted(flags.items()))
    return None


def recorded_flags() -> dict[str, Any]:
    """The flags of the locked version."""
    flags: dict[str, Any] = json.loads(FLAGS_FILE.read_text("utf-8"))
    return flags
