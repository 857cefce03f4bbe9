"""A fleet's size, hooks, subnets and launch template, as far as plain values show."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from cdk_gpu_clusters.errors import Finding, check, define_rule
from cdk_gpu_clusters.rules.capacity import CapacityDecision

# The size, the hooks and the subnets of a fleet, as far as plain values tell.

_CARDS_PAGE = 'AWS EC2 user guide, "Maximize network bandwidth on Amazon EC2 instances with multiple network cards"'

FLEET_SIZE = define_rule(
    "GPU-FLT-001", "a fleet has at least one node, and a minimum not above its maximum", source="design"
)
EFA_PUBLIC_SUBNET = define_rule(
    "GPU-FLT-003", "nodes with several interfaces are in a private subnet", source=_CARDS_PAGE
)
HOOK_TIMEOUT = define_rule(
    "GPU-FLT-005",
    "a lifecycle hook waits 30 to 7,200 seconds",
    source="EC2 Auto Scaling guide, lifecycle hooks",
)

DRAIN_OF_BLOCK = define_rule(
    "GPU-FLT-007",
    "a block's nodes are drained before EC2 terminates them",
    source="EC2 Auto Scaling guide, Capacity Blocks: a terminating hook must finish before the forced stop",
)

# From the drain to the forced stop: 40 to 30 minutes before the end of a block, 70 to 60 for an UltraServer.
BLOCK_DRAIN = timedelta(minutes=10)


@check
def check_size(minimum: int | None, maximum: int | None) -> Iterator[Finding]:
    """Find what is wrong with a fleet's size.

    Args:
        minimum: Least nodes, None if not given.
        maximum: Most nodes, None if not given.
    """
    if minimum is None or maximum is None or not 0 <= minimum <= maximum or maximum < 1:
        yield FLEET_SIZE.finding(
            cause="that is not a size of a fleet",
            got=f"{_or_nothing(minimum)} to {_or_nothing(maximum)} nodes",
            allowed="node_count of 1 or more, or 0 <= min_node_count <= max_node_count",
            fix="give node_count, or both min_node_count and max_node_count, as numbers: a CloudFormation "
            "parameter is not known when the fleet is planned",
        )


@check
def check_timeout(name: str, seconds: int) -> Iterator[Finding]:
    """Find a lifecycle-hook time-out that EC2 Auto Scaling would refuse.

    Args:
        name: Name of the value, for the message.
        seconds: Time-out in seconds.
    """
    if not 30 <= seconds <= 7200:
        yield HOOK_TIMEOUT.finding(
            cause=f"{name} is no time-out of a lifecycle hook",
            got=f"{seconds} seconds",
            allowed="30 to 7,200 seconds",
            fix=f"change {name}",
        )


@check
def check_drain_of_block(decision: CapacityDecision, seconds: int) -> Iterator[Finding]:
    """Find a drain that EC2 would cut off at the end of a block.

    Args:
        decision: What follows from the capacity.
        seconds: Time-out of the terminating hook.
    """
    most = int(BLOCK_DRAIN.total_seconds())
    if decision.drain_before_end is not None and seconds > most:
        yield DRAIN_OF_BLOCK.finding(
            cause="EC2 terminates a block's instances before the nodes would be drained",
            got=f"{seconds} seconds",
            allowed=f"at most {most} seconds",
            fix="change drain_timeout; let the job write checkpoints before the block ends",
        )


@check
def check_public_subnet(*, interface_count: int, public: bool) -> Iterator[Finding]:
    """Find nodes with several network interfaces in a public subnet.

    Args:
        interface_count: Network interfaces of a node.
        public: Whether the subnet gives its instances public addresses.
    """
    if interface_count > 1 and public:
        yield EFA_PUBLIC_SUBNET.finding(
            cause=f"EC2 gives no public address to a node with {interface_count} network interfaces, so that "
            "in a public subnet it reaches nothing",
            got="a public subnet",
            allowed="a private subnet with a NAT gateway or endpoints",
            fix="choose a private subnet, or switch EFA off",
        )


def _or_nothing(value: int | None) -> str:
    return "nothing" if value is None else str(value)


# Zones that reserved capacity asks of a fleet.

RESERVATION_ZONE = define_rule(
    "GPU-FLT-004",
    "a fleet runs in the zone of its reservation",
    source='AWS EC2 user guide, "On-Demand Capacity Reservations"',
)
RESERVED_ONE_ZONE = define_rule(
    "GPU-FLT-006", "a reserved fleet runs in one zone", source="EC2 Auto Scaling guide, Capacity Blocks"
)


# What a launch template asks of its security groups and its orchestrator.

EFA_WITHOUT_GROUP = define_rule(
    "GPU-LT-004",
    "EFA interfaces carry a security group that allows all traffic with itself",
    source='AWS EC2 user guide, "Elastic Fabric Adapter for AI/ML and HPC workloads on Amazon EC2"',
)
NO_SECURITY_GROUP = define_rule(
    "GPU-LT-005",
    "every interface names its security groups",
    source="a default group admits other traffic",
)
SUBNET_IN_TEMPLATE = define_rule(
    "GPU-LT-006",
    "the orchestrator, not the launch template, names the subnet",
    source="Amazon EKS CreateNodegroup reference; EC2 Auto Scaling VPCZoneIdentifier",
)
