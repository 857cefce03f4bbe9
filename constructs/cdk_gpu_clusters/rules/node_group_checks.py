"""What Amazon EKS would refuse, or take for something else, in a managed node group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cdk_gpu_clusters.catalogue.instances import InstanceType
from cdk_gpu_clusters.catalogue.kubernetes import AmiType, ami_type
from cdk_gpu_clusters.errors import Finding, define_rule
from cdk_gpu_clusters.rules.capacity import CapacityKind, CapacityTerms
from cdk_gpu_clusters.rules.kubernetes_labels import FLEET_LABEL, PREFIX, NodeTaint
from cdk_gpu_clusters.rules.node_group import NodeRepair

_BLOCKS = (
    'Amazon EKS user guide, "Manage compute for AI/ML workloads on Amazon EKS with node groups": a block by its '
    "id, scaled down 40 minutes before its end; AWS EC2 user guide, Capacity Blocks: UltraServers by resource group, "
    "gone 60 minutes before"
)
_REPAIR = 'Amazon EKS user guide, "Automatically repair nodes in EKS clusters"'

ULTRASERVER = define_rule(
    "GPU-EKS-040",
    "a managed node group names its Capacity Block by the block's id, and ends with it 40 minutes before",
    source=_BLOCKS,
)
SPOT_PRICE = define_rule(
    "GPU-EKS-041",
    "EKS buys spot nodes at up to the on-demand price",
    source='Amazon EKS user guide, "Customize managed nodes with launch templates": no spot options in the template',
)
NO_AMI_TYPE = define_rule(
    "GPU-EKS-042",
    "EKS has an Amazon Linux 2023 image for the processors and accelerators of the type",
    source="botocore 1.44.5, eks service model: AMITypes",
)
OWN_LABEL = define_rule(
    "GPU-EKS-043",
    "labels of a node group keep off those that this library and EKS set",
    source='Amazon EKS user guide, "Understand each phase of node updates": labels that EKS applies',
)
TAINTS = define_rule(
    "GPU-EKS-044",
    "a node group has at most 50 taints, each key and effect once",
    source='Amazon EKS user guide, "Place taints on nodes in managed node groups"; Kubernetes: one taint for each key '
    "and effect",
)
UNAVAILABLE = define_rule(
    "GPU-EKS-045",
    "an update takes 1 to 100 nodes at once",
    source="Amazon EKS NodegroupUpdateConfig reference",
)
REPAIR = define_rule(
    "GPU-EKS-046",
    "limits of node repair are a share of 1 to 100 percent and a count of 1 or more",
    source=_REPAIR,
)
RELEASE = define_rule(
    "GPU-EKS-047",
    "a release version of the image is one of the cluster's Kubernetes version",
    source='Amazon EKS user guide, "Retrieve Amazon Linux AMI version information"',
)

_MOST_TAINTS = 50
_MOST_UNAVAILABLE = 100
_EKS_LABELS = "eks.amazonaws.com/"


def check_block_of_group(terms: CapacityTerms) -> list[Finding]:
    """Find capacity that a managed node group cannot take.

    Args:
        terms: How the nodes are bought.
    """
    findings = []
    if terms.kind is CapacityKind.ULTRASERVER_BLOCK:
        findings.append(
            ULTRASERVER.finding(
                cause="EKS asks for the id of a block, and empties the group 40 minutes before its end; EC2 takes an "
                "UltraServer block by its resource group, and wants it empty 60 minutes before",
                got="an UltraServer block",
                allowed="Capacity.capacity_block(...)",
                fix="make a self-managed group for it: GpuLaunchTemplate(orchestrator=Orchestrator.EKS_SELF_MANAGED)",
                path="capacity",
            )
        )
    if terms.kind is CapacityKind.SPOT and terms.max_price_usd_per_hour is not None:
        findings.append(
            SPOT_PRICE.finding(
                cause="a managed node group takes no price limit",
                got=f"{terms.max_price_usd_per_hour} USD per hour",
                allowed="Capacity.spot()",
                fix="leave max_price_usd_per_hour out",
                path="capacity",
            )
        )
    return findings


def choose_ami_type(record: InstanceType) -> tuple[AmiType | None, list[Finding]]:
    """The image that EKS chooses for nodes of a type; with what is wrong where it has none.

    Args:
        record: Type of the nodes.
    """
    kind = None if record.accelerator is None else record.accelerator.kind
    row = ami_type(accelerator=kind, architecture=record.architecture)
    if row is not None:
        return row, []
    needs = f"{'no' if kind is None else kind.value} accelerators on {record.architecture.value}"
    return None, [
        NO_AMI_TYPE.finding(
            cause=f"EKS has no image for {record.name}",
            got=needs,
            allowed="GPUs or none on x86_64 and arm64, Neuron on x86_64",
            fix="choose another type",
            path="instance_type",
        )
    ]


def check_group_labels(labels: Mapping[str, str]) -> list[Finding]:
    """Find labels of the user that others set.

    Args:
        labels: The user's labels.
    """
    return [
        OWN_LABEL.finding(
            cause="this label is not the user's",
            got=name,
            allowed=f"{FLEET_LABEL}, and labels outside {PREFIX} and {_EKS_LABELS}",
            fix="choose another name",
            path=f"labels.{name}",
        )
        for name in labels
        if name.startswith((PREFIX, _EKS_LABELS)) and name != FLEET_LABEL
    ]


def check_group_taints(taints: Sequence[NodeTaint]) -> list[Finding]:
    """Find taints that EKS or Kubernetes would refuse.

    Args:
        taints: Taints of the group.
    """
    findings = []
    if len(taints) > _MOST_TAINTS:
        findings.append(
            TAINTS.finding(
                cause="too many taints",
                got=str(len(taints)),
                allowed="at most 50",
                fix="leave some out",
                path="taints",
            )
        )
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        key = (taint.key, taint.effect)
        if key in seen:
            findings.append(
                TAINTS.finding(
                    cause="two taints have this key and effect",
                    got=f"{taint.key}={taint.value}:{taint.effect}",
                    allowed="each key and effect once",
                    fix="leave one of them out",
                    path=f"taints[{index}]",
                )
            )
        seen.add(key)
    return findings


def check_updates(max_unavailable: int, maximum: int) -> list[Finding]:
    """Find a number of nodes that an update cannot take at once.

    Args:
        max_unavailable: Nodes that EKS replaces at once.
        maximum: Most nodes of the group.
    """
    if 1 <= max_unavailable <= _MOST_UNAVAILABLE:
        return []
    return [
        UNAVAILABLE.finding(
            cause="EKS replaces no such number of nodes at once",
            got=str(max_unavailable),
            allowed=f"1 to {min(_MOST_UNAVAILABLE, max(maximum, 1))}",
            fix="change max_unavailable",
            path="max_unavailable",
        )
    ]


def check_repair(repair: NodeRepair) -> list[Finding]:
    """Find limits of node repair that EKS would refuse.

    Args:
        repair: How EKS repairs nodes.
    """
    limits = {
        "max_unhealthy_percentage": (repair.max_unhealthy_percentage, 100),
        "max_parallel_count": (repair.max_parallel_count, None),
    }
    findings = [
        REPAIR.finding(
            cause=f"{name} is no such limit",
            got=str(value),
            allowed="1 or more" if most is None else f"1 to {most}",
            fix=f"change {name}",
            path=f"node_repair.{name}",
        )
        for name, (value, most) in limits.items()
        if value is not None and not (value >= 1 and (most is None or value <= most))
    ]
    return findings + [
        REPAIR.finding(
            cause="EKS waits a minute at least before it repairs a node",
            got=f"{one.wait_minutes} minutes for {one.reason}",
            allowed="1 or more",
            fix="change wait_minutes",
            path=f"node_repair.overrides[{index}]",
        )
        for index, one in enumerate(repair.overrides or ())
        if one.wait_minutes < 1
    ]


def check_release(release_version: str | None, kubernetes_version: str | None) -> list[Finding]:
    """Find an image of another version of Kubernetes than the cluster's.

    Args:
        release_version: Such as `1.34.1-20260709`, None if EKS chooses.
        kubernetes_version: The cluster's, such as `1.34`; None if only the deployment knows it.
    """
    if release_version is None or kubernetes_version is None:
        return []
    if release_version.startswith(f"{kubernetes_version}."):
        return []
    return [
        RELEASE.finding(
            cause=f"this is no image of Kubernetes {kubernetes_version}",
            got=release_version,
            allowed=f"{kubernetes_version}.<patch>-<date>",
            fix="leave release_version out, or give one of the cluster's version",
            path="release_version",
        )
    ]
