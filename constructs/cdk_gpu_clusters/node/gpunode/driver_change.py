"""Whether a program that may change the driver is at work on this node.

While it is, the driver and its library may differ in their versions, or the driver is not loaded.
"""

from __future__ import annotations

from . import paths

# Names of processes in /proc/PID/comm, which has 15 characters at most (proc(5)): package managers of the images, what
# builds the driver's modules, and NVIDIA's installer.
_PROGRAMS = (
    "apt", "apt-get", "dkms", "dnf", "dnf5", "dpkg", "nvidia-installe", "rmmod", "rpm", "unattended-upgr", "yum",
)  # fmt: skip


def program_at_work() -> str:
    """The name of such a program that runs; empty if none does."""
    for file in paths.below("/proc").glob("[0-9]*/comm"):
        name = paths.read_text(file).strip()
        if name in _PROGRAMS:
            return name
    return ""
