"""Nodes without accelerators that a cluster has beside its fleets, such as login nodes."""

from __future__ import annotations

import re

from cdk_gpu_clusters.catalogue.instances import instance_type, instance_type_names
from cdk_gpu_clusters.errors import ConfigError

from .draft import Change, Draft
from .foreign import Part

#: EC2 instance types guide, "Naming conventions": all families but those of accelerated computing, which are DL, F, G,
#: Inf, P, Trn and VT.
_PLAIN_FAMILY = re.compile(r"(a|c|d|h|hpc|i|im|is|m|r|t|u-?|x|z)\d")
_ARM = re.compile(r"[a-z]+\d+g[a-z]*\.")


def plain_type(part: Part, *, prefix: str = "") -> str | None:
    """A type of the catalogue without accelerators; None for all others.

    Args:
        part: The type.
        prefix: What the tool writes before the names of types of EC2.
    """
    try:
        found = instance_type(str(part.value).removeprefix(prefix))
    except ConfigError:
        return None
    return found.name if found.accelerator is None else None


def has_no_accelerator(part: Part) -> bool:
    """Whether a type is known to have no accelerator: by the catalogue, or by the letters of its family."""
    return plain_type(part) is not None or _PLAIN_FAMILY.match(str(part.value)) is not None


def write_plain_type(draft: Draft, key: tuple[str, ...], given: Part, *, otherwise: str, prefix: str = "") -> None:
    """Write a type: that of the file, the same size of m7i or m7g if the catalogue does not have it, or another.

    Args:
        draft: The cluster file.
        key: The section of the nodes.
        given: The type in the file.
        otherwise: The type if there is no such size.
        prefix: What the tool writes before the names of types of EC2.
    """
    if not given.exists:
        return
    name = str(given.value).removeprefix(prefix)
    taken = plain_type(given, prefix=prefix)
    if taken is None:
        near = f"{'m7g' if _ARM.match(name) else 'm7i'}.{name.rpartition('.')[2]}"
        taken = near if near in instance_type_names() else otherwise
        draft.note(Change.REPLACED, f"no such type is in the catalogue for these nodes: {taken} takes its place", given)
    given.skip()
    draft.put(*key, "instance_type", value=taken, of=given)
