"""Variables of NCCL and measured bandwidths: each with a source, for types that exist."""

from __future__ import annotations

import json
import re

import pytest

from cdk_gpu_clusters.catalogue import instance_type, instance_types
from cdk_gpu_clusters.catalogue.nccl import all_reduce_bandwidths, nccl_variables, node_all_reduce
from cdk_gpu_clusters.node.settings import NodeSettings, default_nccl_environment


def test_everything_has_a_dated_source() -> None:
    sources = [*(one.source for one in nccl_variables()), *(one.source for one in all_reduce_bandwidths())]
    assert all(re.search(r"\(20\d\d-\d\d\)", source) for source in sources)
    assert all(variable.why for variable in nccl_variables())


def test_families_and_types_exist() -> None:
    families = {one.family for one in instance_types().values()}
    assert {family for one in nccl_variables() for family in one.families or ()} <= families
    for row in all_reduce_bandwidths():
        assert instance_type(row.instance_type).network.efa is not None


# awslabs/awsome-distributed-ai: efa-cheatsheet.md and the tests of AWS PCS, @ 95b939c.
@pytest.mark.parametrize(
    ("family", "efa", "expected"),
    [
        ("p5", 32, {"FI_PROVIDER": "efa", "NCCL_SOCKET_IFNAME": "^docker,lo,veth"}),
        ("g6", 0, {"NCCL_SHM_USE_CUDA_MEMCPY": "1", "NCCL_SOCKET_IFNAME": "^docker,lo,veth"}),
        (None, 0, {"NCCL_SOCKET_IFNAME": "^docker,lo,veth"}),
    ],
)
def test_variables_of_a_node(family: str | None, efa: int, expected: dict[str, str]) -> None:
    settings = NodeSettings(
        fleet_name="f",
        accelerator_kind="gpu",
        accelerator_count=4,
        instance_family=family,
        efa_interface_count=efa,
    )
    assert default_nccl_environment(settings) == expected


def test_nodes_get_the_measurements() -> None:
    rows = {(row["instance_type"], row["nodes"], row["size_gib"]): row for row in json.loads(node_all_reduce())}
    assert rows["p6-b200.48xlarge", 4, 16]["gbytes_per_s"] == 377
    assert rows["p6-b300.48xlarge", 2, 64]["gbytes_per_s"] == 751
