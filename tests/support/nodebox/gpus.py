"""The GPUs of a node: the stateful fake of nvidia-smi, served inside the node's network."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cdk_gpu_clusters.catalogue
from fakes.nvidia_smi import CLIENT, Handler
from nodebox.servers import Server

_PROFILES = Path(cdk_gpu_clusters.catalogue.__file__).parent / "data" / "mig_profiles.json"


class Gpus:
    """GPUs that keep their MIG state over reboots as far as real ones do.

    Args:
        key: Row of the catalogue's MIG data, such as `A100-40GB`.
        count: How many there are.
        directory: Where the fake keeps its boot mark.
        units: File that names `nvidia-fabricmanager` while it runs.

    Attributes:
        state: What `fakes.nvidia_smi` documents; may be changed at any time.
        after_call: Called with each command line once it is done, before the node gets the answer.
    """

    def __init__(self, key: str, count: int, *, directory: Path, units: Path) -> None:
        row = json.loads(_PROFILES.read_text())["gpus"].get(key, {"model": key, "profiles": []})
        self._boot_mark, self._boots = directory / "gpu-boot", 0
        self.after_call: Callable[[str], None] = lambda _: None
        self.state: dict[str, Any] = {
            "model": row["model"], "profiles": row["profiles"], "mode_change": "now",
            "keeps_mode": key.startswith("A100"), "reset_needs": "up", "policy": "highest", "driver": "595.64", "late": 0,
            "busy": {}, "refuses": [], "log": [], "boot_id": "", "units": str(units),
            "boot_id_file": str(self._boot_mark),
            "gpus": [{"mode": False, "pending": False, "instances": []} for _ in range(count)],
        }  # fmt: skip

    def power_on(self) -> None:
        """What a boot of the node does to its GPUs."""
        self._boots += 1
        self._boot_mark.write_text(f"{self._boots}")

    def serve(self, listening: socket.socket) -> Server:
        """Answer the calls of `program`."""
        gpus = self

        class DriverCall(Handler):
            state = gpus.state

            def answer(self, arguments: list[str]) -> tuple[int, str]:
                answer = super().answer(arguments)
                gpus.after_call(" ".join(["nvidia-smi", *arguments]))
                return answer

        return Server(listening, DriverCall)

    @staticmethod
    def program(address: str) -> str:
        """The nvidia-smi of a node whose driver answers at an address."""
        return CLIENT.replace("\n", f"\nFAKE_NVIDIA_SMI={address}\n", 1)

    def layouts(self) -> list[list[str]]:
        """Profiles of each GPU as they are, sorted."""
        names = {row["id"]: row["name"] for row in self.state["profiles"]}
        return [sorted(names[each["profile"]] for each in gpu["instances"]) for gpu in self.state["gpus"]]

    def split(self, *profiles: str) -> None:
        """Leave the GPUs as an earlier boot may have: MIG on, with these instances from the first place on."""
        rows = {row["name"]: row for row in self.state["profiles"]}
        for gpu in self.state["gpus"]:
            gpu.update(mode=True, pending=True, instances=[])
            place = 0
            for name in profiles:
                gpu["instances"].append({"profile": rows[name]["id"], "start": place, "device": True})
                place += rows[name]["size"]
