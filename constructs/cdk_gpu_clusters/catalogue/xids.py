"""What NVIDIA's Xid messages ask for, by source, and which of them a node acts on.

The sources disagree. EKS's default decides where EKS acts, since it is AWS's own practice on EC2; NVIDIA's resolution
decides if EKS only reports; the AWS health check suite decides if neither knows the code. `Xid.note` names where
sources differ in more than the degree.
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

    #: Told and watched: an application's fault, or nothing to be done.
    MONITOR = "monitor"
    #: The GPU has to be reset, with nothing on it.
    RESET = "reset"
    #: The node has to be rebooted.
    REBOOT = "reboot"
    #: The host is faulty: another node.
    REPLACE = "replace"
    #: The text of the message says which of the others.
    MESSAGE = "message"


@dataclass(frozen=True, slots=True, kw_only=True)
class Xid:
    """One Xid.

    Attributes:
        code: Its number in the kernel log.
        name: Its meaning, in our words; None if no source names it.
        nvidia: NVIDIA's resolution, such as `RESET_GPU`; None where none was found.
        eks: What EKS repairs it with by default, `Reboot` or `Replace`; None if EKS only reports it.
        aws_suite: Severity in the AWS health check suite, such as `ISOLATE`; None where it does not name the code.
        xid_class: What a node acts on.
        note: Where sources differ, or what else is to be known; empty for nothing.
    """

    code: int
    name: str | None
    nvidia: str | None
    eks: str | None
    aws_suite: str | None
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
    rows = {row["code"]: {"note": "", **row} for row in data["codes"]}
    return MappingProxyType({code: record(Xid, row, xid_class=_class_of(row, data)) for code, row in rows.items()})


def xid_messages() -> Mapping[str, XidClass]:
    """What the text of an Xid of the class `message` asks for, by a part of that text."""
    return MappingProxyType({text: XidClass(name) for text, name in read_json(_FILE)["messages"].items()})


def xid_sources() -> Mapping[str, str]:
    """Where it comes from, by source, with date."""
    rows = read_json(_FILE)["sources"]
    return MappingProxyType({name: f"{row['title']} ({row['date']})" for name, row in rows.items()})


def node_xids() -> str:
    """The table as nodes read it: one JSON object by code, with `class` and, where there is one, `name`."""
    rows: dict[str, dict[str, Any]] = {}
    for xid in xids().values():
        row: dict[str, Any] = {"class": xid.xid_class.value}
        if xid.name is not None:
            row["name"] = xid.name
        if xid.xid_class is XidClass.MESSAGE:
            row["messages"] = {text: found.value for text, found in xid_messages().items()}
        rows[str(xid.code)] = row
    return json.dumps(rows, indent=0) + "\n"


def _class_of(row: Mapping[str, Any], data: Mapping[str, Any]) -> XidClass:
    if "class" in row:
        return XidClass(row["class"])
    if "eks" in row:
        return XidClass(data["eks"][row["eks"]])
    if "nvidia" in row:
        return XidClass(data["nvidia"][row["nvidia"]]["class"])
    return XidClass(data["aws_suite"][row["aws_suite"]])
