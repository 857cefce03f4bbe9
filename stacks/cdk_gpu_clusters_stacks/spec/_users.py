"""The list of users that a cluster file names: a YAML file beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cdk_gpu_clusters.errors import ConfigError, Finding
from cdk_gpu_clusters.node.users import UserList, read_users

from ._document import Key, Place, parse, read_text
from ._rules import MAPPING, PCS_USERS

_FIX = "write a list such as {groups: {research: 3000}, users: [{name: alice, uid: 2001, groups: [research]}]}"


def users_of(path: Path) -> UserList:
    """The users of a file.

    Raises:
        ConfigError: What is wrong with the file, all at once; each cause starts with its place in that file.
    """
    text = read_text(path)
    if isinstance(text, Finding):
        raise ConfigError([PCS_USERS.finding(cause=text.cause, got=text.got, fix="give the path of a list of users")])
    document = parse(text)
    if document.faults:
        raise ConfigError([_placed(path, place, fault) for place, fault in document.faults])
    try:
        return read_users(document.data)
    except ConfigError as faults:
        raise ConfigError(
            [_placed(path, document.place_of(_key(one.path)), one) for one in faults.findings]
        ) from faults


def _placed(path: Path, place: Place, finding: Finding) -> Finding:
    where = f"{path.name}:{place.line}:{place.column}"
    if finding.id == MAPPING.id:  # whose words are about a cluster file
        finding = replace(finding, allowed="groups and users", fix=_FIX)
    return replace(finding, cause=f"{where}: {finding.cause}", path="", fix=finding.fix or _FIX)


def _key(path: str) -> Key:
    """The key of a path such as `users.users[1].uid`, without the root."""
    parts = path.replace("[", ".").replace("]", "").split(".")[1:]
    return tuple(int(part) if part.isdigit() else part for part in parts)
