"""What is reported of a changed file: nodes, data, causes. The templates are compared in tests/synth."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, get_args

import pytest

from cdk_gpu_clusters_stacks.plan import Change, Comparison, Effect, compare_clusters
from cdk_gpu_clusters_stacks.plan._changing_resources import ROWS
from cdk_gpu_clusters_stacks.plan._fleet import report_fleet
from cdk_gpu_clusters_stacks.plan._sides import FleetSide, Side
from cdk_gpu_clusters_stacks.plan.text_changes import comparison_text
from cdk_gpu_clusters_stacks.spec import ClusterSpec, FleetSpec, InferenceFleetSpec, load_cluster
from cdk_gpu_clusters_stacks.spec._base import SpecModel
from cdk_gpu_clusters_stacks.spec.changes import NO_CHANGE, Resource, changes_of
from cdk_gpu_clusters_stacks.spec.planned_fleet import planned_fleets
from cluster_files.edits import EDITS, sides, write

Compare = Callable[[str], Comparison]
Load = Callable[[str], ClusterSpec]


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Load:
    """The cluster of a file's text."""

    @cache
    def run(text: str) -> ClusterSpec:
        return load_cluster(write(tmp_path_factory.mktemp("cluster"), text))

    return run


@pytest.fixture(scope="module")
def compare(load: Load) -> Compare:
    """The comparison of the two sides of an edit."""

    @cache
    def run(name: str) -> Comparison:
        before, after = sides(name)
        return compare_clusters(load(before), load(after))

    return run


def only(comparison: Comparison, resource: str) -> Change:
    (found,) = [one for one in comparison.changes if one.resource == resource]
    return found


LT, GROUP = "AWS::EC2::LaunchTemplate", "AWS::AutoScaling::AutoScalingGroup"


def test_nothing_changes_where_the_file_says_the_same_in_other_words(compare: Compare) -> None:
    comparison = compare("EFA said that is there anyway")
    assert comparison.changes == ()
    assert "nothing changes" in comparison_text(comparison)


def test_running_nodes_stay_where_updates_never_replace_them(compare: Compare) -> None:
    change = only(compare("a variable"), LT)
    assert change.effect is Effect.UPDATED
    assert change.keys == ("training.fleets.trainers.environment",)
    assert change.nodes.startswith("running nodes stay as they are")


def test_servers_are_replaced_one_at_a_time(compare: Compare) -> None:
    change = only(compare("another model server"), LT)
    assert change.nodes == "running nodes are replaced one at a time (update: rolling)"


def test_more_nodes_change_the_group_and_no_template(compare: Compare) -> None:
    comparison = compare("nodes")
    assert only(comparison, GROUP).nodes == "12 more nodes are launched"
    assert [one.resource for one in comparison.changes] == [GROUP]


def test_a_block_keeps_its_size_from_deployments(compare: Compare) -> None:
    comparison = compare("fewer nodes on a block")
    assert only(comparison, GROUP).nodes == "the next run of the state machine sets the size to what is paid for"


def test_a_block_that_is_paid_for_keeps_its_nodes(compare: Compare) -> None:
    for name in ("fewer nodes on a block", "EKS: fewer nodes on a block"):
        (finding,) = compare(name).refused
        assert (finding.id, finding.path, finding.got, finding.allowed) == (
            "GPU-SPEC-042",
            "training.fleets.trainers.nodes",
            "2",
            "4",
        )
    assert [one.path for one in compare("fewer nodes on one of two blocks").refused] == [
        "training.fleets.trainers.capacity"
    ]
    assert compare("another block").refused == ()


def test_another_list_of_blocks_says_what_it_does_to_the_nodes(compare: Compare) -> None:
    machine = "AWS::StepFunctions::StateMachine"
    assert "launched when it runs" in only(compare("a second block"), machine).nodes
    assert "until the new end" in only(compare("later end of the second block"), machine).nodes
    removed = only(compare("a block of two removed"), machine).nodes
    assert "cr-0123456789abcdef0, which leaves the file" in removed
    assert "remove a block when it is over" in removed


def test_a_fleet_that_leaves_the_file_goes_on_running(compare: Compare) -> None:
    comparison = compare("fleet removed")
    (left,) = comparison.changes
    assert (left.stack, left.effect) == ("lab-fleet-helpers", Effect.LEFT)
    assert left.nodes == "its nodes go on running"
    assert "delete-stack --stack-name lab-fleet-helpers" in left.words


def test_a_store_that_leaves_the_file_keeps_its_data(compare: Compare) -> None:
    (left,) = compare("store removed").changes
    assert (left.effect, left.data) == (Effect.LEFT, "its data stay, also when the stack is deleted")


def test_another_reserved_type_replaces_the_reservation(compare: Compare) -> None:
    change = only(compare("another reserved type"), "AWS::EC2::CapacityReservation")
    assert change.effect is Effect.REPLACED
    assert "both bill meanwhile" in change.words
    assert "createOnlyProperties" in change.source


