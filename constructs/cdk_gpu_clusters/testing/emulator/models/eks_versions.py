"""Kubernetes versions as EKS takes them.

Wording of the service: awslabs/aws-devops-essential issue 25, read 2026-11-22.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..faults import Fault

_VERSION = re.compile(r"1\.(\d+)")


def minor_of(version: str) -> int:
    """The minor number of a version, such as 34."""
    found = _VERSION.fullmatch(version)
    return int(found[1]) if found else 0


def version_faults(version: str | None) -> Iterator[Fault]:
    """Faults of the version of a cluster; EKS chooses one where none is given."""
    if version is not None and not minor_of(version):
        yield Fault(
            check="kubernetes-version", message=f"unsupported Kubernetes version: {version!r}", path="Version"
        )
