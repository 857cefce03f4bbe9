"""Whether Lustre's data take EFA, or have fallen back to TCP without a word.

The servers' connections tell nothing: their first address is one of TCP by design, as are some small messages. What
tells is which interfaces the messages of bulk data leave by (aws/aws-parallelcluster pull request 7572 of 2026-08 and
aws/aws-parallelcluster-cookbook pull request 3267, which took a check of the connections away).
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .. import paths
from ..command import run
from .lnet import Interface, interfaces, sent, servers_with_efa

_SIZE_MIB = 32
_TIMEOUT_SECONDS = 60
# A server tells its addresses soon after the first message.
_TRIES = 3
_PAUSE_SECONDS = 2.0
_NAME = "lustre-efa"


@dataclass(frozen=True)
class Transport:
    """What Lustre's data take.

    Attributes:
        is_efa: Whether that is EFA; None where it cannot be told.
        words: What was seen.
    """

    is_efa: bool | None
    words: str


def look_at_network(among: list[Interface]) -> Transport:
    """Whether data could take EFA: the node has an interface that is up, and a server told its own.

    Args:
        among: The interfaces of this node.
    """
    up = [one for one in among if one.network == "efa" and one.is_up]
    down = [one.device for one in among if one.network == "efa" and not one.is_up]
    if not up:
        return Transport(False, "LNet has no EFA interface that is up")
    servers = servers_with_efa()
    if not servers:
        return Transport(False, f"{len(up)} EFA interfaces, but no server told an EFA address of its own")
    if down:
        return Transport(False, f"EFA interfaces that are down: {' '.join(down)}")
    return Transport(True, f"{len(up)} EFA interfaces, {servers} servers with EFA")


def measure(mount_point: str) -> Transport:
    """Write a file past all caches, and count the messages of each network meanwhile.

    A message carries at most 1 MiB; some are joined, so that half of them is asked for, and more than TCP had.

    Args:
        mount_point: Where the file system is mounted.
    """
    for number in range(_TRIES):
        if number:
            time.sleep(_PAUSE_SECONDS)
        before = interfaces()
        possible = look_at_network(before)
        if possible.is_efa:
            break
    else:
        return possible
    file = paths.below(mount_point) / f".gpu-cluster.{paths.boot_id()[:8]}.efa"
    words = _write(file)
    if words:
        return Transport(None, words)
    after = interfaces()
    by_efa, by_tcp = (sent(network, after) - sent(network, before) for network in ("efa", "tcp"))
    seen = f"{_SIZE_MIB} MiB took {by_efa} messages by EFA and {by_tcp} by TCP"
    return Transport(by_efa >= _SIZE_MIB // 2 and by_efa > by_tcp, f"{possible.words}; {seen}")


def remember(seen: Transport) -> None:
    """Keep what was seen until the next boot."""
    row = {"boot_id": paths.boot_id(), "is_efa": seen.is_efa, "words": seen.words}
    with suppress(OSError):
        paths.write_atomically(paths.state_folder() / f"{_NAME}.json", json.dumps(row))


def remembered() -> Transport:
    """What was seen during this boot."""
    try:
        row = json.loads(paths.read_text(paths.state_folder() / f"{_NAME}.json"))
        if row["boot_id"] == paths.boot_id():
            return Transport(row["is_efa"], str(row["words"]))
    except (ValueError, KeyError, TypeError, OSError):
        pass
    return Transport(None, "not looked at during this boot")


def _write(file: Path) -> str:
    # Another program, with a deadline: a file system that hangs would hold this one for ever.
    try:
        outcome = run(
            "dd", "if=/dev/zero", f"of={file}", "bs=1M", f"count={_SIZE_MIB}", "oflag=direct", "status=none",
            timeout_seconds=_TIMEOUT_SECONDS,
        )  # fmt: skip
    finally:
        run("rm", "-f", str(file), timeout_seconds=_TIMEOUT_SECONDS)
    return "" if outcome.ok else f"the test file could not be written: {outcome.words}"
