"""Why GPUs run below their clocks: heat and power brakes are watched, idling and power caps are the daily business.

`nvidia-smi --help-query-gpu` (535 and 550), section clocks_event_reasons, which older drivers call
clocks_throttle_reasons. No source says what a slow clock asks for.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..node import Node
from .check import Result, Severity, Untold
from .gpu_rows import gpu_rows, or_well

_NAME = "clocks"
_SECTIONS = ("clocks_event_reasons", "clocks_throttle_reasons")
_WATCHED = {
    "hw_slowdown": "slowed down to half or less by the hardware",
    "hw_thermal_slowdown": "slowed down by the hardware: too hot",
    "hw_power_brake_slowdown": "slowed down by the power supply",
    "sw_thermal_slowdown": "slowed down by the driver: too hot",
}
_CLOCKS = ("clocks.sm", "clocks.max.sm", "temperature.gpu")


def check_clocks(_: Node) -> list[Result]:
    """Ask every GPU why it runs slower than it could."""
    fields = [f"{section}.{reason}" for section in _SECTIONS for reason in _WATCHED]
    rows = gpu_rows([*fields, *_CLOCKS])
    told = [row for row in rows if {row[field] for field in fields} & {"Active", "Not Active"}]
    if not told:
        raise Untold("the driver does not say why clocks are low")
    findings = [
        Result(
            _NAME,
            Severity.MONITOR,
            f"GPU {row['index']}: {why} ({_clock(row)})",
            "",
            "ask AWS about the host",
        )
        for row in told
        for why in ["; ".join(_reasons(row))]
        if why
    ]
    return or_well(
        _NAME, findings, f"{len(told)} GPUs not slowed down; GPU {told[0]['index']}: {_clock(told[0])}"
    )


def _reasons(row: Mapping[str, str]) -> list[str]:
    return [
        why
        for reason, why in _WATCHED.items()
        if "Active" in [row[f"{section}.{reason}"] for section in _SECTIONS]
    ]


def _clock(row: Mapping[str, str]) -> str:
    clock, most, temperature = (row[field] for field in _CLOCKS)
    return f"{clock} of {most} MHz, {temperature} C"
