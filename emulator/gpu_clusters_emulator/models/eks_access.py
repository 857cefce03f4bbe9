"""What EKS refuses in access entries and pod identity associations beyond their schemas.

Sources, read 2026-11-22: EKS API model (botocore 1.44.5), CreateAccessEntry, AssociateAccessPolicy and
CreatePodIdentityAssociation; Amazon EKS user guide (awsdocs/amazon-eks-user-guide @ 4d52b4d), "Grant IAM users access
to Kubernetes with EKS access entries". Wordings of the service: terraform-aws-modules/terraform-aws-eks issues 2969,
3048 and 3293, hashicorp/terraform-provider-aws issue 36447, aws/eks-distro issue 2805.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..faults import Fault
from ..world import ACCESS_ENTRY, POD_IDENTITY
from .eks_clusters import authentication_mode, missing_cluster_faults
from .eks_roles import role_faults

if TYPE_CHECKING:
    from ..world import World

_PRINCIPAL = re.compile(r"arn:aws[\w-]*:iam::(\d{12}):(role|user)/.+")
_POLICY = re.compile(r"arn:aws[\w-]*:eks::aws:cluster-access-policy/\w+")
_STANDARD = "STANDARD"
_NODE_TYPES = ("EC2_LINUX", "EC2_WINDOWS", "FARGATE_LINUX", "HYBRID_LINUX", "HYPERPOD_LINUX")
_AUTO_MODE = "EC2"
_RESERVED_NAMES = ("system:", "eks:", "aws:", "amazon:", "iam:")


def access_entry_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    """Faults of an `AWS::EKS::AccessEntry`."""
    yield from missing_cluster_faults(properties, world)
    cluster = world.cluster(properties["ClusterName"])
    if cluster is not None and authentication_mode(cluster.properties) == "CONFIG_MAP":
        needed = "must be set to one of [API, API_AND_CONFIG_MAP] to perform this operation"
        yield Fault(
            check="access-mode", message=f"The cluster's authentication mode {needed}.", path="ClusterName"
        )
    yield from _principal_faults(properties, world)
    yield from _type_faults(properties)
    for position, policy in enumerate(properties.get("AccessPolicies", [])):
        yield from _policy_faults(policy, f"AccessPolicies/{position}")


def pod_identity_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    """Faults of an `AWS::EKS::PodIdentityAssociation`."""
    yield from missing_cluster_faults(properties, world)
    yield from role_faults(properties["RoleArn"], "pods.eks", "the role", world, "RoleArn")
    keys = ("ClusterName", "Namespace", "ServiceAccount")
    wanted = [properties[key] for key in keys]
    if any([one.properties[key] for key in keys] == wanted for one in world.of_type(POD_IDENTITY)):
        message = f"the service account {wanted[2]} in {wanted[1]} has an association already"
        yield Fault(check="pod-identity-twice", message=message, path="ServiceAccount")
    if "Policy" in properties and properties.get("DisableSessionTags") is not True:
        message = "a policy needs DisableSessionTags set to true"
        yield Fault(check="pod-identity-policy", message=message, path="Policy")


def _principal_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    arn, path = properties["PrincipalArn"], "PrincipalArn"
    found = _PRINCIPAL.fullmatch(arn)
    kind = properties.get("Type", _STANDARD)
    if found is None:
        message = f"The specified principalArn is invalid: invalid principal. Got {arn!r}"
        yield Fault(check="access-principal", message=message, path=path)
        return
    if ":role/aws-service-role/" in arn:
        message = "not allowed to modify access entries with a principalArn value of a Service Linked Role"
        yield Fault(check="access-principal", message=message, path=path)
    if kind != _STANDARD and (found[1], found[2]) != (world.account, "role"):
        message = f"the principal of an entry of type {kind} is a role of the cluster's account, got {arn}"
        yield Fault(check="access-principal", message=message, path=path)
    cluster = properties["ClusterName"]
    nodes = {one.properties["NodeRole"] for one in world.node_groups(cluster)}
    if arn in nodes or any(
        (one.properties["ClusterName"], one.properties["PrincipalArn"]) == (cluster, arn)
        for one in world.of_type(ACCESS_ENTRY)
    ):
        message = f"The specified access entry resource is already in use on this cluster: {arn}"
        yield Fault(check="access-twice", message=message, path=path)


def _type_faults(properties: dict[str, Any]) -> Iterator[Fault]:
    kind = properties.get("Type", _STANDARD)
    if kind not in (_STANDARD, _AUTO_MODE, *_NODE_TYPES):
        message = f"{kind!r} is not one of {', '.join((_STANDARD, *_NODE_TYPES, _AUTO_MODE))}"
        yield Fault(check="access-type", message=message, path="Type")
        return
    if kind in _NODE_TYPES:
        for name in ("KubernetesGroups", "AccessPolicies"):
            if properties.get(name):
                message = f"an entry of type {kind} takes no {name}: EKS gives nodes what they need"
                yield Fault(check="access-type", message=message, path=name)
    username = properties.get("Username", "")
    if kind == _STANDARD and username.startswith(_RESERVED_NAMES):
        message = f"it can't start with {', '.join(_RESERVED_NAMES)}, got {username!r}"
        yield Fault(check="access-username", message=message, path="Username")


def _policy_faults(policy: dict[str, Any], path: str) -> Iterator[Fault]:
    if not _POLICY.fullmatch(policy["PolicyArn"]):
        message = f"{policy['PolicyArn']!r} is not the ARN of an access policy of EKS"
        yield Fault(check="access-policy", message=message, path=f"{path}/PolicyArn")
    scope = policy["AccessScope"]
    if (scope["Type"] == "namespace") != bool(scope.get("Namespaces")):
        message = f"namespaces stand with the scope namespace, and only there, got {scope}"
        yield Fault(check="access-scope", message=message, path=f"{path}/AccessScope")
