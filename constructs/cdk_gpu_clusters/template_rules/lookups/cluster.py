"""What a template is for: whether it launches accelerated nodes, and whether these are nodes of Kubernetes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cdk_gpu_clusters.template_rules.case import Case, Resource, Value
from cdk_gpu_clusters.template_rules.choices import Undecidable
from cdk_gpu_clusters.template_rules.lookups.file_systems import FILE_SYSTEM, is_lustre
from cdk_gpu_clusters.template_rules.lookups.groups import (
    AUTO_SCALING_GROUP,
    COMPUTE_ENVIRONMENT,
    EKS_NODE_GROUP,
    HYPERPOD,
    PCS_NODE_GROUP,
)
from cdk_gpu_clusters.template_rules.lookups.launches import (
    Launch,
    launches,
    looks_accelerated,
    own_types_of,
    user_data_of,
    values_at,
)
from cdk_gpu_clusters.template_rules.rule import NotApplicable


def has_accelerated_nodes(case: Case) -> bool | None:
    """Whether a template launches accelerated nodes, or makes a Lustre file system; None if it leaves that open."""
    if case.resources(HYPERPOD) or any(map(is_lustre, case.resources(FILE_SYSTEM))):
        return True
    answers = [_is_accelerated(value) for value in _instance_types(case)]
    if any(answers):
        return True
    return None if None in answers or not answers else False


def _is_accelerated(value: Value) -> bool | None:
    try:
        return looks_accelerated(value)
    except Undecidable:
        return None


def _instance_types(case: Case) -> Iterator[Value]:
    for launch in launches(case):
        yield from launch.instance_types()
    for group in case.resources(EKS_NODE_GROUP, PCS_NODE_GROUP, COMPUTE_ENVIRONMENT):
        yield from own_types_of(group)
    for configuration in case.resources("AWS::AutoScaling::LaunchConfiguration"):
        yield configuration.get("InstanceType")


def network_of_cluster(network: Resource) -> Resource:
    """The same network, if accelerated nodes use it.

    Raises:
        NotApplicable: If the nodes beside it are plain ones.
        Undecidable: If the template does not show it: networks are often templates of their own.
    """
    accelerated = has_accelerated_nodes(network.case)
    if accelerated is None:
        raise network.properties.undecidable("the template does not show whether GPU nodes use the network")
    if not accelerated:
        raise NotApplicable
    return network


def part_of_cluster(resource: Resource) -> Resource:
    """The same resource.

    Raises:
        NotApplicable: If its template shows no accelerated nodes, and no Lustre file system.
    """
    if not has_accelerated_nodes(resource.case):
        raise NotApplicable
    return resource


# nodeadm's configuration, the script of Amazon Linux 2, and the settings of Bottlerocket.
_JOINS = re.compile(r"node\.eks\.aws|/etc/eks/bootstrap\.sh|nodeadm|settings\.kubernetes|kubeadm join")
# How the cloud provider of Kubernetes finds the resources of a cluster.
_TAG = "kubernetes.io/cluster/"
_TAGS = "TagSpecifications/*/Tags/*/Key"


def is_kubernetes_node(launch: Launch) -> bool:
    """Whether what is launched joins a Kubernetes cluster: by EKS, by a tag, or by its user data.

    Raises:
        Undecidable: If only user data that the template does not hold would tell.
    """
    users = [use.resource for use in launch.uses()]
    if any(user.type == EKS_NODE_GROUP for user in users):
        return True
    groups = [user for user in users if user.type == AUTO_SCALING_GROUP]
    tags = [
        *values_at(launch.data, _TAGS),
        *(key for group in groups for key in values_at(group.properties, "Tags/*/Key")),
    ]
    if any((key.template_text() or "").startswith(_TAG) for key in tags):
        return True
    return launch.data.get("UserData").exists and _JOINS.search(user_data_of(launch).text) is not None
