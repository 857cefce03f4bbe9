"""The security groups of a fleet's nodes."""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from cdk_gpu_clusters._cdk import report
from cdk_gpu_clusters.fleet.plan import FleetPlan
from cdk_gpu_clusters.network.efa_security_group import EfaSecurityGroup


def join_fabric(
    scope: Construct, plan: FleetPlan, *, vpc: ec2.IVpc, fabric: ec2.ISecurityGroup | None
) -> ec2.ISecurityGroup | None:
    """The group in which the nodes exchange EFA traffic: the one given, or a new one where they have EFA.

    Args:
        scope: The fleet.
        plan: What was decided about it.
        vpc: Network.
        fabric: The user's group, None for a new one.
    """
    joined = fabric or (EfaSecurityGroup(scope, "Fabric", vpc=vpc) if plan.efa else None)
    if isinstance(joined, EfaSecurityGroup):
        report(scope, joined.admit(plan.instance_type))
    return joined


def host_groups(
    scope: Construct, *, vpc: ec2.IVpc, fabric: ec2.ISecurityGroup | None
) -> list[ec2.ISecurityGroup]:
    """A group without ingress, for nodes that are in no fabric; an interface must have a group."""
    if fabric is not None:
        return []
    return [ec2.SecurityGroup(scope, "Host", vpc=vpc, description="GPU nodes: no way in")]
