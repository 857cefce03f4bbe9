"""This node: its settings, who it is, and the ways to AWS."""

from __future__ import annotations

from dataclasses import dataclass

from .aws import Aws
from .metadata import Metadata
from .settings import Settings, read_settings


@dataclass(frozen=True)
class Node:
    """What every part of the software works with.

    Attributes:
        settings: What the user data says.
        metadata: Instance metadata.
        instance_id: Id of the instance; empty where the metadata service does not answer.
        aws: Calls of its Region.
    """

    settings: Settings
    metadata: Metadata
    instance_id: str
    aws: Aws


def this_node() -> Node:
    """Find out where this program runs."""
    settings, metadata = read_settings(), Metadata()
    instance_id = metadata.wait_for("instance-id")
    region = settings.text("region") or (metadata.wait_for("placement/region") if instance_id else "")
    return Node(settings=settings, metadata=metadata, instance_id=instance_id, aws=Aws(region))
