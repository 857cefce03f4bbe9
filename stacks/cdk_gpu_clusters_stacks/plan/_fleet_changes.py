"""What changes in the stacks of a fleet and of its reservation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cdk_gpu_clusters.catalogue import AcceleratorKind
from cdk_gpu_clusters_stacks.spec.capacity import NewReservation
from cdk_gpu_clusters_stacks.spec.fleet import AlarmsSpec, FleetSpec
from cdk_gpu_clusters_stacks.spec.inference import InferenceFleetSpec
from cdk_gpu_clusters_stacks.stack_names import capacity_stack

from ._compare import Made, Words, compare
from ._sides import (
    SCHEMA,
    Side,
    block_of,
    bought,
    own_placement,
    script_of,
    servers_of,
    subnets_of,
    tags_of,
    told_of_store,
    vpc_of,
)
from .change_model import Change

LAUNCH_TEMPLATE = "AWS::EC2::LaunchTemplate"
GROUP = "AWS::AutoScaling::AutoScalingGroup"
PLACEMENT_GROUP = "AWS::EC2::PlacementGroup"
RESERVATION = "AWS::EC2::CapacityReservation"
SECURITY_GROUP = "AWS::EC2::SecurityGroup"
RULES = "AWS::EC2::SecurityGroupIngress"
STATE_MACHINE = "AWS::StepFunctions::StateMachine"

_OF_LAUNCHES = {
    "abandoned_launches_per_node": 0,
    "abandoned_within_minutes": 0,
    "suspends_launching": False,
    "inspection_minutes": 0,
}
_ROLLING = "running nodes are replaced one at a time (update: rolling)"
_NEVER = (
    "running nodes stay as they are; nodes that are launched later follow the new template (update: never)"
)
PLACEMENT_WORDS = Words(
    replaced="another group is made; EC2 deletes the old one only when it is empty, so it may be left behind",
    added="a group is made for nodes that are launched from now on",
    removed="EC2 deletes a group only when it is empty, so it may be left behind",
    nodes="running nodes stay where they are, outside the new placement",
    source='EC2 user guide, "Delete a placement group"; ' + SCHEMA.format(PLACEMENT_GROUP),
)
_RESERVATION_WORDS = Words(
    updated="the reservation changes in place; EC2 refuses more instances where there is no capacity",
    replaced="a new reservation is made first, for which capacity must be there, then the old one is cancelled: "
    "both bill meanwhile",
    nodes="running nodes go on at the on-demand rate when their reservation is cancelled",
    source='EC2 user guide, "Cancel a Capacity Reservation"; ' + SCHEMA.format(RESERVATION),
)


def fleet_changes(before: Side, after: Side) -> Iterator[Change]:
    """What changes in the stack of a fleet."""
    stack, rolling = after.plan.stack_name, after.view.spec.update == "rolling"
    template = _template(before), _template(after)
    nodes = _ROLLING if rolling else _NEVER
    yield from compare(
        stack,
        LAUNCH_TEMPLATE,
        template,
        Words(
            updated="a new version of the template",
            nodes=nodes,
            source="EC2 API, CreateLaunchTemplateVersion",
        ),
    )
    yield from compare(stack, GROUP, (_group(before), _group(after)), _group_words(before, after))
    place = f"{after.key}.placement"
    yield from compare(
        stack,
        PLACEMENT_GROUP,
        (own_placement(before), own_placement(after)),
        PLACEMENT_WORDS,
        replacing=frozenset([place]),
    )
    yield from compare(
        stack,
        STATE_MACHINE,
        (block_of(before), block_of(after)),
        Words(
            updated="what grows and drains the fleet follows the new start, end or size",
            added="the fleet grows and drains with its block from now on",
            removed="nothing drains the fleet at the end of a block any more",
            nodes="a block that is delivered keeps its nodes until the new end",
            source="docs/capacity.md, Capacity Blocks",
        ),
    )
    yield from security_group_changes(before, after)
    yield from alarm_changes(before, after)
    yield from _loop_changes(before, after)


def alarm_changes(before: Side, after: Side) -> Iterator[Change]:
    """Alarms, and whom they tell."""
    stack, key, sides = after.plan.stack_name, f"{after.key}.alarms", (before, after)
    specs = [side.view.spec.alarms for side in sides]
    yield from compare(
        stack,
        "AWS::CloudWatch::Alarm",
        ({key: _raised(side)} if side.view.spec.alarms.enabled else None for side in sides),
        Words(
            updated="when alarms are raised, or whom they tell, changes in place",
            added="the fleet raises alarms from now on",
            removed="the fleet raises no alarms any more",
        ),
    )
    yield from compare(
        stack,
        "AWS::SNS::Topic",
        ({key: True} if one.enabled and one.emails else None for one in specs),
        Words(
            added="each address confirms the topic by a link first", removed="nobody is told by mail any more"
        ),
    )


def _loop_changes(before: Side, after: Side) -> Iterator[Change]:
    """What stops a launch loop."""
    key, specs = f"{after.key}.alarms", [side.view.spec.alarms for side in (before, after)]
    yield from compare(
        after.plan.stack_name,
        STATE_MACHINE,
        ({key: True} if one.enabled and one.suspends_launching else None for one in specs),
        Words(added="a launch loop is stopped from now on", removed="nothing stops a launch loop any more"),
    )


def _raised(side: Side) -> AlarmsSpec:
    """When a fleet raises alarms: only GPUs tell how long they stand idle, and no node group of its launches."""
    alarms, accelerator = side.view.spec.alarms, side.view.type.accelerator
    if accelerator is None or accelerator.kind is not AcceleratorKind.GPU:
        alarms = alarms.model_copy(update={"idle": False, "idle_minutes": 0})
    return alarms.model_copy(update=_OF_LAUNCHES) if side.view.on_eks else alarms


def _inspection_minutes(side: Side) -> int:
    """How long a node that fails is kept for people; it stands in the node's settings."""
    alarms = side.view.spec.alarms
    return alarms.inspection_minutes if alarms.enabled and alarms.suspends_launching else 0


