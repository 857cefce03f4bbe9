"""An `nvidia-smi` for the health of GPUs, with the texts of the real one.

Texts and exit statuses are those of nvidia-smi 535.261.03 and 550.163.01 on a mock of NVIDIA's library with H100s, and
for `GPU Recovery Action`, which came later, those of published outputs of 580 and 595. `install` puts the program on a
PATH; its state holds

    gpus        per GPU: cells that differ from CELLS; `lost`: it fell off the bus; `links`: GB/s of each NVLink, 0 down;
                `sram`, `recovery`: what -q says; `repairs`: what 590 adds
    unknown     sections of fields that this driver does not know, such as `fabric`
    status      exit status, with `text` instead of any answer: a driver that does not answer, or garbage
    seconds     how long it takes to answer
"""

from __future__ import annotations

import json
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

CELLS = {
    "name": "NVIDIA H100 80GB HBM3",
    "driver_version": "550.163.01",
    "memory.total": "81559",
    "mig.mode.current": "Disabled",
    "ecc.mode.current": "Enabled",
    "ecc.errors.uncorrected.volatile.total": "0",
    "ecc.errors.uncorrected.aggregate.total": "0",
    "retired_pages.pending": "[N/A]",
    "retired_pages.single_bit_ecc.count": "[N/A]",
    "retired_pages.double_bit.count": "[N/A]",
    "reset_status.reset_required": "[N/A]",
    "reset_status.drain_and_reset_recommended": "[N/A]",
    "pcie.link.gen.current": "5",
    "pcie.link.gen.max": "5",
    "pcie.link.width.current": "16",
    "pcie.link.width.max": "16",
    "clocks_event_reasons.gpu_idle": "Not Active",
    "utilization.gpu": "97",
    "clocks.sm": "1980",
    "clocks.max.sm": "1980",
    "temperature.gpu": "45",
    "fabric.state": "state  Completed",
    "fabric.status": "status Success",
    "remapped_rows.pending": "0",
    "remapped_rows.failure": "0",
    **{
        f"clocks_{word}_reasons.{reason}": "Not Active"
        for word in ("event", "throttle")
        for reason in ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")
    },
}
#: Cells that the driver keeps for a GPU that it has lost.
KEPT = ("index", "name", "uuid", "gpu_bus_id", "pci.bus_id", "driver_version", "mig.mode.current")
#: Cells that a reset does not mend.
_OUTLASTS_RESET = ("lost", "remapped_rows.failure", "name", "driver_version", "mig.mode.current")
PROGRAM = """#!{python} -ES
import sys
sys.path.insert(0, {folder!r})
import gpu_health
sys.exit(gpu_health.main({state!r}, sys.argv[1:]))
"""


def install(tools: Path, state: dict[str, Any]) -> None:
    """Put the program with its state into a folder of the PATH."""
    from pathlib import Path

    file = tools / "nvidia-smi.json"
    file.write_text(json.dumps(state))
    program = tools / "nvidia-smi"
    program.write_text(PROGRAM.format(python=sys.executable, folder=str(Path(__file__).parent), state=str(file)))
    program.chmod(0o755)


def address(index: int) -> str:
    """PCI address of a GPU, as nvidia-smi prints it."""
    return f"00000000:{0x1A + index:02X}:00.0"


def cells_of(gpu: dict[str, Any], index: int) -> dict[str, str]:
    """Every cell of one GPU."""
    own = {"index": str(index), "uuid": f"GPU-{index:08x}", "pci.bus_id": address(index)}
    own["gpu_bus_id"] = own["pci.bus_id"]
    return {**CELLS, **own, **gpu}


def query(state: dict[str, Any], fields: list[str]) -> tuple[int, str]:
    """`--query-gpu` and `--query-remapped-rows`."""
    lines = []
    for index, gpu in enumerate(state["gpus"]):
        cells = cells_of(gpu, index)
        for field in fields:
            if field not in cells or field.rpartition(".")[0] in state.get("unknown", []):
                return 2, f'Field "{field}" is not a valid field to query.\n\n'
        lost = gpu.get("lost", False)
        row = ["[GPU is lost]" if lost and field not in KEPT else cells[field] for field in fields]
        lines.append(", ".join(row) + "\n")
    return 0, "".join(lines)


def listing(state: dict[str, Any]) -> str:
    """`-L`, and in place of the table that is printed without arguments."""
    rows = [cells_of(gpu, index) for index, gpu in enumerate(state["gpus"])]
    return "".join(f"GPU {row['index']}: {row['name']} (UUID: {row['uuid']})\n" for row in rows)


def nvlink(state: dict[str, Any]) -> str:
    """`nvlink --status`."""
    text = ""
    for index, gpu in enumerate(state["gpus"]):
        cells = cells_of(gpu, index)
        text += f"GPU {index}: {cells['name']} (UUID: {cells['uuid']})\n"
        for number, speed in enumerate(gpu.get("links", [26.562] * 18)):
            text += f"\t Link {number}: " + (f"{speed} GB/s\n" if speed else "<inactive>\n")
    return text


def details(state: dict[str, Any]) -> str:
    """The lines of `-q` that are looked at."""
    text = "==============NVSMI LOG==============\n\n"
    for index, gpu in enumerate(state["gpus"]):
        text += f"GPU {address(index)}\n"
        if any("recovery" in other for other in state["gpus"]):
            text += f"    GPU Recovery Action                   : {gpu.get('recovery', 'None')}\n"
        text += f"        Aggregate\n            SRAM Threshold Exceeded       : {gpu.get('sram', 'No')}\n"
        for name, flag in gpu.get("repairs", {}).items():
            text += f"        {name:<47}: {flag}\n"
    return text


def answer(state: dict[str, Any], arguments: list[str]) -> tuple[int, str]:
    """Exit status of one call, and what it prints."""
    if not arguments or arguments == ["-L"]:
        return 0, listing(state)
    if arguments[0].startswith("--query-"):
        return query(state, arguments[0].partition("=")[2].split(","))
    if arguments[:2] == ["nvlink", "--status"]:
        return 0, nvlink(state)
    if arguments[0] == "-q":
        return 0, details(state)
    if arguments == ["--gpu-reset"]:
        return 0, "".join(f"GPU {address(index)} was successfully reset.\n" for index in range(len(state["gpus"])))
    return 2, "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n"


def main(state_file: str, arguments: list[str]) -> int:
    """One call: prints, and gives the exit status."""
    with open(state_file) as file:  # noqa: PTH123 - pathlib would take most of the time of a call
        state = json.load(file)
    time.sleep(state.get("seconds", 0))
    if "text" in state:
        sys.stdout.write(state["text"])
        return int(state["status"])
    if arguments == ["--gpu-reset"]:
        state["gpus"] = [{cell: gpu[cell] for cell in _OUTLASTS_RESET if cell in gpu} for gpu in state["gpus"]]
        with open(state_file, "w") as file:  # noqa: PTH123
            json.dump(state, file)
    status, text = answer(state, arguments)
    sys.stdout.write(text)
    return status
