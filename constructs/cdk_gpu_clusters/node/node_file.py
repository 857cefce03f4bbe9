"""Static files of a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cdk_gpu_clusters.errors import Finding, define_rule

FILE = define_rule(
    "GPU-UD-006",
    "A file for the node has an absolute path of its own and ASCII text without CDK tokens",
    source="the files travel in a compressed archive, where CloudFormation resolves nothing",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFile:
    r"""A static file that is put on the node; it travels compressed.

    Attributes:
        path: Absolute path on the node.
        text: ASCII text, known at synthesis: a CDK token would be lost in the compression.
        mode: Permissions.
        early: Whether it must be there before any other service starts, and so stays in the user data. One that need
            not comes from S3 where user data is too small for all files, just before the scripts of the user.

    Example:
        >>> NodeFile(path="/etc/gpu-cluster/on-drain", text="#!/bin/sh\nsync\n", mode=0o755).path
        '/etc/gpu-cluster/on-drain'
    """

    path: str
    text: str
    mode: int = 0o644
    early: bool = True


def check_files(files: Sequence[NodeFile]) -> list[Finding]:
    """Find files that cannot be put on a node."""
    findings = []
    for index, file in enumerate(files):
        path = f"files[{index}]"
        if not file.path.startswith("/") or ".." in file.path.split("/") or not file.path.isascii():
            findings.append(
                FILE.finding(cause="not an absolute path", got=file.path, allowed="such as /etc/x", path=path)
            )
        if [other.path for other in files].index(file.path) != index:
            findings.append(FILE.finding(cause="two files have this path", got=file.path, path=path))
        if not file.text.isascii() or "${Token[" in file.text:
            findings.append(
                FILE.finding(
                    cause="the text holds a CDK token or a character beyond ASCII",
                    got=file.path,
                    fix="write what is known only at deployment in a user part",
                    path=path,
                )
            )
    return findings
