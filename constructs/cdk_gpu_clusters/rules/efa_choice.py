"""Whether nodes of a type get EFA interfaces where the user leaves it open."""

from __future__ import annotations

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.catalogue import instance_type as look_up
from cdk_gpu_clusters.errors import Finding, define_rule

NO_EFA = define_rule(
    "GPU-EFA-025",
    "EFA is asked for only where the instance type has it",
    source="EC2 DescribeInstanceTypes, NetworkInfo.EfaSupported",
)


def uses_efa(instance_type: InstanceType | str, wish: bool | None) -> bool:
    """Whether a node has EFA interfaces.

    By default accelerated types that have EFA use it, and CPU types do not: a head or preprocessing node exchanges no
    collective traffic, and EFA would tie it to one zone and one type.

    Args:
        instance_type: The type of the nodes.
        wish: The user's word, None if he leaves it open.

    Example:
        >>> uses_efa("p5.48xlarge", None), uses_efa("m8g.48xlarge", None), uses_efa("g6.xlarge", True)
        (True, False, False)
    """
    record = look_up(instance_type) if isinstance(instance_type, str) else instance_type
    if record.network.efa is None:
        return False
    return record.accelerator is not None if wish is None else wish


def check_efa_wish(instance_type: InstanceType, wish: bool | None) -> list[Finding]:
    """Find EFA that is asked for and not to be had: the traffic would go over TCP, and nobody would know.

    Args:
        instance_type: The type of the nodes.
        wish: The user's word, None if he leaves it open.
    """
    if not wish or instance_type.network.efa is not None:
        return []
    return [
        NO_EFA.finding(
            cause=f"{instance_type.name} has no EFA",
            got="efa: true",
            allowed="efa: false, or a type with EFA",
            fix="remove efa, or choose a larger size of the family",
        )
    ]
