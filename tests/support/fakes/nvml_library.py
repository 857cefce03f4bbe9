"""A `libnvidia-ml.so.1` in this process: C functions with NVIDIA's signatures over GPUs that a test describes.

The callers go through the C interface. Structures and constants are those of NVIDIA's own binding, the package
nvidia-ml-py, which can use this library in the same way.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_int, c_uint, c_ulonglong, c_void_p
from typing import Any

import pynvml

# Texts of the real nvmlErrorString, as nvidia-smi prints them.
TEXTS = {
    2: b"Invalid Argument", 3: b"Not Supported", 6: b"Not Found", 9: b"Driver Not Loaded", 13: b"Function Not Found",
    15: b"GPU is lost", 16: b"GPU requires reset", 18: b"Driver/library version mismatch", 999: b"Unknown Error",
}  # fmt: skip
# C texts, which live as long as the library.
_TEXTS = {code: ctypes.create_string_buffer(text) for code, text in TEXTS.items()}
_OF_THE_LIBRARY = ("nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2")
OK, NOT_SUPPORTED, NOT_FOUND = 0, 3, 6
_GPU, _MIG = 0x1000, 0x2000
GIB = 1024**3

H100: dict[str, Any] = {
    "name": b"NVIDIA H100 80GB HBM3",
    "memory": (85520809984, 5 * GIB),
    "utilization": 37,
    "milliwatts": 312340,
    "temperature": 45,
    "clocks": (1755, 1980),
    "mig": 0,
    "ecc": 1,
    "errors": (0, 0),
    "retired_pending": NOT_SUPPORTED,
    "remapped": (2, 0, 0, 0),
    "pcie": (16, 16, 5, 5),
    "reasons": 0,
    "fabric": (3, 0),
    "fabric_health": 1,
    "sram": 0,
    "repair": (0, 0),
    "unrepairable": 0,
    # NVLink speeds in MB/s, 0 for a link that is down.
    "links": [26562] * 18,
    "fields": {226: 0, 227: 0, 230: 0},
    # MIG devices: GPU instance, compute instance, name, (total, used), whether a process runs.
    "devices": [],
    # Function -> error of this GPU alone; "handle" -> error when it is opened.
    "fail": {},
}


class NvmlLibrary:
    """The library.

    Attributes:
        gpus: What differs from an H100, for each GPU.
        init: What nvmlInit returns.
        calls: Names of the functions that were called.
        absent: Functions that this release does not have.
        before: Called before every function, such as to hang.
        is_open: Whether it is initialized.
    """

    def __init__(self, *gpus: dict[str, Any], init: int = OK, absent: tuple[str, ...] = ()) -> None:
        self.gpus = [{**H100, **gpu} for gpu in gpus]
        self.init, self.absent, self.calls = init, absent, list[str]()
        self.before: Callable[[str], object] = lambda _: None
        self.is_open = False
        self._functions: dict[str, Any] = {}

    def load(self, name: str) -> NvmlLibrary:
        """What `ctypes.CDLL` does."""
        assert name == "libnvidia-ml.so.1"
        return self

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml") or name in self.absent or name not in _FUNCTIONS:
            raise AttributeError(name)
        if name not in self._functions:
            arguments, work = _FUNCTIONS[name]
            result = c_void_p if name == "nvmlErrorString" else c_int
            self._functions[name] = ctypes.CFUNCTYPE(result, *arguments)(self._call(name, work))
        return self._functions[name]

    def _call(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def function(*arguments: Any) -> Any:
            self.calls.append(name)
            self.before(name)
            if name == "nvmlErrorString":
                return ctypes.addressof(_TEXTS.get(arguments[0], _TEXTS[999]))
            if name.startswith("nvmlDevice") and name not in _OF_THE_LIBRARY:
                gpu, device = self._find(arguments[0])
                return gpu["fail"].get(name) or work(device or gpu, *arguments[1:])
            return work(self, *arguments)

        return function

    def _find(self, handle: int) -> tuple[dict[str, Any], dict[str, Any] | None]:
        if handle < _MIG:
            return self.gpus[handle - _GPU], None
        gpu = self.gpus[(handle - _MIG) // 16]
        return gpu, gpu["devices"][(handle - _MIG) % 16]


def _put(address: int, kind: Any, value: Any) -> int:
    kind.from_address(address).value = value
    return OK


def _text(address: int, size: int, text: bytes) -> int:
    assert len(text) < size
    ctypes.memmove(address, text + b"\0", len(text) + 1)
    return OK


def _start(library: NvmlLibrary, *_: Any) -> int:
    library.is_open = library.init == OK
    return library.init


def _stop(library: NvmlLibrary) -> int:
    library.is_open = False
    return OK


def _handle(library: NvmlLibrary, index: int, found: int) -> int:
    assert library.is_open
    return library.gpus[index]["fail"].get("handle") or _put(found, c_void_p, _GPU + index)


def _mig_handle(gpu: dict[str, Any], index: int, found: int) -> int:
    if not gpu["mig"]:
        return NOT_SUPPORTED
    number = gpu["number"]
    return _put(found, c_void_p, _MIG + 16 * number + index) if index < len(gpu["devices"]) else NOT_FOUND


def _fill(address: int, structure: Any, **values: Any) -> int:
    filled = structure.from_address(address)
    expected = structure()
    if hasattr(expected, "version"):
        wanted = {pynvml.c_nvmlMemory_v2_t: pynvml.nvmlMemory_v2, pynvml.c_nvmlEccSramErrorStatus_v1_t: 0x1000068}
        if filled.version != (expected.version or wanted[structure]):
            return 25
    for name, value in values.items():
        setattr(filled, name, value)
    return OK


def _memory(device: dict[str, Any], found: int, structure: Any) -> int:
    total, used = device["memory"]
    return _fill(found, structure, total=total, used=used, free=total - used)


def _field_values(gpu: dict[str, Any], count: int, address: int) -> int:
    for one in (pynvml.c_nvmlFieldValue_t * count).from_address(address):
        one.nvmlReturn, one.valueType = OK, pynvml.NVML_VALUE_TYPE_UNSIGNED_INT
        if one.fieldId == pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT:
            one.value.uiVal = len(gpu["links"])
        elif one.fieldId == pynvml.NVML_FI_DEV_NVLINK_GET_SPEED and "no speeds" not in gpu:
            one.value.uiVal = gpu["links"][one.scopeId]
        elif one.fieldId == pynvml.NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON:
            one.valueType, one.value.ullVal = pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, max(gpu["links"])
        elif one.fieldId in gpu["fields"]:
            one.value.uiVal = gpu["fields"][one.fieldId]
        else:
            one.nvmlReturn = NOT_SUPPORTED
    return OK


def _remapped(gpu: dict[str, Any], *found: int) -> int:
    if gpu["mig"]:
        return NOT_SUPPORTED
    for position, address in enumerate(found):
        _put(address, c_uint, gpu["remapped"][position])
    return OK


def _two(values: tuple[int, int], first: int, second: int) -> int:
    return _put(first, c_uint, values[0]) or _put(second, c_uint, values[1])


def _processes(device: dict[str, Any], count: int, _: int | None) -> int:
    running = int(device.get("busy", False))
    _put(count, c_uint, running)
    return pynvml.NVML_ERROR_INSUFFICIENT_SIZE if running else OK


def _address(gpu: dict[str, Any], found: int) -> int:
    return _fill(found, pynvml.nvmlPciInfo_t, busId=f"00000000:{0x1B + gpu['number']:02x}:00.0".encode())


def _plain(key: str, place: int | None = None) -> Callable[..., int]:
    def work(gpu: dict[str, Any], found: int) -> int:
        return _put(found, c_uint, gpu[key] if place is None else gpu[key][place])

    return work


P = c_void_p
#: Function -> types of its arguments (nvml.h; pointers without their targets), and what it does.
_FUNCTIONS: dict[str, tuple[tuple[Any, ...], Callable[..., Any]]] = {
    "nvmlErrorString": ((c_uint,), lambda *_: None),
    "nvmlInit_v2": ((), _start),
    "nvmlInitWithFlags": ((c_uint,), _start),
    "nvmlShutdown": ((), _stop),
    "nvmlSystemGetDriverVersion": ((P, c_uint), lambda _, found, size: _text(found, size, b"580.82.07")),
    "nvmlDeviceGetCount_v2": ((P,), lambda library, found: _put(found, c_uint, len(library.gpus))),
    "nvmlDeviceGetHandleByIndex_v2": ((c_uint, P), _handle),
    "nvmlDeviceGetName": ((P, P, c_uint), lambda gpu, found, size: _text(found, size, gpu["name"])),
    "nvmlDeviceGetUUID": ((P, P, c_uint), lambda gpu, found, size: _text(found, size, gpu["uuid"])),
    "nvmlDeviceGetPciInfo_v3": ((P, P), _address),
    "nvmlDeviceGetMemoryInfo": ((P, P), lambda gpu, found: _memory(gpu, found, pynvml.c_nvmlMemory_t)),
    "nvmlDeviceGetMemoryInfo_v2": ((P, P), lambda gpu, found: _memory(gpu, found, pynvml.c_nvmlMemory_v2_t)),
    "nvmlDeviceGetUtilizationRates": (
        (P, P),
        lambda gpu, found: (
            NOT_SUPPORTED if gpu["mig"] else _fill(found, pynvml.c_nvmlUtilization_t, gpu=gpu["utilization"])
        ),
    ),
    "nvmlDeviceGetPowerUsage": ((P, P), _plain("milliwatts")),
    "nvmlDeviceGetTemperature": (
        (P, c_uint, P),
        lambda gpu, kind, found: kind or _put(found, c_uint, gpu["temperature"]),
    ),
    "nvmlDeviceGetClockInfo": (
        (P, c_uint, P),
        lambda gpu, kind, found: _put(found, c_uint, gpu["clocks"][0]) if kind == 1 else 2,
    ),
    "nvmlDeviceGetMaxClockInfo": (
        (P, c_uint, P),
        lambda gpu, kind, found: _put(found, c_uint, gpu["clocks"][1]) if kind == 1 else 2,
    ),
    "nvmlDeviceGetMigMode": ((P, P, P), lambda gpu, *found: _two((gpu["mig"], gpu["mig"]), *found)),
    "nvmlDeviceGetEccMode": ((P, P, P), lambda gpu, *found: _two((gpu["ecc"], 1), *found)),
    "nvmlDeviceGetTotalEccErrors": (
        (P, c_uint, c_uint, P),
        lambda gpu, kind, counter, found: _put(found, c_ulonglong, gpu["errors"][counter] if kind == 1 else 7),
    ),
    "nvmlDeviceGetRetiredPagesPendingStatus": (
        (P, P),
        lambda gpu, found: (
            NOT_SUPPORTED if gpu["retired_pending"] == NOT_SUPPORTED else _put(found, c_uint, gpu["retired_pending"])
        ),
    ),
    "nvmlDeviceGetRemappedRows": ((P, P, P, P, P), _remapped),
    "nvmlDeviceGetCurrPcieLinkWidth": ((P, P), _plain("pcie", 0)),
    "nvmlDeviceGetMaxPcieLinkWidth": ((P, P), _plain("pcie", 1)),
    "nvmlDeviceGetCurrPcieLinkGeneration": ((P, P), _plain("pcie", 2)),
    "nvmlDeviceGetMaxPcieLinkGeneration": ((P, P), _plain("pcie", 3)),
    "nvmlDeviceGetCurrentClocksEventReasons": ((P, P), lambda gpu, found: _put(found, c_ulonglong, gpu["reasons"])),
    "nvmlDeviceGetCurrentClocksThrottleReasons": ((P, P), lambda gpu, found: _put(found, c_ulonglong, gpu["reasons"])),
    "nvmlDeviceGetGpuFabricInfo": (
        (P, P),
        lambda gpu, found: _fill(found, pynvml.c_nvmlGpuFabricInfo_t, state=gpu["fabric"][0], status=gpu["fabric"][1]),
    ),
    "nvmlDeviceGetGpuFabricInfoV": (
        (P, P),
        lambda gpu, found: _fill(found, pynvml.c_nvmlGpuFabricInfo_v3_t, healthSummary=gpu["fabric_health"]),
    ),
    "nvmlDeviceGetSramEccErrorStatus": (
        (P, P),
        lambda gpu, found: _fill(found, pynvml.c_nvmlEccSramErrorStatus_v1_t, bThresholdExceeded=gpu["sram"]),
    ),
    "nvmlDeviceGetRepairStatus": (
        (P, P),
        lambda gpu, found: _fill(
            found,
            pynvml.c_nvmlRepairStatus_t,
            bChannelRepairPending=gpu["repair"][0],
            bTpcRepairPending=gpu["repair"][1],
        ),
    ),
    "nvmlDeviceGetUnrepairableMemoryFlag_v1": (
        (P, P),
        lambda gpu, found: _fill(found, pynvml.c_nvmlUnrepairableMemory_v1_t, unrepairableMemory=gpu["unrepairable"]),
    ),
    "nvmlDeviceGetFieldValues": ((P, c_int, P), _field_values),
    "nvmlDeviceGetNvLinkState": (
        (P, c_uint, P),
        lambda gpu, link, found: _put(found, c_uint, int(gpu["links"][link] > 0)),
    ),
    "nvmlDeviceGetMaxMigDeviceCount": ((P, P), lambda _, found: _put(found, c_uint, 7)),
    "nvmlDeviceGetMigDeviceHandleByIndex": ((P, c_uint, P), _mig_handle),
    "nvmlDeviceGetGpuInstanceId": ((P, P), _plain("instances", 0)),
    "nvmlDeviceGetComputeInstanceId": ((P, P), _plain("instances", 1)),
    "nvmlDeviceGetComputeRunningProcesses_v3": ((P, P, P), _processes),
}
FUNCTIONS = tuple(_FUNCTIONS)


def node_of(*gpus: dict[str, Any], **library: Any) -> NvmlLibrary:
    """A library with numbered GPUs."""
    return NvmlLibrary(
        *({"number": index, "uuid": f"GPU-{index:08x}".encode(), **gpu} for index, gpu in enumerate(gpus)), **library
    )


def mig_device(instance: int, *, busy: bool = False) -> dict[str, Any]:
    """A MIG device of 10 GB, of which 1 GiB is used."""
    return {
        "name": b"NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "uuid": f"MIG-{instance:08x}".encode(),
        "memory": (10 * GIB, GIB),
        "instances": (instance, 0),
        "busy": busy,
    }
