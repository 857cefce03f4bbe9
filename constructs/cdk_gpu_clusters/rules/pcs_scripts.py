"""Lifecycle scripts of an AWS PCS compute node group."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cdk_gpu_clusters.errors import Finding, Severity, check, define_rule

_API = "botocore 1.44.5, pcs service model"
_GUIDE = "AWS PCS user guide"

SCRIPT_FORM = define_rule(
    "GPU-PCS-023",
    "a stage of a PCS node has 1 to 20 scripts with names and arguments that PCS takes",
    source=f'{_API}: NodeLifecycleScript, NodeLifecycleScriptList, ScriptSource; {_GUIDE}, "Configure node lifecycle '
    'actions": at most 2 MiB',
)
SCRIPT_PIN = define_rule(
    "GPU-PCS-024",
    "a lifecycle script from S3 has its checksum or the version of its object",
    source=f'{_GUIDE}, "Configure node lifecycle actions in AWS PCS", Script integrity: a checksum for production',
)
VERIFIED_NODES = define_rule(
    "GPU-PCS-025",
    "nodes with EFA do not join Slurm after a script that checks them has failed",
    source=f"{_API}: OnError; this library: a job over several nodes waits for its slowest one",
)

_SCRIPTS = range(1, 21)
_SCRIPT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _-]*")
_LONGEST_SCRIPT_NAME = 64
_MOST_ARGUMENTS = 20
_LONGEST_ARGUMENT = 256
_SHA256 = re.compile(r"[a-fA-F0-9]{64}")
_LARGEST_SCRIPT_BYTES = 2 * 2**20
# AWS's own scripts, which only AWS can change.
_OF_AWS = "s3://aws-pcs-repo-"
# Scripts that look at the node; others, such as one that forwards logs, may fail.
_CHECKS = re.compile(r"verif|check|health|diag|burn|test", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleScriptFacts:
    """What is known of a script of a lifecycle stage.

    Attributes:
        name: Its name.
        arguments: Its arguments, as far as they are known.
        location: `s3://` or `https://` address; None if it is not known.
        checksum: SHA-256 of the script in hexadecimal digits; None if there is none.
        has_version: Whether the version of the S3 object is given.
        on_error: TERMINATE, STOP_SEQUENCE or CONTINUE.
        size_bytes: Size of the script; None if it is not known.
    """

    name: str
    arguments: Sequence[str] = ()
    location: str | None = None
    checksum: str | None = None
    has_version: bool = False
    on_error: str = "TERMINATE"
    size_bytes: int | None = None


@check
def check_lifecycle_scripts(
    scripts: Sequence[LifecycleScriptFacts], *, before_slurmd: bool, has_efa: bool
) -> Iterator[Finding]:
    """Find what PCS refuses of the scripts of one stage, and what lets a broken node run jobs.

    Args:
        scripts: The scripts in their order.
        before_slurmd: Whether it is the stage NodeBootstrapped.
        has_efa: Whether the nodes have EFA.
    """
    if len(scripts) not in _SCRIPTS:
        yield SCRIPT_FORM.finding(
            cause="PCS takes no such number of scripts for a stage",
            got=str(len(scripts)),
            allowed="1 to 20, or no stage",
        )
    for name, count in Counter(one.name for one in scripts).items():
        if count > 1:
            yield SCRIPT_FORM.finding(
                cause="two scripts have the same name", got=name, allowed="a name of its own for each", path=name
            )
    for one in scripts:
        yield from _script_form(one)
        location = one.location or ""
        of_user = location.startswith("s3://") and not location.startswith(_OF_AWS)
        if of_user and one.checksum is None and not one.has_version:
            yield SCRIPT_PIN.finding(
                cause="whoever can write to the bucket runs code as root on the nodes",
                got=location,
                allowed="Checksum or S3VersionId",
                fix="give the SHA-256 of the script as Checksum",
                path=one.name,
                severity=Severity.WARNING,
            )
        checks = _CHECKS.search(one.name) or _CHECKS.search(location)
        if before_slurmd and has_efa and checks and one.on_error == "CONTINUE":
            yield VERIFIED_NODES.finding(
                cause="a node whose script has failed takes jobs, and a job over several nodes fails or waits for it",
                got=f"OnError CONTINUE of {one.name}",
                allowed="TERMINATE, or STOP_SEQUENCE to look at the node",
                fix="set OnError to TERMINATE",
                path=one.name,
                severity=Severity.WARNING,
            )


def _script_form(one: LifecycleScriptFacts) -> Iterator[Finding]:
    if not _SCRIPT_NAME.fullmatch(one.name) or len(one.name) > _LONGEST_SCRIPT_NAME:
        yield SCRIPT_FORM.finding(
            cause="PCS refuses this name of a script",
            got=one.name,
            allowed="1 to 64 letters, digits, spaces, _ and -, a letter or digit first",
            path=one.name,
        )
    if len(one.arguments) > _MOST_ARGUMENTS or any(len(text) > _LONGEST_ARGUMENT for text in one.arguments):
        longest = max(map(len, one.arguments))
        yield SCRIPT_FORM.finding(
            cause="PCS refuses these arguments of a script",
            got=f"{len(one.arguments)} arguments of up to {longest} characters",
            allowed=f"{_MOST_ARGUMENTS} arguments of up to {_LONGEST_ARGUMENT} characters",
            path=one.name,
        )
    if one.size_bytes is not None and one.size_bytes > _LARGEST_SCRIPT_BYTES:
        yield SCRIPT_FORM.finding(
            cause="the agent of PCS rejects a script of this size",
            got=f"{one.size_bytes} bytes",
            allowed=f"{_LARGEST_SCRIPT_BYTES} bytes (2 MiB)",
            fix="let the script fetch what it installs",
            path=one.name,
        )
    if one.checksum is not None and not _SHA256.fullmatch(one.checksum):
        yield SCRIPT_FORM.finding(
            cause="PCS takes a SHA-256 as checksum",
            got=one.checksum,
            allowed="64 hexadecimal digits",
            fix="give the digest that sha256sum prints",
            path=one.name,
        )
