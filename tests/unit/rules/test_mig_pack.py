"""Packing MIG instances: never more GPUs than brute force finds, and never a layout that the rules refuse."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk_gpu_clusters.catalogue.instances import instance_types
from cdk_gpu_clusters.catalogue.mig import MigGpu, mig_gpu_of, mig_gpus
from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.rules.mig import fits, plan_mig
from cdk_gpu_clusters.rules.mig_packing import MOST_INSTANCES, MigRequest, pack_mig, read_requests

#: One type for each GPU that can be split.
TYPES = {
    gpu.key: one.name for one in instance_types().values() if (gpu := mig_gpu_of(one)) is not None and gpu.profiles
}
#: Wishes with at most so many instances are packed by brute force, too.
FEW = 7


def fewest_by_brute_force(gpu: MigGpu, requests: tuple[MigRequest, ...]) -> int:
    """The fewest GPUs, where every instance may have any profile that serves its request, equal or not."""

    @cache
    def fit(counts: tuple[int, ...]) -> bool:
        wanted = [request.candidates for request, count in zip(requests, counts, strict=True) for _ in range(count)]
        return any(fits(gpu, list(profiles)) for profiles in product(*wanted))

    @cache
    def fewest(remaining: tuple[int, ...]) -> int:
        if not any(remaining):
            return 0
        parts = product(*(range(count + 1) for count in remaining))
        return 1 + min(
            fewest(tuple(a - b for a, b in zip(remaining, part, strict=True)))
            for part in parts
            if any(part) and fit(part)
        )

    return fewest(tuple(request.count for request in requests))


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str]:
    """An instance type, and a request list of few instances for its GPUs."""
    key = draw(st.sampled_from(sorted(TYPES)))
    gpu = mig_gpus()[key]
    memories = sorted({profile.memory_gb for profile in gpu.profiles.values()})
    form = st.one_of(
        st.sampled_from([f">={memory}GB" for memory in memories] + [f">={memory - 1}GB" for memory in memories]),
        st.sampled_from(sorted(gpu.profiles)),
    )
    requests, room = [], FEW
    for what in draw(st.lists(form, min_size=1, max_size=3)):
        count = draw(st.integers(1, 4))
        if count <= room:
            requests.append(f"{count}x{what}")
            room -= count
    return TYPES[key], ", ".join(requests)


@settings(max_examples=150, deadline=None)
@given(requests())
def test_no_packing_needs_fewer_gpus_and_every_layout_is_allowed(request: tuple[str, str]) -> None:
    type_name, text = request
    packing = pack_mig(type_name, text)
    requests, _ = read_requests(packing.gpu, text)
    assert len(packing.layouts) == fewest_by_brute_force(packing.gpu, requests)
    for layout in packing.layouts:  # raises for a layout that the placement rules refuse
        plan_mig(type_name, layout)
    got = Counter(str(name) for layout in packing.layouts for name in layout.profiles)
    asked: Counter[str] = Counter()
    assert [choice.request for choice in packing.choices] == list(requests)
    for choice in packing.choices:
        assert choice.profile in choice.request.candidates
        asked[choice.profile.name] += choice.request.count
    assert got == asked


@pytest.mark.parametrize("key", sorted(TYPES))
def test_the_smallest_profile_of_a_wish_lies_wherever_a_larger_one_would(key: str) -> None:
    """Why one profile for a request is enough: what the packing rests on, on every GPU of the catalogue."""
    gpu = mig_gpus()[key]
    for memory_gb in {profile.memory_gb for profile in gpu.profiles.values()}:
        (request,), _ = read_requests(gpu, f"1x>={memory_gb}GB")
        smallest = request.candidates[0]
        for larger in request.candidates[1:]:
            assert smallest.compute_slices <= larger.compute_slices
            assert smallest.max_instances >= larger.max_instances
            for start in larger.starts:
                inside = range(start, start + larger.memory_slices)
                assert any(own in inside and own + smallest.memory_slices - 1 in inside for own in smallest.starts)


def names(type_name: str, requests: str) -> list[str]:
    return [choice.profile.name for choice in pack_mig(type_name, requests).choices]


def test_idle_compute_slices_are_used_but_not_idle_memory() -> None:
    assert names("p4d.24xlarge", "3x>=10GB") == ["2g.10gb"]
    assert names("p4d.24xlarge", "4x>=10GB") == ["1g.10gb"]
    assert names("p4d.24xlarge", "1x>=5GB") == ["1g.5gb"]
    assert [choice.has_more_compute for choice in pack_mig("p4d.24xlarge", "3x>=10GB").choices] == [True]


def test_gpus_that_are_not_needed_stay_whole() -> None:
    packing = pack_mig("p4d.24xlarge", "12x>=20GB, 3x>=40GB")
    assert len(packing.layouts) == 9
    assert [plan.whole_gpus_per_node for plan in packing.nodes] == [0, 7]
    assert packing.nodes[1].resources == {"nvidia.com/mig-3g.20gb": 2, "nvidia.com/gpu": 7}


@pytest.mark.parametrize("requests", [f"{MOST_INSTANCES}x>=5GB", f"{MOST_INSTANCES}x>=40GB"])
def test_the_longest_lists_are_packed(requests: str) -> None:
    layouts = pack_mig("p4d.24xlarge", requests).layouts
    assert sum(len(layout.profiles) for layout in layouts) == MOST_INSTANCES


@pytest.mark.parametrize(
    ("type_name", "requests", "rule"),
    [
        ("p4d.24xlarge", "x", "GPU-MIG-012"),
        ("p4d.24xlarge", "", "GPU-MIG-012"),
        ("p4d.24xlarge", "0x>=5GB", "GPU-MIG-012"),
        ("p4d.24xlarge", "2x>=41GB", "GPU-MIG-012"),
        ("p4d.24xlarge", "2x3g.40gb", "GPU-MIG-012"),
        ("p4d.24xlarge", f"{MOST_INSTANCES + 1}x>=5GB", "GPU-MIG-013"),
        ("p4d.24xlarge", "1x>=5GB,1x>=6GB,1x>=7GB,1x>=8GB,1x>=9GB", "GPU-MIG-013"),
        ("g5.xlarge", "1x>=5GB", "GPU-MIG-001"),
        ("p4d.25xlarge", "1x>=5GB", "GPU-INST-001"),
    ],
)
def test_wrong_wishes_are_refused(type_name: str, requests: str, rule: str) -> None:
    with pytest.raises(ConfigError) as caught:
        pack_mig(type_name, requests)
    assert {finding.id for finding in caught.value.findings} == {rule}


def test_every_fault_is_said_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        pack_mig("p4d.24xlarge", "x, 2x>=41GB, 3x9g.1gb")
    assert len(caught.value.findings) == 3


def test_two_wishes_for_one_profile_share_gpus() -> None:
    assert len(pack_mig("p4d.24xlarge", "3x1g.5gb, 4x>=5GB").layouts) == 1
    assert names("p4d.24xlarge", "3x1g.5gb, 4x>=5GB") == ["1g.5gb", "1g.5gb"]
