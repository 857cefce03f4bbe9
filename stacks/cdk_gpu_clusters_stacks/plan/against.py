"""What deploying a cluster file does to a cluster that was deployed from another one. No CDK: the rules know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cdk_gpu_clusters.errors import raise_for
from cdk_gpu_clusters_stacks.spec.change import check_change_of
from cdk_gpu_clusters_stacks.spec.check import check_cluster
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec
from cdk_gpu_clusters_stacks.spec.views import planned_fleets

from ._compare import changed_keys
from ._fleet import plan_fleet
from ._fleet_changes import capacity_changes, fleet_changes
from ._node_group_changes import kubernetes_changes, node_group_changes
from ._orchestrator_changes import orchestrator_changes
from ._service_changes import service_changes
from ._sides import Side
from ._software_changes import software_changes
from ._stack_changes import data_changes, fabric_changes, link_changes, network_changes
from .change_model import Change, Comparison, Effect
from .cluster import plan_stacks
from .model import StackPlan

_NODES = ("fleet", "inference")


def compare_clusters(deployed: ClusterSpec, wanted: ClusterSpec) -> Comparison:
    """Say what deploying a file changes.

    Args:
        deployed: The cluster as it is deployed.
        wanted: The cluster as it is to be.

    Raises:
        ConfigError: If one of them has errors, with all of them.

    Example:
        >>> from cdk_gpu_clusters_stacks.spec import load_cluster
        >>> before = load_cluster("examples/p5-capacity-block.yaml")
        >>> compare_clusters(before, before).changes
        ()
    """
    raise_for([*check_cluster(deployed), *check_cluster(wanted)])
    before, after = _Cluster(deployed), _Cluster(wanted)
    moved = _moved(deployed, wanted)
    changes: list[Change] = []
    unchanged = []
    for name, stack in after.stacks.items():
        if moved or name not in before.stacks:
            changes.append(_added(stack, moved))
            continue
        found = list(_within(stack, before, after))
        changes += found
        unchanged += [] if found else [name]
    changes += [
        _left(stack, moved) for name, stack in before.stacks.items() if moved or name not in after.stacks
    ]
    return Comparison(
        changes=tuple(changes),
        unchanged=tuple(unchanged),
        refused=tuple(check_change_of(deployed, wanted)),
    )


class _Cluster:
    """One of the two clusters: its stacks and fleets by name."""

    def __init__(self, spec: ClusterSpec) -> None:
        views = planned_fleets(spec)
        self.spec = spec
        self.stacks: Mapping[str, StackPlan] = {stack.name: stack for stack in plan_stacks(spec, views)}
        self.fleets: Mapping[str, Side] = {
            view.name: Side(spec, view, plan_fleet(view, spec)) for view in views
        }


def _within(stack: StackPlan, before: _Cluster, after: _Cluster) -> Iterator[Change]:
    """What changes inside a stack that both files make."""
    name = stack.name
    keys = _retagged(stack, before, after)
    if keys:
        words = "what takes tags gets the new ones; nodes that run keep the old"
        yield Change(
            stack=name,
            resource="",
            effect=Effect.UPDATED,
            keys=keys,
            words=words,
            source="AWS CDK: tags of an app",
        )
    match stack.kind:
        case "network":
            yield from network_changes(name, before.spec, after.spec)
        case "data":
            yield from data_changes(name, stack.of, before.spec, after.spec)
        case "fabric":
            yield from fabric_changes(name, before.spec, after.spec)
        case "link":
            yield from link_changes(name, stack.of, before.spec, after.spec)
        case "kubernetes":
            yield from kubernetes_changes(name, before.spec, after.spec)
        case "software":
            yield from software_changes(name, before.spec, after.spec)
        case "capacity":
            yield from capacity_changes(before.fleets[stack.of], after.fleets[stack.of])
        case _:
            yield from _within_fleet(before.fleets[stack.of], after.fleets[stack.of])


def _within_fleet(before: Side, after: Side) -> Iterator[Change]:
    if before.view.on_eks != after.view.on_eks:
        yield from orchestrator_changes(before, after)
    elif after.view.on_eks:
        yield from node_group_changes(before, after)
    else:
        yield from fleet_changes(before, after)
        yield from service_changes(before, after)


def _retagged(stack: StackPlan, before: _Cluster, after: _Cluster) -> tuple[str, ...]:
    """Keys of tags that change in a stack; rules of a link take none."""
    if stack.kind == "link":
        return ()
    made = [{"tags": one.spec.tags} for one in (before, after)]
    if stack.of in after.fleets and stack.kind in (*_NODES, "capacity"):
        sides = before.fleets[stack.of], after.fleets[stack.of]
        made = [
            {**one, f"{sides[1].key}.tags": side.view.spec.tags}
            for one, side in zip(made, sides, strict=True)
        ]
    return changed_keys(*made)


def _moved(deployed: ClusterSpec, wanted: ClusterSpec) -> tuple[str, ...]:
    """Keys by which every stack is another one: stacks are named after the cluster and stand in its place."""
    keys = tuple(key for key in ("name", "region") if getattr(deployed, key) != getattr(wanted, key))
    accounts = {deployed.account, wanted.account} - {None}
    return (*keys, "account") if len(accounts) > 1 else keys


def _added(stack: StackPlan, keys: tuple[str, ...]) -> Change:
    return Change(
        stack=stack.name,
        resource="",
        effect=Effect.ADDED,
        keys=keys,
        words=f"a new stack of kind {stack.kind}",
        source="stacks are named after the cluster and one key of its file",
    )


def _left(stack: StackPlan, keys: tuple[str, ...]) -> Change:
    has_nodes = stack.kind in _NODES
    bills = has_nodes or stack.kind in ("capacity", "data", "kubernetes", "network")
    words = "the file makes this stack no more: it stays as it is" + (", and bills," if bills else "")
    return Change(
        stack=stack.name,
        resource="",
        effect=Effect.LEFT,
        keys=keys,
        words=f"{words} until somebody deletes it, as with aws cloudformation delete-stack --stack-name {stack.name}",
        nodes="its nodes go on running" if has_nodes else "",
        data="its data stay, also when the stack is deleted" if stack.outlives else "",
        source="AWS CDK: cdk deploy deletes no stack that an app does not have",
    )
