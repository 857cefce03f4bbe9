"""The request of a job: what a user wants to run on all nodes of a fleet.

It is the value of the fleet's parameter in Parameter Store. Only those may change it who may start jobs, and nodes only
read it. Files of the job travel as events of the log stream `jobs/JOB/files`; the request has their digest.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace

from .board import JOB_ID

#: Tags of the fleet's Auto Scaling group, which name the document that makes nodes look for a job, the parameter with
#: the newest request, and the log group.
DOCUMENT_TAG, PARAMETER_TAG = "gpu-clusters:job-document", "gpu-clusters:job-parameter"
LOG_GROUP_TAG = "gpu-clusters:log-group"
#: Format of the request. A node refuses another one.
VERSION = 1
#: Value of a parameter before the first request.
NO_REQUEST = "none"
#: Most characters of a standard parameter (Systems Manager API reference, PutParameter).
LONGEST_REQUEST = 4096
# CloudWatch Logs API reference, PutLogEvents: 1 MB an event, 256 KB in older editions of the page.
_PIECE_BYTES = 180_000
#: Most bytes of the compressed files of a job.
MOST_FILE_BYTES = 4_000_000


class RequestError(Exception):
    """The request cannot be read; the text is the reason."""


@dataclass(frozen=True)
class JobRequest:
    """What a user wants to run.

    Attributes:
        job_id: The job.
        command: The program and its arguments.
        nodes: How many nodes it takes.
        image: Container image; none if empty.
        environment: Variables of its ranks.
        max_restarts: How often it starts again after a failure of its own. The end of a node does not count.
        grace_seconds: Time between SIGTERM and SIGKILL.
        processes_per_node: Processes that a launcher such as torchrun starts; one for each GPU if 0.
        checkpoint_directory: Where it leaves checkpoints; CHECKPOINT_DIR of the node if empty.
        files_sha256: Digest of the tar.gz of its files; empty without files.
        pieces: Events that hold the files.
        is_stopped: Whether the user wants it to end.
    """

    job_id: str
    command: tuple[str, ...]
    nodes: int
    image: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    max_restarts: int = 3
    grace_seconds: int = 60
    processes_per_node: int = 0
    checkpoint_directory: str = ""
    files_sha256: str = ""
    pieces: int = 0
    is_stopped: bool = False


def pieces_of(files: bytes) -> list[str]:
    """The events that hold files.

    Args:
        files: A tar.gz; none if empty.
    """
    pieces = [files[start : start + _PIECE_BYTES] for start in range(0, len(files), _PIECE_BYTES)]
    return [json.dumps({"piece": number, "data": base64.b64encode(one).decode()}) for number, one in enumerate(pieces)]


def with_files(request: JobRequest, files: bytes) -> JobRequest:
    """A request that names its files by their digest."""
    if not files:
        return request
    return replace(request, pieces=len(pieces_of(files)), files_sha256=hashlib.sha256(files).hexdigest())


def as_text(request: JobRequest) -> str:
    """The value of the parameter: fields that have their defaults are left out."""
    given = asdict(request)
    defaults = asdict(JobRequest(job_id="", command=(), nodes=0))
    kept = {name: value for name, value in given.items() if value != defaults[name]}
    return json.dumps({"version": VERSION, **kept}, separators=(",", ":"))


def read_request(text: str) -> JobRequest | None:
    """Read the value of a parameter.

    Returns:
        None before the first request.

    Raises:
        RequestError: If it is of another version, or damaged, or could harm a node.
    """
    if text == NO_REQUEST:
        return None
    try:
        given = json.loads(text)
        version = given["version"]
    except (ValueError, KeyError, TypeError) as fault:
        raise RequestError("the request is not readable") from fault
    if version != VERSION:
        raise RequestError(f"the request has version {version!r}, and this node reads {VERSION}")
    try:
        known = {one.name: given[one.name] for one in fields(JobRequest) if one.name in given}
        request = JobRequest(
            **{**known, "command": tuple(known["command"]), "environment": dict(known.get("environment", {}))}
        )
    except (KeyError, TypeError, ValueError) as fault:
        raise RequestError(f"the request is incomplete: {type(fault).__name__}: {fault}") from fault
    _check(request)
    return request


def read_files(request: JobRequest, messages: Iterable[str]) -> bytes | None:
    """The files of a request, from the events that hold them.

    Returns:
        None while events are missing: CloudWatch Logs shows them a moment after it has accepted them.

    Raises:
        RequestError: If they are not those of the request.
    """
    pieces = dict(filter(None, map(_piece, messages)))
    if not all(number in pieces for number in range(request.pieces)):
        return None
    files = b"".join(pieces[number] for number in range(request.pieces))
    if request.files_sha256 != (hashlib.sha256(files).hexdigest() if files else ""):
        raise RequestError("the files have another digest than the request states")
    return files


def _piece(text: str) -> tuple[int, bytes] | None:
    """One piece; None for an event of someone else: the digest decides."""
    try:
        document = json.loads(text)
        return int(document["piece"]), base64.b64decode(document["data"], validate=True)
    except (ValueError, KeyError, TypeError):
        return None


# Distribution's grammar of references, loosely. An image that begins with a hyphen would be an option of docker.
_IMAGE = re.compile(r"[a-z0-9][A-Za-z0-9._:/@-]{0,511}")
# Far above what is used, such as the seconds between SIGTERM and SIGKILL; the unit waits longer than this.
_MOST = 3_000
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _check(request: JobRequest) -> None:
    """Refuse what could harm a node, whoever wrote it."""
    texts = (
        request.image,
        request.files_sha256,
        *request.command,
        request.checkpoint_directory,
        *request.environment.values(),
    )
    numbers = (request.nodes, request.max_restarts, request.grace_seconds, request.processes_per_node, request.pieces)
    if not isinstance(request.job_id, str) or not JOB_ID.fullmatch(request.job_id):
        raise RequestError("the request has no id of a job")
    if not request.command or not all(isinstance(one, str) and "\0" not in one for one in texts):
        raise RequestError("the request has no command, or one that is no text")
    if not all(isinstance(one, int) and 0 <= one <= _MOST for one in numbers) or not request.nodes:
        raise RequestError(f"a number of the request is no number from 0 to {_MOST:,}")
    if request.image and not _IMAGE.fullmatch(request.image):
        raise RequestError("the image of the request has no name of an image")
    # A file of variables for docker has one in each line.
    if not all(_NAME.fullmatch(name) and "\n" not in value for name, value in request.environment.items()):
        raise RequestError("a variable of the request has no name of a variable, or a value of several lines")
