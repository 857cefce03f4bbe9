"""Node groups of every type, layout and purchase in the hands of Karpenter: an object of its CRD, or a refusal.

The objects follow from the plan of a managed node group without CDK; no template is made.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cdk_gpu_clusters.errors import errors_in
from cdk_gpu_clusters.fleet.karpenter import (
    NodeClassParts,
    check_karpenter,
    gpu_node_class,
    gpu_node_overlay,
    gpu_node_pool,
)
from cdk_gpu_clusters.fleet.node_group import NodeGroupPlan
from cdk_gpu_clusters.fleet.plan import FleetPlan
from kubernetes_schemas import check_objects
from matrix.cloud import Cloud, Place
from matrix.combinations import Combination
from matrix.invariant import invariants
from matrix.node_group_plans import combinations, planned
from matrix.nodes import Nodes

#: The invariants of nodes that Karpenter and EKS launch alike.
ALIKE = (
    "one-primary-interface",
    "card-exists",
    "devices-fit-card",
    "one-efa-per-card",
    "card-takes-type",
    "efa-as-asked",
    "addresses-as-asked",
    "groups-on-every-interface",
    "labels-of-hardware",
    "taint-of-devices",
    "pods-have-addresses",
)
#: Purchase -> capacity types, and the type of the reservation: aws/karpenter-provider-aws @ 1d92708 (v1.14),
#: concepts/nodepools.md, karpenter.sh/capacity-type, and tasks/odcrs.md.
CAPACITY = {
    "on-demand": (["on-demand"], None),
    "spot": (["spot"], None),
    "odcr": (["reserved"], ["default"]),
    "capacity-block": (["reserved"], ["capacity-block"]),
}
#: What was looked at when the axes were last changed: an axis never shrinks.
LAUNCHED, REFUSED = 420, 135


def objects_of(fleet: FleetPlan, group: NodeGroupPlan) -> list[dict[str, Any]]:
    parts = NodeClassParts(
        subnet_ids=["subnet-0123456789abcdef0"],
        security_group_ids=["sg-0123456789abcdef0"],
        instance_profile_name="pool",
        user_data="MIME-Version: 1.0",
        reservation_id="cr-0123456789abcdef0",
    )
    overlay = gpu_node_overlay(fleet, group)
    return [gpu_node_class(fleet, group, parts), gpu_node_pool(fleet, group), *([] if overlay is None else [overlay])]


def as_ec2_has_it(node_class: dict[str, Any], pool: dict[str, Any], combination: Combination) -> Nodes:
    """The nodes as a launch template and a node group would say them, so that the same invariants read them."""
    groups = [one["id"] for one in node_class["securityGroupSelectorTerms"]]
    template = pool["template"]
    resources = {
        "Template": {
            "Type": "AWS::EC2::LaunchTemplate",
            "Properties": {
                "LaunchTemplateData": {
                    "NetworkInterfaces": [
                        {
                            "NetworkCardIndex": one["networkCardIndex"],
                            "DeviceIndex": one["deviceIndex"],
                            "InterfaceType": one["interfaceType"],
                            "Groups": groups,
                        }
                        for one in node_class["networkInterfaces"]
                    ],
                    "UserData": json.dumps(node_class["kubelet"]),
                }
            },
        },
        "Group": {
            "Type": "AWS::EKS::Nodegroup",
            "Properties": {
                "LaunchTemplate": {"Id": {"Ref": "Template"}},
                "Labels": template["metadata"]["labels"],
                "Taints": [
                    {"Key": one["key"], "Effect": {"NoSchedule": "NO_SCHEDULE"}[one["effect"]]}
                    for one in template["spec"].get("taints", ())
                ],
            },
        },
    }
    return Nodes(Cloud({"Pool": {"Resources": resources}}), Place("Pool", "Template"), combination.asked)


@pytest.fixture(scope="module")
def plans() -> list[tuple[Combination, FleetPlan, NodeGroupPlan]]:
    """What there is to look at."""
    return [(each, *planned(each)) for each in combinations()]


def test_every_node_group_is_a_node_pool_with_the_same_nodes_or_refused(
    plans: list[tuple[Combination, FleetPlan, NodeGroupPlan]], tally: Callable[[str], None]
) -> None:
    seen: Counter[bool] = Counter()
    wrong: list[str] = []
    for combination, fleet, group in plans:
        interfaces = fleet.interfaces.interfaces
        reasons = {"GPU-EKS-060"} if any(one.interface_type == "efa" for one in interfaces) else set()
        by_group = (combination.asked.purchase.target or "").startswith("arn:")
        reasons |= {"GPU-EKS-062"} if by_group else set()
        refused = {one.id for one in errors_in(check_karpenter(fleet, group))}
        if refused != reasons:
            wrong.append(f"{combination}: {refused}, not {reasons}")
        seen[bool(refused)] += 1
        if refused:
            continue
        node_class, pool, *_ = (one["spec"] for one in objects_of(fleet, group))
        nodes = as_ec2_has_it(node_class, pool, combination)
        wrong += [f"{combination}: {name}: {what}" for name in ALIKE for what in invariants()[name].check(nodes)]
        wrong += [f"{combination}: {what}" for what in _capacity(node_class, pool, combination)]
    assert wrong[:20] == []
    tally(f"node pools of Karpenter: {seen[False]:,} held against {len(ALIKE)} invariants, {seen[True]:,} refused")
    assert seen[False] >= LAUNCHED
    assert seen[True] >= REFUSED


def _capacity(node_class: dict[str, Any], pool: dict[str, Any], combination: Combination) -> Iterator[str]:
    purchase = combination.asked.purchase
    types, reservation = CAPACITY[purchase.kind]
    wanted = {
        "node.kubernetes.io/instance-type": [combination.instance_type],
        "karpenter.sh/capacity-type": ["reserved", *types] if purchase.uses_open else types,
        **({} if reservation is None else {"karpenter.k8s.aws/capacity-reservation-type": reservation}),
    }
    got = {one["key"]: one["values"] for one in pool["template"]["spec"]["requirements"]}
    if got != wanted:
        yield f"requirements {got}, not {wanted}"
    terms = node_class.get("capacityReservationSelectorTerms", [])
    known = [{"id": "cr-0123456789abcdef0"}] if purchase.is_reserved else []
    if terms != ([{"instanceMatchCriteria": "open"}] if purchase.uses_open else known):
        yield f"reservations {terms}"
    # A pool of a fixed size whose reservation is not there would hold up all others.
    if ("replicas" in pool) is purchase.is_reserved:
        yield f"replicas {pool.get('replicas')}"


def test_nodes_that_differ_are_found(plans: list[tuple[Combination, FleetPlan, NodeGroupPlan]]) -> None:
    combination, fleet, group = next(one for one in plans if one[0].instance_type == "p5.48xlarge")
    node_class, pool, *_ = (one["spec"] for one in objects_of(fleet, group))
    node_class["networkInterfaces"][-1]["networkCardIndex"] = 99
    node_class["kubelet"]["maxPods"] += 1
    del pool["template"]["spec"]["taints"]
    nodes = as_ec2_has_it(node_class, pool, combination)
    found = {name for name in ALIKE if list(invariants()[name].check(nodes))}
    assert found == {"card-exists", "taint-of-devices", "pods-have-addresses"}


def test_the_objects_are_of_the_form_of_its_crds(
    plans: list[tuple[Combination, FleetPlan, NodeGroupPlan]],
) -> None:
    """One of each purchase, and one of each number of interfaces."""
    seen: set[object] = set()
    objects = []
    for combination, fleet, group in plans:
        sights = {combination.purchase, len(fleet.interfaces.interfaces)}
        if sights <= seen or errors_in(check_karpenter(fleet, group)):
            continue
        seen |= sights
        objects += objects_of(fleet, group)
    assert check_objects(objects, "1.36") == len(objects) > 20
