"""Deploy clusters without an AWS account: an emulator for the CDK CLI, and one inside the test process.

Needs the optional extra: `pip install 'cdk-gpu-clusters[testing]'`.
"""

from __future__ import annotations

from .account import DeployFailed, EmulatedAccount
from .in_process import InProcessEmulator
from .server import Emulator

__all__ = ["DeployFailed", "EmulatedAccount", "Emulator", "InProcessEmulator"]
