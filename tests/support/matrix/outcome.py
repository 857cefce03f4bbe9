"""What the rules say about a combination: a plan, or findings. No CDK takes part."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from cdk_gpu_clusters.catalogue import instance_type
from cdk_gpu_clusters.catalogue.images import ImageParameter, ImagePurpose
from cdk_gpu_clusters.errors import ConfigError, Finding, errors_in
from cdk_gpu_clusters.fleet.compute_node_group import check_capacity_of_group
from cdk_gpu_clusters.fleet.profile import PROFILES as ORCHESTRATORS
from cdk_gpu_clusters.fleet.profile import ImageChoice
from cdk_gpu_clusters.rules.capacity import CapacityDecision, CapacityKind, CapacityTerms, decide_capacity
from cdk_gpu_clusters.rules.capacity_checks import check_capacity
from cdk_gpu_clusters.rules.images import check_image, choose_image
from cdk_gpu_clusters.rules.interfaces import (
    InterfacePlan,
    InterfacePolicy,
    Orchestrator,
    check_efa_request,
    check_efa_unused,
    plan_interfaces,
    uses_efa,
)
from cdk_gpu_clusters.rules.node_group import check_block_of_group, choose_ami_type
from cdk_gpu_clusters.rules.placement import PlacementStrategy, check_group_of_reservation, check_placement
from matrix.axes import PURCHASES, Makes
from matrix.combinations import Combination

_KINDS = {
    "on-demand": CapacityKind.ON_DEMAND,
    "spot": CapacityKind.SPOT,
    "odcr": CapacityKind.RESERVATION,
    "capacity-block": CapacityKind.CAPACITY_BLOCK,
    "ultraserver-block": CapacityKind.ULTRASERVER_BLOCK,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the rules decide: interfaces, capacity and image, each None where they refuse; and every finding."""

    interfaces: InterfacePlan | None
    decision: CapacityDecision | None
    image: ImageParameter | None
    findings: tuple[Finding, ...]

    @property
    def is_accepted(self) -> bool:
        """Whether there is no error among the findings."""
        return not errors_in(self.findings)


def outcome_of(combination: Combination) -> Outcome:
    """Ask every rule that depends on the axes.

    Each rule sees only its own arguments, so that its answer is kept for the next combination with the same ones.
    """
    efa, about_efa = _efa(combination.instance_type, combination.efa)
    plan, about_plan = _plan(combination.instance_type, combination.policy, combination.profile.orchestrator, efa)
    orchestrator = ORCHESTRATORS[combination.profile.orchestrator]
    is_chosen_here = combination.image.image_id is None and orchestrator.image is ImageChoice.LIBRARY
    image, about_image = _image(
        combination.instance_type,
        combination.image.system,
        purpose=orchestrator.image_purpose if is_chosen_here else None,
    )
    decision, about_purchase = _purchase(combination.instance_type, combination.purchase, combination.nodes, efa)
    findings = about_efa + about_plan + about_image + about_purchase
    if combination.profile.makes is Makes.NODE_GROUP:
        findings += _node_group(combination.instance_type, combination.purchase)
    if combination.profile.makes is Makes.COMPUTE_NODE_GROUP:
        findings += _compute_node_group(combination.purchase)
    return Outcome(plan, decision, image, findings)


@cache
def _efa(name: str, requested: bool | None) -> tuple[bool, tuple[Finding, ...]]:
    return uses_efa(name, requested), tuple(check_efa_request(instance_type(name), requested))


@cache
def _plan(
    name: str, policy: InterfacePolicy | None, orchestrator: Orchestrator, efa: bool
) -> tuple[InterfacePlan | None, tuple[Finding, ...]]:
    try:
        plan = plan_interfaces(name, policy=policy, orchestrator=orchestrator, efa=efa)
    except ConfigError as refusal:
        return None, refusal.findings
    return plan, plan.findings


@cache
def _image(
    name: str, system: str | None, *, purpose: ImagePurpose | None
) -> tuple[ImageParameter | None, tuple[Finding, ...]]:
    if purpose is None:
        return None, ()
    try:
        row = choose_image(name, operating_system=system, purpose=purpose)
    except ConfigError as refusal:
        return None, refusal.findings
    return row, tuple(check_image(name, row))


@cache
def _purchase(name: str, purchase: str, nodes: int, efa: bool) -> tuple[CapacityDecision, tuple[Finding, ...]]:
    terms, record = terms_of(purchase), instance_type(name)
    decision = decide_capacity(terms, efa=efa)
    findings = check_capacity(terms, record, node_count=nodes)
    if decision.placement.value == "own":
        findings += check_placement(record, PlacementStrategy.CLUSTER, node_count=nodes, efa=efa)
    if PURCHASES[purchase].is_in_group:
        findings += check_group_of_reservation(record)
        findings += check_efa_unused(record, efa=efa, placement=PlacementStrategy.CLUSTER)
    return decision, tuple(findings)


@cache
def _node_group(name: str, purchase: str) -> tuple[Finding, ...]:
    """What EKS refuses beyond what EC2 does."""
    _, about_image = choose_ami_type(instance_type(name))
    return (*about_image, *check_block_of_group(terms_of(purchase)))


@cache
def _compute_node_group(purchase: str) -> tuple[Finding, ...]:
    """What AWS PCS refuses beyond what EC2 does."""
    return tuple(check_capacity_of_group(terms_of(purchase)))


def terms_of(name: str) -> CapacityTerms:
    """A purchase as the rules take it."""
    purchase = PURCHASES[name]
    by_arn = purchase.target is not None and purchase.target.startswith("arn:")
    return CapacityTerms(
        kind=_KINDS[purchase.kind],
        reservation_id=purchase.block_id if by_arn else purchase.target,
        reservation_group_arn=purchase.target if by_arn else None,
        starts_at=purchase.starts_at,
        ends_at=purchase.ends_at,
        uses_open_reservations=purchase.uses_open,
        max_price_usd_per_hour=purchase.max_price,
    )
