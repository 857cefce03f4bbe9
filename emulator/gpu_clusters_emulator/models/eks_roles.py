"""What EKS asks of the IAM roles that it is given.

A role that no stack made is not known here, and only its ARN is looked at. Wording of the service: eksctl-io/eksctl
issue 3290; pod identity: EKS API model (botocore 1.44.5), CreatePodIdentityAssociation, and CDK's own check. Read
2026-11-22.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..faults import Fault

if TYPE_CHECKING:
    from ..world import World

_ROLE = re.compile(r"arn:aws[\w-]*:iam::\d{12}:role/.+")


def role_faults(arn: str, service: str, name: str, world: World, path: str) -> Iterator[Fault]:
    """Faults of a role that a service must be able to assume.

    Args:
        arn: What stands in the template.
        service: Who assumes it, without the domain: `eks`, `ec2`, `pods.eks`; empty where the cluster's OpenID Connect
            provider does.
        name: What EKS calls the role.
        world: The account.
        path: The property.
    """
    if not _ROLE.fullmatch(arn):
        yield Fault(check="eks-role", message=f"{arn!r} is not the ARN of an IAM role", path=path)
        return
    for role in world.of_type("AWS::IAM::Role"):
        if role.attributes.get("Arn") != arn or not service:
            continue
        wanted = f"{service}.amazonaws.com"
        if not any(one.removesuffix(".cn") == wanted for one in _trusted(role.properties)):
            message = (
                f"Following required service principals [{wanted}] were not found in the trust relationships of "
                f"{name} {arn}"
            )
            yield Fault(check="eks-role-trust", message=message, path=path)


def _trusted(role: dict[str, Any]) -> Iterator[str]:
    for statement in role["AssumeRolePolicyDocument"].get("Statement", []):
        principal = statement.get("Principal", {})
        services = principal.get("Service", []) if isinstance(principal, dict) else []
        yield from [services] if isinstance(services, str) else services
