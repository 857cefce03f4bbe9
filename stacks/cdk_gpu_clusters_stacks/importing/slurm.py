"""What clusters of other tools with Slurm become in AWS PCS: its size, home directories and login nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cdk_gpu_clusters.catalogue.pcs import size_limits

from .draft import Change, Draft, Note
from .foreign import Part
from .group import Group
from .small_nodes import plain_type

_MOST_LOGIN_NODES = 10


def write_size(draft: Draft, groups: Sequence[Group], *, of: Part) -> None:
    """Write the smallest size of AWS PCS for the nodes and one login node."""
    nodes = sum(group.maximum for group in groups) + 1
    size = next((one.name for one in size_limits().values() if one.nodes >= nodes), list(size_limits())[-1])
    draft.put("pcs", "size", value=size.lower(), of=of)


def write_homes(draft: Draft, head: Part, text: str) -> str:
    """Write a file system for home directories, and give its name.

    Args:
        draft: The cluster file.
        head: The nodes that hold them today.
        text: What becomes of them, for the report.
    """
    name = "home"
    draft.put("data", name, "efs", value={}, of=head)
    draft.notes.append(Note(Change.REPLACED, head.name if head.exists else "", text, head.place if head.exists else ""))
    return name


def write_login_nodes(
    draft: Draft, *, count: int | None, kind: Part | None, of: Part, mounts: Mapping[str, str], prefix: str = ""
) -> None:
    """Write the login nodes.

    Args:
        draft: The cluster file.
        count: Their number; None for one, where people work on the head node today.
        kind: Where their type is; None for the library's default.
        of: The nodes on which people work today.
        mounts: Directories and stores.
        prefix: What the tool writes before the names of types of EC2.
    """
    key = ("pcs", "login")
    if count is None:
        text = "people log in on one login node, which has no public address; sessions come through Systems Manager"
        place = of.place if of.exists else ""
        draft.notes.append(Note(Change.REPLACED, of.name if of.exists else "", text, place))
    draft.put(*key, "nodes", value=1 if count is None else min(count, _MOST_LOGIN_NODES), of=of)
    name = None if kind is None else plain_type(kind, prefix=prefix)
    if kind is not None and name is not None:
        kind.skip()
        draft.put(*key, "instance_type", value=name, of=kind)
    elif kind is not None and count is not None:
        draft.note(Change.REPLACED, "the catalogue does not have the type: login nodes are m7i.large", kind)
    if mounts:
        draft.put(*key, "mounts", value=dict(mounts), of=of)
