"""Variables that do harm: which interfaces NCCL would take on a node, and in a container of Amazon ECS."""

from __future__ import annotations

import pytest

from cdk_gpu_clusters.catalogue.nccl import awsvpc_variables
from cdk_gpu_clusters.node.settings import NodeSettings, check_settings
from cdk_gpu_clusters.rules.harmful_variables import check_variable

NAME = "NCCL_SOCKET_IFNAME"


@pytest.mark.parametrize(
    ("value", "on_nodes", "in_tasks"),
    [
        # NVIDIA NCCL user guide: a list of prefixes, of whole names after `=`; `^` leaves out what follows.
        ("eth0", True, False),
        ("=eth0", True, False),
        ("eth1", True, True),
        ("ens", False, True),
        ("ecs,eth", False, True),
        ("^docker,lo,veth", False, True),
        ("^lo,docker", False, True),
        ("^lo,docker,ecs", False, False),
        ("^=ecs-eth0,lo", False, False),
        ("^=ecs,lo", False, True),
        ("^e", False, True),
    ],
)
def test_a_list_of_interfaces_that_does_harm(value: str, on_nodes: bool, in_tasks: bool) -> None:
    assert bool(check_variable(NAME, value)) is on_nodes
    found = check_variable(NAME, value, in_task=True)
    assert bool(found) is in_tasks
    assert {one.id for one in found} <= {"GPU-UD-004"}


def test_the_fix_for_jobs_of_aws_batch_is_what_its_jobs_get() -> None:
    [ours] = [one.value for one in awsvpc_variables() if one.name == NAME]
    assert check_variable(NAME, ours, in_task=True) == []
    given = {NAME: "^docker,lo,veth"}
    [found] = check_settings(NodeSettings(fleet_name="trainers", orchestrator="batch", nccl_environment=given))
    assert ours in found.fix
    assert check_settings(NodeSettings(fleet_name="trainers", orchestrator="ec2", nccl_environment=given)) == []


def test_other_variables_do_the_same_harm_in_tasks() -> None:
    assert [one.id for one in check_variable("NCCL_PROTO", "simple", in_task=True)] == ["GPU-UD-004"]
