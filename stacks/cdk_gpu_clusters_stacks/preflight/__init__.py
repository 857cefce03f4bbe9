"""Whether an account can take a cluster, asked before anything is made: read-only checks by boto3. Imports no CDK."""

from .account import Account, boto3_clients
from .call import Unusable
from .check import AREAS, Check, Outcome, Verdict, every_check, policy_for
from .run import CheckResult, Preflight, run_preflight

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
    "every_check",
    "policy_for",
    "run_preflight",
]
