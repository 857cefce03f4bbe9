"""The valid parts of a cluster file, also of a file that has faults in other parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from cdk_gpu_clusters.fleet.profile import EC2, OrchestratorProfile

from ._document import Key
from ._meant import FLEET_KINDS, meant_key
from .batch import BatchSpec
from .data import StoreSpec
from .eks import EksSpec
from .fleet import FleetSpec
from .hyperpod import HyperPodSpec
from .inference import InferenceFleetSpec, LoadBalancerSpec, ServerSpec
from .model import ORCHESTRATORS, ClusterSpec
from .monitoring import MonitoringSpec
from .network import ExistingNetwork, NetworkSpec, NewNetwork
from .parallelcluster import ParallelClusterSpec
from .pcs import PcsSpec


@dataclass(frozen=True, slots=True)
class FleetPart:
    """A fleet without its faulty values.

    Attributes:
        key: Path of the fleet in the file.
        spec: The fleet; a field in `broken` has its default there, which means nothing.
        broken: Fields whose value in the file has a fault, such as `nodes` and `server.image`.
    """

    key: Key
    spec: FleetSpec | InferenceFleetSpec
    broken: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The fleet's name."""
        return str(self.key[-1])

    @property
    def is_in_service_subnets(self) -> bool:
        """Whether its nodes are beside the load balancers, and not in the fleets' subnet."""
        return isinstance(self.spec, InferenceFleetSpec) and not self.spec.is_reserved

    @property
    def is_place_unknown(self) -> bool:
        """Whether a fault of the capacity hides in which of the network's subnets its nodes are."""
        return isinstance(self.spec, InferenceFleetSpec) and "capacity" in self.broken


@dataclass(frozen=True, slots=True)
class SpecParts:
    """The parts of a cluster file that are valid enough for the rules; None or absent where they are not.

    A store that has a fault is None, and `stores` is where it is not known which there are.

    Attributes:
        names_fleets: Whether the file has fleets, or keys that are meant to hold some.
        profile: What the orchestrator takes, forbids and does by itself.
        eks: The cluster of EKS, as far as the file describes it.
        eks_is_broken: Whether its section has a fault.
        pcs: The Slurm cluster, as far as the file describes it.
        pcs_is_broken: Whether its section has a fault.
        batch: The jobs of AWS Batch, as far as the file describes them.
        batch_is_broken: Whether their section has a fault.
        parallelcluster: The cluster of AWS ParallelCluster, as far as the file describes it.
        parallelcluster_is_broken: Whether its section has a fault.
        slurm_section: That of the two that is of the orchestrator of the file, if it is valid.
        hyperpod: The cluster of HyperPod, as far as the file describes it.
        hyperpod_is_broken: Whether its section has a fault.
        monitoring: What shows and bounds the cluster, if its section is valid.
        monitoring_is_broken: Whether its section has a fault.
        paths: Directories that stores with a fault link to S3.
    """

    region: str | None = None
    network: NewNetwork | ExistingNetwork | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    fleets: tuple[FleetPart, ...] = ()
    stores: Mapping[str, StoreSpec | None] | None = None
    names_fleets: bool = True
    profile: OrchestratorProfile = EC2
    eks: EksSpec | None = None
    eks_is_broken: bool = False
    pcs: PcsSpec | None = None
    pcs_is_broken: bool = False
    batch: BatchSpec | None = None
    batch_is_broken: bool = False
    parallelcluster: ParallelClusterSpec | None = None
    parallelcluster_is_broken: bool = False
    slurm_section: PcsSpec | ParallelClusterSpec | None = None
    hyperpod: HyperPodSpec | None = None
    hyperpod_is_broken: bool = False
    monitoring: MonitoringSpec | None = None
    monitoring_is_broken: bool = False
    paths: Mapping[Key, str] = field(default_factory=dict)

    @property
    def makes_eks(self) -> bool:
        """Whether a cluster of EKS is made, as far as its section is valid."""
        return self.profile.uses_eks and not self.eks_is_broken and (self.eks is None or self.eks.existing is None)

    @property
    def makes_slurm(self) -> bool:
        """Whether a Slurm cluster is made, as far as its section is valid."""
        return self.profile.joins_slurm and not self.pcs_is_broken and (self.pcs is None or self.pcs.existing is None)