def capacity_changes(before: Side, after: Side) -> Iterator[Change]:
    """What changes in the stack of a fleet's new reservation."""
    stack = capacity_stack(after.cluster.name, after.plan.name)
    sides = _reservation(before), _reservation(after)
    key = after.key
    replacing = frozenset([f"{key}.instance_type", "network.availability_zone", f"{key}.placement"])
    yield from compare(stack, RESERVATION, sides, _RESERVATION_WORDS, replacing=replacing)
    groups = [
        {f"{key}.placement": True} if side.plan.placement.is_made_here else None for side in (before, after)
    ]
    yield from compare(stack, PLACEMENT_GROUP, groups, PLACEMENT_WORDS)


def _template(side: Side) -> Made:
    """What a launch template is made from."""
    spec, plan, key = side.view.spec, side.plan, side.key
    made: dict[str, Any] = {
        "instance_type": plan.node.instance_type,
        "capacity": bought(side),
        "placement": (plan.placement.strategy, plan.placement.group_name, plan.placement.is_made_here),
        "image": plan.image,
        "root_volume": plan.node.root_volume,
        "efa": plan.node.network.efa_interface_count > 0,
        "interface_policy": plan.node.network.policy,
        "fabric": plan.fabric,
        "mig": None if side.view.mig is None else side.view.mig.partition,
        "fabric_manager_order": None if side.view.mig is None else spec.fabric_manager_order,
        "mounts": [(mount, told_of_store(side.cluster, mount.store)) for mount in plan.mounts],
        "checkpoints": None if plan.checkpoints is None else told_of_store(side.cluster, plan.checkpoints),
        "scratch": plan.node.local_disks,
        "watch": spec.watch,
        "evidence_bucket": spec.evidence_bucket,
        "alarms": _inspection_minutes(side),
    }
    if isinstance(spec, FleetSpec):
        made |= {"environment": spec.environment, "user_data": script_of(spec)}
    else:
        balancer = spec.load_balancer
        made |= {
            "server": spec.server,
            "devices_per_server": plan.servers and plan.servers.servers,
            "min_servers_per_node": plan.servers and plan.servers.minimum_servers,
            "ready_timeout_seconds": spec.ready_timeout_seconds,
            "load_balancer.idle_timeout_seconds": balancer.idle_timeout_seconds,
            "load_balancer.drain_timeout_seconds": balancer.drain_timeout_seconds,
        }
    return {**{f"{key}.{name}": value for name, value in made.items()}, **tags_of(side)}


