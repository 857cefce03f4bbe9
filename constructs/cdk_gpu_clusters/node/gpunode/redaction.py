"""Secrets in text that leaves the node: found by their form or by their name, and replaced.

The forms are those of gitleaks' public rules (gitleaks/gitleaks, config/gitleaks.toml @ 009e025): private-key,
aws-access-token, jwt, the tokens of GitHub, GitLab, Hugging Face, Slack and others, curl-auth-header, generic-api-key.
gitleaks only reports what looks random. Here a value goes whenever its name is that of a secret: a weak password is
one, too. A secret that has neither a known form nor a name, or that is encoded, is not found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Union

REDACTED = "[redacted]"

# The end of a name that belongs to a secret. PWD alone is the working directory.
_NAME = (
    r"(?:passw|passphrase|[_-]pwd|secret|token(?!iz|s\b)|credential"
    r"|(?:api|access|account|auth|encryption|private|session|signing|ssh)[_-]?key)"
)
# A value in quotes, which JSON inside of JSON escapes, or up to the next blank or separator.
_VALUE = r"(?:(?P<quote>\\?[\"'])(?:(?!(?P=quote)).)*(?P=quote)?|[^\s\"'&;,\\\x00]+)"
_KEY_BEGIN, _KEY_END = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY", r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY"
# An RSA key of 16,384 bits has 12,500 characters. A line that only looks like the beginning must not hide everything.
_KEY_CHARACTERS = 16_384

_Replacement = Union[str, Callable[["re.Match[str]"], str]]


def _option(match: re.Match[str]) -> str:
    return f"{match['option']}{REDACTED}" if _IS_SECRET.search(match["option"]) else match[0]


_IS_SECRET = re.compile(_NAME, re.IGNORECASE)
# Each begins with something rare or fixed, and repeats nothing within a repetition: the time grows with the length.
_RULES: Sequence[tuple[re.Pattern[str], _Replacement]] = (
    # A text that was cut may begin or end within a key.
    (re.compile(rf"\A(?:(?!-----BEGIN).){{0,{_KEY_CHARACTERS}}}?{_KEY_END}[^-]*-----", re.DOTALL), REDACTED),
    (
        re.compile(rf"{_KEY_BEGIN}(?:(?!-----END).){{0,{_KEY_CHARACTERS}}}(?:{_KEY_END}[^-\n]*-----)?", re.DOTALL),
        REDACTED,
    ),
    (re.compile(r"\b(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"), REDACTED),
    (re.compile(r"\bey[A-Za-z0-9]{17,}\.ey[\w/\\-]{17,}(?:\.[\w/\\=-]*)?"), REDACTED),
    # Tokens of Amazon EKS (aws-cli, awscli/customizations/eks/get_token.py).
    (re.compile(r"\bk8s-aws-v1\.[\w=-]+"), REDACTED),
    (
        re.compile(
            r"\b(?:hf_|api_org_|gh[oprsu]_|github_pat_|glpat-|gl[a-z]{2,4}-|xox[abeoprs]-|xapp-|sk-|sk_live_|rk_live_"
            r"|nvapi-|npm_|pypi-|dckr_pat_|hvs\.|hvb\.|dop_v1_|AIza)[\w.-]{16,}"
        ),
        REDACTED,
    ),
    # Signatures of presigned URLs (Amazon S3 user guide, "Authenticating requests: using query parameters").
    (
        re.compile(
            r"([?&](?:X-Amz-(?:Signature|Security-Token|Credential)|Signature|AWSAccessKeyId|sig)=)[^&\s\"'<>]+",
            re.IGNORECASE,
        ),
        rf"\1{REDACTED}",
    ),
    (re.compile(r"(://)[^\s/@]{1,1000}@"), rf"\1{REDACTED}@"),
    (re.compile(r"(authorization\\?[\"']?\s{0,3}[:=]\s{0,3})[^\"'\n\\]+", re.IGNORECASE), rf"\1{REDACTED}"),
    (re.compile(r"(\bbearer\s{1,3})[\w.~+/=-]{8,}", re.IGNORECASE), rf"\1{REDACTED}"),
    (
        re.compile(rf"({_NAME}[\w.-]{{0,50}}\\?[\"']?\s{{0,3}}(?:=>|[=:])\s{{0,3}}){_VALUE}", re.IGNORECASE),
        rf"\g<1>{REDACTED}",
    ),
    # Arguments of programs, as `ps` prints them.
    (re.compile(rf"(?P<option>(?<![\w-])--?[A-Za-z][\w-]{{1,60}}[ =\x00]){_VALUE}"), _option),
    (re.compile(rf"(\baws_(?:secret_access_key|session_token)\s{{1,3}}){_VALUE}", re.IGNORECASE), rf"\g<1>{REDACTED}"),
    (re.compile(r"(\b(?:curl\b[^\n]{0,500}?\s(?:-u|--user)|sshpass\s+-p)[ =]?)[^\s]+"), rf"\1{REDACTED}"),
)


def redacted(text: str) -> str:
    """A text without the secrets that are found in it.

    Example:
        >>> redacted("python train.py --hf-token abc HF_TOKEN=abc")
        'python train.py --hf-token [redacted] HF_TOKEN=[redacted]'
    """
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text
