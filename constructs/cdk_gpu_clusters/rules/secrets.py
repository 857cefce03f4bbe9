"""Secrets in what everyone may read: environments, commands, manifests and user data.

A secret is found by its value or by its name. The forms of values are those that their issuers publish and scanners
share: gitleaks' rules (gitleaks/gitleaks, config/gitleaks.toml @ b58d3f10); for Groq, LangSmith, Replicate, Tailscale
and xAI, TruffleHog's detectors (trufflesecurity/trufflehog, pkg/detectors); for NVIDIA, the NGC user guide; for Docker
Hub, npm's `_authToken` and Weights & Biases, keys in many public repositories (read 2026-11-23). No detector for Python
knows the tokens of Hugging Face and NVIDIA (detect-secrets 1.5.0, the newest, of May 2024), so the table is here, and
the tests compare it with detect-secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cdk_gpu_clusters.errors import Finding, define_rule

SECRET = define_rule(
    "GPU-UD-002",
    "Environments, commands and user data hold no secret",
    source="AWS EC2 user guide, instance metadata: user data is not protected by authentication or cryptography; AWS "
    "CloudFormation user guide, security best practices: do not embed credentials in your templates",
)

#: The way to give a secret to whatever runs on a node, and to a container of a model server.
FETCH = (
    "keep it in Secrets Manager or SSM Parameter Store, and fetch it on the node with the instance role; if it is no "
    "secret, add {name} to not_secret of the fleet"
)
NAME_ITS_ARN = (
    "keep it in Secrets Manager or SSM Parameter Store, and give the server the variable by secrets, with the ARN; if "
    "it is no secret, add {name} to not_secret of the fleet"
)
OF_POD = (
    "keep it in a Kubernetes Secret, and give the server the variable by secrets; if it is no secret, add {name} to "
    "not_secret of the server"
)
OF_JOB = (
    "keep it in a Kubernetes Secret, and refer to it by valueFrom.secretKeyRef in the object that this returns; if it "
    "is no secret, set it in that object"
)
OF_BATCH_JOB = (
    "keep it in Secrets Manager or SSM Parameter Store, and fetch it in the container with the role of the job; if it "
    "is no secret, add {name} to not_secret"
)


@dataclass(frozen=True, slots=True)
class Secret:
    """What looks like a secret in a text.

    Attributes:
        kind: What it looks like, such as `an AWS access key id`.
        name: Name of the variable or option; empty if there is none.
        value: The value itself, which no message may repeat.
        line: Line of the text, from 1.
    """

    kind: str
    name: str
    value: str
    line: int


# A secret by its value: what it is, a text that is in every such value, and its form. Searching for the text first is a
# hundred times faster.
_FORMS: Sequence[tuple[str, tuple[str, ...], str]] = (
    ("an AWS access key id", ("AKIA", "ASIA", "ABIA", "ACCA"), r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    ("a key of Amazon Bedrock", ("ABSK", "bedrock-api-key-"), r"\b(?:ABSK[A-Za-z0-9+/]{109}|bedrock-api-key-\w{16})"),
    ("a token of Amazon EKS", ("k8s-aws-v1.",), r"\bk8s-aws-v1\.[\w=-]{16,}"),
    ("a private key", ("PRIVATE KEY",), r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"),
    ("an age key", ("AGE-SECRET-KEY-1",), r"\bAGE-SECRET-KEY-1[A-Z0-9]{58}"),
    ("a token of Hugging Face", ("hf_", "api_org_"), r"\b(?:hf|api_org)_[A-Za-z0-9]{20,}"),
    ("a key of NVIDIA NGC", ("nvapi-",), r"\bnvapi-[\w-]{20,}"),
    ("a key of Weights & Biases", ("wandb_v1_",), r"\bwandb_v1_\w{20,}"),
    ("a key of Weights & Biases", ("wandb login",), r"\bwandb login\b[^\n]*?\s(?P<value>[0-9a-f]{40})\b"),
    ("a key of Groq", ("gsk_",), r"\bgsk_[A-Za-z0-9]{52}\b"),
    ("a key of xAI", ("xai-",), r"\bxai-\w{80}\b"),
    ("a token of Replicate", ("r8_",), r"\br8_[\w-]{37}"),
    ("a key of LangSmith", ("lsv2_",), r"\blsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}\b"),
    ("a key of a model service", ("sk-",), r"\bsk-(?=[\w-]*\d)[\w-]{20,}"),
    ("a key of Google", ("AIza",), r"\bAIza[\w-]{35}"),
    ("a token of GitHub", ("gh", "github_pat_"), r"\b(?:gh[oprsu]_[0-9A-Za-z]{36}|github_pat_\w{22,})"),
    (
        "a token of GitLab",
        ("gl", "GR1348941"),
        r"\b(?:gl(?:pat|dt|ft|rt|ptt|oas|cbt|imt|agent|soat)-[\w.-]{20,}|GR1348941[\w-]{20})",
    ),
    ("a token of Slack", ("xox", "xapp-"), r"\b(?:xox[abeoprs]-[\w-]{10,}|xapp-\d-[\w-]{10,})"),
    ("a webhook of Slack", ("hooks.slack.com",), r"hooks\.slack\.com/(?:services|workflows|triggers)/[\w+/]{20,}"),
    ("a key of Stripe", ("k_live_", "k_test_"), r"\b(?:sk|rk)_(?:test|live|prod)_[0-9A-Za-z]{10,}"),
    ("a token of npm", ("npm_",), r"\bnpm_[0-9A-Za-z]{36}"),
    ("a token of npm", ("_authToken",), r":_authToken=(?P<value>[\w-]{8,})"),
    ("a token of PyPI", ("pypi-AgE",), r"\bpypi-AgE[\w-]{50,}"),
    ("a token of Docker Hub", ("dckr_",), r"\bdckr_(?:pat|oat)_[\w-]{20,}"),
    ("a token of Vault", ("hvs.", "hvb."), r"\bhv[sb]\.[\w-]{20,}"),
    ("a token of Terraform", (".atlasv1.",), r"\b[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,}"),
    ("a token of Pulumi", ("pul-",), r"\bpul-[a-f0-9]{40}\b"),
    ("a key of Prefect", ("pnu_",), r"\bpnu_[A-Za-z0-9]{36}\b"),
    ("a key of Tailscale", ("tskey-",), r"\btskey-[a-z]+-\w+-\w{8,}"),
    ("a token of Artifactory", ("AKCp", "cmVmd"), r"\b(?:AKCp[A-Za-z0-9]{69}|cmVmd[A-Za-z0-9]{59})\b"),
    ("a token of Sentry", ("sntryu_",), r"\bsntryu_[a-f0-9]{64}\b"),
    ("a secret of Microsoft Entra ID", ("Q~",), r"(?<![\w.~-])[\w.~]{3}\dQ~[\w.~-]{31,34}(?![\w.~-])"),
    ("a token of Databricks", ("dapi",), r"\bdapi[a-f0-9]{32}"),
    ("a token of DigitalOcean", ("_v1_",), r"\bdo[opr]_v1_[a-f0-9]{64}"),
    ("a token of Grafana", ("glc_", "glsa_"), r"\b(?:glc_[A-Za-z0-9+/]{32,}|glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8})"),
    ("a key of Perplexity", ("pplx-",), r"\bpplx-[A-Za-z0-9]{48}"),
    ("a key of SendGrid", ("SG.",), r"\bSG\.[\w-]{22}\.[\w-]{43}"),
    ("a key of Twilio", ("SK", "AC"), r"\b(?:SK|AC)[0-9a-f]{32}\b"),
    ("a key of Mailchimp", ("-us",), r"\b[0-9a-f]{32}-us[0-9]{1,2}\b"),
    ("a token of Square", ("sq0",), r"\bsq0(?:atp|csp)-[\w-]{22,}"),
    ("a token of a bot of Telegram", (":AA",), r"\b\d{8,10}:AA[\w-]{33}\b"),
    ("a key of Azure Storage", ("AccountKey=",), r"\bAccountKey=[A-Za-z0-9+/=]{88}"),
    ("a JSON Web Token", ("ey",), r"\bey[A-Za-z0-9]{17,}\.ey[\w/\\-]{17,}(?:\.[\w/\\=-]*)?"),
    ("a password in a URL", ("://",), r"://[^\s/:@$<{'\"]*:(?P<value>[^\s/@$<{'\"]+)@"),
    (
        "a password of an HTTP request",
        ("uthorization", "UTHORIZATION", "earer "),
        r"(?i)(?:authorization[\"']?\s*[:=]\s*[\"']?(?:basic|token)|\bbearer)\s+(?P<value>[\w.~+/=-]{8,})",
    ),
    (
        "a password of an HTTP request",
        ("curl ",),
        r"\bcurl\b[^\n]*\s(?:-u|--user)[ =]?[\"']?[^\s:$\"']+:(?P<value>[^\s$\"'<{]+)",
    ),
    ("a password", ("sshpass",), r"\bsshpass\s+-p\s*[\"']?(?P<value>[^\s$\"'<{]+)"),
    ("a password", ("chpasswd",), r"\becho\s+[\"']?[\w-]+:(?P<value>[^\s$\"'|]+)[\"']?\s*\|\s*(?:sudo\s+)?chpasswd"),
)
_COMPILED = tuple((kind, words, re.compile(pattern)) for kind, words, pattern in _FORMS)

# A secret by its name: `NAME=value`, `name: value`, `"name": "value"`, `--name value`. A name after `$` is read, not
# written, and one after `/` or `:` is part of a path, an image or an ARN.
_VALUE = r"[\"']?(?P<value>[^\s\"'`,;&|]+)"
_NAMED = (
    re.compile(rf"(?<![\w$}}{{./:@-])(?P<name>[A-Za-z_][\w.-]*)[\"']?[ \t]*(?:=|:[ \t]+|:(?=[\"']))[ \t]*{_VALUE}"),
    re.compile(rf"(?<![\w-])--?(?P<name>[A-Za-z][\w-]*)[\"']?[ =]{_VALUE}"),
    re.compile(rf"\baws configure set (?:\S+\s+)*?(?P<name>aws_[a-z_]+)\s+{_VALUE}"),
)
_WORDS = ("pass", "pwd", "secret", "token", "credential", "key")
_IS_SECRET = re.compile(
    r"(?:passw(?:or)?d|passphrase|(?:^|[_.-])(?:pwd|pass)|secret|(?:^|[_.-])token|credentials?"
    r"|(?:^|[_.-])(?:api|access|secret|auth|private|signing|license|account|master|storage"
    r"|kaggle)[_-]?key)\d*$"
)
# Words of a model's vocabulary: those of tokenizers, and of textual inversion (huggingface/diffusers, examples).
_OF_VOCABULARY = re.compile(
    r"(?:bos|cls|end|eos|image|initializer|mask|pad|placeholder|sep|special|start|stop|unk)[_-]token$"
)
# What refers to a secret, or is none: a variable, a path, an address, a call, a placeholder.
_REFERENCE = re.compile(
    r"[$<{}()\[\]/%@#!*~\\`+=-]|arn:|s3://|https?://|file:|ssm:|env:|(?:os|sys|self|args|config|settings)\.|\w[\w.]*[(\[]"
)
_PLACEHOLDERS = re.compile(
    r"auto|changeme|default|disabled|dummy|empty|enabled|example|false|no|none|not-needed|null|off|on|optional"
    r"|placeholder|redacted|required|string|true|unset|unused|yes"
)
_LEAST_CHARACTERS = 4


def find_secrets(text: str) -> list[Secret]:
    """What looks like a secret in a text, in order.

    Args:
        text: A script, a document, or one variable as `NAME=value`.

    Example:
        >>> [secret.name for secret in find_secrets("export DB_PASSWORD=hunter22")]
        ['DB_PASSWORD']
        >>> find_secrets("export DB_PASSWORD=$(cat /run/secrets/db)")
        []
    """
    named = dict(_named(text))
    found = dict(_formed(text))
    # A value with a name is named by it, whatever found it.
    for place, (name, value) in named.items():
        inside = [one for one in found if one[0] < place[1] and place[0] < one[1]]
        kind = found.pop(inside[0]) if inside else ""
        for other in inside[1:]:
            del found[other]
        if kind or _is_secret(name, value):
            found[place] = kind or f"the value of {name}"
    return [
        Secret(kind, named.get(place, ("", ""))[0], text[slice(*place)], text.count("\n", 0, place[0]) + 1)
        for place, kind in sorted(found.items())
    ]


def _formed(text: str) -> Iterator[tuple[tuple[int, int], str]]:
    for kind, words, pattern in _COMPILED:
        if any(word in text for word in words):
            for match in pattern.finditer(text):
                group = "value" if "value" in pattern.groupindex else 0
                if group == 0 or _is_literal(match[group]):
                    yield match.span(group), kind


def _named(text: str) -> Iterator[tuple[tuple[int, int], tuple[str, str]]]:
    for pattern in _NAMED if any(word in text.lower() for word in _WORDS) else ():
        for match in pattern.finditer(text):
            yield match.span("value"), (match["name"], match["value"])


def _is_secret(name: str, value: str) -> bool:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    if not any(word in words for word in _WORDS):
        return False
    return bool(_IS_SECRET.search(words) and not _OF_VOCABULARY.search(words) and _is_literal(value, words))


def _is_literal(value: str, name: str = "") -> bool:
    if len(value) < _LEAST_CHARACTERS or _REFERENCE.match(value) or _PLACEHOLDERS.fullmatch(value.lower()):
        return False
    is_count = value.isdigit() and not name.rstrip("0123456789").endswith(("pass", "passwd", "password", "pwd"))
    return not is_count and bool(set(value.lower()) - set("x*."))


def check_secrets(text: str, *, not_secret: Sequence[str] = (), fix: str = FETCH) -> list[Finding]:
    """Find secrets in user data or a part of it. The finding never repeats them.

    Args:
        text: The user data, or a script or setting that goes into it.
        not_secret: Names of variables and options, and values, that only look like secrets.
        fix: The way to do it right here; `{name}` in it is what to acknowledge.
    """
    return [_finding(secret, f"line {secret.line}", fix) for secret in _remaining(find_secrets(text), not_secret)]


def check_secret_variables(
    environment: Mapping[str, str], *, not_secret: Sequence[str] = (), fix: str = FETCH
) -> list[Finding]:
    """Find secrets in variables. The path of a finding is the variable's name.

    Args:
        environment: The variables.
        not_secret: As for `check_secrets`.
        fix: As for `check_secrets`.

    Example:
        >>> [finding.path for finding in check_secret_variables({"HF_TOKEN": "hf_abcdefgh", "A": "b"})]
        ['HF_TOKEN']
    """
    return [
        replace(_finding(found[0], name, fix), path=name)
        for name, value in environment.items()
        if (found := _remaining(_of_variable(name, value), not_secret))
    ]


def _of_variable(name: str, value: str) -> list[Secret]:
    by_name = [Secret(f"the value of {name}", name, value, 1)] if _is_secret(name, value) else []
    return [replace(secret, name=name) for secret in find_secrets(value)] or by_name


def check_secret_arguments(
    command: Sequence[str], *, not_secret: Sequence[str] = (), fix: str = FETCH
) -> list[tuple[int, Finding]]:
    """Find secrets in a command, each with the number of its argument, from 0.

    Args:
        command: The program's arguments.
        not_secret: As for `check_secrets`.
        fix: As for `check_secrets`.

    Example:
        >>> [number for number, _ in check_secret_arguments(["--port", "80", "--api-key", "sesame"])]
        [3]
    """
    faults = []
    for number, argument in enumerate(command):
        option = command[number - 1] if number else ""
        name = option.lstrip("-") if option.startswith("-") and "=" not in option else ""
        found = _of_variable(name, argument) if name else find_secrets(argument)
        faults += [(number, _finding(one, "this argument", fix)) for one in _remaining(found, not_secret)[:1]]
    known = {number for number, _ in faults}
    for one in _remaining(_over_words(command), not_secret):
        number = next(at for at, argument in enumerate(command) if one.value in argument)
        if number not in known:
            faults.append((number, _finding(one, "this argument", fix)))
    return sorted(faults, key=lambda fault: fault[0])


def _over_words(command: Sequence[str]) -> list[Secret]:
    """Secrets whose form needs several arguments, such as the key of `wandb login KEY`."""
    text = " ".join(command)
    found = [(kind, text[slice(*place)]) for place, kind in _formed(text)]
    return [Secret(kind, "", value, 1) for kind, value in found if any(value in argument for argument in command)]


def check_container_secrets(
    environment: Mapping[str, str], command: Sequence[str], *, not_secret: Sequence[str] = (), fix: str
) -> list[Finding]:
    """Find secrets in what a container is started with.

    Args:
        environment: Its variables; values may be tokens.
        command: Its arguments; they may be tokens.
        not_secret: As for `check_secrets`.
        fix: As for `check_secrets`.

    Returns:
        Findings with paths such as `environment.HF_TOKEN` and `command[3]`.
    """
    return [
        *(one.at("environment") for one in check_secret_variables(environment, not_secret=not_secret, fix=fix)),
        *(
            one.at(f"command[{number}]")
            for number, one in check_secret_arguments(command, not_secret=not_secret, fix=fix)
        ),
    ]


def _remaining(found: Iterable[Secret], not_secret: Sequence[str]) -> list[Secret]:
    acknowledged = {*not_secret, *(one.lstrip("-") for one in not_secret)}
    return [secret for secret in found if not {secret.name, secret.value} & acknowledged]


def _finding(secret: Secret, place: str, fix: str) -> Finding:
    return SECRET.finding(
        cause=f"this looks like {secret.kind}, and everyone who may read the template or the node's user data can "
        "read it",
        got=place,
        allowed="a reference to a secret, such as its ARN, or the path of a file",
        fix=fix.format(name=secret.name or "the text"),
    )
