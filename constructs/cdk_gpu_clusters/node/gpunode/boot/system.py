"""Stages about the system itself: the user's own scripts, and limits."""

from __future__ import annotations

import resource

from .. import paths
from ..command import run
from ..node import Node
from .stage import Verdict


def look_at_user_scripts(_: Node) -> Verdict:
    """Whether cloud-init ran the user's scripts without a fault.

    cloud-init lists failed modules in its result; `scripts_user` runs the shell scripts of the user data.
    """
    result = paths.read_text(paths.below("/run/cloud-init/result.json"))
    if "scripts_user" in result or "scripts-user" in result:
        return Verdict.failed(
            "a shell script of the user data failed", "see /var/log/cloud-init-output.log on the node"
        )
    return Verdict.ok("cloud-init is done")


def look_at_limits(node: Node) -> Verdict:
    """Whether programs may lock memory, and the huge pages that the settings ask for are there."""
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    memlock = "unlimited" if limit == resource.RLIM_INFINITY else str(limit)
    wanted = node.settings.number("huge_pages")
    if not wanted:
        return Verdict.ok(f"memlock {memlock}")
    run("sysctl", "-qp", str(paths.below("/etc/sysctl.d/99-gpu-cluster.conf")))
    pages = int(paths.read_text(paths.below("/proc/sys/vm/nr_hugepages")).strip() or 0)
    words = f"memlock {memlock}, {pages} huge pages of {wanted}"
    if pages >= wanted:
        return Verdict.ok(words)
    return Verdict.failed(words, "memory is too small or too fragmented: ask for fewer huge pages")
