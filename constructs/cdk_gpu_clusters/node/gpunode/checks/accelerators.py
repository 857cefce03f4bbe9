"""Checks of the accelerators: GPUs, their driver and clocks, MIG devices, and Neuron devices."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from .. import nvidia_smi, paths
from ..command import Outcome
from ..devices import as_ranges, neuron_counters, neuron_devices
from ..driver_change import program_at_work
from ..node import Node
from .check import Result, Severity, Undetermined, gpu_rows, of_all_gpus, or_well

# A GPU that fell off the bus keeps its row in nvidia-smi, and the exit status stays 0, so it is not counted. A node
# with too few GPUs is replaced: awslabs/awsome-distributed-ai @ 95b939c, 2.gpu-cluster-healthcheck (severity
# ISOLATE), and AWS re:Post, "Xid errors" (stop and start it).


def check_gpus(node: Node) -> list[Result]:
    """Count the GPUs that answer, and compare their model and memory."""
    wanted, model = node.settings.number("accelerator_count"), node.settings.text("model")
    answer = nvidia_smi.query(["name", "uuid", "memory.total"])
    failure = driver_failure("gpus", answer.outcome)
    if failure and not answer.rows:
        return [failure]
    good = [row for row in answer.rows if nvidia_smi.number(row["memory.total"]) is not None]
    lost = [*answer.lost, *(_row_text(row) for row in answer.rows if _UNKNOWN_ERROR in row["memory.total"])]
    silent = len(answer.rows) + len(answer.without_row) - len(good) - len(lost) - len(answer.need_reset)
    missing = wanted - len(answer.rows) - len(answer.without_row)
    # Truncated output proves no GPU missing. Only a complete answer does, or a GPU that is reported as lost.
    if not (good or lost or answer.need_reset) or (missing > 0 and not lost and not answer.is_complete):
        raise Undetermined(f"nvidia-smi: {answer.outcome.words or 'lists no GPU'}")
    kinds = sorted({f"{row['name']}, {row['memory.total']} MiB" for row in good})
    words = f"{len(good)} GPUs: {'; '.join(kinds) or 'none'}"
    findings = [
        *_count(len(good), lost, wanted, missing),
        *_waiting_for_reset(answer.need_reset),
        *_warnings(answer.warnings),
        *_models(good, model),
    ]
    if silent:
        findings.append(Result("gpus", Severity.UNKNOWN, f"{silent} GPUs gave no size of their memory"))
    if len({row["memory.total"] for row in good}) > 1:
        findings.append(Result("gpus", Severity.MONITOR, words, "GPUs of the same memory", "ask AWS about the host"))
    return or_well("gpus", findings, words)


# The text of NVML_ERROR_UNKNOWN. In a single cell it says little, for the size of the memory that the GPU is dead.
_UNKNOWN_ERROR = "Unknown Error"


def _row_text(row: Mapping[str, str]) -> str:
    return ", ".join(row.values())


def _count(seen: int, lost: Sequence[str], wanted: int, missing: int) -> Iterator[Result]:
    if lost or missing > 0:
        words = f"{seen} GPUs answer" + (f"; lost: {'; '.join(lost)}" if lost else "")
        yield Result("gpus", Severity.REPLACE, words, f"{wanted} GPUs", "replace the node: its host has lost a GPU")
    elif wanted and seen > wanted:
        yield Result("gpus", Severity.MONITOR, f"{seen} GPUs answer", f"{wanted} GPUs", "is it the fleet's type?")


def _waiting_for_reset(rows: Sequence[str]) -> Iterator[Result]:
    """NVML API reference, NVML_ERROR_RESET_REQUIRED: the GPU requires a reset before it can be used again."""
    if rows:
        fix = "drain the node and reset the GPU"
        yield Result("gpus", Severity.RESET, f"{len(rows)} GPUs require a reset: {'; '.join(rows)}", "none", fix)


def _warnings(lines: Sequence[str]) -> Iterator[Result]:
    """nvidia-smi(1), return code 14: the infoROM of a GPU is corrupted.

    NVIDIA asks to replace such a GPU (GPU Operator documentation, "infoROM is corrupted"). It goes on working, so a
    node in service is only watched, and a new one is not accepted.
    """
    if lines:
        found, fix = "; ".join(lines)[:400], "replace the node once it is idle"
        yield Result("gpus", Severity.MONITOR, found, "none", fix, is_acceptable=False)


# What nvidia-smi prints instead of any GPU, and what it asks for. `No devices were found`: the driver runs, and could
# initialize no GPU (exit status 6). A mismatch lasts until the new driver is loaded; only a reboot is sure to do that.
# "Couldn't communicate with the NVIDIA driver" is not among them: the driver may be missing, or not loaded yet.
_DRIVER_FAILURES = (
    (r"^No devices were found", Severity.REPLACE, "replace the node"),
    (r"Driver/library version mismatch", Severity.REBOOT, "reboot the node, which loads the new driver"),
)


def driver_failure(check: str, outcome: Outcome) -> Result | None:
    """The reason why nvidia-smi lists no GPU, if its text names one that needs an action.

    It is UNKNOWN while a program is at work that may change the driver.
    """
    for line in outcome.text.splitlines():
        for pattern, severity, fix in _DRIVER_FAILURES:
            if re.search(pattern, line.strip()):
                changing = program_at_work()
                if changing:
                    return Result(check, Severity.UNKNOWN, f"{line.strip()[:200]}, while {changing} is at work")
                return Result(check, severity, f"nvidia-smi: {line.strip()[:200]}", "GPUs", fix)
    return None


def _models(rows: Sequence[Mapping[str, str]], model: str) -> Iterator[Result]:
    """GPUs of another model. EC2's `RTX PRO Server 6000` is nvidia-smi's `RTX PRO 6000 Blackwell Server Edition`."""
    if not model:
        return
    others = [row for row in rows if not _words_of(model) <= _words_of(row["name"])]
    if others:
        found = f"GPU {as_ranges({int(row['index']) for row in others})}: {others[0]['name']}"
        yield Result("gpus", Severity.MONITOR, found, model, "is the instance of the fleet's type?")


def _words_of(name: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", name.lower()))


_RELEASE = re.compile(r"[0-9]+(\.[0-9]+)+")


def check_driver(node: Node) -> list[Result]:
    """Compare the driver's release with the first that supports the node's GPUs, or their MIG layout.

    The minimum is the catalogue's (NVIDIA MIG User Guide): that of the layout if the GPUs are split, otherwise the
    first release with MIG on the model. GPUs that cannot be split have none.
    """
    release = gpu_rows(["driver_version"])[0]["driver_version"]
    if not _RELEASE.fullmatch(release):
        raise Undetermined(f"nvidia-smi: the driver's release is {release}")
    minimum = _layout_minimum() or node.settings.text("min_driver")
    if minimum and _release_parts(release) < _release_parts(minimum):
        fix = "use an image with a newer driver"
        return [Result("driver", Severity.MONITOR, release, f"{minimum} or newer", fix)]
    return [Result("driver", Severity.OK, release, f"{minimum} or newer" if minimum else "")]


def _layout_minimum() -> str:
    text = paths.read_text(paths.below("/etc/default/mig"))
    found = re.search(r'^MIG_MINIMUM_DRIVER="?([0-9.]+)', text, re.MULTILINE)
    return found[1] if found else ""


def _release_parts(release: str) -> list[int]:
    return [int(part) for part in re.findall(r"[0-9]+", release)]


# The recovery action that the driver requests: NVIDIA GPU Memory Error Management, "Error recovery and response
# flags". Drivers before 570 have two reset flags instead, or neither. Without them the check has no result.

_ACTION = "GPU Recovery Action"
_RESET_FLAGS = ("reset_status.reset_required", "reset_status.drain_and_reset_recommended")


def check_recovery(node: Node) -> list[Result]:
    """Read the recovery action that the driver requests for every GPU."""
    answer = nvidia_smi.details()
    if answer.outcome.hung or not answer.gpus:
        raise Undetermined(f"nvidia-smi: {answer.outcome.words or 'lists no GPU'}")
    actions = {gpu: values.get(_ACTION, "N/A") for gpu, values in answer.gpus.items()}
    known = {gpu: action for gpu, action in actions.items() if action not in ("N/A", "[N/A]")}
    if not known:
        return _reset_flags(node)
    requests = sorted({action for action in known.values() if action != "None"})
    findings = [_requested(action, [gpu for gpu in known if known[gpu] == action]) for action in requests]
    found = f"the driver requests nothing for {len(known)} GPUs"
    return of_all_gpus("recovery", node, findings, found, known=len(known))


def _requested(action: str, gpus: Sequence[str]) -> Result:
    words, severity = action.lower(), Severity.UNKNOWN
    if "reboot" in words:
        severity = Severity.REBOOT
    elif "reset" in words or "drain" in words or "imex" in words:
        severity = Severity.RESET
    found = f"the driver requests for GPU {', '.join(gpus)}: {action}"
    return Result("recovery", severity, found, "None", f"drain the node; then: {action}")


def _reset_flags(node: Node) -> list[Result]:
    rows = gpu_rows(_RESET_FLAGS)
    known = [row for row in rows if {row[flag] for flag in _RESET_FLAGS} & {"Yes", "No"}]
    if not known:
        return []
    waiting = [row["index"] for row in known if "Yes" in [row[flag] for flag in _RESET_FLAGS]]
    findings = [
        Result("recovery", Severity.RESET, f"GPU {gpu}: the driver requests a reset", "No", "drain and reset it")
        for gpu in waiting
    ]
    found = f"the driver requests nothing for {len(known)} GPUs"
    return of_all_gpus("recovery", node, findings, found, known=len(known))


# Why GPUs run below their clocks. Heat and power brakes are watched. Idling and power caps are normal. `nvidia-smi
# --help-query-gpu` (535 and 550), section clocks_event_reasons, which older drivers call clocks_throttle_reasons. No
# source recommends an action for a slow clock.

_CLOCK_SECTIONS = ("clocks_event_reasons", "clocks_throttle_reasons")
_SLOWDOWNS = {
    "hw_slowdown": "slowed down to half or less by the hardware",
    "hw_thermal_slowdown": "slowed down by the hardware: too hot",
    "hw_power_brake_slowdown": "slowed down by the power supply",
    "sw_thermal_slowdown": "slowed down by the driver: too hot",
}
_CLOCK_FIELDS = ("clocks.sm", "clocks.max.sm", "temperature.gpu")


def check_clocks(node: Node) -> list[Result]:
    """Read from every GPU why it runs below its maximum clock."""
    fields = [f"{section}.{reason}" for section in _CLOCK_SECTIONS for reason in _SLOWDOWNS]
    rows = gpu_rows([*fields, *_CLOCK_FIELDS])
    known = [row for row in rows if {row[field] for field in fields} & {"Active", "Not Active"}]
    if not known:
        raise Undetermined("the driver does not report why clocks are low")
    findings = [finding for row in known for finding in _slowdown_of(row)]
    found = f"{len(known)} GPUs not slowed down; GPU {known[0]['index']}: {_clock_text(known[0])}"
    return of_all_gpus("clocks", node, findings, found, known=len(known))


def _slowdown_of(row: Mapping[str, str]) -> Iterator[Result]:
    why = [
        words
        for reason, words in _SLOWDOWNS.items()
        if "Active" in [row[f"{section}.{reason}"] for section in _CLOCK_SECTIONS]
    ]
    if why:
        found = f"GPU {row['index']}: {'; '.join(why)} ({_clock_text(row)})"
        yield Result("clocks", Severity.MONITOR, found, fix="ask AWS about the host")


def _clock_text(row: Mapping[str, str]) -> str:
    clock, most, temperature = (row[field] for field in _CLOCK_FIELDS)
    return f"{clock} of {most} MHz, {temperature} C"


def check_mig(node: Node) -> list[Result]:
    """Compare the number of MIG devices with the layout. A reboot repairs them: `gpu-mig` creates them at boot."""
    wanted, seen = node.settings.number("mig_count"), nvidia_smi.mig_device_count()
    if seen is None:
        raise Undetermined("nvidia-smi -L lists no GPU")
    found, expected = f"{seen} MIG devices", f"{wanted} MIG devices"
    if seen == wanted:
        return [Result("mig", Severity.OK, found, expected)]
    return [Result("mig", Severity.REBOOT, found, expected, "reboot the node; see journalctl -u gpu-mig")]


# AWS Neuron documentation, Neuron Runtime troubleshooting, "Hardware errors": an uncorrectable error of SRAM or HBM
# requires another instance, a repairable one a reboot. Too few devices are treated like too few GPUs.

_NEURON_COUNTERS = {
    "sram_ecc_uncorrected": (Severity.REPLACE, "uncorrectable errors of SRAM", "replace the node"),
    "mem_ecc_uncorrected": (Severity.REPLACE, "uncorrectable errors of HBM", "replace the node"),
    "mem_ecc_repairable_uncorrected": (Severity.REBOOT, "repairable errors of HBM", "reboot the node"),
}


def check_neuron(node: Node) -> list[Result]:
    """Count the devices that the driver lists."""
    wanted = node.settings.number("accelerator_count")
    listed, outcome = neuron_devices()
    if listed is None:
        raise Undetermined(f"neuron-ls: {outcome.words or 'lists nothing'}")
    found, expected = f"{len(listed)} Neuron devices", f"{wanted} Neuron devices"
    if len(listed) < wanted:
        return [Result("neuron", Severity.REPLACE, found, expected, "replace the node")]
    return [Result("neuron", Severity.OK, found, expected)]


def check_neuron_memory(_: Node) -> list[Result]:
    """Look at the counters of memory errors of every device."""
    counted = {name: neuron_counters(name) for name in _NEURON_COUNTERS}
    if not any(counted.values()):
        raise Undetermined("the driver counts no memory errors below /sys/devices/virtual/neuron_device")
    devices = max(len(values) for values in counted.values())
    return or_well("neuron-memory", _memory_errors(counted), f"{devices} Neuron devices without memory errors")


def _memory_errors(counted: dict[str, dict[str, int]]) -> Iterator[Result]:
    for name, (severity, what, fix) in _NEURON_COUNTERS.items():
        for device, count in counted[name].items():
            if count:
                yield Result("neuron-memory", severity, f"{device}: {count} {what}", "none", fix)
