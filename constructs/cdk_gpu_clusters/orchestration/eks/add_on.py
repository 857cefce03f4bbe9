"""One add-on of EKS."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct


def eks_add_on(
    scope: Construct,
    construct_id: str,
    *,
    cluster_name: str,
    name: str,
    version: str | None = None,
    configuration: Mapping[str, Any] | None = None,
    service_account_roles: Mapping[str, str] | None = None,
) -> eks.CfnAddon:
    """Define an add-on.

    Args:
        scope: Parent construct.
        construct_id: Id in the scope.
        cluster_name: Name of the cluster.
        name: Name of the add-on.
        version: Its version; the default one of the cluster's Kubernetes version if left out.
        configuration: Its settings.
        service_account_roles: ARN of the role that the pods of a service account get from EKS Pod Identity.
    """
    return eks.CfnAddon(
        scope,
        construct_id,
        cluster_name=cluster_name,
        addon_name=name,
        addon_version=version,
        configuration_values=json.dumps(configuration, sort_keys=True) if configuration else None,
        pod_identity_associations=[
            eks.CfnAddon.PodIdentityAssociationProperty(service_account=account, role_arn=role)
            for account, role in (service_account_roles or {}).items()
        ]
        or None,
        # What the template says wins over what somebody changed by kubectl.
        resolve_conflicts="OVERWRITE",
    )
