"""What becomes user data: the fleet's environment and its script, by the rules that its construct asks too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.node.settings import COMMUNICATION_VARIABLES, NodeSettings, UserPart, check_settings
from cdk_gpu_clusters.node.software import NodeSoftware, SoftwareObject
from cdk_gpu_clusters.node.storage import LustreMount
from cdk_gpu_clusters.node.user_data import (
    check_secrets,
    check_user_data_size,
    choose_software,
    render_user_data,
)

from ._document import Key
from ._fault import Fault, faults_at
from ._rules import USER_DATA_FILE
from .fleet import FleetSpec

#: Lengths of the names that only the app knows: stack names are two names of at most 40 characters and "-fleet-", and
#: CloudFormation adds an id and 12 random characters to the name of the log group.
_LONGEST_PATH = 2 * 40 + len("-fleet-") + len("/Fleet")
_LONGEST_LOG_GROUP = _LONGEST_PATH + 40

#: `fs-` and 17 digits, `.fsx.`, the longest Region, `.amazonaws.com.cn`.
_LONGEST_DNS_NAME = 20 + len(".fsx.ap-southeast-1.amazonaws.com.cn")

#: A bucket's name has at most 63 characters; `cdk bootstrap` gives assets no prefix of its own.
_LONGEST_OBJECT = SoftwareObject(bucket_name="b" * 63, object_key="k" * 64 + ".tar", sha256="s" * 64)


def check_environment(key: Key, spec: FleetSpec) -> list[Fault]:
    """Find variables that cannot be set, do harm, or look like secrets."""
    faults: list[Fault] = []
    for finding in check_settings(NodeSettings(fleet_name="", extra_environment=spec.environment)):
        name = finding.path.partition(".")[2]
        faults += faults_at((*key, "environment", name), [replace(finding, path="")])
    for name, value in spec.environment.items():
        found = [replace(finding, got=name) for finding in check_secrets(f"{name}={value}")]
        faults += faults_at((*key, "environment", name), found)
    return faults


def check_script(key: Key, spec: FleetSpec) -> list[Fault]:
    """Find a script that is not there, that a node cannot run, or that holds what looks like a secret."""
    if spec.user_data is None:
        return []
    text = _read(spec.user_data)
    if isinstance(text, Finding):
        return faults_at((*key, "user_data"), [text])
    found = check_settings(NodeSettings(fleet_name="", user_parts=(_part(text),))) + check_secrets(text)
    return faults_at((*key, "user_data"), [replace(finding, path="") for finding in found])


def check_size(key: Key, spec: FleetSpec) -> list[Fault]:
    """Find user data that is longer than EC2 accepts; the node's own share is taken at its longest."""
    text = None if spec.user_data is None else _read(spec.user_data)
    if isinstance(text, Finding):
        return []
    values = spec.environment.items()
    settings = NodeSettings(
        fleet_name="f" * _LONGEST_PATH,
        launch_hook_name="node-ready",
        terminate_hook_name="node-drain",
        boot_deadline_seconds=1500,
        log_group_name="l" * _LONGEST_LOG_GROUP,
        accelerator_kind="gpu",
        accelerator_count=16,
        efa_interface_count=32,
        nccl_environment={name: value for name, value in values if name.startswith(COMMUNICATION_VARIABLES)},
        extra_environment={
            name: value for name, value in values if not name.startswith(COMMUNICATION_VARIABLES)
        },
        mounts=tuple(
            LustreMount(mount_point=point, dns_name="d" * _LONGEST_DNS_NAME, mount_name="m" * 8)
            for point in spec.mounts
        ),
        user_parts=() if text is None else (_part(text),),
    )
    where = "environment" if text is None else "user_data"
    software = _LONGEST_OBJECT if choose_software(settings) is NodeSoftware.ASSET else None
    return faults_at((*key, where), check_user_data_size(render_user_data(settings, software)))


def _part(text: str) -> UserPart:
    return UserPart(content_type="text/x-shellscript", body=text)


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
