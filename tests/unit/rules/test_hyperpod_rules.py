"""What HyperPod takes and refuses, held against the service's own models."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import boto3
import pytest
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER
from hypothesis import given
from hypothesis import strategies as st

from cdk_gpu_clusters.catalogue import instance_type
from cdk_gpu_clusters.catalogue.hyperpod import (
    hyperpod_mig_configurations,
    hyperpod_type_names,
    quota_partitions,
    training_plan_types,
)
from cdk_gpu_clusters.catalogue.instances import instance_type_names
from cdk_gpu_clusters.catalogue.mig import mig_gpu_of, mig_gpus
from cdk_gpu_clusters.errors import Finding, Severity, errors_in
from cdk_gpu_clusters.fleet.instance_group import KNOWN_FAMILIES
from cdk_gpu_clusters.fleet.profile import HYPERPOD_EKS, HYPERPOD_SLURM
from cdk_gpu_clusters.rules.capacity import CapacityKind, CapacityTerms
from cdk_gpu_clusters.rules.hyperpod import (
    MOST_NODES,
    NEAREST,
    GroupOptions,
    MountKind,
    QuotaResource,
    check_accounting,
    check_continuous,
    check_deep_checks,
    check_eks_of_hyperpod,
    check_governance,
    check_group_options,
    check_hyperpod_capacity,
    check_hyperpod_interfaces,
    check_hyperpod_mig,
    check_hyperpod_name,
    check_hyperpod_network,
    check_hyperpod_type,
    check_instance_group,
    check_node_recovery,
    check_not_of_user,
    check_slurm_nodes,
    check_storage,
    check_team_quota,
    check_tiered_checkpoints,
    check_training_plan,
    mig_configuration_of,
    ml_name,
)
from cdk_gpu_clusters.rules.interfaces import InterfacePolicy, Orchestrator, plan_interfaces
from cdk_gpu_clusters.rules.mig import MigLayout, check_mig

CLI = json.loads((Path(__file__).parents[2] / "fixtures" / "hyperpod_cli.json").read_text(encoding="utf-8"))
SERVICE = boto3.client("sagemaker", region_name="us-east-1").meta.service_model
PLAN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/research"


def places(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(one.id, one.path) for one in findings]


def schema_of(name: str) -> dict[str, Any]:
    found: dict[str, Any] = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", f"AWS::SageMaker::{name}").schema
    return found


def test_the_facts_are_those_of_the_service() -> None:
    quota = schema_of("ComputeQuota")["definitions"]
    assert set(quota_partitions()) == set(quota["AcceleratorPartitionConfig"]["properties"]["Type"]["enum"])
    assert set(training_plan_types()) == set(SERVICE.shape_for("ReservedCapacityInstanceType").enum)
    assert set(training_plan_types()) <= hyperpod_type_names()
    group = schema_of("Cluster")["definitions"]["ClusterInstanceGroup"]["properties"]
    assert group["InstanceCount"]["maximum"] == MOST_NODES
    titles = {name.replace("_", "").lower() for name in NEAREST}
    assert not titles & {name.lower() for name in group}, "what HyperPod has is not refused"


def test_the_catalogue_agrees_with_the_cli_of_hyperpod() -> None:
    """Accelerators, EFA interfaces and MIG profiles of each type that both know."""
    known = set(CLI["resources"]) & {ml_name(name) for name in instance_type_names()}
    assert len(known) > 90
    different = {}
    for name in sorted(known):
        record = instance_type(name.removeprefix("ml."))
        kind = None if record.accelerator is None else record.accelerator.kind.value
        count = 0 if record.accelerator is None else record.accelerator.count
        ours = {
            "gpu": count if kind == "gpu" else 0,
            "trainium": count if kind == "neuron" else 0,
            "efa": plan_interfaces(record, orchestrator=Orchestrator.HYPERPOD_SLURM).efa_count,
        }
        if ours != CLI["resources"][name]:
            different[name] = CLI["resources"][name]
    assert different == {"ml.p6e-gb200.36xlarge": {"gpu": 4, "trainium": 0, "efa": 0}}, "the CLI has no EFA there"
    for name, profiles in CLI["mig_profiles"].items():
        gpu = mig_gpu_of(instance_type(name.removeprefix("ml.")))
        assert gpu is not None
        assert {one.removeprefix("mig-") for one in profiles} <= set(gpu.profiles)
        assert (set(profiles) <= set(quota_partitions())) is (name != "ml.p6-b300.48xlarge"), "quotas have none of B300"


@given(st.text(alphabet="aA0-_.", min_size=1, max_size=70))
def test_names_are_those_of_the_service(name: str) -> None:
    shape = SERVICE.shape_for("ClusterInstanceGroupSpecification").members["InstanceGroupName"].metadata
    allowed = re.fullmatch(shape["pattern"], name) is not None and len(name) <= shape["max"]
    assert (not check_hyperpod_name(name, path="")) is allowed


def test_every_configuration_of_the_chart_fits_a_gpu() -> None:
    """Each layout by label is one that MIG has on a type of HyperPod."""
    for name, devices in hyperpod_mig_configurations().items():
        layout = MigLayout([profile for profile, count in devices.items() for _ in range(count)])
        assert mig_configuration_of(layout) == name
        kinds = [
            instance_type(one.removeprefix("ml."))
            for one in sorted(hyperpod_type_names())
            if one.startswith(("ml.p4", "ml.p5", "ml.p6-"))
        ]
        assert any(not errors_in(check_mig(kind, layout)) for kind in kinds), name


@pytest.mark.parametrize(
    ("orchestrator", "policy", "efa", "addresses"),
    [
        # "Prerequisites for using SageMaker HyperPod": 32 and 81 of a p5 node with EFA.
        (Orchestrator.HYPERPOD_SLURM, InterfacePolicy.EFA_PER_CARD, True, 32),
        (Orchestrator.HYPERPOD_EKS, InterfacePolicy.EFA_PER_CARD, True, 81),
        (Orchestrator.HYPERPOD_SLURM, None, True, 1),
        (Orchestrator.HYPERPOD_EKS, None, True, 50),
        (Orchestrator.HYPERPOD_EKS, None, False, 50),
    ],
)
def test_addresses_are_counted_as_hyperpod_counts_them(
    orchestrator: Orchestrator, policy: InterfacePolicy | None, efa: bool, addresses: int
) -> None:
    plan = plan_interfaces("p5.48xlarge", policy=policy, orchestrator=orchestrator, efa=efa)
    assert plan.ip_addresses_per_node == addresses
    assert not plan.may_set_subnet


def test_types() -> None:
    assert not check_hyperpod_type("ml.p5.48xlarge", families=KNOWN_FAMILIES)
    assert not check_hyperpod_type("ml.z9.huge", families=KNOWN_FAMILIES), "a family that nobody knows"
    [fault] = check_hyperpod_type("ml.trn2u.48xlarge", families=KNOWN_FAMILIES)
    assert fault.id == "GPU-HYP-001"


@pytest.mark.parametrize(
    ("terms", "has_plan", "found"),
    [
        (CapacityTerms(kind=CapacityKind.ON_DEMAND), True, []),
        (CapacityTerms(kind=CapacityKind.SPOT), False, []),
        (CapacityTerms(kind=CapacityKind.SPOT), True, [("GPU-HYP-010", "capacity")]),
        (CapacityTerms(kind=CapacityKind.SPOT, max_price_usd_per_hour=1.0), False, [("GPU-HYP-010", "capacity")]),
        (CapacityTerms(kind=CapacityKind.ON_DEMAND, uses_open_reservations=True), False, [("GPU-HYP-010", "capacity")]),
        (CapacityTerms(kind=CapacityKind.RESERVATION, reservation_id="cr-1"), False, [("GPU-HYP-010", "capacity")]),
        (CapacityTerms(kind=CapacityKind.CAPACITY_BLOCK, reservation_id="cr-1"), False, [("GPU-HYP-010", "capacity")]),
    ],
)
def test_capacity(terms: CapacityTerms, has_plan: bool, found: list[tuple[str, str]]) -> None:
    assert places(check_hyperpod_capacity(terms, has_plan=has_plan)) == found


def test_training_plans() -> None:
    assert not check_training_plan(PLAN, "ml.p5.48xlarge", families=KNOWN_FAMILIES)
    assert not check_training_plan(None, "ml.p5.48xlarge", families=KNOWN_FAMILIES)
    wrong = check_training_plan("research", "ml.g6.xlarge", families=KNOWN_FAMILIES)
    assert places(wrong) == [("GPU-HYP-012", "capacity")] * 2


def test_groups() -> None:
    assert not check_instance_group(name="trainers", node_count=4, least_node_count=4)
    wrong = check_instance_group(name="_", node_count=MOST_NODES + 1, least_node_count=MOST_NODES + 2)
    assert places(wrong) == [
        ("GPU-HYP-013", "instance_group_name"),
        ("GPU-HYP-013", "node_count"),
        ("GPU-HYP-013", "least_node_count"),
    ]


def test_options_of_the_other_orchestrator() -> None:
    slurm = GroupOptions(node_type="Compute", partition="train")
    kubernetes = GroupOptions(labels=("a",), taints=("b",), image_release="1.2.3")
    assert not check_group_options(slurm, is_eks=False)
    assert not check_group_options(kubernetes, is_eks=True)
    assert [one.path for one in check_group_options(slurm, is_eks=True)] == ["node_type", "partition"]
    assert [one.path for one in check_group_options(kubernetes, is_eks=False)] == ["labels", "taints", "image_release"]
    wrong = GroupOptions(node_type="Login", partition="-")
    assert places(check_group_options(wrong, is_eks=False)) == [("GPU-HYP-014", "partition")] * 2


def test_storage() -> None:
    mounts = {"/fsx": MountKind.LUSTRE, "/home": MountKind.OPENZFS}
    assert not check_storage(mounts, volume_gib=500, has_key=True)
    many = {**mounts, "/efs": MountKind.OTHER, "/data": MountKind.LUSTRE, "x/": MountKind.LUSTRE}
    assert places(check_storage(many, volume_gib=0)) == [
        ("GPU-HYP-015", "mounts./efs"),
        ("GPU-HYP-015", "mounts./data"),
        ("GPU-HYP-015", "mounts.x/"),
        ("GPU-HYP-015", "mounts.x/"),
        ("GPU-HYP-015", "volume_gib"),
    ]
    assert places(check_storage({}, has_key=True)) == [("GPU-HYP-015", "volume_key")]


def test_mounts_are_for_slurm() -> None:
    """SageMaker AI developer guide, "SageMaker HyperPod references": FSx needs a group of Controller."""
    mounts = {"/fsx": MountKind.LUSTRE, "/home": MountKind.OPENZFS}
    assert not check_storage({}, is_eks=True, volume_gib=500)
    found = check_storage(mounts, is_eks=True)
    assert places(found) == [("GPU-HYP-015", "mounts./fsx"), ("GPU-HYP-015", "mounts./home")]
    assert all("FSx CSI driver" in one.fix for one in found)


@pytest.mark.parametrize(
    ("node_types", "wrong"),
    [
        (["Controller"], False),
        (["Controller", "Login", "Compute", "Compute"], False),
        (["Controller", "Compute", "Controller"], True),
        (["Controller", "Login", "Login"], True),
    ],
)
def test_slurm_has_one_controller_and_one_group_of_login_nodes(node_types: list[str], wrong: bool) -> None:
    found = [("GPU-HYP-014", "node_type")] if wrong else []
    assert places(check_slurm_nodes(node_types)) == found


@pytest.mark.parametrize(
    ("percent", "is_eks", "found"),
    [
        (20, True, []),
        (100, True, []),
        (19, True, [Severity.WARNING]),
        (101, True, [Severity.ERROR]),
        (20, False, [Severity.ERROR]),
    ],
)
def test_tiered_checkpoints(percent: int, is_eks: bool, found: list[Severity]) -> None:
    made = check_tiered_checkpoints(percent, is_eks=is_eks)
    assert [(one.id, one.severity) for one in made] == [("GPU-HYP-029", one) for one in found]
    assert all(one.fix or one.allowed for one in made)


def test_mig_is_by_label() -> None:
    h100 = tuple(mig_gpus()["H100-80GB"].profiles)
    whole = MigLayout(["3g.40gb", "4g.40gb"])
    assert not check_hyperpod_mig([whole, whole], profiles=h100, is_eks=True)
    [unlike] = check_hyperpod_mig([whole, MigLayout(["7g.80gb"])], profiles=h100, is_eks=True)
    assert unlike.id == "GPU-HYP-016"
    assert "all-1g.10gb" in unlike.allowed
    assert "all-1g.5gb" not in unlike.allowed, "of another GPU"
    [slurm] = check_hyperpod_mig(whole, profiles=h100, is_eks=False)
    assert "AWS PCS" in slurm.fix


def test_what_the_service_decides() -> None:
    assert places(check_not_of_user(["node_count", "launch_template", "user_data_parts"])) == [
        ("GPU-HYP-011", "launch_template"),
        ("GPU-HYP-011", "user_data_parts"),
    ]
    assert not check_hyperpod_interfaces(InterfacePolicy.EFA_PER_CARD)
    assert places(check_hyperpod_interfaces(InterfacePolicy.MAXIMUM_ENA_BANDWIDTH)) == [
        ("GPU-HYP-011", "interface_policy")
    ]
    assert not check_hyperpod_network(group_count=5, subnet_count=16)
    assert places(check_hyperpod_network(group_count=6, subnet_count=0)) == [
        ("GPU-HYP-017", "security_groups"),
        ("GPU-HYP-017", "vpc_subnets"),
    ]


def test_deep_checks_recovery_and_accounting() -> None:
    assert not check_deep_checks(instance_type("p5.48xlarge"), ["InstanceStress"], taints=())
    assert places(check_deep_checks(instance_type("m7i.xlarge"), ["InstanceStress"], taints=["a"])) == [
        ("GPU-HYP-018", "deep_health_checks"),
        ("GPU-HYP-018", "taints"),
    ]
    pair = ["InstanceStress", "InstanceConnectivity"]
    assert not check_deep_checks(instance_type("p5.48xlarge"), pair, taints=(), node_count=2)
    [alone] = check_deep_checks(instance_type("p5.48xlarge"), pair, taints=(), node_count=1)
    assert (alone.path, alone.severity) == ("deep_health_checks", Severity.WARNING)
    assert not check_node_recovery(is_automatic=True)
    assert [one.severity for one in check_node_recovery(is_automatic=False)] == [Severity.WARNING]
    assert not check_accounting(is_eks=False, is_continuous=True)
    assert places(check_accounting(is_eks=True, is_continuous=True)) == [("GPU-HYP-019", "accounting_database")]
    [all_at_once] = check_accounting(is_eks=False, is_continuous=False)
    assert all_at_once.fix == "leave continuous_provisioning out"


def test_what_needs_continuous_provisioning() -> None:
    """Amazon SageMaker AI developer guide, pages of Spot Instances and of customer managed keys."""
    assert not check_continuous(is_spot=True, has_key=True, has_least=True, is_continuous=True)
    assert not check_continuous(is_continuous=False)
    assert places(check_continuous(is_spot=True, has_key=True, has_least=True, is_continuous=False)) == [
        ("GPU-HYP-026", "capacity"),
        ("GPU-HYP-026", "volume_key"),
        ("GPU-HYP-026", "least_node_count"),
    ]


def test_quotas() -> None:
    good = [
        QuotaResource(instance_type="p5.48xlarge", node_count=2),
        QuotaResource(instance_type="p4d.24xlarge", mig_profile="3g.20gb", mig_count=4),
    ]
    assert not check_team_quota(team="vision", resources=good, families=KNOWN_FAMILIES, borrow_limit_percent=500)
    bad = [
        QuotaResource(instance_type="trn2u.48xlarge"),
        # B300 has it, and quotas do not.
        QuotaResource(instance_type="p6-b300.48xlarge", mig_profile="1g.34gb", mig_count=-1),
        QuotaResource(instance_type="p5.48xlarge", mig_profile="1g.10gb", accelerators=1),
    ]
    wrong = check_team_quota(
        team="V", resources=bad, families=KNOWN_FAMILIES, fair_share_weight=101, borrow_limit_percent=0
    )
    assert places(wrong) == [
        ("GPU-HYP-020", "team"),
        ("GPU-HYP-020", "fair_share_weight"),
        ("GPU-HYP-020", "borrow_limit_percent"),
        ("GPU-HYP-001", "resources[0].instance_type"),
        ("GPU-HYP-020", "resources[0]"),
        ("GPU-HYP-020", "resources[1]"),
        ("GPU-HYP-020", "resources[1].mig_profile"),
        ("GPU-HYP-020", "resources[2]"),
    ]
    assert places(check_team_quota(team=None, resources=[], families=())) == [("GPU-HYP-020", "resources")]


@pytest.mark.parametrize("name", sorted(CLI["mig_profiles"]))
def test_quotas_name_the_profiles_of_the_type(name: str) -> None:
    """The CLI of HyperPod lists what each type supports; quotas have none of B300."""
    supported = {one for one in CLI["mig_profiles"][name] if one in quota_partitions()}
    taken = {
        one
        for one in quota_partitions()
        if not check_team_quota(
            team=None,
            resources=[QuotaResource(instance_type=name, mig_profile=one.removeprefix("mig-"), mig_count=1)],
            families=KNOWN_FAMILIES,
        )
    }
    assert taken == supported


def test_quotas_of_types_without_mig_name_no_profile() -> None:
    for name, profile in (("g6.12xlarge", "7g.141gb"), ("trn2.48xlarge", "1g.5gb"), ("m7i.large", "1g.5gb")):
        one = QuotaResource(instance_type=name, mig_profile=profile, mig_count=1)
        [finding] = check_team_quota(team=None, resources=[one], families=KNOWN_FAMILIES)
        assert (finding.id, finding.path) == ("GPU-HYP-020", "resources[0].mig_profile")
        assert finding.allowed.startswith("a type whose GPUs MIG splits")
    newer = QuotaResource(instance_type="p9.48xlarge", mig_profile="1g.5gb", mig_count=1)
    assert not check_team_quota(team=None, resources=[newer], families=KNOWN_FAMILIES)


def test_governance_is_for_kubernetes() -> None:
    assert not check_governance(is_eks=None, priorities={"training": 100})
    assert [one.id for one in check_governance(is_eks=False)] == ["GPU-HYP-021"]
    many = {f"p{number}": number for number in range(11)} | {"Upper": 1}
    assert places(check_governance(is_eks=True, priorities=many)) == [
        ("GPU-HYP-022", "priorities"),
        ("GPU-HYP-022", "priorities.Upper"),
    ]


@pytest.mark.parametrize(
    ("version", "is_public", "found"),
    [
        ("1.30", False, []),
        ("1.35", False, []),
        (None, False, []),
        ("1.29", False, ["eks_cluster"]),
        ("1.36", True, ["eks_cluster", "vpc_subnets"]),
    ],
)
def test_clusters_of_eks_that_hyperpod_joins(version: str | None, is_public: bool, found: list[str]) -> None:
    findings = check_eks_of_hyperpod(kubernetes_version=version, is_public=is_public)
    assert [(one.id, one.path, one.severity) for one in findings] == [
        ("GPU-HYP-024", path, Severity.WARNING) for path in found
    ]
    [of_stack] = check_eks_of_hyperpod(kubernetes_version=None, is_public=False, is_in_stack=True)
    assert (of_stack.id, of_stack.path, of_stack.severity) == ("GPU-HYP-024", "eks_cluster", Severity.WARNING)


def test_profiles_of_hyperpod() -> None:
    for profile in (HYPERPOD_EKS, HYPERPOD_SLURM):
        assert profile.joins_hyperpod
        others = (profile.joins_eks, profile.joins_slurm, profile.has_node_group, profile.drains_itself)
        assert others == (False,) * 4
