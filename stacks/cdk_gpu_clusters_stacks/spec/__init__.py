"""The cluster file, version 1: models, reading with located errors, checks, JSON Schema. Imports no CDK."""

from .capacity import (
    CapacityBlock,
    CapacitySpec,
    NewReservation,
    NewReservationOptions,
    OnDemand,
    Reservation,
    ReservationGroup,
    Spot,
    SpotOptions,
    UltraServerBlock,
    capacity_terms,
)
from .check import check_cluster
from .data import (
    CheckpointOptions,
    CheckpointsSpec,
    ExistingLustreOptions,
    ExistingLustreSpec,
    LustreOptions,
    LustreSpec,
    RepositorySpec,
    StoreSpec,
)
from .fleet import FleetSpec
from .image import ImageById, ImageByOs, ImageByParameter, ImageSpec
from .inference import InferenceFleetSpec, LoadBalancerSpec
from .load import Reading, load_cluster, read_cluster
from .model import ClusterSpec, InferenceSpec, TrainingSpec
from .network import ExistingNetwork, NetworkSpec, NewNetwork
from .nodes import NodesSpec, RootVolume
from .report import format_findings, report
from .server import RegistryLoginSpec, SecretSpec, ServerSpec, WeightsSpec

__all__ = [
    "CapacityBlock",
    "CapacitySpec",
    "CheckpointOptions",
    "CheckpointsSpec",
    "ClusterSpec",
    "ExistingLustreOptions",
    "ExistingLustreSpec",
    "ExistingNetwork",
    "FleetSpec",
    "ImageById",
    "ImageByOs",
    "ImageByParameter",
    "ImageSpec",
    "InferenceFleetSpec",
    "InferenceSpec",
    "LoadBalancerSpec",
    "LustreOptions",
    "LustreSpec",
    "NetworkSpec",
    "NewNetwork",
    "NewReservation",
    "NewReservationOptions",
    "NodesSpec",
    "OnDemand",
    "Reading",
    "RegistryLoginSpec",
    "RepositorySpec",
    "Reservation",
    "ReservationGroup",
    "RootVolume",
    "SecretSpec",
    "ServerSpec",
    "Spot",
    "SpotOptions",
    "StoreSpec",
    "TrainingSpec",
    "UltraServerBlock",
    "WeightsSpec",
    "capacity_terms",
    "check_cluster",
    "format_findings",
    "load_cluster",
    "read_cluster",
    "report",
]