def test_what_the_guard_of_stores_refuses_stands_first_with_its_fix(compare: Compare) -> None:
    comparison = compare("EFA switched on")
    assert {finding.id for finding in comparison.refused} == {"GPU-LUS-030"}
    assert comparison.refused[0].path == "data.corpus.lustre.efa"
    text = comparison_text(comparison)
    assert text.index("Refused") < text.index("Stack lab-data-corpus")
    assert "fix: keep the old value" in text
    change = only(comparison, "AWS::FSx::FileSystem")
    assert "UpdateReplacePolicy: Retain" in change.data


def test_another_name_makes_everything_anew_and_deletes_nothing(compare: Compare) -> None:
    comparison = compare("cluster renamed")
    assert {one.effect for one in comparison.changes} == {Effect.ADDED, Effect.LEFT}
    assert comparison.unchanged == ()
    assert all(one.keys == ("name",) for one in comparison.changes)


def test_what_is_replaced_stands_before_what_is_updated(compare: Compare) -> None:
    text = comparison_text(compare("reservation without EFA"))
    stack = text[text.index("Stack lab-capacity-reserved") :]
    assert stack.index("replaced") < stack.index("removed")


def test_a_cluster_of_parallelcluster_changes_with_the_deployment_or_by_pcluster(compare: Compare) -> None:
    resource = "Custom::PclusterCluster"
    updated = only(compare("ParallelCluster: a deployed cluster of more nodes"), resource)
    assert (updated.stack, updated.keys) == ("lab-parallelcluster", ("training.fleets.trainers.nodes",))
    assert "queues that change drain" in updated.nodes
    by_hand = only(compare("ParallelCluster: more nodes"), "AWS ParallelCluster")
    assert (by_hand.stack, by_hand.keys) == ("lab", updated.keys)
    assert "pcluster update-cluster" in by_hand.words


def test_a_cluster_of_parallelcluster_goes_with_its_resource_only_if_the_file_said_so(compare: Compare) -> None:
    resource = "Custom::PclusterCluster"
    kept = only(compare("ParallelCluster: made by pcluster again"), resource)
    assert kept.effect is Effect.REMOVED
    assert kept.nodes.startswith("its nodes go on running: pcluster 3.")
    gone = only(compare("ParallelCluster: made by pcluster again, without the old cluster"), resource)
    assert gone.nodes == "its nodes go with it, and their jobs"


def test_a_provider_of_another_version_leaves_its_clusters(compare: Compare) -> None:
    change = only(compare("ParallelCluster: another version of the provider"), "AWS::CloudFormation::Stack")
    assert change.keys == ("parallelcluster.custom_resource.version",)
    assert "can no longer be updated" in change.nodes
    assert only(compare("ParallelCluster: another role of the provider"), "AWS::CloudFormation::Stack").nodes == ""


HYPERPOD_CLUSTER = "AWS::SageMaker::Cluster"


@pytest.mark.parametrize(
    ("edit", "what", "instead"),
    [
        ("another type", "instance type of the instance group spares", "rename the fleet"),
        ("Spot Instances", "purchase as Spot Instances of the instance group spares", "rename the fleet"),
        ("threads", "threads per core of the instance group spares", "rename the fleet"),
        ("checkpoints", "execution role of the instance group spares", "rename the fleet"),
        ("a larger controller", "type of the controller", "another name"),
        ("larger login nodes", "type of the login nodes", "another name"),
        ("continuous provisioning", "continuous provisioning", "another name"),
        ("continuous provisioning again", "strategy Managed", "another name"),
        ("a database less", "accounting database of your own", "another name"),
    ],
)
def test_what_hyperpod_does_not_change_is_said_with_the_way_round(
    edit: str, what: str, instead: str, compare: Compare
) -> None:
    """UpdateCluster takes the values of the group and of the cluster that exist."""
    change = only(compare(f"HyperPod: {edit}"), HYPERPOD_CLUSTER)
    assert change.words.startswith("SageMaker does not change this")
    assert what in change.words
    assert instead in change.nodes
    assert "UpdateCluster" in change.source


@pytest.mark.parametrize(
    ("edit", "nodes"),
    [
        ("a database", "running nodes stay"),
        ("no login nodes", "running nodes stay"),
        ("tiered checkpoints", "running nodes stay"),
        ("another existing cluster", "capacity must be there for both clusters at once"),
    ],
)
def test_capacity_for_two_clusters_is_needed_for_another_cluster_alone(edit: str, nodes: str, compare: Compare) -> None:
    change = only(compare(f"HyperPod: {edit}"), HYPERPOD_CLUSTER)
    assert change.nodes.startswith(nodes)
    assert "does not change" not in change.words


@pytest.mark.parametrize("name", EDITS)
def test_every_statement_says_what_happens_and_why(name: str, compare: Compare) -> None:
    comparison = compare(name)
    for change in comparison.changes:
        assert change.words, change
        assert change.keys or not change.resource, change
    for line in comparison_text(comparison, width=110).splitlines():
        assert len(line) <= 110 or len(line.split()) <= 2


