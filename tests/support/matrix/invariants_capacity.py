"""Invariants of capacity and placement, from the guides of EC2 and EC2 Auto Scaling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from matrix.cloud import Json
from matrix.invariant import invariant
from matrix.nodes import Nodes

BLOCKS_PAGE = 'AWS EC2 user guide, "Capacity Blocks for ML"'
RESERVATIONS_PAGE = 'AWS EC2 user guide, "On-Demand Capacity Reservations"'
PLACEMENT_PAGE = 'AWS EC2 user guide, "Placement groups"'

_MARKET = {"spot": "spot", "capacity-block": "capacity-block", "ultraserver-block": "capacity-block"}


@invariant("one-instance-type", "an interface layout is right for one type; terraform-aws-modules/eks 3653")
def one_instance_type(nodes: Nodes) -> Iterator[str]:
    """The template names the type that was asked for, and nothing launches another one from it."""
    named = nodes.data.get("InstanceType")
    # AWS PCS and AWS Batch take the type from their own resource, except for a Capacity Block.
    ignored = nodes.asked.orchestrator in ("pcs", "batch") and not nodes.asked.purchase.is_block
    if named != nodes.asked.instance_type and not (ignored and named is None):
        yield f"{named}, not {nodes.asked.instance_type}"
    if "InstanceRequirements" in nodes.data:
        yield "InstanceRequirements choose other types"


@invariant("market-type", f"{BLOCKS_PAGE}; awslabs/awsome-distributed-ai 1258 (an ODCR has none)")
def market_type(nodes: Nodes) -> Iterator[str]:
    """The market type is that of the purchase; managed node groups ask for spot themselves."""
    asked = nodes.asked.purchase
    wanted = _MARKET.get(asked.kind)
    if wanted == "spot" and nodes.asked.orchestrator in ("eks-managed", "pcs", "batch"):
        wanted = None
    options: Mapping[str, Json] = nodes.data.get("InstanceMarketOptions", {})
    if options.get("MarketType") != wanted:
        yield f"market type {options.get('MarketType')}, not {wanted}"
    price = options.get("SpotOptions", {}).get("MaxPrice")
    if wanted == "spot" and (None if price is None else float(price)) != asked.max_price:
        yield f"price limit {price}, not {asked.max_price}"


@invariant("reservation-target", f'{RESERVATIONS_PAGE}; "Launch into a Capacity Reservation group"')
def reservation_target(nodes: Nodes) -> Iterator[str]:
    """Reserved nodes name their reservation and nothing else; others never take one that was not meant for them."""
    asked = nodes.asked.purchase
    specification: Mapping[str, Json] = nodes.data.get("CapacityReservationSpecification", {})
    target: Mapping[str, Json] = specification.get("CapacityReservationTarget", {})
    preference = specification.get("CapacityReservationPreference")
    preferred = ("open" if asked.uses_open else "none") if asked.kind == "on-demand" else None
    if preference != preferred:
        yield f"preference {preference}, not {preferred}"
    if bool(target) != asked.is_reserved:
        yield f"target {target or 'missing'} for {asked.kind}"
    if len(target) > 1:
        yield "both an id and a resource group"
    for field, value in target.items():
        by_group = field == "CapacityReservationResourceGroupArn"
        # AWS PCS user guide, overview of launch templates: an On-Demand reservation by a resource group that holds it.
        wants_group = nodes.compute_node_group is not None and asked.kind == "odcr"
        # An UltraServer block is a resource group, but EKS takes blocks by their ids (Amazon EKS user guide, node groups).
        of_eks = nodes.asked.orchestrator == "eks-managed" and asked.kind == "ultraserver-block"
        wanted = (asked.block_id if of_eks else None) or asked.target
        if asked.is_made_here:
            if by_group is not wants_group or not isinstance(nodes.reservation, Mapping):
                yield f"{field} {value}, not the reservation of this app"
        elif nodes.reservation != wanted or by_group != (wants_group or str(wanted).startswith("arn:")):
            yield f"{field} {value}, not {wanted}"


@invariant("no-placement-group-with-block", f"{BLOCKS_PAGE}: a launch into a block names no placement group")
def no_group_with_block(nodes: Nodes) -> Iterator[str]:
    """A launch into a Capacity Block names no placement group."""
    if nodes.asked.purchase.is_block and "Placement" in nodes.data:
        yield str(nodes.data["Placement"])


@invariant(
    "reservation-placement-group",
    f"{RESERVATIONS_PAGE}, placement groups; eksctl-io/eksctl 7949 (11 of 16 reserved nodes)",
)
def reservation_placement_group(nodes: Nodes) -> Iterator[str]:
    """Reserved nodes are launched into the group that the reservation was made in, and into no other."""
    asked, group, made = nodes.asked.purchase, nodes.placement_group, nodes.reservation
    if asked.kind != "odcr":
        return
    if nodes.asked.placement == "none":
        wanted: object = None
    elif asked.is_made_here:
        wanted = _group_of_reservation(nodes) if isinstance(made, Mapping) else None
        if (wanted is not None) is not asked.is_in_group:
            yield f"the reservation was made in {wanted}"
    else:
        wanted = asked.placement_group
    if group != wanted:
        yield f"placement group {group}, the reservation's is {wanted}"


def _group_of_reservation(nodes: Nodes) -> object:
    """The placement group that the reservation names as the end of an ARN."""
    place = nodes.reservation_place
    arn = None if place is None else nodes.cloud.properties(place).get("PlacementGroupArn")
    if place is None or arn is None:
        return None
    group = nodes.cloud.find(place.stack, arn["Fn::Join"][1][-1])
    return None if group is None else nodes.cloud.properties(group)


@invariant("cluster-group-for-efa", f"{PLACEMENT_PAGE}; AWS EC2 user guide, EFA: launch into a cluster group")
def cluster_group_for_efa(nodes: Nodes) -> Iterator[str]:
    """Nodes that exchange EFA traffic, bought without a reservation, stand in a cluster group; others in none."""
    asked = nodes.asked
    if asked.purchase.is_reserved or nodes.launcher is None:
        return
    wanted = asked.placement or ("cluster" if asked.wants_efa else "none")
    group = nodes.placement_group
    strategy = group.get("Strategy") if isinstance(group, Mapping) else group
    if strategy != (None if wanted == "none" else wanted):
        yield f"placement {strategy}, not {wanted}"
    strategies = nodes.hardware.placement_strategies
    if strategy is not None and strategies is not None and strategy not in strategies:
        yield f"{nodes.hardware.name} supports {', '.join(sorted(strategies))}"


@invariant(
    "placement-group-stays",
    "CloudFormation schema of AWS::EC2::PlacementGroup: every property is create-only, Tags too, and there is no name",
)
def placement_group_stays(nodes: Nodes) -> Iterator[str]:
    """A placement group has its strategy alone: a tag that changes would replace it, and its reservation with it."""
    group = nodes.placement_group
    if not isinstance(group, Mapping):
        return
    extra = sorted(set(group) - {"Strategy", "PartitionCount", "SpreadLevel"})
    if extra:
        yield f"{', '.join(extra)} of the placement group"
    partitions = group.get("PartitionCount")
    if (partitions is not None) is not (group.get("Strategy") == "partition"):
        yield f"{partitions} partitions of a {group.get('Strategy')} group"
    if partitions is not None and not 1 <= partitions <= 7:
        yield f"{partitions} partitions, at most 7 in a zone"


@invariant("reservation-fits-nodes", f"{RESERVATIONS_PAGE}, CreateCapacityReservation")
def reservation_fits_nodes(nodes: Nodes) -> Iterator[str]:
    """A reservation made here is one of Linux instances of the type, for every node, in the nodes' zone."""
    made, asked = nodes.reservation, nodes.asked
    if not isinstance(made, Mapping):
        return
    if made["InstanceType"] != asked.instance_type or made["InstancePlatform"] != "Linux/UNIX":
        yield f"reserves {made['InstancePlatform']} {made['InstanceType']}"
    if not (asked.maximum or 1) <= made["InstanceCount"] <= 1000:
        yield f"{made['InstanceCount']} reserved for {asked.maximum} nodes"
    if asked.zone not in (made.get("AvailabilityZone"), made.get("AvailabilityZoneId")):
        yield f"reserved in {made.get('AvailabilityZone') or made.get('AvailabilityZoneId')}, nodes in {asked.zone}"
    if (made.get("EndDateType") == "limited") is not ("EndDate" in made):
        yield f"end {made.get('EndDateType')} {made.get('EndDate')}"
    if made.get("InstanceMatchCriteria") not in ("targeted", "open"):
        yield f"match criteria {made.get('InstanceMatchCriteria')}"
