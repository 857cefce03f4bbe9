"""Where the scripts of custom actions are: copied by you, or in the bucket of the app's assets."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol

from cdk_gpu_clusters.fleet.parallelcluster import ObjectRight
from cdk_gpu_clusters_stacks.export.deployed import DeployedIds
from cdk_gpu_clusters_stacks.export.scripts import HEAD_NODE, NodeScript

_FOLDER = "scripts"
_DIGEST = 12


class KeptScripts(Protocol):
    """A place of scripts."""

    def url(self, script: NodeScript) -> str:
        """The URL of a script."""

    def rights(self, urls: Sequence[str]) -> list[ObjectRight]:
        """What nodes that run these scripts have to read."""


class CopiedScripts:
    """A place to which you copy the scripts that were written.

    Attributes:
        files: The scripts, by the path below the folder of the configuration.
    """

    def __init__(self, bucket_name: str, prefix: str) -> None:
        """Begin without scripts."""
        self._bucket_name, self._prefix = bucket_name, prefix
        self.files: dict[str, str] = {}

    @property
    def command(self) -> str:
        """The command that copies them."""
        return f"aws s3 cp --recursive {_FOLDER} s3://{self._bucket_name}/{self._prefix}"

    def url(self, script: NodeScript) -> str:
        """The URL of a script. Nodes never get another text than was exported: another text is another name."""
        digest = hashlib.sha256(script.text.encode()).hexdigest()[:_DIGEST]
        name = f"{script.name}.sh" if script is HEAD_NODE else f"{script.name}-{digest}.sh"
        self.files[f"{_FOLDER}/{name}"] = script.text
        return f"s3://{self._bucket_name}/{self._prefix}{name}"

    def rights(self, urls: Sequence[str]) -> list[ObjectRight]:  # noqa: ARG002 - all scripts have one prefix
        """All objects of the prefix."""
        return [ObjectRight(bucket_name=self._bucket_name, prefix=self._prefix)]


class DeployedScripts:
    """Scripts that a stack has as assets, and outputs that name them."""

    def __init__(self, stack: str, ids: DeployedIds) -> None:
        """Know the stack, and what is known of its outputs."""
        self._stack, self._ids = stack, ids

    def url(self, script: NodeScript) -> str:
        """The URL of a script; empty, with a fault, if it is not known."""
        return self._ids.of(self._stack, f"{script.output}Url", key=("orchestrator",))

    def rights(self, urls: Sequence[str]) -> list[ObjectRight]:
        """These objects alone: the bucket has the assets of the entire account."""
        places = [url.removeprefix("s3://").partition("/") for url in dict.fromkeys(urls) if url]
        return [ObjectRight(bucket_name=bucket, key=key) for bucket, _, key in places]
