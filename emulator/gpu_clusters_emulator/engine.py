"""The engine below the models: ministack, with its CloudFormation handlers wrapped.

Everything that knows ministack stands in the files `engine*.py`. Written against ministack 1.5.33.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from . import events, provisioning
from .engine_corrections import by_schema, with_functions, with_public_parameters, without_docker
from .engine_groups import EngineGroups
from .engine_types import put_right
from .extra import optional_module
from .faults import Refused
from .kubectl import APPLIED, kubectl_handler
from .lazy_handlers import Handler, LazyHandlers
from .models import change_faults, creation_faults, deletion_faults
from .schemas import resource_schema
from .world import AUTO_SCALING_GROUP, Json, Resource, World

# The engine starts no listener, scheduler or container of its own; the front serves it and the world's clock drives it.
_SETTINGS = {
    "BIND_HOST": "127.0.0.1",
    "IOT_MTLS_ENABLED": "0",
    "LOG_LEVEL": "ERROR",
    "MINISTACK_TEST_NO_AUTOSTART": "1",
    "PERSIST_STATE": "0",
    "SFTP_ENABLED": "0",
}
_CLOUDFORMATION_PARTS = ("engine", "changesets", "handlers", "stacks")


class Engine:
    """ministack with this library's models in front of its CloudFormation handlers."""

    def __init__(self) -> None:
        os.environ.update(_SETTINGS)
        self.world = World()
        self._provisioners = optional_module("ministack.services.cloudformation.provisioners")
        self._app = optional_module("ministack.app")
        self._groups = EngineGroups(optional_module("ministack.services.ec2"), self._provisioners)
        self._responses = optional_module("ministack.core.responses")
        self._templates: dict[str, Json] = {}
        self._own: Mapping[str, Handler] = dict(self._provisioners._RESOURCE_HANDLERS)
        self._install()

    @property
    def asgi(self) -> Callable[..., Any]:
        """The engine's ASGI application."""
        application: Callable[..., Any] = self._app.app
        return application

    def adopt_loop(self, loop: Any) -> None:
        """Tell the engine which event loop serves it; its worker threads call back into it."""
        self._app._MAIN_LOOP = loop

    def reset(self) -> None:
        """Forget everything."""
        with without_docker():
            self._app._reset_all_state()
        self.world = World()
        self._templates.clear()

    def _install(self) -> None:
        handlers = LazyHandlers(self.handler)
        self._provisioners._RESOURCE_HANDLERS = handlers
        parts = [
            optional_module(f"ministack.services.cloudformation.{name}") for name in _CLOUDFORMATION_PARTS
        ]
        cloudformation, changesets, _, stacks = parts
        changesets._RESOURCE_HANDLERS = handlers
        stacks._property_recreation = by_schema(stacks._property_recreation)
        stacks._add_event = self._reporting(stacks._add_event)
        evaluate = with_functions(cloudformation._evaluate_conditions, cloudformation._resolve_refs)
        deploy = self._remembering(stacks._deploy_stack_async)
        for part in parts:
            part._evaluate_conditions = evaluate
            if hasattr(part, "_deploy_stack_async"):
                part._deploy_stack_async = deploy
        # The engine adds stack tags to a group without PropagateAtLaunch, which the schema requires.
        self._provisioners._STACK_TAG_PROPERTY.pop(AUTO_SCALING_GROUP, None)
        ssm = optional_module("ministack.services.ssm")
        ssm.resolve_parameter_value = with_public_parameters(ssm.resolve_parameter_value)

    def handler(self, type_name: str) -> Handler | None:
        """The handler of a resource type; None for what has no schema and no handler."""
        if type_name in APPLIED:
            return kubectl_handler(type_name, self._here)
        own = self._own.get(type_name)
        own = own and put_right(type_name, own)
        if own is not None and resource_schema(type_name) is None:
            return own
        if own is not None and type_name not in provisioning.MODELLED_TYPES:
            return self._checked(type_name, own)
        return self._modelled(type_name) if resource_schema(type_name) is not None else None

    def _checked(self, type_name: str, own: Handler) -> Handler:
        """The engine's handler, behind the schema and the models' checks."""

        def create(logical_id: str, given: Json, stack_name: str) -> tuple[str, Json]:
            properties = self._accepted(type_name, logical_id, given)
            physical_id, attributes = own["create"](logical_id, given, stack_name)
            self._record(type_name, logical_id, physical_id, stack_name, properties, attributes)
            return physical_id, attributes

        def update(
            physical_id: str, old: Json, new: Json, stack_name: str, logical_id: str | None = None
        ) -> tuple[str, Json]:
            name = logical_id or physical_id
            properties = self._accepted(type_name, name, new)
            extra = (logical_id,) if own.get("update_with_logical_id") else ()
            changed_id, attributes = own["update"](physical_id, old, new, stack_name, *extra)
            self._record(type_name, name, changed_id, stack_name, properties, attributes)
            return changed_id, attributes

        def delete(physical_id: str, given: Json, logical_id: str | None = None) -> None:
            self._may_delete(type_name, physical_id)
            if own.get("delete_with_logical_id"):
                own["delete"](physical_id, given, logical_id)
            else:
                own["delete"](physical_id, given)
            self.world.remove(type_name, physical_id)

        wrapped = {**own, "create": create}
        if "update" in own:
            wrapped |= {"update": update, "update_with_logical_id": True}
        if "delete" in own:
            wrapped |= {"delete": delete, "delete_with_logical_id": True}
        return wrapped

    def _modelled(self, type_name: str) -> Handler:
        """A handler of this library's models."""

        def create(logical_id: str, given: Json, stack_name: str) -> tuple[str, Json]:
            policy = self._update_policy(stack_name, logical_id)
            properties = self._accepted(type_name, logical_id, given, policy)
            resource = provisioning.create(
                self.world, type_name, logical_id, properties, stack_name, update_policy=policy
            )
            self._groups.add(self.world, resource)
            return resource.physical_id, resource.attributes

        def update(
            physical_id: str, old: Json, new: Json, stack_name: str, logical_id: str | None = None
        ) -> tuple[str, Json]:
            name = logical_id or physical_id
            resource = self.world.find(type_name, physical_id)
            if resource is None or provisioning.replaces(type_name, old, new):
                created = create(name, new, stack_name)
                self._provisioners._delete_predecessor(delete, physical_id, old)
                return created
            policy = self._update_policy(stack_name, name)
            with self.world.without(resource):
                properties = self._accepted(type_name, name, new, policy)
            faults = change_faults(type_name, physical_id, resource.properties, properties, self.world)
            if faults:
                raise Refused(f"{type_name} {name}", faults)
            self._groups.withdraw(resource)
            provisioning.update(self.world, resource, properties, update_policy=policy)
            self._groups.add(self.world, resource)
            return physical_id, resource.attributes

        def delete(physical_id: str, _given: Json) -> None:
            self._may_delete(type_name, physical_id)
            resource = self.world.find(type_name, physical_id)
            if resource is not None:
                self._groups.remove(resource)
            provisioning.delete(self.world, type_name, physical_id)

        return {"create": create, "update": update, "update_with_logical_id": True, "delete": delete}

    def _update_policy(self, stack_name: str, logical_id: str) -> Json:
        definition = self._templates.get(stack_name, {}).get("Resources", {}).get(logical_id, {})
        policy: Json = definition.get("UpdatePolicy", {})
        return policy

    def _remembering(self, deploy: Callable[..., Any]) -> Callable[..., Any]:
        """A stack's deploy that notes the template first: handlers get properties only."""

        def remembered(stack_name: str, stack_id: str, template: Json, *rest: Any, **more: Any) -> Any:
            self._templates[stack_name] = template
            return deploy(stack_name, stack_id, template, *rest, **more)

        return remembered

    def _here(self) -> World:
        """The world, with the account and Region of the request that the engine serves."""
        self.world.account, self.world.region = self._responses.get_account_id(), self._responses.get_region()
        return self.world

    def _accepted(self, type_name: str, logical_id: str, given: Json, policy: Json | None = None) -> Json:
        """The properties as the schema types them.

        Raises:
            Refused: If the schema or a model refuses them.
        """
        schema = resource_schema(type_name, self._here().region)
        properties = schema.coerce(given) if schema is not None else given
        faults = creation_faults(type_name, properties, self.world, update_policy=policy or {})
        if faults:
            raise Refused(f"{type_name} {logical_id}", faults)
        return properties

    def _may_delete(self, type_name: str, physical_id: str) -> None:
        faults = deletion_faults(type_name, physical_id, self.world)
        if faults:
            raise Refused(f"{type_name} {physical_id}", faults)

    def _record(
        self,
        type_name: str,
        logical_id: str,
        physical_id: str,
        stack_name: str,
        given: Json,
        attributes: Json,
    ) -> None:
        self.world.add(
            Resource(
                type=type_name,
                logical_id=logical_id,
                physical_id=physical_id,
                stack_name=stack_name,
                region=self.world.region,
                properties=given,
                attributes=attributes or {},
                answered_by="emulator",
            )
        )

    def _reporting(self, add_event: Callable[..., None]) -> Callable[..., None]:
        """CloudFormation's stack events, also as EventBridge events."""

        def report(
            stack_id: str,
            stack_name: str,
            logical_id: str,
            type_name: str,
            status: str,
            *rest: Any,
            **more: Any,
        ) -> None:
            add_event(stack_id, stack_name, logical_id, type_name, status, *rest, **more)
            detail: Json = {
                "stack-id": stack_id,
                "logical-resource-id": logical_id,
                "physical-resource-id": more.get("physical_id") or (rest[1] if len(rest) > 1 else ""),
                "status-details": {
                    "status": status,
                    "status-reason": more.get("reason") or (rest[0] if rest else ""),
                },
                "resource-type": type_name,
            }
            if type_name == "AWS::CloudFormation::Stack":
                return
            event = {
                "source": "aws.cloudformation",
                "detail-type": "CloudFormation Resource Status Change",
                "resources": [stack_id],
                "detail": detail,
            }
            events.emit(self.world, event)

        return report


@cache
def engine() -> Engine:
    """The one engine of this process."""
    return Engine()
