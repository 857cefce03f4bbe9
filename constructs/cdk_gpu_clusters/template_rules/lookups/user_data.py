"""User data as text, as far as the template holds it."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass

from cdk_gpu_clusters.template_rules.case import Value
from cdk_gpu_clusters.template_rules.lookups.launches import Launch

_GZIP = b"\x1f\x8b"
# It begins where a word does: otherwise each letter of a long word, such as a script in base64, is tried in vain.
_FSTAB = re.compile(r"(?<!\S)\S+\s+/\S+\s+lustre\s+(\S+)")


@dataclass(frozen=True, slots=True)
class UserData:
    """What cloud-init gets.

    Attributes:
        value: Where it stands.
        text: Its text, with `${Name}` for what only a deployment knows.
        is_complete: Whether all of it is known; if not, what is absent from the text may yet be there.
    """

    value: Value
    text: str
    is_complete: bool


def user_data_of(launch: Launch) -> UserData | None:
    """The user data of a launch; None if it has none.

    Raises:
        Undecidable: If the template holds nothing of it, or holds it compressed.
    """
    value = launch.data.get("UserData")
    if not value.exists:
        return None
    text = value.template_text()
    if text is None:
        value.text()  # says why
        raise value.undecidable("a text belongs here")
    return UserData(value, _decoded(value, text) if value.is_known else text, value.is_known)


def lustre_lines_of_fstab(user_data: UserData) -> list[str]:
    """The mount options of each line for /etc/fstab that mounts Lustre."""
    return _FSTAB.findall(user_data.text)


def _decoded(value: Value, text: str) -> str:
    """The text behind Base64, if it is that; `Fn::Base64` gives the text itself."""
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return text
    if content.startswith(_GZIP):
        raise value.undecidable("this user data is compressed")
    try:
        return content.decode()
    except UnicodeDecodeError:
        return text
