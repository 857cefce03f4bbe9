"""Whether CUDA starts on the MIG devices of this node.

`nvidia-smi` lists them also if it does not: after a GPU reset without a reboot, CUDA failed to initialize on A100, and
programs went on with the CPU (Azure/AgentBaker pull request 2508).
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .command import Outcome, run

# CUDA driver API reference: cuInit, cuDeviceGetCount, cuDevicePrimaryCtxRetain. libcuda comes with the driver, so that
# it is on every image whose containers can use CUDA. A process sees one MIG device (CUDA_VISIBLE_DEVICES).
_PROGRAM = """
import ctypes, sys
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as fault:
    print(fault)
    sys.exit(%d)
def must(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    if status:
        text = ctypes.c_char_p()
        cuda.cuGetErrorName(status, ctypes.byref(text))
        sys.exit("%%s: %%s (%%d)" %% (name, (text.value or b"unknown").decode(), status))
count, context = ctypes.c_int(), ctypes.c_void_p()
must("cuInit", 0)
must("cuDeviceGetCount", ctypes.byref(count))
if count.value != 1:
    sys.exit("%%d CUDA devices instead of 1" %% count.value)
must("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
"""
_NO_LIBRARY = 77
_SECONDS = 60

#: Exit statuses of `gpunode cuda`. Not 1, with which Python itself ends if it cannot even start the command.
STARTS, STARTS_NOT, UNDETERMINED = 0, 3, os.EX_TEMPFAIL


def add_cuda(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to those of `gpunode`."""
    words = "open a CUDA context on one MIG device of each GPU"
    command = commands.add_parser("cuda", help=words, description=f"{words}. Exit status: 0 all open; 3 one does not.")
    command.set_defaults(run=_cuda)


def _cuda(_: argparse.Namespace) -> int:
    status, words = start_on_slices()
    sys.stdout.write(f"{words}\n")
    return status


def start_on_slices() -> tuple[int, str]:
    """Open a context on the first MIG device of each GPU, all at once.

    Returns:
        STARTS, STARTS_NOT or UNDETERMINED, and what was seen.
    """
    devices = first_slices(run("nvidia-smi", "-L", timeout_seconds=_SECONDS).output)
    if not devices:
        return UNDETERMINED, "nvidia-smi lists no MIG device"
    with ThreadPoolExecutor(max_workers=len(devices)) as beside:
        outcomes = dict(zip(devices, beside.map(_open, devices)))
    missing = next((one for one in outcomes.values() if one.status == _NO_LIBRARY), None)
    if missing is not None:
        return UNDETERMINED, missing.words
    failed = [f"{device}: {one.words}" for device, one in outcomes.items() if not one.ok]
    if failed:
        return STARTS_NOT, f"CUDA does not start: {'; '.join(failed)}"
    return STARTS, f"CUDA starts on a slice of {len(devices)} GPUs"


def first_slices(listing: str) -> list[str]:
    r"""The id of the first MIG device of each GPU that is split.

    Args:
        listing: What `nvidia-smi -L` prints.

    Example:
        >>> first_slices("GPU 0: A (UUID: GPU-1)\n  MIG 1g.5gb Device 0: (UUID: MIG-2)\n  MIG 2 (UUID: MIG-3)")
        ['MIG-2']
    """
    gpus = re.split(r"^GPU ", listing, flags=re.MULTILINE)
    found = (re.search(r"^\s+MIG .*\(UUID: (MIG-[^)]+)\)", gpu, re.MULTILINE) for gpu in gpus)
    return [one[1] for one in found if one]


def _open(device: str) -> Outcome:
    program = _PROGRAM % _NO_LIBRARY
    return run(sys.executable, "-c", program, timeout_seconds=_SECONDS, environment={"CUDA_VISIBLE_DEVICES": device})
