"""The fewest GPUs that hold the requested MIG instances: an exact search, each GPU proven by the placement rules."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.catalogue import instance_type as look_up
from cdk_gpu_clusters.catalogue.mig import MigGpu, MigProfile, mig_gpu_of
from cdk_gpu_clusters.errors import ConfigError, Finding, check, define_rule, raise_for
from cdk_gpu_clusters.rules.mig import MigLayout, MigPlan, check_mig, creation_order, fits, plan_mig

# What a user wants of MIG without naming a layout: so many instances of at least so much memory, or of a profile.

WISH_TEXT = define_rule(
    "GPU-MIG-012",
    "a request for MIG instances is a number and a minimum memory, or a number and a profile",
    source="the form of `gpu-clusters mig pack`; the catalogue's profiles",
)
_WISH = re.compile(r"(?P<count>[0-9]{1,9})\s*x\s*(?:>=\s*(?P<memory>[0-9]{1,9})\s*gb|(?P<profile>\S+))", re.IGNORECASE)
_FORM = "NUMBERx>=MEMORYGB or NUMBERxPROFILE, with commas between, such as 12x>=20GB, 3x3g.40gb"


@dataclass(frozen=True, slots=True, kw_only=True)
class MigRequest:
    """So many equal instances.

    Attributes:
        count: How many.
        candidates: The profiles that serve it, the smallest first.
        text: As it was written.
    """

    count: int
    candidates: tuple[MigProfile, ...]
    text: str


def read_requests(gpu: MigGpu, text: str) -> tuple[tuple[MigRequest, ...], list[Finding]]:
    """Read requests for the instances of a GPU model, and find what is wrong with them.

    `>=20GB` is compared with the nominal memory in the profile's name; what the driver gives is less. Profiles with
    media or graphics attributes are taken only where they are named.

    Args:
        gpu: The GPU.
        text: Such as `12x>=20GB, 3x>=40GB`.

    Example:
        >>> from cdk_gpu_clusters.catalogue.mig import mig_gpus
        >>> requests, findings = read_requests(mig_gpus()["A100-40GB"], "12x>=20GB, 3x1g.5gb")
        >>> [(request.count, request.candidates[0].name) for request in requests]
        [(12, '3g.20gb'), (3, '1g.5gb')]
    """
    read = [_read(gpu, part.strip()) for part in text.split(",")]
    return (
        tuple(request for request in read if isinstance(request, MigRequest)),
        [finding for finding in read if isinstance(finding, Finding)],
    )


def _read(gpu: MigGpu, text: str) -> MigRequest | Finding:
    match = _WISH.fullmatch(text)
    if match is None or int(match["count"]) == 0:
        return WISH_TEXT.finding(
            cause="this is not a request for MIG instances",
            got=repr(text),
            allowed=_FORM,
            fix="write it in this form",
        )
    count = int(match["count"])
    if match["profile"]:
        named = gpu.profile(match["profile"])
        return MigRequest(count=count, candidates=(named,), text=text) if named else _no_profile(gpu, match["profile"])
    plain = [profile for profile in gpu.profiles.values() if not profile.attributes]
    enough = [profile for profile in plain if profile.memory_gb >= int(match["memory"])]
    if not enough:
        return _too_large(gpu, match["memory"])
    return MigRequest(count=count, candidates=tuple(reversed(creation_order(enough))), text=text)


def _no_profile(gpu: MigGpu, name: str) -> Finding:
    return WISH_TEXT.finding(
        cause=f"{gpu.key} has no such profile",
        got=repr(name),
        allowed=", ".join(gpu.profiles),
        fix="name one of them, or a least memory such as 2x>=20GB",
    )


def _too_large(gpu: MigGpu, memory_gb: str) -> Finding:
    most = max(profile.memory_gb for profile in gpu.profiles.values())
    return WISH_TEXT.finding(
        cause=f"no MIG instance of {gpu.key} has so much memory",
        got=f"{memory_gb} GB",
        allowed=f"at most {most} GB",
        fix="ask for less, or choose a type whose GPUs have more memory: gpu-clusters catalogue list --mig",
    )


# On every GPU of the catalogue the smallest profile that serves a request lies wherever a larger one would, so that the
# smallest of each request give the fewest GPUs; a test holds it against brute force. Compute slices that would stay
# idle are then used: a request gets a profile with more of them, and the same memory, if it costs no GPU.

#: Most instances and kinds of one request list; more would take too long to prove.
MOST_INSTANCES = 250
MOST_KINDS = 4

TOO_MANY = define_rule(
    "GPU-MIG-013",
    f"a request for MIG instances has at most {MOST_INSTANCES} instances of {MOST_KINDS} kinds",
    source="the exact search takes too long beyond it; equal parts of a larger list are packed in the same way",
)

_Counts = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MigChoice:
    """The profile that was chosen for a request.

    Attributes:
        request: The request.
        profile: One of its candidates.
    """

    request: MigRequest
    profile: MigProfile

    @property
    def has_more_compute(self) -> bool:
        """Whether it got more compute slices than it needs, since that costs no GPU."""
        return self.profile is not self.request.candidates[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class MigPacking:
    """The requested instances on the fewest GPUs.

    Attributes:
        instance_type: Type of the nodes.
        gpu: MIG side of its GPUs.
        choices: The profile chosen for each request, in the order of the requests.
        layouts: One per GPU in use, equal ones side by side.
        nodes: One plan per node, in the order of `layouts`; GPUs of the last node that are not needed stay unsplit.
    """

    instance_type: str
    gpu: MigGpu
    choices: tuple[MigChoice, ...]
    layouts: tuple[MigLayout, ...]
    nodes: tuple[MigPlan, ...]


def pack_mig(instance_type: InstanceType | str, requests: str) -> MigPacking:
    """Pack the requested MIG instances onto the fewest GPUs.

    Args:
        instance_type: Type of the nodes.
        requests: Such as `12x>=20GB, 3x>=40GB`; see `read_requests`.

    Raises:
        ConfigError: GPU-MIG-001 if the type has no GPU to split, -012 and -013 for the requests, all faults at once.

    Example:
        >>> packing = pack_mig("p4d.24xlarge", "12x>=20GB, 3x>=40GB")
        >>> len(packing.layouts), [choice.profile.name for choice in packing.choices]
        (9, ['3g.20gb', '7g.40gb'])
    """
    record = look_up(instance_type) if isinstance(instance_type, str) else instance_type
    gpu = mig_gpu_of(record)
    if gpu is None or not gpu.profiles:
        raise ConfigError(check_mig(record, MigLayout.whole_gpu()))
    read, findings = read_requests(gpu, requests)
    raise_for(findings or _check_size(read))
    chosen = _upgrade(gpu, read)
    layouts = tuple(MigLayout([profile.name for profile in one]) for one in _pack(gpu, read, chosen))
    return MigPacking(
        instance_type=record.name,
        gpu=gpu,
        choices=tuple(
            MigChoice(request=request, profile=profile) for request, profile in zip(read, chosen, strict=True)
        ),
        layouts=layouts,
        nodes=tuple(_nodes(record, layouts)),
    )


@check
def _check_size(requests: Sequence[MigRequest]) -> Iterator[Finding]:
    total = sum(request.count for request in requests)
    if total > MOST_INSTANCES or len(requests) > MOST_KINDS:
        yield TOO_MANY.finding(
            cause="the request is too long to prove that its packing is the best",
            got=f"{total} instances of {len(requests)} kinds",
            allowed=f"{MOST_INSTANCES} instances of {MOST_KINDS} kinds",
            fix="pack a part of it, such as what one node or one team needs, and repeat that",
        )


def _upgrade(gpu: MigGpu, requests: Sequence[MigRequest]) -> list[MigProfile]:
    """The profile of each request: the smallest, or one of the same memory with more compute that costs no GPU."""
    chosen = [request.candidates[0] for request in requests]
    fewest = len(_pack(gpu, requests, chosen))
    for index, request in enumerate(requests):
        for larger in reversed(request.candidates[1:]):
            tried = [*chosen[:index], larger, *chosen[index + 1 :]]
            if larger.memory_gb == chosen[index].memory_gb and len(_pack(gpu, requests, tried)) == fewest:
                chosen = tried
                break
    return chosen


def _pack(gpu: MigGpu, requests: Sequence[MigRequest], chosen: Sequence[MigProfile]) -> list[tuple[MigProfile, ...]]:
    """The profiles of each GPU, one profile for each request."""
    wanted: Counter[MigProfile] = Counter()
    for request, profile in zip(requests, chosen, strict=True):
        wanted[profile] += request.count
    kinds = creation_order(list(wanted))
    patterns = _patterns(gpu, kinds)
    used = _fewest(tuple(wanted[kind] for kind in kinds), patterns, kinds, gpu)
    return [tuple(kind for kind, count in zip(kinds, one, strict=True) for _ in range(count)) for one in used]


def _patterns(gpu: MigGpu, kinds: Sequence[MigProfile]) -> tuple[_Counts, ...]:
    """How many of each kind fit on one GPU together; only those that nothing can be added to."""
    found: list[_Counts] = []

    def extend(counts: _Counts) -> None:
        if len(counts) == len(kinds):
            found.append(counts)
            return
        number = 0
        while fits(gpu, _profiles(kinds, (*counts, number))):
            extend((*counts, number))
            number += 1

    extend(())
    return tuple(one for one in found if not any(other != one and _covers(other, one) for other in found))


def _profiles(kinds: Sequence[MigProfile], counts: _Counts) -> list[MigProfile]:
    return [kind for kind, count in zip(kinds, counts, strict=False) for _ in range(count)]


def _covers(larger: _Counts, smaller: _Counts) -> bool:
    return all(one >= other for one, other in zip(larger, smaller, strict=True))


def _fewest(wanted: _Counts, patterns: Sequence[_Counts], kinds: Sequence[MigProfile], gpu: MigGpu) -> list[_Counts]:
    """The counts of each GPU: a search over what remains, that ends early where a lower bound is reached."""

    def least(remaining: _Counts) -> int:
        """No packing needs fewer GPUs: by each axis, and by the most of one kind that a GPU takes."""
        by_axis = [
            sum(count * size for count, size in zip(remaining, sizes, strict=True)) / room
            for sizes, room in (
                ([kind.compute_slices for kind in kinds], gpu.compute_slices),
                ([kind.memory_slices for kind in kinds], gpu.memory_slices),
            )
        ]
        by_kind = [count / max(one[index] for one in patterns) for index, count in enumerate(remaining) if count]
        return ceil(max(by_axis + by_kind, default=0))

    @cache
    def search(remaining: _Counts) -> tuple[int, _Counts | None]:
        if not any(remaining):
            return 0, None
        first = next(index for index, count in enumerate(remaining) if count)
        best: tuple[int, _Counts | None] = (sum(remaining) + 1, None)
        bound = least(remaining)
        # Of the GPUs in any packing, one holds an instance of the first kind: it is taken next, as full as it can be.
        for used in _steps(remaining, patterns, first):
            number = 1 + search(_minus(remaining, used))[0]
            if number < best[0]:
                best = (number, used)
            if number == bound:
                break
        return best

    taken: list[_Counts] = []
    remaining = wanted
    while (step := search(remaining)[1]) is not None:
        taken.append(step)
        remaining = _minus(remaining, step)
    return sorted(taken, reverse=True)


def _steps(remaining: _Counts, patterns: Sequence[_Counts], first: int) -> list[_Counts]:
    """What one GPU can take of what remains, with an instance of the first kind, the fullest first."""
    cut = {tuple(map(min, one, remaining)) for one in patterns if one[first]}
    full = [one for one in cut if not any(other != one and _covers(other, one) for other in cut)]
    return sorted(full, key=lambda one: (one[first], sum(one), one), reverse=True)


def _minus(remaining: _Counts, used: _Counts) -> _Counts:
    return tuple(one - other for one, other in zip(remaining, used, strict=True))


def _nodes(record: InstanceType, layouts: Sequence[MigLayout]) -> list[MigPlan]:
    per_node = record.accelerator.count if record.accelerator else 1
    plans = []
    for begin in range(0, len(layouts), per_node):
        here = list(layouts[begin : begin + per_node])
        plans.append(plan_mig(record, [*here, *[MigLayout.whole_gpu()] * (per_node - len(here))]))
    return plans
