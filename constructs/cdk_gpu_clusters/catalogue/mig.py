"""How NVIDIA's GPUs can be split with MIG (Multi-Instance GPU): profiles and where they may lie.

A GPU's memory is an axis of slices. A profile takes `size` slices from one of its `starts`; two GPU instances never
overlap. The limit of seven compute slices follows: no profile of one slice may start at the eighth.

Profile names mean different things on different GPUs (`1g.10gb` is the smallest profile of an A100 80GB, and the
double-memory one of an A100 40GB), so a name or an id is always looked up for one GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Any

from cdk_gpu_clusters.catalogue._files import read_json, record
from cdk_gpu_clusters.catalogue.instances import InstanceType

_FILE = "mig_profiles.json"


class MigEvidence(StrEnum):
    """How well a fact about a GPU's profiles is known."""

    VERIFIED = "verified"
    INFERRED = "inferred"
    DISPUTED = "disputed"
    UNVERIFIED = "unverified"


@dataclass(frozen=True, slots=True, kw_only=True)
class MigProfile:
    """One way to cut an instance out of a GPU.

    Attributes:
        name: Such as `3g.20gb`, as `nvidia-smi mig -lgip` prints it.
        id: GPU instance profile id, such as 9.
        compute_slices: Compute slices that it takes.
        memory_slices: Memory slices that it takes; also its length on the placement axis.
        max_instances: Most instances of it on one GPU.
        starts: Memory slices at which it may begin.
        memory_gb: Nominal memory in GB, as in the name; what the driver gives is less and depends on its release.
        sms: Streaming multiprocessors; None where no listing was found.
        attributes: Of `+me` (the media extensions, once per GPU), `+me.all` (every media engine), `-me` (no media
            engine) and `+gfx` (graphics APIs).
    """

    name: str
    id: int
    compute_slices: int
    memory_slices: int
    max_instances: int
    starts: tuple[int, ...]
    memory_gb: int
    sms: int | None
    attributes: frozenset[str]

    @property
    def resource_name(self) -> str:
        """What NVIDIA's Kubernetes device plugin calls it, such as `nvidia.com/mig-1g.5gb.me` (strategy "mixed").

        The pattern is general knowledge of the plugin, unverified.
        """
        return f"nvidia.com/mig-{self.name.replace('+', '.')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MigCombination:
    """Profiles that need a newer driver side by side than each of them alone.

    Attributes:
        profiles: Their names.
        minimum_driver: First driver release that makes them on one GPU.
    """

    profiles: frozenset[str]
    minimum_driver: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MigGpu:
    """The MIG side of one GPU model.

    Attributes:
        key: Key of the model, such as `A100-40GB`; `Accelerator.mig_profile_key` of the instance types with it.
        model: As `nvidia-smi -L` names it.
        minimum_driver: First driver release with MIG on this model.
        memory_slices: Length of the placement axis.
        compute_slices: Compute slices; also the most GPU instances.
        mode_change_needs_reset: Whether switching MIG on or off needs a GPU reset (Ampere).
        mode_survives_reboot: Whether the mode is stored on the board (Ampere). GPU instances never survive.
        placement_units_per_slice: How many of nvidia-smi's placement units make one memory slice.
        names: How well the profile names are known.
        ids: How well the profile ids are known.
        placements: How well the placements are known.
        profiles: By name, in the order of the sources; empty where no listing was found.
        combinations: Profiles that need a newer driver side by side.
        notes: What else is to be known.
        sources: Where it comes from, with date.
    """

    key: str
    model: str
    minimum_driver: str
    memory_slices: int
    compute_slices: int
    mode_change_needs_reset: bool
    mode_survives_reboot: bool
    placement_units_per_slice: int
    names: MigEvidence
    ids: MigEvidence
    placements: MigEvidence
    profiles: Mapping[str, MigProfile]
    combinations: tuple[MigCombination, ...]
    notes: tuple[str, ...]
    sources: tuple[str, ...]

    def profile(self, name_or_id: str | int) -> MigProfile | None:
        """The profile of that name (`3g.20gb`, also `MIG 3g.20gb`) or id (9 or `9`), None if there is none."""
        wanted = str(name_or_id).strip().removeprefix("MIG ").lower()
        named = self.profiles.get(wanted)
        return named or next((each for each in self.profiles.values() if str(each.id) == wanted), None)


@cache
def mig_gpus() -> Mapping[str, MigGpu]:
    """Every MIG-capable GPU by key, also those whose profiles are not known yet.

    Example:
        >>> mig_gpus()["A100-40GB"].profile(9).name
        '3g.20gb'
    """
    data = read_json(_FILE)
    return MappingProxyType({key: _gpu(key, fields, data["sources"]) for key, fields in data["gpus"].items()})


def mig_gpu_of(instance_type: InstanceType) -> MigGpu | None:
    """The MIG side of a type's GPUs, None where they cannot be split."""
    accelerator = instance_type.accelerator
    key = None if accelerator is None else accelerator.mig_profile_key
    return None if key is None else mig_gpus()[key]


def _gpu(key: str, fields: Mapping[str, Any], sources: Mapping[str, Mapping[str, str]]) -> MigGpu:
    return record(
        MigGpu,
        fields,
        key=key,
        profiles=MappingProxyType({row["name"]: _profile(row) for row in fields["profiles"]}),
        combinations=tuple(record(MigCombination, row) for row in fields.get("combinations", ())),
        sources=tuple(f"{sources[name]['title']} ({sources[name]['date']})" for name in fields["sources"]),
    )


def _profile(row: Mapping[str, Any]) -> MigProfile:
    if row["size"] != row["memory_slices"]:
        raise ValueError(f"{row['name']}: a placement is as long as the profile's memory slices")
    return record(MigProfile, row)
