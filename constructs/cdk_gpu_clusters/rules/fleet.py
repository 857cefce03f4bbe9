"""A fleet's size, hooks, subnets, launch template, root volume and alarms, as far as plain values show."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from cdk_gpu_clusters.errors import Finding, check, define_rule
from cdk_gpu_clusters.rules.capacity import CapacityDecision

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

SIZE_OF_KEPT_GROUP = define_rule(
    "GPU-FLT-025",
    "a group that a state machine keeps to its capacity has at most 500 nodes",
    source='Step Functions developer guide, "Quotas": a task returns at most 262,144 bytes, or the execution ends with '
    "States.DataLimitExceeded; DescribeAutoScalingGroups returns some 400 bytes for an instance",
)
_MOST_KEPT_NODES = 500

# From the drain to the forced stop: 40 to 30 minutes before the end of a block, 70 to 60 for an UltraServer.
BLOCK_DRAIN = timedelta(minutes=10)


@check
def check_size(minimum: int | None, maximum: int | None) -> Iterator[Finding]:
    """Find what is wrong with a fleet's size; None is a bound that was not given."""
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
    """Find a lifecycle-hook time-out that EC2 Auto Scaling would refuse."""
    if not 30 <= seconds <= 7200:
        yield HOOK_TIMEOUT.finding(
            cause=f"{name} is no time-out of a lifecycle hook",
            got=f"{seconds} seconds",
            allowed="30 to 7,200 seconds",
            fix=f"change {name}",
        )


@check
def check_drain_of_block(decision: CapacityDecision, seconds: int) -> Iterator[Finding]:
    """Find a drain that EC2 would cut off at the end of a block."""
    most = int(BLOCK_DRAIN.total_seconds())
    if decision.market_type == "capacity-block" and seconds > most:
        yield DRAIN_OF_BLOCK.finding(
            cause="EC2 terminates a block's instances before the nodes would be drained",
            got=f"{seconds} seconds",
            allowed=f"at most {most} seconds",
            fix="change drain_timeout; let the job write checkpoints before the block ends",
        )


@check
def check_kept_size(maximum: int) -> Iterator[Finding]:
    """Find a group that a state machine could not read.

    Args:
        maximum: Most nodes of a group on reserved capacity, or on capacity with an end.
    """
    if maximum > _MOST_KEPT_NODES:
        yield SIZE_OF_KEPT_GROUP.finding(
            cause="the state machine that keeps the group to its capacity cannot read so many instances at once",
            got=f"{maximum:,} nodes",
            allowed=f"at most {_MOST_KEPT_NODES} nodes",
            fix="make several fleets, each on a part of the capacity",
        )


@check
def check_public_subnet(*, interface_count: int, public: bool) -> Iterator[Finding]:
    """Find nodes with several network interfaces in a public subnet."""
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


# The root volume of a node: what EBS accepts together.

DEFAULT_SIZE_GIB = 200
DEFAULT_IOPS = 3000
DEFAULT_THROUGHPUT_MIB_PER_S = 250

_EBS = 'botocore 1.44.5, EC2 EbsBlockDevice; Amazon EBS user guide, "General Purpose SSD volumes"'

ROOT_SIZE = define_rule("GPU-LT-001", "a gp3 volume has 1 to 65,536 GiB", source=_EBS)
ROOT_IOPS = define_rule("GPU-LT-002", "a gp3 volume has 3,000 to 80,000 IOPS, at most 500 per GiB", source=_EBS)
ROOT_THROUGHPUT = define_rule(
    "GPU-LT-003", "a gp3 volume has 125 to 2,000 MiB/s, at most 0.25 per provisioned IOPS", source=_EBS
)


