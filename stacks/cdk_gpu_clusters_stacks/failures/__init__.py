"""Why nodes are not there: failures in an account, each with its cause and its fix. Imports no CDK."""

from .answers import Message, NothingKnown, messages_of, messages_of_text
from .reading import Reading, policy_to_explain, read_account, read_saved
from .report import Failure, as_json, failures_of, format_failures, saved_text
from .table import Known, Meaning, Place, known_messages, meanings_of

__all__ = [
    "Failure",
    "Known",
    "Meaning",
    "Message",
    "NothingKnown",
    "Place",
    "Reading",
    "as_json",
    "failures_of",
    "format_failures",
    "known_messages",
    "meanings_of",
    "messages_of",
    "messages_of_text",
    "policy_to_explain",
    "read_account",
    "read_saved",
    "saved_text",
]
