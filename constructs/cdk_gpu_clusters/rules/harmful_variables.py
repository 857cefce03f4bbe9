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

HARMFUL_VARIABLE = define_rule(
    "GPU-UD-004",
    "Variables that do harm on current EFA software are left unset",
    source="awslabs/awsome-distributed-ai efa-cheatsheet.md @ 95b939c; aws/aws-ofi-nccl issue 982",
)


def check_variable(name: str, value: str, *, path: str = "") -> list[Finding]:
    """Find a variable of the environment that does harm on current EFA software.

    Args:
        name: Its name.
        value: Its value.
        path: Where it is set.

    Example:
        >>> [finding.id for finding in check_variable("NCCL_PROTO", "simple")]
        ['GPU-UD-004']
    """
    return [
        HARMFUL_VARIABLE.finding(
            cause=f"{name} does harm: {reason}",
            got=value,
            fix=f"remove {name}",
            path=path,
            severity=Severity.WARNING,
        )
        for pattern, reason in _HARMFUL.items()
        if re.fullmatch(pattern, name)
    ]