def _group(side: Side) -> Made:
    """What an Auto Scaling group is made from."""
    spec, plan, key = side.view.spec, side.plan, side.key
    made: dict[str, Any] = {
        "nodes": (plan.nodes_at_deploy, plan.maximum_nodes),
        "capacity": plan.capacity.terminates_before_launch,
        "update": spec.update,
    }
    if isinstance(spec, InferenceFleetSpec):
        made |= {
            "ready_timeout_seconds": spec.ready_timeout_seconds,
            "load_balancer.drain_timeout_seconds": spec.load_balancer.drain_timeout_seconds,
        }
    return {
        **{f"{key}.{name}": value for name, value in made.items()},
        **subnets_of(side, plan.subnets),
        **tags_of(side),
    }


def _group_words(before: Side, after: Side) -> Words:
    least = after.plan.minimum_nodes - before.plan.minimum_nodes
    most = after.plan.maximum_nodes - before.plan.maximum_nodes
    nodes = ""
    if after.plan.capacity.size_changes_after_deploy:
        nodes = "the size of a group on a block is set when the block is delivered, never by a deployment"
    elif least > 0:
        nodes = f"{least} more nodes are launched"
    elif most < 0:
        nodes = f"nodes above {after.plan.maximum_nodes:,} are drained and terminated; EC2 Auto Scaling chooses which"
    return Words(
        updated="the group changes in place",
        nodes=nodes,
        source="EC2 Auto Scaling API, UpdateAutoScalingGroup",
    )


def security_group_changes(before: Side, after: Side) -> Iterator[Change]:
    """A fleet without EFA has a security group of its own, and the rules between it and what it mounts."""
    stack, sides = after.plan.stack_name, (before, after)
    yield from compare(
        stack,
        SECURITY_GROUP,
        ({f"{side.key}.efa": True, **vpc_of(side)} if side.plan.fabric is None else None for side in sides),
        Words(
            replaced="another group is made in the other VPC",
            added="the fleet gets a security group of its own",
            removed="the fleet's own security group goes, once no node uses it",
            source=SCHEMA.format(SECURITY_GROUP),
        ),
        replacing=frozenset(["network.vpc_id", f"{after.key}.efa"]),
    )
    yield from compare(
        stack,
        RULES,
        ({f"{side.key}.mounts": _servers(side)} if side.plan.fabric is None else {} for side in sides),
        Words(
            updated="rules between the fleet and the servers of what it mounts come and go",
            source=SCHEMA.format(RULES),
        ),
    )


def _servers(side: Side) -> Any:
    """Whom the rules of a fleet name."""
    names = sorted(set(side.view.spec.mounts.values()))
    return [(name, servers_of(side.cluster, name)) for name in names]


def _reservation(side: Side) -> Made:
    spec, key = side.view.spec, side.key
    options = spec.capacity.new_reservation if isinstance(spec.capacity, NewReservation) else None
    return {
        f"{key}.instance_type": spec.instance_type,
        f"{key}.nodes": spec.maximum_nodes,
        f"{key}.capacity": options,
        f"{key}.placement": side.plan.placement.is_made_here,
        "network.availability_zone": side.cluster.network.availability_zone,
    }
