"""A stateful `nvidia-smi` for GPUs with MIG: the commands that the node scripts use, with the texts of the real one.

`serve` answers calls on loopback, and `CLIENT` is the program that a script finds on its PATH: a Python of its own for
each call would take most of the time of a test. The state remembers the boot id that it was written under: with another
one in `boot_id_file`, a reboot has happened, so that instances are gone and a pending mode is in force. It holds

    model, profiles     rows of the catalogue's data file; no profiles: a GPU without MIG
    gpus                per GPU: mode, pending (booleans) and its instances (profile id, start, device)
    mode_change         now | reset | reboot | never: what makes a pending mode current
    keeps_mode          whether the mode survives a reboot (Ampere)
    reset_needs         up | down: how the fabric manager must be for a reset to work (`units` lists what runs)
    policy              highest | lowest: which free start the driver takes
    driver              its release
    late                calls that fail before the driver is loaded; -1: it never is
    busy                GPU to the process that computes on it
    refuses             GPUs that create no instance
    health              optional, per GPU: what `gpu_health` takes
    log                 every call
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

from fakes import gpu_health

#: The exit status travels as 200 + status.
CLIENT = """#!/bin/bash
answer=$(printf '%s\\0' "$@" | curl -s -w '%{http_code}' --data-binary @- "$FAKE_NVIDIA_SMI")
printf %s "${answer%???}"
exit $((${answer: -3} - 200))
"""

NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n"
)


class Failure(Exception):
    """What nvidia-smi prints before it exits with a status other than 0."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Driver:
    """The GPUs of one node."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.state = state
        self.gpus: list[dict[str, Any]] = state["gpus"]
        self.profiles: dict[int, dict[str, Any]] = {row["id"]: row for row in state["profiles"]}

    def reboot(self) -> None:
        """What a reboot does: instances are gone, and the pending mode is in force or forgotten."""
        for own in self.state.get("health", []):
            own.pop("recovery", None)
        for gpu in self.gpus:
            takes = self.state["keeps_mode"] and self.state["mode_change"] != "never"
            gpu["mode"] = gpu["pending"] if takes else gpu["mode"] if self.state["keeps_mode"] else False
            gpu["pending"], gpu["instances"] = gpu["mode"], []

    def switch(self, index: int, wanted: bool) -> str:
        """`-mig`."""
        gpu = self.gpus[index]
        if not self.profiles:
            return f"Unable to enable MIG Mode for GPU {index}: Not Supported\nTreating as warning and moving on.\n"
        gpu["pending"] = wanted
        if wanted == gpu["mode"] or self.state["mode_change"] == "now":
            gpu["mode"], gpu["instances"] = wanted, [] if wanted != gpu["mode"] else gpu["instances"]
            return f"{'Enabled' if wanted else 'Disabled'} MIG Mode for GPU {index}\nAll done.\n"
        word = "enable" if wanted else "disable"
        return f"Warning: MIG mode is in pending {word} state for GPU {index}:Reboot required\n"

    def reset(self, index: int) -> str:
        """`--gpu-reset`."""
        gpu, fabric = self.gpus[index], self._runs("nvidia-fabricmanager")
        if self.state["mode_change"] in ("reboot", "never"):
            raise Failure(3, f"GPU Reset couldn't run because GPU {index} is not supported for reset.\n")
        if self.state["keeps_mode"] and self._runs("nvidia-persistenced"):
            raise Failure(19, f"The following GPUs could not be reset:\n  GPU {index}: In use by another client\n")
        if str(index) in self.state["busy"] or fabric is not (self.state["reset_needs"] == "up"):
            raise Failure(19, f"The following GPUs could not be reset:\n  GPU {index}: In use by another client\n")
        gpu["mode"], gpu["instances"] = gpu["pending"], []
        if "health" in self.state:
            self.state["health"][index].pop("recovery", None)
        return f"GPU {index} was successfully reset.\n"

    def create(self, index: int, names: str) -> str:
        """`mig -cgi NAMES -C`: as far as it goes, then an error."""
        text = ""
        for name in names.split(","):
            profile = next((row for row in self.profiles.values() if name in (row["name"], str(row["id"]))), None)
            if profile is None:
                raise Failure(
                    2,
                    f"Unable to create a GPU instance on GPU {index} using profile {name}: Invalid Argument\n",
                )
            start = self._free_start(index, profile)
            if start is None or index in self.state["refuses"]:
                said = f"Unable to create a GPU instance on GPU {index} using profile {profile['id']}"
                raise Failure(23, f"{text}{said}: Insufficient Resources\n")
            self.gpus[index]["instances"].append({"profile": profile["id"], "start": start, "device": True})
            text += f"Successfully created GPU instance on GPU {index} using profile MIG {profile['name']}\n"
        return text

    def destroy(self, index: int, what: str) -> str:
        """`mig -dci` or `mig -dgi`."""
        instances = self.gpus[index]["instances"]
        if not instances:
            raise Failure(6, "No GPU instances found: Not Found\n")
        if str(index) in self.state["busy"]:
            raise Failure(19, f"Unable to destroy instances on GPU {index}: In use by another client\n")
        if what == "-dci":
            for instance in instances:
                instance["device"] = False
        elif any(instance["device"] for instance in instances):
            raise Failure(19, f"Unable to destroy GPU instances on GPU {index}: In use by another client\n")
        else:
            instances.clear()
        return f"Successfully destroyed instances of GPU {index}\n"

    def list_profiles(self, index: int) -> str:
        """`mig -lgip`."""
        self._need_mig(index)
        head = "| GPU   Name             ID    Instances   Memory     P2P    SM    DEC   ENC  |\n"
        rows = [
            f"|   {index}  MIG {row['name']:<14} {row['id']:>4}     {row['max_instances']}/{row['max_instances']}"
            f"        {row['memory_gb'] - 0.25:<9}  No     {row['sms'] or 0}     0     0   |\n"
            for row in self.profiles.values()
        ]
        return (
            head + "|                              Free/Total   GiB              CE    JPEG  OFA  |\n" + "".join(rows)
        )

    def list_instances(self, index: int) -> str:
        """`mig -lgi`."""
        self._need_mig(index)
        if not self.gpus[index]["instances"]:
            raise Failure(6, "No GPU instances found: Not Found\n")
        return "| GPU   Name             Profile  Instance   Placement  |\n" + "".join(
            f"|   {index}  MIG {row['name']:<14} {row['id']:>5}     {number:>5}          {each['start']}:{row['size']}     |\n"
            for number, each in enumerate(self.gpus[index]["instances"], start=1)
            for row in [self.profiles[each["profile"]]]
        )

    def list_gpus(self) -> str:
        """`-L`."""
        text = ""
        for index, gpu in enumerate(self.gpus):
            text += f"GPU {index}: {self.state['model']} (UUID: GPU-0000000{index})\n"
            names = [self.profiles[each["profile"]]["name"] for each in gpu["instances"] if each["device"]]
            for number, name in enumerate(names):
                text += f"  MIG {name:<15} Device {number:>2}: (UUID: MIG-{index}-{number})\n"
        return text

    def query(self, fields: str, index: int) -> str:
        """`--query-gpu`, one row."""
        mode = "Enabled" if self.gpus[index]["mode"] else "Disabled"
        cells = {
            "index": str(index),
            "name": self.state["model"],
            "uuid": f"GPU-0000000{index}",
            "memory.total": "40960 MiB",
            "driver_version": self.state["driver"],
            "mig.mode.current": mode if self.profiles else "[N/A]",
            "compute_cap": "8.0" if self.state["keeps_mode"] else "9.0",
        }
        for field in fields.split(","):
            if field not in cells:
                raise Failure(2, f'Field "{field}" is not a valid field to query.\n\n')
        return ", ".join(cells[field] for field in fields.split(",")) + "\n"

    def health(self) -> dict[str, Any]:
        """The GPUs as `gpu_health` knows them."""
        said = self.state.get("health", [{}] * len(self.gpus))
        model, driver = self.state["model"], self.state["driver"]
        return {
            "gpus": [
                {
                    "uuid": f"GPU-0000000{index}",
                    "name": model,
                    "driver_version": driver,
                    "mig.mode.current": "Enabled" if gpu["mode"] else "Disabled",
                    **own,
                }
                for index, (gpu, own) in enumerate(zip(self.gpus, said, strict=True))
            ]
        }

    def computing(self, index: int) -> str:
        """`--query-compute-apps=pid,name`."""
        name = self.state["busy"].get(str(index))
        return f"4711, {name}\n" if name else ""

    def _need_mig(self, index: int) -> None:
        if not self.gpus[index]["mode"]:
            raise Failure(6, "No MIG-enabled devices found.\n")

    def _free_start(self, index: int, profile: dict[str, Any]) -> int | None:
        taken = {
            slice_
            for each in self.gpus[index]["instances"]
            for slice_ in range(each["start"], each["start"] + self.profiles[each["profile"]]["size"])
        }
        free = [start for start in profile["starts"] if taken.isdisjoint(range(start, start + profile["size"]))]
        return {"highest": max, "lowest": min}[self.state["policy"]](free, default=None)

    def _runs(self, unit: str) -> bool:
        units = Path(self.state["units"])
        return units.exists() and unit in units.read_text().split()


def answer(driver: Driver, arguments: list[str]) -> str:
    """What one call prints."""
    chosen = list(range(len(driver.gpus)))
    if "-i" in arguments:
        at = arguments.index("-i")
        chosen = [int(index) for index in arguments[at + 1].split(",")]
        arguments = arguments[:at] + arguments[at + 2 :]
    match arguments:
        case ["-L"]:
            return driver.list_gpus()
        case ["mig", *command]:
            return "".join(split(driver, index, command) for index in chosen)
        case ["-mig", wanted]:
            return "".join(driver.switch(index, wanted == "1") for index in chosen)
        case ["--gpu-reset"]:
            return "".join(driver.reset(index) for index in chosen)
        case ["--query-compute-apps=pid,name", "--format=csv,noheader"]:
            return "".join(driver.computing(index) for index in chosen)
        case [query, "--format=csv,noheader"] if query.startswith("--query-gpu="):
            return "".join(driver.query(query.removeprefix("--query-gpu="), index) for index in chosen)
    status, text = gpu_health.answer(driver.health(), arguments)
    if status:
        raise Failure(status, text)
    return text


def split(driver: Driver, index: int, command: list[str]) -> str:
    """What `nvidia-smi mig` prints for one GPU."""
    match command:
        case ["-cgi", names, "-C"]:
            return driver.create(index, names)
        case ["-dci" | "-dgi" as what]:
            return driver.destroy(index, what)
        case ["-lgip"]:
            return driver.list_profiles(index)
        case ["-lgi"]:
            return driver.list_instances(index)
    raise Failure(*gpu_health.answer(driver.health(), ["mig", *command]))


def call(state: dict[str, Any], arguments: list[str]) -> tuple[int, str]:
    """One call: its exit status and what it prints."""
    driver = Driver(state)
    boot_id = Path(state["boot_id_file"]).read_text().strip()
    if state["boot_id"] != boot_id:
        state["boot_id"] = boot_id
        driver.reboot()
    state["log"].append(" ".join(arguments))
    if state["late"]:
        state["late"] -= 1
        return 9, NO_DRIVER
    try:
        return 0, answer(driver, arguments)
    except Failure as failure:
        return failure.status, str(failure)


class Handler(BaseHTTPRequestHandler):
    """Takes the arguments of a call, separated by zero bytes, and answers with its output."""

    wbufsize = -1
    state: ClassVar[dict[str, Any]] = {}

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["Content-Length"])).decode()
        status, text = self.answer(sent.split("\0")[:-1])
        self.send_response(200 + status)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def answer(self, arguments: list[str]) -> tuple[int, str]:
        """The exit status of a call, and what it prints."""
        return call(self.state, arguments)

    def log_request(self, *_: Any) -> None:
        """Keep the test output quiet."""


@contextmanager
def serve() -> Iterator[str]:
    """Answer calls until the end of the block; gives the address for FAKE_NVIDIA_SMI."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
