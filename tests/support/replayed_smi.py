"""An `nvidia-smi` that prints what a real one printed on another machine.

Queries are answered from its `-q` or from its CSV: the same driver has the same values behind both.
"""

from __future__ import annotations

import json
import re
import stat
import sys
from pathlib import Path
from typing import Any

PROGRAM = """#!{python} -ES
import json, sys
state = json.load(open({state!r}))
arguments = sys.argv[1:]
if "failure" in state:
    sys.stdout.write(state["failure"])
    sys.exit(state["status"])
if arguments[0] == "-q":
    sys.stdout.write(state.get("details", ""))
elif arguments[0] == "nvlink":
    sys.stdout.write(state.get("nvlink", ""))
elif arguments[0] == "-L":
    sys.stdout.write(state.get("listing", ""))
else:
    for number, gpu in enumerate(state["gpus"]):
        cells = {{"index": str(number), "gpu_bus_id": "00000000:%02X:00.0" % number, **gpu}}
        print(", ".join(cells.get(field, "[N/A]") for field in arguments[0].partition("=")[2].split(",")))
sys.exit(state.get("status", 0))
"""

#: Field of a query -> where `-q` has the same value.
_PLACES = {
    "name": "Product Name",
    "uuid": "GPU UUID",
    "memory.total": "FB Memory Usage/Total",
    "mig.mode.current": "MIG Mode/Current",
    "ecc.mode.current": "ECC Mode/Current",
    "remapped_rows.pending": "Remapped Rows/Pending",
    "remapped_rows.failure": "Remapped Rows/Remapping Failure Occurred",
    "retired_pages.pending": "Retired Pages/Pending Page Blacklist",
    "retired_pages.single_bit_ecc.count": "Retired Pages/Single Bit ECC",
    "retired_pages.double_bit.count": "Retired Pages/Double Bit ECC",
    "reset_status.reset_required": "GPU Reset Status/Reset Required",
    "reset_status.drain_and_reset_recommended": "GPU Reset Status/Drain and Reset Recommended",
    "pcie.link.width.current": "PCI/GPU Link Info/Link Width/Current",
    "pcie.link.width.max": "PCI/GPU Link Info/Link Width/Max",
    "pcie.link.gen.current": "PCI/GPU Link Info/PCIe Generation/Current",
    "pcie.link.gen.max": "PCI/GPU Link Info/PCIe Generation/Max",
    "utilization.gpu": "Utilization/Gpu",
    "temperature.gpu": "Temperature/GPU Current Temp",
    "clocks.sm": "Clocks/SM",
    "clocks.max.sm": "Max Clocks/SM",
    "fabric.state": "Fabric/State",
    "fabric.status": "Fabric/Status",
    "fabric.health.summary": "Fabric/Health/Summary",
    **{
        f"clocks_event_reasons.{field}": f"Clocks Event Reasons/HW Slowdown{place}"
        for field, place in {
            "hw_slowdown": "",
            "hw_thermal_slowdown": "/HW Thermal Slowdown",
            "hw_power_brake_slowdown": "/HW Power Brake Slowdown",
        }.items()
    },
    "clocks_event_reasons.sw_thermal_slowdown": "Clocks Event Reasons/SW Thermal Slowdown",
}
_OLD_NAMES = {
    "Clocks Throttle Reasons": "Clocks Event Reasons",
    "Ecc Mode": "ECC Mode",
    "Retired pages": "Retired Pages",
}
_UNITS = re.compile(r"\s(MiB|MHz|W|C|%)$|x$")
_GPU = re.compile(r"^GPU [0-9A-Fa-f]{4,8}:", re.MULTILINE)


def install(tools: Path, **state: Any) -> None:
    """Put it on a PATH.

    Args:
        tools: The folder.
        state: `gpus`, the cells of each; `details`, `nvlink` and `listing`, what it prints; `status`; or `failure`,
            what it prints in any case.
    """
    file = tools / "replayed-smi.json"
    file.write_text(json.dumps({"gpus": [], **state}))
    program = tools / "nvidia-smi"
    program.write_text(PROGRAM.format(python=sys.executable, state=str(file)))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


def as_details(text: str) -> str:
    """What `-q` would print: a part of it gets the head of a GPU."""
    return text if _GPU.search(text) else f"GPU 00000000:00:1E.0\n{text}"


def cells_of_details(text: str) -> list[dict[str, str]]:
    """The cells of each GPU that a text of `-q` has."""
    driver = re.search(r"^Driver Version\s+: (\S+)", text, re.MULTILINE)
    return [_cells(part, driver[1] if driver else "[N/A]") for part in _GPU.split(as_details(text))[1:]]


def _cells(part: str, driver: str) -> dict[str, str]:
    values = _by_path(part)
    cells = {field: _UNITS.sub("", values[place]) for field, place in _PLACES.items() if place in values}
    for field, section in (("volatile", "Volatile"), ("aggregate", "Aggregate")):
        counts = [
            int(value)
            for path, value in values.items()
            if path.startswith(f"ECC Errors/{section}/") and "Uncorrectable" in path and value.isdigit()
        ]
        if counts:
            cells[f"ecc.errors.uncorrected.{field}.total"] = str(sum(counts))
    return {"driver_version": driver, **cells}


def _by_path(part: str) -> dict[str, str]:
    """Value by the names of its sections, from the indentation."""
    values: dict[str, str] = {}
    open_sections: list[tuple[int, str]] = []
    for line in part.splitlines()[1:]:
        indent = len(line) - len(line.lstrip())
        name, mark, value = line.strip().partition(" : ")
        open_sections = [(depth, title) for depth, title in open_sections if depth < indent]
        title = name.strip()
        path = "/".join([*(section for _, section in open_sections), _OLD_NAMES.get(title, title)])
        if mark:
            values.setdefault(path, value.strip())
        open_sections.append((indent, _OLD_NAMES.get(title, title)))
    return values


def cells_of_csv(text: str) -> list[dict[str, str]]:
    """The cells of each row of a CSV with its head."""
    head, *rows = [line.split(", ") for line in text.strip().splitlines()]
    fields = [_alias(name.partition(" [")[0].strip()) for name in head]
    return [dict(zip(fields, (_UNITS.sub("", cell.strip()) for cell in row), strict=False)) for row in rows]


def _alias(field: str) -> str:
    return {"gpu_name": "name"}.get(field, field)
