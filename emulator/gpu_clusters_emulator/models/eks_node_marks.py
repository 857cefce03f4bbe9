"""Labels and taints of node groups.

Sources, read 2026-11-22: Amazon EKS user guide (awsdocs/amazon-eks-user-guide @ 4d52b4d), "Prevent Pods from being
scheduled on specific nodes" (forms; 50 taints); Kubernetes documentation, "Labels and Selectors" (forms); what EKS
reserves: eksctl-io/eksctl issue 4007, for `eks.amazonaws.com/`; what the kubelet refuses of kubernetes.io and k8s.io,
so that nodes do not join: terraform-aws-modules/terraform-aws-eks issues 3346 and 831.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ..faults import Fault

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_PREFIX_LIMIT = 253
_MOST_TAINTS = 50
_RESERVED = "eks.amazonaws.com"
_KUBERNETES = ("kubernetes.io", "k8s.io")
_OPEN_TO_NODES = ("kubelet.kubernetes.io", "node.kubernetes.io")
_KNOWN_TO_NODES = frozenset(
    {
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)


def label_faults(labels: dict[str, str]) -> Iterator[Fault]:
    """Faults of the labels of a node group."""
    for key, value in labels.items():
        yield from _form_faults("node-label", key, value, "Labels")
        prefix = key.partition("/")[0] if "/" in key else ""
        if _is_of(prefix, (_RESERVED,)):
            message = f"Label cannot contain reserved prefixes [{_RESERVED}/]: {key}"
            yield Fault(check="node-label", message=message, path="Labels")
        elif (
            _is_of(prefix, _KUBERNETES) and not _is_of(prefix, _OPEN_TO_NODES) and key not in _KNOWN_TO_NODES
        ):
            message = f"NodeCreationFailure: the kubelet gives its node no label {key}; the prefix is Kubernetes' own"
            yield Fault(check="node-label", message=message, path="Labels")


def taint_faults(taints: list[dict[str, Any]]) -> Iterator[Fault]:
    """Faults of the taints of a node group."""
    if len(taints) > _MOST_TAINTS:
        message = f"a maximum of {_MOST_TAINTS} taints are allowed per node group, got {len(taints)}"
        yield Fault(check="node-taint", message=message, path="Taints")
    for one in taints:
        missing = [name for name in ("Key", "Effect") if name not in one]
        if missing:
            yield Fault(check="node-taint", message=f"{', '.join(missing)} is required", path="Taints")
        else:
            yield from _form_faults("node-taint", one["Key"], one.get("Value", ""), "Taints")
    pairs = [(one.get("Key"), one.get("Effect")) for one in taints]
    for key, effect in sorted({pair for pair in pairs if pairs.count(pair) > 1}):
        yield Fault(check="node-taint", message=f"{key} with {effect} stands twice", path="Taints")


def _form_faults(check: str, key: str, value: str, path: str) -> Iterator[Fault]:
    prefix, slash, name = key.rpartition("/")
    well_formed = _NAME.fullmatch(name) and (
        not slash or (len(prefix) <= _PREFIX_LIMIT and _PREFIX.fullmatch(prefix))
    )
    if not well_formed:
        yield Fault(check=check, message=f"the key {key!r} does not have the form [prefix/]name", path=path)
    if value and not _NAME.fullmatch(value):
        message = (
            f"Invalid value: {value!r}: it must consist of at most 63 alphanumeric characters, '-', '_' or '.', and "
            "must start and end with an alphanumeric character"
        )
        yield Fault(check=check, message=message, path=path)


def _is_of(prefix: str, domains: tuple[str, ...]) -> bool:
    return any(prefix == one or prefix.endswith(f".{one}") for one in domains)
