"""The people who work on the nodes: POSIX users from a list, or from an existing directory through SSSD."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from cdk_gpu_clusters.errors import Finding, check, define_rule, raise_for
from cdk_gpu_clusters.node.software import NodeFile

#: Where `gpunode boot` finds the list.
USERS_FILE = "/etc/gpu-cluster/users.json"
#: Ids of people: above those of the image's own user (1000 on Amazon Linux and Ubuntu), up to UID_MAX of login.defs(5).
LOWEST_ID, HIGHEST_ID = 1001, 60_000

_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_KEY = re.compile(
    r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)|sk-(ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com)"
    r" [A-Za-z0-9+/]+={0,2}( [ -~]*)?"
)
_KEYS_OF_USER = ("name", "uid", "gid", "groups", "ssh_keys", "shell")

USER = define_rule(
    "GPU-USR-001",
    "A user has a name and an id of its own that every node can give it",
    source="useradd(8), names; login.defs(5), UID_MIN and UID_MAX: 1000 to 60000",
)
GROUP = define_rule(
    "GPU-USR-002",
    "A group of users is in the list of groups, with an id of its own",
    source="groupadd(8); files on shared storage have the numbers of their groups, which must agree on all nodes",
)
SSH_KEY = define_rule(
    "GPU-USR-003",
    "The SSH keys of a user are public keys, one line each",
    source="sshd(8), AUTHORIZED_KEYS FILE FORMAT",
)
DIRECTORY = define_rule(
    "GPU-USR-004",
    "A directory is reached by LDAP over TLS, with its password in Secrets Manager",
    source="sssd-ldap(5): authentication needs an encrypted channel; user data can be read by every process of a node",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PosixUser:
    """A user of the nodes.

    Attributes:
        name: Login name.
        uid: Number of the user, the same on all nodes, 1001 to 60000.
        gid: Number of the user's own group; the default is `uid`.
        groups: Names of further groups.
        ssh_keys: Public keys, one line each.
        shell: Login shell.

    Example:
        >>> PosixUser(name="alice", uid=2001, groups=("research",)).primary_gid
        2001
    """

    name: str
    uid: int
    gid: int | None = None
    groups: tuple[str, ...] = ()
    ssh_keys: tuple[str, ...] = ()
    shell: str = "/bin/bash"

    @property
    def primary_gid(self) -> int:
        """Number of the user's own group."""
        return self.uid if self.gid is None else self.gid


@dataclass(frozen=True, slots=True, kw_only=True)
class UserList:
    """The users of a cluster, and their groups.

    Attributes:
        users: The users.
        groups: Name of each further group to its number.

    Example:
        >>> UserList(users=(PosixUser(name="alice", uid=2001),)).users[0].name
        'alice'
    """

    users: tuple[PosixUser, ...] = ()
    groups: Mapping[str, int] = field(default_factory=dict)


def read_users(data: Any, *, path: str = "users") -> UserList:
    """Read a list of users, as YAML or JSON has it.

    Args:
        data: `{"groups": {"research": 3000}, "users": [{"name": "alice", "uid": 2001, "groups": ["research"]}]}`.
        path: Where it is, for findings.

    Raises:
        ConfigError: GPU-USR-001 to -003, all faults at once.

    Example:
        >>> read_users({"users": [{"name": "alice", "uid": 2001}]}).users[0].name
        'alice'
    """
    raise_for(list(_check_form(data, path)))
    users = tuple(
        PosixUser(
            name=one["name"],
            uid=one["uid"],
            gid=one.get("gid"),
            groups=tuple(one.get("groups", ())),
            ssh_keys=tuple(one.get("ssh_keys", ())),
            shell=one.get("shell", "/bin/bash"),
        )
        for one in data.get("users") or []
    )
    found = UserList(users=users, groups=dict(data.get("groups") or {}))
    raise_for(check_users(found, path=path))
    return found


def users_file(users: UserList) -> NodeFile:
    """The list as a file of the node. It comes from S3: a long list would not fit into user data."""
    rows = [
        {"name": one.name, "uid": one.uid, "gid": one.primary_gid, "groups": list(one.groups),
         "ssh_keys": list(one.ssh_keys), "shell": one.shell}
        for one in users.users
    ]  # fmt: skip
    text = json.dumps({"groups": dict(users.groups), "users": rows}, indent=1)
    return NodeFile(path=USERS_FILE, text=f"{text}\n", early=False)


