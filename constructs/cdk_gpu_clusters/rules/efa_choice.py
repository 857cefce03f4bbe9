"""Whether nodes of a type get EFA interfaces where the user leaves it open."""

from __future__ import annotations

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.catalogue import instance_type as look_up
from cdk_gpu_clusters.errors import Finding, Severity, define_rule
from cdk_gpu_clusters.rules.placement import PlacementStrategy

NO_EFA = define_rule(
    "GPU-EFA-025",
    "EFA is asked for only where the instance type has it",
    source="EC2 DescribeInstanceTypes, NetworkInfo.EfaSupported",
)

EFA_USED = define_rule(
    "GPU-EFA-034",
    "accelerated nodes in a cluster placement group use EFA, where their type has it",
    source="aws/aws-parallelcluster, EfaValidator; modelplaneai/modelplane 197 (a type with EFA, and no interfaces)",
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


def check_efa_unused(
    instance_type: InstanceType, *, efa: bool, placement: PlacementStrategy | None
) -> list[Finding]:
    """Find nodes that stand close together, and exchange their data over TCP all the same.

    Args:
        instance_type: The type of the nodes.
        efa: Whether they have EFA interfaces.
        placement: Strategy of their placement group, None if they stand in none.
    """
    has_it = instance_type.network.efa is not None and instance_type.accelerator is not None
    if efa or not has_it or placement is not PlacementStrategy.CLUSTER:
        return []
    return [
        EFA_USED.finding(
            cause="nodes that stand close together, to exchange data fast, exchange it over TCP; no message says so",
            got=f"no EFA on {instance_type.name}",
            allowed="EFA, or no cluster placement group",
            fix="leave efa out; or acknowledge this",
            severity=Severity.WARNING,
        )
    ]
