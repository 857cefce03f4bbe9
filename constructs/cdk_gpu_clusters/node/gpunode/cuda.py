"""Whether CUDA starts on the GPUs and MIG devices of this node.

No counter shows it: `nvidia-smi` lists healthy GPUs while CUDA fails, after a GPU reset without a reboot
(Azure/AgentBaker pull request 2508), or on GPUs that have not joined their fabric (NVIDIA/gpu-operator issue 2781).
"""

from __future__ import annotations

import argparse
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from . import nvidia_smi
from .command import Outcome, run

# CUDA driver API reference: cuInit, cuDeviceGetCount, cuDevicePrimaryCtxRetain. libcuda comes with the driver, so that
# it is on every image whose containers can use CUDA. A process sees one device (CUDA_VISIBLE_DEVICES).
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
# Each is a process that loads CUDA and takes some 300 MB of the node's memory.
_AT_ONCE = 8

#: Exit statuses of `gpunode cuda`. Not 1, with which Python itself ends if it cannot even start the command.
# The last one is EX_TEMPFAIL (sysexits.h): `os` has it on Unix only, and `gpu-clusters plan` loads this everywhere.
STARTS, STARTS_NOT, UNDETERMINED = 0, 3, 75


def add_cuda(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to those of `gpunode`."""
    words = "open a CUDA context on each GPU and MIG device"
    command = commands.add_parser("cuda", help=words, description=f"{words}. Exit status: 0 all open; 3 one does not.")
    command.set_defaults(run=_cuda)


def _cuda(_: argparse.Namespace) -> int:
    status, words = start_on_devices()
    sys.stdout.write(f"{words}\n")
    return status


def start_on_devices() -> tuple[int, str]:
    """Open a context on each MIG device, and on each GPU that is not split; several at once.

    Returns:
        STARTS, STARTS_NOT or UNDETERMINED, and what was seen.
    """
    devices = devices_of(nvidia_smi.call("-L", timeout_seconds=_SECONDS).output)
    if not devices:
        return UNDETERMINED, "nvidia-smi lists no GPU"
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as beside:
        outcomes = dict(zip(devices, beside.map(_open, devices)))
    missing = next((one for one in outcomes.values() if one.status == _NO_LIBRARY), None)
    if missing is not None:
        return UNDETERMINED, missing.words
    failed = [f"{device}: {one.words}" for device, one in outcomes.items() if not one.ok]
    if failed:
        return STARTS_NOT, f"CUDA does not start: {'; '.join(failed)}"
    return STARTS, f"CUDA starts on {len(devices)} GPUs and MIG devices"


def devices_of(listing: str) -> list[str]:
    r"""The ids of all MIG devices, and of the GPUs that are not split.

    Args:
        listing: What `nvidia-smi -L` prints.

    Example:
        >>> devices_of("GPU 0: A (UUID: GPU-1)\n  MIG 1g.5gb Device 0: (UUID: MIG-2)\nGPU 1: A (UUID: GPU-3)")
        ['MIG-2', 'GPU-3']
    """
    found: list[str] = []
    for gpu in re.split(r"^(?=GPU [0-9])", listing, flags=re.MULTILINE):
        own = re.search(r"^GPU .*\(UUID: (GPU-[^)]+)\)", gpu)
        slices = re.findall(r"^\s+MIG .*\(UUID: (MIG-[^)]+)\)", gpu, re.MULTILINE)
        found += slices or ([own[1]] if own else [])
    return found


def _open(device: str) -> Outcome:
    return run(
        sys.executable,
        "-c",
        _PROGRAM % _NO_LIBRARY,
        timeout_seconds=_SECONDS,
        environment={"CUDA_VISIBLE_DEVICES": device},
        client=f"cuda {device}",
    )
