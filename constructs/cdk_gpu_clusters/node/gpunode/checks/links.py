"""Checks of the links of GPUs: PCIe, NVLink, the NVSwitch fabric, and NUMA."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from .. import nvidia_smi, paths
from ..devices import as_ranges, efa_devices, numa_node, pci_device
from ..fabric import (
    Gpu,
    Manager,
    Membership,
    gpus_of_fabric,
    has_switches,
    joins_elsewhere,
    manager_state,
    manager_words,
)
from ..node import Node
from .check import Result, Severity, Undetermined, gpu_rows, of_all_gpus

# `nvidia-smi --help-query-gpu` (535 and 550): width and generation may be lower while the GPU is idle, and the
# maximum is that of GPU and system together. No source recommends an action for a narrow link, so it is watched.

# A GPU with fewer lanes than others of its node is not accepted at the boot. The maximum alone does not show that: some
# types connect every GPU by fewer lanes than it has.

_WIDTH, _WIDEST = "pcie.link.width.current", "pcie.link.width.max"
_GENERATION, _LATEST = "pcie.link.gen.current", "pcie.link.gen.max"
# Not the clock event `gpu_idle`: it is also not active on an idle GPU whose clocks a power cap limits.
_IN_USE = "utilization.gpu"
_PCIE_FIX = "look again under load; a link that stays so is the host's"


def check_pcie(node: Node) -> list[Result]:
    """Compare width and generation of every link with their maximum, and the widths with each other."""
    rows = gpu_rows([_WIDTH, _WIDEST, _GENERATION, _LATEST, _IN_USE])
    known = [row for row in rows if nvidia_smi.number(row[_WIDTH]) and nvidia_smi.number(row[_WIDEST])]
    if not known:
        raise Undetermined("nvidia-smi: the GPUs do not report their PCIe links")
    usual = max(nvidia_smi.number(row[_WIDTH]) or 0 for row in known)
    findings = [finding for row in known for finding in _pcie_of(row, usual)]
    kinds = sorted({f"generation {row[_GENERATION]} of {row[_LATEST]}, x{row[_WIDTH]}" for row in known})
    return of_all_gpus("pcie", node, findings, f"{len(known)} GPUs: {'; '.join(kinds)}", known=len(known))


def _pcie_of(row: Mapping[str, str], usual: float) -> Iterator[Result]:
    gpu = f"GPU {row['index']}"
    if _is_lower(row, _WIDTH, _WIDEST):
        alike = nvidia_smi.number(row[_WIDTH]) == usual
        found, expected = f"{gpu}: x{row[_WIDTH]}", f"x{row[_WIDEST] if alike else int(usual)}"
        yield Result("pcie", Severity.MONITOR, found, expected, _PCIE_FIX, is_acceptable=alike)
    if _is_lower(row, _GENERATION, _LATEST) and nvidia_smi.number(row[_IN_USE]):
        found = f"{gpu}: generation {row[_GENERATION]}, in use"
        yield Result("pcie", Severity.MONITOR, found, f"generation {row[_LATEST]}", _PCIE_FIX)


def _is_lower(row: Mapping[str, str], current: str, maximum: str) -> bool:
    now, most = nvidia_smi.number(row[current]), nvidia_smi.number(row[maximum])
    return now is not None and most is not None and now < most


# Some links down: watched, as in awslabs/awsome-distributed-ai @ 95b939c, 2.gpu-cluster-healthcheck; a new node is not
# accepted with them. A GPU without any link: reset, the first step of NVIDIA's workflow for NVLink errors. With MIG on,
# a GPU has no NVLink to others (NVIDIA Fabric Manager user guide).

_TIMEOUT_SECONDS = 60
_GPU = re.compile(r"^GPU ([0-9]+):")
_LINK = re.compile(r"^\s+Link [0-9]+: (?:([0-9]+(?:\.[0-9]+)?) GB/s|<inactive>)")
# In the case of the word drivers differ: `inActive` and `inactive`.
_NO_LINK = "all links are inactive"
# Nominal rates of a link in one direction are multiples of 25 GB/s: 25 for NVLink 2 to 4, 50 for NVLink 5. The driver
# prints slightly more, such as 26.562 (NVIDIA data sheets: 6 links of V100 have 300 GB/s, 12 of A100 600, 18 of H100
# 900, 18 of B200 1,800, both directions summed).
_LINK_STEP_GBYTES_PER_S = 25


def check_nvlink(node: Node) -> list[Result]:
    """Compare the links of every GPU with the number and the bandwidth of the type."""
    split = {row["index"] for row in gpu_rows(["mig.mode.current"]) if row["mig.mode.current"] == "Enabled"}
    outcome = nvidia_smi.call("nvlink", "--status", timeout_seconds=_TIMEOUT_SECONDS)
    links = {gpu: found for gpu, found in _links(outcome.output).items() if found and gpu not in split}
    if not links and not split:
        raise Undetermined(f"nvidia-smi nvlink: {outcome.words or 'lists no links'}")
    expected = node.settings.number("nvlink")
    wanted = _wanted_links(expected, max((speed for found in links.values() for speed in found), default=0))
    findings = [finding for gpu, found in links.items() for finding in _nvlink_of(gpu, found, expected, wanted)]
    words = f"{len(links)} GPUs with {wanted} links up" if links else ""
    if split:
        words = f"{words}; GPU {as_ranges(set(map(int, split)))} split by MIG: no NVLink to others".lstrip("; ")
    return of_all_gpus("nvlink", node, findings, words, known=len(links) + len(split))


def _wanted_links(expected: int, fastest: float) -> int:
    """How many links make the bandwidth of the type. Not the number that is listed: a driver may omit dead links."""
    nominal = max(1, int(fastest / _LINK_STEP_GBYTES_PER_S)) * _LINK_STEP_GBYTES_PER_S
    return max(1, round(expected / (2 * nominal)))


def _links(output: str) -> dict[str, list[float]]:
    """GPU to the GB/s of its links, one way; 0 for a link that is down. Empty if the output has none."""
    found: dict[str, list[float]] = {}
    gpu = ""
    for line in output.splitlines():
        head, link = _GPU.match(line), _LINK.match(line)
        if head:
            gpu = head[1]
            found[gpu] = []
        elif gpu and link:
            found[gpu].append(float(link[1] or 0))
        elif gpu and _NO_LINK in line.lower():
            found[gpu].append(0.0)
    return found


def _nvlink_of(gpu: str, links: list[float], expected: int, wanted: int) -> Iterator[Result]:
    up = [link for link in links if link]
    both_ways = 2 * sum(up)
    want = f"{wanted} links, {expected} GB/s both ways together"
    if not up:
        fix = "drain the node; restart nvidia-fabricmanager; reset the GPU; replace the node if it comes back"
        yield Result("nvlink", Severity.RESET, f"GPU {gpu}: no link is up", want, fix)
    elif len(up) < max(wanted, len(links)) or both_ways < expected:
        found = f"GPU {gpu}: {len(up)} of {max(wanted, len(links))} links up, {both_ways:.0f} GB/s"
        fix = "check nvidia-smi nvlink -e, and Xid 74 in dmesg"
        yield Result("nvlink", Severity.MONITOR, found, want, fix, is_acceptable=False)


# A fabric that a GPU has not joined: reset, which includes a restart of the fabric manager (severity RESET in
# awslabs/awsome-distributed-ai @ 95b939c, 2.gpu-cluster-healthcheck). GPUs of a node were `In Progress` for days while
# everything else looked healthy (NVIDIA/gpu-operator issue 2781, NVIDIA/NVSentinel issue 889). The boot and the
# watchdog wait for some minutes before they believe it.

_FABRIC_FIX = "drain the node; restart nvidia-fabricmanager; reset the GPU"
_MEMBERSHIPS = {
    Membership.LIMITED: Severity.MONITOR,
    Membership.JOINING: Severity.RESET,
    Membership.FAILED: Severity.RESET,
    Membership.UNREADABLE: Severity.UNKNOWN,
}


def check_fabric(node: Node) -> list[Result]:
    """Check whether every GPU has joined the fabric, and the fabric manager if the node has switches for it."""
    gpus = gpus_of_fabric()
    if gpus is None:
        raise Undetermined("nvidia-smi lists no GPU")
    findings = [_fabric_of(gpu) for gpu in gpus if gpu.membership in _MEMBERSHIPS]
    manager, needed = manager_state(), has_switches()
    if needed and manager in (Manager.FAILED, Manager.STARTS):
        findings.append(_manager_failure(manager))
    joined = [gpu for gpu in gpus if gpu.membership is Membership.JOINED]
    if joins_elsewhere(node) and any(gpu.membership is Membership.NONE for gpu in gpus):
        findings.append(Result("fabric", Severity.UNKNOWN, "GPUs report no fabric", "Completed, Success", _FABRIC_FIX))
    if not (findings or joined):
        if needed and manager is Manager.ABSENT:
            raise Undetermined("the GPUs do not report whether they joined a fabric, and no fabric manager is known")
        words = "nvidia-fabricmanager runs" if needed else "no NVSwitch"
        return [Result("fabric", Severity.OK, f"{words}; the GPUs do not report a fabric")]
    found = f"{len(joined)} GPUs have joined the fabric"
    return of_all_gpus("fabric", node, findings, found, known=len(gpus))


def _manager_failure(manager: Manager) -> Result:
    """A fabric manager of another version than the loaded driver starts only after a reboot, which loads the newer."""
    words = manager_words()
    found = f"nvidia-fabricmanager: {manager.value}; {words or 'see its journal'}"
    if re.search(r"version .*(?:match|mismatch)", words):
        return Result("fabric", Severity.REBOOT, found, "versions that match", "reboot the node", is_acceptable=False)
    return Result("fabric", Severity.RESET, found, "it runs", _FABRIC_FIX, is_acceptable=False)


def _fabric_of(gpu: Gpu) -> Result:
    severity = _MEMBERSHIPS[gpu.membership]
    return Result("fabric", severity, gpu.words, "Completed, Success", _FABRIC_FIX, is_acceptable=False)


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
