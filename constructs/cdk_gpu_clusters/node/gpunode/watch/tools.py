"""Whether `nvidia-smi` still comes back: a driver that is wedged holds everyone who asks it."""

from __future__ import annotations

from ..checks.check import Severity
from ..command import NOT_EXECUTABLE, NOT_FOUND, STUCK, run
from .symptom import Symptom

_TIMEOUT_SECONDS = 20
# A minute at the default pace: the disk under the program may be slow, or a person may reload the driver.
_LOOKS = 6
# nvidia-smi without a driver, exit status 9 (seen with 535).
_NO_DRIVER = "communicate with the NVIDIA driver"


def look_at_nvidia_smi() -> list[Symptom]:
    """Ask for the list of GPUs, and see what becomes of the program.

    A program that is only missing or slow, or that talks nonsense, says nothing of the GPUs.
    """
    outcome = run("nvidia-smi", "-L", timeout_seconds=_TIMEOUT_SECONDS)
    if outcome.status == STUCK:
        return [Symptom("nvidia-smi-stuck", Severity.REBOOT, "nvidia-smi is stuck in the kernel", _LOOKS)]
    if _NO_DRIVER in outcome.output:
        return [Symptom("driver-gone", Severity.REBOOT, f"nvidia-smi cannot {_NO_DRIVER}", _LOOKS)]
    if outcome.hung or outcome.status in (NOT_FOUND, NOT_EXECUTABLE):
        return [Symptom("nvidia-smi", Severity.MONITOR, outcome.words, 2)]
    return []
