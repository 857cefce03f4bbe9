"""The functions, structures and constants of `libnvidia-ml.so.1` that this software uses.

Source: `nvml.h`, as NVIDIA's own Python binding declares it (package nvidia-ml-py 13.615.71); the tests compare every
name, number and layout below with that package.
"""

from __future__ import annotations

import ctypes
from typing import Any

LIBRARY = "libnvidia-ml.so.1"

# nvmlReturn_t.
SUCCESS = 0
ERROR_INVALID_ARGUMENT = 2
ERROR_NOT_SUPPORTED = 3
ERROR_NOT_FOUND = 6
ERROR_INSUFFICIENT_SIZE = 7
ERROR_FUNCTION_NOT_FOUND = 13
ERROR_GPU_IS_LOST = 15
ERROR_RESET_REQUIRED = 16
ERROR_LIB_RM_VERSION_MISMATCH = 18
ERROR_ARGUMENT_VERSION_MISMATCH = 25

FEATURE_DISABLED, FEATURE_ENABLED = 0, 1
VOLATILE_ECC, AGGREGATE_ECC = 0, 1
MEMORY_ERROR_TYPE_CORRECTED, MEMORY_ERROR_TYPE_UNCORRECTED = 0, 1
CLOCK_SM = 1
TEMPERATURE_GPU = 0
NVLINK_MAX_LINKS = 36
SYSTEM_DRIVER_VERSION_BUFFER_SIZE = 80
DEVICE_NAME_V2_BUFFER_SIZE = DEVICE_UUID_V2_BUFFER_SIZE = 96

# Identifiers of nvmlDeviceGetFieldValues.
FI_DEV_NVLINK_SPEED_MBPS_COMMON = 90
FI_DEV_NVLINK_LINK_COUNT = 91
FI_DEV_NVLINK_GET_SPEED = 164
FI_DEV_RESET_STATUS = 226
FI_DEV_DRAIN_AND_RESET_STATUS = 227
FI_DEV_GET_GPU_RECOVERY_ACTION = 230

#: nvmlClocksEventReason...
CLOCKS_EVENT_REASONS = {
    "gpu_idle": 0x1,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
}

Handle = ctypes.c_void_p


