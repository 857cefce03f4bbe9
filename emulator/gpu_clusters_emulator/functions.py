"""Functions of AWS Lambda whose Python code is in a template, as CloudFormation calls them for a custom resource.

The code runs in this process. Its `boto3` makes calls of the models, judged by the policies of the function's role;
its `cfnresponse` keeps the answer. Other functions belong to the engine.

Sources: CloudFormation user guide, "Custom resource request objects" (members; a creation that fails is followed by a
deletion, a change that fails by a change back; another physical id replaces the resource) and "`cfn-response` module"
(without a physical id, the name of the log stream is one), stored copies of 2026.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any, Protocol

from botocore import xform_name
from botocore.exceptions import ClientError

from .faults import ApiError, Fault, Refused
from .permissions import authorize, role_name
from .service_shapes import call_messages, service_model
from .world import Caller, Json, Resource, Type, World

#: Custom resources that such functions make.
RUN = ("Custom::EC2CapacityReservation",)
_FUNCTION = "AWS::Lambda::Function"
_LOG_STREAM = "2026/01/01/[$LATEST]0123456789abcdef0123456789abcdef"


class Host(Protocol):
    """What is needed of the engine that calls the functions."""

    def here(self) -> World: ...

    def stack_id(self, stack_name: str) -> str: ...

    def delete_replaced(self, delete: Callable[..., None], physical_id: str, properties: Json) -> None: ...


def custom_handler(type_name: str, host: Host) -> dict[str, Any]:
    """The handler of a custom resource, which is one of `RUN`."""

    def send(kind: str, logical_id: str, stack_name: str, given: Json, **members: Any) -> Json:
        world = host.here()
        request = {
            "RequestType": kind,
            "RequestId": world.new_id("", f"{stack_name}/{logical_id}/{kind}", 36),
            "StackId": host.stack_id(stack_name),
            "LogicalResourceId": logical_id,
            "ResourceType": type_name,
            "ResourceProperties": _as_sent(given),
            **members,
        }
        return _answered(world, given["ServiceToken"], request)

    def keep(answer: Json, logical_id: str, stack_name: str, given: Json) -> tuple[str, Json]:
        if answer["Status"] != "SUCCESS":
            message = f"Received response status [FAILED] from custom resource. Message returned: {answer['Reason']}"
            raise Refused(f"{type_name} {logical_id}", [Fault("custom-resource", message)])
        made, world = answer["PhysicalResourceId"], host.here()
        kept = Resource(type=type_name, physical_id=made, region=world.region, properties=given)
        kept.logical_id, kept.stack_name = logical_id, stack_name
        world.add(kept)
        return made, answer["Data"]

    def create(logical_id: str, given: Json, stack_name: str) -> tuple[str, Json]:
        answer = send("Create", logical_id, stack_name, given)
        if answer["Status"] != "SUCCESS":
            send("Delete", logical_id, stack_name, given, PhysicalResourceId=answer["PhysicalResourceId"])
        return keep(answer, logical_id, stack_name, given)

    def update(
        physical_id: str, old: Json, new: Json, stack_name: str, logical_id: str | None = None
    ) -> tuple[str, Json]:
        name, present = logical_id or physical_id, {"PhysicalResourceId": physical_id}
        answer = send("Update", name, stack_name, new, OldResourceProperties=_as_sent(old), **present)
        if answer["Status"] != "SUCCESS":
            send("Update", name, stack_name, old, OldResourceProperties=_as_sent(new), **present)
        made, data = keep(answer, name, stack_name, new)
        if made != physical_id:
            host.delete_replaced(delete, physical_id, old)
        return made, data

    def delete(physical_id: str, given: Json) -> None:
        kept = host.here().find(type_name, physical_id)
        assert kept is not None  # noqa: S101 - `keep` has put it there
        answer = send("Delete", kept.logical_id, kept.stack_name, given, PhysicalResourceId=physical_id)
        keep(answer, kept.logical_id, kept.stack_name, given)
        host.here().remove(type_name, physical_id)

    return {"create": create, "update": update, "update_with_logical_id": True, "delete": delete}


def _as_sent(value: Any) -> Any:
    """Properties as a function gets them: every number and boolean is a text."""
    if isinstance(value, dict):
        return {key: _as_sent(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_as_sent(one) for one in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def _answered(world: World, token: str, request: Json) -> Json:
    """What the function behind a service token answers to a request."""
    function = next(one for one in world.of_type(_FUNCTION) if one.attributes.get("Arn") == token)
    answers: list[Json] = []

    def send(
        _event: Json, _context: object, status: str, data: Json, physical_id: str | None = None, **more: Any
    ) -> None:
        answers.append(
            {
                "Status": status,
                "Data": data,
                "PhysicalResourceId": physical_id or _LOG_STREAM,
                "Reason": more.get("reason") or f"See the details in CloudWatch Log Stream: {_LOG_STREAM}",
            }
        )

    modules = {
        "boto3": SimpleNamespace(client=lambda service: _Client(world, service, _role_of(function))),
        "cfnresponse": SimpleNamespace(SUCCESS="SUCCESS", FAILED="FAILED", send=send),
    }
    code: Json = {"__builtins__": {**vars(builtins), "__import__": _imports(modules)}}
    exec(function.properties["Code"]["ZipFile"], code)  # noqa: S102 - as AWS Lambda does with a template's code
    code[function.properties["Handler"].partition(".")[2]](request, SimpleNamespace(log_stream_name=_LOG_STREAM))
    return answers[0]


def _imports(modules: dict[str, Any]) -> Callable[..., Any]:
    def find(name: str, *rest: Any) -> Any:
        return modules[name] if name in modules else __import__(name, *rest)

    return find


def _role_of(function: Resource) -> Caller:
    return Caller(role=role_name(str(function.properties["Role"])), session=function.physical_id)


class _Client:
    """A client of boto3 whose calls are calls of the models."""

    def __init__(self, world: World, service: str, caller: Caller) -> None:
        self._world, self._service, self._caller = world, service, caller
        self._operations = {xform_name(name): name for name in service_model(service).operation_names}
        self.exceptions = SimpleNamespace(ClientError=ClientError)

    def __getattr__(self, name: str) -> Callable[..., Json]:
        operation = self._operations[name]

        def call(**params: Any) -> Json:
            try:
                for message in call_messages(self._service, operation, params):
                    raise ApiError("ValidationError", message)
                authorize(self._world, self._caller, self._service, operation, params)
                return _perform(self._world, self._service, operation, params)
            except ApiError as error:
                answer: Any = {"Error": {"Code": error.code, "Message": error.message}}
                raise ClientError(answer, operation) from None

        return call


def _perform(world: World, service: str, operation: str, params: Json) -> Json:
    if operation in ("CreateTags", "DeleteTags"):  # of other resources they belong to the engine
        return _change_tags(world, params, {tag["Key"]: tag.get("Value") for tag in params["Tags"]})
    answer: Json = import_module(".api", __package__).call(world, service, operation, params)
    return answer


def _change_tags(world: World, params: Json, changes: dict[str, str | None]) -> Json:
    for identifier in params["Resources"]:
        resource = world.find(Type.CAPACITY_RESERVATION, identifier)
        if resource is None:
            raise ApiError("InvalidID", f"The ID '{identifier}' is not valid")
        tags = {tag["Key"]: tag["Value"] for tag in resource.properties["Tags"]} | changes
        resource.properties["Tags"] = [{"Key": key, "Value": one} for key, one in tags.items() if one is not None]
    return {}
