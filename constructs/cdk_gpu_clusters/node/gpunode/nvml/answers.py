"""Answers to command lines of `nvidia-smi`, in its own print, by calls of NVML.

Whoever reads `nvidia-smi` reads these, too: a cell, a line or a name is the same here as there. Forms: `nvidia-smi
--help-query-gpu` (550, 580 and 595) and published captures of 535 to 610.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping, Sequence

from . import binding
from .binding import Device, Nvml, NvmlError

#: What a GPU does not have, and what a driver does not know.
_NOT_AVAILABLE = "N/A"
_MIB = 1024 * 1024

Reader = Callable[[Device], str]


class NotAnsweredError(Exception):
    """NVML does not have what was asked for; `nvidia-smi` may."""


def _number(function: str, *given: int) -> Reader:
    return lambda gpu: str(gpu.number(function, *given))


def _flag(yes: str, no: str, read: Callable[[Device], float]) -> Reader:
    return lambda gpu: yes if read(gpu) else no


def _field_flag(identifier: int) -> Reader:
    return _flag("Yes", "No", lambda gpu: gpu.field(identifier))


def _mode(function: str) -> Reader:
    """The present one of a present and a pending mode."""
    return _flag("Enabled", "Disabled", lambda gpu: gpu.numbers(function, 2)[0])


def _ecc_total(counter: int) -> Reader:
    kind = binding.MEMORY_ERROR_TYPE_UNCORRECTED
    return lambda gpu: str(gpu.large_number("nvmlDeviceGetTotalEccErrors", kind, counter))


def _reason(bit: int) -> Reader:
    """Whether the clocks are low for a reason. The function had another name before 535."""

    def read(gpu: Device) -> str:
        try:
            reasons = gpu.large_number("nvmlDeviceGetCurrentClocksEventReasons")
        except NvmlError as fault:
            if fault.code != binding.ERROR_FUNCTION_NOT_FOUND:
                raise
            reasons = gpu.large_number("nvmlDeviceGetCurrentClocksThrottleReasons")
        return "Active" if reasons & bit else "Not Active"

    return read


def _remapped(position: int) -> Reader:
    """Rows remapped for corrected errors, for uncorrected ones, whether one waits, whether one failed."""
    return lambda gpu: str(gpu.numbers("nvmlDeviceGetRemappedRows", 4)[position])


def _memory(name: str) -> Reader:
    def read(gpu: Device) -> str:
        try:
            found = gpu.fill("nvmlDeviceGetMemoryInfo_v2", binding.MemoryV2())
        except NvmlError as fault:
            if not fault.is_absent:
                raise
            found = gpu.fill("nvmlDeviceGetMemoryInfo", binding.Memory())
        return str(getattr(found, name) // _MIB)

    return read


def _utilization(gpu: Device) -> str:
    return str(gpu.fill("nvmlDeviceGetUtilizationRates", binding.Utilization()).gpu)


def _power_watts(gpu: Device) -> str:
    return f"{gpu.number('nvmlDeviceGetPowerUsage') / 1000:.2f}"


def _address(gpu: Device) -> str:
    found: bytes = gpu.fill("nvmlDeviceGetPciInfo_v3", binding.PciInfo()).busId
    return found.decode("ascii", "replace").upper()


def _name(gpu: Device) -> str:
    return gpu.text("nvmlDeviceGetName", binding.DEVICE_NAME_V2_BUFFER_SIZE)


def _uuid(gpu: Device) -> str:
    return gpu.text("nvmlDeviceGetUUID", binding.DEVICE_UUID_V2_BUFFER_SIZE)


# nvmlGpuFabricState_t, and the words of `nvidia-smi -q`, "Fabric".
_FABRIC_STATES = (_NOT_AVAILABLE, "Not Started", "In Progress", "Completed")


def _fabric_state(gpu: Device) -> str:
    state = gpu.fill("nvmlDeviceGetGpuFabricInfo", binding.FabricInfo()).state
    return _FABRIC_STATES[state] if state < len(_FABRIC_STATES) else f"unknown state {state}"


def _fabric_status(gpu: Device) -> str:
    found = gpu.fill("nvmlDeviceGetGpuFabricInfo", binding.FabricInfo())
    if found.state == 0:
        return _NOT_AVAILABLE
    return "Success" if found.status == binding.SUCCESS else str(gpu.nvml.error(found.status))


# NVML_GPU_FABRIC_HEALTH_SUMMARY_...
_FABRIC_HEALTH = (_NOT_AVAILABLE, "Healthy", "Unhealthy", "Limited Capacity")


def _fabric_health(gpu: Device) -> str:
    summary = gpu.fill("nvmlDeviceGetGpuFabricInfoV", binding.FabricInfoV3()).healthSummary
    return _FABRIC_HEALTH[summary] if summary < len(_FABRIC_HEALTH) else f"unknown health {summary}"


# nvmlDeviceGpuRecoveryAction_t, in the words of `nvidia-smi -q` where a published output has them.
_RECOVERY_ACTIONS = (
    "None",
    "Reset",
    "Reboot",
    "Drain P2P",
    "Drain and Reset",
    "Recover IMEX Domain",
    "Bus Reset",
    "System Reboot",
)


def _recovery_action(gpu: Device) -> str:
    action = int(gpu.field(binding.FI_DEV_GET_GPU_RECOVERY_ACTION))
    return _RECOVERY_ACTIONS[action] if action < len(_RECOVERY_ACTIONS) else f"unknown action {action}"


_SRAM = _flag(
    "Yes",
    "No",
    lambda gpu: gpu.fill("nvmlDeviceGetSramEccErrorStatus", binding.SramErrorStatus()).bThresholdExceeded,
)
_CHANNEL_REPAIR = _flag(
    "Yes", "No", lambda gpu: gpu.fill("nvmlDeviceGetRepairStatus", binding.RepairStatus()).bChannelRepairPending
)
_TPC_REPAIR = _flag(
    "Yes", "No", lambda gpu: gpu.fill("nvmlDeviceGetRepairStatus", binding.RepairStatus()).bTpcRepairPending
)
_UNREPAIRABLE = _flag(
    "Yes",
    "No",
    lambda gpu: gpu.fill("nvmlDeviceGetUnrepairableMemoryFlag_v1", binding.UnrepairableMemory()).unrepairableMemory,
)

#: Fields of `--query-gpu` and `--query-remapped-rows`.
FIELDS: Mapping[str, Reader] = {
    "index": lambda gpu: str(gpu.index),
    "name": _name,
    "uuid": _uuid,
    "gpu_name": _name,
    "gpu_uuid": _uuid,
    "pci.bus_id": _address,
    "gpu_bus_id": _address,
    "driver_version": lambda gpu: gpu.nvml.driver_version(),
    "memory.total": _memory("total"),
    "memory.used": _memory("used"),
    "memory.free": _memory("free"),
    "utilization.gpu": _utilization,
    "power.draw": _power_watts,
    "temperature.gpu": _number("nvmlDeviceGetTemperature", binding.TEMPERATURE_GPU),
    "clocks.sm": _number("nvmlDeviceGetClockInfo", binding.CLOCK_SM),
    "clocks.max.sm": _number("nvmlDeviceGetMaxClockInfo", binding.CLOCK_SM),
    "mig.mode.current": _mode("nvmlDeviceGetMigMode"),
    "ecc.mode.current": _mode("nvmlDeviceGetEccMode"),
    "ecc.errors.uncorrected.volatile.total": _ecc_total(binding.VOLATILE_ECC),
    "ecc.errors.uncorrected.aggregate.total": _ecc_total(binding.AGGREGATE_ECC),
    "retired_pages.pending": _flag("Yes", "No", lambda gpu: gpu.number("nvmlDeviceGetRetiredPagesPendingStatus")),
    "remapped_rows.correctable": _remapped(0),
    "remapped_rows.uncorrectable": _remapped(1),
    "remapped_rows.pending": _remapped(2),
    "remapped_rows.failure": _remapped(3),
    "pcie.link.width.current": _number("nvmlDeviceGetCurrPcieLinkWidth"),
    "pcie.link.width.max": _number("nvmlDeviceGetMaxPcieLinkWidth"),
    "pcie.link.gen.current": _number("nvmlDeviceGetCurrPcieLinkGeneration"),
    "pcie.link.gen.max": _number("nvmlDeviceGetMaxPcieLinkGeneration"),
    "fabric.state": _fabric_state,
    "fabric.status": _fabric_status,
    "fabric.health.summary": _fabric_health,
    "reset_status.reset_required": _field_flag(binding.FI_DEV_RESET_STATUS),
    "reset_status.drain_and_reset_recommended": _field_flag(binding.FI_DEV_DRAIN_AND_RESET_STATUS),
    **{
        f"clocks_{word}_reasons.{reason}": _reason(bit)
        for word in ("event", "throttle")
        for reason, bit in binding.CLOCKS_EVENT_REASONS.items()
    },
}

#: Lines of `nvidia-smi -q` that are answered; a reader of another line must ask `nvidia-smi`.
DETAILS: Mapping[str, Reader] = {
    "GPU Recovery Action": _recovery_action,
    "SRAM Threshold Exceeded": _SRAM,
    "Channel Repair Pending": _CHANNEL_REPAIR,
    "TPC Repair Pending": _TPC_REPAIR,
    "Unrepairable Memory": _UNREPAIRABLE,
}

_QUERY = re.compile(r"--query-(?:gpu|remapped-rows)=(.*)")
_FORMAT = "--format=csv,noheader,nounits"


def answer_of(arguments: Sequence[str]) -> Callable[[Nvml], str] | None:
    """What answers a command line of `nvidia-smi`; None if nothing does."""
    words = tuple(arguments)
    query = _QUERY.fullmatch(words[0]) if words else None
    if query and words[1:] == (_FORMAT,):
        fields = query[1].split(",")
        return (lambda nvml: _rows(nvml, fields)) if set(fields) <= set(FIELDS) else None
    answers: Mapping[tuple[str, ...], Callable[[Nvml], str]] = {
        ("-L",): _listing,
        ("nvlink", "--status"): _links,
        ("-q",): _details,
        ("-q", "-d", "ECC"): _details,
        ("-q", "-x"): _xml,
    }
    return answers.get(words)


def _gpus(nvml: Nvml, describe: Callable[[Device], str], broken: Callable[[int, NvmlError], str]) -> str:
    """The description of every GPU in turn. The fault of one does not hide the others."""
    count = nvml.gpu_count()
    if not count:
        raise NotAnsweredError("no GPUs")
    return "".join(_description(nvml, index, describe, broken) for index in range(count))


def _description(
    nvml: Nvml, index: int, describe: Callable[[Device], str], broken: Callable[[int, NvmlError], str]
) -> str:
    try:
        return describe(nvml.gpu(index))
    except NvmlError as fault:
        return broken(index, fault)


def _unable(index: int, fault: NvmlError) -> str:
    """What nvidia-smi prints of a GPU that it cannot open; there is no PCI address without a handle."""
    return f"Unable to determine the device handle for GPU{index}: {fault}\n"


def _rows(nvml: Nvml, fields: Sequence[str]) -> str:
    def broken(index: int, fault: NvmlError) -> str:
        if fault.code != binding.ERROR_RESET_REQUIRED:
            return _unable(index, fault)
        return ", ".join([str(index), *(f"[{fault}]" for _ in fields[1:])]) + "\n"

    return _gpus(nvml, lambda gpu: ", ".join(_cell(gpu, field) for field in fields) + "\n", broken)


def _cell(gpu: Device, field: str) -> str:
    try:
        found = FIELDS[field](gpu)
    except NvmlError as fault:
        found = _NOT_AVAILABLE if fault.is_absent else str(fault)
        return f"[{found}]"
    return f"[{found}]" if found == _NOT_AVAILABLE else found


def _listing(nvml: Nvml) -> str:
    def describe(gpu: Device) -> str:
        lines = [f"GPU {gpu.index}: {_name(gpu)} (UUID: {_uuid(gpu)})\n"]
        for device in gpu.mig_devices():
            profile = _name(device).rpartition("MIG ")[2]
            lines.append(f"  MIG {profile:<11} Device {device.index:2}: (UUID: {_uuid(device)})\n")
        return "".join(lines)

    return _gpus(nvml, describe, _unable)


def _links(nvml: Nvml) -> str:
    def describe(gpu: Device) -> str:
        head = f"GPU {gpu.index}: {_name(gpu)} (UUID: {_uuid(gpu)})\n"
        return head + "".join(f"\t Link {link}: {speed}\n" for link, speed in _link_speeds(gpu))

    return _gpus(nvml, describe, _unable)


def _link_speeds(gpu: Device) -> Iterator[tuple[int, str]]:
    try:
        count = int(gpu.field(binding.FI_DEV_NVLINK_LINK_COUNT))
    except NvmlError as fault:
        if fault.is_absent:
            return
        raise
    for link in range(min(count, binding.NVLINK_MAX_LINKS)):
        yield link, _link_speed(gpu, link)


def _link_speed(gpu: Device, link: int) -> str:
    if not gpu.number("nvmlDeviceGetNvLinkState", link):
        return "<inactive>"
    try:
        megabytes_per_s = gpu.field(binding.FI_DEV_NVLINK_GET_SPEED, link)
    except NvmlError as fault:
        if not fault.is_absent:
            raise
        megabytes_per_s = gpu.field(binding.FI_DEV_NVLINK_SPEED_MBPS_COMMON)
    return f"{megabytes_per_s / 1000:g} GB/s"


def _details(nvml: Nvml) -> str:
    def describe(gpu: Device) -> str:
        lines = (f"    {label:<51}: {_detail(gpu, read)}\n" for label, read in DETAILS.items())
        return f"GPU {_address(gpu)}\n{''.join(lines)}"

    return _gpus(nvml, describe, _unable)


def _detail(gpu: Device, read: Reader) -> str:
    try:
        return read(gpu)
    except NvmlError as fault:
        return _NOT_AVAILABLE if fault.is_absent else str(fault)


def _xml(nvml: Nvml) -> str:
    """The memory of the MIG devices, and on which of them processes run."""

    def describe(gpu: Device) -> str:
        element = ET.Element("gpu", id=_address(gpu))
        devices, processes = (ET.SubElement(element, name) for name in ("mig_devices", "processes"))
        for device in gpu.mig_devices():
            found = ET.SubElement(devices, "mig_device")
            memory = ET.SubElement(found, "fb_memory_usage")
            for name in ("total", "used"):
                ET.SubElement(memory, name).text = f"{_memory(name)(device)} MiB"
            places = [found, ET.SubElement(processes, "process_info")] if device.has_processes() else [found]
            for place in places:
                ET.SubElement(place, "gpu_instance_id").text = str(device.number("nvmlDeviceGetGpuInstanceId"))
                ET.SubElement(place, "compute_instance_id").text = str(device.number("nvmlDeviceGetComputeInstanceId"))
        return ET.tostring(element, encoding="unicode")

    return f"<nvidia_smi_log>{_gpus(nvml, describe, lambda *_: '')}</nvidia_smi_log>"
