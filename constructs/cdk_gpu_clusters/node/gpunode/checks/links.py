"""Checks of the links of GPUs: PCIe, NVLink, the NVSwitch fabric, and NUMA."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from .. import nvidia_smi, paths
from ..boot.stage import State, probe_fabric_manager
from ..command import run
from ..devices import as_ranges, efa_devices, numa_node, pci_device
from ..node import Node
from .check import Result, Severity, Undetermined, gpu_rows, or_well

# `nvidia-smi --help-query-gpu` (535 and 550): width and generation may be lower while the GPU is idle, and the
# maximum is that of GPU and system together. No source recommends an action for a narrow link, so it is watched.

_WIDTH, _WIDEST = "pcie.link.width.current", "pcie.link.width.max"
_GENERATION, _LATEST = "pcie.link.gen.current", "pcie.link.gen.max"
_IDLE = "clocks_event_reasons.gpu_idle"
_PCIE_FIX = "look again under load; a link that stays so is the host's"


def check_pcie(_: Node) -> list[Result]:
    """Compare width and generation of every link with their maximum."""
    rows = gpu_rows([_WIDTH, _WIDEST, _GENERATION, _LATEST, _IDLE])
    known = [row for row in rows if nvidia_smi.number(row[_WIDTH]) and nvidia_smi.number(row[_WIDEST])]
    if not known:
        raise Undetermined("the GPUs do not report their PCIe links")
    findings = [finding for row in known for finding in _pcie_of(row)]
    kinds = sorted({f"generation {row[_GENERATION]} of {row[_LATEST]}, x{row[_WIDTH]}" for row in known})
    return or_well("pcie", findings, f"{len(known)} GPUs: {'; '.join(kinds)}")


def _pcie_of(row: Mapping[str, str]) -> Iterator[Result]:
    gpu = f"GPU {row['index']}"
    if _is_lower(row, _WIDTH, _WIDEST):
        yield Result("pcie", Severity.MONITOR, f"{gpu}: x{row[_WIDTH]}", f"x{row[_WIDEST]}", _PCIE_FIX)
    if _is_lower(row, _GENERATION, _LATEST) and row[_IDLE] == "Not Active":
        found = f"{gpu}: generation {row[_GENERATION]}, in use"
        yield Result("pcie", Severity.MONITOR, found, f"generation {row[_LATEST]}", _PCIE_FIX)


def _is_lower(row: Mapping[str, str], current: str, maximum: str) -> bool:
    now, most = nvidia_smi.number(row[current]), nvidia_smi.number(row[maximum])
    return now is not None and most is not None and now < most


# Some links down: watched, as in awslabs/awsome-distributed-ai @ 95b939c, 2.gpu-cluster-healthcheck. A GPU without
# any link: reset, the first step of NVIDIA's workflow for NVLink errors. With MIG on, a GPU has no NVLink to others
# (NVIDIA Fabric Manager user guide).

_TIMEOUT_SECONDS = 60
_GPU = re.compile(r"^GPU ([0-9]+):")
_LINK = re.compile(r"^\s+Link [0-9]+: (?:([0-9.]+) GB/s|<inactive>)")


def check_nvlink(node: Node) -> list[Result]:
    """Compare the links of every GPU with the bandwidth of the type."""
    expected = node.settings.number("nvlink")
    split = {row["index"] for row in gpu_rows(["mig.mode.current"]) if row["mig.mode.current"] == "Enabled"}
    outcome = run("nvidia-smi", "nvlink", "--status", timeout_seconds=_TIMEOUT_SECONDS)
    links = {gpu: found for gpu, found in _links(outcome.output).items() if gpu not in split}
    if not links:
        if split:
            found = f"GPU {as_ranges(set(map(int, split)))} split by MIG: no NVLink to others"
            return [Result("nvlink", Severity.OK, found)]
        raise Undetermined(f"nvidia-smi nvlink: {outcome.words or 'lists no links'}")
    findings = [finding for gpu, found in links.items() for finding in _nvlink_of(gpu, found, expected)]
    most = max(len(found) for found in links.values())
    return or_well("nvlink", findings, f"{len(links)} GPUs with {most} links up")


def _links(output: str) -> dict[str, list[float]]:
    """GPU to the GB/s of its links, one way; 0 for a link that is down."""
    found: dict[str, list[float]] = {}
    gpu = ""
    for line in output.splitlines():
        head, link = _GPU.match(line), _LINK.match(line)
        if head:
            gpu = head[1]
            found[gpu] = []
        elif link and gpu:
            found[gpu].append(float(link[1] or 0))
    return found


def _nvlink_of(gpu: str, links: list[float], expected: int) -> Iterator[Result]:
    up = [link for link in links if link]
    both_ways = 2 * sum(up)
    want = f"{expected} GB/s both ways together"
    if not up:
        fix = "drain the node; restart nvidia-fabricmanager; reset the GPU; replace the node if it comes back"
        yield Result("nvlink", Severity.RESET, f"GPU {gpu}: no link is up", want, fix)
    elif len(up) < len(links) or both_ways < expected:
        found = f"GPU {gpu}: {len(up)} of {len(links)} links up, {both_ways:.0f} GB/s"
        yield Result("nvlink", Severity.MONITOR, found, want, "check nvidia-smi nvlink -e, and Xid 74 in dmesg")


# Without the fabric manager, CUDA fails on systems with NVSwitch, so the node needs a reset of it (severity RESET in
# awslabs/awsome-distributed-ai @ 95b939c, 2.gpu-cluster-healthcheck). A GPU has joined the fabric if its state is
# `Completed` and its status `Success` (NVIDIA Fabric Manager user guide). Only Hopper and later report it.


def check_fabric(node: Node) -> list[Result]:
    """Check the fabric manager, and the fabric state of every GPU."""
    manager = probe_fabric_manager(node)
    if manager.state is not State.OK:
        fix = f"systemctl restart nvidia-fabricmanager; {manager.fix}"
        return [Result("fabric", Severity.RESET, manager.reason, "nvidia-fabricmanager runs", fix)]
    rows = gpu_rows(["fabric.state", "fabric.status"])
    known = [row for row in rows if _state_of(row["fabric.state"])]
    if not known and manager.reason.endswith("runs"):
        return [Result("fabric", Severity.OK, f"{manager.reason}; the GPUs do not report whether they joined")]
    if not known:
        raise Undetermined(f"fabric manager: {manager.reason}; the GPUs do not report whether they joined a fabric")
    findings = [finding for row in known for finding in _fabric_of(row)]
    return or_well("fabric", findings, f"{manager.reason}; {len(known)} GPUs have joined the fabric")


def _fabric_of(row: Mapping[str, str]) -> Iterator[Result]:
    state, status = _state_of(row["fabric.state"]), _state_of(row["fabric.status"])
    found, expected = f"GPU {row['index']}: {state}, {status or 'no status'}", "Completed, Success"
    if state != "Completed":
        fix = "wait; then check journalctl -u nvidia-fabricmanager"
        yield Result("fabric", Severity.MONITOR, found, expected, fix)
    elif status != "Success":
        fix = "drain the node; restart nvidia-fabricmanager; reset the GPU"
        yield Result("fabric", Severity.RESET, found, expected, fix)


def _state_of(cell: str) -> str:
    """The state in a cell such as `state  Completed`, as nvidia-smi 535 and 550 print it; empty if there is none."""
    word = re.sub(r"^(state|status)\s+", "", cell.strip())
    return "" if word.strip("[]") in ("N/A", "Not Supported") else word


def check_numa(node: Node) -> list[Result]:
    """Map GPUs and EFA devices to NUMA nodes, for pinning, which a device without one does not allow."""
    devices = {device.name: numa_node(device / "device") for device in efa_devices()}
    if node.settings.text("accelerator") == "gpu":
        devices = {**_gpu_numa_nodes(), **devices}
    online = paths.read_text(paths.below("/sys/devices/system/node/online")).strip() or "0"
    words = "; ".join(
        f"node {place}: {' '.join(name for name, found in devices.items() if found == place)}"
        for place in sorted(set(devices.values()))
    )
    lost = [name for name, place in devices.items() if place < 0]
    if lost and online != "0":
        expected = f"a NUMA node of {online} for every device"
        return [Result("numa", Severity.MONITOR, f"no NUMA node: {' '.join(lost)}", expected, "do not pin by it")]
    return [Result("numa", Severity.OK, words or "no devices")]


def _gpu_numa_nodes() -> dict[str, int]:
    return {f"GPU{row['index']}": numa_node(pci_device(row["pci.bus_id"])) for row in gpu_rows(["pci.bus_id"])}
