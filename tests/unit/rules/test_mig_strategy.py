"""How the device plugin shows the GPUs of a node."""

from __future__ import annotations

import pytest

from cdk_gpu_clusters.catalogue import instance_type, instance_types
from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.rules.mig import MigLayout, MigStrategy, choose_strategy, node_resources, plan_mig

P4D = instance_type("p4d.24xlarge")
UNIFORM = plan_mig(P4D, MigLayout("1g.5gb," * 6 + "1g.5gb"))
MIXED = plan_mig(P4D, MigLayout("3g.20gb,2g.10gb,1g.5gb,1g.5gb"))
ONE_WHOLE = plan_mig(P4D, [MigLayout("off"), *[MigLayout("7g.40gb")] * 7])


def test_split_gpus_are_shown_by_their_profiles() -> None:
    assert choose_strategy(UNIFORM) is MigStrategy.MIXED
    assert dict(node_resources(P4D, UNIFORM)) == {"nvidia.com/mig-1g.5gb": 56}
    assert dict(node_resources(P4D, MIXED)) == {
        "nvidia.com/mig-1g.5gb": 16,
        "nvidia.com/mig-2g.10gb": 8,
        "nvidia.com/mig-3g.20gb": 8,
    }
    assert dict(node_resources(P4D, ONE_WHOLE)) == {"nvidia.com/gpu": 1, "nvidia.com/mig-7g.40gb": 7}


def test_strategy_single_shows_equal_slices_as_gpus() -> None:
    assert dict(node_resources(P4D, UNIFORM, MigStrategy.SINGLE)) == {"nvidia.com/gpu": 56}


@pytest.mark.parametrize("plan", [MIXED, ONE_WHOLE])
def test_strategy_single_refuses_slices_that_differ(plan: object) -> None:
    with pytest.raises(ConfigError, match="GPU-MIG-014"):
        choose_strategy(plan, MigStrategy.SINGLE)  # type: ignore[arg-type]


def test_a_strategy_goes_with_split_gpus_alone() -> None:
    for plan, strategy in (
        (None, MigStrategy.MIXED),
        (None, MigStrategy.SINGLE),
        (UNIFORM, MigStrategy.NONE),
    ):
        with pytest.raises(ConfigError, match="GPU-MIG-015"):
            choose_strategy(plan, strategy)


def test_every_accelerated_type_shows_as_many_devices_as_it_has() -> None:
    for record in instance_types().values():
        accelerator, resources = record.accelerator, dict(node_resources(record, None))
        if accelerator is None:
            assert resources == {}
        else:
            assert list(resources.values()) == [accelerator.logical_count]
