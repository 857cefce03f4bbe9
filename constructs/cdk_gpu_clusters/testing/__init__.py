"""Test clusters without an AWS account: assertions on templates, and emulators to deploy them to.

The emulators need the optional extra: `pip install 'cdk-gpu-clusters[testing]'`.
"""

from __future__ import annotations

from .account import DeployFailed, EmulatedAccount
from .assertions import (
    TemplateLike,
    assert_capacity_block,
    assert_data_outlives,
    assert_efa_ready,
    assert_fleet_size,
    assert_no_public_access,
)
from .in_process import InProcessEmulator
from .server import Emulator

__all__ = [
    "DeployFailed",
    "EmulatedAccount",
    "Emulator",
    "InProcessEmulator",
    "TemplateLike",
    "assert_capacity_block",
    "assert_data_outlives",
    "assert_efa_ready",
    "assert_fleet_size",
    "assert_no_public_access",
]
