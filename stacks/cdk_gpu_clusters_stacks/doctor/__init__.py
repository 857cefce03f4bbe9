"""The live cluster against its plan: what differs, what that breaks, and how to correct it. Imports no CDK."""

from .diagnosis import Diagnosis, Drift
from .examine import examine
from .live import policy_to_examine
from .report import as_json, format_diagnosis

__all__ = ["Diagnosis", "Drift", "as_json", "examine", "format_diagnosis", "policy_to_examine"]
