"""What NVIDIA's Xid and SXid messages ask for, by source, and which of them a node acts on.

NVIDIA's resolution decides. Where NVIDIA names none, a message is watched: the driver itself asks by Xid 154 if a GPU
needs a repair. `Xid.note` has the reason where a node does anything else, and where the sources differ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Any

from cdk_gpu_clusters.catalogue._files import read_json, record

_FILE = "xids.json"


class XidClass(StrEnum):
    """What an Xid asks for."""

    #: It is reported and watched: an application's fault, or nothing to be done.
    MONITOR = "monitor"
    #: The GPU must be reset, with nothing on it.
    RESET = "reset"
    #: The node must be rebooted.
    REBOOT = "reboot"
    #: The host is faulty: another node.
    REPLACE = "replace"
    #: The recovery action in the text decides (Xid 154).
    RECOVERY = "recovery"
    #: The text decides: a fatal error requires a reset (Xids 144 to 150).
    NVLINK5 = "nvlink5"


@dataclass(frozen=True, slots=True, kw_only=True)
class Xid:
    """One Xid.

    Attributes:
        code: Its number in the kernel log.
        name: Its meaning, in our words; None for a number that is not used.
        xid_class: What a node acts on.
        nvidia: NVIDIA's immediate action, such as `RESET_GPU`; None if it names none.
        eks: What EKS documents as the default repair, `Reboot` or `Replace`; None for nothing.
        eks_agent: Whether EKS's node monitoring agent sets a condition for it, which node repair acts on.
        ecs: `Replace` if ECS replaces its managed instance for it; None for nothing.
        gpud: Severity of the event in GPUd: `Info`, `Warning`, `Critical` or `Fatal`; None if it does not know it.
        hyperpod: What SageMaker HyperPod is known to do, `reboot` or `none`; None if nothing is published.
        aws_suite: Severity in the AWS health check suite, such as `ISOLATE`; None if it does not name the code.
        note: Why a node acts as it does, and where sources differ; empty for nothing.
    """

    code: int
    name: str | None
    xid_class: XidClass
    nvidia: str | None
    eks: str | None
    eks_agent: bool
    ecs: str | None
    gpud: str | None
    hyperpod: str | None
    aws_suite: str | None
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryAction:
    """A recovery action that the driver asks for, by Xid 154 and by NVML.

    Attributes:
        code: Its number, which is the same in every driver.
        name: Its name in NVML, without the prefix.
        texts: What drivers print beside the number.
        since: First driver branch that has it.
        xid_class: What a node acts on.
    """

    code: int
    name: str
    texts: tuple[str, ...]
    since: str
    xid_class: XidClass


@dataclass(frozen=True, slots=True, kw_only=True)
class SXid:
    """An SXid of an NVSwitch that asks for more than its message states.

    A fatal SXid requires a reboot, and a non-fatal one nothing; these are the others.

    Attributes:
        code: Its number in the kernel log.
        name: Its meaning, in our words.
        xid_class: What a node acts on.
        note: Why.
    """

    code: int
    name: str
    xid_class: XidClass
    note: str


@cache
def xids() -> Mapping[int, Xid]:
    """Every Xid that a source names, by code.

    Example:
        >>> xids()[79].xid_class
        <XidClass.REPLACE: 'replace'>
    """
    data = read_json(_FILE)
    rows = {row["code"]: {"note": "", "eks_agent": False, **row} for row in data["codes"]}
    return MappingProxyType({code: record(Xid, row, xid_class=_class_of(row, data)) for code, row in rows.items()})


@cache
def recovery_actions() -> Mapping[int, RecoveryAction]:
    """The recovery actions, by number.

    Example:
        >>> recovery_actions()[2].xid_class
        <XidClass.REBOOT: 'reboot'>
    """
    rows = (
        record(RecoveryAction, row, xid_class=XidClass(row["class"]), texts=tuple(row["texts"]))
        for row in read_json(_FILE)["recovery_actions"]
    )
    return MappingProxyType({row.code: row for row in rows})


@cache
def sxids() -> Mapping[int, SXid]:
    """The SXids that ask for more than their message states, by code."""
    rows = (record(SXid, row, xid_class=XidClass(row["class"])) for row in read_json(_FILE)["sxids"])
    return MappingProxyType({row.code: row for row in rows})


def harmless_link_down_reasons() -> tuple[int, ...]:
    """Reasons of a fatal NVLink5 error (Xid 149) for which NVIDIA resets nothing.

    A person or a host took the link down. The reason is in bits 20 to 25 of the first number of the message.
    """
    return tuple(read_json(_FILE)["harmless_link_down_reasons"])


def nvidia_actions() -> Mapping[str, str]:
    """What NVIDIA's immediate actions mean, in our words."""
    return MappingProxyType({name: row["meaning"] for name, row in read_json(_FILE)["nvidia"].items()})


def xid_sources() -> Mapping[str, str]:
    """Where it comes from, by source, with date."""
    rows = read_json(_FILE)["sources"]
    return MappingProxyType({name: f"{row['title']} ({row['date']})" for name, row in rows.items()})


def node_xids() -> str:
    """The table as nodes read it, in JSON: Xids, recovery actions and SXids by number, each with its class."""
    rows = {
        str(xid.code): {"class": xid.xid_class.value, **({"name": xid.name} if xid.name else {})}
        for xid in xids().values()
    }
    table: dict[str, Any] = {
        "xids": rows,
        "recovery_actions": {str(code): row.xid_class.value for code, row in recovery_actions().items()},
        "harmless_link_down_reasons": harmless_link_down_reasons(),
        "sxids": {str(code): row.xid_class.value for code, row in sxids().items()},
    }
    return json.dumps(table, indent=0) + "\n"


def _class_of(row: Mapping[str, Any], data: Mapping[str, Any]) -> XidClass:
    if "class" in row:
        return XidClass(row["class"])
    return XidClass(data["nvidia"][row["nvidia"]]["class"]) if "nvidia" in row else XidClass.MONITOR
