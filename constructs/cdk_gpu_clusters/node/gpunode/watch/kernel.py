"""The kernel's log, `/dev/kmsg`, and what its messages mean for the node.

Not the journal: journald takes `NVRM:` for the name of a program and strips it from the message (Linux kernel,
Documentation/ABI/testing/dev-kmsg).
"""

from __future__ import annotations

import errno
import json
import os
import re
import select
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from re import Pattern
from typing import Any, NamedTuple

from .. import paths
from ..checks.check import Severity
from .probes import Symptom

# A record of the kernel has at most 8 KiB. A reader with a smaller buffer always gets EINVAL.
_READ_BYTES = 64 * 1024
# The first number of a record is 8 times its facility, plus its level (syslog(3), LOG_KERN).
_LEVEL_BITS, _KERNEL = 3, 0
# The kernel's own lines have at most 1,024 characters (kernel/printk/printk.c). Some patterns take the square of that.
_LONGEST_TEXT = 2_000
# An endless stream of messages must not hold the reader.
_MOST_RECORDS = 5_000


class Record(NamedTuple):
    """One message of the log.

    Attributes:
        sequence: Its number in this boot.
        text: The message, without its continuation lines.
        is_kernel: Whether the kernel wrote it. A process that writes to the log cannot claim that (Linux kernel,
            Documentation/ABI/testing/dev-kmsg: no message from user space has the facility LOG_KERN).
    """

    sequence: int
    text: str
    is_kernel: bool = True


class KernelLog:
    """Reads the messages of the kernel, each once.

    Attributes:
        sequence: Number of the last message read; -1 before the first.
        overwritten: How many times messages were overwritten before they could be read.
    """

    def __init__(self, *, after: int = -1, from_end: bool = False, path: Path | None = None) -> None:
        """Start reading.

        Args:
            after: Last message that an earlier process of this boot read. -1: start with the boot's first message that
                is still available, since a fault counts even before the watchdog runs.
            from_end: Skip existing messages, in a container that shares its host's log.
        """
        self.sequence: int = after
        self.overwritten: int = 0
        self._path = path or paths.below("/dev/kmsg")
        self._from_end = from_end and after < 0
        self._file = -1

    def read(self) -> list[Record]:
        """The kernel's own messages since the last call.

        Raises:
            OSError: If the log cannot be read. The next call opens it again.
        """
        try:
            if self._file < 0:
                self._open()
            return self._read()
        except OSError:
            self.close()
            raise

    def wait(self, seconds: float) -> bool:
        """Wait for a message, or until the time is up. Return whether there may be one."""
        end = time.monotonic() + max(0.0, seconds)
        if self._file >= 0:
            poller = select.poll()
            poller.register(self._file, select.POLLIN)
            if any(event & select.POLLIN for _, event in poller.poll(max(0.0, seconds) * 1000)):
                return True
        time.sleep(max(0.0, end - time.monotonic()))
        return False

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            with suppress(OSError):
                os.close(self._file)
        self._file = -1

    def _open(self) -> None:
        self._file = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if self._from_end:
            with suppress(OSError):
                os.lseek(self._file, 0, os.SEEK_END)
            self._from_end = False

    def _read(self) -> list[Record]:
        records: list[Record] = []
        while len(records) < _MOST_RECORDS:
            try:
                chunk = os.read(self._file, _READ_BYTES)
            except BlockingIOError:
                break
            except OSError as fault:
                # The ring buffer wrapped: the next read gives the oldest message that is left.
                if fault.errno != errno.EPIPE:
                    raise
                self.overwritten += 1
                continue
            if not chunk:
                break
            records += self._new(chunk)
        return records

    def _new(self, chunk: bytes) -> list[Record]:
        found = (_record(line) for line in chunk.decode("utf-8", "replace").split("\n"))
        new = [record for record in found if record is not None and record.sequence > self.sequence]
        if new:
            self.sequence = max(record.sequence for record in new)
        return [record for record in new if record.is_kernel]


def _record(line: str) -> Record | None:
    """A record such as `4,1234,5678901,-;NVRM: Xid ...`; None for a continuation line, which begins with a blank."""
    head, mark, text = line.partition(";")
    fields = head.split(",")
    if line.startswith(" ") or not mark or len(fields) < 3 or not (fields[0].isdecimal() and fields[1].isdecimal()):
        return None
    return Record(int(fields[1]), text[:_LONGEST_TEXT], is_kernel=int(fields[0]) >> _LEVEL_BITS == _KERNEL)


