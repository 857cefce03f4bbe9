"""The check of a cluster file reports every topic of a fleet's plan at a key; a topic that it leaves out is lost."""

from __future__ import annotations

from typing import Any

import pytest

from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.fleet.plan import FleetPlan, Topic
from cdk_gpu_clusters.fleet.request import Field
from cdk_gpu_clusters_stacks.spec.check import check_cluster, check_fleets
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec

PLANTED = "GPU-TEST-901"
# Not placed from the plan, and why no fault is lost.
FOUND_OTHERWISE = {
    Topic.SIZE: "the schema and check_number find it in the words of the file",
    Topic.TIMEOUTS: "check_inference_values: only inference fleets have a time-out in the file",
    Topic.BLOCK_DRAIN: "check_balancer, with the time that the load balancer takes",
    Topic.RESERVED_USE: "a reservation that the file makes has the type and the number of its fleet",
    Topic.ONE_PLACEMENT: "a fleet of the file cannot name an existing placement group",
    Topic.NETWORK: "check_network and check_zones, for all fleets together",
}
# Topics that only training fleets on EC2 can have, by the kind of fleet that cannot.
NOT_OF = {
    "training-ec2": set[Topic](),
    "training-eks": {Topic.IMAGE},  # EKS chooses the image
    "inference-ec2": {Topic.EFA, Topic.INTERFACES},  # inference fleets have neither key
    "inference-eks": {Topic.EFA, Topic.INTERFACES, Topic.IMAGE},
}


def cluster(kind: str) -> ClusterSpec:
    """A cluster of one fleet without faults."""
    section, _, orchestrator = kind.partition("-")
    fleet: dict[str, Any] = {"instance_type": "p4d.24xlarge", "nodes": 2}
    if section == "inference":
        fleet |= {"server": {"image": "vllm/vllm-openai:v0.11.0"}}
        fleet |= {"load_balancer": {"plain_http": True}} if orchestrator == "ec2" else {}
    return ClusterSpec.model_validate(
        {
            "version": 1,
            "name": "demo",
            "region": "us-east-1",
            "orchestrator": orchestrator,
            "network": {"availability_zone": "us-east-1a"},
            section: {"fleets": {"a": fleet}},
        }
    )


@pytest.mark.parametrize("kind", NOT_OF)
def test_every_topic_is_placed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def about(_: FleetPlan, *topics: Topic) -> list[Finding]:
        return [Finding(id=PLANTED, cause="planted", got=topic.value) for topic in topics]

    monkeypatch.setattr(FleetPlan, "about", about)
    placed = {Topic(one.got): one.path for one in check_cluster(cluster(kind)) if one.id == PLANTED}
    assert set(placed) == set(Topic) - FOUND_OTHERWISE.keys() - NOT_OF[kind]
    section = kind.partition("-")[0]
    assert all(path.startswith(f"{section}.fleets.a.") for path in placed.values())


@pytest.mark.parametrize("kind", NOT_OF)
def test_topics_that_are_not_placed_have_no_findings(kind: str) -> None:
    _, [fleet] = check_fleets(cluster(kind))
    request = fleet.plan.request
    assert {Field.TIMEOUTS, Field.NETWORK} <= request.unknown, "checks that read an unknown field are left out"
    assert (request.reservation.instance_type, request.group_strategy) == (None, None)
