"""The user data of the nodes of a template: their text, and the files that come with them."""

from __future__ import annotations

import base64
import io
import json
import re
import tarfile
from pathlib import Path
from typing import Any

from stack_fixtures import Resources, only

# An archive in base64: longer than any word that user data hold otherwise.
_ARCHIVE = re.compile(r"[A-Za-z0-9+/]{400,}={0,2}")


def user_data(resources: Resources) -> str:
    """The user data of the one launch template; references are their JSON."""
    encoded = only(resources, "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]["UserData"]["Fn::Base64"]
    parts = [encoded] if isinstance(encoded, str) else encoded["Fn::Join"][1]
    return "".join(part if isinstance(part, str) else json.dumps(part) for part in parts)


def node_files(text: str, assembly: Path) -> dict[str, str]:
    """The static files of a node by their path there: those in its user data, and those of an asset that it fetches.

    Args:
        text: The user data.
        assembly: Folder of the synthesized app.
    """
    archives = [base64.b64decode(archive) for archive in _ARCHIVE.findall(text)]
    archives += [path.read_bytes() for path in assembly.glob("asset.*.gpunode*") if path.stem[6:] in text]
    return {path: content for archive in archives for path, content in _members(archive).items()}


def _members(archive: bytes) -> dict[str, str]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        return {f"/{member.name}": _text(opened, member) for member in opened if member.isfile()}


def _text(opened: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    file: Any = opened.extractfile(member)
    return str(file.read(), "ascii")
