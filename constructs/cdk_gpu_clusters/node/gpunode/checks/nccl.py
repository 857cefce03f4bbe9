"""The plugin aws-ofi-nccl, without which NCCL falls back to TCP. Containers may bring their own: it is watched."""

from __future__ import annotations

from .. import paths
from ..node import Node
from .check import Result, Severity

_NAME = "nccl-plugin"
# The EFA installer's folder and that of older images (aws/aws-ofi-nccl; AWS DLAMI release notes, read 2026-11).
_FOLDERS = ("/opt/amazon/ofi-nccl", "/opt/amazon/aws-ofi-nccl", "/opt/aws-ofi-nccl")


def check_nccl_plugin(_: Node) -> list[Result]:
    """Look for the plugin's library."""
    for folder in _FOLDERS:
        libraries = sorted(paths.below(folder).rglob("libnccl-net*.so*"))
        if libraries:
            return [Result(_NAME, Severity.OK, f"/{libraries[0].relative_to(paths.root())}")]
    fix = "use an image with EFA's software, or containers that bring the plugin"
    expected = f"libnccl-net*.so below {', '.join(_FOLDERS)}"
    return [Result(_NAME, Severity.MONITOR, "no aws-ofi-nccl plugin on the node", expected, fix)]
