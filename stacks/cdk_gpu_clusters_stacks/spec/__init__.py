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
from .fleet import FleetSpec, RootVolume
from .image import ImageById, ImageByOs, ImageByParameter, ImageSpec
from .load import Reading, load_cluster, read_cluster
from .model import ClusterSpec, TrainingSpec
from .network import ExistingNetwork, NetworkSpec, NewNetwork
from .report import format_findings, report

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
    "LustreOptions",
    "LustreSpec",
    "NetworkSpec",
    "NewNetwork",
    "NewReservation",
    "NewReservationOptions",
    "OnDemand",
    "Reading",
    "RepositorySpec",
    "Reservation",
    "ReservationGroup",
    "RootVolume",
    "Spot",
    "SpotOptions",
    "StoreSpec",
    "TrainingSpec",
    "UltraServerBlock",
    "capacity_terms",
    "check_cluster",
    "format_findings",
    "load_cluster",
    "read_cluster",
    "report",
]