def parts_of(spec: ClusterSpec) -> SpecParts:
    """All parts of a cluster."""
    fleets = [
        FleetPart((kind, "fleets", name), fleet)
        for kind in FLEET_KINDS
        for name, fleet in getattr(spec, kind).fleets.items()
    ]
    return SpecParts(
        spec.region,
        spec.network,
        spec.tags,
        tuple(fleets),
        spec.data,
        bool(fleets),
        profile=ORCHESTRATORS[spec.orchestrator],
        eks=None if spec.eks == EksSpec() else spec.eks,
        pcs=None if spec.pcs == PcsSpec() else spec.pcs,
        batch=None if spec.batch == BatchSpec() else spec.batch,
        parallelcluster=None if spec.parallelcluster == ParallelClusterSpec() else spec.parallelcluster,
        slurm_section=spec.slurm_section,
        hyperpod=None if spec.hyperpod == HyperPodSpec() else spec.hyperpod,
        monitoring=spec.monitoring,
    )


def valid_parts(data: Mapping[str, Any], context: Mapping[str, Path]) -> SpecParts:
    """The valid parts of a file that has faults."""
    region, eks = data.get("region"), _if_valid(_EKS, data.get("eks"))
    monitoring = _if_valid(_MONITORING, data.get("monitoring"))
    pcs, batch = _if_valid(_PCS, data.get("pcs"), context), _if_valid(_BATCH, data.get("batch"))
    parallelcluster, hyperpod = (
        _if_valid(_PARALLELCLUSTER, data.get("parallelcluster")),
        _if_valid(_HYPERPOD, data.get("hyperpod")),
    )
    profile = next((one for name, one in ORCHESTRATORS.items() if name == data.get("orchestrator", "ec2")), None)
    return SpecParts(
        region if isinstance(region, str) and region else None,
        _if_valid(_NETWORK, data.get("network")),
        _valid_tags(data.get("tags")),
        tuple(_valid_fleets(data, context)),
        _valid_stores(data.get("data", {})),
        any(_may_hold_fleets(key, value) for key, value in data.items()),
        profile=profile or EC2,
        eks=None if profile is None else eks,  # its section may be right, then
        eks_is_broken="eks" in data and eks is None,
        pcs=None if profile is None else pcs,
        pcs_is_broken="pcs" in data and pcs is None,
        batch=None if profile is None else batch,
        batch_is_broken="batch" in data and batch is None,
        parallelcluster=None if profile is None else parallelcluster,
        parallelcluster_is_broken="parallelcluster" in data and parallelcluster is None,
        slurm_section=parallelcluster if (profile or EC2).joins_parallelcluster else pcs,
        hyperpod=None if profile is None else hyperpod,
        hyperpod_is_broken="hyperpod" in data and hyperpod is None,
        monitoring=monitoring,
        monitoring_is_broken="monitoring" in data and monitoring is None,
        paths=dict(_linked_paths(data.get("data"))),
    )


def _may_hold_fleets(key: str, value: object) -> bool:
    """Whether a key of the file has fleets, or a fault for which they are not seen."""
    known = meant_key(key, list(ClusterSpec.model_fields))
    return key == "fleets" or (known in FLEET_KINDS and (key != known or value not in ({}, {"fleets": {}})))


def _valid_fleets(data: Mapping[str, Any], context: Mapping[str, Path]) -> list[FleetPart]:
    found = []
    for kind, model in FLEET_KINDS.items():
        section = data.get(kind)
        fleets = section.get("fleets") if isinstance(section, dict) else None
        for name, raw in fleets.items() if isinstance(fleets, dict) else ():
            sound = valid_fleet(model, raw, context)
            if sound is not None:
                found.append(FleetPart((kind, "fleets", name), *sound))
    return found


def _linked_paths(raw: object) -> Iterator[tuple[Key, str]]:
    for name, store in raw.items() if isinstance(raw, dict) else ():
        links = store.get("repositories") if isinstance(store, dict) else None
        if isinstance(links, list) and _if_valid(_STORE, store) is None:
            for index, link in enumerate(links):
                if isinstance(link, dict) and isinstance(link.get("path"), str):
                    yield ("data", str(name), "repositories", index, "path"), link["path"]


def _valid_stores(raw: object) -> Mapping[str, Any] | None:
    if not isinstance(raw, dict):
        return None
    return {str(name): _if_valid(_STORE, store) for name, store in raw.items()}


