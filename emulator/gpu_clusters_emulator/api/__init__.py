"""API operations that the models answer instead of the engine, in the shapes of the AWS API models."""

from __future__ import annotations

from .dispatch import SIGNED_NAMES, Answer, Request, answer, call, call_from_states, denial

__all__ = ["SIGNED_NAMES", "Answer", "Request", "answer", "call", "call_from_states", "denial"]
