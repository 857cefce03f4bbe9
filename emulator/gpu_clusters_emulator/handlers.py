"""How CloudFormation makes, changes and deletes each resource: checked first, then by a model or by the engine.

A handler is a dictionary of functions, as the engine's CloudFormation takes them: `create`, `update` and `delete`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

from . import events, nodes, provisioning
from .faults import Fault, Refused, refuse
from .functions import RUN, custom_handler
from .host import Handler, Host
from .kubectl import APPLIED, kubectl_handler
from .models.registry import change_faults, creation_faults, deletion_faults
from .schemas import resource_schema
from .waits import waiting
from .world import Json, Resource, Type

_STATUS_CHANGE = "CloudFormation Resource Status Change"
_SUFFIX_LENGTH = 7  # a hyphen and six characters, which Secrets Manager puts behind the name


class Handlers(dict[str, Handler]):
    """The handlers by resource type; each is made when it is first asked for.

    Args:
        own: The engine's handlers.
        host: The engine.
    """

    def __init__(self, own: Mapping[str, Handler], host: Host) -> None:
        super().__init__()
        self._own = own
        self._host = host

    def __contains__(self, type_name: object) -> bool:
        return isinstance(type_name, str) and self.get(type_name) is not None

    def __missing__(self, type_name: str) -> Handler:
        found: Handler | None = self.get(type_name)
        if found is None:
            raise KeyError(type_name)
        return found

    def get(self, type_name: str, default: Any = None) -> Any:
        if not dict.__contains__(self, type_name):
            made = self._make(type_name)
            if made is None:
                return default
            self[type_name] = self._reported(type_name, made)
        return dict.__getitem__(self, type_name)

    def _make(self, type_name: str) -> Handler | None:
        """The handler of a resource type; None for what has no schema and no handler."""
        if type_name in APPLIED:
            return kubectl_handler(type_name, self._host.here)
        if type_name in RUN:
            return custom_handler(type_name, self._host)
        own, has_schema = self._own.get(type_name), resource_schema(type_name) is not None
        if own is not None and (correct := _CORRECTIONS.get(type_name)) is not None:
            own = correct(own, self._host)
        if own is not None and (not has_schema or type_name not in provisioning.MODELLED_TYPES):
            return self._checked(type_name, own) if has_schema else own
        return waiting(type_name, self._modelled(type_name), self._host) if has_schema else None

    def _checked(self, type_name: str, own: Handler) -> Handler:
        """The engine's handler, behind the schema and the models' checks."""

        def record(logical_id: str, physical_id: str, stack_name: str, given: Json, attributes: Json) -> None:
            world = self._host.here()
            world.add(
                Resource(
                    type=type_name,
                    logical_id=logical_id,
                    physical_id=physical_id,
                    stack_name=stack_name,
                    region=world.region,
                    properties=given,
                    attributes=attributes or {},
                    answered_by="emulator",
                )
            )

        def create(logical_id: str, given: Json, stack_name: str) -> tuple[str, Json]:
            properties = self._accepted(type_name, logical_id, given)
            physical_id, attributes = own["create"](logical_id, given, stack_name)
            record(logical_id, physical_id, stack_name, properties, attributes)
            return physical_id, attributes

        def update(
            physical_id: str, old: Json, new: Json, stack_name: str, logical_id: str | None = None
        ) -> tuple[str, Json]:
            name, world = logical_id or physical_id, self._host.here()
            present = world.find(type_name, physical_id)
            with world.without(present) if present is not None else nullcontext():
                properties = self._accepted(type_name, name, new)
            extra = (logical_id,) if own.get("update_with_logical_id") else ()
            changed_id, attributes = own["update"](physical_id, old, new, stack_name, *extra)
            record(name, changed_id, stack_name, properties, attributes)
            return changed_id, attributes

        def delete(physical_id: str, given: Json, logical_id: str | None = None) -> None:
            self._may_delete(type_name, physical_id)
            extra = (logical_id,) if own.get("delete_with_logical_id") else ()
            own["delete"](physical_id, given, *extra)
            self._host.here().remove(type_name, physical_id)

        wrapped = {**own, "create": create}
        if "update" in own:
            wrapped |= {"update": update, "update_with_logical_id": True}
        if "delete" in own:
            wrapped |= {"delete": delete, "delete_with_logical_id": True}
        return wrapped

    def _modelled(self, type_name: str) -> Handler:
        """A handler of the models."""
        host = self._host

        def create(logical_id: str, given: Json, stack_name: str) -> tuple[str, Json]:
            given, policy = self._completed(type_name, logical_id, given, stack_name)
            properties = self._accepted(type_name, logical_id, given, policy)
            resource = provisioning.create(
                host.here(), type_name, logical_id, properties, stack_name, update_policy=policy
            )
            host.show(resource)
            if type_name == Type.AUTO_SCALING_GROUP and host.here().waits_for_in_service:
                nodes.await_in_service(host.here(), resource)
            return resource.physical_id, resource.attributes

        def update(
            physical_id: str, old: Json, new: Json, stack_name: str, logical_id: str | None = None
        ) -> tuple[str, Json]:
            world, name = host.here(), logical_id or physical_id
            resource = world.find(type_name, physical_id)
            if resource is None or provisioning.replaces(type_name, old, new):
                created = create(name, new, stack_name)
                host.delete_replaced(delete, physical_id, old)
                return created
            new, policy = self._completed(type_name, name, new, stack_name)
            with world.without(resource):
                properties = self._accepted(type_name, name, new, policy)
            faults = change_faults(type_name, physical_id, resource.properties, properties, world)
            refuse(f"{type_name} {name}", faults)
            if type_name not in _KEPT:
                host.hide(resource)
            provisioning.update(world, resource, properties, update_policy=policy)
            if type_name not in _KEPT:
                host.show(resource)
            return physical_id, resource.attributes

        def delete(physical_id: str, _given: Json) -> None:
            self._may_delete(type_name, physical_id)
            resource = host.here().find(type_name, physical_id)
            if type_name == Type.AUTO_SCALING_GROUP and physical_id in host.here().groups:
                nodes.empty(host.here(), host.here().groups[physical_id])
            if resource is not None:
                host.hide(resource)
            provisioning.delete(host.here(), type_name, physical_id)

        return {"create": create, "update": update, "update_with_logical_id": True, "delete": delete}

    def _completed(self, type_name: str, name: str, given: Json, stack_name: str) -> tuple[Json, Json]:
        """The properties and the `UpdatePolicy` of an Auto Scaling group; stack tags are propagated to its nodes.

        Source: CloudFormation template reference, AWS::AutoScaling::AutoScalingGroup TagProperty.
        """
        if type_name != Type.AUTO_SCALING_GROUP:
            return given, {}
        definition = self._host.definition(stack_name, name)
        own = json.dumps(definition["Properties"].get("Tags", []))
        tags = [
            tag if f'"{tag.get("Key")}"' in own else {**tag, "PropagateAtLaunch": True} for tag in given.get("Tags", [])
        ]
        return given | ({"Tags": tags} if tags else {}), definition.get("UpdatePolicy", {})

    def _reported(self, type_name: str, handler: Handler) -> Handler:
        """A handler that reports what it does to EventBridge.

        Source: CloudFormation user guide, "Managing events using Amazon EventBridge": resource status change.
        """

        def perform(verb: str, stack_name: str, logical_id: str, physical_id: str, work: Any) -> Any:
            def report(status: str, physical_id: str, reason: str = "") -> None:
                stack_id = self._host.stack_id(stack_name)
                detail: Json = {
                    "stack-id": stack_id,
                    "logical-resource-id": logical_id,
                    "physical-resource-id": physical_id,
                    "status-details": {"status": f"{verb}_{status}", "status-reason": reason},
                    "resource-type": type_name,
                }
                event = {"source": "aws.cloudformation", "detail-type": _STATUS_CHANGE}
                events.emit(self._host.here(), {**event, "resources": [stack_id], "detail": detail})

            report("IN_PROGRESS", physical_id)
            try:
                made = work()
            except Exception as error:
                report("FAILED", physical_id, str(error))
                raise
            report("COMPLETE", made[0] if made else physical_id)
            return made

        def create(logical_id: str, given: Json, stack_name: str) -> Any:
            work = partial(handler["create"], logical_id, given, stack_name)
            return perform("CREATE", stack_name, logical_id, "", work)

        def update(physical_id: str, old: Json, new: Json, stack_name: str, name: str | None = None) -> Any:
            extra = (name,) if handler.get("update_with_logical_id") else ()
            work = partial(handler["update"], physical_id, old, new, stack_name, *extra)
            return perform("UPDATE", stack_name, name or physical_id, physical_id, work)

        def delete(physical_id: str, given: Json, name: str | None = None) -> None:
            extra = (name,) if handler.get("delete_with_logical_id") else ()
            work = partial(handler["delete"], physical_id, given, *extra)
            found = self._host.here().find(type_name, physical_id)
            if found is None:
                work()
            else:
                perform("DELETE", found.stack_name, found.logical_id, physical_id, work)

        wrapped = {**handler, "create": create}
        if "update" in handler:
            wrapped |= {"update": update, "update_with_logical_id": True}
        if "delete" in handler:
            wrapped |= {"delete": delete, "delete_with_logical_id": True}
        return wrapped

    def _accepted(self, type_name: str, logical_id: str, given: Json, policy: Json | None = None) -> Json:
        """The properties as the schema types them; raises Refused if the schema or a model refuses them."""
        world = self._host.here()
        schema = resource_schema(type_name, world.region)
        properties = schema.coerce(given) if schema is not None else given
        faults = creation_faults(type_name, properties, world, update_policy=policy or {})
        refuse(f"{type_name} {logical_id}", faults)
        return properties

    def _may_delete(self, type_name: str, physical_id: str) -> None:
        refuse(f"{type_name} {physical_id}", deletion_faults(type_name, physical_id, self._host.here()))


#: Types whose parts in the engine stay through an update.
_KEPT = (Type.CLUSTER, Type.PCS_CLUSTER)


def _secret(own: Handler, _host: Host) -> Handler:
    """`Ref` of a secret is its ARN (CloudFormation template reference); the engine gives the name."""

    def name(arn: str) -> str:
        return arn.rpartition(":secret:")[2][:-_SUFFIX_LENGTH]

    def create(logical_id: str, given: Json, stack_name: str) -> tuple[str, Json]:
        _, attributes = own["create"](logical_id, given, stack_name)
        return attributes["Id"], attributes

    def update(
        physical_id: str, old: Json, new: Json, stack_name: str, logical_id: str | None = None
    ) -> tuple[str, Json]:
        _, attributes = own["update"](name(physical_id), old, new, stack_name, logical_id)
        return attributes["Id"], attributes

    def delete(physical_id: str, given: Json) -> None:
        own["delete"](name(physical_id), given)

    return {**own, "create": create, "update": update, "update_with_logical_id": True, "delete": delete}


def _bucket(own: Handler, host: Host) -> Handler:
    """A bucket that holds objects is not deleted (S3 API, DeleteBucket: BucketNotEmpty); the engine deletes it."""

    def delete(physical_id: str, given: Json, *rest: Any) -> None:
        if host.holds_objects(physical_id):
            message = f"the bucket {physical_id!r} you tried to delete is not empty"
            raise Refused(f"{Type.BUCKET} {physical_id}", [Fault("bucket-not-empty", message)])
        own["delete"](physical_id, given, *rest)

    return {**own, "delete": delete}


def _alarm(own: Handler, _host: Host) -> Handler:
    """The engine refuses alarms on metric math; it keeps them under their first metric, and `alarms.py` reads them."""

    def create(logical_id: str, given: Json, stack_name: str) -> tuple[str, Json]:
        made: tuple[str, Json] = own["create"](logical_id, _simple(given), stack_name)
        return made

    def update(physical_id: str, old: Json, new: Json, *rest: Any) -> tuple[str, Json]:
        made: tuple[str, Json] = own["update"](physical_id, _simple(old), _simple(new), *rest)
        return made

    return {**own, "create": create} | ({"update": update} if "update" in own else {})


def _simple(alarm: Json) -> Json:
    stats = [query["MetricStat"] for query in alarm.get("Metrics", []) if "MetricStat" in query]
    if not stats:
        return alarm
    rest = {key: value for key, value in alarm.items() if key != "Metrics"}
    return {**rest, **stats[0]["Metric"], "Period": stats[0]["Period"], "Statistic": stats[0]["Stat"]}


#: What is corrected where the engine is known to differ from AWS.
_CORRECTIONS: Mapping[str, Callable[[Handler, Host], Handler]] = {
    Type.ALARM: _alarm,
    Type.BUCKET: _bucket,
    "AWS::SecretsManager::Secret": _secret,
}
