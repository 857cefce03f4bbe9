"""How the static files of a node travel: in its user data, or, those that can wait for the network, through S3."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cdk_gpu_clusters.node._archive import archive, installed_files
from cdk_gpu_clusters.node.node_file import NodeFile
from cdk_gpu_clusters.node.settings import NodeSettings


class NodeSoftware(str, Enum):
    """Where the static files of a node come from.

    Early files (limits, MIG and `NodeFile(early=True)`) are in the user data either way.
    """

    INLINE = "inline"
    ASSET = "asset"


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftwareObject:
    """The object in S3 that holds the files that are not early.

    Attributes:
        bucket_name: Its bucket; may be a CDK token.
        object_key: Its key; may be a CDK token.
        sha256: Digest of its bytes in hex; the node takes no others.
    """

    bucket_name: str
    object_key: str
    sha256: str


def inline_files(settings: NodeSettings, *, rest_in_s3: bool) -> tuple[NodeFile, ...]:
    """The files that the user data carries.

    Args:
        settings: What the node is and what it has to do.
        rest_in_s3: Whether those that are not early come from S3.
    """
    files = _files(settings, fetch=rest_in_s3)
    return tuple(file for file in files if file.early) if rest_in_s3 else files


def software_archive(settings: NodeSettings) -> bytes:
    """The files that are not early as a tar, the same bytes for the same files.

    Args:
        settings: What the node is and what it has to do.
    """
    return archive([file for file in _files(settings) if not file.early])


def _files(settings: NodeSettings, *, fetch: bool = False) -> tuple[NodeFile, ...]:
    own = installed_files(
        mig=settings.mig is not None,
        lustre=bool(settings.mounts),
        scratch=settings.scratch is not None,
        peer_list=settings.peer_list,
        fetch=fetch,
    )
    return (*own, *settings.files)
