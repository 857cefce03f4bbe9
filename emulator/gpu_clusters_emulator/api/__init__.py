"""API operations that the models answer instead of the engine, in the shapes of the AWS API models."""

from __future__ import annotations

from .dispatch import OPERATIONS, SIGNED_NAMES, Request, answer, call, call_from_states

__all__ = ["OPERATIONS", "SIGNED_NAMES", "Request", "answer", "call", "call_from_states"]
