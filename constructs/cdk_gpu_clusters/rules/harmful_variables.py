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

HARMFUL_VARIABLE = define_rule(
    "GPU-UD-004",
    "Variables that harm current EFA software are not set",
    source="awslabs/awsome-distributed-ai efa-cheatsheet.md @ 95b939c, and 519; aws/aws-ofi-nccl issue 982",
)


def check_variable(name: str, value: str, *, path: str = "") -> list[Finding]:
    """Find a variable of the environment that does harm on current EFA software.

    Example:
        >>> [finding.id for finding in check_variable("NCCL_PROTO", "simple")]
        ['GPU-UD-004']
    """
    reasons = [reason for pattern, reason in _HARMFUL.items() if re.fullmatch(pattern, name)]
    fix = f"remove {name}"
    if name == _SOCKETS and _PINNED.match(value):
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
