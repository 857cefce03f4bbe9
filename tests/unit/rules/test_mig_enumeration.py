"""Every layout of every MIG-capable GPU: accepted exactly where an independent brute force finds room for it.

The brute force knows nothing of the rules. It grows layouts one instance at a time from the data file: a set of
(occupied memory slices as bits, compute slices left) for each multiset of profiles, extended over all starts.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import pytest

import cdk_gpu_clusters.catalogue
import cdk_gpu_clusters.node
from cdk_gpu_clusters.catalogue.mig import MigGpu, MigProfile, mig_gpus
from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.rules.mig import MigLayout, check_layout, creation_order, fits, place, plan_mig

DATA = json.loads((Path(cdk_gpu_clusters.catalogue.__file__).parent / "data" / "mig_profiles.json").read_text())
GPUS: dict[str, Any] = {key: gpu for key, gpu in DATA["gpus"].items() if gpu["profiles"]}
EIGHT = [key for key, gpu in GPUS.items() if gpu["memory_slices"] == 8]
Multiset = tuple[str, ...]


def possible(key: str) -> set[Multiset]:
    """Every multiset of profile names that some placement gives room to."""
    gpu = GPUS[key]
    states: dict[Multiset, set[tuple[int, int]]] = {(): {(0, gpu["compute_slices"])}}
    done: set[Multiset] = set()
    while states:
        done |= states.keys()
        larger: dict[Multiset, set[tuple[int, int]]] = {}
        for names, places in states.items():
            for row in gpu["profiles"]:
                if not media_engines_suffice([*names, row["name"]]):
                    continue
                found = {
                    (used | bits, left - row["compute_slices"])
                    for used, left in places
                    for start in row["starts"]
                    for bits in [sum(1 << (start + offset) for offset in range(row["size"]))]
                    if not used & bits and left >= row["compute_slices"] and bits < 1 << gpu["memory_slices"]
                }
                if found:
                    larger.setdefault(tuple(sorted((*names, row["name"]))), set()).update(found)
        states = larger
    return done - {()}


def media_engines_suffice(names: list[str]) -> bool:
    """One `+me` for a GPU; a `+me.all` leaves media engines to nobody, so that all others must do without (`-me`)."""
    endings = [name.partition("gb")[2] for name in names]
    without = endings.count("-me")
    return endings.count("+me") <= 1 and ("+me.all" not in endings or len(endings) - without == 1)


def multisets(key: str) -> Iterator[Multiset]:
    """Every multiset of up to one instance more than the GPU can have."""
    names = sorted(row["name"] for row in GPUS[key]["profiles"])
    for size in range(1, GPUS[key]["compute_slices"] + 2):
        yield from combinations_with_replacement(names, size)


def profiles_of(gpu: MigGpu, names: Multiset) -> list[MigProfile]:
    return [gpu.profiles[name] for name in names]


@pytest.mark.parametrize("key", GPUS)
def test_exactly_the_possible_layouts_are_accepted(key: str) -> None:
    gpu, allowed = mig_gpus()[key], possible(key)
    accepted = {names for names in multisets(key) if fits(gpu, profiles_of(gpu, names))}
    assert accepted == allowed
    assert max(map(len, allowed)) == gpu.compute_slices


@pytest.mark.parametrize("key", ["A100-40GB", "GB200", "RTX-PRO-6000-BSE"])
def test_check_says_so_of_every_layout_with_an_alternative_that_fits(key: str) -> None:
    gpu, allowed = mig_gpus()[key], possible(key)
    shorter = 5 if gpu.memory_slices == 8 else 4
    for names in multisets(key):
        if len(names) > shorter:
            break
        findings = check_layout(gpu, MigLayout(names))
        assert (not findings) is (names in allowed), names
        for finding in findings:
            instead = finding.fix.removeprefix("use ").partition(", or drop ")[0]
            assert tuple(sorted(_expanded(instead))) in allowed, finding


def _expanded(text: str) -> list[str]:
    found = []
    for term in text.split(" + "):
        count, times, name = term.partition(" x ")
        found += [name] * int(count) if times else [term]
    return found


@pytest.mark.parametrize("key", GPUS)
def test_planned_placements_lie_side_by_side_on_starts_of_the_data_file(key: str) -> None:
    gpu, rows = mig_gpus()[key], {row["name"]: row for row in GPUS[key]["profiles"]}
    for names in possible(key):
        ordered = creation_order(profiles_of(gpu, names))
        starts = place(gpu, ordered)
        assert starts is not None
        used = 0
        for profile, start in zip(ordered, starts, strict=True):
            row = rows[profile.name]
            assert start in row["starts"]
            bits = ((1 << row["size"]) - 1) << start
            assert not used & bits, names
            used |= bits


def test_counts_that_are_known_from_the_published_geometry() -> None:
    # NVIDIA/mig-parted and the MIG User Guide: 77 layouts with the double-memory profile and without +me on A100-40GB.
    plain = {names for names in possible("A100-40GB") if not any("+me" in name for name in names)}
    assert len(plain) == 77
    for key in EIGHT:
        assert len(possible(key)) == len(possible("A100-40GB"))


def created(gpu: Any, order: list[str], policy: Any) -> bool:
    """Whether a driver that takes the first or the last free start can create the profiles in that order."""
    rows = {row["name"]: row for row in gpu["profiles"]}
    used = 0
    for name in order:
        bits = {start: ((1 << rows[name]["size"]) - 1) << start for start in rows[name]["starts"]}
        free = [start for start, mask in bits.items() if not used & mask]
        if not free:
            return False
        used |= bits[policy(free)]
    return True


def orders(names: list[str]) -> list[list[str]]:
    """The orders that the node tries."""
    script = Path(cdk_gpu_clusters.node.__file__).parent / "scripts" / "mig-apply.sh"
    [function] = re.findall(r"^orders\(\) \{\n.*?^\}\n", script.read_text(), re.DOTALL | re.MULTILINE)
    done = subprocess.run(
        ["bash", "-euc", f'{function} for ids; do orders "$ids"; echo; done', "bash", *names],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return [block.split("\n") for block in done.stdout.removesuffix("\n\n").split("\n\n")]


@pytest.mark.parametrize("key", ["A100-40GB", "RTX-PRO-6000-BSE"])
@pytest.mark.parametrize("policy", [min, max], ids=["lowest", "highest"])
def test_one_of_the_orders_that_a_node_tries_works_whichever_free_start_the_driver_takes(key: str, policy: Any) -> None:
    gpu = mig_gpus()[key]
    layouts = [",".join(profile.name for profile in creation_order(profiles_of(gpu, names))) for names in possible(key)]
    for tried in orders(layouts):
        assert any(created(GPUS[key], order.split(","), policy) for order in tried), tried


def test_descending_order_is_needed_and_enough_for_a_driver_that_takes_the_last_free_start() -> None:
    gpu = mig_gpus()["A100-40GB"]
    for names in possible("A100-40GB"):
        order = [profile.name for profile in creation_order(profiles_of(gpu, names))]
        assert created(GPUS["A100-40GB"], order, max), names
    assert not created(GPUS["A100-40GB"], ["2g.10gb", "3g.20gb", "1g.5gb", "1g.5gb"], max)


def test_whole_plans_agree_for_every_layout_of_a_node() -> None:
    gpu = mig_gpus()["A100-40GB"]
    allowed = possible("A100-40GB")
    for names in sorted(allowed)[::7]:
        plan = plan_mig("p4d.24xlarge", MigLayout([gpu.profiles[name].id for name in names]))
        assert tuple(sorted(plan.partition.split(","))) == names
        assert plan.slices_per_node == 8 * len(names) == sum(plan.resources.values())
    with pytest.raises(ConfigError):
        plan_mig("p4d.24xlarge", MigLayout(["7g.40gb", "1g.5gb"]))
