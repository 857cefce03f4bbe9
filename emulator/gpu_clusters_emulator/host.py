"""What the engine of CloudFormation offers to the handlers of resources, and what they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from .world import Json, Resource, World

#: Functions of a resource, as the engine's CloudFormation takes them: `create`, `update` and `delete`.
Handler = dict[str, Any]


class Host(Protocol):
    """What the handlers need of the engine that calls them."""

    def here(self) -> World:
        """The world, with the account and Region of the request that the engine serves."""

    def definition(self, stack_name: str, logical_id: str) -> Json:
        """A resource as its stack's template defines it."""

    def stack_id(self, stack_name: str) -> str:
        """The id of a stack."""

    def follows(self, stack_name: str, logical_id: str, other: str) -> bool:
        """Whether a resource of a stack's template depends on another of it, also by way of others."""

    def operation(self, stack_name: str) -> str:
        """The operation that a stack is in now, and no later one; empty for none."""

    def delete_replaced(self, delete: Callable[..., None], physical_id: str, properties: Json) -> None:
        """Delete a resource that was replaced, when the stack's cleanup comes to it."""

    def holds_objects(self, bucket: str) -> bool:
        """Whether a bucket holds objects or versions of them."""

    def show(self, resource: Resource) -> None:
        """Show the engine's EC2 what a model made."""

    def hide(self, resource: Resource) -> None:
        """Take from the engine's EC2 what a model made."""