# The kernel also prints names that users choose: `THREAD[PID]: segfault at ... in PROGRAM[...]`, with 15 characters of
# the thread's name (Linux kernel, arch/x86/mm/fault.c). So a pattern that takes a node out starts with the beginning of
# the message, and matches no `[` of a name.

#: Address of a PCI device. The driver omits the function.
_PCI = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?"
# Some messages of the driver name its GPU and its function first: `NVRM: GPU0 _kgspBootGspRm: ...`.
_NVRM = r"^NVRM: (?:GPU\d+ )?(?:\w+: )?"
# NVIDIA, "XID errors": `NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: ...`. Old drivers omit PCI:, and on MIG
# devices the brackets hold more words.
_XID = re.compile(rf"^NVRM: Xid \((?:PCI:)?({_PCI})[^)\[]*\): (\d+),?\s*(.*)", re.DOTALL)
# NVIDIA Fabric Manager user guide, appendix D: `nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 24007, Fatal, Link 30 ...`.
# Details follow in messages of their own.
_SXID = re.compile(
    rf"^nvidia-nvswitch\d+: SXid \(PCI:({_PCI})\): (\d+), (?!Data |Severity )(?:(Fatal|Non-fatal),)?\s*(.*)", re.DOTALL
)
# NVIDIA/open-gpu-kernel-modules @ 595.45.04, osinit.c and osapi.c: the event of Xid 79, which is not always logged.
_OFF_BUS = re.compile(rf"^NVRM: (?:(?:The NVIDIA )?GPU ({_PCI})[^\[]*)?fallen off the bus", re.DOTALL)
_OFF_BUS_XID = 79
# The same, kernel_rc.c.
_CRITICAL = re.compile(rf"{_NVRM}RC all channels for critical error (\d+)")


class _Rule(NamedTuple):
    """What one message means.

    Attributes:
        pattern: The message.
        key: Key of the symptom. A pattern with a group adds what it found first.
        severity: What it requires.
        words: The reason, with what the groups found.
    """

    pattern: Pattern[str]
    key: str
    severity: Severity
    words: str


