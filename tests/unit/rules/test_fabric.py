"""Which instance types can share EFA traffic."""

import pytest

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.fabric import check_efa_group, check_fabric


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ([], []),
        (["p5.48xlarge"], []),
        (["p5.48xlarge", "p5en.48xlarge", "g6e.48xlarge"], []),
        (["p4d.24xlarge", "p4d.24xlarge"], []),
        (["p4d.24xlarge", "p5.48xlarge"], ["GPU-FAB-001"]),
        (["trn1.32xlarge", "p4de.24xlarge"], ["GPU-FAB-001"]),
        (["p4d.24xlarge", "p4de.24xlarge"], ["GPU-FAB-002"]),
        (["p4d.24xlarge", "p4de.24xlarge", "p5.48xlarge"], ["GPU-FAB-001", "GPU-FAB-002"]),
        (["p4d.24xlarge", "g5.xlarge"], []),  # no EFA on g5.xlarge, so no EFA traffic either
    ],
)
def test_types_that_exchange_no_efa_traffic_share_no_fabric(types: list[str], expected: list[str]) -> None:
    assert [finding.id for finding in check_fabric(types)] == expected


def test_what_no_source_settles_is_a_warning() -> None:
    (finding,) = check_fabric(["p4d.24xlarge", "p4de.24xlarge"])
    assert finding.severity is Severity.WARNING


@pytest.mark.parametrize(
    ("types", "zones", "subnets", "expected"),
    [
        (["p5.48xlarge"], ["us-east-1a"], ["subnet-1"], []),
        (["p5.48xlarge"], ["us-east-1a", "us-east-1a"], ["subnet-1", "subnet-1"], []),
        (["p5.48xlarge", "p5en.48xlarge"], [], [], ["GPU-FAB-005"]),
        (["p5.48xlarge"], ["us-east-1a", "us-east-1b"], [], ["GPU-FAB-003"]),
        (["p5.48xlarge"], [], ["subnet-1", "subnet-2"], ["GPU-FAB-004"]),
        (
            ["p4d.24xlarge", "p5.48xlarge"],
            ["use1-az1", "use1-az2"],
            ["subnet-1", "subnet-2"],
            ["GPU-FAB-001", "GPU-FAB-003", "GPU-FAB-004", "GPU-FAB-005"],
        ),
    ],
)
def test_an_efa_group_is_one_type_in_one_subnet(
    types: list[str], zones: list[str], subnets: list[str], expected: list[str]
) -> None:
    assert sorted(f.id for f in check_efa_group(types, zones=zones, subnets=subnets)) == expected