@check
def check_root_volume(*, size_gib: int, iops: int, throughput_mib_per_s: int) -> Iterator[Finding]:
    """Find what EBS would refuse about a gp3 volume; each finding's path names the value to change."""
    if not 1 <= size_gib <= 65_536:
        yield ROOT_SIZE.finding(
            cause="the root volume cannot have that size",
            got=f"{size_gib} GiB",
            allowed="1 to 65,536 GiB",
            fix="change size_gib",
            path="size_gib",
        )
    most_iops = min(80_000, max(3000, 500 * size_gib))
    if not 3000 <= iops <= most_iops:
        yield ROOT_IOPS.finding(
            cause=f"a {size_gib} GiB gp3 volume cannot have that many IOPS",
            got=str(iops),
            allowed=f"3000 to {most_iops}",
            fix="change iops, or make the volume larger",
            path="iops",
        )
    most_throughput = min(2000, iops // 4)
    if not 125 <= throughput_mib_per_s <= most_throughput:
        yield ROOT_THROUGHPUT.finding(
            cause=f"a gp3 volume with {iops} IOPS cannot have that throughput",
            got=f"{throughput_mib_per_s} MiB/s",
            allowed=f"125 to {most_throughput} MiB/s",
            fix="change throughput_mib_per_s, or raise iops to four times the throughput",
            path="throughput_mib_per_s",
        )


ALARMS = define_rule(
    "GPU-ALM-001",
    "an alarm period and a hook's hold time are within the limits of CloudWatch and EC2 Auto Scaling",
    source="CloudWatch API reference, PutMetricAlarm: at most one day for periods below an hour; EC2 Auto Scaling API "
    "reference, LifecycleHook: GlobalTimeout, at most 48 hours or 100 heartbeat time-outs",
)

EMAIL = define_rule(
    "GPU-ALM-002",
    "alarms are mailed to addresses, each once",
    source="RFC 5321, sections 4.1.2 and 4.5.3.1: one @, a domain, at most 254 characters; Amazon SNS API reference, "
    "Subscribe: ASCII addresses are taken for granted here",
)

_EMAIL = re.compile(r"[!-?A-~]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")
_EMAIL_CHARACTERS = 254
_HOUR_MINUTES, _DAY_MINUTES = 60, 24 * 60
_HOOK_SECONDS, _HOOK_HEARTBEATS = 48 * 60 * 60, 100
_RANGES = (
    ("idle_minutes", 5, _DAY_MINUTES),
    ("abandoned_launches_per_node", 1, 100),
    ("abandoned_within_minutes", 10, _DAY_MINUTES),
    ("inspection_minutes", 0, _HOOK_SECONDS // 60),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmSettings:
    """When a fleet raises its alarms, and whether it stops a launch loop.

    Attributes:
        idle_minutes: How long all GPUs of all nodes are idle before the alarm; None for no such alarm.
        abandoned_launches_per_node: How many launches may be abandoned for each node that the group is short of; then
            launching is suspended.
        abandoned_within_minutes: Within which time. None: an hour, or as long as one more boot than that may take,
            whichever is longer: a node that hangs until its time-out counts, too.
        suspends_launching: Whether launching is suspended then, or only the alarm is raised.
        inspection_minutes: How long a node that fails its boot is kept for people once launching is suspended. It is
            paid for.

    Example:
        >>> AlarmSettings().window_minutes(ready_timeout_seconds=1800)
        120
    """

    idle_minutes: int | None = 60
    abandoned_launches_per_node: int = 3
    abandoned_within_minutes: int | None = None
    suspends_launching: bool = True
    inspection_minutes: int = 120

    def window_minutes(self, *, ready_timeout_seconds: int) -> int:
        """Minutes within which abandoned launches are counted.

        Args:
            ready_timeout_seconds: How long a boot may take.
        """
        if self.abandoned_within_minutes is not None:
            return self.abandoned_within_minutes
        boots = -(-(self.abandoned_launches_per_node + 1) * ready_timeout_seconds // 60)
        return min(max(_HOUR_MINUTES, boots), _DAY_MINUTES)


@check
def check_alarms(settings: AlarmSettings, *, ready_timeout_seconds: int) -> Iterator[Finding]:
    """Find numbers that CloudWatch or Auto Scaling refuses, or that would never be reached.

    Args:
        settings: The settings.
        ready_timeout_seconds: How long a boot may take: the time-out of the launching hook.
    """
    wrong = [
        (name, value, low, high)
        for name, low, high in _RANGES
        if (value := getattr(settings, name)) is not None and not low <= value <= high
    ]
    for name, value, low, high in wrong:
        yield ALARMS.finding(
            cause=f"{name} is out of range", got=str(value), allowed=f"{low} to {high}", path=f"alarms.{name}"
        )
    longest = min(_HOOK_SECONDS, _HOOK_HEARTBEATS * ready_timeout_seconds) - ready_timeout_seconds
    if not wrong and settings.suspends_launching and settings.inspection_minutes * 60 > longest:
        yield ALARMS.finding(
            cause=f"a hook with a time-out of {ready_timeout_seconds} s holds no node that long after its boot",
            got=f"{settings.inspection_minutes} minutes",
            allowed=f"at most {longest // 60} minutes",
            fix="lower inspection_minutes, or raise ready_timeout",
            path="alarms.inspection_minutes",
        )


@check
def check_emails(emails: Sequence[str]) -> Iterator[Finding]:
    """Find addresses that get no mail, get it twice, or are not there."""
    if not emails:
        yield EMAIL.finding(
            cause="no address would be notified",
            got="no address",
            allowed="one address or more",
            fix="give an address",
            path="emails",
        )
        return
    yield from (
        EMAIL.finding(
            cause="not an email address" if emails.index(email) == index else "the address is listed twice",
            got=email,
            allowed="such as operators@example.org, each once",
            fix="correct the address" if emails.index(email) == index else "remove one of the two",
            path=f"emails[{index}]",
        )
        for index, email in enumerate(emails)
        if not _EMAIL.fullmatch(email) or len(email) > _EMAIL_CHARACTERS or emails.index(email) != index
    )
