"""The log of a node's kernel, as the driver would write it.

A FIFO takes the place of `/dev/kmsg`: nothing but a kernel can write as the kernel there. The machine's own log gets
each message, too, as one of a program: `dmesg` prints it, and no watchdog heeds it.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

# NVIDIA, "XID errors", has messages of this form. Level 3, an error, is that of the driver's NV_DBG_ERRORS.
_XIDS = {
    31: "pid=4711, name=python3, Ch 00000008, intr 10000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted",
    48: "pid='<unknown>', name=<unknown>, An uncorrectable double bit error (DBE) has been detected on GPU in the"
    " framebuffer at physical address 0x10f7ee00",
    79: "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
}


def pci_address() -> str:
    """An address of a GPU."""
    return f"{random.randrange(1, 0x10000):04x}:{random.randrange(0x100):02x}:{random.randrange(0x20):02x}"


def unused_instance_id() -> str:
    """An instance that no other test has."""
    return f"i-{random.getrandbits(68):017x}"


class Kernel:
    """The kernel of a node; to be closed.

    Args:
        log: Where its log is to be.
    """

    def __init__(self, log: Path) -> None:
        log.parent.mkdir(parents=True)
        os.mkfifo(log)
        # Open for reading, too: what is written while nobody reads is kept.
        self._log = os.open(log, os.O_RDWR | os.O_NONBLOCK)

    def say_xid(self, code: int, address: str) -> None:
        """Write the message of an Xid."""
        now, message = time.monotonic_ns() // 1_000, f"NVRM: Xid (PCI:{address}): {code}, {_XIDS[code]}\n"
        os.write(self._log, f"3,{now},{now},-;{message}".encode())
        Path("/dev/kmsg").write_text(f"<3>{message}", encoding="utf-8")

    def close(self) -> None:
        """Close the log."""
        os.close(self._log)
