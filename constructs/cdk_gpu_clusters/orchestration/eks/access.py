"""Who may do what in a cluster of EKS: access entries, never a ConfigMap.

Roles of managed node groups need none from here: EKS makes their entries itself. Source: Amazon EKS user guide, "Create
access entries" (awsdocs/amazon-eks-user-guide @ 1b1d3df, read 2026-11-22).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from cdk_gpu_clusters._accepted import named_resource
from cdk_gpu_clusters._cdk import partition_of, stack_of

#: Who gets access: a role, a user, or the ARN of one.
Principal = iam.IRole | iam.IUser | str


class ClusterAccess:
    """Grants of a cluster. An identity has one access entry; each further grant adds a policy to it."""

    @property
    def cluster_name(self) -> str:
        """Name of the cluster."""
        raise NotImplementedError

    def grant_admin(self, principal: Principal) -> eks.CfnAccessEntry:
        """Grant permission for everything in the cluster.

        Args:
            principal: A role or a user, or the ARN of one.

        Returns:
            The identity's access entry.
        """
        return self._grant(principal, "AmazonEKSClusterAdminPolicy", ())

    def grant_edit(self, principal: Principal, *, namespaces: Sequence[str] = ()) -> eks.CfnAccessEntry:
        """Grant permission to run and change workloads, and to read their secrets.

        Args:
            principal: A role or a user, or the ARN of one.
            namespaces: Where; everywhere if left out.

        Returns:
            The identity's access entry.
        """
        return self._grant(principal, "AmazonEKSEditPolicy", namespaces)

    def grant_view(self, principal: Principal, *, namespaces: Sequence[str] = ()) -> eks.CfnAccessEntry:
        """Grant permission to view workloads, without secrets.

        Args:
            principal: A role or a user, or the ARN of one.
            namespaces: Where; everywhere if left out.

        Returns:
            The identity's access entry.
        """
        return self._grant(principal, "AmazonEKSViewPolicy", namespaces)

    def _grant(self, principal: Principal, policy: str, namespaces: Sequence[str]) -> eks.CfnAccessEntry:
        arn = _arn_of(principal)
        scopes = self._policies.setdefault(arn, {})
        # An entry has each policy once: everywhere, or in some namespaces.
        everywhere = not namespaces or scopes.get(policy) == ()
        scopes[policy] = () if everywhere else tuple(dict.fromkeys([*scopes.get(policy, ()), *namespaces]))
        policies: list[cdk.IResolvable | eks.CfnAccessEntry.AccessPolicyProperty] = [
            _access_policy(self._scope, name, names) for name, names in scopes.items()
        ]
        if arn in self._entries:
            self._entries[arn].access_policies = policies
        else:
            self._entries[arn] = eks.CfnAccessEntry(
                self._entry_scope,
                _id(self._scope, arn),
                cluster_name=self.cluster_name,
                principal_arn=arn,
                access_policies=policies,
                type="STANDARD",
            )
        return self._entries[arn]

    @property
    def _scope(self) -> Construct:
        assert isinstance(self, Construct)  # noqa: S101 - a mixin of constructs
        return self

    @cached_property
    def _entry_scope(self) -> Construct:
        return Construct(self._scope, "Access")

    @cached_property
    def _entries(self) -> dict[str, eks.CfnAccessEntry]:
        return {}

    @cached_property
    def _policies(self) -> dict[str, dict[str, tuple[str, ...]]]:
        return {}


def _arn_of(principal: Principal) -> str:
    if isinstance(principal, str):
        return principal
    return principal.user_arn if hasattr(principal, "user_arn") else principal.role_arn


def _access_policy(
    scope: Construct, name: str, namespaces: Sequence[str]
) -> eks.CfnAccessEntry.AccessPolicyProperty:
    partition = partition_of(stack_of(scope))
    return eks.CfnAccessEntry.AccessPolicyProperty(
        policy_arn=f"arn:{partition}:eks::aws:cluster-access-policy/{name}",
        access_scope=eks.CfnAccessEntry.AccessScopeProperty(
            type="namespace" if namespaces else "cluster",
            namespaces=list(namespaces) or None,
        ),
    )


def _id(scope: Construct, arn: str) -> str:
    """An id that follows from the identity, also where its ARN is a token."""
    return named_resource(scope, arn).removeprefix("Resource::").replace("/", ".")