@check
def check_users(users: UserList, *, path: str = "users") -> Iterator[Finding]:
    """Find users and groups that a node cannot make, or that would be two of one name or number."""
    yield from _wrong_groups(users, path)
    names, ids = Counter(one.name for one in users.users), Counter(one.uid for one in users.users)
    for index, one in enumerate(users.users):
        where = f"{path}.users[{index}]"
        if not _NAME.fullmatch(one.name) or names[one.name] > 1:
            yield USER.finding(
                cause="two users have this name" if _NAME.fullmatch(one.name) else "useradd refuses this name",
                got=one.name,
                allowed="a small letter or _, then up to 31 small letters, digits, _ and -",
                fix="give each user a name of its own" if _NAME.fullmatch(one.name) else "write a name such as alice",
                path=f"{where}.name",
            )
        if not LOWEST_ID <= one.uid <= HIGHEST_ID or ids[one.uid] > 1:
            yield USER.finding(
                cause="two users have this id" if ids[one.uid] > 1 else "the id is not one of people",
                got=str(one.uid),
                allowed=f"a number of its own, {LOWEST_ID} to {HIGHEST_ID}",
                fix=f"give the user a number of its own, {LOWEST_ID} to {HIGHEST_ID}",
                path=f"{where}.uid",
            )
        if not re.fullmatch(r"/[!-~]+", one.shell):
            yield USER.finding(
                cause="a shell is an absolute path",
                got=one.shell,
                allowed="such as /bin/bash",
                fix=f"write /bin/{one.shell}" if one.shell.isalpha() else "write /bin/bash",
                path=f"{where}.shell",
            )
        for number, key in enumerate(one.ssh_keys):
            if not _KEY.fullmatch(key):
                yield _wrong_key(key, f"{where}.ssh_keys[{number}]")


def _wrong_groups(users: UserList, path: str) -> Iterator[Finding]:
    ids = Counter([*users.groups.values(), *(one.primary_gid for one in users.users)])
    for name, number in users.groups.items():
        if not _NAME.fullmatch(name) or not LOWEST_ID <= number <= HIGHEST_ID or ids[number] > 1:
            taken = "another group, or the own group of a user, has this number"
            yield GROUP.finding(
                cause=taken if ids[number] > 1 else "groupadd refuses this group, or its number belongs to the system",
                got=f"{name}: {number}",
                allowed=f"small letters, digits, _ and -; a number of its own, {LOWEST_ID} to {HIGHEST_ID}",
                fix=f"give the group a number of its own, {LOWEST_ID} to {HIGHEST_ID}, and a name such as research",
                path=f"{path}.groups.{name}",
            )
    for index, one in enumerate(users.users):
        for name in one.groups:
            if name not in users.groups:
                yield GROUP.finding(
                    cause="the group is not in the list of groups",
                    got=name,
                    allowed=", ".join(users.groups) or "none is listed",
                    fix=f"add it to {path}.groups with a number",
                    path=f"{path}.users[{index}].groups",
                )


def _wrong_key(key: str, path: str) -> Finding:
    is_private = "PRIVATE KEY" in key
    return SSH_KEY.finding(
        cause="this is a private key, which must stay with its owner" if is_private else "sshd does not know this key",
        # A private key must not be printed anywhere.
        got="a private key" if is_private else key[:40],
        allowed="such as ssh-ed25519 AAAAC3Nz... alice@laptop",
        fix="make a new pair, and put its .pub file here" if is_private else "put the line of the .pub file here",
        path=path,
    )


def _check_form(data: Any, path: str) -> Iterator[Finding]:
    """Find what is not of the form that `read_users` reads."""
    if not isinstance(data, Mapping) or not set(data) <= {"groups", "users"}:
        keys = ", ".join(map(str, data)) if isinstance(data, Mapping) else type(data).__name__
        yield USER.finding(
            cause="a list of users has the keys users and groups", got=keys, allowed="groups, users", path=path
        )
        return
    groups, users = data.get("groups") or {}, data.get("users") or []
    if not isinstance(groups, Mapping) or not all(
        isinstance(name, str) and type(number) is int for name, number in groups.items()
    ):
        yield GROUP.finding(cause="groups are names with numbers", got=_shown(groups), path=f"{path}.groups")
    if not isinstance(users, Sequence) or isinstance(users, str):
        yield USER.finding(cause="users are a list", got=_shown(users), path=f"{path}.users")
        return
    for index, one in enumerate(users):
        yield from _check_user_form(one, f"{path}.users[{index}]")


def _check_user_form(one: Any, path: str) -> Iterator[Finding]:
    """Find what is no user. Values are not shown: a password may be among them."""
    allowed = "name: text; uid, gid: numbers; groups, ssh_keys: lists of texts; shell: text"
    if not isinstance(one, Mapping):
        fix = "write {name: alice, uid: 2001}"
        yield USER.finding(cause="a user has a name and a uid", got=_shown(one), allowed=allowed, fix=fix, path=path)
        return
    for name in one:
        if name not in _KEYS_OF_USER:
            yield USER.finding(
                cause="a user has no such key",
                got=str(name),
                allowed=", ".join(_KEYS_OF_USER),
                fix="remove it; users log in with SSH keys or by Systems Manager, without passwords",
                path=f"{path}.{name}",
            )
    for name in _KEYS_OF_USER:
        if (name in one or name in _REQUIRED) and not _has_type(name, one.get(name)):
            yield USER.finding(
                cause=f"{name} has another form" if name in one else f"the user lacks the key {name}",
                got=_shown(one[name]) if name in one else "nothing",
                allowed=allowed,
                fix=f"write {name}: {_EXAMPLES[name]}",
                path=f"{path}.{name}" if name in one else path,
            )


