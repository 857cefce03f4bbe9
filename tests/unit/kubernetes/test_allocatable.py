"""What nodes leave to pods, held against nodes that somebody has listed."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from cdk_gpu_clusters.catalogue import instance_type, instance_types
from cdk_gpu_clusters.kubernetes.gpu_pod import allocatable
from kubernetes_pools import pool_of


class Listed(NamedTuple):
    """A node as `kubectl describe node` showed it: what is allocatable."""

    instance_type: str
    efa: bool
    cpu_millicores: int
    memory_kib: int
    huge_pages_mib: int


LISTED = [
    # AWS blog on MIG in P4d instances on Amazon EKS (2021).
    Listed("p4d.24xlarge", efa=False, cpu_millicores=95_690, memory_kib=1_156_853_548, huge_pages_mib=10_562),
    # awslabs/awsome-distributed-ai @ 95b939c, 3.test_cases/megatron/nemo1.0/EKS and mosaicml-composer/stable-diffusion.
    Listed("p4de.24xlarge", efa=True, cpu_millicores=95_690, memory_kib=1_146_004_920, huge_pages_mib=21_122),
    Listed("p5.48xlarge", efa=True, cpu_millicores=191_450, memory_kib=2_052_371_068, huge_pages_mib=42_242),
]


@pytest.mark.parametrize("node", LISTED, ids=lambda one: one.instance_type)
def test_pods_ask_for_no_more_than_a_listed_node_had_and_leave_room_for_add_ons(node: Listed) -> None:
    room = allocatable(pool_of(node.instance_type, efa=node.efa))
    assert 400 <= node.cpu_millicores - room.cpu_millicores <= 600
    spare_mib = node.memory_kib / 1024 - room.memory_mib
    # Not too little either: a GPU node is paid for.
    assert 2048 <= spare_mib <= 0.03 * node.memory_kib / 1024
    assert room.huge_pages_mib <= node.huge_pages_mib


def test_every_type_leaves_something_and_less_than_it_has() -> None:
    for name, record in instance_types().items():
        room = allocatable(pool_of(name))
        if record.accelerator is not None:
            assert room.cpu_millicores >= 1000, name
            assert room.memory_mib >= record.memory_mib // 2, name
        assert room.cpu_millicores < record.vcpus * 1000
        assert room.memory_mib < record.memory_mib


def test_huge_pages_are_asked_for_with_efa_alone_and_never_more_than_small_nodes_have() -> None:
    assert allocatable(pool_of("p5.48xlarge")).huge_pages_mib == 5120
    assert allocatable(pool_of("p5.48xlarge", efa=False)).huge_pages_mib == 0
    # 55 pages of 2 MiB for each of its 16 vCPUs, as the older of the listed nodes have them.
    assert allocatable(pool_of("p5.4xlarge")).huge_pages_mib == 1760
    for name, record in instance_types().items():
        assert allocatable(pool_of(name)).huge_pages_mib % 2 == 0, name
        assert allocatable(pool_of(name)).huge_pages_mib <= record.vcpus * 110, name


def test_huge_pages_are_kept_back_on_types_with_efa_even_where_it_is_not_used() -> None:
    assert allocatable(pool_of("p4d.24xlarge", efa=False)).memory_mib == allocatable(pool_of("p4d.24xlarge")).memory_mib
    assert not instance_type("g5.xlarge").supports_efa
