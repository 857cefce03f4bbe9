"""What becomes user data: environment, script and model servers, by the rules that their constructs ask too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.fleet.node import NodeRequest, node_settings
from cdk_gpu_clusters.node.mig import FabricManagerOrder
from cdk_gpu_clusters.node.model_server import ServerSettings, model_server_files, model_server_part
from cdk_gpu_clusters.node.settings import NodeSettings, UserDataPart, check_settings
from cdk_gpu_clusters.node.software import SoftwareObject
from cdk_gpu_clusters.node.storage import LustreMount
from cdk_gpu_clusters.node.user_data import (
    check_secrets,
    check_user_data_size,
    render_user_data,
)

from ._document import Fault, Key, faults_at
from ._rules import USER_DATA_FILE
from .fleet import FleetSpec
from .inference import InferenceFleetSpec
from .planned_fleet import PlannedFleet
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


def check_size(fleet: PlannedFleet) -> list[Fault]:
    """Find user data that is longer than EC2 accepts; names that only the app knows are taken at their longest."""
    spec = fleet.spec
    if fleet.plan.interfaces_or_none is None:
        return []
    node = _training(fleet, spec) if isinstance(spec, FleetSpec) else _inference(fleet, spec)
    if node is None:
        return []
    request = replace(fleet.plan.request, name="f" * _LONGEST_PATH)
    text = render_user_data(node_settings(replace(fleet.plan, request=request), node), _LONGEST_OBJECT)
    where = "server" if isinstance(spec, InferenceFleetSpec) else "user_data" if spec.user_data else "environment"
    added = request.profile.added_user_data_bytes
    return faults_at((*fleet.key, where), check_user_data_size(text, added_bytes=added))


def _training(fleet: PlannedFleet, spec: FleetSpec) -> NodeRequest | None:
    text = None if spec.user_data is None else _read(spec.user_data)
    if isinstance(text, Finding):
        return None
    return replace(_node(fleet), environment=spec.environment, user_parts=() if text is None else (_part(text),))


def _inference(fleet: PlannedFleet, spec: InferenceFleetSpec) -> NodeRequest | None:
    if fleet.on_eks:  # the model servers are pods
        return _node(fleet)
    server, weights = spec.server, spec.server.weights
    plan, _ = plan_slots(fleet, spec)
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
    return replace(_node(fleet), user_parts=(model_server_part(settings),), files=model_server_files(settings))


def _node(fleet: PlannedFleet) -> NodeRequest:
    """What every fleet of the file requests of its nodes."""
    spec = fleet.spec
    return NodeRequest(
        log_group_name="l" * _LONGEST_LOG_GROUP,
        evidence_uri=None if spec.evidence_bucket is None else _LONGEST_EVIDENCE_URI,
        watch=spec.watch.settings,
        fabric_manager_order=FabricManagerOrder(spec.fabric_manager_order),
        mounts=tuple(
            LustreMount(mount_point=point, dns_name="d" * _LONGEST_DNS_NAME, mount_name="m" * 8)
            for point in spec.mounts
        ),
        scratch=fleet.scratch_plan[0],
        node_config=fleet.node_group.node_config if fleet.on_eks else None,
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
