"""The boot stage `directory`: users of an LDAP directory, through SSSD.

The password is read from Secrets Manager at each boot, and is only in sssd.conf, which root alone may read. A directory
that does not answer fails the boot after two minutes, with the server that was asked, instead of hanging every login.
"""

from __future__ import annotations

import json
import socket
from pathlib import Path
from urllib.parse import urlsplit

from . import paths
from .boot.stage import Verdict
from .command import run
from .node import AwsError, Node, Settings
from .quoting import one_line
from .systemd import properties_of

#: How long the servers may take to answer at all.
DIRECTORY_SECONDS = 120
_PROGRAM = Path("/usr/sbin/sssd")
_CONF, _SWITCH = "/etc/sssd/sssd.conf", "/etc/nsswitch.conf"
_LDAPS_PORT, _CONNECT_SECONDS, _UNIT_SECONDS = 636, 5, 60
_DATABASES = ("passwd", "group", "shadow")


def probe_directory(node: Node) -> Verdict:
    """Whether a server of the directory answers, and SSSD runs with the settings of this node."""
    uris = node.settings.words("directory_uris")
    silent = [why for why in map(why_silent, uris) if why]
    if len(silent) == len(uris):
        return Verdict.waiting(
            "; ".join(silent), "is there a route to the directory, and does its security group admit this node?"
        )
    if not _PROGRAM.exists():
        return Verdict.failed("the image has no SSSD", "install sssd in the image, or list the users instead")
    try:
        text = conf_text(node.settings, read_password(node))
    except AwsError as fault:
        return Verdict.waiting(f"the password of the directory: {fault}", "may the node's role read the secret?")
    try:
        changed = write_conf(text) | add_to_switch()
    except OSError as fault:
        return Verdict.failed(f"sssd.conf: {fault.strerror}", "is the disk full?")
    if changed or properties_of("sssd").get("ActiveState") != "active":
        started = run("systemctl", "restart", "sssd", timeout_seconds=_UNIT_SECONDS)
        if not started.ok:
            return Verdict.waiting(f"sssd: {started.words}", "journalctl -u sssd")
    return Verdict.ok(f"{len(uris) - len(silent)} of {len(uris)} servers of the directory answer")


def why_silent(uri: str) -> str:
    """Why a server cannot be reached; empty if it can."""
    address = urlsplit(uri)
    try:
        socket.create_connection((address.hostname or "", address.port or _LDAPS_PORT), _CONNECT_SECONDS).close()
    except OSError as fault:
        return f"{uri} does not answer: {fault.strerror or fault}"
    return ""


def read_password(node: Node) -> str:
    """The password, from Secrets Manager: the entire text, or its JSON field `password`.

    Raises:
        AwsError: If it cannot be read.
    """
    secret = node.settings.text("directory_secret")
    answer = node.aws.call("secretsmanager", "get-secret-value", "--secret-id", secret)
    text = str((answer or {}).get("SecretString", ""))
    try:
        parsed = json.loads(text)
    except ValueError:
        parsed = None
    found = parsed.get("password", "") if isinstance(parsed, dict) else text
    if not found or one_line(str(found)) != str(found):
        raise AwsError(f"{secret} has no password in one line")
    return str(found)


def conf_text(settings: Settings, password: str) -> str:
    """The text of sssd.conf (sssd.conf(5), sssd-ldap(5))."""
    schema, authority = settings.text("directory_schema", "rfc2307bis"), settings.text("directory_ca")
    domain = {
        "id_provider": "ldap",
        "auth_provider": "ldap",
        "ldap_uri": ", ".join(settings.words("directory_uris")),
        "ldap_search_base": settings.text("directory_base"),
        "ldap_default_bind_dn": settings.text("directory_bind"),
        "ldap_default_authtok_type": "password",
        "ldap_default_authtok": password,
        "ldap_schema": schema,
        # Active Directory has no POSIX ids as a rule; the mapping gives the same ones on all nodes.
        **({"ldap_id_mapping": "true"} if schema == "ad" else {}),
        "ldap_tls_reqcert": "demand",
        **({"ldap_tls_cacert": authority} if authority else {}),
        # A directory that is gone must not hang a login: what is cached is used.
        "ldap_network_timeout": "5",
        "ldap_opt_timeout": "5",
        "cache_credentials": "true",
        "enumerate": "false",
        "fallback_homedir": "/home/%u",
        "default_shell": "/bin/bash",
    }
    lines = ["[sssd]", "domains = cluster", "services = nss, pam, ssh", "", "[domain/cluster]"]
    return "\n".join([*lines, *(f"{name} = {value}" for name, value in domain.items()), ""])


def write_conf(text: str) -> bool:
    """Write sssd.conf, for root only; returns whether it has changed.

    Raises:
        OSError: If it cannot be written.
    """
    file = paths.below(_CONF)
    if paths.read_text(file) == text:
        return False
    file.parent.mkdir(parents=True, exist_ok=True)
    paths.write_atomically(file, text, paths.PRIVATE)
    return True


def add_to_switch() -> bool:
    """Let the system ask SSSD for users (nsswitch.conf(5)); returns whether that was new.

    Raises:
        OSError: If it cannot be written.
    """
    file = paths.below(_SWITCH)
    before = paths.read_text(file).splitlines()
    after = [f"{line} sss" if _asks(line) and "sss" not in line.split() else line for line in before]
    if after == before:
        return False
    paths.write_atomically(file, "\n".join(after) + "\n")
    return True


def _asks(line: str) -> bool:
    return line.partition(":")[0] in _DATABASES
