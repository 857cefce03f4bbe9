"""The add-ons of a cluster for GPU nodes: which, in which order, and the settings that differ from EKS's own.

An add-on is set only where its default is wrong here: EKS refuses a setting that a version of the add-on does not know.

What needs no setting: DaemonSets of the EBS, FSx and S3 drivers and of the node monitoring agent tolerate every taint,
by the values of their charts (kubernetes-sigs/aws-ebs-csi-driver @ 006340e,
kubernetes-sigs/aws-fsx-csi-driver @ 05bcb51, awslabs/mountpoint-s3-csi-driver @ 016097c,
aws/eks-node-monitoring-agent @ 0040fd7, read 2026-11-22). The controllers of the drivers, CoreDNS and the metrics
server run as Deployments that tolerate no taint of nodes with accelerators, so that they stay on the system nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from cdk_gpu_clusters.errors import Finding, define_rule
from cdk_gpu_clusters.rules.kubernetes_labels import TAINTS

ADD_ON_NAME = define_rule(
    "GPU-EKS-026",
    "A setting of an add-on names one that the cluster has",
    source="this library: catalogue/data/kubernetes.json, add_ons",
)

S3_DRIVER = "aws-mountpoint-s3-csi-driver"
#: Before the first node: without the CNI no node becomes ready, and the CNI takes its permissions by Pod Identity.
BEFORE_NODES = ("vpc-cni", "kube-proxy", "eks-pod-identity-agent")
#: After the system nodes, which hold their Deployments.
AFTER_NODES = (
    "coredns",
    "metrics-server",
    "eks-node-monitoring-agent",
    "aws-ebs-csi-driver",
    "aws-fsx-csi-driver",
    S3_DRIVER,
)

#: Addresses that the CNI takes for pods when a node joins, and those that it keeps free beyond. Its default is a whole
#: further interface: 100 addresses of a p5 at once, so that a /18 would be empty after 160 nodes. What the two settings
#: do together: aws/amazon-vpc-cni-k8s @ 02013f6, README (read 2026-11-22). The numbers are this library's: about eight
#: pods of DaemonSets, and a dozen of work.
MINIMUM_IP_TARGET = 20
WARM_IP_TARGET = 4

_CONFIGURATIONS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "vpc-cni": {
            "env": {"MINIMUM_IP_TARGET": str(MINIMUM_IP_TARGET), "WARM_IP_TARGET": str(WARM_IP_TARGET)}
        },
        # The agent tolerates every taint, but its DCGM server, which looks at the GPUs, none: values of its chart,
        # `dcgmAgent.tolerations: []` (aws/eks-node-monitoring-agent @ 0040fd7, read 2026-11-22).
        "eks-node-monitoring-agent": {
            "dcgmAgent": {
                "tolerations": [
                    {"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in TAINTS.values()
                ]
            }
        },
    }
)


def add_on_configuration(name: str) -> Mapping[str, Any] | None:
    """Settings of an add-on, or None where its defaults are right.

    Example:
        >>> add_on_configuration("vpc-cni")
        {'env': {'MINIMUM_IP_TARGET': '20', 'WARM_IP_TARGET': '4'}}
    """
    return _CONFIGURATIONS.get(name)


def check_add_on_names(names: Iterable[str], known: Sequence[str], *, path: str) -> list[Finding]:
    """Find settings of add-ons that the cluster does not have.

    Args:
        names: Names that were given.
        known: Names of its add-ons.
        path: The setting.
    """
    return [
        ADD_ON_NAME.finding(
            cause="the cluster has no such add-on of its own",
            got=name,
            allowed=", ".join(known),
            fix="correct the name; others are defined by add_add_on(...)",
            path=path,
        )
        for name in names
        if name not in known
    ]
