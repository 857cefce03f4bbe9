"""The table of failure messages: every recorded text is explained by its row alone, and every row has its evidence.

`tests/fixtures/failures/public.json` has texts as AWS prints them, from public issues and guides. `source` is an issue or
a pull request as `owner/repository#number`, or the page of a guide of AWS. `row` explains it; null if none does.
Placeholders of guides are filled in (`sg-0123456789abcdef0`, `my-key`), redacted account ids are those of AWS's
documentation, and encoded denials are shortened. `boot.json` has reasons of failed boots in the words of `gpunode`.

`held_out` marks 35 texts that were drawn at random from the first 105, before any pattern was written, by the person who
had collected all of them. The first table, written from the other 70, named the 64 of them that have a row, and 10 of
the 33 held-out ones that have one. It named none wrongly, and left all 8 unknown ones unknown. Then the table was
extended, so the marks are history now.
"""

from __future__ import annotations

import ast
import json
import re
import string
from pathlib import Path
from typing import Any

import botocore.session
import pytest

from cdk_gpu_clusters.node import gpunode
from cdk_gpu_clusters_stacks.cli.rule_index import rule_index
from cdk_gpu_clusters_stacks.failures import Place, known_messages, meanings_of
from pages import REPOSITORY

FIXTURES = REPOSITORY / "tests" / "fixtures" / "failures"
PUBLIC: list[dict[str, Any]] = json.loads((FIXTURES / "public.json").read_text("utf-8"))
BOOT: list[dict[str, Any]] = json.loads((FIXTURES / "boot.json").read_text("utf-8"))
KNOWN = [one for one in PUBLIC if one["row"]] + BOOT
UNKNOWN = [one for one in PUBLIC if not one["row"]]
ROWS = {row.id: row for row in known_messages()}
_EKS: Any = botocore.session.get_session().get_service_model("eks")
EKS_CODES = set(_EKS.shape_for("NodegroupIssueCode").enum)


def rows_with(text: str, *, general: bool) -> list[str]:
    return [row.id for row in ROWS.values() if row.pattern.search(text) and (row.kind == "general") is general]


def test_at_least_60_public_texts_are_there_and_50_of_them_are_named() -> None:
    assert len(PUBLIC) >= 60
    assert sum(bool(one["row"]) for one in PUBLIC) >= 50
    assert len(UNKNOWN) >= 5
    assert len({one["text"] for one in PUBLIC}) == len({one["id"] for one in PUBLIC}) == len(PUBLIC)


@pytest.mark.parametrize("one", KNOWN, ids=lambda one: one["text"][:60])
def test_a_text_is_explained_by_its_row_and_no_other(one: dict[str, Any]) -> None:
    """The order of the rows decides nothing: of the specific rows, or else of the general ones, exactly one has it."""
    found = rows_with(one["text"], general=False) or rows_with(one["text"], general=True)
    assert found == [one["row"]]
    (meaning,) = meanings_of(one["text"])
    assert meaning.known.id == one["row"]
    assert meaning.cause
    assert meaning.fix
    assert not re.search(r"[{}]|\bNone\b", meaning.cause + meaning.fix)


@pytest.mark.parametrize("one", UNKNOWN, ids=lambda one: one["id"])
def test_an_unknown_text_is_not_guessed(one: dict[str, Any]) -> None:
    assert rows_with(one["text"], general=False) + rows_with(one["text"], general=True) == []


@pytest.mark.parametrize("one", [one for one in PUBLIC if one["where"] != "PCS boot log"], ids=lambda one: one["id"])
def test_a_text_is_explained_in_the_place_where_it_was_recorded(one: dict[str, Any]) -> None:
    assert [meaning.known.id for meaning in meanings_of(one["text"], Place(_place(one["where"])))] == (
        [one["row"]] if one["row"] else []
    )


def _place(name: str) -> str:
    return "CloudTrail error" if name == "CloudTrail" else name


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.id)
def test_a_row_has_a_text_or_a_code_of_the_service_model_behind_it(row: Any) -> None:
    code = row.id.removeprefix("eks-")
    is_code = f"{code}(?=[:,])" in row.pattern.pattern and code in EKS_CODES
    is_shape = row.id == "group-suspended"  # test_failure_answers.py has the shape
    assert is_code or is_shape or row.id in {one["row"] for one in KNOWN}
    assert row.source
    assert row.places
    assert not row.rule or row.rule in rule_index()


@pytest.mark.parametrize("code", sorted(EKS_CODES - {"Unknown"}))
def test_every_code_of_a_node_group_has_a_row(code: str) -> None:
    """botocore's NodegroupIssueCode; `Unknown` says nothing, and stays unknown."""
    (meaning,) = meanings_of(f"{code}: words that EKS adds", Place.NODE_GROUP)
    assert meaning.known.id == f"eks-{code}"
    assert meanings_of("Unknown: words", Place.NODE_GROUP) == ()


def test_what_ec2_says_inside_an_issue_of_eks_is_explained_in_place_of_its_code() -> None:
    text = (
        "AsgInstanceLaunchFailures: Could not launch On-Demand Instances. VcpuLimitExceeded - You have requested more "
    )
    text += "vCPU capacity than your current vCPU limit of 0 allows for the instance bucket"
    assert [one.known.id for one in meanings_of(text, Place.NODE_GROUP)] == ["quota-vcpu"]


def test_a_general_row_counts_only_in_its_places() -> None:
    assert meanings_of("AccessDenied: no", Place.NODE_GROUP)
    assert meanings_of("AccessDenied: no", Place.TRAIL) == ()


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.id)
def test_the_braces_of_a_row_are_groups_that_always_match(row: Any) -> None:
    used = {name for text in (row.cause, row.fix) for _, name, _, _ in string.Formatter().parse(text) if name}
    assert used <= set(row.pattern.groupindex)


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.id)
def test_the_source_of_a_row_names_an_issue_a_guide_or_a_shape(row: Any) -> None:
    forms = r"[\w.-]+/[\w.-]+#\d+|(?:Amazon|AWS) .+ User Guide, .+|botocore \w+ \w+|docs/\w+\.md"
    assert [one for one in row.source if not re.fullmatch(forms, one)] == []


def test_public_texts_name_their_issue_or_guide() -> None:
    forms = r"[\w.-]+/[\w.-]+#\d+|(?:Amazon|AWS) .+ User Guide, .+"
    assert [one["id"] for one in PUBLIC if not re.fullmatch(forms, one["source"])] == []


def test_every_stage_of_a_boot_has_a_row() -> None:
    folder = Path(gpunode.__file__).parent
    stages = {
        str(call.args[0].value)
        for file in (folder / "boot" / "stages.py", folder / "acceptance.py")
        for call in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "Stage"
        and call.args
        and isinstance(call.args[0], ast.Constant)
    }
    units = set(re.findall(r'\w+=\("([\w-]+)", "[\w-]+"\)', (folder / "boot" / "stages.py").read_text("utf-8")))
    assert {"driver", "efa"} <= stages
    assert {"lustre", "nfs"} <= units
    assert {f"boot-{name}" for name in stages | units} <= set(ROWS)
    assert "boot-software" in ROWS  # of fetch-software
