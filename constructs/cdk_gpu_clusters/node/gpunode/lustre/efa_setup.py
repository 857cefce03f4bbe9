"""Gives Lustre's network the EFA devices of this node, before anything is mounted.

The steps are those of AWS (FSx for Lustre user guide, "Configuring EFA clients", stored copy of 2026; Amazon EKS user
guide, "Optimize Amazon FSx for Lustre performance on nodes (EFA)"): modules, TCP, EFA devices with 32 peer credits,
discovery, and a policy that prefers EFA. Ours change no boot files, load nothing from the network, add only what is
missing, and say which condition does not hold.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from .. import efa, paths
from ..command import Outcome, run
from ..settings import Settings
from .lnet import interfaces, lnetctl

_MODULE_SECONDS = 60
# One device took 9 s on a g6e.24xlarge (a public log of AWS's script, 2026-08); they are added beside each other.
_DEVICE_SECONDS = 120
_PEER_CREDITS = "32"
_LUSTRE_VERSION = "2.15"


class EfaSetupError(Exception):
    """Lustre cannot use EFA on this node; the text says why."""


def set_up_efa(settings: Settings) -> list[str]:
    """Configure Lustre's network for EFA; what is there already stays.

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
    _check_version(
        "kefalnd", settings.text("lustre_efa_lnd"), "install a Lustre client with EFA, or a newer one"
    )
    device = _tcp_device()
    chosen = choose_devices([one.name for one in efa.devices()], settings.number("lustre_efa"))
    if not chosen:
        raise EfaSetupError("no EFA devices are there")
    for module in (["lnet"], ["kefalnd", f"ipif_name={device}"], ["ksocklnd"]):
        _must(run("modprobe", *module, timeout_seconds=_MODULE_SECONDS), f"modprobe {module[0]}")
    _must(lnetctl("lnet", "configure"), "lnetctl lnet configure")
    there = interfaces()
    if not any(one.network == "tcp" for one in there):
        _must(lnetctl("net", "add", "--net", "tcp", "--if", device), f"TCP on {device}")
    # Another set-up, such as the image's, may have chosen others: not more than wanted, they are connections.
    by_efa = [one.device for one in there if one.network == "efa"]
    _add([name for name in chosen if name not in by_efa][: max(0, len(chosen) - len(by_efa))])
    _must(lnetctl("set", "discovery", "1"), "discovery")
    if "efa" not in lnetctl("udsp", "show").output:
        _must(lnetctl("udsp", "add", "--src", "efa", "--priority", "0"), "the policy that prefers EFA")
    up = [one.device for one in interfaces() if one.network == "efa" and one.is_up]
    if len(up) < len(chosen):
        raise EfaSetupError(
            f"{len(up)} of {len(chosen)} EFA interfaces are up in LNet: {' '.join(up) or 'none'}"
        )
    return up


def choose_devices(devices: Sequence[str], count: int) -> list[str]:
    """Choose devices that lie evenly among all: the first, the last, and one in each group of neighbours.

    Neighbours share a PCI bus, of which AWS's set-up takes one device each (its default on p5), and the first and the
    last where it takes two.

    Args:
        devices: All devices, in the order of their names.
        count: How many; all where there are not as many.
    """
    if count >= len(devices):
        return list(devices)
    if count < 2:
        return list(devices[:count])
    return [devices[index * (len(devices) - 1) // (count - 1)] for index in range(count)]


def _add(devices: Sequence[str]) -> None:
    def add(device: str) -> Outcome:
        return lnetctl(
            "net", "add", "--net", "efa", "--if", device, "--peer-credits", _PEER_CREDITS,
            timeout_seconds=_DEVICE_SECONDS,
        )  # fmt: skip

    with ThreadPoolExecutor(max_workers=max(1, len(devices))) as beside:
        for device, outcome in zip(devices, beside.map(add, devices)):
            _must(outcome, f"EFA on {device}")


def _check_version(module: str, oldest: str, fix: str) -> None:
    outcome = run("modinfo", "-F", "version", module, timeout_seconds=_MODULE_SECONDS)
    if not outcome.ok:
        raise EfaSetupError(f"the kernel has no module {module}: {fix}")
    if oldest and _numbers(outcome.output) < _numbers(oldest):
        found = outcome.words or "of no version"
        raise EfaSetupError(f"module {module} is {found}, {oldest} is needed: {fix}")


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _tcp_device() -> str:
    """The device of the default route; without one, that of the first route."""
    rows = [line.split() for line in paths.read_text(paths.below("/proc/net/route")).splitlines()[1:]]
    routes = sorted((row[1] != "00000000", int(row[6]), row[0]) for row in rows if len(row) > 6)
    if not routes:
        raise EfaSetupError("no network device has a route")
    return routes[0][2]


def _must(outcome: Outcome, step: str) -> None:
    if not outcome.ok:
        raise EfaSetupError(f"{step}: {outcome.words or f'status {outcome.status}'}")
