"""Lustre over EFA: set it up, and measure whether data use it."""

from __future__ import annotations

import argparse
import re
import secrets
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import paths
from .command import Outcome, run
from .devices import efa_devices
from .node import Settings, read_settings
from .state import recall, remember

# From the worst to the best.
_ORDER = (False, None, True)

_TEXT = """\
set-up gives Lustre's network the EFA devices of this node; do it before anything is mounted.
probe MOUNT_POINT ... writes 32 MiB to each, and reports whether the data used EFA or TCP. `gpunode verify` uses the
result until the next boot.

Exit status: 0 it is EFA; 1 it is not, or undetermined, with the reason.
"""


def add_lustre_efa(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to those of `gpunode`."""
    command = commands.add_parser(
        "lustre-efa",
        help="Lustre over EFA: set it up, and measure whether it is used",
        description=_TEXT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    steps = command.add_subparsers(required=True, metavar="STEP")
    steps.add_parser("set-up").set_defaults(run=_set_up)
    probe = steps.add_parser("probe")
    probe.add_argument("mount_points", nargs="+", metavar="MOUNT_POINT")
    probe.set_defaults(run=_probe)


def _set_up(_: argparse.Namespace) -> int:
    try:
        devices = set_up_efa(read_settings())
    except EfaSetupError as reason:
        remember_transport(Transport(False, str(reason)))
        sys.stdout.write(f"{reason}\n")
        return 1
    sys.stdout.write(f"{len(devices)} EFA interfaces\n")
    return 0


def _probe(given: argparse.Namespace) -> int:
    results = [measure(point) for point in given.mount_points]
    worst = min(results, key=lambda one: _ORDER.index(one.is_efa))
    remember_transport(worst)
    sys.stdout.write(f"{worst.words}\n")
    return 0 if worst.is_efa else 1


# The steps are those of AWS (FSx for Lustre user guide, "Configuring EFA clients", stored copy of 2026; Amazon EKS
# user guide, "Optimize Amazon FSx for Lustre performance on nodes (EFA)"): modules, TCP, EFA devices with 32 peer
# credits, discovery, and a policy that prefers EFA. Ours change no boot files, load nothing from the network, add
# only what is missing, and report the condition that does not hold.

_MODULE_SECONDS = 60
# One device took 9 s on a g6e.24xlarge (a public log of AWS's script, 2026-08). LNet adds them one after the other,
# under a mutex (lnet_dyn_add_ni in lnet/lnet/api-ni.c of Lustre 2.15), so that each has its own time here.
_DEVICE_SECONDS = 60
_PEER_CREDITS = "32"
_LUSTRE_VERSION = "2.15"


class EfaSetupError(Exception):
    """Lustre cannot use EFA on this node; the text is the reason."""


def set_up_efa(settings: Settings) -> list[str]:
    """Configure Lustre's network for EFA before anything is mounted. Existing configuration stays.

    Args:
        settings: `lustre_efa`, the number of devices to use, and the oldest versions of the drivers,
            `lustre_efa_driver` and `lustre_efa_lnd`.

    Returns:
        The EFA devices that Lustre uses.

    Raises:
        EfaSetupError: If a condition does not hold, or a step fails.
    """
    _check_version("lustre", _LUSTRE_VERSION, "install a Lustre client 2.15")
    _check_version("efa", settings.text("lustre_efa_driver"), "install EFA's software again")
    _check_version("kefalnd", settings.text("lustre_efa_lnd"), "install a Lustre client with EFA, or a newer one")
    device = _tcp_device()
    chosen = choose_devices([one.name for one in efa_devices()], settings.number("lustre_efa"))
    if not chosen:
        raise EfaSetupError("the node has no EFA devices")
    for module in (["lnet"], ["kefalnd", f"ipif_name={device}"], ["ksocklnd"]):
        _must(run("modprobe", *module, timeout_seconds=_MODULE_SECONDS), f"modprobe {module[0]}")
    _must(lnetctl("lnet", "configure"), "lnetctl lnet configure")
    existing = interfaces()
    if not any(one.network == "tcp" for one in existing):
        _must(lnetctl("net", "add", "--net", "tcp", "--if", device), f"TCP on {device}")
    # Another set-up, such as the image's, may have chosen others. No more than requested: each is a connection.
    by_efa = [one.device for one in existing if one.network == "efa"]
    _add([name for name in chosen if name not in by_efa][: max(0, len(chosen) - len(by_efa))])
    _must(lnetctl("set", "discovery", "1"), "discovery")
    if "efa" not in lnetctl("udsp", "show").output:
        _must(lnetctl("udsp", "add", "--src", "efa", "--priority", "0"), "the policy that prefers EFA")
    up = [one.device for one in interfaces() if one.network == "efa" and one.is_up]
    if len(up) < len(chosen):
        raise EfaSetupError(f"{len(up)} of {len(chosen)} EFA interfaces are up in LNet: {' '.join(up) or 'none'}")
    return up


def choose_devices(devices: Sequence[str], count: int) -> list[str]:
    """Choose evenly spaced devices: the first, the last, and one in each group of neighbours.

    Neighbours share a PCI bus. AWS's set-up uses one device of each bus (its default on p5), and the first and the last
    if it uses two.

    Args:
        devices: All devices, in the order of their names.
        count: How many; all if there are fewer.
    """
    if count >= len(devices):
        return list(devices)
    if count < 2:
        return list(devices[:count])
    return [devices[index * (len(devices) - 1) // (count - 1)] for index in range(count)]


def _add(devices: Sequence[str]) -> None:
    for device in devices:
        outcome = lnetctl(
            "net", "add", "--net", "efa", "--if", device, "--peer-credits", _PEER_CREDITS,
            timeout_seconds=_DEVICE_SECONDS,
        )  # fmt: skip
        _must(outcome, f"EFA on {device}")


def _check_version(module: str, oldest: str, fix: str) -> None:
    outcome = run("modinfo", "-F", "version", module, timeout_seconds=_MODULE_SECONDS)
    if not outcome.ok:
        raise EfaSetupError(f"the kernel has no module {module}: {fix}")
    if oldest and _numbers(outcome.output) < _numbers(oldest):
        found = outcome.words or "of no version"
        raise EfaSetupError(f"module {module} is {found}, {oldest} is required: {fix}")


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _tcp_device() -> str:
    """The device of the default route, otherwise that of the first route."""
    rows = [line.split() for line in paths.read_text(paths.below("/proc/net/route")).splitlines()[1:]]
    routes = sorted((row[1] != "00000000", int(row[6]), row[0]) for row in rows if len(row) > 6)
    if not routes:
        raise EfaSetupError("no network device has a route")
    return routes[0][2]


def _must(outcome: Outcome, step: str) -> None:
    if not outcome.ok:
        raise EfaSetupError(f"{step}: {outcome.words or f'status {outcome.status}'}")


# Whether data use EFA, or have silently fallen back to TCP. The servers' connections do not show it: their first
# address is one of TCP by design, as are some small messages. The interfaces that bulk data leave by do
# (aws/aws-parallelcluster pull request 7572 of 2026-08 and aws/aws-parallelcluster-cookbook pull request 3267, which
# removed a check of the connections).

_SIZE_MIB = 32
_WRITE_SECONDS = 60
# A server reports its addresses soon after the first message.
_TRIES = 3
_PAUSE_SECONDS = 2.0
_RESULT = "lustre-efa"


@dataclass(frozen=True)
class Transport:
    """How Lustre's data travel.

    Attributes:
        is_efa: Whether they use EFA; None if undetermined.
        words: What was observed.
    """

    is_efa: bool | None
    words: str


def network_transport(among: list[Interface]) -> Transport:
    """Whether data can use EFA: this node has an interface that is up, and a server reported one of its own."""
    up = [one for one in among if one.network == "efa" and one.is_up]
    down = [one.device for one in among if one.network == "efa" and not one.is_up]
    if not up:
        return Transport(False, "LNet has no EFA interface that is up")
    servers = servers_with_efa()
    if not servers:
        return Transport(False, f"{len(up)} EFA interfaces, but no server reported an EFA address of its own")
    if down:
        return Transport(False, f"EFA interfaces that are down: {' '.join(down)}")
    return Transport(True, f"{len(up)} EFA interfaces, {servers} servers with EFA")


def measure(mount_point: str) -> Transport:
    """Write a file without caches, and count the messages of each network meanwhile.

    A message carries at most 1 MiB, and some are joined. So half as many by EFA are enough, if TCP had fewer.
    """
    for number in range(_TRIES):
        if number:
            time.sleep(_PAUSE_SECONDS)
        before = interfaces()
        possible = network_transport(before)
        if possible.is_efa:
            break
    else:
        return possible
    file = paths.below(mount_point) / f".gpu-cluster.{secrets.token_hex(8)}.efa"
    words = _write(file)
    if words:
        return Transport(None, words)
    after = interfaces()
    by_efa, by_tcp = (sent(network, after) - sent(network, before) for network in ("efa", "tcp"))
    seen = f"{_SIZE_MIB} MiB took {by_efa} messages by EFA and {by_tcp} by TCP"
    return Transport(by_efa >= _SIZE_MIB // 2 and by_efa > by_tcp, f"{possible.words}; {seen}")


def remember_transport(result: Transport) -> None:
    """Store a result until the next boot."""
    with suppress(OSError):
        remember(_RESULT, {"is_efa": result.is_efa, "words": result.words}, paths.state_folder)


def remembered_transport() -> Transport:
    """The stored result of this boot."""
    result = recall(_RESULT, paths.state_folder)
    if "is_efa" in result:
        return Transport(result["is_efa"], str(result.get("words", "")))
    return Transport(None, "not measured during this boot")


def _write(file: Path) -> str:
    # Another program, with a deadline: a file system that hangs would block this one. Users may write there, too: with
    # `excl`, dd opens no file or link of theirs (O_EXCL).
    try:
        outcome = run(
            "dd", "if=/dev/zero", f"of={file}", "bs=1M", f"count={_SIZE_MIB}", "conv=excl", "oflag=direct",
            "status=none",
            timeout_seconds=_WRITE_SECONDS,
        )  # fmt: skip
    finally:
        run("rm", "-f", str(file), timeout_seconds=_WRITE_SECONDS)
    return "" if outcome.ok else f"the test file could not be written: {outcome.words}"


_TIMEOUT_SECONDS = 30
_NID = re.compile(r"- nid: (\S+)@(\S+)")


@dataclass(frozen=True)
class Interface:
    """An interface of this node in Lustre's network.

    Attributes:
        network: `tcp`, `efa` or `lo`.
        device: Network or EFA device; empty for `lo`.
        is_up: Whether it is usable.
        sent: Messages sent by it since it was configured.
    """

    network: str
    device: str
    is_up: bool
    sent: int


def lnetctl(*arguments: str, timeout_seconds: float = _TIMEOUT_SECONDS) -> Outcome:
    """Run `lnetctl`."""
    return run("lnetctl", *arguments, timeout_seconds=timeout_seconds)


def interfaces() -> list[Interface]:
    """The interfaces of this node; none if LNet is not configured."""
    parts = re.split(r"(?=- nid: )", lnetctl("net", "show", "-v").output)
    return [_interface(part) for part in parts if _NID.match(part)]


def sent(network: str, among: list[Interface]) -> int:
    """Messages sent by the interfaces of one network."""
    return sum(one.sent for one in among if one.network == network)


def servers_with_efa() -> int:
    """Number of servers that reported an EFA address. Their first address is always of TCP."""
    peers = re.split(r"(?=- primary nid: )", lnetctl("peer", "show").output)
    return sum(
        any(network == "efa" for _, network in _NID.findall(peer))
        for peer in peers
        if re.match(r"- primary nid: \S+@tcp\b", peer)
    )


def _interface(text: str) -> Interface:
    network = _NID.match(text)
    device = re.search(r"interfaces:\s+0: (\S+)", text)
    count = re.search(r"send_count: (\d+)", text)
    return Interface(
        network=network[2] if network else "",
        device=device[1] if device else "",
        is_up="status: up" in text,
        sent=int(count[1]) if count else 0,
    )
