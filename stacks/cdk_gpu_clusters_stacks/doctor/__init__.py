"""The live cluster against its plan: what differs, what that breaks, and how to mend it. Imports no CDK."""

from .examine import Diagnosis, Drift, examine
from .live import policy_to_examine
from .report import as_json, format_diagnosis

__all__ = ["Diagnosis", "Drift", "as_json", "examine", "format_diagnosis", "policy_to_examine"]
