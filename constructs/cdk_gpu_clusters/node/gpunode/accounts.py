"""The boot stage `users`: the POSIX users of `/etc/gpu-cluster/users.json`, the same on every node.

Users are made and changed, never removed: their files would have no owner. A user who leaves the list loses the SSH
keys of the list.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import paths
from .boot.stage import Verdict
from .command import run
from .node import Node

_LIST = "/etc/gpu-cluster/users.json"
# Independent of homes, which may be on a file system that is not there.
_KEYS, _SSHD = "/etc/ssh/authorized_keys.d", "/etc/ssh/sshd_config.d/10-gpu-cluster-users.conf"
_SSHD_TEXT = f"AuthorizedKeysFile .ssh/authorized_keys {_KEYS}/%u\n"
_SECONDS = 30


class AccountError(Exception):
    """A user or a group cannot be made; the text is the reason."""


def has_list() -> bool:
    """Whether this node has a list of users."""
    return paths.below(_LIST).is_file()


def probe_users(_: Node) -> Verdict:
    """Whether all users of the list are there, made now if they are not."""
    try:
        listed = json.loads(paths.read_text(paths.below(_LIST)))
        for name, number in listed["groups"].items():
            make_group(name, number)
        for user in listed["users"]:
            make_user(user)
        write_keys(listed["users"])
    except (ValueError, KeyError, TypeError) as fault:
        return Verdict.failed(f"{_LIST} cannot be read: {type(fault).__name__}: {fault}", "deploy the cluster again")
    except (AccountError, OSError) as fault:
        return Verdict.failed(str(fault), "change the number or the name in the list of users")
    return Verdict.ok(f"{len(listed['users'])} users")


def make_group(name: str, number: int) -> None:
    """Make a group, unless it is there.

    Raises:
        AccountError: If the image has another group of its name or its number.
    """
    import grp  # Unix only, and `gpu-clusters plan` loads this module on every system

    with suppress(KeyError):
        found = grp.getgrnam(name).gr_gid
        if found != number:
            raise AccountError(f"group {name} has the number {found} on this image, not {number}")
        return
    _call("groupadd", "--gid", str(number), name)


def make_user(user: Mapping[str, Any]) -> None:
    """Make a user with the user's own group and home, or add the groups that are missing.

    Raises:
        AccountError: If the image has another user of its name or its number.
    """
    import pwd

    name, uid, gid = str(user["name"]), int(user["uid"]), int(user["gid"])
    try:
        found = pwd.getpwnam(name)
        if found.pw_uid != uid:
            raise AccountError(f"user {name} has the number {found.pw_uid} on this image, not {uid}")
    except KeyError:
        with suppress(KeyError):
            raise AccountError(f"{uid} is the number of {pwd.getpwuid(uid).pw_name}, not of {name}") from None
        if not _has_group(gid):
            make_group(name, gid)
        home = ("--no-create-home", "--home-dir", f"/home/{name}", "--shell", str(user["shell"]))
        _call("useradd", "--uid", str(uid), "--gid", str(gid), "--no-user-group", *home, name)
    if user["groups"]:
        _call("usermod", "--append", "--groups", ",".join(user["groups"]), name)
    _make_home(Path(paths.below(f"/home/{name}")), uid, gid)


def _make_home(home: Path, uid: int, gid: int) -> None:
    """Make the home, if there is none. Another node may do so at the same moment, or the file system may refuse."""
    with suppress(OSError):
        home.mkdir(mode=0o700)
        os.chown(home, uid, gid)


def write_keys(users: list[Mapping[str, Any]]) -> None:
    """Write the SSH keys of the list, and remove those of users who are no longer in it."""
    folder, keys = paths.below(_KEYS), {str(user["name"]): user["ssh_keys"] for user in users}
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in keys.items():
        paths.write_atomically(folder / name, "".join(f"{line}\n" for line in lines))
    for file in folder.iterdir():
        if file.name not in keys:
            file.unlink()
    settings = paths.below(_SSHD)
    if settings.parent.is_dir() and paths.read_text(settings) != _SSHD_TEXT:
        paths.write_atomically(settings, _SSHD_TEXT)
        for unit in ("ssh", "sshd"):
            run("systemctl", "try-reload-or-restart", unit, timeout_seconds=_SECONDS)


def _has_group(number: int) -> bool:
    import grp

    try:
        grp.getgrgid(number)
    except KeyError:
        return False
    return True


def _call(*command: str) -> None:
    outcome = run(*command, timeout_seconds=_SECONDS)
    if not outcome.ok:
        raise AccountError(f"{command[0]} {command[-1]}: {outcome.words}")
