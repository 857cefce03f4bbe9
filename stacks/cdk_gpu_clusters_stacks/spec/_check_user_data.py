"""What becomes user data: environment, script and model servers, by the rules that their constructs ask too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.node.mig import mig_settings
from cdk_gpu_clusters.node.model_server import ServerSettings, model_server_files, model_server_part
from cdk_gpu_clusters.node.settings import COMMUNICATION_VARIABLES, NodeSettings, UserDataPart, check_settings
from cdk_gpu_clusters.node.software import SoftwareObject
from cdk_gpu_clusters.node.storage import LustreMount
from cdk_gpu_clusters.node.user_data import (
    check_secrets,
    check_user_data_size,
    render_user_data,
)

from ._document import Fault, Key, faults_at
from ._fleet_view import FleetView
from ._rules import USER_DATA_FILE
from .fleet import FleetSpec
from .inference import InferenceFleetSpec
from .views import plan_slots

#: Lengths of the names that only the app knows: stack names are two names of at most 40 characters and a word between
#: them, and CloudFormation adds an id and 12 random characters to the name of the log group.
_LONGEST_PATH = 2 * 40 + len("-inference-") + len("/Service/Fleet")
_LONGEST_LOG_GROUP = _LONGEST_PATH + 40

_LONGEST_EVIDENCE_URI = "s3://" + "b" * 63 + "/node-evidence/" + "f" * _LONGEST_PATH

#: `fs-` and 17 digits, `.fsx.`, the longest Region, `.amazonaws.com.cn`.
_LONGEST_DNS_NAME = 20 + len(".fsx.ap-southeast-1.amazonaws.com.cn")

#: A bucket's name has at most 63 characters; `cdk bootstrap` gives assets no prefix of its own.
_LONGEST_OBJECT = SoftwareObject(bucket_name="b" * 63, object_key="k" * 64 + ".tar", sha256="s" * 64)


def check_environment(key: Key, environment: Mapping[str, str]) -> list[Fault]:
    """Find variables of a node that cannot be set, do harm, or look like secrets."""
    faults: list[Fault] = []
    for finding in check_settings(NodeSettings(fleet_name="", extra_environment=environment)):
        name = finding.path.partition(".")[2]
        faults += faults_at((*key, name), [replace(finding, path="")])
    return faults + check_plain_values(key, environment)


def check_plain_values(key: Key, environment: Mapping[str, str]) -> list[Fault]:
    """Find variables that look like secrets."""
    return [
        fault
        for name, value in environment.items()
        for finding in check_secrets(f"{name}={value}")
        for fault in faults_at((*key, name), [replace(finding, got=name)])
    ]


def check_script(key: Key, spec: FleetSpec) -> list[Fault]:
    """Find a script that is not there, that a node cannot run, or that holds what looks like a secret."""
    if spec.user_data is None:
        return []
    text = _read(spec.user_data)
    if isinstance(text, Finding):
        return faults_at((*key, "user_data"), [text])
    found = check_settings(NodeSettings(fleet_name="", user_parts=(_part(text),))) + check_secrets(text)
    return faults_at((*key, "user_data"), [replace(finding, path="") for finding in found])


def check_size(view: FleetView) -> list[Fault]:
    """Find user data that is longer than EC2 accepts; names that only the app knows are taken at their longest."""
    spec = view.spec
    settings = _training(view, spec) if isinstance(spec, FleetSpec) else _inference(view, spec)
    if settings is None:
        return []
    where = (
        "server" if isinstance(spec, InferenceFleetSpec) else "user_data" if spec.user_data else "environment"
    )
    return faults_at((*view.key, where), check_user_data_size(render_user_data(settings, _LONGEST_OBJECT)))


def _training(view: FleetView, spec: FleetSpec) -> NodeSettings | None:
    text = None if spec.user_data is None else _read(spec.user_data)
    if isinstance(text, Finding):
        return None
    values = spec.environment.items()
    return replace(
        _node(view),
        nccl_environment={name: value for name, value in values if name.startswith(COMMUNICATION_VARIABLES)},
        extra_environment={
            name: value for name, value in values if not name.startswith(COMMUNICATION_VARIABLES)
        },
        user_parts=() if text is None else (_part(text),),
    )


def _inference(view: FleetView, spec: InferenceFleetSpec) -> NodeSettings | None:
    server, weights = spec.server, spec.server.weights
    plan, _ = plan_slots(view, spec)
    if plan is None:
        return None
    settings = ServerSettings(
        image=server.image,
        plan=plan,
        container_port=server.port,
        health_path=server.health_path,
        command=server.command,
        environment=server.environment,
        secrets={name: (secret.arn, secret.json_field or "") for name, secret in server.secrets.items()},
        registry_login="" if server.registry_login is None else server.registry_login.arn,
        weights_path="" if weights is None else weights.path or "",
        weights_uri="" if weights is None else weights.s3_uri or "",
    )
    return replace(
        _node(view),
        user_parts=(model_server_part(settings),),
        files=model_server_files(settings),
    )


def _node(view: FleetView) -> NodeSettings:
    """The settings that follow from what every fleet says."""
    accelerator = view.type.accelerator
    return NodeSettings(
        fleet_name="f" * _LONGEST_PATH,
        launch_hook_name="node-ready",
        terminate_hook_name="node-drain",
        boot_deadline_seconds=1500,
        log_group_name="l" * _LONGEST_LOG_GROUP,
        evidence_uri=None if view.spec.evidence_bucket is None else _LONGEST_EVIDENCE_URI,
        orchestrator="ec2",
        watch=view.spec.watch.settings,
        accelerator_kind=None if accelerator is None else accelerator.kind,
        accelerator_count=0 if accelerator is None else accelerator.count or accelerator.logical_count,
        efa_interface_count=32,
        mounts=tuple(
            LustreMount(mount_point=point, dns_name="d" * _LONGEST_DNS_NAME, mount_name="m" * 8)
            for point in view.spec.mounts
        ),
        scratch=view.scratch,
        mig=None if view.mig is None else mig_settings(view.mig),
    )


def _part(text: str) -> UserDataPart:
    return UserDataPart(content_type="text/x-shellscript", body=text)


def _read(path: Path) -> str | Finding:
    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        cause = "" if text.strip() else "the script is empty"
        if text.startswith("\ufeff"):
            cause = "the script starts with a byte-order mark, so a node does not see its #!; save it without"
    except FileNotFoundError:
        cause = "there is no such file"
    except UnicodeDecodeError as fault:
        line = fault.object[: fault.start].count(b"\n") + 1
        cause = f"the script is not UTF-8 text: byte 0x{fault.object[fault.start]:02x} in its line {line}"
    except (OSError, ValueError) as fault:
        cause = f"the script cannot be read: {(getattr(fault, 'strerror', None) or str(fault)).lower()}"
    if not cause:
        return text
    return USER_DATA_FILE.finding(
        cause=cause, got=str(path), fix="give the path of a shell script, relative to the cluster file"
    )
