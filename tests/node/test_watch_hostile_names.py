"""Users choose the names of their programs, and the kernel prints these names. None of them takes a node out."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdk_gpu_clusters.catalogue.xids import node_xids
from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from cdk_gpu_clusters.node.gpunode.watch.kernel import KernelLog, Record, XidTable, symptom_of
from nodebox.debian import need_root
from unprivileged import as_nobody

_PR_SET_NAME = 15
_READ_AND_EXECUTE, _PRIVATE, _PAGE = 5, 2, 4096
# Instructions that write to address 0, and one that is undefined.
_CRASH = {"x86_64": b"\x31\xc0\x88\x00", "aarch64": b"\x00\x00\x00\x00"}[platform.machine()]
# The kernel prints few of them in a row (printk_ratelimit: 10 in 5 s).
_TRIES, _PAUSE_SECONDS = 20, 1.0
_TABLE = XidTable.from_text(node_xids())
_XID_79 = "NVRM: Xid (PCI:0000:10:1c): 79, pid=1, name=x, GPU has fallen off the bus."

#: Names of a thread, of which the kernel keeps 15 characters, and of a program. It prints
#: `THREAD[PID]: segfault at 0 ip ... sp ... error 6 in PROGRAM[...]`.
NAMES = [
    ("x", "SXid (PCI:0): 1, Fatal, x"),
    ("nvidia-nvswitch", "SXid (PCI:0000:c3:00.0): 24007, Fatal, x"),
    ("NVRM: Xid (0", "): 79, pid=1, name=x, GPU has fallen off the bus."),
    ("NVRM: Xid (PCI:", "0000:10:1c): 79, x"),
    ("NVRM: Xid (0:0", "): 79, x"),
    ("NVRM: ", "GPU 0000:10:1c.0: GPU has fallen off the bus."),
    ("NVRM: ", "RC all channels for critical error 79"),
    ("NVRM: ", "uvm encountered global fatal error 0x1"),
    ("NVRM: ", "RmInitAdapter failed"),
    ("NVRM: ", "the GPU needs to be reset"),
    ("NVRM: GPU0 x: ", "_kgspBootGspRm needs to be reset"),
    ("x", " NEURON_HW_ERR=SRAM_UNCORRECTABLE_ERROR x"),
    ("CPU 0: Machine ", "Check Exception: 7"),
    ("{1}[Hardware Er", "ror]: event severity: fatal"),
    ("Kernel panic - ", "not syncing: x"),
    ("x y", ": AER: device recovery failed"),
    ("x", f"\n{_XID_79}"),
    ("x", f"\r\n3,1,1,-;{_XID_79}"),
]


@pytest.fixture
def log() -> Iterator[KernelLog]:
    """The log of this machine's kernel, from now on."""
    need_root()
    log = KernelLog(from_end=True, path=Path("/dev/kmsg"))
    log.read()
    yield log
    log.close()


def crash(thread: str, program: Path) -> None:
    """Let a process without rights crash inside a program, under the name of a thread."""
    program.write_bytes(_CRASH.ljust(_PAGE, b"\0"))
    program.chmod(0o755)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    file = os.open(program, os.O_RDONLY)

    def run() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        libc.prctl(_PR_SET_NAME, thread.encode())
        code = libc.mmap(None, ctypes.c_size_t(_PAGE), _READ_AND_EXECUTE, _PRIVATE, file, ctypes.c_long(0))
        ctypes.CFUNCTYPE(None)(code)()

    status = as_nobody(run)
    os.close(file)
    assert os.WIFSIGNALED(status), "it crashed"


def printed(log: KernelLog, thread: str, program: Path) -> list[Record]:
    """What the kernel printed about the crash."""
    for _ in range(_TRIES):
        crash(thread, program)
        found = [record for record in log.read() if record.text.startswith(f"{thread}[")]
        if found:
            return found
        time.sleep(_PAUSE_SECONDS)
    raise AssertionError("the kernel prints no crashes; is debug.exception-trace 1?")


@pytest.mark.parametrize(("thread", "program"), NAMES)
def test_a_crash_under_a_hostile_name_takes_no_node_out(
    log: KernelLog, tmp_path: Path, thread: str, program: str
) -> None:
    records = printed(log, thread[:15], tmp_path / program)
    found = [symptom for record in records if (symptom := symptom_of(record, _TABLE))]
    assert [symptom for symptom in found if symptom.severity >= Severity.RESET] == []
    assert any(program[-10:] in record.text for record in records), "the kernel prints the program's name"


def test_a_message_that_a_process_writes_is_not_the_kernels(log: KernelLog) -> None:
    """Root in a container may write to the log, too."""
    Path("/dev/kmsg").write_text(f"<3>{_XID_79}\n")
    assert [record for record in log.read() if "Xid" in record.text] == []
