"""Which instances can exchange EFA traffic with each other.

Source: AWS EC2 user guide, "Elastic Fabric Adapter for AI/ML and HPC workloads on Amazon EC2", limitations
(stored copy, mid-2026).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.catalogue import instance_type as look_up
from cdk_gpu_clusters.errors import Finding, Severity, check, define_rule

_EFA_PAGE = 'AWS EC2 user guide, "Elastic Fabric Adapter for AI/ML and HPC workloads on Amazon EC2", limitations'

ISOLATED_TYPE = define_rule(
    "GPU-FAB-001", "P4d, P4de and DL1 exchange no EFA traffic with other instance types", source=_EFA_PAGE
)
ISOLATED_AMONG_THEMSELVES = define_rule(
    "GPU-FAB-002", "EFA traffic between P4d, P4de and DL1 is not confirmed", source=_EFA_PAGE
)
ONE_ZONE = define_rule(
    "GPU-FAB-003",
    "the nodes of an EFA group are in one Availability Zone",
    source=f"{_EFA_PAGE}; aws/aws-parallelcluster, EfaMultiAzValidator",
)
ONE_SUBNET = define_rule(
    "GPU-FAB-004",
    "the nodes of an EFA group are in one subnet",
    source="eksctl: efaEnabled asks for one subnet or zone; the AWS EC2 user guide asks for one zone and VPC, "
    "its earlier editions for one subnet",
)
ONE_TYPE = define_rule(
    "GPU-FAB-005",
    "an EFA group has one instance type",
    source="an interface layout has to be right for every type of a group; terraform-aws-modules/"
    "terraform-aws-eks lays out for the first type only, eksctl for the smallest card count",
)

#: Descriptions of the rules by which a security group exchanges EFA traffic with itself.
EFA_IN, EFA_OUT = "EFA: all traffic from this group", "EFA: all traffic to this group"
ISOLATED_FAMILIES = frozenset({"p4d", "p4de", "dl1"})


@check
def check_fabric(instance_types: Sequence[InstanceType | str]) -> Iterator[Finding]:
    """Find instance types that cannot exchange EFA traffic although they share a fabric.

    Args:
        instance_types: The types, or names, of all nodes whose EFA interfaces share a security group.
            Types without EFA take no part.

    Returns:
        An error if P4d, P4de or DL1 share it with other types, a warning if they share it with each other.

    Raises:
        ConfigError: If a name is not known.

    Example:
        >>> [finding.id for finding in check_fabric(["p4d.24xlarge", "p5.48xlarge"])]
        ['GPU-FAB-001']
    """
    types = [look_up(given) if isinstance(given, str) else given for given in instance_types]
    with_efa = sorted({kind.name: kind for kind in types if kind.network.efa}.values(), key=lambda k: k.name)
    isolated = [kind for kind in with_efa if kind.family in ISOLATED_FAMILIES]
    others = [kind for kind in with_efa if kind.family not in ISOLATED_FAMILIES]
    if isolated and others:
        yield ISOLATED_TYPE.finding(
            cause=f"{_names(isolated)} cannot exchange EFA traffic with other instance types",
            got=_names(with_efa),
            allowed="one of them alone, or other types alone",
            fix=f"give {_names(isolated)} an own EFA security group, and run no job across both",
        )
    if len({kind.family for kind in isolated}) > 1:
        yield ISOLATED_AMONG_THEMSELVES.finding(
            cause="it is unknown whether these types exchange EFA traffic with each other",
            got=_names(isolated),
            allowed="one family",
            fix="give each family an own EFA security group",
            severity=Severity.WARNING,
        )


@check
def check_efa_group(
    instance_types: Sequence[InstanceType | str],
    *,
    zones: Iterable[str] = (),
    subnets: Iterable[str] = (),
) -> Iterator[Finding]:
    """Find what keeps one group of nodes from exchanging EFA traffic.

    Args:
        instance_types: The types that the group may launch, or their names.
        zones: The Availability Zones that it may launch into, all by name or all by id; none where unknown.
        subnets: The subnets that it may launch into; none where unknown.

    Raises:
        ConfigError: If a name is not known.
    """
    names = sorted({given if isinstance(given, str) else given.name for given in instance_types})
    yield from check_fabric(instance_types)
    for rule, values, what, fix in (
        (ONE_TYPE, names, "instance type", "make one group per instance type"),
        (ONE_ZONE, sorted(set(zones)), "Availability Zone", "keep one zone: EFA traffic cannot cross zones"),
        (ONE_SUBNET, sorted(set(subnets)), "subnet", "keep one subnet, large enough for every node"),
    ):
        if len(values) > 1:
            yield rule.finding(
                cause=f"an EFA group has more than one {what}",
                got=", ".join(values),
                allowed=f"one {what}",
                fix=fix,
            )


def _names(types: Iterable[InstanceType]) -> str:
    return ", ".join(kind.name for kind in types)
