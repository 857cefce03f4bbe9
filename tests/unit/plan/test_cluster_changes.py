"""What is said of a changed file to a person: nodes, data, causes; the templates are asked in tests/synth."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from cdk_gpu_clusters_stacks.plan import Change, Comparison, Effect, compare_clusters
from cdk_gpu_clusters_stacks.plan.text_changes import comparison_text
from cdk_gpu_clusters_stacks.spec import ClusterSpec, FleetSpec, InferenceFleetSpec, load_cluster
from cdk_gpu_clusters_stacks.spec._base import SpecModel
from cluster_files.edits import EDITS, sides

Compare = Callable[[str], Comparison]


@pytest.fixture(scope="module")
def compare(tmp_path_factory: pytest.TempPathFactory) -> Compare:
    """The comparison of the two sides of an edit."""

    @cache
    def load(text: str) -> ClusterSpec:
        file = tmp_path_factory.mktemp("cluster") / "cluster.yaml"
        file.write_text(text, encoding="utf-8")
        return load_cluster(file)

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
    assert only(compare("fewer nodes on a block"), GROUP).nodes.startswith(
        "the size of a group on a block is set"
    )


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


@pytest.mark.parametrize("name", EDITS)
def test_every_statement_says_what_happens_and_why(name: str, compare: Compare) -> None:
    comparison = compare(name)
    for change in comparison.changes:
        assert change.words, change
        assert change.keys or not change.resource, change
    for line in comparison_text(comparison, width=110).splitlines():
        assert len(line) <= 110 or len(line.split()) <= 2


#: Keys under which another one is told: the range of nodes, EFA and what follows from the type.
TOLD_AS = {"min_nodes": "nodes", "max_nodes": "nodes", "efa_wish": "efa"}


@pytest.mark.parametrize("model", [FleetSpec, InferenceFleetSpec])
def test_every_key_of_a_fleet_is_told_by_some_edit(model: type[SpecModel], compare: Compare) -> None:
    """A new key of the cluster file needs an edit here, and so a statement that the templates agree with."""
    told = {key for name in EDITS for change in compare(name).changes for key in change.keys}
    words = {word for key in told for word in key.split(".")}
    assert {TOLD_AS.get(field, field) for field in model.model_fields} - words == set()
