"""What Karpenter launches a fleet from, held against its own schemas and rules."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import yaml

from cdk_gpu_clusters.catalogue import instance_type, instance_types
from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.fleet.karpenter import (
    NodeClassParts,
    check_karpenter,
    gpu_node_class,
    gpu_node_overlay,
    gpu_node_pool,
)
from cdk_gpu_clusters.fleet.node_group import NodeGroupPlan, NodeGroupRequest, plan_node_group
from cdk_gpu_clusters.fleet.plan import FleetPlan, plan_fleet
from cdk_gpu_clusters.fleet.profile import EKS_MANAGED
from cdk_gpu_clusters.fleet.request import FleetRequest
from cdk_gpu_clusters.kubernetes.torchrun import torchrun_job
from cdk_gpu_clusters.rules.capacity import CapacityKind, CapacityTerms, parse_instant
from cdk_gpu_clusters.rules.interfaces import InterfacePolicy
from cdk_gpu_clusters.rules.kubernetes_labels import NodeTaint
from cdk_gpu_clusters.rules.mig import MigLayout, MigStrategy
from kubernetes_pools import containers, gpu_types, number, requests
from kubernetes_schemas import CRDS, WrongObjectsError, check_objects

NEWEST = "1.36"
RESERVATION = "cr-0123456789abcdef0"
PARTS = NodeClassParts(
    subnet_ids=["subnet-0123456789abcdef0"],
    security_group_ids=["sg-0123456789abcdef0", "sg-0fedcba9876543210"],
    instance_profile_name="trainers",
    user_data="MIME-Version: 1.0\n",
    tags={"team": "speech"},
)
ON_DEMAND = CapacityTerms(kind=CapacityKind.ON_DEMAND)
BLOCK = CapacityTerms(
    kind=CapacityKind.CAPACITY_BLOCK,
    reservation_id=RESERVATION,
    starts_at=parse_instant("2026-12-01T11:30Z", name="starts_at"),
    ends_at=parse_instant("2026-12-15T11:30Z", name="ends_at"),
)


def planned(
    name: str = "p5.48xlarge",
    *,
    minimum: int = 2,
    maximum: int = 2,
    terms: CapacityTerms = ON_DEMAND,
    group: NodeGroupRequest | None = None,
    **fleet: Any,
) -> tuple[FleetPlan, NodeGroupPlan]:
    plan = plan_fleet(
        FleetRequest(
            name="trainers",
            instance_type=name,
            profile=EKS_MANAGED,
            minimum=minimum,
            maximum=maximum,
            terms=terms,
            **fleet,
        )
    )
    return plan, plan_node_group(plan, group or NodeGroupRequest(name="trainers"))


def scaling(name: str = "p5.48xlarge", **more: Any) -> tuple[FleetPlan, NodeGroupPlan]:
    return planned(name, minimum=0, maximum=4, **more)


def made(fleet: FleetPlan, group: NodeGroupPlan, parts: NodeClassParts = PARTS) -> tuple[Any, Any]:
    """Both specs, after the schemas and rules of Karpenter accepted both objects."""
    both = [gpu_node_class(fleet, group, parts), gpu_node_pool(fleet, group)]
    assert check_objects(both, NEWEST) == 2
    return both[0]["spec"], both[1]["spec"]


def test_a_node_class_has_what_the_launch_template_of_a_managed_group_has() -> None:
    fleet, group = planned(placement=None)
    parts = replace(PARTS, placement_group_name="trainers", encryption_key_arn="arn:aws:kms:key", size_gib=500)
    spec, _ = made(fleet, group, parts)
    interfaces = [
        (one["networkCardIndex"], one["deviceIndex"], one["interfaceType"]) for one in spec.pop("networkInterfaces")
    ]
    assert interfaces == [
        (one.network_card_index, one.device_index, one.interface_type) for one in fleet.interfaces.interfaces
    ]
    assert [kind for *_, kind in interfaces].count("efa-only") == 32
    assert spec == {
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"id": "subnet-0123456789abcdef0"}],
        "securityGroupSelectorTerms": [{"id": "sg-0123456789abcdef0"}, {"id": "sg-0fedcba9876543210"}],
        "instanceProfile": "trainers",
        "blockDeviceMappings": [
            {
                "deviceName": "/dev/xvda",
                "rootVolume": True,
                "ebs": {
                    "volumeType": "gp3",
                    "volumeSize": "500Gi",
                    "iops": 3000,
                    "throughput": 250,
                    "encrypted": True,
                    "deleteOnTermination": True,
                    "kmsKeyID": "arn:aws:kms:key",
                },
            }
        ],
        "metadataOptions": {"httpEndpoint": "enabled", "httpTokens": "required", "httpPutResponseHopLimit": 1},
        "detailedMonitoring": True,
        "kubelet": {"maxPods": 51},
        "placementGroupSelector": {"name": "trainers"},
        "instanceStorePolicy": "RAID0",
        "tags": {"team": "speech"},
        "userData": "MIME-Version: 1.0\n",
    }


def test_a_fleet_of_a_fixed_size_has_static_replicas() -> None:
    fleet, group = planned(minimum=16, maximum=16)
    _, pool = made(fleet, group)
    assert (pool["replicas"], pool["limits"]) == (16, {"nodes": "16"})
    assert gpu_node_overlay(fleet, group) is None


def test_pods_ask_for_the_nodes_of_a_block_which_stay() -> None:
    fleet, group = planned(minimum=16, maximum=16, terms=BLOCK)
    spec, pool = made(fleet, group)
    assert spec["capacityReservationSelectorTerms"] == [{"id": RESERVATION}]
    assert "placementGroupSelector" not in spec
    assert pool == {
        "template": {
            "metadata": {"labels": dict(group.pool.labels)},
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "trainers"},
                "requirements": [
                    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["p5.48xlarge"]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["reserved"]},
                    {
                        "key": "karpenter.k8s.aws/capacity-reservation-type",
                        "operator": "In",
                        "values": ["capacity-block"],
                    },
                ],
                "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}],
                "expireAfter": "Never",
            },
        },
        "disruption": {
            "consolidationPolicy": "WhenEmpty",
            "consolidateAfter": "10m",
            "budgets": [
                {"nodes": "0", "reasons": ["Drifted"]},
                {"nodes": "0", "reasons": ["Underutilized"]},
            ],
        },
        "limits": {"nodes": "16", "cpu": str(16 * 192)},
    }


@pytest.mark.parametrize(
    ("terms", "selected", "types"),
    [
        (ON_DEMAND, None, ["on-demand"]),
        (CapacityTerms(kind=CapacityKind.SPOT), None, ["spot"]),
        (
            replace(ON_DEMAND, uses_open_reservations=True),
            [{"instanceMatchCriteria": "open"}],
            ["reserved", "on-demand"],
        ),
        (CapacityTerms(kind=CapacityKind.RESERVATION, reservation_id=RESERVATION), [{"id": RESERVATION}], ["reserved"]),
    ],
)
def test_capacity_is_what_the_terms_name_and_no_other(terms: CapacityTerms, selected: Any, types: list[str]) -> None:
    spec, pool = made(*planned(terms=terms))
    assert spec.get("capacityReservationSelectorTerms") == selected
    wanted = {one["key"]: one["values"] for one in pool["template"]["spec"]["requirements"]}
    assert wanted["karpenter.sh/capacity-type"] == types
    assert wanted.get("karpenter.k8s.aws/capacity-reservation-type") == (["default"] if types == ["reserved"] else None)


def test_the_id_of_a_reservation_may_be_known_at_deployment_only() -> None:
    unknown = CapacityTerms(kind=CapacityKind.RESERVATION)
    spec = gpu_node_class(*planned(terms=unknown), replace(PARTS, reservation_id="${Token[Id.1]}"))["spec"]
    assert spec["capacityReservationSelectorTerms"] == [{"id": "${Token[Id.1]}"}]


def test_a_fleet_that_scales_is_limited_and_loses_empty_nodes_only() -> None:
    _, pool = made(*scaling())
    assert "replicas" not in pool
    assert pool["limits"] == {"nodes": "4", "cpu": str(4 * 192)}
    assert pool["disruption"]["consolidationPolicy"] == "WhenEmpty"
    assert not any("Empty" in one["reasons"] for one in pool["disruption"]["budgets"])


def test_rolling_updates_replace_as_many_at_once_as_a_managed_group() -> None:
    rolling = NodeGroupRequest(name="trainers", rolls=True, max_unavailable=3)
    _, pool = made(*planned(minimum=8, maximum=8, group=rolling))
    assert pool["disruption"]["budgets"][0] == {"nodes": "3", "reasons": ["Drifted"]}
    # New nodes come first, and count.
    assert (pool["replicas"], pool["limits"]) == (8, {"nodes": "11"})


def test_the_image_kubelet_labels_and_taints_are_those_of_the_group() -> None:
    request = NodeGroupRequest(
        name="Trainers",
        kubernetes_version="1.34",
        release_version="1.34.1-20260709",
        labels={"team": "speech"},
        taints=[NodeTaint(key="dedicated", value="speech", effect="NoExecute")],
        kubelet_config={"kubeReserved": {"memory": "2Gi"}, "registryPullQPS": 10},
    )
    spec, pool = made(*planned(group=request))
    assert spec["amiSelectorTerms"] == [{"alias": "al2023@v20260709"}]
    # The others are in nodeadm's own file, beside the user data.
    assert spec["kubelet"] == {"maxPods": 51, "kubeReserved": {"memory": "2Gi"}}
    assert pool["template"]["metadata"]["labels"].items() >= {"team": "speech", "gpu-cluster/fleet": "Trainers"}.items()
    assert pool["template"]["spec"]["taints"] == [{"key": "dedicated", "value": "speech", "effect": "NoExecute"}]
    assert pool["template"]["spec"]["nodeClassRef"]["name"] == "trainers"


def test_every_type_of_the_catalogue_is_launched() -> None:
    for name, record in instance_types().items():
        fleet, group = planned(name)
        spec, pool = made(fleet, group)
        assert ("taints" in pool["template"]["spec"]) is (record.accelerator is not None), name
        assert ("instanceStorePolicy" in spec) is bool(record.local_disks), name
        assert len(spec["networkInterfaces"]) == len(fleet.interfaces.interfaces), name


@pytest.mark.parametrize(
    ("fault", "plans"),
    [
        ("GPU-EKS-060", {"interface_policy": InterfacePolicy.EFA_PER_CARD}),
        ("GPU-EKS-061", {"minimum": 1, "maximum": 4}),
        (
            "GPU-EKS-062",
            {"terms": CapacityTerms(kind=CapacityKind.RESERVATION, reservation_group_arn="arn:aws:resource-groups:a")},
        ),
        ("GPU-EKS-064", {"group": NodeGroupRequest(name="trainers", labels={"karpenter.sh/pool": "a"})}),
        (
            "GPU-EKS-064",
            {"group": NodeGroupRequest(name="trainers", taints=[NodeTaint(key="a.karpenter.k8s.aws/b")])},
        ),
        ("GPU-K8S-001", {"group": NodeGroupRequest(name="train_ers")}),
    ],
)
def test_what_karpenter_cannot_launch_is_refused(fault: str, plans: dict[str, Any]) -> None:
    fleet, group = planned(**plans)
    for make in (gpu_node_pool, gpu_node_overlay):
        with pytest.raises(ConfigError, match=fault):
            make(fleet, group)
    with pytest.raises(ConfigError, match=fault):
        gpu_node_class(fleet, group, PARTS)


def test_slices_that_are_shown_as_gpus_do_not_scale() -> None:
    layout = MigLayout(["1g.5gb"] * 7)
    single = NodeGroupRequest(name="slices", mig_strategy=MigStrategy.SINGLE)
    with pytest.raises(ConfigError, match="GPU-EKS-063: mig_strategy"):
        gpu_node_pool(*scaling("p4d.24xlarge", mig=layout, efa=False, group=single))
    made(*planned("p4d.24xlarge", mig=layout, efa=False, group=single))
    reserved = CapacityTerms(kind=CapacityKind.RESERVATION, reservation_id=RESERVATION)
    with pytest.raises(ConfigError, match="GPU-EKS-063: mig_strategy"):
        gpu_node_pool(*planned("p4d.24xlarge", mig=layout, efa=False, group=single, terms=reserved))
    overlay = gpu_node_overlay(*scaling("p4d.24xlarge", mig=layout, efa=False))
    assert overlay is not None
    assert overlay["spec"]["capacity"] == {"nvidia.com/mig-1g.5gb": "56"}


def test_rolling_updates_of_a_reservation_need_a_spare_instance() -> None:
    terms = CapacityTerms(kind=CapacityKind.RESERVATION, reservation_id=RESERVATION)
    found = check_karpenter(*planned(terms=terms, group=NodeGroupRequest(name="trainers", rolls=True)))
    assert [(one.id, one.severity.value) for one in found] == [("GPU-EKS-065", "warning")]
    assert check_karpenter(*planned(terms=terms)) == []


def test_an_overlay_adds_what_pods_ask_for_and_karpenter_does_not_know() -> None:
    overlay = gpu_node_overlay(*scaling())
    assert overlay is not None
    check_objects([overlay], NEWEST)
    assert overlay["spec"] == {
        "requirements": [{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["trainers"]}],
        "capacity": {"hugepages-2Mi": "5120Mi"},
    }
    assert gpu_node_overlay(*planned()) is None
    assert gpu_node_overlay(*scaling("g6e.xlarge")) is None


# aws/karpenter-provider-aws @ bde0065 (v1.14.1), pkg/providers/instancetype/types.go: resources that Karpenter knows of
# a node before it has seen one (memory, kubeReservedResources, evictionThreshold).
_KNOWN = {"cpu", "memory", "nvidia.com/gpu", "vpc.amazonaws.com/efa"}


def believed(name: str, max_pods: int, vm_memory_overhead: Fraction) -> dict[str, Fraction]:
    """What Karpenter takes a node of a type for: CPU and memory in bytes."""
    record = instance_type(name)
    mebibytes = record.memory_mib - (64 if record.architecture.value == "arm64" else 0)
    left = mebibytes * (1 - vm_memory_overhead) - (11 * max_pods + 255) - 100 - 1
    reserved: list[Fraction] = [*map(Fraction, (60, 10, 5, 5)), *[Fraction(5, 2)] * record.vcpus][: record.vcpus]
    return {"cpu": record.vcpus - sum(reserved) / Fraction(1000), "memory": left * 2**20}


@pytest.mark.parametrize("name", gpu_types())
def test_a_job_that_takes_whole_nodes_fits_what_karpenter_believes_of_them(name: str) -> None:
    """Otherwise it would launch no node for it: with its own 7.5 percent for the hypervisor, none of a p5."""
    fleet, group = scaling(name)
    overlay = gpu_node_overlay(fleet, group)
    added = {} if overlay is None else {key: number(value) for key, value in overlay["spec"]["capacity"].items()}
    (job,) = torchrun_job("job", group.pool, node_count=2, image="a:1", command=["train.py"])
    (container,) = containers(job)
    wanted = {key: number(value) if isinstance(value, str) else value for key, value in requests(container).items()}
    assert set(wanted) <= _KNOWN | set(added)
    limits = believed(name, group.max_pods, Fraction(4, 100))
    limits["memory"] -= added.get("hugepages-2Mi", 0)
    assert wanted["memory"] <= limits["memory"]
    assert wanted["cpu"] <= limits["cpu"]
    if name == "p5.48xlarge":
        assert wanted["memory"] > believed(name, group.max_pods, Fraction(75, 1000))["memory"]


def test_the_rules_of_karpenter_in_cel_are_evaluated() -> None:
    """Each of them is broken once here, or says the opposite of a field that every node class has."""
    fleet, group = planned()
    node_class, pool = gpu_node_class(fleet, group, PARTS), gpu_node_pool(fleet, group)
    wrong: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        (node_class, {"role": "a"}, "exactly one of"),
        (node_class, {"networkInterfaces": [_interface(0, 1, "efa-only")]}, "must include a primary interface"),
        (node_class, {"networkInterfaces": [_interface(0, 0), _interface(0, 0)]}, "must not have duplicate"),
        (node_class, {"placementGroupSelector": {"name": "a", "id": "pg-1"}}, "mutually exclusive"),
        (node_class, {"capacityReservationSelectorTerms": [{"ownerID": "111122223333"}]}, "expected at least one"),
        (node_class, {"tags": {"karpenter.sh/nodepool": "a"}}, "restricted tag"),
        (node_class, {"amiSelectorTerms": [{"alias": "al2024@latest"}]}, "family is not supported"),
        (
            node_class,
            {"kubelet": {"evictionSoft": {"memory.available": "1Gi"}, "evictionSoftGracePeriod": {}}},
            "matching",
        ),
        (pool, {"limits": {"nodes": "2", "cpu": "1000"}}, "only 'limits.nodes'"),
        (pool, {"weight": 1}, "'weight' is not supported"),
        (
            pool,
            {"disruption": {"consolidateAfter": "10m", "budgets": [{"nodes": "0", "duration": "8h"}]}},
            "'schedule'",
        ),
    ]
    for item, fields, says in wrong:
        with pytest.raises(WrongObjectsError, match=says):
            check_objects([{**item, "spec": {**item["spec"], **fields}}], NEWEST)


def _interface(card: int, device: int, kind: str = "interface") -> dict[str, Any]:
    return {"networkCardIndex": card, "deviceIndex": device, "interfaceType": kind}


def test_the_kept_schemas_have_karpenters_rules() -> None:
    """As many as the CRDs at the commit in SOURCES.yaml (`grep -c rule:`)."""
    text = {path.name: path.read_text("utf-8") for path in CRDS.glob("karpenter*")}
    counts = {name: yaml.safe_dump(yaml.safe_load(found)).count("rule:") for name, found in text.items()}
    assert counts == {
        "karpenter.k8s.aws_ec2nodeclass.yaml": 54,
        "karpenter.sh_nodeoverlay.yaml": 8,
        "karpenter.sh_nodepool.yaml": 20,
    }
