"""What EKS refuses in an add-on beyond its schema.

Sources, read 2026-11-22: EKS API model (botocore 1.44.5), CreateAddon; wording of the service: aws/containers-roadmap
issue 1429. The add-ons of the catalogue are known, which are not all that EKS has. Add-ons whose pods are replicas
stay DEGRADED, and their creation times out, where no node takes them: maddevsio/aws-eks-base issue 112 and
pulumi/pulumi-eks issue 1819 (coredns), hashicorp-education/learn-terraform-provision-eks-cluster issue 108
(aws-ebs-csi-driver), eksctl-io/eksctl issue 6954 (aws-efs-csi-driver), aws-ia/terraform-aws-eks-blueprints-addons issue
335 (snapshot-controller); of metrics-server and aws-fsx-csi-driver it is inferred, since their charts have a
Deployment. CloudFormation makes what does not depend on each other in any order: here an add-on must come after the
nodes that it needs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cdk_gpu_clusters.catalogue.kubernetes import add_ons

from ..faults import Fault
from ..node_groups import group_behind
from .eks_clusters import missing_cluster_faults
from .eks_roles import role_faults

if TYPE_CHECKING:
    from ..world import Resource, World

_OF_REPLICAS = frozenset(
    {
        "aws-ebs-csi-driver",
        "aws-efs-csi-driver",
        "aws-fsx-csi-driver",
        "coredns",
        "metrics-server",
        "snapshot-controller",
    }
)


def add_on_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    """Faults of an `AWS::EKS::Addon`."""
    yield from missing_cluster_faults(properties, world)
    yield from _configuration_faults(properties.get("ConfigurationValues"))
    if "ServiceAccountRoleArn" in properties:
        yield from role_faults(properties["ServiceAccountRoleArn"], "", "", world, "ServiceAccountRoleArn")
    for position, one in enumerate(properties.get("PodIdentityAssociations", [])):
        path = f"PodIdentityAssociations/{position}/RoleArn"
        yield from role_faults(one["RoleArn"], "pods.eks", "the role", world, path)
    name = properties["AddonName"]
    known = [one.name for one in add_ons()]
    if name not in known:
        message = f"Addon {name!r} specified is not supported; the emulator knows {', '.join(known)}"
        yield Fault(check="add-on-unknown", message=message, path="AddonName")
    nodes = [one for one in world.node_groups(properties["ClusterName"]) if _takes_pods(one, world)]
    if name in _OF_REPLICAS and not nodes:
        message = (
            f"InsufficientNumberOfReplicas: {name} needs nodes without taints, and the cluster has none yet; let the "
            "add-on depend on the node group that it runs on"
        )
        yield Fault(check="add-on-nodes", message=message, path="AddonName")


def _takes_pods(node_group: Resource, world: World) -> bool:
    taints = node_group.properties.get("Taints", [])
    is_open = all(one["Effect"] == "PREFER_NO_SCHEDULE" for one in taints)
    return is_open and bool(group_behind(world, node_group).instances)


def _configuration_faults(text: str | None) -> Iterator[Fault]:
    """Faults of values in JSON; those in YAML are taken as they are."""
    if text is None or not text.lstrip().startswith("{"):
        return
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        message = f"ConfigurationValues cannot be read: {error}"
        yield Fault(check="add-on-configuration", message=message, path="ConfigurationValues")
