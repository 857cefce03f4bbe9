"""The user data of a node: one MIME multi-part document of plain text.

It is written by hand, not with CDK's `MultipartUserData`, which base64-encodes every part and so wastes a third of the
16 KB. Early static files travel as one compressed archive; everything that may hold a CDK token stays readable text,
because CloudFormation resolves tokens inside the document.
"""

from __future__ import annotations

import re

from cdk_gpu_clusters.errors import Finding, Severity, define_rule
from cdk_gpu_clusters.node._parts import own_parts
from cdk_gpu_clusters.node.settings import NodeSettings
from cdk_gpu_clusters.node.software import SoftwareObject

#: Bytes of user data that EC2 accepts, before base64 (AWS EC2 user guide, "Run commands when you launch an EC2
#: instance with user data input": 16 KB).
USER_DATA_LIMIT_BYTES = 16_384

SIZE = define_rule(
    "GPU-UD-001",
    "user data fits into 16,384 bytes",
    source="AWS EC2 user guide, user data: limited to 16 KB in raw form, before it is base64-encoded",
)
SECRET = define_rule(
    "GPU-UD-002",
    "User data holds no secret",
    source="AWS EC2 user guide, instance metadata: user data is not protected by authentication or cryptography",
)

#: What a secret looks like. The last is a guess by the name, so it only warns; a value that names a secret instead of
#: being one (a variable, an ARN, a path or parameter name) passes. The words before each pattern, one of which is in
#: every match, are found a hundred times faster.
_SECRETS: tuple[tuple[str, Severity, tuple[str, ...], str], ...] = (
    ("an AWS access key id", Severity.ERROR, ("AKIA", "ASIA"), r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    ("a private key", Severity.ERROR, ("PRIVATE KEY",), r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    (
        "a password, secret or token",
        Severity.WARNING,
        ("password", "passwd", "secret", "apikey", "api_key", "_token"),
        (
            # Not the ":secret:" of an ARN, which follows the account or its token.
            r"(?i)(?<![0-9}]:)\b[\w-]*(?:password|passwd|secret(?:_access)?(?:_key)?|api_?key|(?:auth|access|hf)_token)"
            r"[\"']?\s*[=:]\s*[\"']?(?![\"'$<{(\s/]|arn:)[^\s\"']{4,}"
        ),
    ),
)
_TOKEN = re.compile(r"\$\{Token\[[^]]*]}")
#: Taken for the value of a token: room for the ARN of a secret, the longest that is at hand.
_TOKEN_BYTES = 128
_BOUNDARY = "gpu-cluster-node"
#: By default a later cloud-config replaces the lists of an earlier one, and ours would be gone (seen with cloud-init
#: 22.4.2).
_MERGE = "list(append)+dict(no_replace,recurse_list)+str()"


def render_user_data(settings: NodeSettings, software: SoftwareObject) -> str:
    """Write the user data of a node.

    The document has an early part (installs what must be there before any other service starts, and writes the
    settings): `text/cloud-config`, or `text/cloud-boothook` under AWS PCS; a short `text/x-shellscript` part (fetches
    the rest and starts it); for EKS an `application/node.eks.aws` part, if there is anything to say; and then the
    user's parts.

    Args:
        settings: What the node is and what it has to do; texts may be CDK tokens.
        software: Object that holds `software_archive(settings.files)`.

    Returns:
        MIME text, the same for the same settings. Give it to `check_user_data` next.

    Example:
        >>> software = SoftwareObject(bucket_name="b", object_key="k.tar", sha256="0" * 64)
        >>> render_user_data(NodeSettings(fleet_name="preprocessing"), software).splitlines()[0]
        'MIME-Version: 1.0'
    """
    parts = own_parts(settings, software)
    boundary = _BOUNDARY
    while any(f"--{boundary}" in part.body for part in settings.user_parts):
        boundary += "-"
    lines = ["MIME-Version: 1.0", f'Content-Type: multipart/mixed; boundary="{boundary}"', ""]
    for part in parts:
        lines += [
            f"--{boundary}",
            f"Content-Type: {part.content_type}",
            "",
            _ending_in_one_newline(part.body),
        ]
    for part in settings.user_parts:
        lines += [f"--{boundary}", f"Content-Type: {part.content_type}"]
        if part.content_type == "text/cloud-config":
            lines += [f"X-Merge-Type: {_MERGE}", "", _ending_in_one_newline(_merging(part.body))]
        else:
            lines += ["", _ending_in_one_newline(part.body)]
    return "\n".join([*lines, f"--{boundary}--", ""])


def _merging(body: str) -> str:
    """The user's cloud-config with its way to be merged inside: EKS merges parts anew, and may drop a header."""
    comments = re.match(r"(?:[ \t]*(?:#.*)?\n)*(?=[\w-]+:)", body)
    if comments is None or re.search(r"^merge_(how|type):", body, re.MULTILINE):
        return body
    return f'{comments[0]}merge_how: "{_MERGE}"\n{body[comments.end() :]}'


def _ending_in_one_newline(body: str) -> str:
    # The newline before a boundary belongs to the boundary (RFC 2046, 5.1.1): the body needs one of its own.
    return body.rstrip("\n") + "\n"


def user_data_size_bytes(text: str) -> int:
    """Bytes that count against EC2's limit, with one length for all tokens, since only a deployment knows their values.

    How long a token is as it is written says nothing, and depends on what else is in the app.
    """
    return len(_TOKEN.sub("x" * _TOKEN_BYTES, text).encode())


def check_user_data(text: str, *, added_bytes: int = 0) -> list[Finding]:
    """Find what EC2 would refuse, and what looks like a secret, in a document of `render_user_data`.

    Args:
        text: The user data, before base64.
        added_bytes: What somebody else adds to it before EC2 gets it.

    Returns:
        `GPU-UD-001` when it is too long, `GPU-UD-002` for each thing that looks like a secret: an error for key ids
        and private keys, a warning where only a name such as `password` suggests it.
    """
    return [*check_user_data_size(text, added_bytes=added_bytes), *check_secrets(text)]


def check_user_data_size(text: str, *, added_bytes: int = 0) -> list[Finding]:
    """Find user data that is longer than EC2 accepts.

    Args:
        text: The user data, before base64.
        added_bytes: What somebody else adds to it before EC2 gets it.
    """
    size = user_data_size_bytes(text) + added_bytes
    if size <= USER_DATA_LIMIT_BYTES:
        return []
    parts = sorted(_part_sizes(text).items(), key=lambda item: -item[1])
    biggest = ", ".join(f"{name} {length:,}" for name, length in parts[:3])
    return [
        SIZE.finding(
            cause=f"the user data is {size - USER_DATA_LIMIT_BYTES:,} bytes too long; biggest parts: {biggest}",
            got=f"{size:,} bytes" + (f", {added_bytes:,} of them for what is added" if added_bytes else ""),
            allowed=f"at most {USER_DATA_LIMIT_BYTES:,} bytes, before base64",
            fix="mark node files that can wait early=False, so that they travel in an S3 asset; fetch big scripts of "
            "your own from S3 in a short one",
        )
    ]


def check_secrets(text: str) -> list[Finding]:
    """Find what looks like a secret in user data or a part of it; the finding never repeats it.

    Args:
        text: The user data, or a script or setting that goes into it.
    """
    searched = text + text.lower()
    return [
        SECRET.finding(
            cause=f"this looks like {what}, and user data is readable by all who may see the instance",
            got=f"line {text[: match.start()].count(chr(10)) + 1}",
            fix="keep it in Secrets Manager or Parameter Store, and fetch it on the node with the instance role",
            severity=severity,
        )
        for what, severity, words, pattern in _SECRETS
        if any(word in searched for word in words)
        for match in re.finditer(pattern, text)
    ]


def _part_sizes(text: str) -> dict[str, int]:
    boundary = re.search(r'boundary="([^"]+)"', text)
    pieces = text.split(f"--{boundary[1]}\n")[1:] if boundary else [text]
    sizes = {}
    for number, piece in enumerate(pieces, start=1):
        kind = re.match(r"Content-Type: (\S+)", piece)
        sizes[f"part {number} ({kind[1] if kind else 'text'})"] = user_data_size_bytes(piece)
    return sizes
