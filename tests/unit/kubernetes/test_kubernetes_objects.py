"""The text of Kubernetes objects, and their names."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cdk_gpu_clusters.kubernetes.objects import check_name, metadata, yaml_text

#: What a text may look like to YAML 1.1, in which kubectl reads.
TREACHEROUS = [
    "true",
    "off",
    "yes",
    "y",
    "null",
    "~",
    "1",
    "1_0",
    "0x1",
    "1e3",
    "12:30",
    "2026-01-01",
    ".inf",
    "=",
    "",
]
TEXTS = st.one_of(st.sampled_from(TREACHEROUS), st.text(st.characters(codec="ascii", min_codepoint=32), max_size=20))
LINES = st.lists(st.from_regex(r"[a-z#:\-]{1,9}( [a-z]+)?", fullmatch=True), min_size=2, max_size=4).map("\n".join)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(TEXTS, LINES, st.booleans(), st.integers(-9, 10**12), st.none()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.from_regex(r"[a-z]{1,9}", fullmatch=True), inner, max_size=3),
    ),
    max_leaves=12,
)


@given(VALUES)
def test_every_value_is_read_back_as_it_was_by_a_reader_of_yaml_11(value: Any) -> None:
    one = {"kind": "Thing", "metadata": {"name": "a"}, "spec": value}
    assert list(yaml.safe_load_all(yaml_text([one, one]))) == [one, one]


def test_a_key_that_yaml_11_reads_as_a_boolean_is_quoted() -> None:
    one = {"kind": "Thing", "metadata": {"name": "a"}, "no": {"on": None}}
    assert list(yaml.safe_load_all(yaml_text([one]))) == [one]


def test_keys_keep_their_order_and_long_texts_their_line() -> None:
    words = " ".join(["word"] * 100)
    text = yaml_text([{"kind": "B", "metadata": {"name": "x"}, "z": words, "a": 1}])
    assert text.splitlines() == ["kind: B", "metadata:", "  name: x", f'z: "{words}"', "a: 1"]


def test_comments_stand_before_their_object_alone() -> None:
    objects = [{"kind": "A", "metadata": {"name": "one"}}, {"kind": "A", "metadata": {"name": "two"}}]
    lines = yaml_text(objects, comments={"A/two": "First.\n\nLast."}).splitlines()
    assert lines[3:8] == ["---", "# First.", "#", "# Last.", "kind: A"]


def test_an_object_says_who_made_it_and_where_it_belongs() -> None:
    told = metadata("a", labels={"x": "1"}, annotations={"y": "2"})
    assert told["namespace"] == "default"
    assert told["labels"] == {
        "app.kubernetes.io/name": "a",
        "app.kubernetes.io/managed-by": "cdk-gpu-clusters",
        "x": "1",
    }
    assert told["annotations"] == {"y": "2"}
    assert "namespace" not in metadata("a", namespace=None)


@pytest.mark.parametrize("name", ["", "A", "1a", "a_b", "a.b", "-a", "a-", "a" * 64, "ä"])
def test_names_that_are_no_label_of_dns_are_refused(name: str) -> None:
    assert [finding.id for finding in check_name(name)] == ["GPU-K8S-001"]


def test_names_leave_room_for_what_a_controller_adds() -> None:
    assert check_name("a" * 63) == []
    assert check_name("a" * 50, longest=50) == []
    assert check_name("a" * 51, longest=50)[0].allowed.startswith("1 to 50 ")