_REQUIRED = ("name", "uid")
_EXAMPLES = {
    "name": "alice",
    "uid": "2001",
    "gid": "2001",
    "groups": "[research]",
    "ssh_keys": "[ssh-ed25519 AAAAC3Nz... alice@laptop]",
    "shell": "/bin/bash",
}


def _has_type(name: str, value: Any) -> bool:
    if name in ("groups", "ssh_keys"):
        return isinstance(value, list | tuple) and all(isinstance(text, str) for text in value)
    if name == "gid":
        return value is None or type(value) is int
    return type(value) is int if name == "uid" else isinstance(value, str)


def _shown(data: Any) -> str:
    text = repr(data)
    return "a private key" if "PRIVATE KEY" in text else text[:80]


#: Schemas of sssd-ldap(5), `ldap_schema`.
_SCHEMAS = ("rfc2307", "rfc2307bis", "ad")


@dataclass(frozen=True, slots=True, kw_only=True)
class UserDirectory:
    """An existing LDAP directory, such as AWS Managed Microsoft AD, from which nodes take their users through SSSD.

    The image must have SSSD. The node's role needs `secretsmanager:GetSecretValue` for the secret.

    Attributes:
        uris: `ldaps://` addresses of its servers, in the order of preference.
        search_base: Where users and groups are, such as `dc=example,dc=com`.
        bind_dn: Distinguished name that the nodes search with.
        password_secret: ARN or name of the secret with the password: the entire text, or its JSON field `password`.
        schema: Schema of sssd-ldap(5): `rfc2307`, `rfc2307bis`, or `ad` for Active Directory, whose ids are mapped.
        ca_file: File on the node with the certificates of its authority; the default is that of the image.

    Example:
        >>> directory = UserDirectory(
        ...     uris=("ldaps://ad.example.com",), search_base="dc=example,dc=com",
        ...     bind_dn="cn=reader,dc=example,dc=com", password_secret="ldap-reader",
        ... )
        >>> directory.environment()["GPU_DIRECTORY_URIS"]
        'ldaps://ad.example.com'
    """

    uris: tuple[str, ...]
    search_base: str
    bind_dn: str
    password_secret: str
    schema: str = "rfc2307bis"
    ca_file: str = ""

    def environment(self) -> dict[str, str]:
        """The directory as node settings, without its password."""
        return {
            "GPU_DIRECTORY_URIS": " ".join(self.uris),
            "GPU_DIRECTORY_BASE": self.search_base,
            "GPU_DIRECTORY_BIND": self.bind_dn,
            "GPU_DIRECTORY_SECRET": self.password_secret,
            "GPU_DIRECTORY_SCHEMA": self.schema,
            **({"GPU_DIRECTORY_CA": self.ca_file} if self.ca_file else {}),
        }


@check
def check_directory(directory: UserDirectory, *, path: str = "directory") -> Iterator[Finding]:
    """Find settings of a directory that SSSD cannot use, or that would carry a password unencrypted."""
    for index, uri in enumerate(directory.uris or ("",)):
        if fault := _fault_of_address(uri):
            yield DIRECTORY.finding(
                cause=fault,
                got=uri or "no address",
                allowed="ldaps://HOST, or ldaps://HOST:PORT",
                fix="write an address of the directory's server, such as ldaps://ad.example.com",
                path=f"{path}.uris[{index}]",
            )
    if directory.schema not in _SCHEMAS:
        yield DIRECTORY.finding(
            cause="SSSD does not know this schema",
            got=directory.schema,
            allowed=", ".join(_SCHEMAS),
            fix="choose the schema of the directory",
            path=f"{path}.schema",
        )
    for name in ("search_base", "bind_dn", "password_secret"):
        if not getattr(directory, name) or "\n" in getattr(directory, name):
            yield DIRECTORY.finding(
                cause="it is one line of text",
                got=repr(getattr(directory, name)),
                allowed="one line",
                fix="write it in one line",
                path=f"{path}.{name}",
            )


def _fault_of_address(uri: str) -> str:
    """Why nodes cannot ask a directory at an address; empty if they can."""
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port
    except ValueError:
        return "it is not an address with a port from 1 to 65535"
    if parts.scheme == "ldap":
        return "the password of each user would cross the network in clear, and SSSD refuses to send it"
    if parts.scheme != "ldaps" or not host:
        return "it is not the address of a server"
    if port == 0 or not _HOST.fullmatch(host):
        return "no server has this address"
    if host == "localhost" or host.startswith("127.") or host == "::1":
        return "it is the node itself, and no directory runs there"
    return ""


#: Host names of RFC 1123, section 2.1, and addresses.
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?|[0-9a-f:.]+", re.IGNORECASE)
