"""`lnetctl`, `modprobe`, `modinfo` and `dd` of a node that mounts Lustre, with the texts of the real ones.

The texts are those of a public log of a g6e.24xlarge with Lustre 2.15.6 and EFA (2026-08). `install` puts the programs
on a PATH; their state holds

    modules   versions of the kernel's modules
    loaded    how modules were loaded
    nets      interfaces of the node: network, device, messages sent, and whether it is up
    refused   devices that LNet does not take
    servers   whether each server tells an EFA address
    policies  what `udsp show` lists
    takes     network by which data go out
"""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

MODULES = {"lustre": "2.15.6", "efa": "3.0.0", "kefalnd": "1.2.2"}
PROGRAM = """#!{python} -ES
import sys
sys.path.insert(0, {folder!r})
import lnet
sys.exit(lnet.main({state!r}, {name!r}, sys.argv[1:]))
"""


class Lnet:
    """The state of a node's programs."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @property
    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(self._file.read_text())
        return state

    def change(self, **state: Any) -> None:
        self._file.write_text(json.dumps({**self.state, **state}))


def install(tools: Path, **state: Any) -> Lnet:
    """Put the programs with their state into a folder of the PATH."""
    from pathlib import Path

    file = tools / "lnet.json"
    empty = {"modules": MODULES, "loaded": [], "nets": [], "refused": [], "policies": [], "takes": "efa"}
    file.write_text(json.dumps({**empty, "servers": [True, True, False], **state}))
    for name in ("lnetctl", "modprobe", "modinfo", "dd"):
        folder = str(Path(__file__).parent)
        (tools / name).write_text(PROGRAM.format(python=sys.executable, folder=folder, state=str(file), name=name))
        (tools / name).chmod(0o755)
    return Lnet(file)


def main(file: str, name: str, arguments: list[str]) -> int:
    import fcntl

    with open(file, "r+") as stream:  # noqa: PTH123 - pathlib would take most of the time of a call
        fcntl.flock(stream, fcntl.LOCK_EX)  # devices are added beside each other
        state = json.load(stream)
        status = _PROGRAMS[name](state, arguments)
        stream.seek(0)
        stream.truncate()
        json.dump(state, stream)
    return status


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _modinfo(state: dict[str, Any], arguments: list[str]) -> int:
    version = state["modules"].get(arguments[-1])
    _say(version or f"modinfo: ERROR: Module {arguments[-1]} not found.")
    return 0 if version else 1


def _modprobe(state: dict[str, Any], arguments: list[str]) -> int:
    state["loaded"].append(" ".join(arguments))
    return 0


def _dd(state: dict[str, Any], arguments: list[str]) -> int:
    given = dict(word.split("=", 1) for word in arguments)
    os.close(os.open(given["of"], os.O_CREAT | os.O_WRONLY))
    among = [net for net in state["nets"] if net["network"] == state["takes"]]
    for net in among:
        net["sent"] += int(given["count"]) // len(among)
    state["nets"][0]["sent"] += 3  # metadata and pings
    return 0


def _lnetctl(state: dict[str, Any], arguments: list[str]) -> int:
    if arguments[:2] == ["net", "add"]:
        network, device = (arguments[arguments.index(name) + 1] for name in ("--net", "--if"))
        if device in state["refused"]:
            _say(f'add:\n    - net:\n          errno: -22\n          descr: "cannot add network: {device}"')
            return 234
        state["nets"].append({"network": network, "device": device, "sent": 9, "up": True})
    elif arguments[:2] == ["net", "show"]:
        _say(_shown(state["nets"]))
    elif arguments[:2] == ["peer", "show"]:
        _say(_peers(state["servers"]))
    elif arguments[:2] == ["udsp", "add"]:
        state["policies"].append(arguments[arguments.index("--src") + 1])
    elif arguments[:2] == ["udsp", "show"]:
        _say("\n".join(["udsp:", *(f"    - idx: 0\n      src: {one}" for one in state["policies"])]))
    return 0


def _shown(nets: list[dict[str, Any]]) -> str:
    lines = ["net:", "    - net type: lo", "      local NI(s):", "        - nid: 0@lo"]
    lines += ["          status: up", "          statistics:", "              send_count: 0"]
    for number, net in enumerate(nets):
        lines += [
            f"    - net type: {net['network']}",
            "      local NI(s):",
            f"        - nid: 10.1.1.{number}@{net['network']}",
            f"          status: {'up' if net['up'] else 'down'}",
            "          interfaces:",
            f"              0: {net['device']}",
            "          statistics:",
            f"              send_count: {net['sent']}",
            "              recv_count: 0",
        ]
    return "\n".join(lines)


def _peers(servers: list[bool]) -> str:
    lines = ["peer:"]
    for number, has_efa in enumerate(servers):
        nids = [f"10.1.2.{number}@tcp", *([f"1.203.{number}.0@efa"] if has_efa else [])]
        lines += [f"    - primary nid: {nids[0]}", f"      Multi-Rail: {has_efa}", "      peer ni:"]
        for nid in nids:
            lines += [f"        - nid: {nid}", "          state: NA"]
    return "\n".join(lines)


_PROGRAMS = {"lnetctl": _lnetctl, "modprobe": _modprobe, "modinfo": _modinfo, "dd": _dd}
