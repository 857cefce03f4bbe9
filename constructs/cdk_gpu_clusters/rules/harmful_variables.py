"""Variables of the environment that do harm on current EFA software."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cdk_gpu_clusters.errors import Finding, Severity, define_rule

#: Variables that do harm on current images, with the reason.
_HARMFUL: Mapping[str, str] = {
    r"RDMAV_.*": "it can break newer kernels",
    r"NCCL_PROTO|NCCL_ALGO": "setting it stops the tuner of the EFA plugin from loading",
    r"NCCL_MIN_N?CHANNELS": "it starves EFA",
}
_SOCKETS = "NCCL_SOCKET_IFNAME"
_PINNED = re.compile(r"[\"']?=?eth\d")
# Interfaces of a container of Amazon ECS with one of its own, which comes last; the other reaches the node alone
# (aws/amazon-ecs-agent @ 8dfceca, agent/ecscni/types_linux.go).
_OF_TASK = ("ecs-eth0", "eth0")

HARMFUL_VARIABLE = define_rule(
    "GPU-UD-004",
    "Variables that harm current EFA software are not set",
    source="awslabs/awsome-distributed-ai efa-cheatsheet.md @ 95b939c, and 519; aws/aws-ofi-nccl issue 982",
)


def check_variable(name: str, value: str, *, path: str = "", in_task: bool = False) -> list[Finding]:
    """Find a variable of the environment that does harm on current EFA software.

    Args:
        name: Its name.
        value: Its value.
        path: Where it is set.
        in_task: Whether its readers are containers of Amazon ECS with a network interface of their own.

    Example:
        >>> [finding.id for finding in check_variable("NCCL_PROTO", "simple")]
        ['GPU-UD-004']
    """
    reasons = [reason for pattern, reason in _HARMFUL.items() if re.fullmatch(pattern, name)]
    fix = f"remove {name}"
    if name == _SOCKETS and in_task:
        if [one for one in _OF_TASK if _takes(value, one)] != [_OF_TASK[-1]]:
            reasons = ["NCCL may take ecs-eth0, over which containers on several nodes do not reach each other"]
            fix = f"set {_SOCKETS} to ^lo,docker,ecs, or remove it"
    elif name == _SOCKETS and _PINNED.match(value):
        reasons, fix = (
            ["nodes with EFA have no such interface"],
            f"set {_SOCKETS} to ^docker,lo,veth, or remove it",
        )
    return [
        HARMFUL_VARIABLE.finding(
            cause=f"{name} does harm: {reason}", got=value, fix=fix, path=path, severity=Severity.WARNING
        )
        for reason in reasons
    ]


def _takes(value: str, interface: str) -> bool:
    """Whether NCCL takes an interface.

    Source: NVIDIA NCCL user guide, "Environment Variables", NCCL_SOCKET_IFNAME: `^` leaves out, `=` is for full names.
    """
    names = value.removeprefix("^")
    is_full, prefixes = names.startswith("="), names.removeprefix("=").split(",")
    return value.startswith("^") != any(interface == one if is_full else interface.startswith(one) for one in prefixes)
