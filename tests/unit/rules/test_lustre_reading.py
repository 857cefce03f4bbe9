"""What a node can read from Lustre: the least of its network and of what the service gives one client."""

from __future__ import annotations

from typing import Any

import pytest

from cdk_gpu_clusters.catalogue import instance_type
from cdk_gpu_clusters.rules.lustre_clients import node_reading_rate


@pytest.mark.parametrize(
    ("name", "options", "mb_per_s", "interfaces", "basis"),
    [
        # 8 interfaces of 100 Gbps are 800; one client gets 700: 700 / 8 = 87.5 GB/s
        ("p5.48xlarge", {"over_efa": True}, 87_500, 8, "700 Gbps: one client over EFA, unverified"),
        # 512 nodes share 1,024 connections, two each: 2 x 100 Gbps
        (
            "p5.48xlarge",
            {"over_efa": True, "node_count": 512},
            25_000,
            2,
            "200 Gbps: 2 EFA interfaces of the node",
        ),
        ("g6e.12xlarge", {"over_efa": True}, 12_500, 1, "100 Gbps: 1 EFA interface of the node"),
        ("p5.48xlarge", {"over_efa": False}, 12_500, 0, "100 Gbps: the node's primary interface"),
        ("p5en.48xlarge", {"over_efa": False}, 12_500, 0, "100 Gbps: one client over TCP, unverified"),
        ("m8g.4xlarge", {"over_efa": False}, 1_875, 0, "15 Gbps: the node's primary interface"),
        (
            "m8g.4xlarge",
            {"over_efa": False, "object_servers": 2},
            1_250,
            0,
            "5 Gbps from each of 2 object servers over TCP, unverified",
        ),
        (
            "m8g.4xlarge",
            {"over_efa": False, "object_servers": 1},
            625,
            0,
            "5 Gbps from the object server over TCP, unverified",
        ),
        (
            "m8g.4xlarge",
            {"over_efa": False, "object_servers": 40},
            1_875,
            0,
            "15 Gbps: the node's primary interface",
        ),
    ],
)
def test_the_least_of_all_limits(
    name: str, options: dict[str, Any], mb_per_s: float, interfaces: int, basis: str
) -> None:
    found = node_reading_rate(instance_type(name), **options)
    assert (found.mb_per_s, found.efa_interfaces, found.basis) == (mb_per_s, interfaces, basis)


def test_a_network_that_no_source_tells_is_unknown() -> None:
    found = node_reading_rate(instance_type("g6e.48xlarge"), over_efa=False)
    assert found.mb_per_s is None
    assert found.basis == "no source gives the bandwidth of the node's primary interface"
