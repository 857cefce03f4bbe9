"""What both emulators offer: clients, seeds, the clock, events, and deploys of plain templates."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from threading import Lock
from typing import Any, Self

from ._extra import optional_module

Json = dict[str, Any]

DEFAULT_ACCOUNT = "123456789012"
NO_SECRET = "testing"  # noqa: S105 - the engine takes any
_TIMEOUT_SECONDS = 120
_MOST_BYTES_IN_REQUEST = 51_200
_LONGEST_MESSAGE = 600
_STARTS = ("CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS")
# Clients may be used by many threads, but a session makes them one at a time.
# Source: Boto3 documentation, "Session", "Multithreading or multiprocessing with sessions".
_MAKING_CLIENT = Lock()


@cache
def _session() -> Any:
    """The session of every client: each new session reads botocore's models of the services again."""
    return optional_module("boto3").Session()


def _shorten_message(parsed: Json, **_: Any) -> None:
    """Botocore's hook before it raises: CloudFormation repeats all of a template that is too large."""
    error = parsed.get("Error", {})
    message = str(error.get("Message", ""))
    if len(message) > _LONGEST_MESSAGE:
        half = _LONGEST_MESSAGE // 2
        error["Message"] = f"{message[:half]}… ({len(message):,} characters) …{message[-half:]}"


class DeployFailed(Exception):
    """A stack operation that failed; the message holds every failed resource's reason."""

    def __init__(self, stack_name: str, status: str, reasons: list[str]) -> None:
        self.status = status
        self.reasons = reasons
        super().__init__(f"{stack_name} is {status}: " + "; ".join(reasons))