#: Keys by which another one is reported: the range of nodes, and all that is in the cluster for the models.
REPORTED_AS = {"min_nodes": "nodes", "max_nodes": "nodes", "canary": "inference", "nodes_per_server": "inference"}
#: Keys that only accept a finding.
WITHOUT_EFFECT = {"not_secret"}


@pytest.mark.parametrize("model", [FleetSpec, InferenceFleetSpec])
def test_every_key_of_a_fleet_is_reported_by_some_edit(model: type[SpecModel], compare: Compare) -> None:
    """A new key of the cluster file needs an edit here, and so a statement that the templates agree with."""
    reported = {key for name in EDITS for change in compare(name).changes for key in change.keys}
    words = {word for key in reported for word in key.split(".")}
    assert {REPORTED_AS.get(field, field) for field in model.model_fields} - words == WITHOUT_EFFECT


def models() -> dict[type[SpecModel], set[str]]:
    """Every model of the cluster file, and the fields that hold it, as `Model.field`."""
    found: dict[type[SpecModel], set[str]] = {ClusterSpec: set()}
    queue: list[type[SpecModel]] = [ClusterSpec]
    while queue:
        holder = queue.pop()
        for name, field in holder.model_fields.items():
            for model in held(field.annotation):
                if model not in found:
                    queue.append(model)
                found.setdefault(model, set()).add(f"{holder.__name__}.{name}")
    return found


def held(annotation: Any) -> Iterator[type[SpecModel]]:
    """Models that a type contains."""
    if isinstance(annotation, type) and issubclass(annotation, SpecModel):
        yield annotation
    for part in get_args(annotation):
        yield from held(part)


def silent_fields(model: type[SpecModel]) -> set[str]:
    """Fields that do not declare what they change."""
    return {name for name, field in model.model_fields.items() if changes_of(field) is None}


MODELS = models()


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_key_declares_what_it_changes(model: type[SpecModel]) -> None:
    """All keys of a model declare it, or none does, and the key that holds the model is compared."""
    silent = silent_fields(model)
    if silent == set(model.model_fields):
        for holder in MODELS[model]:
            name, _, field = holder.partition(".")
            (owner,) = [one for one in MODELS if one.__name__ == name]
            declared = changes_of(owner.model_fields[field])
            assert declared != NO_CHANGE, f"{holder} has to declare what {model.__name__} changes"
    else:
        assert silent == set(), "declare what these keys change: spec/changes.py"


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_keys_that_change_with_another_key_name_one_that_declares(model: type[SpecModel]) -> None:
    for name, field in model.model_fields.items():
        declared = changes_of(field)
        if declared is not None and declared.with_key:
            above = {holder.rpartition(".")[2] for holder in MODELS[model]}
            assert declared.with_key in above | set(model.model_fields), name


def test_every_resource_that_keys_declare_has_a_row() -> None:
    fields = [field for model in MODELS for field in model.model_fields.values()]
    made = [one for one in map(changes_of, fields) if one is not None]
    declared = {resource for one in made for resource in one.updates | one.replaces | one.makes}
    assert declared == set(Resource)
    without_row = {Resource.STACKS, Resource.FLEET, Resource.NODE_GROUP_IDENTITY}
    assert {row.resource for rows in ROWS.values() for row in rows} == declared - without_row


@pytest.mark.parametrize("name", EDITS)
def test_values_that_take_effect_belong_to_keys_that_declare(name: str, load: Load) -> None:
    """A value that rules decide is compared only if its key declares the resource."""
    for text in sides(name):
        cluster = load(text)
        for view in planned_fleets(cluster):
            fleet = FleetSide(view, report_fleet(view, cluster))
            side = Side(cluster, view.name, fleet.stores | {view.name}, fleet)
            declared = {key.key: key.changes for key in side.keys}
            for value in side.effective:
                key, resource = value if isinstance(value, tuple) else (value, None)
                if resource is not None and key in declared:
                    assert declared[key].reaches(resource), value


def test_a_plan_shows_each_block_and_counts_their_node_hours(load: Load) -> None:
    """Two blocks of half of the nodes for two weeks each: as many node-hours as all nodes in two weeks."""
    text = sides("a second block")[1].replace(
        "nodes: 4\n      capacity: { capacity_blocks", "nodes: 8\n      capacity: { capacity_blocks"
    )
    text = text.replace("ends_at: 2026-12-15T11:30Z }", "ends_at: 2026-12-15T11:30Z, nodes: 4 }")
    cluster = load(text)
    fleet = report_fleet(planned_fleets(cluster)[0], cluster)
    assert fleet.capacity.words == "2 Capacity Blocks cr-0123456789abcdef0, cr-0fedcba9876543210"
    assert [(one.nodes, one.starts_at, one.drains_at) for one in fleet.capacity.blocks] == [
        (4, "2026-12-01T11:30Z", "2026-12-15T10:50Z"),
        (4, "2026-12-15T11:30Z", "2026-12-29T10:50Z"),
    ]
    assert (fleet.capacity.drains_at, fleet.capacity.hours) == ("2026-12-29T10:50Z", 14 * 24)
    assert fleet.cost.run_hours == fleet.capacity.hours