_RULES = (
    # NVIDIA/open-gpu-kernel-modules @ 595.45.04, nv_gpu_ops.c: the driver then marks the system for a reboot.
    _Rule(
        re.compile(rf"{_NVRM}uvm encountered global fatal error (0x[0-9A-Fa-f]+)"),
        "uvm-fatal",
        Severity.REBOOT,
        "the driver's unified memory failed with {}, and requires a reboot",
    ),
    # The same, osinit.c and kernel_gsp.c: a GPU did not start. Programs that open it fail until it is reset.
    _Rule(
        re.compile(r"^NVRM: (?:GPU )?([0-9A-Fa-f:.]*?):? ?(?:rm_init_adapter|RmInitAdapter) failed"),
        "gpu-not-started",
        Severity.RESET,
        "the driver could not start GPU {}",
    ),
    _Rule(
        re.compile(r"^NVRM: ([^\[]*?):? ?(?:_kgsp(?:BootGspRm|LogRpcSanityCheckFailure)|[^\[]*needs? to be reset)"),
        "gpu-asks-for-reset",
        Severity.RESET,
        "the driver asks for a reset of {}",
    ),
    # The same: faults inside the driver. A container with another version of the library causes a mismatch, too.
    _Rule(
        re.compile(r"^NVRM: .*([Aa]ssertion failed|API mismatch)"), "driver", Severity.MONITOR, "the driver reports: {}"
    ),
    _Rule(re.compile(r"^nvidia-peermem (\w+)"), "peermem", Severity.MONITOR, "nvidia-peermem reports an error in {}"),
    # aws-neuron/aws-neuron-sdk, k8s-neuron-problem-detector-and-recovery-config.yml, replaces the instance for some.
    # Any user of a device may write such a message, so the driver's counters decide: see `Hardware`.
    _Rule(
        re.compile(r"^(?!audit:).*NEURON_HW_ERR=(\w+)"),
        "neuron-hardware",
        Severity.MONITOR,
        "the Neuron runtime reports {}",
    ),
    # Lustre, ptlrpc/import.c: requests in flight at that server are lost.
    _Rule(
        re.compile(r"This client was evicted by ([^;\s]+)"),
        "evicted",
        Severity.MONITOR,
        "Lustre: evicted by {}; requests in flight there are lost",
    ),
    # The same: `fsx-OST0001-osc-ffff: Connection to fsx-OST0001 (at 10.0.0.9@tcp) was lost; in progress ...`.
    _Rule(
        re.compile(r"Lustre: \S+: Connection to (\S+) \(at ([^)\s]+)\) was lost"),
        "cut-off",
        Severity.MONITOR,
        "Lustre: connection to {} at {} lost; requests in flight there wait for it",
    ),
    # Linux kernel: kernel/hung_task.c, kernel/watchdog.c, kernel/rcu/tree_stall.h, mm/oom_kill.c. No source recommends
    # an action: aws/eks-node-monitoring-agent only warns of lockups and hung tasks.
    _Rule(
        re.compile(r"INFO: task (\S+):\d+ blocked for more than (\d+) seconds"),
        "hung",
        Severity.MONITOR,
        "{} is blocked in the kernel for more than {} s",
    ),
    _Rule(
        re.compile(r"BUG: soft lockup - CPU#(\d+) stuck for (\d+)s! \[([^\]]+)\]"),
        "soft-lockup",
        Severity.MONITOR,
        "CPU {} did not leave the kernel for {} s in {}",
    ),
    _Rule(
        re.compile(r"Watchdog detected hard LOCKUP on cpu (\d+)"),
        "hard-lockup",
        Severity.MONITOR,
        "CPU {} took no interrupts for seconds",
    ),
    _Rule(
        re.compile(r"rcu: INFO: (\w+) (?:self-)?detected (?:expedited )?stalls?"),
        "rcu-stall",
        Severity.MONITOR,
        "a CPU stalls the kernel ({})",
    ),
    _Rule(
        re.compile(r"Out of memory: Kill(?:ed)? process (\d+) \(([^)]*)\)"),
        "out-of-memory",
        Severity.MONITOR,
        "out of memory: the kernel ended process {} ({})",
    ),
    _Rule(re.compile(r"(\S+) invoked oom-killer"), "out-of-memory", Severity.MONITOR, "out of memory, noticed by {}"),
    _Rule(re.compile(r"(nf_conntrack: table full|file-max limit \d+ reached)"), "kernel-limit", Severity.MONITOR, "{}"),
    _Rule(
        re.compile(r"ptlrpc_expire_one_request\(\)\) @@@ (Request \w+ has [\w ]+)"),
        "late",
        Severity.MONITOR,
        "Lustre: {}",
    ),
    # NVIDIA/NVSentinel replaces the machine for it. Here the device is initialised again first.
    _Rule(
        re.compile(r"^infiniband (\S+): The device didn't send any completion for admin cmd"),
        "efa-silent",
        Severity.REBOOT,
        "EFA device {} does not answer its driver",
    ),
    # Linux kernel, drivers/md/raid0.c: the boot checks whether the local disks are whole.
    _Rule(re.compile(r"^md/raid0:?(\w+): Disk failure on (\w+)"), "disk-gone", Severity.REBOOT, "{} lost its disk {}"),
    # The same, drivers/nvme/host: a volume that was detached by force looks the same.
    _Rule(
        re.compile(
            r"nvme (nvme\d+): (I/O (?:tag )?\d+[^,]* timeout|Device not ready|controller is down|resetting controller"
            r"|Disabling device after reset failure|IO queues not created)"
        ),
        "disk",
        Severity.MONITOR,
        "disk {}: {}",
    ),
    _Rule(re.compile(r"block (nvme\w+): (no available path - failing I/O)"), "disk", Severity.MONITOR, "disk {}: {}"),
    # The same, fs/ext4 and fs/xfs. Whether it is the node's own disk is a probe's matter.
    _Rule(
        re.compile(
            r"(EXT4-fs error \(device \w+|XFS \(\w+\): .*[Ee]rror|I/O error,? (?:on )?dev \w+"
            r"|EXT4-fs \(\S+ (?:.*error|Remounting filesystem read-only))"
        ),
        "file-system",
        Severity.MONITOR,
        "errors of a disk or file system: {}",
    ),
    # The same, drivers/pci/pcie, drivers/acpi/apei, arch/x86/kernel/cpu/mce, drivers/edac and drivers/iommu/intel.
    _Rule(
        re.compile(rf"^\S+ ({_PCI}): AER: device recovery failed"),
        "pcie-lost",
        Severity.REBOOT,
        "the kernel could not recover PCIe device {}",
    ),
    _Rule(
        re.compile(r"(\S+): PCIe Bus Error: severity=(\w+(?: \([\w-]+\))?)"),
        "pcie-error",
        Severity.MONITOR,
        "PCIe {}: {}",
    ),
    _Rule(re.compile(r"pciehp: (Slot\S+): Link Down"), "pcie-down", Severity.MONITOR, "PCIe {}: the link is down"),
    _Rule(
        re.compile(
            r"^(?:\{\d+\}|mce: )?(?:\[Hardware Error\]: )?(event severity: fatal|CPU \d+: Machine Check Exception: \w+)"
        ),
        "host-fault",
        Severity.REPLACE,
        "fatal hardware error of the host: {}",
    ),
    _Rule(re.compile(r"(\[Hardware Error\]: \S.*)"), "host-error", Severity.MONITOR, "hardware error of the host: {}"),
    _Rule(re.compile(r"EDAC (\S+): (\d+) UE "), "host-memory", Severity.MONITOR, "host memory {}: {} uncorrected"),
    _Rule(re.compile(r"DMAR: \[DMA (\w+)"), "dma", Severity.MONITOR, "the IOMMU stopped a DMA {}"),
    _Rule(re.compile(r"^Kernel panic - not syncing: (.*)"), "panic", Severity.REBOOT, "the kernel stopped: {}"),
)


