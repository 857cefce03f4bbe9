"""Where the GPU instances of a layout can lie on a GPU: proven by search, not by sums.

Source: NVIDIA MIG User Guide, partitioning; the catalogue's placements. 3g + 3g + 1g needs no more compute slices than
a GPU has, and still does not fit; sums over one axis are not enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache

from cdk_gpu_clusters.catalogue.mig import MigGpu, MigProfile

ALL_MEDIA = "+me.all"
MEDIA_EXTENSIONS = "+me"
NO_MEDIA = "-me"


def creation_order(profiles: Sequence[MigProfile]) -> tuple[MigProfile, ...]:
    """The order to create instances in: by descending compute slices, then memory slices, then id.

    A small instance that is created first can block every start of a larger one (NVIDIA MIG User Guide, which names
    3-2-1-1 as such a case).
    """
    return tuple(sorted(profiles, key=lambda p: (-p.compute_slices, -p.memory_slices, -p.id)))


def place(gpu: MigGpu, profiles: Sequence[MigProfile]) -> tuple[int, ...] | None:
    """Starts at which the instances lie side by side, in the order of `profiles`; None if there are none.

    Media engines are another matter: see `media_conflict`.

    Args:
        gpu: The GPU.
        profiles: One per instance, in `creation_order`, so that the search fails early.
    """
    if sum(profile.compute_slices for profile in profiles) > gpu.compute_slices:
        return None
    return _search(tuple((profile.starts, profile.memory_slices) for profile in profiles), 0)


def media_conflict(profiles: Sequence[MigProfile]) -> str | None:
    """Why the profiles cannot share the media engines of a GPU, None if they can."""
    extended = [profile.name for profile in profiles if MEDIA_EXTENSIONS in profile.attributes]
    if len(extended) > 1:
        return f"only one instance of a GPU can have the media extensions, not {len(extended)}"
    greedy = [profile.name for profile in profiles if ALL_MEDIA in profile.attributes]
    bearing = [profile.name for profile in profiles if NO_MEDIA not in profile.attributes]
    if greedy and len(bearing) > 1:
        bearing.remove(greedy[0])
        return f"{greedy[0]} takes every media engine, so that {bearing[0]} beside it gets none"
    return None


def fits(gpu: MigGpu, profiles: Sequence[MigProfile]) -> bool:
    """Whether the profiles can stand on one GPU together."""
    return media_conflict(profiles) is None and place(gpu, creation_order(profiles)) is not None


def nearest_fit(
    gpu: MigGpu, profiles: Sequence[MigProfile]
) -> tuple[tuple[MigProfile, ...], Counter[MigProfile]]:
    """A layout that fits and is near to one that does not, and what was dropped for it.

    As much of the wish as possible is kept, then the room that is left is filled with the largest plain profiles.
    """
    kept = max(_fitting_parts(gpu, Counter(profiles)), key=lambda part: (len(part), _fill_of(gpu, part)))
    return _filled(gpu, kept), Counter(profiles) - Counter(kept)


def _fill_of(gpu: MigGpu, part: Sequence[MigProfile]) -> tuple[int, int]:
    filled = _filled(gpu, part)
    return sum(p.compute_slices for p in filled), sum(p.memory_slices for p in filled)


def _filled(gpu: MigGpu, part: Sequence[MigProfile]) -> tuple[MigProfile, ...]:
    filled = tuple(part)
    plain = creation_order([profile for profile in gpu.profiles.values() if not profile.attributes])
    # Of two plain profiles with the same compute slices, the one with less memory leaves less of the GPU idle.
    frugal = {profile.compute_slices: profile for profile in plain}
    for profile in frugal.values():
        while fits(gpu, (*filled, profile)):
            filled = (*filled, profile)
    return creation_order(filled)


def _fitting_parts(gpu: MigGpu, wish: Counter[MigProfile]) -> Iterator[tuple[MigProfile, ...]]:
    """Every part of the wish, the empty one too, that fits."""
    kinds = creation_order(list(wish))

    def extend(part: tuple[MigProfile, ...], index: int) -> Iterator[tuple[MigProfile, ...]]:
        if index == len(kinds):
            yield part
            return
        for _ in range(wish[kinds[index]] + 1):
            if not fits(gpu, part):  # nor would anything larger
                return
            yield from extend(part, index + 1)
            part = (*part, kinds[index])

    return extend((), 0)


@cache
def _search(shapes: tuple[tuple[tuple[int, ...], int], ...], taken: int) -> tuple[int, ...] | None:
    """Backtracking over the starts of each shape; `taken` has a bit for each slice in use."""
    if not shapes:
        return ()
    (starts, size), *rest = shapes
    for start in starts:
        mask = ((1 << size) - 1) << start
        if taken & mask:
            continue
        found = _search(tuple(rest), taken | mask)
        if found is not None:
            return (start, *found)
    return None
