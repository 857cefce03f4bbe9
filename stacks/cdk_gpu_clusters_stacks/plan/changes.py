"""What deploying a cluster file does to a cluster that was deployed from another one. No CDK: the rules decide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from cdk_gpu_clusters.errors import Finding, raise_for
from cdk_gpu_clusters_stacks.export.parallelcluster import named_configuration
from cdk_gpu_clusters_stacks.spec._base import SpecModel
from cdk_gpu_clusters_stacks.spec._check_data import check_change_of
from cdk_gpu_clusters_stacks.spec.changes import Changes, ChangingKey, Resource, changing_keys
from cdk_gpu_clusters_stacks.spec.check import check_fleets
from cdk_gpu_clusters_stacks.spec.data import NEW_FILE_SYSTEMS, CheckpointsSpec, StoreSpec, serves_efa
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet

from ._changing_resources import FIXED_SOURCE, ROWS, Row, fixed_of_group, fixed_of_hyperpod, source_of
from ._fleet import report_fleet
from ._sides import FleetSide, Side
from .cluster import plan_stacks
from .model import StackPlan

_NODES = ("fleet", "inference")


class Effect(StrEnum):
    """What happens to a stack or a resource.

    Attributes:
        ADDED: It is made.
        UPDATED: It stays, and changes.
        REPLACED: Another one is made in its place, and it is deleted.
        REMOVED: It is deleted from its stack.
        LEFT: A stack that the file no longer makes: it stays as it is, and bills, until you delete it.
    """

    ADDED = "added"
    UPDATED = "updated"
    REPLACED = "replaced"
    REMOVED = "removed"
    LEFT = "left"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One resource, or one stack, that changes.

    Attributes:
        resource: CloudFormation type, such as `AWS::EC2::LaunchTemplate`; empty for the stack itself.
        keys: Keys of the file that cause it, such as `training.fleets.trainers.instance_type`.
        words: What happens, in a sentence.
        nodes: What happens to running nodes; empty for nothing.
        data: What happens to data; empty for nothing.
        source: What the statement rests on.
    """

    stack: str
    resource: str
    effect: Effect
    keys: tuple[str, ...]
    words: str
    nodes: str = ""
    data: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What deploying a file does to a cluster that was deployed from another one.

    Attributes:
        changes: What changes, stack by stack, in the order of deployment.
        unchanged: Stacks whose templates stay as they are.
        refused: Changes that would replace a store, or leave a part of a block unused: with `-c deployed=`, `cdk synth`
            stops at these.
    """

    changes: tuple[Change, ...]
    unchanged: tuple[str, ...]
    refused: tuple[Finding, ...]


def compare_clusters(deployed: ClusterSpec, wanted: ClusterSpec) -> Comparison:
    """Report what deploying a file changes.

    Raises:
        ConfigError: If one of them has errors, with all of them.

    Example:
        >>> from cdk_gpu_clusters_stacks.spec import load_cluster
        >>> before = load_cluster("examples/p5-capacity-block.yaml")
        >>> compare_clusters(before, before).changes
        ()
    """
    (about_deployed, old_fleets), (about_wanted, new_fleets) = check_fleets(deployed), check_fleets(wanted)
    raise_for([*about_deployed, *about_wanted])
    before, after = _Cluster(deployed, old_fleets), _Cluster(wanted, new_fleets)
    moved = _moved(deployed, wanted)
    changes: list[Change] = []
    unchanged = []
    for name, stack in after.stacks.items():
        if moved or name not in before.stacks:
            changes.append(_added(stack, moved))
            continue
        found = list(_within(stack, before, after))
        changes += found
        unchanged += [] if any(one.stack == name for one in found) else [name]
    changes += [_left(stack, moved) for name, stack in before.stacks.items() if moved or name not in after.stacks]
    return Comparison(
        changes=tuple(changes),
        unchanged=tuple(unchanged),
        refused=tuple(check_change_of(deployed, wanted)),
    )


class _Cluster:
    """One of the two clusters: its stacks and fleets by name."""

    def __init__(self, spec: ClusterSpec, views: list[PlannedFleet]) -> None:
        self.spec = spec
        self.stacks: Mapping[str, StackPlan] = {stack.name: stack for stack in plan_stacks(spec, views)}
        self.fleets: Mapping[str, FleetSide] = {view.name: FleetSide(view, report_fleet(view, spec)) for view in views}


# Stacks that come and go.


def _moved(deployed: ClusterSpec, wanted: ClusterSpec) -> tuple[str, ...]:
    """Keys by which every stack is another one: its name and its place."""
    old, new = (
        {one.key: one.value for one in changing_keys(spec, ()) if Resource.STACKS in one.changes.updates}
        for spec in (deployed, wanted)
    )
    differ = [key for key in old if old[key] != new[key]]
    return tuple(key for key in differ if key != "account" or None not in (old[key], new[key]))


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
    bills = has_nodes or stack.kind in ("capacity", "data", "hyperpod", "kubernetes", "login", "network", "slurm")
    words = "the file no longer makes this stack: it stays as it is" + (", and bills," if bills else "")
    return Change(
        stack=stack.name,
        resource="",
        effect=Effect.LEFT,
        keys=keys,
        words=f"{words} until you delete it, as with aws cloudformation delete-stack --stack-name {stack.name}",
        nodes="its nodes go on running" if has_nodes or stack.kind == "hyperpod" else "",
        data="its data stay, also when the stack is deleted" if stack.outlives else "",
        source="AWS CDK: cdk deploy deletes no stack that an app does not have",
    )


# Resources of a stack that both files make.


def _within(stack: StackPlan, before: _Cluster, after: _Cluster) -> Iterator[Change]:
    sides = _side(stack, before, after), _side(stack, after, before)
    rows = ROWS[stack.kind]
    found: Iterable[Change]
    if stack.kind == "hyperpod":
        found = _within_hyperpod(rows, before, after)
    elif stack.kind == "pcluster":
        found = _of_parallelcluster(rows, *sides)
    elif stack.kind not in _NODES:
        found = [change for row in rows for change in _of_row(row, *sides)]
    elif before.fleets[stack.of].view.profile is not after.fleets[stack.of].view.profile:
        found = _to_another_orchestrator(rows, *sides)
    else:
        found = _within_fleet(rows, *sides)
    for change in found:
        yield replace(change, stack=change.stack or stack.name)


def _within_hyperpod(rows: Iterable[Row], before: _Cluster, after: _Cluster) -> Iterator[Change]:
    """The cluster of HyperPod, and each instance group of it, which all are one resource."""
    both = before.fleets.keys() & after.fleets.keys()
    one, other = (Side(cluster.spec, "", frozenset(both)) for cluster in (before, after))
    of_group = [row for row in rows if row.resource in _OF_A_GROUP]
    found = [change for row in rows if row not in of_group for change in _of_row(row, one, other)]
    for change in found:
        if change.resource == _CLUSTER and change.effect is Effect.UPDATED:
            fixed = fixed_of_hyperpod(one, other)
            told = _refused(change, fixed) if fixed else change
            yield replace(told, nodes=_OTHER_CLUSTER if fixed else "running nodes stay")
        else:
            yield change
    if any(change.effect is Effect.REPLACED and change.resource == _CLUSTER for change in found):
        return
    for name in {**before.fleets, **after.fleets}:
        for row in of_group:
            yield from _of_instance_group(row, name, before, after)


_OTHER_CLUSTER = "give the file another name, which makes another cluster, and delete the stacks of the old one"


def _refused(change: Change, fixed: list[str]) -> Change:
    """A change that SageMaker does not make."""
    words = f"SageMaker does not change this, and the deployment fails or leaves it as it is: {', '.join(fixed)}"
    return replace(change, words=words, source=FIXED_SOURCE)


_OF_A_GROUP, _CLUSTER = (Resource.NODE_ROLE, Resource.INSTANCE_GROUP), "AWS::SageMaker::Cluster"


def _of_instance_group(row: Row, name: str, before: _Cluster, after: _Cluster) -> Iterator[Change]:
    """A fleet that comes, goes or changes: the resource stays."""
    old, new = before.fleets.get(name), after.fleets.get(name)
    if (old is None or new is None) and row.resource is not Resource.INSTANCE_GROUP:
        return
    if old is None or new is None:
        side, words = (new, row.added) if old is None else (old, row.removed)
        keys = () if side is None else (side.key,)
        yield _change(row, Effect.UPDATED, keys, words.replace("{item}", name))
        return
    entries = frozenset([name]) | (old.stores & new.stores)
    sides = Side(before.spec, name, entries, old), Side(after.spec, name, entries, new)
    for change in _of_row(row, *sides):
        fixed = fixed_of_group(*sides) if row.resource is Resource.INSTANCE_GROUP else []
        told = _refused(change, [f"{what} of the instance group {name}" for what in fixed]) if fixed else change
        yield replace(told, words=told.words.replace("{item}", name))


def _side(stack: StackPlan, cluster: _Cluster, other: _Cluster) -> Side:
    """A stack in one of the two clusters. Of stores it depends on those that it uses in both."""
    fleet, entries = None, frozenset([stack.of])
    if stack.kind in (*_NODES, "capacity"):
        fleet = cluster.fleets[stack.of]
    if stack.kind in _NODES and fleet is not None:
        entries |= fleet.stores & other.fleets[stack.of].stores
    if stack.kind == "login":
        entries |= {*cluster.spec.pcs.login.mounts.values()} & {*other.spec.pcs.login.mounts.values()}
    return Side(
        cluster.spec, stack.of, entries, fleet, installs=stack.kind == "software", monitors=stack.kind == "monitoring"
    )


def _within_fleet(rows: Iterable[Row], before: Side, after: Side) -> Iterator[Change]:
    """What changes of a fleet. On EKS a node group may become another one, with another template."""
    other_group: tuple[str, ...] = ()
    fleets = [side.fleet for side in (before, after) if side.fleet is not None]
    if all(fleet.has_node_group for fleet in fleets):
        other_group = tuple(_differences(Resource.NODE_GROUP_IDENTITY, before.keys, after.keys, before, after))
    for row in rows:
        if row.resource is Resource.NODE_POOL and all(fleet.is_pool for fleet in fleets):
            yield from _of_pool(row, before, after)
        elif other_group and row.resource in (Resource.EKS_TEMPLATE, Resource.NODE_GROUP):
            gone = "it goes when the other one is there"
            yield _change(row, Effect.REMOVED, other_group, gone, source=_OTHER_SOURCE)
            yield _change(row, Effect.ADDED, other_group, _OTHER_GROUP, source=_OTHER_SOURCE)
        elif row.resource is Resource.COMPUTE_ENVIRONMENT and all(fleet.has_compute_environment for fleet in fleets):
            yield from _of_environment(row, before, after, *fleets)
        else:
            yield from _of_row(row, before, after)


def _of_environment(row: Row, before: Side, after: Side, old: FleetSide, new: FleetSide) -> Iterator[Change]:
    """A compute environment changes with its template: with BEST_FIT almost every change replaces it."""
    strategies = [one.view.compute_environment.strategy for one in (old, new)]
    if strategies[0] is not strategies[1]:
        keys: tuple[str, ...] = (f"{new.key}.capacity",)
        gone = "it goes when the other one is there, with its jobs"
        yield _change(row, Effect.REMOVED, keys, gone, source=_OTHER_ENVIRONMENT_SOURCE)
        yield _change(row, Effect.ADDED, keys, _OTHER_ENVIRONMENT, source=_OTHER_ENVIRONMENT_SOURCE)
        return
    found = {
        key
        for resource in (Resource.COMPUTE_ENVIRONMENT, Resource.BATCH_TEMPLATE)
        for key in _differences(resource, before.keys, after.keys, before, after)
    }
    if not found:
        return
    in_place = {f"{new.key}.nodes", "batch.job_minutes_on_update"}
    replaced = new.view.compute_environment.replaces and bool(found - in_place)
    effect = Effect.REPLACED if replaced else Effect.UPDATED
    yield _change(row, effect, tuple(sorted(found)), row.replaced if replaced else row.updated)


_OTHER_ENVIRONMENT = (
    "another environment is made, and the queue moves to it: AWS Batch replaces one on a Capacity Block, and updates "
    "others in place"
)
_OTHER_ENVIRONMENT_SOURCE = (
    "CloudFormation template reference, AWS::Batch::ComputeEnvironment: ReplaceComputeEnvironment true with BEST_FIT"
)


def _of_parallelcluster(rows: Iterable[Row], before: Side, after: Side) -> Iterator[Change]:
    """What the nodes get, and the configuration, which changes with nearly all keys: each is compared as one value."""
    keys = tuple(sorted(_written_keys(before, after)))
    is_rewritten = named_configuration(before.cluster) != named_configuration(after.cluster)
    deployed = [side.cluster.parallelcluster.custom_resource is not None for side in (before, after)]
    for row in rows:
        nodes = row.nodes if isinstance(row.nodes, str) else row.nodes(before, after)
        if row.resource is Resource.CLUSTER_RESOURCE and all(deployed):
            found = _differences(row.resource, before.keys, after.keys, before, after)
            own = tuple(key for key, made in found.items() if row.resource in made.updates)
            if is_rewritten or own:
                yield _change(row, Effect.UPDATED, (*(keys if is_rewritten else ()), *own), row.updated, nodes=nodes)
        elif row.resource is not Resource.CONFIGURATION:
            yield from _of_row(row, before, after)
        elif row.type and is_rewritten and not deployed[1]:
            # pcluster names its stack after the cluster.
            yield replace(_change(row, Effect.UPDATED, keys, row.updated, nodes=nodes), stack=after.cluster.name)
        elif not row.type and _given_to_nodes(before.cluster) != _given_to_nodes(after.cluster):
            own = tuple(key for key in keys if key.startswith(("data.", "network", "training.")))
            yield _change(row, Effect.UPDATED, own, row.updated, nodes=nodes)


def _given_to_nodes(cluster: ClusterSpec) -> object:
    """What the stack of nodes of ParallelCluster has: scripts, ways to file systems, and rights to checkpoints."""
    fleets = cluster.training.fleets
    mounted = {name: cluster.data[name] for fleet in fleets.values() for name in fleet.mounts.values()}
    # Of what the file makes, the stack reads outputs.
    ways = {
        name: serves_efa(store) if isinstance(store, NEW_FILE_SYSTEMS) else store for name, store in mounted.items()
    }
    rights = {
        name: (_buckets(cluster.data[fleet.checkpoints]), fleet.checkpoint_folder(name), fleet.checkpoints_read_only)
        for name, fleet in fleets.items()
        if fleet.checkpoints is not None
    }
    return named_configuration(cluster)[1], ways, rights


def _buckets(store: StoreSpec) -> object:
    """The buckets of a store for checkpoints, as far as a template of its readers names them."""
    return store.checkpoints.express_zone_id is not None if isinstance(store, CheckpointsSpec) else store


def _written_keys(before: Side, after: Side) -> Iterator[str]:
    """Keys that differ and are in a configuration of ParallelCluster: the innermost of each."""
    old, new = before.cluster.training.fleets, after.cluster.training.fleets
    yield from (f"training.fleets.{name}" for name in old.keys() ^ new.keys())
    both = old.keys() & new.keys()
    sides = [{one.key: one.value for one in changing_keys(side.cluster, both)} for side in (before, after)]
    differ = {key for key in {**sides[0], **sides[1]} if sides[0].get(key) != sides[1].get(key)}
    for key in differ:
        is_inner = not any(other.startswith(f"{key}.") for other in differ) and key != "training.fleets"
        above = key.partition(".")[0]
        if is_inner and above in _WRITTEN_SECTIONS and not key.startswith("parallelcluster.custom_resource"):
            yield key


_WRITTEN_SECTIONS = ("data", "network", "parallelcluster", "tags", "training")


def _of_pool(row: Row, before: Side, after: Side) -> Iterator[Change]:
    """The objects of Karpenter change with all that a launch template and a node group change with."""
    found = {
        key
        for resource in (*_IN_A_POOL, Resource.NODE_POOL)
        for key in _differences(resource, before.keys, after.keys, before, after)
    }
    nodes = row.nodes if isinstance(row.nodes, str) else row.nodes(before, after)
    if found:
        yield _change(row, Effect.UPDATED, tuple(sorted(found)), row.updated, nodes=nodes)


_IN_A_POOL = (Resource.EKS_TEMPLATE, Resource.NODE_GROUP, Resource.NODE_GROUP_IDENTITY)

_OTHER_GROUP = (
    "another group is made, since EKS changes none of these in place; its nodes come before the old ones go, and a "
    "reservation needs room for both"
)
_OTHER_SOURCE = "CloudFormation registry schema of AWS::EKS::Nodegroup, createOnlyProperties (cfn-lint 1.58.0)"


def _to_another_orchestrator(rows: Iterable[Row], before: Side, after: Side) -> Iterator[Change]:
    """Group and nodes are others under another orchestrator; what stays is compared."""
    keys = tuple(key.key for key in after.keys if Resource.FLEET in key.changes.updates)
    source = "AWS CDK: a construct of another id is another resource, made before the old one is deleted"
    kept = _kept_resources(before, after)
    made = [row for row in rows if not row.stays and row.resource not in kept]
    for row in rows:
        if row.stays or row.resource in kept:
            yield from _of_row(row, before, after)
    for row in made:
        if row.exists(before):
            words = row.leaves or row.removed
            yield _change(row, Effect.REMOVED, keys, words, nodes=row.nodes_leave, source=source)
    for row in made:
        if row.exists(after):
            yield _change(row, Effect.ADDED, keys, row.joins or row.added, source=source)


def _kept_resources(before: Side, after: Side) -> tuple[Resource, ...]:
    """What stays because the fleets of Amazon EKS and of AWS PCS are constructs of one id."""
    fleets = [side.fleet for side in (before, after) if side.fleet is not None]
    is_one = all(fleet.has_node_group or fleet.has_compute_node_group for fleet in fleets)
    return (Resource.PLACEMENT_GROUP, Resource.ALARMS) if is_one else ()


def _of_row(row: Row, before: Side, after: Side) -> Iterator[Change]:
    """The change of a resource, or of each of several."""
    differences = _differences(row.resource, before.keys, after.keys, before, after)
    if row.items is None:
        yield from _compared(row, differences, (row.exists(before), row.exists(after)), before, after)
        return
    old, new = row.items(before, after), row.items(after, before)
    for item in sorted({*old, *new}):
        here = item in old, item in new
        found = differences
        if all(here):
            one, other = _keys_of(row.resource, before, old[item]), _keys_of(row.resource, after, new[item])
            found = _differences(row.resource, one, other, before, after)
        for change in _compared(row, found, here, before, after):
            yield replace(change, words=change.words.replace("{item}", item))


def _keys_of(resource: Resource, side: Side, item: object) -> Iterator[ChangingKey]:
    """Keys of one of several resources, below the key that makes them."""
    above = next(key.key for key in side.keys if resource in key.changes.makes)
    if isinstance(item, SpecModel):
        yield from changing_keys(item, (), above)


def _differences(
    resource: Resource, old: Iterable[ChangingKey], new: Iterable[ChangingKey], before: Side, after: Side
) -> Mapping[str, Changes]:
    """Keys that change a resource and whose effective values differ, in the order of the alphabet."""
    sides = [
        {one.key: (side.value(one, resource), one.changes) for one in keys if one.changes.reaches(resource)}
        for keys, side in ((old, before), (new, after))
    ]
    absent = (None, None)
    return {
        key: {**sides[0], **sides[1]}[key][1]
        for key in sorted({*sides[0], *sides[1]})
        if sides[0].get(key, absent)[0] != sides[1].get(key, absent)[0]
    }


def _compared(
    row: Row, differences: Mapping[str, Changes], exists: tuple[bool, bool], before: Side, after: Side
) -> Iterator[Change]:
    """The change of one resource, if there is one."""
    if not any(exists):
        return
    resource = row.resource
    nodes = row.nodes if isinstance(row.nodes, str) else row.nodes(before, after)
    if all(exists):
        keys = tuple(key for key, made in differences.items() if resource in made.updates | made.replaces)
        is_replaced = any(resource in differences[key].replaces for key in keys)
        effect = Effect.REPLACED if is_replaced else Effect.UPDATED
        if not keys:
            return
    else:
        effect = Effect.REMOVED if exists[0] else Effect.ADDED
        decisive = tuple(key for key, made in differences.items() if resource in made.makes | made.replaces)
        keys = decisive or tuple(differences)
    data = row.data_replaced if effect is Effect.REPLACED else row.data
    yield replace(_change(row, effect, keys, getattr(row, effect.value), nodes=nodes), data=data)


def _change(
    row: Row, effect: Effect, keys: tuple[str, ...], words: str, *, nodes: str = "", source: str = ""
) -> Change:
    return Change(
        stack="",
        resource=row.type,
        effect=effect,
        keys=keys,
        words=words,
        nodes=nodes,
        source=source or source_of(row),
    )