class Hardware:
    """What a node has. A message that may not be about it is only reported."""

    def __init__(self, accelerator: str) -> None:
        """A node's hardware.

        Args:
            accelerator: `gpu`, `neuron` or none.
        """
        self._is_neuron = accelerator == "neuron"
        self._seen: set[str] = set()

    def doubt(self, text: str) -> str:
        """Why a message does not take the node out; empty if it may."""
        # The driver prints any text of up to 512 bytes for whoever may open a device (aws-neuronx-dkms, neuron_cdev.c,
        # ncdev_printk). Its counters and neuron-ls still take a node out.
        if self._is_neuron:
            return "any user of a Neuron device can write such a message"
        # A GPU that was there earlier may have left the bus since.
        self._seen.update(device.name.lower() for device in paths.below("/sys/bus/pci/devices").glob("*"))
        address = re.search(_PCI, text)
        if address is None or not self._seen or any(_is_at(device, address[0]) for device in self._seen):
            return ""
        return f"this node has no device {address[0]}"


def _is_at(device: str, address: str) -> bool:
    domain, _, rest = address.lower().partition(":")
    return device.startswith(f"{domain[-4:]}:{rest}")


def symptom_of(record: Record, table: XidTable, hardware: Hardware | None = None) -> Symptom | None:
    """The symptom that a message shows; None for most messages.

    One message is enough: the kernel reports an event once.

    Args:
        hardware: What the node has. None if that is not compared.
    """
    symptom = _symptom_of(record, table)
    if symptom is None or hardware is None or symptom.severity < Severity.RESET:
        return symptom
    doubt = hardware.doubt(record.text)
    return _event(symptom.key, Severity.MONITOR, f"not acted on, since {doubt}: {symptom.reason}") if doubt else symptom


def _symptom_of(record: Record, table: XidTable) -> Symptom | None:
    xid, sxid, off_bus, critical = (one.search(record.text) for one in (_XID, _SXID, _OFF_BUS, _CRITICAL))
    if xid:
        return _xid(int(xid[2]), xid[1], xid[3], table)
    if sxid:
        severity = table.switch_severity(int(sxid[2]), is_fatal=sxid[3] == "Fatal")
        kind = f" ({sxid[3]})" if sxid[3] else ""
        return _event(f"sxid-{sxid[2]}-{sxid[1]}", severity, f"SXid {sxid[2]}{kind} on {sxid[1]}: {sxid[4]}")
    if off_bus:
        return _xid(_OFF_BUS_XID, off_bus[1] or "a GPU", "reported without an Xid", table)
    if critical:
        return _xid(int(critical[1]), "a GPU", "the driver ended all its channels", table)
    for rule in _RULES:
        match = rule.pattern.search(record.text)
        if match:
            return _event(f"{rule.key}-{match[1]}".rstrip("-"), rule.severity, rule.words.format(*match.groups()))
    return None


def _xid(code: int, device: str, text: str, table: XidTable) -> Symptom:
    name = table.name(code)
    words = f"Xid {code}{f' ({name})' if name else ''} on {device}: {text}"
    return _event(f"xid-{code}-{device}", table.severity(code, text), words)


