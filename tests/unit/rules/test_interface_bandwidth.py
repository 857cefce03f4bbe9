"""What bandwidth a set of cards gives."""

import pytest

from cdk_gpu_clusters.catalogue import instance_type
from cdk_gpu_clusters.rules.interfaces import efa_gbps_of, ena_gbps_of


@pytest.mark.parametrize(
    ("name", "cards", "gbps"),
    [
        ("p5.48xlarge", [], 0),
        ("p5.48xlarge", [0], 100),
        ("p5.48xlarge", [0, 0, 4], 200),
        ("p5.48xlarge", range(32), 3200),
        ("p6-b200.48xlarge", range(4), 1600),
        ("p6-b300.48xlarge", [1], 400),
        ("p6e-gb200.36xlarge", [1], 400),
        ("p6e-gb200.36xlarge", [1, 3], 400),  # two cards of one GPU
        ("p6e-gb200.36xlarge", [1, 2], 400),  # two cards of one port
        ("p6e-gb200.36xlarge", [2], 200),
        ("p6e-gb200.36xlarge", [1, 5], 800),
        ("p6e-gb200.36xlarge", range(1, 16, 2), 1600),  # eight at 200 Gbps, as AWS's page has it
        ("g6e.48xlarge", range(4), 400),
        ("g6e.48xlarge", [0], None),  # no source splits the ceiling between the cards
        ("g5.xlarge", [0], 0),
    ],
)
def test_efa_bandwidth(name: str, cards: list[int], gbps: float | None) -> None:
    assert efa_gbps_of(instance_type(name), list(cards)) == gbps


@pytest.mark.parametrize(
    ("name", "cards", "gbps"),
    [
        ("p5.48xlarge", [0], 100),
        ("p5.48xlarge", [0, 4, 8, 12, 16, 20, 24, 28], 800),
        ("p5.48xlarge", range(32), 800),  # the IP ceiling
        ("p5.48xlarge", [0, 4], None),
        ("p6-b300.48xlarge", range(17), 3870),
        ("p4d.24xlarge", range(4), None),
    ],
)
def test_ip_bandwidth(name: str, cards: list[int], gbps: float | None) -> None:
    assert ena_gbps_of(instance_type(name), list(cards)) == gbps
