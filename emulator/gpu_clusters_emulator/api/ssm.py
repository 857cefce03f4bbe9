"""Run Command of Systems Manager for the instances of groups; the engine answers the rest of the service.

An agent on an instance takes its commands by the control path `POST /_emulator/commands`, and reports what came of
them. Without an agent a command stays pending, as on AWS for a node that does not answer.

Sources: Systems Manager API reference, SendCommand and ListCommandInvocations; user guide, "Schemas, features, and
examples" (schema 2.2).
"""

from __future__ import annotations

import json
from typing import Any

from ..clock import format_time
from ..faults import ApiError
from ..world import Instance, Json, World

_DOCUMENT = "AWS::SSM::Document"
_GROUP_TAG = "tag:aws:autoscaling:groupName"
_RUNNING = ("InService", "Pending:Wait", "Pending:Proceed", "Terminating:Wait", "Standby")


def send_command(world: World, params: Json) -> Json:
    name = params["DocumentName"]
    document = world.find(_DOCUMENT, name)
    if document is None:
        raise ApiError("InvalidDocument", f"Document with name {name} does not exist.")
    targets = [one.id for one in _targets(world, params)]
    command = {
        "CommandId": world.new_id("", f"command of {name}", 36),
        "DocumentName": name,
        "RequestedDateTime": world.clock.now().timestamp(),
        "TargetCount": len(targets),
        "Status": "Pending" if targets else "Success",
        "StatusDetails": "Pending" if targets else "NoInstancesInTag",
    }
    script = _script(document.properties["Content"])
    world.commands += [
        {"CommandId": command["CommandId"], "InstanceId": one, "Status": "Pending", "Output": "", "script": script}
        for one in targets
    ]
    return {"Command": command}


def list_command_invocations(world: World, params: Json) -> Json:
    found = [one for one in world.commands if one["CommandId"] == params.get("CommandId", one["CommandId"])]
    return {"CommandInvocations": [_invocation(one) for one in found]}


def _invocation(one: Json) -> Json:
    plugin = {"Name": "sync", "Status": one["Status"], "StatusDetails": one["Status"], "Output": one["Output"]}
    return {
        "CommandId": one["CommandId"],
        "InstanceId": one["InstanceId"],
        "Status": one["Status"],
        "StatusDetails": one["Status"],
        "CommandPlugins": [plugin],
    }


def take_commands(world: World, sent: Json) -> Any:
    """The control path of agents: what they report, then what their instance is to run now."""
    for report in sent.get("reports", []):
        for one in world.commands:
            if (one["CommandId"], one["InstanceId"]) == (report["command_id"], sent["instance_id"]):
                one["Status"] = "Success" if report["status"] == 0 else "Failed"
                one["Output"] = report["output"]
                one["ended"] = format_time(world.clock.now())
    mine = [one for one in world.commands if one["InstanceId"] == sent["instance_id"] and one["Status"] == "Pending"]
    for one in mine:
        one["Status"] = "InProgress"
    return [{"command_id": one["CommandId"], "script": one["script"]} for one in mine]


def _targets(world: World, params: Json) -> list[Instance]:
    names = set(params.get("InstanceIds", []))
    groups = {value for one in params.get("Targets", []) if one["Key"] == _GROUP_TAG for value in one["Values"]}
    return [
        instance
        for group in world.groups.values()
        for instance in group.instances
        if (instance.id in names or group.name in groups) and instance.lifecycle_state in _RUNNING
    ]


def _script(content: Any) -> str:
    document = json.loads(content) if isinstance(content, str) else content
    (step,) = document["mainSteps"]
    return "\n".join(step["inputs"]["runCommand"])
