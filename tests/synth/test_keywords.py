"""Fleets refuse keywords that they do not have, though they take those of a `TypedDict`."""

from typing import Any

import pytest

from cdk_gpu_clusters import (
    EksGpuNodeGroup,
    GpuFleet,
    GpuFleetProps,
    InferenceFleet,
    ModelServer,
    NodeRole,
    NodeUserData,
    Orchestrator,
)
from node_groups import existing_cluster
from stack_fixtures import Site, SiteFactory


def test_an_unknown_keyword_is_named(site: Site) -> None:
    misspelt: dict[str, Any] = {"instance_type": "g6.xlarge", "node_cuont": 2}
    with pytest.raises(TypeError, match=r"GpuFleet\(\) got an unexpected keyword argument 'node_cuont'"):
        GpuFleet(site.stack, "Fleet", vpc=site.vpc, **misspelt)
    server = ModelServer(image="vllm/vllm-openai:v0.11.0")
    with pytest.raises(TypeError, match=r"InferenceFleet\(\) got .* 'node_cuont'"):
        InferenceFleet(site.stack, "Chat", vpc=site.vpc, server=server, min_node_count=2, **misspelt)
    cluster = existing_cluster(site)
    with pytest.raises(TypeError, match=r"EksGpuNodeGroup\(\) got .* 'node_cuont'"):
        EksGpuNodeGroup(site.stack, "Group", cluster=cluster, **misspelt)
    with pytest.raises(TypeError, match=r"EksGpuNodeGroup\(\) got .* 'node_cuont'"):
        cluster.add_gpu_node_group("Added", **misspelt)
    of_pcs: dict[str, Any] = {"orchestrator": Orchestrator.PCS, "role": NodeRole(site.stack, "Role")}
    with pytest.raises(TypeError, match=r"NodeUserData\(\) got .* 'node_cuont'"):
        NodeUserData(site.stack, "Nodes", **of_pcs, **misspelt)


def test_keywords_of_one_kind_of_fleet_are_none_of_another(site: Site) -> None:
    foreign: dict[str, Any] = {"labels": {"team": "a"}}
    with pytest.raises(TypeError, match="'labels'"):
        GpuFleet(site.stack, "Fleet", vpc=site.vpc, instance_type="g6.xlarge", node_count=1, **foreign)


def test_none_stands_for_a_keyword_that_is_left_out(make_site: SiteFactory) -> None:
    plain, given = make_site(), make_site()
    GpuFleet(plain.stack, "Fleet", vpc=plain.vpc, instance_type="g6.xlarge", node_count=1)
    names = [name for name in GpuFleetProps.__optional_keys__ if name not in {"node_count", "alarms"}]
    nothing: dict[str, Any] = dict.fromkeys(names)
    GpuFleet(given.stack, "Fleet", vpc=given.vpc, instance_type="g6.xlarge", node_count=1, **nothing)
    assert plain.template()["Resources"] == given.template()["Resources"]
