"""`gpu-clusters catalogue`: filters that hold, comparisons side by side, and unknown where nothing is known."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cdk_gpu_clusters.catalogue.instances import instance_types
from cdk_gpu_clusters_stacks.cli.main import main


def listed(capsys: pytest.CaptureFixture[str], *options: str) -> list[dict[str, Any]]:
    assert main(["catalogue", "list", "--json", *options]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["instance_types"]
    return found


def test_without_filters_every_accelerated_type_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    names = {one["name"] for one in listed(capsys)}
    assert names == {one.name for one in instance_types().values() if one.accelerator}
    assert {one["name"] for one in listed(capsys, "--plain")} == set(instance_types())


@pytest.mark.parametrize(
    ("options", "holds"),
    [
        (["--family", "p5"], lambda one: one["family"] == "p5"),
        (["--gpu", "h100"], lambda one: one["accelerator"]["name"] == "H100"),
        (["--gpu", "GB200"], lambda one: one["accelerator"]["marketing_name"] == "GB200"),
        (["--efa"], lambda one: one["network"]["efa"] is not None),
        (["--mig"], lambda one: one["accelerator"]["mig_capable"]),
        (["--capacity-block"], lambda one: "capacity-block" in one["usage_classes"]),
        (["--minimum-memory-gib", "80"], lambda one: one["accelerator"]["memory_mib_each"] >= 80 * 1024),
        (["--region", "eu-west-1"], lambda one: "eu-west-1" in one["regions"]),
    ],
)
def test_a_filter_leaves_what_it_asks_for_and_nothing_else(
    options: list[str], holds: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = {one["name"] for one in listed(capsys, *options)}
    assert kept
    assert kept == {one["name"] for one in listed(capsys) if holds(one)}


def test_a_table_has_a_line_for_each_type(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalogue", "list", "--family", "p5", "--region", "us-east-1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[0] == "type"
    assert [line.split()[0] for line in lines[1:]] == ["p5.48xlarge", "p5.4xlarge"]
    assert "55.04 (2026-09-19)" in lines[1]
    assert all(line == line.rstrip() for line in lines)


def test_a_price_without_a_source_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalogue", "compare", "p6e-gb200.36xlarge", "--region", "us-east-1"]) == 0
    assert "USD/h in us-east-1" in (printed := capsys.readouterr().out)
    assert "unknown" in printed.partition("USD/h")[2]


def test_types_stand_side_by_side_with_doubts_and_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalogue", "compare", "p5.48xlarge", "g5.xlarge", "--sources"]) == 0
    printed = capsys.readouterr().out
    row = next(line for line in printed.splitlines() if line.startswith("EFA"))
    assert "32, 3200 Gbps" in row
    assert row.endswith("none")
    assert "p5.48xlarge: unverified:" in printed
    assert "sources:\n" in printed


def test_nothing_like_it_exits_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalogue", "list", "--gpu", "voodoo2"]) == 1
    assert "no instance type" in capsys.readouterr().err


def test_an_unknown_type_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalogue", "compare", "p5.49xlarge"]) == 2
    error = capsys.readouterr().err
    assert "GPU-INST-001" in error
    assert "p5.48xlarge" in error
