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
from .fleet import FleetSpec, RootVolume
from .image import ImageById, ImageByOs, ImageByParameter, ImageSpec
from .load import Reading, load_cluster, read_cluster
from .model import ClusterSpec, TrainingSpec
from .network import ExistingNetwork, NetworkSpec, NewNetwork
from .report import format_findings, report

__all__ = [
    "CapacityBlock",
    "CapacitySpec",
    "ClusterSpec",
    "ExistingNetwork",
    "FleetSpec",
    "ImageById",
    "ImageByOs",
    "ImageByParameter",
    "ImageSpec",
    "NetworkSpec",
    "NewNetwork",
    "NewReservation",
    "NewReservationOptions",
    "OnDemand",
    "Reading",
    "Reservation",
    "ReservationGroup",
    "RootVolume",
    "Spot",
    "SpotOptions",
    "TrainingSpec",
    "UltraServerBlock",
    "capacity_terms",
    "check_cluster",
    "format_findings",
    "load_cluster",
    "read_cluster",
    "report",
]
