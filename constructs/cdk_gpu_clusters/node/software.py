"""How the static files of a node travel: what must be early in its user data, the rest through S3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from cdk_gpu_clusters.node._archive import archive, early_files, late_files
from cdk_gpu_clusters.node.node_file import NodeFile
from cdk_gpu_clusters.node.settings import NodeSettings


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

    def environment(self) -> dict[str, str]:
        """The settings by which the node finds it."""
        return {
            "GPU_SOFTWARE_BUCKET": self.bucket_name,
            "GPU_SOFTWARE_KEY": self.object_key,
            "GPU_SOFTWARE_SHA256": self.sha256,
        }


def user_data_files(settings: NodeSettings) -> tuple[NodeFile, ...]:
    """The static files that the user data carry: those that must be there before any other service starts.

    Args:
        settings: What the node is and what it has to do.
    """
    own = early_files(mig=settings.mig is not None, orchestrator=settings.orchestrator)
    return (*own, *(file for file in settings.files if file.early))


def software_files(files: Sequence[NodeFile] = ()) -> tuple[NodeFile, ...]:
    """The static files that come from S3: the software of every node, and the user's files that are not early.

    Args:
        files: The user's files.
    """
    return (*late_files(), *(file for file in files if not file.early))


def software_archive(files: Sequence[NodeFile] = ()) -> bytes:
    """The files that come from S3 as a tar: the same bytes for the same files, so one object for most fleets.

    Args:
        files: The user's files.

    Example:
        >>> software_archive() == software_archive([NodeFile(path="/etc/motd", text="hello")])
        True
    """
    own = tuple(file for file in files if not file.early)
    return archive(software_files(own)) if own else _common_archive()


@cache
def _common_archive() -> bytes:
    return archive(software_files())
