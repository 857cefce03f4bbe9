"""What a user says about a model server: image, health path, variables, secrets and weights."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cdk_gpu_clusters.errors import Finding, Severity, define_rule
from cdk_gpu_clusters.rules.checkpoints import check_bucket_name

# The grammar of distribution/reference, the Go package that Docker reads references with: registry[:port]/path, then
# :tag and @digest.
_DOMAIN = (
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*(?::\d+)?"
)
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:{_DOMAIN}/)?{_COMPONENT}(?:/{_COMPONENT})*(?::(?P<tag>\w[\w.-]{{0,127}}))?"
    r"(?P<digest>@sha256:[0-9a-f]{64})?",
    re.ASCII,
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_ARN = re.compile(
    r"arn:aws[a-z-]*:(?:secretsmanager:[a-z0-9-]+:\d{12}:secret:[A-Za-z0-9/_+=.@-]+"
    r"|ssm:[a-z0-9-]+:\d{12}:parameter/[A-Za-z0-9/_.-]+)"
)
# Amazon ECR user guide, "Amazon ECR registries" and "Making requests over dual-stack endpoints"; FIPS endpoints have
# a name of their own.
_ECR_IMAGE = re.compile(
    r"(\d{12})\.dkr[.-]ecr(?:-fips)?\.([a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|on\.(?:aws|amazonwebservices\.com\.cn))/"
    r"([^:@]+)(?:[:@].*)?"
)
_S3_ADDRESS = re.compile(r"s3://([^\s/]{3,63})(?:/\S*)?")
#: Variables that the node sets for every server.
RESERVED_VARIABLES = frozenset({"MODEL_SERVER_INDEX"})

HEALTH_PATH = define_rule(
    "GPU-INF-005",
    "a health path begins with a slash and is one printable word",
    source="RFC 9112, 3.2.1: the origin form of a request target",
)
IMAGE_FORM = define_rule(
    "GPU-INF-006",
    "a container image is named as Docker names it",
    source="distribution/reference, the grammar of image references",
)
IMAGE_MOVES = define_rule(
    "GPU-INF-007",
    "servers of one fleet run one image: a digest or a tag that is not moved",
    source="a node that starts later pulls what the tag means then",
)
VARIABLES = define_rule(
    "GPU-INF-008",
    "variables of a server have shell names, one line each, and no two values",
    source="Docker reference, docker run --env-file: one NAME=value line each",
)
SECRET_FORM = define_rule(
    "GPU-INF-009",
    "a secret is named by the ARN of a Secrets Manager secret or a Parameter Store parameter",
    source="Service Authorization Reference, resource types of Secrets Manager and Systems Manager",
)
WEIGHTS_PLACE = define_rule(
    "GPU-INF-011",
    "model weights lie in an absolute folder of the node, or come from an s3:// address",
    source="Docker reference, docker run --volume; AWS CLI reference, s3 sync",
)


CONTAINER_PORT = define_rule(
    "GPU-INF-020", "a server listens on a port from 1 to 65,535", source="RFC 9293, 3.1: 16 bits"
)
COMMAND = define_rule(
    "GPU-INF-021",
    "arguments of a server are one printable line each",
    source="they travel in a shell file of the user data",
)


class EcrImage(NamedTuple):
    """Where a private ECR repository stands."""

    account: str
    region: str
    repository: str


def read_ecr_image(reference: str) -> EcrImage | None:
    """The ECR repository of an image reference; None if it is of another registry.

    Example:
        >>> read_ecr_image("111122223333.dkr.ecr.us-east-1.amazonaws.com/models/server:v1")
        EcrImage(account='111122223333', region='us-east-1', repository='models/server')
    """
    found = _ECR_IMAGE.fullmatch(reference)
    return None if found is None else EcrImage(*found.groups())


def check_health_path(path: str) -> list[Finding]:
    """Find a health path that no server could be asked for."""
    if path.startswith("/") and path.isascii() and path.isprintable() and not re.search(r"[\s\"'#\\]", path):
        return []
    return [
        HEALTH_PATH.finding(
            cause="this is not the path of a health check",
            got=repr(path),
            allowed="a path such as /health",
            fix="begin the path with a slash, and leave spaces, quotes and fragments out",
        )
    ]


def check_container_image(image: str | None, *, tag: str | None = None) -> list[Finding]:
    """Find what is wrong with the reference of a container image.

    Args:
        image: The reference; None for a repository, or for a text that only the deployment knows.
        tag: Tag or digest in the repository.

    Returns:
        `GPU-INF-006` where Docker would refuse it, and the warning `GPU-INF-007` where it names an image that moves.
    """
    reference = f"repository{'@' if (tag or '').startswith('sha256:') else ':'}{tag or 'latest'}"
    if image is not None:
        reference = image if tag is None else f"{image} and tag {tag}"
    found = _IMAGE.fullmatch(reference)
    if found is None:
        return [
            IMAGE_FORM.finding(
                cause="this is not a reference of a container image",
                got=repr(reference),
                allowed="[registry/]name[:tag][@sha256:digest], the name in lower case; tag only with a repository",
                fix="write it as docker pull takes it, without https://",
            )
        ]
    if found["digest"] or found["tag"] not in (None, "latest"):
        return []
    return [
        IMAGE_MOVES.finding(
            cause="nodes that start at different times may run different images",
            got=reference,
            allowed="a tag that is not moved, or a digest",
            fix="name the version, best by its digest",
            severity=Severity.WARNING,
        )
    ]


def check_container_port(port: int) -> list[Finding]:
    """Find a port on which nothing can listen."""
    if 1 <= port <= 65_535:
        return []
    return [
        CONTAINER_PORT.finding(
            cause="no server can listen there", got=str(port), allowed="1 to 65,535", fix="change port"
        )
    ]


def check_command(command: Iterable[str]) -> list[Finding]:
    """Find arguments that are not one printable line each."""
    return [
        COMMAND.finding(
            cause="an argument is more than one printable line",
            got=repr(argument),
            fix="put long texts into a file of the image or of the weights",
        )
        for argument in command
        if not argument.isprintable()
    ]


def check_variables(environment: Mapping[str, str], secrets: Iterable[str]) -> list[Finding]:
    """Find variables that a server would not get as they stand.

    Args:
        environment: Plain variables; values may be tokens.
        secrets: Names of the variables that hold secrets.
    """
    names = list(secrets)
    findings = []
    for name in (*environment, *names):
        if not _VARIABLE.fullmatch(name):
            findings.append(_variable("this is not the name of a variable", name))
        elif name in RESERVED_VARIABLES:
            findings.append(_variable("the node sets this variable itself", name))
    findings += [
        _variable("this variable has a plain value and a secret", name)
        for name in names
        if name in environment
    ]
    findings += [
        _variable("the value is more than one printable line", f"{name}={value!r}")
        for name, value in environment.items()
        if not value.isprintable()
    ]
    return findings


def check_secret_arn(arn: str) -> list[Finding]:
    """Find an ARN that names neither a secret nor a parameter."""
    if _SECRET_ARN.fullmatch(arn):
        return []
    return [
        SECRET_FORM.finding(
            cause="this names no secret and no parameter",
            got=repr(arn),
            allowed="arn:<partition>:secretsmanager:…:secret:… or arn:<partition>:ssm:…:parameter/…",
            fix="give the ARN; a secret's own value never belongs here",
        )
    ]


def check_weights(path: str, uri: str | None) -> list[Finding]:
    """Find a place of model weights that a node could not mount or copy from.

    Args:
        path: Folder on the node.
        uri: `s3://bucket/prefix` to copy from at boot, None for a folder that is there.
    """
    findings = []
    if not re.fullmatch(r"/[\w./-]*[\w-]", path, re.ASCII) or ".." in path.split("/"):
        findings.append(_weights("the weights do not lie in a folder of the node", path, "/fsx/models/llama"))
    address = None if uri is None else _S3_ADDRESS.fullmatch(uri)
    if uri is not None and (address is None or check_bucket_name(address[1])):
        findings.append(_weights("the weights come from no S3 address", uri, "s3://bucket/prefix"))
    return findings


def _variable(cause: str, got: str) -> Finding:
    return VARIABLES.finding(
        cause=cause, got=got, allowed="a name such as MAX_MODEL_LEN, once", fix="rename it"
    )


def _weights(cause: str, got: str, example: str) -> Finding:
    return WEIGHTS_PLACE.finding(cause=cause, got=repr(got), allowed=f"such as {example}", fix="correct it")