class PciInfo(ctypes.Structure):
    """nvmlPciInfo_t."""

    _fields_ = [
        ("busIdLegacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("pciDeviceId", ctypes.c_uint),
        ("pciSubSystemId", ctypes.c_uint),
        ("busId", ctypes.c_char * 32),
    ]


class Memory(ctypes.Structure):
    """nvmlMemory_t, in bytes. Memory that the driver reserves counts as used."""

    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class MemoryV2(ctypes.Structure):
    """nvmlMemory_v2_t, in bytes. Memory that the driver reserves does not count as used."""

    _fields_ = [
        ("version", ctypes.c_uint),
        ("total", ctypes.c_ulonglong),
        ("reserved", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    ]


class Utilization(ctypes.Structure):
    """nvmlUtilization_t, in percent."""

    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class SramErrorStatus(ctypes.Structure):
    """nvmlEccSramErrorStatus_v1_t."""

    _fields_ = [
        ("version", ctypes.c_uint),
        ("aggregateUncParity", ctypes.c_ulonglong),
        ("aggregateUncSecDed", ctypes.c_ulonglong),
        ("aggregateCor", ctypes.c_ulonglong),
        ("volatileUncParity", ctypes.c_ulonglong),
        ("volatileUncSecDed", ctypes.c_ulonglong),
        ("volatileCor", ctypes.c_ulonglong),
        ("aggregateUncBucketL2", ctypes.c_ulonglong),
        ("aggregateUncBucketSm", ctypes.c_ulonglong),
        ("aggregateUncBucketPcie", ctypes.c_ulonglong),
        ("aggregateUncBucketMcu", ctypes.c_ulonglong),
        ("aggregateUncBucketOther", ctypes.c_ulonglong),
        ("bThresholdExceeded", ctypes.c_uint),
    ]


class FabricInfo(ctypes.Structure):
    """nvmlGpuFabricInfo_t."""

    _fields_ = [
        ("clusterUuid", ctypes.c_uint8 * 16),
        ("status", ctypes.c_uint),
        ("cliqueId", ctypes.c_uint32),
        ("state", ctypes.c_uint),
    ]


class FabricInfoV3(ctypes.Structure):
    """nvmlGpuFabricInfo_v3_t."""

    _fields_ = [
        ("version", ctypes.c_uint),
        ("clusterUuid", ctypes.c_uint8 * 16),
        ("status", ctypes.c_uint),
        ("cliqueId", ctypes.c_uint32),
        ("state", ctypes.c_uint),
        ("healthMask", ctypes.c_uint32),
        ("healthSummary", ctypes.c_uint8),
    ]


class RepairStatus(ctypes.Structure):
    """nvmlRepairStatus_v1_t."""

    _fields_ = [
        ("version", ctypes.c_uint),
        ("bChannelRepairPending", ctypes.c_uint),
        ("bTpcRepairPending", ctypes.c_uint),
    ]


class UnrepairableMemory(ctypes.Structure):
    """nvmlUnrepairableMemory_v1_t."""

    _fields_ = [("version", ctypes.c_uint), ("unrepairableMemory", ctypes.c_uint)]


class Value(ctypes.Union):
    """nvmlValue_t."""

    _fields_ = [
        ("dVal", ctypes.c_double),
        ("uiVal", ctypes.c_uint),
        ("ulVal", ctypes.c_ulong),
        ("ullVal", ctypes.c_ulonglong),
        ("sllVal", ctypes.c_longlong),
        ("siVal", ctypes.c_int),
        ("usVal", ctypes.c_ushort),
    ]


class FieldValue(ctypes.Structure):
    """nvmlFieldValue_t."""

    _fields_ = [
        ("fieldId", ctypes.c_uint32),
        ("scopeId", ctypes.c_uint32),
        ("timestamp", ctypes.c_int64),
        ("latencyUsec", ctypes.c_int64),
        ("valueType", ctypes.c_uint),
        ("nvmlReturn", ctypes.c_uint),
        ("value", Value),
    ]


#: Members of nvmlValue_t, in the order of nvmlValueType_t.
VALUE_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
#: nvml.h, NVML_STRUCT_VERSION: size of the structure, and its version in the highest byte.
VERSIONS: dict[type[ctypes.Structure], int] = {
    MemoryV2: 2,
    SramErrorStatus: 1,
    FabricInfoV3: 3,
    RepairStatus: 1,
    UnrepairableMemory: 1,
}


def struct_version(structure: type[ctypes.Structure]) -> int:
    """The number that identifies a structure in its field `version`."""
    return ctypes.sizeof(structure) | VERSIONS[structure] << 24


class NvmlError(Exception):
    """A function failed.

    Attributes:
        code: Its nvmlReturn_t.
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code: int = code

    @property
    def is_absent(self) -> bool:
        """Whether the GPU or the driver does not have what was asked for."""
        return self.code in (
            ERROR_NOT_SUPPORTED,
            ERROR_INVALID_ARGUMENT,  # a field that is newer than the driver
            ERROR_FUNCTION_NOT_FOUND,
            ERROR_ARGUMENT_VERSION_MISMATCH,
        )


class Nvml:
    """The loaded library. Functions that the driver's release does not have fail as FUNCTION_NOT_FOUND."""

    def __init__(self, library: Any) -> None:
        """Use a library.

        Args:
            library: What `ctypes.CDLL` returned.
        """
        self._library = library

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function.

        Raises:
            NvmlError: If it does not return NVML_SUCCESS.
        """
        function = getattr(self._library, name, None)
        code = ERROR_FUNCTION_NOT_FOUND if function is None else int(function(*arguments))
        if code != SUCCESS:
            raise self.error(code)

    def error(self, code: int) -> NvmlError:
        """The error of a code, with NVIDIA's words for it."""
        describe = getattr(self._library, "nvmlErrorString", None)
        if describe is None:
            return NvmlError(code, f"NVML error {code}")
        describe.restype = ctypes.c_char_p
        return NvmlError(code, (describe(ctypes.c_uint(code)) or b"").decode("ascii", "replace"))

    def gpu_count(self) -> int:
        """The number of GPUs, also of those that no longer answer."""
        count = ctypes.c_uint()
        self.call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        return count.value

    def gpu(self, index: int) -> Device:
        """The GPU of an index."""
        handle = Handle()
        self.call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
        return Device(self, handle, index)

    def driver_version(self) -> str:
        """Release of the driver."""
        text = ctypes.create_string_buffer(SYSTEM_DRIVER_VERSION_BUFFER_SIZE)
        self.call("nvmlSystemGetDriverVersion", text, ctypes.c_uint(len(text)))
        return text.value.decode("ascii", "replace")


class Device:
    """A GPU or a MIG device.

    Attributes:
        nvml: Its library.
        index: Its index: of the GPU, or of the MIG device on its GPU.
    """

    def __init__(self, nvml: Nvml, handle: Handle, index: int) -> None:
        self.nvml: Nvml = nvml
        self.index: int = index
        self._handle = handle

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of this device."""
        self.nvml.call(name, self._handle, *arguments)

    def number(self, name: str, *given: int) -> int:
        """The result of a function that fills in one unsigned int after what is given."""
        found = ctypes.c_uint()
        self.call(name, *map(ctypes.c_uint, given), ctypes.byref(found))
        return found.value

    def large_number(self, name: str, *given: int) -> int:
        """The same for an unsigned long long."""
        found = ctypes.c_ulonglong()
        self.call(name, *map(ctypes.c_uint, given), ctypes.byref(found))
        return found.value

    def numbers(self, name: str, count: int) -> list[int]:
        """The result of a function that fills in several unsigned ints."""
        found = [ctypes.c_uint() for _ in range(count)]
        self.call(name, *map(ctypes.byref, found))
        return [one.value for one in found]

    def text(self, name: str, size: int) -> str:
        """The result of a function that fills in a text of at most this size."""
        found = ctypes.create_string_buffer(size)
        self.call(name, found, ctypes.c_uint(size))
        return found.value.decode("utf-8", "replace")

    def fill(self, name: str, structure: Any) -> Any:
        """The structure, filled in by a function; its `version` is set if it has one."""
        if type(structure) in VERSIONS:
            structure.version = struct_version(type(structure))
        self.call(name, ctypes.byref(structure))
        return structure

    def field(self, identifier: int, scope: int = 0) -> float:
        """A value of nvmlDeviceGetFieldValues.

        Args:
            scope: Such as the link that is meant.
        """
        found = FieldValue(fieldId=identifier, scopeId=scope)
        self.call("nvmlDeviceGetFieldValues", ctypes.c_int(1), ctypes.byref(found))
        if found.nvmlReturn != SUCCESS:
            raise self.nvml.error(found.nvmlReturn)
        member = VALUE_MEMBERS[found.valueType] if found.valueType < len(VALUE_MEMBERS) else "ullVal"
        return float(getattr(found.value, member))

    def mig_devices(self) -> list[Device]:
        """The MIG devices of a GPU; none if it is not split."""
        try:
            most = self.number("nvmlDeviceGetMaxMigDeviceCount")
        except NvmlError as fault:
            if fault.is_absent:
                return []
            raise
        found = []
        for index in range(most):
            handle = Handle()
            try:
                self.call("nvmlDeviceGetMigDeviceHandleByIndex", ctypes.c_uint(index), ctypes.byref(handle))
            except NvmlError as fault:
                if fault.code == ERROR_NOT_FOUND or fault.is_absent:
                    continue
                raise
            found.append(Device(self.nvml, handle, index))
        return found

    def has_processes(self) -> bool:
        """Whether a compute process runs on it."""
        count = ctypes.c_uint(0)
        try:
            self.call("nvmlDeviceGetComputeRunningProcesses_v3", ctypes.byref(count), None)
        except NvmlError as fault:
            if fault.code != ERROR_INSUFFICIENT_SIZE:
                raise
        return count.value > 0
