"""All checks of preflight."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from .check import Check

#: Modules of `preflight.checks`, each with an area and its title; each lists its checks in `CHECKS`.
AREAS = {
    "account": "Account and Region",
    "deployment": "Deployment",
    "instance_types": "Instance types",
    "compute_quotas": "Quotas of instances",
    "network_quotas": "Quotas of networks",
    "reservations": "Reservations and Capacity Blocks",
    "reservation_times": "Times of reservations",
    "subnets": "Existing subnets",
    "routes": "Ways out of the network",
    "security_groups": "Existing security groups",
    "images": "Machine images",
    "file_systems": "FSx for Lustre",
    "buckets": "Buckets",
    "keys": "KMS keys",
    "roles": "Service-linked roles",
    "kubernetes": "Amazon EKS",
    "serving": "Model servers",
}


@cache
def checks_of(area: str) -> tuple[Check[Any], ...]:
    """The checks of an area, by id."""
    module = import_module(f"{__package__}.checks.{area}")
    return tuple(sorted(module.CHECKS, key=lambda check: str(check.id)))


@cache
def every_check() -> tuple[Check[Any], ...]:
    """All checks, by id."""
    return tuple(sorted((check for area in AREAS for check in checks_of(area)), key=lambda check: check.id))
