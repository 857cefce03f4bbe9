"""Fleets refuse keywords that they do not have, though they take those of a `TypedDict`."""

from typing import Any

import pytest

from cdk_gpu_clusters import (
    EksGpuNodeGroup,
    GpuFleet,
    InferenceFleet,
    ModelServer,
    NodeRole,
    NodeUserData,
    Orchestrator,
)
from node_groups import existing_cluster
from stack_fixtures import Site


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