_STORE: TypeAdapter[Any] = TypeAdapter(StoreSpec)
_NETWORK: TypeAdapter[Any] = TypeAdapter(NetworkSpec)
_MONITORING: TypeAdapter[Any] = TypeAdapter(MonitoringSpec)
_EKS: TypeAdapter[Any] = TypeAdapter(EksSpec)
_PCS: TypeAdapter[Any] = TypeAdapter(PcsSpec)
_BATCH: TypeAdapter[Any] = TypeAdapter(BatchSpec)
_PARALLELCLUSTER: TypeAdapter[Any] = TypeAdapter(ParallelClusterSpec)
_HYPERPOD: TypeAdapter[Any] = TypeAdapter(HyperPodSpec)


def _if_valid(form: TypeAdapter[Any], raw: object, context: Mapping[str, Path] | None = None) -> Any:
    """A part of the file; None if it has a fault."""
    try:
        return form.validate_python(raw, context=context)
    except ValidationError:
        return None


def _valid_tags(raw: object) -> dict[str, str]:
    if not isinstance(raw, dict):
        return {}
    return {key: value for key, value in raw.items() if isinstance(value, str)}


# A fleet without its faulty values.

FleetT = TypeVar("FleetT", bound=BaseModel)

#: Stands for the end of a block that the file lacks or misspells, so that the other rules about the block are asked:
#: no start is later, and it is at the time of day at which blocks end.
_ANY_END = "9999-12-31T11:30Z"
#: Stands for an image that has a fault, so that the other rules about its server are asked; no rule finds it wrong.
_ANY_IMAGE = "any:1"
#: Parts of a fleet whose keys are judged one by one.
_SECTIONS: Mapping[str, type[BaseModel]] = {"server": ServerSpec, "load_balancer": LoadBalancerSpec}

#: Names of a field, from the fleet's key on.
Field = tuple[str, ...]


def valid_fleet(model: type[FleetT], raw: object, context: Mapping[str, Path]) -> tuple[FleetT, frozenset[str]] | None:
    """Read a fleet without its faulty values.

    Returns:
        The fleet, and the dotted names of the fields that have a fault or are meant by a misspelt key. None where
        nothing can be asked about it, such as without an instance type.
    """
    if not isinstance(raw, dict):
        return None
    try:
        return model.model_validate(raw, context=dict(context)), frozenset()
    except ValidationError as fault:
        errors = fault.errors(include_url=False)
    if _lacks_only_end(errors):
        raw = {**raw, "capacity": {**raw["capacity"], "ends_at": _ANY_END}}
        errors = [error for error in errors if error["loc"][:1] != ("capacity",)]
    wrong = {_field(error["loc"]) for error in errors}
    rest = _without(raw, wrong)
    if model is InferenceFleetSpec:
        rest["server"] = {"image": _ANY_IMAGE, **rest.get("server", {})}
    broken = frozenset(".".join(path) for path in wrong | set(_meant(model, wrong)))
    try:
        return model.model_validate(rest, context=dict(context)), broken
    except ValidationError:
        return None


def _lacks_only_end(errors: Sequence[ErrorDetails]) -> bool:
    """Whether the end of a block is the one thing wrong with the capacity."""
    wrong = [error["loc"][2:] for error in errors if error["loc"][:1] == ("capacity",)]
    return bool(wrong) and all(loc == ("ends_at",) for loc in wrong)


def _field(loc: tuple[int | str, ...]) -> Field:
    """The field that a location lies in: of a section its key, else the fleet's."""
    return tuple(str(part) for part in loc[: 2 if loc[0] in _SECTIONS else 1])


def _without(raw: Mapping[str, Any], wrong: Iterable[Field]) -> dict[str, Any]:
    rest = dict(raw)
    for path in sorted(wrong):
        if len(path) == 1:
            rest.pop(path[0], None)
        elif isinstance(rest.get(path[0]), dict):
            rest[path[0]] = {key: value for key, value in rest[path[0]].items() if key != path[1]}
    return rest


def _meant(model: type[BaseModel], wrong: Iterable[Field]) -> Iterable[Field]:
    """Fields that misspelt keys are near to."""
    for *above, name in wrong:
        near = meant_key(name, list((_SECTIONS[above[0]] if above else model).model_fields))
        if near:
            yield (*above, near)
