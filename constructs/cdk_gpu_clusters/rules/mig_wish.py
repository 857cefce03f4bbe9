"""What a user wants of MIG without naming a layout: so many instances of at least so much memory, or of a profile."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cdk_gpu_clusters.catalogue.mig import MigGpu, MigProfile
from cdk_gpu_clusters.errors import Finding, define_rule
from cdk_gpu_clusters.rules.mig_placement import creation_order

WISH_TEXT = define_rule(
    "GPU-MIG-012",
    "a wish for MIG instances is a number and a least memory, or a number and a profile",
    source="the form of `gpu-clusters mig pack`; the catalogue's profiles",
)
_WISH = re.compile(
    r"(?P<count>[0-9]{1,9})\s*x\s*(?:>=\s*(?P<memory>[0-9]{1,9})\s*gb|(?P<profile>\S+))", re.IGNORECASE
)
_FORM = "NUMBERx>=MEMORYGB or NUMBERxPROFILE, with commas between, such as 12x>=20GB, 3x3g.40gb"


@dataclass(frozen=True, slots=True, kw_only=True)
class MigWish:
    """So many equal instances.

    Attributes:
        count: How many.
        candidates: The profiles that serve it, the smallest first.
        text: As it was written.
    """

    count: int
    candidates: tuple[MigProfile, ...]
    text: str


def read_wishes(gpu: MigGpu, text: str) -> tuple[tuple[MigWish, ...], list[Finding]]:
    """Read wishes for the instances of a GPU model, and find what is wrong with them.

    `>=20GB` is compared with the nominal memory in the profile's name; what the driver gives is less. Profiles with
    media or graphics attributes are taken only where they are named.

    Args:
        gpu: The GPU.
        text: Such as `12x>=20GB, 3x>=40GB`.

    Example:
        >>> from cdk_gpu_clusters.catalogue.mig import mig_gpus
        >>> wishes, findings = read_wishes(mig_gpus()["A100-40GB"], "12x>=20GB, 3x1g.5gb")
        >>> [(wish.count, wish.candidates[0].name) for wish in wishes]
        [(12, '3g.20gb'), (3, '1g.5gb')]
    """
    read = [_read(gpu, part.strip()) for part in text.split(",")]
    return (
        tuple(wish for wish in read if isinstance(wish, MigWish)),
        [finding for finding in read if isinstance(finding, Finding)],
    )


def _read(gpu: MigGpu, text: str) -> MigWish | Finding:
    match = _WISH.fullmatch(text)
    if match is None or int(match["count"]) == 0:
        return WISH_TEXT.finding(
            cause="this is no wish for MIG instances",
            got=repr(text),
            allowed=_FORM,
            fix="write it in this form",
        )
    count = int(match["count"])
    if match["profile"]:
        named = gpu.profile(match["profile"])
        return (
            MigWish(count=count, candidates=(named,), text=text)
            if named
            else _no_profile(gpu, match["profile"])
        )
    plain = [profile for profile in gpu.profiles.values() if not profile.attributes]
    enough = [profile for profile in plain if profile.memory_gb >= int(match["memory"])]
    if not enough:
        return _too_large(gpu, match["memory"])
    return MigWish(count=count, candidates=tuple(reversed(creation_order(enough))), text=text)


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
