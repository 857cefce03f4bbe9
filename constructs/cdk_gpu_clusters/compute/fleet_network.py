"""The subnets and security groups of a fleet's nodes; what CDK knows about them is asked for once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from aws_cdk import aws_ec2 as ec2
from constructs import Construct, IDependable

from cdk_gpu_clusters._cdk import cached_per_construct, path_of, report, resolved_or_none, selected_subnets, zone_of
from cdk_gpu_clusters.fleet.plan import FleetPlan
from cdk_gpu_clusters.network.efa_security_group import EfaSecurityGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSubnets:
    """The subnets of a fleet.

    Attributes:
        subnets: Where the nodes are.
        is_public: Whether one of them is a public one.
        is_pending_lookup: Whether the CLI still has to look the network up; nothing is known until then.
    """

    subnets: Sequence[ec2.ISubnet]
    is_public: bool
    is_pending_lookup: bool


_Selections = list[tuple[ec2.SubnetSelection | None, FleetSubnets]]
_SELECTED: WeakKeyDictionary[ec2.IVpc, _Selections] = WeakKeyDictionary()


def select_subnets(vpc: ec2.IVpc, requested: ec2.SubnetSelection | None) -> FleetSubnets:
    """The subnets that a user means; a selection that many fleets share is made once.

    Args:
        vpc: The network.
        requested: The user's selection; the private subnets if left out.
    """
    earlier = _SELECTED.setdefault(vpc, [])
    found = next((subnets for selection, subnets in earlier if selection == requested), None)
    if found is None:
        found = _select(vpc, requested)
        earlier.append((requested, found))
    return found


def zones_of(subnets: Sequence[ec2.ISubnet]) -> set[str]:
    """The zones of subnets, as far as they are known."""
    return {zone for subnet in subnets if (zone := zone_of(subnet)) is not None}


@cached_per_construct
def id_of(subnet: ec2.ISubnet) -> str:
    """The id of a subnet, or a token for it."""
    return subnet.subnet_id


def new_egress_dependency(subnet: ec2.ISubnet) -> IDependable | None:
    """The route of a new subnet to the internet; None for an existing subnet."""
    return None if resolved_or_none(id_of(subnet)) else egress_dependency(subnet)


@cached_per_construct
def egress_dependency(subnet: ec2.ISubnet) -> IDependable:
    """What a subnet's route to the internet depends on."""
    return subnet.internet_connectivity_established


def _select(vpc: ec2.IVpc, requested: ec2.SubnetSelection | None) -> FleetSubnets:
    selected = selected_subnets(vpc, requested or ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS))
    public = {path_of(subnet) for subnet in vpc.public_subnets}
    return FleetSubnets(
        subnets=selected.subnets,
        is_public=any(path_of(subnet) in public for subnet in selected.subnets),
        is_pending_lookup=bool(selected.is_pending_lookup),
    )


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
    scope: Construct, plan: FleetPlan, *, vpc: ec2.IVpc, fabric: ec2.ISecurityGroup | None
) -> list[ec2.ISecurityGroup]:
    """A group for nodes that are in no fabric, since an interface must have one. Only the nodes themselves come in.

    The ranks of a job connect to each other, on ports that the kernel chooses. Ports below 1024, such as that of SSH,
    stay closed. Nodes that run no jobs, or are alone, get no rule.

    Args:
        scope: The fleet.
        plan: What was decided about it.
        vpc: Network.
        fabric: Group of the fabric that the nodes are in.
    """
    if fabric is not None:
        return []
    talks = plan.runs_jobs and plan.maximum != 1
    description = "GPU nodes: only each other" if talks else "GPU nodes: no way in"
    group = ec2.SecurityGroup(scope, "Host", vpc=vpc, description=description)
    if talks:
        group.add_ingress_rule(group, ec2.Port.tcp_range(1024, 65535), "ranks of jobs")
    return [group]