class EmulatedAccount(ABC):
    """An AWS account that does not exist."""

    region: str
    account: str

    @abstractmethod
    def client(self, service: str) -> Any:
        """A boto3 client of this account."""

    @abstractmethod
    def _client_of(self, service: str, access_key: str) -> Any:
        """A boto3 client with an access key."""

    def node_client(self, instance_id: str, service: str) -> Any:
        """A boto3 client of a program on a node: it may do what the policies of the node's role allow then.

        A call that they do not allow raises `ClientError` (AccessDenied), and is in `history()["denied"]`.

        Args:
            instance_id: The node.
            service: Such as `autoscaling` or `logs`.

        Raises:
            ValueError: If there is no such node, or it has no role.
        """
        opened = self._control("POST", "session", {"instance_id": instance_id})
        return self._client_of(service, str(opened["access_key"]))

    def _client_at(self, service: str, endpoint_url: str, access_key: str = "") -> Any:
        with _MAKING_CLIENT:
            made = _session().client(
                service,
                endpoint_url=endpoint_url,
                region_name=self.region,
                aws_access_key_id=access_key or self.account,
                aws_secret_access_key=NO_SECRET,
            )
        made.meta.events.register("after-call", _shorten_message)
        return made

    @abstractmethod
    def _ask(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """Send a request to the emulator itself; the status and the body of its answer."""

    def _control(self, method: str, action: str, document: Any = None) -> Any:
        """Call a control path and give its JSON answer."""
        body = b"" if document is None else json.dumps(document, default=str).encode()
        status, payload = self._ask(method, f"/_emulator/{action}", body)
        answered = json.loads(payload)
        if status != 200:
            raise ValueError(answered["error"])
        return answered

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(self, *_: object) -> None: ...

    def seed(self, document: Mapping[str, Any]) -> None:
        """Put in place what no stack makes, such as Capacity Blocks.

        Args:
            document: See `gpu_clusters_emulator.seeds`.
        """
        self._control("POST", "seed", document)

    def resources(self, type_name: str | None = None) -> list[Json]:
        """Every resource of every stack, each with `answered_by`: `emulator` (the engine) or `model` (this library).

        A cluster of EKS or AWS PCS that was seeded is among them, answered by `seed`. What a service keeps behind a
        resource, such as the Auto Scaling group of a node group of EKS, has no stack.
        """
        found: list[Json] = self._control("GET", "resources")
        return [one for one in found if type_name in (None, one["type"])]

    def history(self) -> Json:
        """Events, deliveries to targets, executions of state machines, and denied calls so far."""
        found: Json = self._control("GET", "history")
        return found

    def take_commands(self, instance_id: str, reports: Sequence[Mapping[str, Any]] = ()) -> list[Json]:
        """What the agent of Systems Manager does on an instance: report, and take the commands that wait for it.

        Args:
            instance_id: The instance.
            reports: What came of earlier commands: `command_id`, `status` and `output`.

        Returns:
            Commands, each with its `command_id` and its `script`.
        """
        sent = {"instance_id": instance_id, "reports": list(reports)}
        found: list[Json] = self._control("POST", "commands", sent)
        return found

    @property
    def now(self) -> str:
        """The account's time, ISO 8601."""
        return str(self._control("GET", "clock")["now"])

    def move_clock(self, to: str | datetime) -> list[Json]:
        """Move the account's clock forward; block events, schedules and scheduled actions happen on the way."""
        text = to.isoformat() if isinstance(to, datetime) else to
        happened: list[Json] = self._control("POST", "clock", {"to": text})
        return happened

    def emit(self, event: Mapping[str, Any]) -> list[Json]:
        """Put an event on the default bus and give its deliveries."""
        deliveries: list[Json] = self._control("POST", "events", event)
        return deliveries

    def make_nodes_ready(self) -> list[str]:
        """Let every node that waits in a launching hook say that it is ready; the ids of those nodes.

        Nothing boots in the emulator: what a node's own program would do, this does, with the node's role.
        """
        scaling = self.client("autoscaling")
        ready = []
        for group in scaling.describe_auto_scaling_groups()["AutoScalingGroups"]:
            name = {"AutoScalingGroupName": group["AutoScalingGroupName"]}
            hooks = [
                hook["LifecycleHookName"]
                for hook in scaling.describe_lifecycle_hooks(**name)["LifecycleHooks"]
                if hook["LifecycleTransition"] == "autoscaling:EC2_INSTANCE_LAUNCHING"
            ]
            for node in group["Instances"]:
                here = scaling.describe_auto_scaling_instances(InstanceIds=[node["InstanceId"]])["AutoScalingInstances"]
                if [one["LifecycleState"] for one in here] != ["Pending:Wait"]:
                    continue  # an earlier node's readiness may have ended it
                own = self.node_client(node["InstanceId"], "autoscaling")
                for hook in hooks:
                    own.complete_lifecycle_action(
                        **name,
                        LifecycleHookName=hook,
                        InstanceId=node["InstanceId"],
                        LifecycleActionResult="CONTINUE",
                    )
                    ready.append(str(node["InstanceId"]))
        return list(dict.fromkeys(ready))

    def set_answering(self, instance_id: str, *, answers: bool) -> None:
        """Let the health checks of load balancers fail at a node, or succeed again.

        Raises:
            ValueError: If there is no such node.
        """
        self._control("POST", "health", {"instance_id": instance_id, "answers": answers})

    def reset(self) -> None:
        """Forget every resource, seed and event."""
        self._control("POST", "reset")

    def deploy(
        self,
        template: Mapping[str, Any],
        *,
        stack_name: str = "stack",
        parameters: Mapping[str, str] | None = None,
        termination_protection: bool = False,
    ) -> dict[str, str]:
        """Create a stack, or update it where it exists.

        Args:
            template: The template, such as `aws_cdk.assertions.Template.to_json()` gives. CDK's check that the
                account is bootstrapped is left out: no assets are uploaded here. Above 51,200 bytes the template goes
                through a bucket, as with the CLI.
            stack_name: Name of the stack.
            parameters: Values for the template's parameters; a default in the template is used for the rest.
            termination_protection: Whether the stack refuses to be deleted.

        Returns:
            The outputs.

        Raises:
            DeployFailed: If a resource is refused; the stack is rolled back.
        """
        cloudformation = self.client("cloudformation")
        arguments = {
            "StackName": stack_name,
            **self._template_argument(stack_name, json.dumps(_without_bootstrap_check(template))),
            "Capabilities": ["CAPABILITY_NAMED_IAM"],
            "Parameters": [{"ParameterKey": key, "ParameterValue": value} for key, value in (parameters or {}).items()],
        }
        if self._stack(stack_name) is None:
            stack_id = cloudformation.create_stack(**arguments)["StackId"]
        else:
            stack_id = cloudformation.update_stack(**arguments)["StackId"]
        cloudformation.update_termination_protection(
            StackName=stack_name, EnableTerminationProtection=termination_protection
        )
        stack = self._settled(stack_id)
        return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}

    def _template_argument(self, stack_name: str, text: str) -> dict[str, str]:
        """A template as CloudFormation takes it: in the request up to a limit, else from a bucket.

        Source: CloudFormation user guide, "Understand CloudFormation quotas", template body size in a request.
        """
        if len(text.encode()) <= _MOST_BYTES_IN_REQUEST:
            return {"TemplateBody": text}
        bucket, key, s3 = f"cf-templates-{self.account}-{self.region}", f"{stack_name}.json", self.client("s3")
        if bucket not in [one["Name"] for one in s3.list_buckets()["Buckets"]]:
            s3.create_bucket(Bucket=bucket)
        s3.put_object(Bucket=bucket, Key=key, Body=text.encode())
        return {"TemplateURL": f"https://s3.{self.region}.amazonaws.com/{bucket}/{key}"}

    def destroy(self, stack_name: str = "stack") -> None:
        """Delete a stack.

        Raises:
            DeployFailed: If the stack is protected, or a resource may not be deleted.
        """
        stack = self._stack(stack_name)
        if stack is None:
            return
        try:
            self.client("cloudformation").delete_stack(StackName=stack_name)
        except optional_module("botocore.exceptions").ClientError as error:
            raise DeployFailed(stack_name, stack["StackStatus"], [str(error)]) from error
        self._settled(stack["StackId"])

    def _stack(self, name: str) -> Json | None:
        botocore = optional_module("botocore.exceptions")
        try:
            stacks = self.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
        except botocore.ClientError:
            return None
        return dict(stacks[0])

    def _settled(self, stack_id: str) -> Json:
        """Wait for a stack operation.

        Raises:
            DeployFailed: If it failed, or was rolled back.
        """
        cloudformation = self.client("cloudformation")
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while True:
            stack = dict(cloudformation.describe_stacks(StackName=stack_id)["Stacks"][0])
            status = stack["StackStatus"]
            if not status.endswith("IN_PROGRESS"):
                break
            if time.monotonic() > deadline:
                raise DeployFailed(stack["StackName"], status, [f"not done in {_TIMEOUT_SECONDS} s"])
            time.sleep(0.01)
        if "ROLLBACK" in status or status.endswith("FAILED"):
            raise DeployFailed(stack["StackName"], status, self._reasons(stack_id))
        return stack

    def _reasons(self, stack_id: str) -> list[str]:
        """Why the stack's last operation failed, oldest first."""
        reasons: list[str] = []
        for event in self.client("cloudformation").describe_stack_events(StackName=stack_id)["StackEvents"]:
            if event["ResourceStatus"].endswith("FAILED"):
                reasons.insert(0, f"{event['LogicalResourceId']}: {event.get('ResourceStatusReason', '')}")
            if event["PhysicalResourceId"] == stack_id and event["ResourceStatus"] in _STARTS:
                break
        return reasons


def _without_bootstrap_check(template: Mapping[str, Any]) -> Json:
    """A template without what CDK's `DefaultStackSynthesizer` adds to it."""
    added = {"Parameters": "BootstrapVersion", "Rules": "CheckBootstrapVersion"}
    return {
        part: {name: one for name, one in content.items() if name != added[part]} if part in added else content
        for part, content in template.items()
    }
