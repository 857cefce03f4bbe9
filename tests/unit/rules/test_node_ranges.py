"""Node ranges of multi-node jobs: every node is named, and no other one."""

from __future__ import annotations

import pytest

from cdk_gpu_clusters.rules.node_ranges import check_node_ranges


@pytest.mark.parametrize(
    "ranges", [["0:7"], [":"], ["0:"], [":7"], ["0", "1:7"], ["0:3", "4:"], ["0:5", "3:7"]], ids=str
)
def test_ranges_that_name_every_node(ranges: list[str]) -> None:
    assert check_node_ranges(8, ranges) == []


@pytest.mark.parametrize(
    "ranges", [[], ["0:3"], ["1:7"], ["0:2", "4:7"], ["0:8"], ["0:7", "8"], ["all"], ["5:2"]], ids=str
)
def test_ranges_that_leave_nodes_out_or_name_others(ranges: list[str]) -> None:
    (finding,) = check_node_ranges(8, ranges)
    assert finding.id == "GPU-BAT-003"
    assert "8 nodes" in finding.got
