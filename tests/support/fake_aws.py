"""An AWS account made of canned answers: botocore's own clients, its checks of parameters and answers, no network.

An answer is looked up by service and operation (`ec2.describe_subnets`). It is a response, a refusal, or a function of
the call's parameters that gives one of them. Every response is checked against the API's shape by botocore's Stubber.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import boto3
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.stub import Stubber

Answer = Any


class Refusal(NamedTuple):
    """An error of AWS."""

    code: str
    message: str = "refused"


class Asked(NamedTuple):
    """One request that reached AWS."""

    name: str
    region: str
    parameters: Mapping[str, Any]
    began: float
    ended: float


class FakeAws:
    """Canned answers, and a record of what was asked.

    Attributes:
        answers: Answer by service and operation.
        asked: Requests in the order of their ends.
    """

    _now: FakeAws
    _clients: dict[tuple[str, str], Any] = {}  # noqa: RUF012 - kept for all tests of a process: making one is slow
    _making = threading.Lock()

    def __init__(self, answers: Mapping[str, Answer], *, seconds: float = 0) -> None:
        self.answers = dict(answers)
        self.seconds = seconds
        self.asked: list[Asked] = []
        FakeAws._now = self

    @classmethod
    def forget_clients(cls) -> None:
        """Have clients made again."""
        cls._clients.clear()

    def but(self, **answers: Answer) -> FakeAws:
        """The same with other answers; `__` stands for the dot."""
        changed = {
            name.replace("__", ".").replace("_quotas.", "-quotas.").replace("_groups.", "-groups."): answer
            for name, answer in answers.items()
        }
        return FakeAws({**self.answers, **changed}, seconds=self.seconds)

    def clients(self, service: str, region: str) -> Any:
        """A boto3 client of the account."""
        FakeAws._now = self
        with self._making:
            if (service, region) not in self._clients:
                self._clients[service, region] = _client(service, region)
        return self._clients[service, region]

    def names(self) -> set[str]:
        """Services and operations that were asked."""
        return {one.name for one in self.asked}

    def respond(self, client: Any, operation: str, parameters: Mapping[str, Any]) -> Any:
        """The response to a request, as botocore's parsers would give it."""
        name = f"{client.meta.service_model.service_name}.{operation}"
        began = time.monotonic()
        time.sleep(self.seconds)
        answer = self.answers[name]
        if callable(answer) and not isinstance(answer, Refusal):
            answer = answer(parameters)
        self.asked.append(Asked(name, client.meta.region_name, parameters, began, time.monotonic()))
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Refusal):
            return _http(400), {"Error": {"Code": answer.code, "Message": answer.message}, **_meta(400)}
        Stubber(client).add_response(operation, answer)  # raises if AWS could not answer so
        return _http(200), {**answer, **_meta(200)}


def _client(service: str, region: str) -> Any:
    make: Any = boto3.client
    client = make(service, region_name=region, aws_access_key_id="test", aws_secret_access_key="test")

    def note(params: Mapping[str, Any], context: dict[str, Any], **_: Any) -> None:
        context["asked"] = dict(params)

    def answer(model: Any, context: dict[str, Any], **_: Any) -> Any:
        operations = {value: key for key, value in client.meta.method_to_api_mapping.items()}
        return FakeAws._now.respond(client, operations[model.name], context.get("asked", {}))

    client.meta.events.register("before-parameter-build.*.*", note)
    client.meta.events.register_first("before-call.*.*", answer)
    return client


def _http(status: int) -> AWSResponse:
    return AWSResponse("", status, HTTPHeaders(), None)


def _meta(status: int) -> Mapping[str, Any]:
    return {"ResponseMetadata": {"HTTPStatusCode": status, "RequestId": "test", "RetryAttempts": 0}}
