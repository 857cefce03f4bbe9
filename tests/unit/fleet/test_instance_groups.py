"""Instance groups of HyperPod: every type of the catalogue, in both orchestrators, against the service's own list."""

from __future__ import annotations

from dataclasses import replace

import boto3
import pytest

from cdk_gpu_clusters.catalogue import instance_type
from cdk_gpu_clusters.catalogue.hyperpod import training_plan_types
from cdk_gpu_clusters.catalogue.instances import instance_type_names
from cdk_gpu_clusters.errors import errors_in
from cdk_gpu_clusters.fleet.instance_group import InstanceGroupPlan, InstanceGroupRequest, plan_instance_group
from cdk_gpu_clusters.fleet.plan import FleetPlan, plan_fleet
from cdk_gpu_clusters.fleet.profile import HYPERPOD_EKS, HYPERPOD_SLURM, OrchestratorProfile
from cdk_gpu_clusters.fleet.request import FleetRequest, SubnetFacts
from cdk_gpu_clusters.rules.capacity import CapacityKind, CapacityTerms
from cdk_gpu_clusters.rules.interfaces import InterfacePolicy
from cdk_gpu_clusters.rules.mig import MigLayout
from cdk_gpu_clusters.rules.placement import GroupOrigin

SERVICE = boto3.client("sagemaker", region_name="us-east-1").meta.service_model
OFFERED = set(SERVICE.shape_for("ClusterInstanceType").enum)
PLAN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/research"
PROFILES = (HYPERPOD_SLURM, HYPERPOD_EKS)


def request_of(name: str, profile: OrchestratorProfile) -> FleetRequest:
    subnet = SubnetFacts(name="nodes", zone="us-east-1a", ipv4_block="10.0.0.0/16")
    return FleetRequest(
        name="train", instance_type=name, profile=profile, minimum=2, maximum=2, region="us-east-1", subnets=(subnet,)
    )


def planned(fleet: FleetPlan, request: InstanceGroupRequest | None = None) -> tuple[InstanceGroupPlan, set[str]]:
    group = plan_instance_group(fleet, request or InstanceGroupRequest(known_name="trainers"))
    return group, {one.id for one in errors_in([*fleet.findings, *group.findings])}


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.agent)
def test_every_type_is_taken_or_refused_as_the_service_does(profile: OrchestratorProfile) -> None:
    for name in instance_type_names():
        for policy in (None, InterfacePolicy.EFA_PER_CARD):
            fleet = plan_fleet(replace(request_of(name, profile), interface_policy=policy))
            group, errors = planned(fleet)
            assert errors == (set() if group.instance_type in OFFERED else {"GPU-HYP-001"}), name
            has_efa = instance_type(name).network.efa is not None and instance_type(name).accelerator is not None
            wanted = {None: "efa-only", InterfacePolicy.EFA_PER_CARD: "efa"}[policy]
            assert group.interface_type == (wanted if has_efa else None), name
            assert fleet.placement.origin is GroupOrigin.NONE


def test_every_type_with_plans_takes_one() -> None:
    for name in training_plan_types():
        fleet = plan_fleet(request_of(name.removeprefix("ml."), HYPERPOD_SLURM))
        assert planned(fleet, InstanceGroupRequest(has_plan=True, plan_arn=PLAN))[1] == set()


@pytest.mark.parametrize("kind", CapacityKind)
def test_only_what_sagemaker_sells_is_bought(kind: CapacityKind) -> None:
    terms = CapacityTerms(kind=kind, reservation_id="cr-0123456789abcdef0" if kind.is_reserved else None)
    _, errors = planned(plan_fleet(replace(request_of("p5.48xlarge", HYPERPOD_EKS), terms=terms)))
    assert ("GPU-HYP-010" in errors) is kind.is_reserved


def test_a_subnet_has_room_as_hyperpod_counts() -> None:
    """Eight p5 nodes with `efa` take 256 addresses on Slurm, and 648 on Amazon EKS."""
    for profile, prefix, fits in ((HYPERPOD_SLURM, 23, True), (HYPERPOD_EKS, 23, False), (HYPERPOD_EKS, 22, True)):
        request = request_of("p5.48xlarge", profile)
        subnet = SubnetFacts(name="nodes", zone="us-east-1a", ipv4_block=f"10.0.0.0/{prefix}")
        policy = InterfacePolicy.EFA_PER_CARD
        wanted = replace(request, minimum=8, maximum=8, subnets=(subnet,), interface_policy=policy)
        assert ("GPU-IP-003" not in planned(plan_fleet(wanted))[1]) is fits


def test_a_label_of_the_user_wins() -> None:
    request = replace(request_of("p5.48xlarge", HYPERPOD_EKS), efa=False, mig=MigLayout(["3g.40gb", "4g.40gb"]))
    group, errors = planned(plan_fleet(request))
    assert (dict(group.labels), errors) == ({"nvidia.com/mig.config": "mixed-1-3g.40gb-1-4g.40gb"}, set())
    own = InstanceGroupRequest(labels={"nvidia.com/mig.config": "all-disabled"})
    assert dict(planned(plan_fleet(request), own)[0].labels) == {"nvidia.com/mig.config": "all-disabled"}
