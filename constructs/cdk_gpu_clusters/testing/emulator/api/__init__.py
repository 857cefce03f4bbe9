"""API operations that the models answer instead of the engine, in the shapes of the AWS API models."""

from __future__ import annotations

from .dispatch import OPERATIONS, answer, call

__all__ = ["OPERATIONS", "answer", "call"]
