"""What Karpenter cannot launch as a managed node group would, and how long it keeps nodes.

Sources: aws/karpenter-provider-aws @ 1d92708 (v1.14.1), website/content/en/v1.14 and designs; the CRDs at v1.14.1
(bde0065); kubernetes-sigs/karpenter @ 6e7eab7, which that release is built with. Read 2026-11-27.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.errors import Finding, Severity, check, define_rule
from cdk_gpu_clusters.rules.capacity import CapacityTerms
from cdk_gpu_clusters.rules.interfaces import NetworkInterface
from cdk_gpu_clusters.rules.mig import MigStrategy

#: Labels in these domains are Karpenter's own (CRD of NodePool, rules of `template.metadata.labels`).
_DOMAINS = ("karpenter.sh", "karpenter.k8s.aws")

_DOCUMENTS = "aws/karpenter-provider-aws @ 1d92708, website/content/en/v1.14"

INTERFACES = define_rule(
    "GPU-EKS-060",
    "Karpenter attaches network interfaces of the types interface and efa-only",
    source=f"{_DOCUMENTS}/concepts/nodeclasses.md, spec.networkInterfaces",
)
SIZE = define_rule(
    "GPU-EKS-061",
    "a node pool of Karpenter has a fixed number of nodes, or scales from 0",
    source=f"{_DOCUMENTS}/concepts/nodepools.md, spec.replicas and spec.limits: a dynamic pool has no minimum",
)
RESERVATIONS = define_rule(
    "GPU-EKS-062",
    "Karpenter selects reservations by id, tags or match criteria, not by a resource group",
    source=f"{_DOCUMENTS}/concepts/nodeclasses.md, spec.capacityReservationSelectorTerms",
)
SLICES_AS_GPUS = define_rule(
    "GPU-EKS-063",
    "a node pool of Karpenter that shows its slices as GPUs has a fixed number of nodes",
    source=f"{_DOCUMENTS}/concepts/nodeoverlays.md, spec.capacity: resources are added to those of a type, and replace "
    "none",
)
LABELS = define_rule(
    "GPU-EKS-064",
    "labels of a node pool are outside Karpenter's own domains",
    source="aws/karpenter-provider-aws @ bde0065 (v1.14.1), pkg/apis/crds/karpenter.sh_nodepools.yaml",
)
ROOM_FOR_DRIFT = define_rule(
    "GPU-EKS-065",
    "Karpenter replaces nodes new ones first, for which a full reservation has no room",
    source=f"{_DOCUMENTS}/concepts/disruption.md, Control Flow: replacements are launched before a node is ended",
)

UNKNOWN_NAME = define_rule(
    "GPU-EKS-066",
    "the policies of Karpenter name their cluster in keys of conditions",
    source="aws/karpenter-provider-aws @ 1d92708, getting started, cloudformation.yaml: keys with the cluster's name; "
    "CloudFormation takes no reference in a key",
)

MANAGED_OPTION = define_rule(
    "GPU-EKS-067",
    "options of Amazon EKS's own updates and repairs are for managed node groups",
    source=f"{_DOCUMENTS}/concepts/disruption.md: Karpenter launches replacements first, and repairs by a feature gate",
)


SUPPLY = define_rule(
    "GPU-EKS-075",
    "a node pool of Karpenter with a fixed number of nodes is of a type that EC2 has at all times",
    source="kubernetes-sigs/karpenter issues 3176 (open in 1.14.1) and 3198: while a static pool has no capacity, "
    "Karpenter may launch no nodes of any pool",
)


END = define_rule(
    "GPU-EKS-076",
    "Karpenter drains nodes before the end of a Capacity Block, and at no other time that a fleet has",
    source="aws/karpenter-provider-aws @ 1d92708, website/content/en/v1.14/tasks/odcrs.md; this library has no state "
    "machine for a node pool",
)


def unknown_cluster_name() -> Finding:
    """The finding about a cluster whose name only the deployment knows."""
    return UNKNOWN_NAME.finding(
        cause="the name of the cluster is a part of tags that the policies compare, and only the deployment knows it",
        got="a token",
        allowed="a name as text",
        fix="give cluster_name as text where the cluster is defined or imported",
        path="cluster",
    )


@check
def check_karpenter_interfaces(interfaces: Iterable[NetworkInterface]) -> Iterator[Finding]:
    """Find interfaces that Karpenter cannot attach.

    Args:
        interfaces: The interfaces of a node.
    """
    wrong = [one for one in interfaces if one.interface_type == "efa"]
    if wrong:
        yield INTERFACES.finding(
            cause="Karpenter has no interface that carries both IP and EFA traffic",
            got=", ".join(map(str, wrong[:3])) + (", ..." if len(wrong) > 3 else ""),
            allowed="interface, efa-only",
            fix="leave interface_policy out; for a type whose first card holds one interface, use a managed node "
            "group, or efa: false",
            path="interface_policy",
        )


@check
def check_karpenter_size(*, minimum: int, maximum: int, strategy: MigStrategy = MigStrategy.NONE) -> Iterator[Finding]:
    """Find sizes that a node pool cannot have.

    Args:
        minimum: Fewest nodes.
        maximum: Most nodes.
        strategy: How the device plugin shows the GPUs.
    """
    if minimum not in (0, maximum):
        yield SIZE.finding(
            cause="Karpenter ends every node without pods, down to none",
            got=f"{minimum} to {maximum} nodes",
            allowed=f"{maximum} nodes, or 0 to {maximum}",
            fix="give the number of nodes, or a minimum of 0",
            path="nodes",
        )
    elif minimum != maximum and strategy is MigStrategy.SINGLE:
        yield SLICES_AS_GPUS.finding(
            cause="Karpenter counts full GPUs, and would launch a node for as many slices as a node has GPUs",
            got=f"MIG strategy single on {minimum} to {maximum} nodes",
            allowed="strategy mixed, or a number of on-demand nodes",
            fix="leave mig_strategy out, or give the number of on-demand nodes",
            path="mig_strategy",
        )


@check
def check_karpenter_supply(record: InstanceType, *, is_static: bool) -> Iterator[Finding]:
    """Find pools of a fixed number of nodes of types that EC2 may not have: those that it sells as Capacity Blocks.

    Args:
        record: Type of the nodes.
        is_static: Whether Karpenter keeps the number of nodes.
    """
    if is_static and record.supports_capacity_block:
        yield SUPPLY.finding(
            cause="while EC2 has none of these, Karpenter may launch no nodes of any pool",
            got=f"a fixed number of {record.name} without a reservation",
            allowed="a minimum of 0, or a reservation or Capacity Block",
            fix="set a minimum of 0, so that pods ask for the nodes, or reserve them",
            path="nodes",
            severity=Severity.WARNING,
        )


@check
def check_karpenter_capacity(terms: CapacityTerms, *, rolls: bool) -> Iterator[Finding]:
    """Find capacity that Karpenter does not select, and updates for which it has no room.

    Args:
        terms: How the nodes are bought.
        rolls: Whether nodes are replaced when their node class changes.
    """
    if terms.reservation_group_arn is not None:
        yield RESERVATIONS.finding(
            cause="Karpenter cannot launch into a resource group of reservations",
            got=terms.reservation_group_arn,
            allowed="the id of a reservation or Capacity Block",
            fix="name one reservation, or use a managed node group",
            path="capacity",
        )
    if terms.ends_at is not None and not terms.kind.is_block:
        yield END.finding(
            cause="nothing would empty the node pool before this time, and its nodes would go on billing",
            got=f"{terms.ends_at:%Y-%m-%dT%H:%MZ}",
            allowed="capacity without an end, or a Capacity Block",
            fix="leave the end out and remove the nodes yourself, or use a managed node group",
            path="capacity",
        )
    if rolls and terms.kind.is_reserved:
        yield ROOM_FOR_DRIFT.finding(
            cause="Karpenter launches the new node before it ends the old one, and waits while the reservation is full",
            got=f"rolling updates on a {terms.kind.value}",
            allowed="never, or a reservation with an instance to spare",
            fix="leave update_policy out, and delete old nodes yourself: kubectl delete nodeclaim",
            path="update_policy",
            severity=Severity.WARNING,
        )


def check_karpenter_labels(labels: Mapping[str, str], taints: Sequence[str] = ()) -> list[Finding]:
    """Find labels, and keys of taints, in the domains of Karpenter.

    Args:
        labels: Labels of the nodes.
        taints: Keys of their taints.
    """
    named = {**{f"labels.{name}": name for name in labels}, **{f"taints[{at}]": key for at, key in enumerate(taints)}}
    return [
        LABELS.finding(
            cause="this name is Karpenter's own",
            got=name,
            allowed=f"names outside {' and '.join(_DOMAINS)}",
            fix="choose another name",
            path=path,
        )
        for path, name in named.items()
        if "/" in name and name.partition("/")[0].endswith(_DOMAINS)
    ]


def check_managed_options(options: Mapping[str, object]) -> list[Finding]:
    """Find options that only managed node groups have.

    Args:
        options: The options of a group of nodes that Karpenter launches.
    """
    return [
        MANAGED_OPTION.finding(
            cause="Karpenter has no such setting",
            got=name,
            allowed="max_unavailable and update_policy",
            fix=f"leave {name} out",
            path=name,
        )
        for name in ("node_repair", "update_strategy")
        if options.get(name) is not None
    ]
