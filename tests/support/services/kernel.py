"""The log of the machine's own kernel, as the driver would write it."""

from __future__ import annotations

import fcntl
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LOG, _LOCK = Path("/dev/kmsg"), Path("/run/lock/gpu-cluster-kernel-log")
# NVIDIA, "XID errors", has messages of this form. Level 3, an error, is that of the driver's NV_DBG_ERRORS.
_XIDS = {
    31: "pid=4711, name=python3, Ch 00000008, intr 10000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted",
    48: "pid='<unknown>', name=<unknown>, An uncorrectable double bit error (DBE) has been detected on GPU in the"
    " framebuffer at physical address 0x10f7ee00",
    79: "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
}


@contextmanager
def kernel_log() -> Iterator[None]:
    """Keep tests of another run from the kernel's log: every watchdog of the machine hears them."""
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def pci_address() -> str:
    """An address of a GPU that no other test uses: all share one kernel."""
    return f"{random.randrange(1, 0x10000):04x}:{random.randrange(0x100):02x}:{random.randrange(0x20):02x}"


def unused_instance_id() -> str:
    """An instance that no other test has."""
    return f"i-{random.getrandbits(68):017x}"


def say_xid(code: int, address: str) -> None:
    """Write the message of an Xid. The kernel notes who wrote it (facility user), and otherwise passes it on as it is."""
    with _LOG.open("w") as log:
        log.write(f"<3>NVRM: Xid (PCI:{address}): {code}, {_XIDS[code]}\n")
