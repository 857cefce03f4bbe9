"""The package `gpunode` as files of a node."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from cdk_gpu_clusters.catalogue.nccl import node_all_reduce
from cdk_gpu_clusters.catalogue.xids import node_xids
from cdk_gpu_clusters.node.node_file import NodeFile

#: Folder of the package on the node; what runs it has this folder's parent on its module path.
GPUNODE_FOLDER = "/usr/local/lib/gpu-cluster/gpunode"

_PACKAGE = Path(__file__).with_name("gpunode")


@cache
def gpunode_files() -> tuple[NodeFile, ...]:
    """Every module of the package, and the tables that it reads; in the order of their paths.

    Example:
        >>> gpunode_files()[0].path
        '/usr/local/lib/gpu-cluster/gpunode/__init__.py'
    """
    texts = {
        file.relative_to(_PACKAGE).as_posix(): file.read_text(encoding="ascii")
        for file in _PACKAGE.rglob("*.py")
    }
    texts["xids.json"] = node_xids()
    texts["all_reduce.json"] = node_all_reduce()
    return tuple(
        NodeFile(path=f"{GPUNODE_FOLDER}/{name}", text=text, early=False)
        for name, text in sorted(texts.items())
    )
