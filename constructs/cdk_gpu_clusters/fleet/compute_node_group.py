"""What AWS PCS adds to a fleet: the plan of a compute node group."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from cdk_gpu_clusters.errors import ConfigError, Finding, check, define_rule
from cdk_gpu_clusters.fleet.plan import FleetPlan
from cdk_gpu_clusters.node.lifecycle_scripts import LifecycleScript, LifecycleStage
from cdk_gpu_clusters.rules.capacity import CapacityKind, CapacityTerms
from cdk_gpu_clusters.rules.gres import GresMode, GresPlan, plan_gres
from cdk_gpu_clusters.rules.pcs import check_compute_node_group
from cdk_gpu_clusters.rules.pcs_scripts import LifecycleScriptFacts, check_lifecycle_scripts

_GUIDE = "AWS PCS user guide"

STATIC_OR_DYNAMIC = define_rule(
    "GPU-PCS-060",
    "A PCS node group has a fixed number of nodes, or scales from 0",
    source=f'{_GUIDE}, "Creating a compute node group in AWS PCS": no mix of static and dynamic instances',
)
CAPACITY = define_rule(
    "GPU-PCS-061",
    "A PCS node group launches into one reservation or block, or a group of reservations, and Spot has no price limit",
    source=f'{_GUIDE}, "Using Amazon EC2 Capacity Blocks for ML with AWS PCS" (Limitations); botocore 1.44.5, pcs '
    'service model: SpotOptions; EC2 user guide, "Create a Spot Instance request": No maximum price',
)
REPLACED_WHEN_IDLE = define_rule(
    "GPU-PCS-062",
    "AWS PCS replaces the nodes of a changed group when their jobs have ended",
    source=f'{_GUIDE}, "Updating an AWS PCS compute node group"',
)


class PurchaseOption(str, Enum):
    """How AWS PCS buys the nodes of a group; a reservation is on demand."""

    ONDEMAND = "ONDEMAND"
    SPOT = "SPOT"
    CAPACITY_BLOCK = "CAPACITY_BLOCK"


PURCHASE_OPTIONS: Mapping[CapacityKind, PurchaseOption] = MappingProxyType(
    {
        CapacityKind.ON_DEMAND: PurchaseOption.ONDEMAND,
        CapacityKind.RESERVATION: PurchaseOption.ONDEMAND,
        CapacityKind.SPOT: PurchaseOption.SPOT,
        CapacityKind.CAPACITY_BLOCK: PurchaseOption.CAPACITY_BLOCK,
        CapacityKind.ULTRASERVER_BLOCK: PurchaseOption.CAPACITY_BLOCK,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeNodeGroupRequest:
    """What is requested of a compute node group, beyond a fleet. None is a value that is left open or unknown.

    Attributes:
        key: What names the group in its cluster, such as its construct id; its name follows from it.
        node_group_name: Its name; may be a token.
        known_name: Its name, as far as it is known.
        slurm_version: Version of Slurm of the cluster.
        slurm_settings: Custom settings of the nodes in `slurm.conf`; they win over those that follow from the fleet.
        features: Further features of the nodes, for `--constraint` of jobs.
        weight: Weight of the nodes: Slurm chooses those of the least weight first.
        gres_mode: How `gres.conf` describes MIG slices.
        scale_down_idle_seconds: Seconds after which an idle node is ended.
        scripts: What AWS PCS runs on the nodes, in order.
        keeps_nodes: Whether a changed group was requested to keep its running nodes.
    """

    key: str
    node_group_name: str | None = None
    known_name: str | None = None
    slurm_version: str | None = None
    slurm_settings: Mapping[str, str] = field(default_factory=dict)
    features: Sequence[str] = ()
    weight: int | None = None
    gres_mode: GresMode = GresMode.AUTODETECT
    scale_down_idle_seconds: int | None = None
    scripts: tuple[LifecycleScript, ...] = ()
    keeps_nodes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeNodeGroupPlan:
    """What was decided about a compute node group.

    Attributes:
        request: What was requested.
        name: Its name. Another instance type is another name, since PCS replaces the group with its type.
        purchase_option: How PCS buys its nodes.
        minimum: Least nodes, as a deployment sets it; all of them on a block, where the group is static.
        maximum: Most nodes.
        slurm_settings: Custom settings of the nodes in `slurm.conf`.
        gres_records: Records of `gres.conf`, without `NodeName`.
        findings: What is wrong with the group, beyond the fleet.
    """

    request: ComputeNodeGroupRequest
    name: str
    purchase_option: PurchaseOption
    minimum: int
    maximum: int
    slurm_settings: Mapping[str, str]
    gres_records: tuple[Mapping[str, str], ...]
    findings: tuple[Finding, ...]


def plan_compute_node_group(fleet: FleetPlan, request: ComputeNodeGroupRequest) -> ComputeNodeGroupPlan:
    """Decide what a compute node group is made of.

    Args:
        fleet: The plan of its fleet, with a known type and a layout of interfaces.
        request: What is requested of it.

    Raises:
        ConfigError: The findings of the fleet, if its type is not known.

    Example:
        >>> from cdk_gpu_clusters.fleet.plan import plan_fleet
        >>> from cdk_gpu_clusters.fleet.profile import PCS
        >>> from cdk_gpu_clusters.fleet.request import FleetRequest
        >>> fleet = plan_fleet(
        ...     FleetRequest(name="train", instance_type="p5.48xlarge", profile=PCS, minimum=2, maximum=2)
        ... )
        >>> plan_compute_node_group(fleet, ComputeNodeGroupRequest(key="train")).slurm_settings["Features"]
        'p5.48xlarge,efa,gpu'
    """
    gres, about_gres = _gres(fleet, request)
    settings = {
        "Features": ",".join(_features(fleet, request)),
        **({} if request.weight is None else {"Weight": str(request.weight)}),
        **({} if gres is None else {"Gres": gres.node_gres}),
        **request.slurm_settings,
    }
    records = () if gres is None else gres.records
    name = request.node_group_name or _name(request.key, fleet.instance_type.name)
    findings = [
        *about_gres,
        *check_static_or_dynamic(fleet.request.minimum, fleet.request.maximum),
        *check_capacity_of_group(fleet.terms),
        *check_compute_node_group(
            name=request.known_name,
            slurm_version=request.slurm_version,
            kind=fleet.instance_type,
            mig=fleet.mig,
            min_nodes=fleet.request.minimum,
            max_nodes=fleet.request.maximum,
            scale_down_idle_seconds=request.scale_down_idle_seconds,
            slurm_settings=settings,
            gres_settings=records,
        ),
        *_check_scripts(request.scripts, has_efa=fleet.efa),
        *_check_update(keeps_nodes=request.keeps_nodes),
    ]
    return ComputeNodeGroupPlan(
        request=request,
        name=name,
        purchase_option=PURCHASE_OPTIONS[fleet.terms.kind],
        minimum=fleet.maximum if fleet.keeps_size else fleet.request.minimum or 0,
        maximum=fleet.maximum,
        slurm_settings=MappingProxyType(settings),
        gres_records=records,
        findings=tuple(findings),
    )


_DIGEST = 4
_LONGEST_NAME = 25


def _name(key: str, instance_type: str) -> str:
    """A name that is unique in the cluster as far as keys are, and is another one for another type."""
    words = re.sub(r"[^A-Za-z0-9]+", "-", key).strip("-")
    words = words if words[:1].isalpha() else f"n{words}"
    digest = hashlib.sha256(f"{key}/{instance_type}".encode()).hexdigest()[:_DIGEST]
    return f"{words[: _LONGEST_NAME - _DIGEST - 1].rstrip('-')}-{digest}"


def _features(fleet: FleetPlan, request: ComputeNodeGroupRequest) -> list[str]:
    """The features of the nodes: those that AWS ParallelCluster gives its nodes, too, and the requested ones.

    Source: aws/aws-parallelcluster-cookbook, slurm_parallelcluster_queue.conf: the type, `efa` and `gpu`.
    """
    accelerator = fleet.instance_type.accelerator
    own = [fleet.instance_type.name, *(["efa"] if fleet.efa else [])]
    if accelerator is not None:
        own.append(accelerator.kind.value)
    return list(dict.fromkeys([*own, *request.features]))


def _gres(fleet: FleetPlan, request: ComputeNodeGroupRequest) -> tuple[GresPlan | None, tuple[Finding, ...]]:
    """The MIG slices of the nodes. PCS knows GPUs that are not split by the instance type."""
    if fleet.mig is None:
        return None, ()
    try:
        return plan_gres(fleet.instance_type, fleet.mig, mode=request.gres_mode), ()
    except ConfigError as fault:
        return None, fault.findings


@check
def check_static_or_dynamic(minimum: int | None, maximum: int | None) -> Iterator[Finding]:
    """Find bounds that PCS does not take.

    Args:
        minimum: Least nodes; None if unknown.
        maximum: Most nodes; None if unknown.
    """
    if minimum is not None and maximum is not None and 0 < minimum < maximum:
        yield STATIC_OR_DYNAMIC.finding(
            cause="AWS PCS has no groups of which some nodes stay and others come and go",
            got=f"{minimum} to {maximum} nodes",
            allowed=f"{maximum} nodes, or 0 to {maximum}",
            fix="make two groups, and put both into one queue",
            path="min_node_count",
        )


@check
def check_capacity_of_group(terms: CapacityTerms) -> Iterator[Finding]:
    """Find capacity that a compute node group cannot take.

    Args:
        terms: How its nodes are bought.
    """
    if terms.blocks:
        yield CAPACITY.finding(
            cause="AWS PCS launches a node group into one Capacity Block at a time",
            got=f"{len(terms.blocks)} Capacity Blocks",
            allowed="Capacity.capacity_block(...)",
            fix="make a node group for each block, and put them into one queue",
            path="capacity",
        )
    if terms.segment:
        yield CAPACITY.finding(
            cause="only a fleet on plain EC2 uses reservations of several types in order",
            got="several types of reservations",
            allowed="Capacity.from_reservation_group_arn(...) or Capacity.capacity_block(...)",
            fix="make a node group for each type of reservation, and put them into one queue",
            path="capacity",
        )
    if terms.kind is CapacityKind.SPOT and terms.max_price_usd_per_hour is not None:
        yield CAPACITY.finding(
            cause="the Spot options of a node group have no price",
            got=f"at most {terms.max_price_usd_per_hour} USD an hour",
            allowed="Capacity.spot()",
            fix="leave the price out: EC2 then charges the Spot price, which never exceeds the On-Demand price",
            path="capacity",
        )


def _check_update(*, keeps_nodes: bool) -> Iterator[Finding]:
    if keeps_nodes:
        yield REPLACED_WHEN_IDLE.finding(
            cause="nothing keeps AWS PCS from replacing the nodes of a group that a deployment changes",
            got="update_policy NEVER_REPLACE",
            allowed="UpdatePolicy.ROLLING, which is what AWS PCS does",
            fix="leave update_policy out; pin the image, and change the group when its nodes may be replaced",
            path="update_policy",
        )


def _check_scripts(scripts: Sequence[LifecycleScript], *, has_efa: bool) -> Iterator[Finding]:
    for stage in LifecycleStage:
        facts = [
            LifecycleScriptFacts(
                name=one.name,
                arguments=one.arguments,
                checksum=hashlib.sha256(one.content.encode()).hexdigest(),
                on_error=one.on_error.value,
            )
            for one in scripts
            if one.stage is stage
        ]
        if facts:
            before = stage is LifecycleStage.NODE_BOOTSTRAPPED
            yield from check_lifecycle_scripts(facts, before_slurmd=before, has_efa=has_efa)
