"""Advice for a model: its memory with the arithmetic, the types that hold it, and what they cost a day."""

from .model import Advice, AdviceRow
from .serving import advise_serving
from .text import advice_text
from .training import advise_training

__all__ = ["Advice", "AdviceRow", "advice_text", "advise_serving", "advise_training"]
