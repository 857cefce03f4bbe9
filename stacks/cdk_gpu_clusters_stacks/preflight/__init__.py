"""Whether an account can take a cluster, asked before anything is made: read-only checks by boto3. Imports no CDK."""

from .account import Account
from .answer import Unusable
from .check import Check, Outcome, Verdict
from .policy import policy_for
from .registry import AREAS, checks_of, every_check
from .run import CheckResult, Preflight, run_preflight
from .session import boto3_clients

__all__ = [
    "AREAS",
    "Account",
    "Check",
    "CheckResult",
    "Outcome",
    "Preflight",
    "Unusable",
    "Verdict",
    "boto3_clients",
    "checks_of",
    "every_check",
    "policy_for",
    "run_preflight",
]