def _event(key: str, severity: Severity, words: str) -> Symptom:
    return Symptom(key, severity, words, lasting=False)


# The table of Xids comes with this package. Its sources are in the library's catalogue.

_FILE = Path(__file__).parents[1] / "xids.json"

# NVIDIA/open-gpu-kernel-modules @ 595.45.04, gpu.c: `GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset
# Required)`. Other drivers have other words after the same number.
_RECOVERY = re.compile(r"\bto (0x[0-9A-Fa-f]+)\b")
# NVIDIA's catalogue of Xids, sheet "Xids 144-150 Decode": `RLW_SRC_TRACK Nonfatal XC1 i0 Link 10 (0x04082907 ...)`, the
# first number being intrinfo. Its bits 20 to 25 are the reason of a link that went down.
_NVLINK5 = re.compile(r"\b(Fatal|Nonfatal)\b(?:.*?\((0x[0-9A-Fa-f]+))?", re.DOTALL)
_REASON_SHIFT, _REASON_MASK = 20, 0x3F


class XidTable:
    """The actions that Xids of the kernel log require. An unknown Xid is watched.

    Example:
        >>> XidTable({"79": {"class": "replace", "name": "GPU fallen off the bus"}}).severity(79, "").name
        'REPLACE'
    """

    def __init__(
        self,
        xids: Mapping[str, Any],
        *,
        recovery_actions: Mapping[str, str] | None = None,
        harmless_link_down_reasons: Iterable[int] = (),
        sxids: Mapping[str, str] | None = None,
    ) -> None:
        """A table; numbers are texts, since it comes from JSON.

        Args:
            xids: Class and name of each Xid.
            recovery_actions: Class of each recovery action.
            harmless_link_down_reasons: Reasons of a link that went down for which nothing is reset.
            sxids: Class of each SXid that asks for more than its message states.
        """
        self._rows = {code: dict(row) for code, row in xids.items()}
        self._recovery, self._sxids = recovery_actions or {}, sxids or {}
        self._harmless_reasons = frozenset(harmless_link_down_reasons)

    @classmethod
    def from_text(cls, text: str) -> XidTable:
        """Read a table. Without one, every Xid is watched and none is acted on."""
        try:
            return cls(**json.loads(text))
        except (ValueError, AttributeError, TypeError):
            return cls({})

    def severity(self, code: int, message: str) -> Severity:
        """The severity of an Xid.

        Args:
            message: Its text in the kernel log. For some Xids only the text names the action.
        """
        found = self._rows.get(str(code), {}).get("class", "")
        if found == "recovery":
            return self._requested(message)
        if found == "nvlink5":
            return self._nvlink5(message)
        return _SEVERITIES.get(found, Severity.MONITOR)

    def switch_severity(self, code: int, *, is_fatal: bool) -> Severity:
        """The severity of an SXid.

        Fatal ones require a restart of the guest or of its host (Fabric Manager user guide, appendix D.5 and D.6).
        """
        if is_fatal:
            return Severity.REBOOT
        return _SEVERITIES.get(self._sxids.get(str(code), ""), Severity.MONITOR)

    def name(self, code: int) -> str:
        """The name of an Xid; empty if it has none."""
        return str(self._rows.get(str(code), {}).get("name") or "")

    def _requested(self, message: str) -> Severity:
        """The action after the last `to`. A number that the table does not have requires a reset at least."""
        numbers = [int(number, 16) for number in _RECOVERY.findall(message)]
        if not numbers:
            return Severity.UNKNOWN
        return _SEVERITIES[self._recovery.get(str(numbers[-1]), "reset")]

    def _nvlink5(self, message: str) -> Severity:
        """A fatal error requires a reset, unless a person or a host took the link down.

        That agrees with each of the 95 rows of NVIDIA's sheet. For some others the driver asks by Xid 154.
        """
        match = _NVLINK5.search(message)
        if match is None:
            return Severity.UNKNOWN
        reason = int(match[2] or "0x0", 16) >> _REASON_SHIFT & _REASON_MASK
        return Severity.RESET if match[1] == "Fatal" and reason not in self._harmless_reasons else Severity.MONITOR


def read_xids(file: Path = _FILE) -> XidTable:
    """Read the table of this package."""
    return XidTable.from_text(paths.read_text(file))


_SEVERITIES = {
    "monitor": Severity.MONITOR,
    "reset": Severity.RESET,
    "reboot": Severity.REBOOT,
    "replace": Severity.REPLACE,
}
