"""Reading what `sacct --parsable2` prints: recorded output of real clusters, and what is not such output."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk_gpu_clusters_stacks.cost.accounting import NoAccounting
from cdk_gpu_clusters_stacks.cost.slurm import COLUMNS, COMMAND, expand_host_list, read_sacct
from pages import REPOSITORY

FIXTURES = REPOSITORY / "tests" / "fixtures" / "accounting"
RECORDED = {one["name"]: "\n".join(one["text"]) for one in json.loads((FIXTURES / "recorded.json").read_text("utf-8"))}
HOSTNAMES: dict[str, list[str]] = json.loads((FIXTURES / "hostnames.json").read_text("utf-8"))["nodes"]
HEADING = "JobID|User|Account|Start|ElapsedRaw|AllocTRES|NodeList"


def epoch(text: str) -> int:
    return int(datetime.fromisoformat(f"{text}+00:00").timestamp())


def test_every_column_is_a_field_of_sacct() -> None:
    fields = json.loads((FIXTURES / "sacct.json").read_text("utf-8"))["fields"].split()
    assert {*COLUMNS, "Elapsed"} <= set(fields)
    assert f"--format={','.join(COLUMNS)}" in COMMAND


def test_every_option_is_one_of_sacct_and_the_page_has_the_same() -> None:
    page = (REPOSITORY / "docs" / "cost.md").read_text("utf-8")
    (shown,) = re.findall(r"^SLURM_TIME_FORMAT=.*?sacct\.txt$", page, re.MULTILINE | re.DOTALL)
    options = re.findall(r"--[a-z0-9]+", COMMAND)
    assert options == re.findall(r"--[a-z0-9]+", shown)
    assert set(options) <= set(json.loads((FIXTURES / "sacct.json").read_text("utf-8"))["options"].split())


def test_a_job_over_the_end_of_a_year() -> None:
    one, several = read_sacct(RECORDED["over a year's end, with GPUs"]).runs
    assert (one.job, one.user, one.account, one.nodes) == ("163485", "noror", "chaff", ("cpn-f11-31",))
    assert one.gpus == {"": 2}
    assert one.start + one.seconds == epoch("2017-01-01T20:42:19")
    assert several.gpus == {}
    assert len(several.nodes) == 8
    assert several.nodes[:3] == ("cpn-f13-03-01", "cpn-f13-03-02", "cpn-f13-04-01")


def test_a_running_job_counts_so_far_and_a_waiting_one_not() -> None:
    read = read_sacct(RECORDED["running and waiting"])
    assert [(run.job, run.seconds) for run in read.runs] == [("3451067", 22 * 3600 + 32 * 60 + 22)]
    assert read.left_out["without_nodes"] == 1


def test_a_host_list_of_a_real_job_has_as_many_nodes_as_it_held() -> None:
    (run,) = read_sacct(RECORDED["a long host list"]).runs
    assert len(run.nodes) == len(set(run.nodes)) == 32  # NNodes of the same row
    assert run.nodes[-4:] == ("d13n05", "d13n07", "d13n08", "d13n16")


def test_types_of_gpus_and_steps() -> None:
    read = read_sacct(RECORDED["a MIG instance, and an H100"])
    assert [dict(run.gpus) for run in read.runs] == [{"a100_3g.20gb": 1, "": 1}, {"h100": 1, "": 1}]
    assert read.left_out["steps"] == 2


def test_runs_of_a_requeued_job_are_kept_and_repeated_rows_are_not() -> None:
    rows = [
        "7|ana|nlp|2026-11-01T00:00:00|100|gres/gpu=8|gpu-1",
        "7|ana|nlp|2026-11-01T01:00:00|50|gres/gpu=8|gpu-1",
        HEADING,
        "7|ana|nlp|2026-11-01T01:00:00|200|gres/gpu=8|gpu-1",
    ]
    read = read_sacct("\n".join([HEADING, *rows]))
    assert [run.seconds for run in read.runs] == [100, 200]
    assert read.left_out["repeated"] == 1


@pytest.mark.parametrize("start", ["1793491200", "2026-11-01T00:00:00", "2026-11-01T01:00:00+01:00"])
def test_times(start: str) -> None:
    (run,) = read_sacct(f"{HEADING}\n7|a|b|{start}|60|gres/gpu=1|n1").runs
    assert run.start == datetime(2026, 11, 1, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "it is empty"),
        ("JobID|User\n7|ana", "the heading has no Account, Start, ElapsedRaw, AllocTRES, NodeList"),
        (f"{HEADING}\n7|ana", "line 2: 2 fields, but the heading has 7"),
        (f"{HEADING}\n7|a|b|yesterday|60|gres/gpu=1|n1", "line 2: Start 'yesterday' is no time"),
        (f"{HEADING}\n7|a|b|0|-60|gres/gpu=1|n1", "line 2: ElapsedRaw '-60' is no number of seconds"),
        (f"{HEADING}\n7|a|b|0|60|gpu|n1", "line 2: AllocTRES 'gpu' is no list of name=number"),
        (f"{HEADING}\n7|a|b|0|60|gres/gpu=2.5|n1", "line 2: AllocTRES 'gres/gpu=2.5' has a number of GPUs"),
        (f"{HEADING}\n7|a|b|0|60|gres/gpu={10**70}|n1", "no whole number up to 10,000,000"),
        (f"{HEADING}\n7|a|b|0|60|gres/gpu=1|n[1-", "line 2: NodeList 'n[1-' is no host list"),
        (f"{HEADING}\n7|a|b|0|60|gres/gpu=1|n[1-999999999]", "line 2: NodeList 'n[1-999999999]' names too many nodes"),
        ("PK\x03\x04", "the heading has no JobID"),
    ],
)
def test_what_is_no_accounting(text: str, fault: str) -> None:
    with pytest.raises(NoAccounting) as raised:
        read_sacct(text)
    assert any(fault in one for one in raised.value.faults), raised.value.faults


def test_all_faults_come_at_once() -> None:
    text = f"{HEADING}\n7|a|b|x|y|gres/gpu=1|n1\n8|a"
    with pytest.raises(NoAccounting) as raised:
        read_sacct(text)
    assert [fault.partition(":")[0] for fault in raised.value.faults] == ["line 2", "line 2", "line 3"]


@given(st.text(st.characters(codec="utf-8"), max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    for one in (text, f"{HEADING}\n{text}", f"{HEADING}\n7|a|b|0|60|{text}|{text}"):
        with suppress(NoAccounting):
            read_sacct(one)


@pytest.mark.parametrize(("text", "nodes"), HOSTNAMES.items())
def test_a_host_list_has_the_nodes_that_slurm_has(text: str, nodes: list[str]) -> None:
    assert list(expand_host_list(text)) == nodes


def test_a_host_list_may_have_very_many_brackets() -> None:
    assert expand_host_list("a" + "[7]" * 2000) == ("a" + "7" * 2000,)
    with pytest.raises(ValueError, match="too many nodes"):
        expand_host_list("a" + "[1-2]" * 2000)


@pytest.mark.parametrize("text", ["", "a,,b", "a[", "a[1-2", "a[x]", "a]", ",", "a[5-3]"])
def test_what_is_no_host_list(text: str) -> None:
    with pytest.raises(ValueError, match="is no host list"):
        expand_host_list(text)
