"""Labels and taints of GPU nodes."""

from __future__ import annotations

import re

from cdk_gpu_clusters.catalogue import instance_type, instance_types
from cdk_gpu_clusters.kubernetes.node_pool import node_pool
from cdk_gpu_clusters.rules.kubernetes_labels import node_labels, node_taints
from cdk_gpu_clusters.rules.mig import MigLayout, MigStrategy

# Kubernetes documentation, "Labels and Selectors", "Syntax and character set".
KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


def test_labels_and_taints_of_every_type_are_ones_that_kubernetes_takes() -> None:
    for record in instance_types().values():
        labels = node_labels(record, fleet="trainers", efa_count=4, mig_strategy=MigStrategy.NONE)
        for key, value in labels.items():
            assert KEY.fullmatch(key), (record.name, key)
            assert VALUE.fullmatch(value), (record.name, value)
        for taint in node_taints(record):
            assert KEY.fullmatch(taint.key)


def test_a_pool_says_what_its_nodes_have() -> None:
    pool = node_pool(
        "serving",
        instance_type="p4d.24xlarge",
        node_count=2,
        efa=False,
        mig=MigLayout("1g.5gb," * 6 + "1g.5gb"),
    )

    assert pool.labels["gpu-cluster/mig-strategy"] == "mixed"
    assert pool.labels["nvidia.com/device-plugin.config"] == "mig-mixed"
    assert pool.labels["gpu-cluster/gpu"] == "A100"
    assert "gpu-cluster/efa-count" not in pool.labels
    assert [taint.key for taint in pool.taints] == ["nvidia.com/gpu"]
    assert pool.node_selector == {"gpu-cluster/fleet": "serving"}


def test_nodes_without_accelerators_carry_no_taint() -> None:
    assert node_taints(instance_type("m7i.large")) == ()
    assert [taint.key for taint in node_taints(instance_type("trn1.32xlarge"))] == ["aws.amazon.com/neuron"]
