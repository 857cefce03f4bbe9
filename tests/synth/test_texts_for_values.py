"""Texts and numbers in place of values: taken where they have one meaning, else refused as in a cluster file."""

from __future__ import annotations

from typing import Any

import pytest

from cdk_gpu_clusters import (
    CapacityReservation,
    CheckpointStore,
    ClusterNetwork,
    ConfigError,
    EfaSecurityGroup,
    EksGpuCluster,
    GpuFleet,
    GpuLaunchTemplate,
    InferenceFleet,
    LustreStore,
    NodeUserData,
    PlacementStrategy,
)
from cdk_gpu_clusters._values import values_of
from cdk_gpu_clusters.rules.capacity import CapacityKind
from stack_fixtures import Site


def fleet(site: Site, **options: Any) -> GpuFleet:
    given: dict[str, Any] = {
        "vpc": site.vpc,
        "vpc_subnets": site.one_subnet,
        "instance_type": "p4d.24xlarge",
        "node_count": 2,
    }
    return GpuFleet(site.stack, "Fleet", **(given | options))


def test_words_with_one_meaning_are_taken(site: Site) -> None:
    made = fleet(site, capacity="spot", placement="cluster", update_policy="never-replace")
    assert made.plan.terms.kind is CapacityKind.SPOT
    assert made.plan.new_placement is PlacementStrategy.CLUSTER


@pytest.mark.parametrize("mig", ["3g.20gb,2g.10gb,1g.5gb,1g.5gb", ["3g.20gb"] * 8])
def test_layouts_are_taken_as_in_a_cluster_file(site: Site, mig: Any) -> None:
    assert fleet(site, capacity="on-demand", efa=False, mig=mig).plan.mig is not None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"capacity": "reserved"}, r".* got 'reserved'; allowed: Capacity.on_demand"),
        ({"placement": "together"}, r".* PlacementStrategy.CLUSTER or "),
        ({"node_count": "4"}, r".* fix: write node_count=4"),
        ({"node_count": True}, r""),
        ({"efa": "yes"}, r".* fix: write efa=True"),
        ({"scratch": 1}, r""),
        ({"metadata_users": "ubuntu"}, r".* fix: write metadata_users=\['ubuntu'\]"),
        ({"ready_timeout": "30m"}, r".* cdk.Duration.minutes\(30\)"),
        ({"ready_timeout": 1800}, r".* cdk.Duration"),
        ({"environment": "A=b"}, r".* a mapping of str to str"),
        ({"mounts": "/fsx"}, r".* a mapping of"),
        ({"root_volume": "500"}, r".* RootVolume"),
        ({"fabric": "sg-0123456789abcdef0"}, r".* an object of ec2.ISecurityGroup"),
    ],
)
def test_other_texts_are_refused_at_the_construct(site: Site, options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=rf"^GPU-ARG-001: Site/Fleet\.{next(iter(options))}: .*{says}"):
        fleet(site, **options)


def test_all_are_refused_at_once(site: Site) -> None:
    with pytest.raises(ConfigError) as caught:
        fleet(site, node_count="4", capacity="reserved", efa="no")
    assert [one.path for one in caught.value.findings] == [
        "Site/Fleet.node_count",
        "Site/Fleet.capacity",
        "Site/Fleet.efa",
    ]


def test_a_wrong_layout_gives_the_error_of_a_cluster_file(site: Site) -> None:
    with pytest.raises(ConfigError, match="GPU-MIG-002"):
        fleet(site, efa=False, mig="1g 5gb")


@pytest.mark.parametrize(
    ("construct", "options", "keyword"),
    [
        (GpuLaunchTemplate, {"instance_type": "g6.xlarge", "efa": "no"}, "efa"),
        (ClusterNetwork, {"availability_zone": "us-east-1a", "egress": "vpn"}, "egress"),
        (EfaSecurityGroup, {"vpc": "vpc-0123456789abcdef0"}, "vpc"),
        (CheckpointStore, {"expire_after": 30}, "expire_after"),
        (LustreStore, {"storage_capacity_gib": "1200"}, "storage_capacity_gib"),
        (CapacityReservation, {"instance_type": "g6.xlarge", "instance_count": "2"}, "instance_count"),
        (EksGpuCluster, {"kubernetes_version": 1.34}, "kubernetes_version"),
        (InferenceFleet, {"instance_type": "g6.xlarge", "min_node_count": "1"}, "min_node_count"),
        (NodeUserData, {"instance_type": "g6.xlarge", "orchestrator": "ec3"}, "orchestrator"),
    ],
)
def test_every_kind_of_construct_refuses_them(
    site: Site, construct: Any, options: dict[str, Any], keyword: str
) -> None:
    with pytest.raises(ConfigError, match=rf"GPU-ARG-001: Site/X\.{keyword}: "):
        construct(site.stack, "X", **options)


def test_tokens_and_values_pass() -> None:
    given = {"a": "${Token[TOKEN.1]}", "b": 4, "c": PlacementStrategy.SPREAD, "d": ["x"], "e": 2}
    annotations = {"a": "int", "b": "int | None", "c": "PlacementStrategy", "d": "Sequence[str]", "e": "float"}
    assert values_of(annotations, given) == (given, [])
